//! `opm plan` as users run it.

#![allow(clippy::unwrap_used, reason = "a test may stop where it is")]

use std::path::Path;
use std::process::{Command, Output};

use olm_testing::samples::ETCD_CATALOG as CATALOG;

const OBJECTS: &str = "
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata: {name: og, namespace: shop}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: db, namespace: shop}
spec: {name: etcd, channel: stable, source: cat, sourceNamespace: olm}
";

fn opm(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_opm"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap()
}

fn folder(objects: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("catalog")).unwrap();
    std::fs::write(folder.path().join("catalog/etcd.yaml"), CATALOG).unwrap();
    std::fs::write(folder.path().join("objects.yaml"), objects).unwrap();
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_plan_is_printed_as_text_or_json() {
    let folder = folder(OBJECTS);
    for arguments in [
        ["catalog", "objects.yaml"],
        ["catalog", "--filename=objects.yaml"],
    ] {
        let output = opm(folder.path(), &[&["plan"], &arguments[..]].concat());
        assert_eq!(
            text(&output.stdout),
            "namespace shop\n\nstep 1\n  install  etcd.v1.1.0 (package etcd, channel stable, catalog olm/cat) for \
             subscription db\n"
        );
        assert_eq!(
            (output.status.code(), text(&output.stderr).as_str()),
            (Some(0), "")
        );
    }
    let output = opm(folder.path(), &["plan", "catalog", "objects.yaml", "-o", "json"]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let install = serde_json::json!([{
        "name": "etcd.v1.1.0", "package": "etcd", "channel": "stable", "catalog": "olm/cat", "version": "1.1.0",
        "replaces": "", "forSubscription": "db"}]);
    assert_eq!(
        plan,
        serde_json::json!({"namespace": "shop", "unsatisfiable": [], "install": install,
            "steps": [{"step": 1, "change": [], "install": install, "approvals": []}],
            "moreSteps": false, "heldBack": [], "fixes": [], "excluded": [], "notes": []})
    );
}

#[test]
fn what_is_missing_in_the_plan_shows_in_the_exit_code() {
    let folder = folder(&OBJECTS.replace("channel: stable", "channel: beta"));
    let output = opm(folder.path(), &["plan", "catalog", "objects.yaml", "-o", "json"]);
    assert_eq!(output.status.code(), Some(2));
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        plan["unsatisfiable"][0]["subscriptions"],
        serde_json::json!(["db"])
    );
    assert!(text(&output.stdout).contains("channels of package etcd: stable"));
}

