//! Runs every command against a cluster and catalogs that try to control the user's terminal.

#![allow(clippy::unwrap_used, reason = "a test may stop where it is")]

mod server;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use self::server::{catalog, cluster};

/// Clears the screen, reorders letters, hides letters, sets the title, and uses other control sequences.
const POISON: &str = "\u{1b}[2J\u{202e}x\u{200b}\u{9b}1m\u{7}\u{feff}";

/// Returns an object in the namespace `shop`.
fn object(kind: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": kind,
        "metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "1"}});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    object
}

fn subscription(name: &str, status: &Value) -> Value {
    let mut status = status.clone();
    status["lastUpdated"] = Value::Null;
    let spec = json!({"name": format!("etcd{POISON}"), "channel": POISON, "source": "cat", "sourceNamespace": "shop"});
    object("Subscription", name, &json!({"spec": spec, "status": status}))
}

fn plan(name: &str, phase: &str) -> Value {
    let step = json!({"resolving": POISON, "status": "Unknown", "resource": {"sourceName": "", "sourceNamespace": "", "group": "",
        "version": "v1", "kind": POISON, "name": POISON, "manifest": "{}"}});
    let spec = json!({"clusterServiceVersionNames": [format!("etcd{POISON}")], "approval": "Manual", "approved": false});
    let status = json!({"phase": phase, "catalogSources": [], "plan": [step], "message": POISON});
    object("InstallPlan", name, &json!({"spec": spec, "status": status}))
}

/// Returns all objects, with poison in each text that its author can choose. `addresses` are those of catalogs.
fn objects(addresses: &[String]) -> Vec<Value> {
    let failed = json!([{"type": "ResolutionFailed", "status": "True", "message": POISON}]);
    let health = json!([{"catalogSourceRef": {"name": "cat", "namespace": "shop"}, "healthy": false, "lastUpdated": null},
        {"catalogSourceRef": {"name": POISON, "namespace": "shop"}, "healthy": false, "lastUpdated": null}]);
    let unhealthy = json!([{"type": "CatalogSourcesUnhealthy", "status": "True", "message": POISON}]);
    let runs = json!({"installedCSV": "etcd.v1", "currentCSV": "etcd.v1", "catalogHealth": health, "conditions": unhealthy});
    let owned = json!({"owned": [{"name": "etcds.example.com", "version": "v1", "kind": POISON}, {"name": POISON, "version": "v1", "kind": "X"}]});
    let install = json!({"strategy": "deployment", "spec": {"deployments": [{"name": "etcd", "spec": {}}, {"name": POISON, "spec": {}}]}});
    let mut objects = vec![
        subscription("db", &runs),
        subscription("wrong", &json!({"conditions": failed})),
        subscription(
            "waits",
            &json!({"installPlanRef": {"name": "install-1"}, "state": "UpgradePending"}),
        ),
        plan("install-1", "RequiresApproval"),
        plan("install-2", "Failed"),
        object(
            "ClusterServiceVersion",
            "etcd.v1",
            &json!({"spec": {"version": "1.0.0", "customresourcedefinitions": owned, "install": install},
                "status": {"phase": "Succeeded", "message": POISON}}),
        ),
        object(
            "ClusterServiceVersion",
            "broken.v1",
            &json!({"spec": {"version": "1.0.0", "installModes": POISON}}),
        ),
        object(
            "ClusterServiceVersion",
            "failed.v1",
            &json!({"spec": {"version": POISON}, "status": {"phase": "Failed", "reason": POISON, "message": POISON}}),
        ),
        object(
            "OperatorGroup",
            "og",
            &json!({"apiVersion": "operators.coreos.com/v1", "spec": {"targetNamespaces": ["shop"]},
                "status": {"namespaces": ["shop"], "lastUpdated": null}}),
        ),
    ];
    for (name, address) in ["cat", "other"].iter().zip(addresses) {
        objects.push(object(
            "CatalogSource",
            name,
            &json!({"spec": {"sourceType": "grpc", "address": address, "displayName": POISON, "publisher": POISON},
                "status": {"message": POISON, "connectionState": {"lastObservedState": POISON}}}),
        ));
    }
    let head = json!({"displayName": POISON, "version": POISON, "description": POISON, "provider": {"name": POISON},
        "installModes": [{"type": POISON, "supported": true}], "minKubeVersion": POISON});
    let channel = |name: &str| {
        json!({"name": name, "currentCSV": POISON, "currentCSVDesc": head, "deprecation": {"message": POISON},
            "entries": [{"name": POISON, "version": POISON, "deprecation": {"message": POISON}}]})
    };
    objects.push(object(
        "PackageManifest",
        "etcd",
        &json!({"apiVersion": "packages.operators.coreos.com/v1", "spec": {}, "status": {"packageName": "etcd", "catalogSource": POISON,
            "catalogSourceNamespace": "shop", "catalogSourceDisplayName": POISON, "catalogSourcePublisher": POISON,
            "defaultChannel": "stable", "channels": [channel("stable"), channel(POISON)]}}),
    ));
    objects
}

