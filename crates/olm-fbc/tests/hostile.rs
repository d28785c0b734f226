//! Hostile catalogs fail quickly and with little memory.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use olm_fbc::validate::validate;

/// Generous, because tests run unoptimised beside others; quadratic work would take hours.
const SOON: Duration = Duration::from_secs(60);

fn faults_of(text: &str) -> String {
    let dir = tempfile::tempdir().expect("folder");
    std::fs::write(dir.path().join("catalog.json"), text).expect("file");
    let started = Instant::now();
    let faults = validate(dir.path()).expect_err("faults").to_string();
    assert!(started.elapsed() < SOON, "took {:?}", started.elapsed());
    assert!(faults.len() < 1 << 20, "{} bytes of message", faults.len());
    faults
}

const PACKAGE: &str = r#"{"schema":"olm.package","name":"p","defaultChannel":"c"}"#;

fn channel(entries: impl Iterator<Item = String>) -> String {
    let mut text = format!(r#"{PACKAGE}{{"schema":"olm.channel","package":"p","name":"c","entries":["#);
    for (index, entry) in entries.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{entry}");
    }
    text + "]}"
}

#[test]
fn a_channel_with_a_million_entries_is_refused() {
    let text = channel((0..1_000_000).map(|index| format!(r#"{{"name":"p.v{index}"}}"#)));
    let faults = faults_of(&text);
    assert!(
        faults.contains("named \"c\"") && faults.contains("holds more than 2000000 values"),
        "{faults}"
    );
}

#[test]
fn many_entries_without_bundles_are_reported_in_time() {
    let chain = |index: usize| {
        format!(
            r#"{{"name":"p.v{index}","replaces":"p.v{}"}}"#,
            index.wrapping_sub(1)
        )
    };
    let faults = faults_of(&channel((1..100_000).map(chain)));
    assert!(
        faults.contains("no olm.bundle blobs found in package \"p\""),
        "{faults}"
    );
    let faults = faults_of(&channel(
        (0..100_000).map(|index| format!(r#"{{"name":"p.v{index}","skipRange":"x"}}"#)),
    ));
    assert!(
        faults.contains("multiple channel heads") && faults.contains("faults more"),
        "{faults}"
    );
}

#[test]
fn many_bundles_of_many_channels_are_checked_in_time() {
    let mut text =
        channel((0..20_000).map(|index| format!(r#"{{"name":"p.v{index}","replaces":"p.v{}"}}"#, index + 1)));
    for index in 0..20_000 {
        let _ = write!(
            text,
            r#"{{"schema":"olm.bundle","package":"p","name":"p.v{index}","image":"q.io/p:1","properties":[{{"type":"olm.package","value":{{"packageName":"p","version":"{index}.0.0"}}}}]}}"#
        );
    }
    let dir = tempfile::tempdir().expect("folder");
    std::fs::write(dir.path().join("catalog.json"), text).expect("file");
    let started = Instant::now();
    let model = validate(dir.path()).expect("valid");
    assert_eq!(model.packages["p"].bundles.len(), 20_000);
    assert!(started.elapsed() < SOON, "took {:?}", started.elapsed());
}

#[test]
fn a_cycle_of_everything_is_reported_in_time() {
    let faults = faults_of(&channel(
        std::iter::once(r#"{"name":"head","replaces":"p.v0"}"#.to_owned()).chain((0..50_000).map(|index| {
            format!(
                r#"{{"name":"p.v{index}","replaces":"p.v{}"}}"#,
                (index + 1) % 50_000
            )
        })),
    ));
    assert!(faults.contains("detected cycle in replaces chain"), "{faults}");
}

#[test]
fn deep_nesting_is_refused_with_its_place() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let faults = faults_of(&format!(
        r#"{PACKAGE}{{"schema":"olm.bundle","package":"p","name":"p.v1","properties":{deep}}}"#
    ));
    assert!(faults.contains("catalog.json, document 2"), "{faults}");
}

#[test]
fn self_references_and_expanding_aliases_are_refused() {
    for (text, expected) in [
        ("schema: x\na: &a {b: *a}\n".to_owned(), "contains itself"),
        (
            (1..30).fold("schema: x\na0: &a0 [x, x]\n".to_owned(), |text, level| {
                text + &format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1)
            }),
            "aliases expand to too many nodes",
        ),
    ] {
        let faults = faults_of(&text);
        assert!(
            faults.contains(expected) && faults.contains("catalog.json, document 1"),
            "{faults}"
        );
    }
}

#[cfg(unix)]
#[test]
fn devices_and_pipes_are_not_read() {
    let dir = tempfile::tempdir().expect("folder");
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("catalog.json")).expect("link");
    let faults = validate(dir.path()).expect_err("faults").to_string();
    assert_eq!(faults, "catalog.json is not a regular file");
}
