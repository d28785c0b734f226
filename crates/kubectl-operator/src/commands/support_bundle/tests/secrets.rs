//! What is taken out, and what stays.

use serde_json::{Value, json};

use super::super::redact::{REDACTED, Redactor};

/// A text that could be a secret: letters that mean something to JSON, shells and expressions among them.
pub(super) fn secret(seed: u64) -> String {
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
pub(super) fn object_with(secret: &str) -> Value {
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
            {"resource": {"kind": "BundleSecret", "manifest": manifest.to_string()}},
            {"resource": {"kind": "BundleSecret", "manifest": format!("not JSON {secret}")}},
            {"resource": {"kind": "BundleSecret", "manifest": json!({"data": {"any": secret}}).to_string()}},
            {"resource": {"kind": "BundleSecret", "manifest": json!({"kind": "Db", "data": {"any": secret}}).to_string()}},
            {"resource": {"kind": "Secret", "manifest": format!("not JSON {secret}")}},
            {"resource": {"kind": "Secret", "manifest": json!({"data": {"any": secret}}).to_string()}},
            {"resource": {"kind": "Deployment", "manifest": deployment.to_string()}},
        ]},
        "inside": [{"kind": "Secret", "data": {"any": secret}}, {"kind": "ConfigMap", "data": {"any": secret}, "binaryData": {"b": secret}}],
    })
}

/// A secret as it is, as JSON writes it, and as JSON in JSON does.
pub(super) fn forms(secret: &str) -> Vec<String> {
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
        ("Authorization: Bearer abcdef.123", "Authorization: REDACTED"),
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

/// Whether six letters of it are left.
fn left<'a>(secret: &'a str, text: &str) -> Option<&'a str> {
    let starts: Vec<usize> = secret
        .char_indices()
        .map(|(at, _)| at)
        .chain([secret.len()])
        .collect();
    let mut parts = starts.windows(7).filter_map(|ends| secret.get(ends[0]..ends[6]));
    parts.find(|part| text.contains(part))
}

