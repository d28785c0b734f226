use std::io::Read as _;
use std::time::Duration;

use olm_testing::cluster::{FakeCluster, Fault, Refusal};
use serde_json::{Value, json};

use super::logs::{MAX_LOG, Tail};
use super::redact::{REDACTED, Redactor};
use super::*;
use crate::commands::doctor::tests::cluster;
use crate::operators::tests::plan;

/// The parts of a packed bundle by name.
fn unpacked(bytes: &[u8]) -> Vec<(String, String)> {
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    let parts = tar.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mode().unwrap(), 0o600);
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (path, text)
    });
    parts.collect()
}

async fn bundle_of(
    cluster: &FakeCluster,
    namespace: Option<&str>,
) -> (Archive, Vec<(String, String)>, String) {
    let (client, _link) = cluster.connect();
    let reader = Reader::new(&client, Duration::from_secs(300));
    let mut archive = Archive::new().unwrap();
    Box::pin(collect(&reader, namespace, "olm", &mut archive)).await;
    let summary = archive.finish().unwrap();
    let parts = unpacked(&archive.packed().unwrap());
    (archive, parts, summary)
}

fn part<'a>(parts: &'a [(String, String)], name: &str) -> &'a str {
    let path = format!("olm-support-bundle/{name}");
    let found = parts.iter().find(|(known, _)| *known == path);
    &found
        .unwrap_or_else(|| {
            panic!(
                "{name}: {:?}",
                parts.iter().map(|(name, _)| name).collect::<Vec<_>>()
            )
        })
        .1
}

/// A text that could be a secret: letters that mean something to JSON, shells and expressions among them.
fn secret(seed: u64) -> String {
    let letters: Vec<char> = "abcXYZ019 \"'\\/{}[]$&:=;,äß\n".chars().collect();
    let (mut state, mut text) = (
        seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        format!("s3cr3t{seed}x"),
    );
    for _ in 0..24 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = usize::try_from(state % letters.len() as u64).unwrap();
        text.push(letters[at]);
    }
    text
}

/// An object with a secret in every place that is known.
fn object_with(secret: &str) -> Value {
    let manifest = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"any": secret}});
    let deployment =
        json!({"kind": "Deployment", "spec": {"containers": [{"env": [{"name": "ANY", "value": secret}]}]}});
    json!({
        "kind": "InstallPlan",
        "metadata": {"managedFields": [{"x": secret}], "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": json!({"x": secret}).to_string(),
            "alm-examples": json!([{"kind": "Db", "spec": {"adminPassword": secret}}]).to_string(),
        }},
        "spec": {
            "containers": [{
                "env": [{"name": "ANY", "value": secret}, {"name": "DB_PASSWORD", "value": secret}],
                "args": [format!("--db-password={secret}"), "--token", secret, "--verbose"],
                "command": ["run", "-client-secret", secret],
            }],
            "config": {"env": [{"name": "OTHER", "value": secret}]},
            "apiKey": secret, "tokens": [secret], "clientSecret": secret,
        },
        "status": {"plan": [
            {"resource": {"kind": "Secret", "manifest": manifest.to_string()}},
            {"resource": {"kind": "Secret", "manifest": format!("not JSON {secret}")}},
            {"resource": {"kind": "Secret", "manifest": json!({"data": {"any": secret}}).to_string()}},
            {"resource": {"kind": "Deployment", "manifest": deployment.to_string()}},
        ]},
        "inside": [{"kind": "Secret", "data": {"any": secret}}, {"kind": "ConfigMap", "data": {"any": secret}, "binaryData": {"b": secret}}],
    })
}

/// A secret as it is, as JSON writes it, and as JSON in JSON does.
fn forms(secret: &str) -> Vec<String> {
    let once = Value::from(secret).to_string();
    let once = once.trim_matches('"').to_owned();
    let twice = Value::from(once.as_str())
        .to_string()
        .trim_matches('"')
        .to_owned();
    // Every one of them begins so.
    vec![secret.to_owned(), once, twice, secret.chars().take(12).collect()]
}

#[test]
fn no_text_of_a_secret_is_left_wherever_it_stood() {
    for seed in 0..300 {
        let secret = secret(seed);
        let mut redactor = Redactor::new().unwrap();
        let mut object = object_with(&secret);
        redactor.object(&mut object);
        let text = object.to_string();
        for form in forms(&secret) {
            assert!(!text.contains(&form), "{secret:?}: {text}");
        }
        assert!(text.contains(REDACTED));
        assert!(redactor.counts().len() > 5, "{:?}", redactor.counts());
    }
}

