//! The plugin as kubectl calls it, where no cluster is needed.

#![allow(clippy::unwrap_used, reason = "a test may stop where it is")]

use std::process::{Command, Output};

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
fn a_cluster_that_cannot_be_found_is_told_by_its_file() {
    let missing = plugin(&["plan", "--kubeconfig", "/no/such/kubeconfig", "-n", "shop"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(missing.stdout.is_empty());
    let error = text(&missing.stderr);
    assert!(error.contains("/no/such/kubeconfig"), "{error}");
}