#[test]
fn bad_input_is_an_error_that_says_what_to_do() {
    let folder = folder(OBJECTS);
    for (arguments, expected) in [
        (
            &["plan", "catalog"][..],
            "Error: no file of objects: name one with --filename\n",
        ),
        (
            &["plan", "nowhere", "objects.yaml"][..],
            "Error: nowhere: no such file or directory: name catalog directories and files of objects\n",
        ),
        (
            &["plan", "olm/cat=catalog", "olm/cat=catalog", "objects.yaml"][..],
            "Error: catalog olm/cat is both catalog and catalog: name it once\n",
        ),
        (
            &["plan", "/=catalog", "objects.yaml"][..],
            "Error: catalog /=catalog: write NAMESPACE/NAME=DIRECTORY\n",
        ),
        (
            &["plan", "catalog", "catalog/etcd.yaml"][..],
            "Error: document 1 of catalog/etcd.yaml is part of a catalog, not a Kubernetes object: pass the catalog's \
             directory instead of a file of it\n",
        ),
        (
            &["plan", "catalog", "objects.yaml", "-n", "other"][..],
            "Error: no Subscription in namespace other: there are some in shop\n",
        ),
        (
            &["plan", "catalog", "objects.yaml", "--target", "9.0.0"][..],
            "Error: no package subscribed to in namespace shop has version 9.0.0: package etcd of subscription db has 1.1.0, \
             1.0.0\n",
        ),
    ] {
        let output = opm(folder.path(), arguments);
        assert_eq!(
            (output.status.code(), text(&output.stderr).as_str()),
            (Some(1), expected)
        );
        assert!(output.stdout.is_empty());
    }
    let folder = self::folder("kind: Subscription\nmetadata: {name: db}\nspec: []\n");
    let output = opm(folder.path(), &["plan", "catalog", "objects.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).starts_with("Error: Subscription db: "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn catalogs_that_cannot_serve_the_plan_are_reported() {
    let folder = folder(OBJECTS);
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for (catalogs, expected) in [
        (&["empty"][..], "warning: catalog empty has no bundles\n"),
        (
            &["olm/other=catalog"][..],
            "warning: no directory for catalog olm/cat, which subscription db names, so the plan ignores that \
             catalog; add olm/cat=DIRECTORY\n",
        ),
        (
            &["olm/cat=catalog", "there/ours=catalog"][..],
            "warning: catalog there/ours cannot be used from namespace shop, only those of shop and olm: see \
             --global-catalog-namespace\n",
        ),
        (
            &["cat/olm=catalog"][..],
            "warning: catalog cat/olm is used as olm/cat, to which the objects refer; the form is NAMESPACE/NAME\n",
        ),
    ] {
        let output = opm(folder.path(), &[&["plan", "objects.yaml"], catalogs].concat());
        assert_eq!(text(&output.stderr), expected);
    }
    let output = opm(
        folder.path(),
        &["plan", "catalog", "objects.yaml", "--steps", "0"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("'--steps <NUMBER>'"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_needs_a_newer_kubernetes_is_noted() {
    let folder = folder(OBJECTS);
    let metadata = "- {type: olm.csv.metadata, value: {minKubeVersion: 1.35.0}}\n";
    let catalog = format!("{CATALOG}{metadata}");
    std::fs::write(folder.path().join("catalog/etcd.yaml"), catalog).unwrap();
    let plan = |version: &str, format: &str| {
        opm(
            folder.path(),
            &[
                "plan",
                "catalog",
                "objects.yaml",
                "-o",
                format,
                "--kube-version",
                version,
            ],
        )
    };
    let note = "note: bundle etcd.v1.1.0 needs Kubernetes 1.35.0 or newer, this cluster has v1.34.2: its \
                ClusterServiceVersion will wait in phase Pending until the cluster is upgraded\n";
    let output = plan("v1.34.2", "text");
    assert!(text(&output.stdout).ends_with(note), "{}", text(&output.stdout));
    assert_eq!(
        (output.status.code(), text(&output.stderr).as_str()),
        (Some(0), "")
    );
    let output = plan("v1.34.2", "json");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        json["notes"],
        serde_json::json!([note.trim_start_matches("note: ").trim_end()])
    );
    assert_eq!(text(&output.stderr), "");
    let output = plan("1.35", "text");
    assert!(
        !text(&output.stdout).contains("note:"),
        "{}",
        text(&output.stdout)
    );
    let output = plan("soon", "text");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("not a version of Kubernetes such as 1.34"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_bundle_that_olm_refuses_is_noted() {
    let folder = folder(OBJECTS);
    let plan = |version: &str, format: &str| {
        let crd = serde_json::json!({"apiVersion": format!("apiextensions.k8s.io/{version}"),
            "kind": "CustomResourceDefinition", "metadata": {"name": "etcds.example.com"}});
        let data = olm_fbc::base64::encode(crd.to_string());
        let catalog = format!("{CATALOG}- {{type: olm.bundle.object, value: {{data: {data}}}}}\n");
        std::fs::write(folder.path().join("catalog/etcd.yaml"), catalog).unwrap();
        opm(folder.path(), &["plan", "catalog", "objects.yaml", "-o", format])
    };
    let note = "bundle etcd.v1.1.0 contains CustomResourceDefinitions of apiextensions.k8s.io/v1beta1, which Kubernetes 1.22 and \
                later do not serve, so OLM does not install it (etcds.example.com)";
    let output = plan("v1beta1", "text");
    let told = text(&output.stdout);
    assert!(told.ends_with(&format!("\nnote: {note}\n")), "{told}");
    let json: serde_json::Value = serde_json::from_slice(&plan("v1beta1", "json").stdout).unwrap();
    assert_eq!(json["notes"], serde_json::json!([note]));
    let told = text(&plan("v1", "text").stdout);
    assert!(!told.contains("note:"), "{told}");
}

/// The constraints that catalog-operator gets from `RUNTIME_CONSTRAINTS`.
#[test]
fn constraints_of_the_cluster_are_met_or_reported() {
    let folder = folder(OBJECTS);
    let constraints =
        r#"{"properties": [{"type": "olm.package", "value": {"packageName": "etcd", "version": "<1.1.0"}}]}"#;
    std::fs::write(folder.path().join("constraints.json"), constraints).unwrap();
    let plan = |file: &str| {
        let arguments = ["plan", "catalog", "objects.yaml", "--runtime-constraints", file];
        opm(folder.path(), &arguments)
    };
    let told = text(&plan("constraints.json").stdout);
    assert!(told.contains("  install  etcd.v1.0.0 (package etcd"), "{told}");
    assert!(
        told.contains("\nheld back: subscription db stays at etcd.v1.0.0\n"),
        "{told}"
    );
    assert!(
        told.contains(
            "does not meet a constraint of the cluster: with package: etcd and with version in range: <1.1.0"
        ),
        "{told}"
    );
    let output = plan("nowhere.json");
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.contains("cannot read the runtime constraints nowhere.json"),
        "{error}"
    );
    let output = plan("objects.yaml");
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("runtime constraints"), "{error}");
}

const SOURCE: &str = "
---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: cat, namespace: olm}
spec: {sourceType: grpc}
";

#[test]
fn a_source_that_does_not_exist_is_reported_and_not_guessed() {
    for (from, to, wrong) in [
        ("source: cat", "source: catt", "olm/catt"),
        ("sourceNamespace: olm", "sourceNamespace: nowhere", "nowhere/cat"),
    ] {
        let folder = folder(&format!("{}{SOURCE}", OBJECTS.replace(from, to)));
        let output = opm(folder.path(), &["plan", "catalog", "objects.yaml"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        assert_eq!(
            text(&output.stderr),
            format!(
                "warning: catalog {wrong}, which subscription db names, is not among the CatalogSources given: did you mean \
                 olm/cat?\n"
            )
        );
        assert!(
            text(&output.stdout).contains(
                "to resolve: set spec.source of subscription db to cat and spec.sourceNamespace to olm"
            ),
            "{}",
            text(&output.stdout)
        );
    }
}

/// `<(…)` and `/dev/null` are files, but not regular ones.
#[cfg(unix)]
#[test]
fn pipes_and_devices_are_files_of_objects() {
    let folder = folder(OBJECTS);
    let script = format!(
        "{} plan catalog <(cat objects.yaml) /dev/null",
        env!("CARGO_BIN_EXE_opm")
    );
    let output = Command::new("bash")
        .current_dir(folder.path())
        .args(["-c", &script])
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stderr).as_str()),
        (Some(0), "")
    );
    assert!(text(&output.stdout).contains("install  etcd.v1.1.0"));
}

#[test]
fn deprecations_are_noted() {
    let folder = folder(OBJECTS);
    let deprecations = "---
schema: olm.deprecations
package: etcd
entries:
- {reference: {schema: olm.package}, message: use consul}
- {reference: {schema: olm.channel, name: stable}, message: use candidate}
- {reference: {schema: olm.bundle, name: etcd.v1.1.0}, message: it is broken}
- {reference: {schema: olm.bundle, name: etcd.v1.0.0}, message: not in the way}
";
    std::fs::write(
        folder.path().join("catalog/etcd.yaml"),
        format!("{CATALOG}{deprecations}"),
    )
    .unwrap();
    let output = opm(folder.path(), &["plan", "catalog", "objects.yaml", "-o", "json"]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        plan["notes"],
        serde_json::json!([
            "package etcd is deprecated: use consul",
            "channel stable of package etcd is deprecated: use candidate",
            "bundle etcd.v1.1.0 is deprecated: it is broken",
        ])
    );
}

#[test]
fn an_operator_that_does_not_support_the_group_is_noted() {
    let objects = OBJECTS.replace(
        "metadata: {name: og, namespace: shop}",
        "metadata: {name: og, namespace: shop}\nspec: {targetNamespaces: [a, b]}",
    );
    let folder = folder(&objects);
    let modes = "[{type: OwnNamespace, supported: true}, {type: SingleNamespace, supported: true}]";
    let metadata = format!("- {{type: olm.csv.metadata, value: {{installModes: {modes}}}}}\n");
    std::fs::write(
        folder.path().join("catalog/etcd.yaml"),
        format!("{CATALOG}{metadata}"),
    )
    .unwrap();
    let output = opm(folder.path(), &["plan", "catalog", "objects.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    let note = "note: bundle etcd.v1.1.0 does not support what OperatorGroup og selects: MultiNamespace InstallModeType not \
                supported, cannot configure to watch 2 namespaces: its ClusterServiceVersion will fail with \
                UnsupportedOperatorGroup";
    assert!(text(&output.stdout).contains(note), "{}", text(&output.stdout));
}

#[test]
fn a_version_without_a_way_to_the_head_is_held_back() {
    let status = "status: {installedCSV: etcd.v0.1.0, currentCSV: etcd.v0.1.0}
---
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: etcd.v0.1.0, namespace: shop}
spec: {version: 0.1.0, displayName: etcd, install: {strategy: deployment}}
status: {phase: Succeeded}
";
    let folder = folder(&format!("{OBJECTS}{status}"));
    let output = opm(folder.path(), &["plan", "catalog", "objects.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stdout).contains(
            "held back: subscription db stays at etcd.v0.1.0: no entry leads from etcd.v0.1.0 to etcd.v1.1.0"
        ),
        "{}",
        text(&output.stdout)
    );
    let output = opm(folder.path(), &["plan", "catalog", "objects.yaml", "-o", "json"]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["heldBack"][0]["installed"], "etcd.v0.1.0");
}
