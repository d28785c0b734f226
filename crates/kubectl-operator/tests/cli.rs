//! Tests of the plugin as kubectl runs it, without a cluster.

#![allow(clippy::unwrap_used, reason = "a test may stop where it is")]

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};

use olm_testing::samples::ETCD_CATALOG as CATALOG;

fn plugin(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kubectl-operator"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_is_data_and_a_wrong_flag_a_usage_error() {
    let help = plugin(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("Usage: kubectl operator"));
    assert!(help.stderr.is_empty());

    let wrong = plugin(&["plan", "--no-such-flag"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(wrong.stdout.is_empty());
    assert!(text(&wrong.stderr).contains("--no-such-flag"));
}

#[test]
fn a_cluster_that_cannot_be_found_is_reported_by_its_file() {
    let missing = plugin(&["plan", "--kubeconfig", "/no/such/kubeconfig", "-n", "shop"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(missing.stdout.is_empty());
    let error = text(&missing.stderr);
    assert!(error.contains("/no/such/kubeconfig"), "{error}");
}

/// Many environments have such words in `NO_PROXY`. Neither an empty word nor the proxy's own network may exempt a cluster from
/// the proxy.
#[test]
fn a_cluster_is_reached_through_the_proxy_of_the_environment() {
    for (scheme, no_proxy) in [
        ("http://", "localhost,"),
        ("http://", "127.0.0.0/8"),
        ("", ".example.org,,10.0.0.0/8"),
        ("", "localhost 127.0.0.1"),
    ] {
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = proxy.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("config");
        let context = "{name: c, context: {cluster: c, user: u}}";
        let cluster = "{name: c, cluster: {server: 'https://api.example.com:6443'}}";
        std::fs::write(
            &kubeconfig,
            format!("current-context: c\ncontexts: [{context}]\nclusters: [{cluster}]\nusers: [{{name: u, user: {{}}}}]\n"),
        )
        .unwrap();
        let asked = std::thread::spawn(move || {
            let (mut stream, _) = proxy.accept().unwrap();
            let mut begin = [0; 7];
            stream.read_exact(&mut begin).unwrap();
            begin
        });
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl-operator"))
            .args(["list", "--kubeconfig"])
            .arg(&kubeconfig)
            .env("HTTPS_PROXY", format!("{scheme}{address}"))
            .env("NO_PROXY", no_proxy)
            .output()
            .unwrap();
        // Unblocks the thread if no request was sent, so that the test ends.
        drop(TcpStream::connect(address));
        assert_eq!(
            asked.join().ok().as_ref(),
            Some(b"CONNECT"),
            "{no_proxy}: {}",
            text(&output.stderr)
        );
    }
}

/// A CustomResourceDefinition `etcds.example.com` of `apiextensions.k8s.io/v1beta1`.
const OLD_CRD: &str = "eyJhcGlWZXJzaW9uIjoiYXBpZXh0ZW5zaW9ucy5rOHMuaW8vdjFiZXRhMSIsImtpbmQiOiJDdXN0b21SZXNvdXJjZURlZmluaXRpb24iLCJtZXRhZGF0YSI6eyJuYW1lIjoiZXRjZHMuZXhhbXBsZS5jb20ifX0=";

const OBJECTS: &str = "
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata: {name: og, namespace: shop}
spec: {selector: {matchLabels: {a: b}}}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: db, namespace: shop}
spec: {name: etcd, channel: stable, source: cat, sourceNamespace: olm}
";

/// Plans from files, with additional properties of a bundle in the catalog.
fn planned(more: &str, arguments: &[&str]) -> (tempfile::TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("catalog")).unwrap();
    std::fs::write(path("catalog/etcd.yaml"), format!("{CATALOG}{more}")).unwrap();
    std::fs::write(path("objects.yaml"), OBJECTS).unwrap();
    let constraints =
        r#"{"properties": [{"type": "olm.package", "value": {"packageName": "etcd", "version": "<1.1.0"}}]}"#;
    std::fs::write(path("constraints.json"), constraints).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-operator"))
        .current_dir(folder.path())
        .args(["plan", "--catalog", "catalog", "-f", "objects.yaml"])
        .args(arguments)
        .output()
        .unwrap();
    (folder, output)
}

#[test]
fn a_bundle_that_olm_refuses_is_noted_without_a_word_on_kubernetes() {
    let object = format!("- {{type: olm.bundle.object, value: {{data: {OLD_CRD}}}}}\n");
    let (_folder, output) = planned(&object, &[]);
    let told = text(&output.stdout);
    assert!(
        told.contains(
            "note: bundle etcd.v1.1.0 contains CustomResourceDefinitions of apiextensions.k8s.io/v1beta1"
        ),
        "{told}{}",
        text(&output.stderr)
    );
    let (_folder, output) = planned("", &[]);
    assert!(
        !text(&output.stdout).contains("note:"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn constraints_of_the_cluster_are_met() {
    let (_folder, output) = planned("", &["--runtime-constraints", "constraints.json"]);
    let told = text(&output.stdout);
    assert!(
        told.contains("install  etcd.v1.0.0 "),
        "{told}{}",
        text(&output.stderr)
    );
    assert!(
        told.contains("does not meet a constraint of the cluster"),
        "{told}"
    );
    let (_folder, output) = planned("", &["--runtime-constraints", "nowhere.json"]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.contains("cannot read the runtime constraints nowhere.json"),
        "{error}"
    );
}

/// The texts of explanations refer to this option.
#[test]
fn explanations_can_be_had_as_json() {
    let help = plugin(&["explain", "--help"]);
    let told = text(&help.stdout);
    assert!(told.contains("--output") && told.contains("json"), "{told}");
}

#[test]
fn how_to_approve_is_explained_with_examples_and_exit_codes() {
    let help = plugin(&["approve", "--help"]);
    assert_eq!(help.status.code(), Some(0));
    let told = text(&help.stdout);
    for word in [
        "Exit codes:",
        "Examples:",
        "--yes",
        "--output",
        "not carry out others",
        "</dev/null",
    ] {
        // The help text is wrapped.
        let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(word), "{word}: {told}");
    }
    assert_eq!(plugin(&["approve"]).status.code(), Some(1), "a name is needed");
    let nowhere = plugin(&["approve", "db", "--kubeconfig", "/no/such/kubeconfig"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(nowhere.stdout.is_empty());
}

/// kubectl runs a plugin under this name to complete its words.
#[cfg(unix)]
#[test]
fn kubectl_gets_the_completions_of_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("kubectl_complete-operator");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-operator"), &link).unwrap();
    let output = Command::new(link)
        .args(["approve", "db", "--ye"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), "--yes\tApprove without asking\n:4\n");
    // Without a cluster there are no names, and no error that would disturb the shell.
    let output = plugin(&["__complete", "--kubeconfig", "/no/such/kubeconfig", "status", ""]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), ":4\n");
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn every_shell_gets_a_script() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let output = plugin(&["completion", shell]);
        assert_eq!(output.status.code(), Some(0));
        let script = text(&output.stdout);
        for word in ["kubectl-operator", "approve", "kubeconfig"] {
            assert!(script.contains(word), "{shell}, {word}: {script}");
        }
    }
    assert_eq!(plugin(&["completion", "tcsh"]).status.code(), Some(1));
}

/// Runs the completion script in bash.
#[cfg(unix)]
#[test]
fn bash_completes_the_program_by_its_script() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, plugin(&["completion", "bash"]).stdout).unwrap();
    let complete = r#"source "$1"; COMP_WORDS=(kubectl-operator appr); COMP_CWORD=1
        function=$(complete -p kubectl-operator | sed 's/.*-F \([^ ]*\).*/\1/'); "$function" kubectl-operator appr kubectl-operator
        echo "${COMPREPLY[*]}""#;
    let output = Command::new("bash")
        .args(["-c", complete, "bash"])
        .arg(script)
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "approve\n", "{}", text(&output.stderr));
}