/// Writes a kubeconfig, a catalog directory with a poisoned channel, and objects that subscribe to another channel.
fn write_files(folder: &Path, port: u16) {
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}]});
    std::fs::write(folder.join("kubeconfig"), kubeconfig.to_string()).unwrap();
    std::fs::create_dir(folder.join("catalog")).unwrap();
    let channel = format!("stable{POISON}");
    let constraint = json!({"failureMessage": POISON, "all": {"constraints": [{"failureMessage": POISON, "package": {"packageName": POISON, "versionRange": ">1"}}]}});
    let catalog = [
        json!({"schema": "olm.package", "name": "etcd", "defaultChannel": channel}),
        json!({"schema": "olm.channel", "package": "etcd", "name": channel, "entries": [{"name": "etcd.v1.0.0"}]}),
        json!({"schema": "olm.bundle", "package": "etcd", "name": "etcd.v1.0.0", "image": "i", "properties": [
            {"type": "olm.package", "value": {"packageName": "etcd", "version": "1.0.0"}},
            {"type": "olm.constraint", "value": constraint}]}),
        json!({"schema": "olm.deprecations", "package": "etcd", "entries": [{"reference": {"schema": "olm.package"}, "message": POISON}]}),
    ];
    let catalog: Vec<String> = catalog.iter().map(Value::to_string).collect();
    std::fs::write(folder.join("catalog/catalog.json"), catalog.join("\n")).unwrap();
    for (file, wanted) in [("there.json", channel.as_str()), ("not-there.json", "beta")] {
        let spec =
            json!({"name": "etcd", "channel": wanted, "source": "cat", "sourceNamespace": "shop", POISON: 1});
        let subscription = object("Subscription", "db", &json!({"spec": spec}));
        std::fs::write(folder.join(file), subscription.to_string()).unwrap();
    }
}

