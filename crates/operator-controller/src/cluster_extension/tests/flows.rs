//! The flows of the documents about ClusterExtensions, by their numbers in the checklist.

use std::time::Duration;

use olm_testing::cluster::Fault;
use serde_json::{Value, json};

use super::{INSTALLED_1, REACHED, names};
use crate::cluster_extension::test_env::{TestBundle, TestEnv};

/// Serves the package `p` with these channels, each a list of versions that replace the one before.
fn channels(env: &mut TestEnv, channels: &[(&str, &[&str])]) {
    let mut documents = vec![json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable"})];
    let mut versions = Vec::new();
    for (name, listed) in channels {
        let mut entries = Vec::new();
        for (index, version) in listed.iter().enumerate() {
            let before = index
                .checked_sub(1)
                .map(|before| format!("p.v{}", listed[before]));
            entries.push(json!({"name": format!("p.v{version}"), "replaces": before.unwrap_or_default()}));
            if !versions.contains(version) {
                versions.push(version);
            }
        }
        documents.push(json!({"schema": "olm.channel", "name": name, "package": "p", "entries": entries}));
    }
    documents.extend(versions.into_iter().map(bundle));
    env.documents("c", &documents);
}

fn bundle(version: &str) -> Value {
    json!({
        "schema": "olm.bundle", "name": format!("p.v{version}"), "package": "p", "image": format!("reg.example/p:{version}"),
        "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": version}}],
    })
}

#[test]
fn v1_004_v1_007_v1_012_a_channel_is_followed_within_the_wanted_versions() {
    let mut env = TestEnv::new();
    let fast: (&str, &[&str]) = ("fast", &["1.0.0", "1.1.0", "2.0.0"]);
    channels(&mut env, &[("stable", &["1.0.0"]), fast]);
    env.extension(&json!({"channels": ["stable"]}));
    assert_eq!(env.installed().0, "1.0.0");
    channels(&mut env, &[("stable", &["1.0.0", "1.1.0"]), fast]);
    env.settle_for(20);
    assert_eq!(
        env.installed().0,
        "1.1.0",
        "what the channel gets is installed by itself"
    );
    let both = json!({"spec": {"source": {"catalog": {"channels": ["fast"], "version": "1.x"}}}});
    env.edit("ClusterExtension", "e", &both);
    env.settle_for(20);
    assert_eq!(
        env.installed().0,
        "1.1.0",
        "the channel has a newer one, which is not wanted"
    );
    let channel = json!({"spec": {"source": {"catalog": {"version": null}}}});
    env.edit("ClusterExtension", "e", &channel);
    env.settle_for(20);
    assert_eq!(env.installed().0, "2.0.0");
}

/// Maximum number of requests of an installation by verb and kind, besides lists and watches. An object is read before it is created, a
/// definition also to compare it with its new form, and the Secret with the objects again if its watch has not begun.
const REQUESTS: [(&str, &str, usize); 13] = [
    ("get", "Namespace", 1),
    ("get", "Secret", 2),
    ("get", "ConfigMap", 1),
    ("get", "CustomResourceDefinition", 2),
    ("get", "Deployment", 1),
    ("apply", "Secret", 1),
    ("apply", "ClusterObjectSet", 1),
    ("apply", "ConfigMap", 1),
    ("apply", "CustomResourceDefinition", 1),
    ("apply", "Deployment", 1),
    // Its owner.
    ("patch", "Secret", 1),
    // The states of the definition and of the Deployment, and success.
    ("patch", "ClusterObjectSet", 3),
    ("patch", "ClusterExtension", 3),
];

#[test]
fn v1_an_installation_reads_and_writes_nothing_twice() {
    let mut env = TestEnv::new();
    env.extension(&json!({"version": "1.0.0"}));
    env.settle_for(20);
    assert_eq!(env.condition("Progressing"), REACHED);
    let log = env.stage.cluster.take_log();
    for ((verb, kind), count) in log.counts {
        let most = REQUESTS
            .iter()
            .find(|row| (row.0, row.1) == (verb, kind.as_str()));
        let most = most.map_or(0, |row| row.2);
        assert!(
            ["list", "watch"].contains(&verb) || count <= most,
            "{count} of {verb} {kind}: {:#?}",
            log.writes
        );
    }
}

/// Usually a revision has conditions at once, and the first status has them.
#[test]
fn a_revision_that_is_slow_to_report_is_named_by_its_extension() {
    let mut env = TestEnv::new();
    env.stage.cluster.on_request(|request| {
        let is_slow = request.kind.kind == "Deployment" && !request.body.is_null();
        is_slow.then_some(Fault::Delay(Duration::from_secs(25)))
    });
    env.extension(&json!({"version": "1.0.0"}));
    assert_eq!(env.installed(), ("none".to_owned(), names(&["e-1"])));
    assert!(
        env.condition("Installed").starts_with("False Absent: "),
        "{}",
        env.condition("Installed")
    );
    env.settle_for(60);
    assert_eq!(env.condition("Progressing"), REACHED);
}