/// Each place with a secret in it, as an object; texts are in its messages.
#[test]
fn no_six_letters_of_a_secret_are_left() {
    const KEY: &str = "MIIEowIBAAKCAQEAt0p5ecretK3yM4teri4l";
    let said = |text: &str| json!({"status": {"message": text}});
    let rows: Vec<(&str, &str, Value)> = vec![
        (
            "a: a shell",
            "hunter2Qz7",
            json!({"command": ["sh", "-c", "op --token hunter2Qz7 --v 2"]}),
        ),
        ("a: a log", "hunter2Qz7", said("args: --password hunter2Qz7")),
        (
            "a: words as JSON",
            "hunter2Qz7",
            said(r#"run ["op","--db-password","hunter2Qz7"]"#),
        ),
        (
            "a: a flag before",
            "hunter2Qz7",
            said("op --use-token --password hunter2Qz7 -v"),
        ),
        (
            "a: a word before",
            "hunter2Qz7",
            json!({"args": ["--use-token", "--password", "hunter2Qz7"]}),
        ),
        (
            "a: it looks like a flag",
            "--hunter2Qz7",
            json!({"args": ["--password", "--hunter2Qz7"]}),
        ),
        (
            "b: headers",
            "hunter2Qz7",
            json!({"httpGet": {"httpHeaders": [{"name": "X-Api-Key", "value": "hunter2Qz7"}]}}),
        ),
        (
            "b: variables",
            "hunter2Qz7",
            json!({"extraEnv": [{"name": "DB", "value": "hunter2Qz7"}], "envVars": [{"Name": "X", "Value": "hunter2Qz7"}]}),
        ),
        (
            "b: parameters",
            "hunter2Qz7",
            json!({"parameters": [{"name": "any", "values": ["hunter2Qz7", {"a": "hunter2Qz7"}]}]}),
        ),
        (
            "b: keys",
            "hunter2Qz7",
            json!({"settings": [{"key": "db-password", "value": "hunter2Qz7"}]}),
        ),
        (
            "c: a number",
            "1234567890",
            json!({"password": 1_234_567_890, "x": {"token": [1_234_567_890_u64]}}),
        ),
        (
            "d: an object",
            "hunter2Qz7",
            json!({"credentials": {"user": "u", "key": "hunter2Qz7"}}),
        ),
        (
            "d: a value",
            "hunter2Qz7",
            json!({"password": {"value": "hunter2Qz7"}, "passwords": {"admin": {"now": ["hunter2Qz7"]}}}),
        ),
        (
            "d: no reference",
            "hunter2Qz7",
            json!({"secret": {"key": "hunter2Qz7"}, "secrets": {"admin": "hunter2Qz7"}, "tokenRef": {"value": "hunter2Qz7"}}),
        ),
        (
            "d: no name",
            "hunter2Qz7",
            json!({"secret": "hunter2Qz7", "secrets": ["hunter2Qz7!"], "secretName": "hunter2Qz7!"}),
        ),
        (
            "e: JSON in a text",
            "aHVudGVyMlF6Nw",
            json!({"config": r#"{"auths":{"r.io":{"auth":"aHVudGVyMlF6Nw=="}}}"#}),
        ),
        (
            "e: in a line",
            "aHVudGVyMlF6Nw",
            said(r#"wrote {"auths":{"r.io":{"auth":"aHVudGVyMlF6Nw=="}}} there"#),
        ),
        (
            "f: a token",
            "ghp_hunter2Qz7",
            said("sent Authorization: token ghp_hunter2Qz7"),
        ),
        (
            "f: alone",
            "ghp_hunter2Qz7",
            said("sent Authorization: ghp_hunter2Qz7"),
        ),
        (
            "f: a signature",
            "hunter2Qz7",
            said("AWS4-HMAC-SHA256 SignedHeaders=host, Signature=hunter2Qz7"),
        ),
        (
            "f: a cookie",
            "hunter2Qz7",
            said("Set-Cookie: a=b; session=hunter2Qz7"),
        ),
        ("f: bearer", "hunter2!Qz7", said("with Bearer hunter2!Qz7")),
        (
            "g: a flag",
            "hunter2Qz7",
            json!({"args": ["--db-pass=hunter2Qz7", "PGPASS=hunter2Qz7"]}),
        ),
        (
            "g: fields",
            "hunter2Qz7",
            json!({"dbPass": "hunter2Qz7", "pass": "hunter2Qz7", "signingKey": "hunter2Qz7", "encryption-key": "hunter2Qz7"}),
        ),
        (
            "g: texts",
            "hunter2Qz7",
            said("dbPass: hunter2Qz7 pass: hunter2Qz7 PGPASS=hunter2Qz7 signingKey=hunter2Qz7"),
        ),
        (
            "g: a key as bytes",
            "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt",
            said("read LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt= there"),
        ),
        (
            "g: a key in a field",
            "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt",
            said("client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt"),
        ),
        (
            "h: a comma",
            "hunter,2Qz7aaaa",
            said("password=hunter,2Qz7aaaa next"),
        ),
        (
            "h: a semicolon",
            "hunter;2Qz7aaaa",
            said("password=hunter;2Qz7aaaa"),
        ),
        (
            "h: an ampersand",
            "hunter&2Qz7aaaa",
            said("password: hunter&2Qz7aaaa"),
        ),
        (
            "h: brackets",
            "hunter}2Qz7]aaaa",
            said("password=hunter}2Qz7]aaaa"),
        ),
        (
            "h: a quote",
            "hunter2Qz7",
            said(r#"got {"password":"x"hunter2Qz7"} there"#),
        ),
        (
            "h: a quote in JSON in JSON",
            "hunter2Qz7",
            said(r#"got "{"password":"x\"hunter2Qz7","n":1}" there"#),
        ),
        (
            "h: an escaped quote before a blank",
            "hunter2Qz7",
            said(r#"got {"password":"x\" hunter2Qz7","n":1} there"#),
        ),
        (
            "h: a quote in the middle",
            "hunter\"2Qz7aaaa",
            said("password=hunter\"2Qz7aaaa"),
        ),
        (
            "h: a quoted beginning",
            "hunter2Qz7",
            said("password='a'hunter2Qz7"),
        ),
        (
            "h: a number in JSON",
            "1234567890",
            said(r#"got {"password":1234567890,"n":1} there"#),
        ),
        (
            "h: an object in JSON",
            "hunter2Qz7",
            said(r#"got {"credentials":{"a":["x","hunter2Qz7"]},"n":1} there"#),
        ),
        (
            "i: no end",
            "hunter2 Qz7",
            said(r#"got {"password":"hunter2 Qz7"#),
        ),
        (
            "i: no end of an object",
            "hunter2 Qz7",
            said(r#"got {"credentials":{"a":"hunter2 Qz7"#),
        ),
        (
            "k: a slash",
            "hunter/2Qz7aaaa",
            said("postgres://user:hunter/2Qz7aaaa@host/db"),
        ),
        (
            "k: a fragment",
            "hunter#2Qz7aaaa",
            said("postgres://user:hunter#2Qz7aaaa@host/db"),
        ),
        (
            "k: a question",
            "hunter?2Qz7aaaa",
            said("postgres://user:hunter?2Qz7aaaa@host/db"),
        ),
        (
            "k: an at",
            "hunter@2Qz7aaaa",
            said("postgres://user:hunter@2Qz7aaaa@host/db"),
        ),
        (
            "k: digits first",
            "12/hunter2Qz7",
            said("postgres://user:12/hunter2Qz7@host/db"),
        ),
        (
            "k: mysql",
            "hunter/2Qz7aaaa",
            said("user:hunter/2Qz7aaaa@tcp(host)/db"),
        ),
        ("k: cut", "hunter2Qz7", said("dial postgres://user:hunter2Qz7…")),
        (
            "l: PGP",
            KEY,
            said(&format!(
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{KEY}\n-----END PGP PRIVATE KEY BLOCK----- x"
            )),
        ),
        (
            "l: RSA",
            KEY,
            said(&format!(
                "-----BEGIN RSA PRIVATE KEY-----\\n{KEY}\\n-----END RSA PRIVATE KEY-----"
            )),
        ),
        (
            "l: no end",
            KEY,
            said(&format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{KEY}")),
        ),
        (
            "m: no beginning",
            KEY,
            said(&format!("{KEY}\n{KEY}\n-----END RSA PRIVATE KEY-----\nafter")),
        ),
        (
            "n: no JSON",
            "hunter2Qz7",
            json!({"status": {"plan": [{"resource": {"kind": "BundleSecret", "manifest": "any: hunter2Qz7"}}]}}),
        ),
        (
            "n: no kind",
            "hunter2Qz7",
            json!({"resource": {"kind": "BundleSecret", "manifest": r#"{"data":{"any":"hunter2Qz7"}}"#}}),
        ),
        (
            "n: another kind",
            "hunter2Qz7",
            json!({"resource": {"kind": "BundleSecret", "manifest": r#"{"kind":"Db","stringData":{"any":"hunter2Qz7"}}"#}}),
        ),
        (
            "YAML: a line",
            "hunter 2Qz7aaaa",
            said("a: b\n  password: hunter 2Qz7aaaa\n  c: d"),
        ),
        (
            "YAML: a block",
            "hunter2Qz7",
            said("password: |\n  x\n  hunter2Qz7\nc: d"),
        ),
        (
            "YAML: a map",
            "hunter2Qz7",
            said("passwords:\n  admin: hunter2Qz7\nc: d"),
        ),
    ];
    for (name, secret, object) in rows {
        let mut redacted = object.clone();
        Redactor::new().unwrap().object(&mut redacted);
        // As it is written, and as it is meant.
        let mut texts = vec![redacted.to_string()];
        texts.extend(
            redacted
                .pointer("/status/message")
                .and_then(Value::as_str)
                .map(str::to_owned),
        );
        for text in texts {
            assert_eq!(left(secret, &text), None, "{name}: {text}");
            assert!(text.contains(REDACTED), "{name}: {text}");
        }
        let message = object.pointer("/status/message").and_then(Value::as_str);
        if let Some(message) = message.filter(|_| !name.starts_with("YAML")) {
            let log = format!("2026-01-01T00:00:00Z before\n{message}\nlast line\n");
            let text = Redactor::new().unwrap().lines(&log);
            assert_eq!(left(secret, &text), None, "{name}: {text}");
        }
    }
}

#[test]
fn what_is_said_in_one_line_of_a_log_ends_with_it() {
    let mut redactor = Redactor::new().unwrap();
    let log = "one\ngot \"password\":\"hunter2\n\u{1b}[36mpassword\u{1b}[0m=hunter2 two\nAuthorization: x y\nthree\n";
    assert_eq!(
        redactor.lines(log),
        "one\ngot \"password\":REDACTED\npassword=REDACTED two\nAuthorization: REDACTED\nthree\n"
    );
    // Half a key hides no more than a key may have.
    let lines = "a line of a log\n".repeat(20_000);
    for log in [
        format!("{lines}-----END PRIVATE KEY-----\n{lines}"),
        format!("{lines}-----BEGIN PRIVATE KEY-----\n{lines}"),
    ] {
        let text = redactor.lines(&log);
        assert!(text.len() > log.len() - 66_000, "{}", text.len());
        assert!(text.contains(REDACTED) && text.starts_with("a line") && text.ends_with("log\n"));
    }
}

#[test]
fn what_refers_to_a_secret_stays() {
    let mut redactor = Redactor::new().unwrap();
    let object = json!({
        "env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}}],
        "envFrom": [{"secretRef": {"name": "s"}}],
        "volumes": [{"secret": {"secretName": "cert", "items": [{"key": "tls.key", "path": "tls.key"}]}},
            {"projected": {"sources": [{"serviceAccountToken": {"audience": "a", "path": "token"}}]}}],
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "db"}],
        "affinity": {"topologyKey": "zone", "matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
        "conditions": [{"type": "Ready", "message": "volume \"etcd-cert\" : secret \"etcd-cert\" not found"}],
        "image": "docker://localhost:5000/etcd@sha256:abc", "rules": [{"resources": ["secrets", "tokenreviews"]}],
    });
    let mut redacted = object.clone();
    redactor.object(&mut redacted);
    assert_eq!(redacted, object);
}