#[test]
fn texts_lose_what_looks_like_a_secret_and_nothing_else() {
    let mut redactor = Redactor::new().unwrap();
    for (text, expected) in [
        (
            "pull https://me:pass@registry.example.com/x failed",
            "pull https://REDACTED@registry.example.com/x failed",
        ),
        (
            "https://registry.example.com/a@b",
            "https://registry.example.com/a@b",
        ),
        (
            "Authorization: Bearer abcdef.123",
            "Authorization: Bearer REDACTED",
        ),
        ("db_password=hunter2 next", "db_password=REDACTED next"),
        (r#"{"password":"a b","n":1"#, r#"{"password":REDACTED,"n":1"#),
        (
            r#"said {\"token\":\"abc\"} to"#,
            r#"said {\"token\":REDACTED} to"#,
        ),
        (
            "see eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig here",
            "see REDACTED here",
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- x",
            "REDACTED x",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMII", "REDACTED"),
        (
            "deployment etcd is available, 2 of 2",
            "deployment etcd is available, 2 of 2",
        ),
    ] {
        assert_eq!(redactor.text(text), expected, "{text}");
    }
}

#[test]
fn what_tells_how_an_operator_was_installed_stays() {
    let mut redactor = Redactor::new().unwrap();
    let object = json!({"kind": "Deployment", "spec": {"env": [{"name": "WATCH_NAMESPACE", "value": "shop"}, {"name": "RELATED_IMAGE_DB", "value": "db:v1"}],
        "args": ["--leader-elect", "--v=2"], "volumes": [{"secret": {"secretName": "cert"}}], "imagePullSecrets": [{"name": "pull"}],
        "secrets": ["pull"], "automountServiceAccountToken": true}});
    let mut redacted = object.clone();
    redactor.object(&mut redacted);
    // Names of Secrets are no secrets.
    assert_eq!(redacted["spec"]["secrets"], json!(["pull"]));
    assert_eq!(redacted, object);
}

#[tokio::test(start_paused = true)]
async fn a_bundle_has_what_a_maintainer_needs_and_asks_for_no_secret() {
    let cluster = cluster();
    let hidden = secret(7);
    cluster.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "s"}, "stringData": {"any": hidden}}));
    let mut waits = plan("install-1", "RequiresApproval", false);
    waits["status"]["plan"] = object_with(&hidden)["status"]["plan"].clone();
    cluster.put(waits);
    cluster.edit(
        "CatalogSource",
        "olm",
        "cat",
        &json!({"status": {"message": "token=abcdef"}}),
    );
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_read_is_listed() {
    let cluster = cluster();
    cluster.on_request(|request| {
        (request.kind.kind == "InstallPlan")
            .then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "it is forbidden")))
    });
    let (archive, parts, summary) = bundle_of(&cluster, Some("shop")).await;
    assert!(!archive.is_whole());
    assert_eq!(archive.no_answer(), None);
    let manifest: Value = serde_json::from_str(part(&parts, "manifest.json")).unwrap();
    let unread = manifest["notRead"].to_string();
    assert!(
        unread.contains("installplans in namespace shop") && unread.contains("it is forbidden"),
        "{unread}"
    );
    assert!(
        summary.contains("not read: installplans in namespace shop"),
        "{summary}"
    );

    cluster.on_request(|_| Some(Fault::Refuse(Refusal::new(403, "Forbidden", "all is forbidden"))));
    let (archive, ..) = bundle_of(&cluster, Some("shop")).await;
    assert!(
        archive
            .no_answer()
            .is_some_and(|cause| cause.contains("all is forbidden"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_answer_is_given_up() {
    let cluster = cluster();
    cluster.on_request(|_| Some(Fault::Hang));
    let start = tokio::time::Instant::now();
    let (archive, ..) = bundle_of(&cluster, None).await;
    assert!(
        start.elapsed() < Duration::from_secs(310),
        "{:?}",
        start.elapsed()
    );
    assert!(archive.no_answer().is_some());
}

#[cfg(unix)]
#[test]
fn the_file_is_its_owners_whole_and_never_written_over_unasked() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bundle.tar.gz");
    let mut archive = Archive::new().unwrap();
    archive.text("a.txt", "one");
    archive.write(&path, false).unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        unpacked(&std::fs::read(&path).unwrap()),
        [("olm-support-bundle/a.txt".to_owned(), "one".to_owned())]
    );

    std::fs::write(&path, "mine").unwrap();
    let error = is_free(&path, false).unwrap_err().to_string();
    assert!(error.contains("--force"), "{error}");
    // One that came after that was looked at stays, too.
    assert!(archive.write(&path, false).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    is_free(&path, true).unwrap();
    archive.write(&path, true).unwrap();
    assert_ne!(std::fs::read(&path).unwrap(), b"mine");
    assert!(archive.write(&folder.path().join("no/bundle"), false).is_err());
    // Nothing is left behind.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn no_part_leaves_the_folder_and_none_makes_the_bundle_endless() {
    let mut archive = Archive::new().unwrap();
    archive.text("logs/../../etc/pass wd", "x");
    archive.part("large", "x".repeat(archive::MAX_BYTES));
    assert!(!archive.is_whole());
    let parts = unpacked(&archive.packed().unwrap());
    let paths: Vec<&str> = parts.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["olm-support-bundle/logs/_/_/etc/pass_wd"]);
}

#[test]
fn of_a_log_the_end_is_kept_in_whole_lines() {
    let mut tail = Tail::default();
    tail.push(b"one\ntwo\n");
    assert_eq!(tail.text(), "one\ntwo\n");
    let mut tail = Tail::default();
    for line in 0..500_000 {
        tail.push(format!("line {line}\n").as_bytes());
    }
    let text = tail.text();
    assert!(
        text.len() <= MAX_LOG && text.len() > MAX_LOG - 20,
        "{}",
        text.len()
    );
    assert!(text.starts_with("line ") && text.ends_with("line 499999\n"));
    let mut tail = Tail::default();
    tail.push(&vec![b'x'; MAX_LOG + 1]);
    assert_eq!(tail.text(), "");
}
