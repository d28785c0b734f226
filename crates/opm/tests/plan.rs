//! `opm plan` as users call it.

#![allow(clippy::unwrap_used, reason = "a test may stop where it is")]

use std::path::Path;
use std::process::{Command, Output};

const CATALOG: &str = "
schema: olm.package
name: etcd
defaultChannel: stable
---
schema: olm.channel
package: etcd
name: stable
entries:
- name: etcd.v1.0.0
- name: etcd.v1.1.0
  replaces: etcd.v1.0.0
---
schema: olm.bundle
package: etcd
name: etcd.v1.0.0
image: registry.example.com/etcd:1
properties:
- {type: olm.package, value: {packageName: etcd, version: 1.0.0}}
---
schema: olm.bundle
package: etcd
name: etcd.v1.1.0
image: registry.example.com/etcd:2
properties:
- {type: olm.package, value: {packageName: etcd, version: 1.1.0}}
";

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
            "namespace shop\n\nstep 1\n  install  etcd.v1.1.0 (package etcd, channel stable, catalog cat/olm) for \
             subscription db\n"
        );
        assert_eq!(
            (output.status.code(), text(&output.stderr).as_str()),
            (Some(0), "")
        );
    }
    let output = opm(folder.path(), &["plan", "catalog", "objects.yaml", "-o", "json"]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        plan,
        serde_json::json!({"namespace": "shop", "unsatisfiable": [], "install": [{
            "name": "etcd.v1.1.0", "package": "etcd", "channel": "stable", "catalog": "cat/olm", "version": "1.1.0",
            "replaces": "", "forSubscription": "db"}]})
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
            &["plan", "cat/olm=catalog", "cat/olm=catalog", "objects.yaml"][..],
            "Error: catalog cat/olm is both catalog and catalog: name it once\n",
        ),
        (
            &["plan", "/=catalog", "objects.yaml"][..],
            "Error: catalog /=catalog: write NAME/NAMESPACE=DIRECTORY\n",
        ),
        (
            &["plan", "catalog", "catalog/etcd.yaml"][..],
            "Error: document 1 of catalog/etcd.yaml is part of a catalog and no Kubernetes object: name the catalog's \
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
fn catalogs_that_cannot_serve_the_plan_are_told() {
    let folder = folder(OBJECTS);
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for (catalogs, expected) in [
        (&["empty"][..], "warning: catalog empty has no bundles\n"),
        (
            &["other/olm=catalog"][..],
            "warning: no directory for catalog cat/olm, which the objects name: the plan is made as if there were no such \
             catalog; add cat/olm=DIRECTORY\n",
        ),
        (
            &["cat/olm=catalog", "ours/there=catalog"][..],
            "warning: catalog ours/there cannot be used from namespace shop, only those of shop and olm: see \
             --global-catalog-namespace\n",
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
    assert_eq!(text(&plan("v1.34.2", "json").stderr), note);
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
