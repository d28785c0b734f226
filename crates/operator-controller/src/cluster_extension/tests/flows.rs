//! The flows of the documents about ClusterExtensions, by their numbers in the checklist.

use serde_json::{Value, json};

use super::{REACHED, names};
use crate::cluster_extension::test_env::TestEnv;

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
fn v1_009_to_v1_011_a_range_is_followed_and_not_left() {
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