/// Removes line breaks from a wrapped text.
fn flat(bytes: &[u8]) -> String {
    text(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_new_command_teaches_with_examples_and_exit_codes() {
    for (command, word) in [
        (&["list"][..], "-o json | jq"),
        (&["status"], "--timeout"),
        (&["catalog", "add"], "--poll-interval"),
        (&["catalog", "list"], "--all-namespaces"),
        (&["catalog", "remove"], "--dry-run"),
        (&["list-available"], "package-server"),
        (&["describe"], "package-server"),
        (&["install"], "--approval Automatic --no-wait"),
        (&["list-operands"], "without a namespace"),
        (&["upgrade"], "--yes --wait --timeout 5m"),
        (&["doctor"], "never as fine"),
        (&["graph"], "-o svg > etcd.svg"),
        (&["support-bundle"], "Secrets are not read at all"),
        (
            &["support-bundle"],
            "messages, events, annotations and logs may contain a secret",
        ),
        (&["uninstall"], "--delete-crd etcds.example.com --yes"),
        (&["hold"], "also with installPlanApproval Automatic"),
        (&["unhold"], "operatorframework.io/upgrade-hold"),
        (&["rollback"], "--to 1.0.0 --yes"),
        (&["rights"], "nobody can grant more than they have"),
        (&["ui"], "ssh -t -L 8001:127.0.0.1:8001"),
        (&["olmv1", "adopt"], "adopt-NAMESPACE-SUBSCRIPTION.yaml"),
        (
            &["olmv1", "create", "catalog"],
            "--source-poll-interval-minutes 10",
        ),
        (
            &["olmv1", "delete", "extension"],
            "all custom resources of their kinds",
        ),
        (&["olmv1", "install", "extension"], "[default: olmv1-system]"),
        (&["olmv1", "plan"], "why not another one"),
        (&["olmv1", "search", "catalog"], "services/proxy"),
        (&["olmv1", "status"], "ClusterObjectSets"),
    ] {
        let help = plugin(&[command, &["--help"]].concat());
        assert_eq!(help.status.code(), Some(0), "{command:?}");
        let told = flat(&help.stdout);
        for word in ["Examples:", "Exit codes:", "--namespace", word] {
            assert!(told.contains(word), "{command:?}: {word}: {told}");
        }
    }
}

#[test]
fn a_cluster_that_is_not_there_is_one_error_for_every_command() {
    for command in [
        &["list", "-A"][..],
        &["status", "db", "--watch"],
        &["doctor", "-A"],
        &["graph", "etcd"],
        &["support-bundle", "--output", "/no/such/folder/bundle.tar.gz"],
        &["catalog", "add", "cat", "image"],
        &["catalog", "list", "-o", "yaml"],
        &["catalog", "remove", "cat", "--yes"],
        &["list-available", "etcd"],
        &["describe", "etcd"],
        &["install", "etcd", "--create-namespace"],
        &["upgrade", "etcd", "--yes"],
        &["uninstall", "etcd", "--yes"],
        &["hold", "etcd"],
        &["unhold", "etcd"],
        &["rollback", "etcd", "--yes"],
        &["rights", "etcd"],
        &["list-operands", "etcd"],
        &["ui", "-A"],
        &["olmv1", "adopt", "etcd", "--yes"],
        &["olmv1", "create", "catalog", "cat", "image:v1"],
        &["olmv1", "delete", "extensions", "--all"],
        &["olmv1", "get", "catalogs"],
        &["olmv1", "install", "extension", "etcd", "-p", "etcd"],
        &["olmv1", "plan", "etcd"],
        &["olmv1", "search", "catalog"],
        &["olmv1", "status", "etcd"],
        &["olmv1", "update", "extension", "etcd", "--version", "1.x"],
    ] {
        let output = plugin(&[command, &["--kubeconfig", "/no/such/kubeconfig"]].concat());
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(output.stdout.is_empty(), "{command:?}");
        let error = text(&output.stderr);
        assert!(error.contains("/no/such/kubeconfig"), "{command:?}: {error}");
    }
}

/// Upstream's plugin accepts them there, too.
#[test]
fn flags_may_stand_before_the_command() {
    let output = plugin(&[
        "--kubeconfig",
        "/no/such/kubeconfig",
        "-n",
        "shop",
        "--timeout",
        "1s",
        "list",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("/no/such/kubeconfig"), "{error}");
    for words in [["-A", "list"], ["-oname", "list"]] {
        let output = plugin(&["--kubeconfig", "/no/such/kubeconfig", words[0], words[1]]);
        let error = text(&output.stderr);
        assert!(error.contains("/no/such/kubeconfig"), "{words:?}: {error}");
    }
    let version = plugin(&["-o", "json", "version"]);
    let document: serde_json::Value = serde_json::from_slice(&version.stdout).unwrap();
    let stated = document["clientVersion"]["gitVersion"]
        .as_str()
        .unwrap_or_default();
    assert!(stated.starts_with('v'), "{document}");
    let version = plugin(&["version"]);
    assert_eq!(version.status.code(), Some(0));
    let told = text(&version.stdout);
    assert!(told.starts_with("version.Info{GitVersion:\"v"), "{told}");
}

#[test]
fn flags_that_contradict_are_usage_errors() {
    for command in [
        &["status", "db", "-A"][..],
        &["doctor", "-A", "-n", "shop"],
        &["doctor", "--timeout", "soon"],
        &["graph"],
        &["graph", "etcd", "-o", "png"],
        &["support-bundle", "-A", "-n", "shop"],
        &["status", "--timeout", "soon"],
        &["status", "-o", "wide"],
        &["describe", "etcd", "-o", "wide"],
        &["status", ""],
        &["catalog", "add", "cat"],
        &["catalog", "list", "-o", "table"],
        &["describe"],
        &["install", "etcd", "--approval", "Sometimes"],
        &["install", "etcd", "--create-operator-group", "AllNamespaces"],
        &["install", "etcd", "--wait", "--no-wait"],
        &["uninstall", "db", "--delete-crd"],
        &["rollback"],
        &["rights", "etcd", "-o", "wide"],
        &["hold", "db", "--range", ""],
        &["ui", "-A", "-n", "shop"],
        &["ui", "--port", "65536"],
        &["olmv1", "delete", "catalog"],
        &["olmv1", "delete", "catalog", "cat", "--all"],
        &["olmv1", "install", "extension", "etcd"],
        &["olmv1", "install", "extension", "etcd", "-p", "etcd", "-l", "a b"],
    ] {
        let output = plugin(command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(output.stdout.is_empty(), "{command:?}");
        assert!(!output.stderr.is_empty(), "{command:?}");
    }
}