#[test]
fn v1_008_an_exact_version_stays_until_it_is_edited() {
    let mut env = TestEnv::new();
    env.catalog("c", &["1.0.0"]);
    env.extension(&json!({"version": "1.0.0"}));
    env.catalog("c", &["1.0.0", "1.1.0"]);
    env.settle_for(20);
    assert_eq!(env.installed(), ("1.0.0".to_owned(), names(&["e-1"])));
    assert_eq!(env.condition("Progressing"), REACHED);
    env.ask_for("1.1.0");
    env.settle_for(20);
    assert_eq!(env.installed(), ("1.1.0".to_owned(), names(&["e-2"])));
}

#[test]
fn v1_005_v1_009_v1_010_v1_011_a_range_is_followed_and_not_left() {
    let mut env = TestEnv::new();
    env.catalog("c", &["1.0.0"]);
    env.extension(&json!({"version": ">=1.0.0 <2.0.0"}));
    assert_eq!(env.installed().0, "1.0.0");
    for (versions, installed) in [
        (&["1.0.0", "1.1.0"][..], "1.1.0"),
        (&["1.0.0", "1.1.0", "2.0.0"], "1.1.0"),
    ] {
        env.catalog("c", versions);
        env.settle_for(20);
        assert_eq!(env.installed().0, installed, "{versions:?}");
        assert_eq!(env.condition("Progressing"), REACHED);
    }
}

#[test]
fn v1u_010_v1u_011_semantic_versions_are_followed_where_the_extension_asks_for_it() {
    let mut env = TestEnv::new();
    // Channels of one version each have no edges.
    channels(&mut env, &[("a", &["1.0.0"])]);
    env.extension(&json!({}));
    channels(
        &mut env,
        &[("a", &["1.0.0"]), ("b", &["1.1.0"]), ("c", &["2.0.0"])],
    );
    env.settle_for(20);
    assert_eq!(env.installed().0, "1.0.0");
    let annotated =
        json!({"metadata": {"annotations": {"olm.operatorframework.io/semver-upgrades": "true"}}});
    env.edit("ClusterExtension", "e", &annotated);
    env.settle_for(20);
    assert_eq!(env.installed().0, "1.1.0");
    let forced = json!({"spec": {"source": {"catalog": {"upgradeConstraintPolicy": "SelfCertified"}}}});
    env.edit("ClusterExtension", "e", &forced);
    env.settle_for(20);
    assert_eq!(env.installed().0, "2.0.0");
}

/// A version outside the range is no step towards one inside it.
#[test]
fn v1_011_v1u_003_a_range_with_a_gap_is_crossed_by_an_edge_of_the_catalog_only() {
    let mut env = TestEnv::new();
    env.catalog("c", &["1.0.0"]);
    env.extension(&json!({"version": ">=1.0.0, !=1.1.0"}));
    assert_eq!(env.condition("Installed"), INSTALLED_1);
    env.catalog("c", &["1.0.0", "1.1.0", "2.0.0"]);
    env.settle_for(20);
    assert_eq!(env.installed(), ("1.0.0".to_owned(), names(&["e-1"])));
    assert_eq!(env.condition("Progressing"), REACHED);
    env.catalog("c", &["1.0.0", "2.0.0"]);
    env.settle_for(20);
    assert_eq!(env.installed(), ("2.0.0".to_owned(), names(&["e-2"])));
}

/// The example of the documentation: from 1.0.0 to what skips it by a range, and from there to what skips that.
#[test]
fn v1u_001_v1u_004_v1u_006_the_example_of_the_documentation_takes_two_upgrades() {
    let mut env = TestEnv::new();
    env.bundle(&TestBundle {
        version: "3.0.0",
        ..TestBundle::default()
    });
    env.catalog("c", &["1.0.0"]);
    env.extension(&json!({}));
    assert_eq!(env.condition("Installed"), INSTALLED_1);
    let entries = json!([
        {"name": "p.v3.0.0", "skips": ["p.v2.0.0"]},
        {"name": "p.v2.0.0", "skipRange": ">=1.0.0 <2.0.0"},
    ]);
    env.documents(
        "c",
        &[
            json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable"}),
            json!({"schema": "olm.channel", "name": "stable", "package": "p", "entries": entries}),
            bundle("2.0.0"),
            bundle("3.0.0"),
        ],
    );
    env.settle_for(60);
    assert_eq!(env.installed(), ("3.0.0".to_owned(), names(&["e-3"])));
    let between = env.get("ClusterObjectSet", "e-2")["metadata"]["annotations"].clone();
    assert_eq!(between["olm.operatorframework.io/bundle-version"], "2.0.0");
}