fn plugin(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-operator"))
        .current_dir(folder)
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns true for letters that a terminal only displays, and for line ends.
fn is_harmless(letter: char) -> bool {
    letter == '\n' || !(letter.is_control() || POISON.contains(letter) && !letter.is_ascii_graphic())
}

#[test]
fn no_command_prints_what_a_terminal_obeys() {
    let refusing = catalog(&[
        ("grpc-status", "2"),
        ("grpc-message", "no%1B[2J%E2%80%AE%E2%80%8B%07"),
    ]);
    let port = cluster(objects(&[refusing.clone(), refusing]), POISON);
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path(), port);
    let unknown = format!("no{POISON}");
    let commands: &[&[&str]] = &[
        &["list"],
        &["list", "-A", "-o", "wide"],
        &["list", "-o", "json"],
        &["list", "-o", "yaml"],
        &["status"],
        &["status", "db"],
        &["status", "db", "-o", "json"],
        &["status", "db", "-o", "yaml"],
        &["status", "wrong", "--watch", "--timeout", "1s"],
        &["status", &unknown],
        &["catalog", "list", "-o", "wide"],
        &["catalog", "list", "-o", "json"],
        &["catalog", "list", "-A", "-o", "yaml"],
        &["catalog", "add", "new", "image", "--timeout", "1s"],
        &["catalog", "add", "new", "image", "--timeout", "1s", "--keep"],
        &["catalog", "remove", "cat", "--dry-run"],
        &["catalog", "remove", "cat", "--yes", "--timeout", "1s"],
        &["catalog", "remove", &unknown],
        &["list-available"],
        &["list-available", "-o", "wide"],
        &["list-available", "etcd", "-o", "wide"],
        &["list-available", "etcd", "-o", "json"],
        &["list-available", &unknown],
        &["describe", "etcd"],
        &["describe", "etcd", "-L", "-C", "stable"],
        &["describe", "etcd", "-o", "yaml"],
        &["install", "etcd", "--channel", "beta"],
        &["install", "etcd", "--version", "9.9.9"],
        &["install", "etcd", "--name", "new", "--timeout", "1s"],
        &["install", "etcd", "--name", "new", "--no-wait"],
        &["install", &unknown],
        &["install", "etcd", "--catalog", "cat"],
        &["upgrade", "wrong"],
        &["upgrade", "db", "--timeout", "1s"],
        &["upgrade", "waits", "--dry-run"],
        &["upgrade", &unknown],
        &["approve", "waits"],
        &["approve", "waits", "-o", "json"],
        &["approve", "waits", "-o", "yaml"],
        &["approve", "waits", "--yes"],
        &["approve", "install-2"],
        &["approve", &unknown],
        &["list-operands", "db"],
        &["list-operands", "db", "-o", "json"],
        &["list-operands", &unknown],
        &["uninstall", "db", "--timeout", "1s"],
        &["uninstall", "db", "--delete-crd", POISON],
        &[
            "uninstall",
            "db",
            "--delete-crd",
            "etcds.example.com",
            "--dry-run",
        ],
        &["uninstall", "db", "--yes", "-s", "ignore", "--timeout", "1s"],
        &["uninstall", &unknown],
        &["plan", "--global-catalog-namespace", "shop"],
        &["plan", "-o", "json"],
        &["plan", "-o", "yaml"],
        &["explain"],
        &["explain", "-o", "json"],
        &["explain", &unknown],
        &["plan", "--catalog", "catalog", "-f", "there.json"],
        &["plan", "--catalog", "catalog", "-f", "there.json", "-o", "yaml"],
        &["plan", "--catalog", "catalog", "-f", "not-there.json"],
        &[
            "plan",
            "--catalog",
            "catalog",
            "-f",
            "not-there.json",
            "-o",
            "json",
        ],
    ];
    for command in commands {
        let output = plugin(folder.path(), command);
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        let told = format!("{command:?}: {out:?} {err:?}");
        assert!(out.chars().chain(err.chars()).all(is_harmless), "{told}");
        // Otherwise the command printed none of the poisoned texts.
        let is_told = |text: &str| {
            [r"\u{1b}", r"\u001b", "[2J"]
                .iter()
                .any(|told| text.contains(told))
        };
        assert!(is_told(&out) || is_told(&err), "{told}");
        assert!(matches!(output.status.code(), Some(0..=2)), "{told}");
    }
    // Messages of the catalog server are escaped, too, with spaces for control characters.
    let output = plugin(folder.path(), &["plan", "--global-catalog-namespace", "shop"]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains(r"no [2J\u{202e}\u{200b} "), "{told}");
}

/// Error details that make the gRPC library panic fail only one catalog.
#[test]
fn a_catalog_whose_answer_breaks_the_reader_is_named() {
    let breaking = catalog(&[("grpc-status", "2"), ("grpc-status-details-bin", "!")]);
    let port = cluster(objects(&[breaking]), "");
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path(), port);
    for command in ["plan", "explain"] {
        let output = plugin(folder.path(), &[command, "--global-catalog-namespace", "shop"]);
        let told = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(
            told.contains("error using catalogsource shop/cat: "),
            "{command}: {told}"
        );
    }
}