#[test]
fn v1u_007_v1u_008_v1u_009_a_rollback_is_refused_until_it_is_forced() {
    let mut env = TestEnv::new();
    env.extension(&json!({}));
    assert_eq!(env.installed().0, "1.1.0");
    env.ask_for("1.0.0");
    assert_eq!(
        env.condition("Progressing"),
        "True Retrying: error upgrading from currently installed version \"1.1.0\": no bundles found for package \"p\" matching \
         version \"1.0.0\""
    );
    assert_eq!(env.installed(), ("1.1.0".to_owned(), names(&["e-1"])));
    let forced = json!({"spec": {"source": {"catalog": {"upgradeConstraintPolicy": "SelfCertified"}}}});
    env.edit("ClusterExtension", "e", &forced);
    env.settle_for(20);
    assert_eq!(env.condition("Installed"), INSTALLED_1);
    assert_eq!(env.installed().1, names(&["e-2"]));
}

/// Case 28.
#[test]
fn v1_a_second_extension_of_a_package_collides_and_the_first_goes_on() {
    let mut env = TestEnv::new();
    env.extension(&json!({"version": "1.0.0"}));
    env.extension_named("f", &json!({"version": "1.0.0"}));
    for version in ["1.0.0", "1.1.0"] {
        let patch = json!({"spec": {"source": {"catalog": {"version": version}}}});
        env.edit("ClusterExtension", "f", &patch);
        env.settle_for(20);
        let found = env.condition_of("f", "Progressing");
        assert!(
            found.starts_with("True Retrying: revision object collisions in phase ")
                && found.contains("Kind:ClusterObjectSet,Name:e-1,"),
            "{found}"
        );
        assert_eq!(
            env.condition_of("f", "Installed"),
            "False Failed: No bundle installed"
        );
        assert_eq!(env.condition("Installed"), INSTALLED_1);
        assert_eq!(env.condition("Progressing"), REACHED);
    }
    // Once the first is gone, the second is installed.
    env.delete("ClusterExtension", "e");
    env.settle_for(60);
    assert_eq!(env.condition_of("f", "Progressing"), REACHED);
    assert_eq!(env.get("ConfigMap", "a")["data"]["version"], "1.1.0");
}

/// Case 32.
#[test]
fn v1_a_version_with_the_same_content_is_a_revision_that_restarts_nothing() {
    let mut env = TestEnv::new();
    for version in ["1.0.0", "1.1.0"] {
        env.bundle(&TestBundle {
            version,
            config_maps: &[],
            tag: Some("1"),
            ..TestBundle::default()
        });
    }
    env.extension(&json!({"version": "1.0.0"}));
    assert_eq!(env.condition("Installed"), INSTALLED_1);
    let before = env.get("Deployment", "demo");
    env.ask_for("1.1.0");
    env.settle_for(20);
    assert_eq!(env.installed(), ("1.1.0".to_owned(), names(&["e-2"])));
    let after = env.get("Deployment", "demo");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"], before["spec"]);
    let version =
        |object: &Value| object["metadata"]["annotations"]["olm.operatorframework.io/bundle-version"].clone();
    assert_eq!(
        (version(&before), version(&after)),
        (json!("1.0.0"), json!("1.1.0"))
    );
}

/// The operator that reports on OLM v1 to OpenShift reads it there.
#[test]
fn ocp_008_the_revision_has_the_last_version_of_openshift_of_its_bundle() {
    let mut env = TestEnv::new();
    let limit = json!([{"type": "olm.maxOpenShiftVersion", "value": "4.18"}]);
    env.bundle(&TestBundle {
        properties: limit.clone(),
        ..TestBundle::default()
    });
    let properties = |env: &TestEnv, revision: &str| {
        let annotations = env.get("ClusterObjectSet", revision)["metadata"]["annotations"].clone();
        annotations["olm.properties"].clone()
    };
    env.extension(&json!({"version": "1.0.0"}));
    assert_eq!(env.installed().1, names(&["e-1"]));
    let text = properties(&env, "e-1");
    let found: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
    assert_eq!(found, limit);
    // An upgrade to a bundle without a limit lifts it.
    env.ask_for("1.1.0");
    env.settle_for(20);
    assert_eq!(env.installed().1, names(&["e-2"]));
    assert_eq!(properties(&env, "e-2"), Value::Null);
}
