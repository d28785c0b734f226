//! `opm alpha bundle`, `opm graph` and `opm lint` from the command line.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use support::{Ran, bundle, catalog, opm, program, ran, text};

fn in_directory(directory: &std::path::Path, arguments: &[&str]) -> Ran {
    ran(&program()
        .current_dir(directory)
        .args(arguments)
        .output()
        .expect("opm runs"))
}

#[test]
fn generate_writes_annotations_and_a_dockerfile() {
    let dir = tempfile::tempdir().expect("folder");
    let bundle = bundle(dir.path(), "1.0.0");
    let annotations = bundle.join("metadata/annotations.yaml");
    std::fs::remove_file(&annotations).expect("removed");
    let generate = [
        "alpha",
        "bundle",
        "generate",
        "-d",
        "demo-1.0.0/manifests",
        "-p",
        "demo",
        "-c",
        "stable,fast",
        "-e",
        "stable",
    ];
    in_directory(dir.path(), &generate).ok();
    let written = std::fs::read_to_string(&annotations).expect("annotations");
    for line in [
        "operators.operatorframework.io.bundle.channel.default.v1: stable",
        "operators.operatorframework.io.bundle.channels.v1: stable,fast",
        "operators.operatorframework.io.bundle.mediatype.v1: registry+v1",
        "operators.operatorframework.io.bundle.package.v1: demo",
    ] {
        assert!(written.contains(line), "{line} is missing in\n{written}");
    }
    let dockerfile = std::fs::read_to_string(dir.path().join("bundle.Dockerfile")).expect("Dockerfile");
    for line in [
        "FROM scratch",
        "LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/",
        "LABEL operators.operatorframework.io.bundle.channels.v1=stable,fast",
        "COPY demo-1.0.0/manifests /manifests/",
        "COPY demo-1.0.0/metadata /metadata/",
    ] {
        assert!(
            dockerfile.lines().any(|found| found == line),
            "{line} is missing in\n{dockerfile}"
        );
    }
    assert_eq!(opm(&["alpha", "bundle", "validate", "-t", text(&bundle)]).code, 0);

    // Without a default channel upstream writes no blank line.
    in_directory(dir.path(), &generate[..generate.len() - 2]).ok();
    let plain = std::fs::read_to_string(dir.path().join("bundle.Dockerfile")).expect("Dockerfile");
    assert!(
        plain.contains("channels.v1=stable,fast\nCOPY demo-1.0.0/manifests"),
        "{plain}"
    );
    assert!(
        dockerfile.contains("channel.default.v1=stable\n\nCOPY demo-1.0.0/manifests"),
        "{dockerfile}"
    );

    let out = dir.path().join("out");
    let mut elsewhere = generate.to_vec();
    elsewhere.extend(["-u", "out"]);
    in_directory(dir.path(), &elsewhere).ok();
    assert!(
        out.join("manifests/things.crd.yaml").is_file() && out.join("metadata/annotations.yaml").is_file()
    );

    std::fs::create_dir(dir.path().join("empty")).expect("folder");
    let error = in_directory(
        dir.path(),
        &["alpha", "bundle", "generate", "-d", "empty", "-p", "p", "-c", "c"],
    )
    .fails();
    assert!(error.contains("contains no yaml files"), "{error}");
    let error = in_directory(
        dir.path(),
        &["alpha", "bundle", "generate", "-d", "demo-1.0.0/manifests"],
    )
    .fails();
    assert!(
        error.contains("please manually input channels and packageName"),
        "{error}"
    );
}

#[test]
fn generate_finds_package_and_channels_in_the_package_directory() {
    let dir = tempfile::tempdir().expect("folder");
    let root = dir.path().join("demo");
    for version in ["1.0.0", "1.1.0"] {
        let made = bundle(dir.path(), version);
        std::fs::create_dir_all(&root).expect("folder");
        std::fs::rename(made.join("manifests"), root.join(version)).expect("moved");
    }
    let csv = root.join("1.1.0/demo.clusterserviceversion.yaml");
    let newer = std::fs::read_to_string(&csv).expect("CSV").replace(
        "spec:\n  displayName",
        "spec:\n  replaces: demo.v1.0.0\n  displayName",
    );
    std::fs::write(&csv, newer).expect("CSV");
    std::fs::write(
        root.join("demo.package.yaml"),
        "packageName: demo\ndefaultChannel: stable\nchannels:\n- {name: stable, currentCSV: demo.v1.1.0}\n- {name: old, currentCSV: demo.v1.0.0}\n- {name: new, currentCSV: demo.v9}\n",
    )
    .expect("package");
    in_directory(dir.path(), &["alpha", "bundle", "generate", "-d", "demo/1.0.0"]).ok();
    let written = std::fs::read_to_string(root.join("metadata/annotations.yaml")).expect("annotations");
    assert!(
        written.contains("channels.v1: old,stable\n") && written.contains("package.v1: demo"),
        "{written}"
    );
}

#[test]
fn validate_reports_all_problems() {
    let dir = tempfile::tempdir().expect("folder");
    let bundle = bundle(dir.path(), "1.0.0");
    let validate =
        |more: &[&str]| opm(&[&["alpha", "bundle", "validate", "-t", text(&bundle)], more].concat());
    assert_eq!(validate(&["-b", "none"]).code, 0);
    let error = validate(&["-o", "operatorhub"]).fails();
    assert!(error.contains("csv.Spec.Provider.Name not specified"), "{error}");
    let budget = bundle.join("manifests/budget.yaml");
    std::fs::write(
        &budget,
        "kind: PodDisruptionBudget\nmetadata: {name: b}\nspec: {maxUnavailable: 0}\n",
    )
    .expect("file");
    assert_eq!(validate(&[]).code, 0);
    let error = validate(&["-o", "operatorhub, bundle-objects"]).fails();
    assert!(
        error.contains("csv.Spec.Provider.Name") && error.contains("maxUnavailable field"),
        "{error}"
    );
    std::fs::remove_file(budget).expect("removed");
    std::fs::write(
        bundle.join("manifests/quota.yaml"),
        "kind: ResourceQuota\nmetadata: {name: q}\n",
    )
    .expect("file");
    let csv = bundle.join("manifests/demo.clusterserviceversion.yaml");
    let broken = std::fs::read_to_string(&csv)
        .expect("CSV")
        .replace("version: v1}", "version: v2}");
    std::fs::write(&csv, broken).expect("CSV");
    let error = validate(&[]).fails();
    assert!(
        error.starts_with("Error: Bundle validation errors: ")
            && error.contains("ResourceQuota is not supported type for registryV1 bundle")
            && error.contains("owned CRD things.demo.example.com/v2 not found in bundle \"demo.v1.0.0\""),
        "{error}"
    );
    std::fs::remove_dir_all(bundle.join("metadata")).expect("removed");
    let error = validate(&[]).fails();
    assert!(error.contains("Unable to locate metadata directory"), "{error}");
    let error = opm(&["alpha", "bundle", "validate"]).fails();
    assert!(error.contains("--tag"), "{error}");
}

/// Manifests that the operators cannot decode or the resolver cannot run are rejected, by the same types and engine.
#[test]
fn validate_decodes_and_compiles() {
    let dir = tempfile::tempdir().expect("folder");
    let bundle = bundle(dir.path(), "1.0.0");
    let validate = || opm(&["alpha", "bundle", "validate", "-t", text(&bundle)]);
    let dependencies = bundle.join("metadata/dependencies.yaml");
    for (rule, expected) in [
        ("properties.exists(p, p.type == 'x')", ""),
        (
            "1 + 1",
            "Invalid CEL expression: cel expressions must have type Bool",
        ),
        ("nobody(properties)", "Invalid CEL expression: "),
        ("1 == 'a'", "Invalid CEL expression: "),
    ] {
        let text =
            format!("dependencies:\n- {{type: olm.constraint, value: {{cel: {{rule: \"{rule}\"}}}}}}\n");
        std::fs::write(&dependencies, text).expect("file");
        let found = validate();
        assert_eq!(
            found.code,
            i32::from(!expected.is_empty()),
            "{rule}: {}",
            found.stderr
        );
        assert!(found.stderr.contains(expected), "{rule}: {}", found.stderr);
    }
    std::fs::remove_file(dependencies).expect("removed");
    let csv = bundle.join("manifests/demo.clusterserviceversion.yaml");
    let good = std::fs::read_to_string(&csv).expect("CSV");
    for (from, to, expected) in [
        ("displayName: Demo", "displayName: 3", "spec.displayName"),
        (
            "name: demo, image: 'quay.io/demo/operator:1.0.0'",
            "name: demo, image: 1",
            "image",
        ),
        ("selector:", "replicas: x, selector:", ""),
    ] {
        let broken = good.replace(from, to);
        assert_ne!(broken, good, "{from}");
        std::fs::write(&csv, broken).expect("CSV");
        let error = validate().fails();
        assert!(error.contains(expected), "{to}: {error}");
    }
    std::fs::write(&csv, good).expect("CSV");
    std::fs::create_dir(bundle.join("manifests/more")).expect("folder");
    let error = validate().fails();
    assert!(
        error.contains("Unable to read file manifests/more in supported types"),
        "{error}"
    );
}

#[test]
fn build_runs_the_requested_tool() {
    let dir = tempfile::tempdir().expect("folder");
    bundle(dir.path(), "1.0.0");
    let tool = dir.path().join("podman");
    std::fs::write(&tool, "#!/bin/sh\necho \"$@\" > called\n").expect("tool");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
    let build = |name: &str| {
        let mut command = program();
        command
            .env("PATH", format!("{}:/bin:/usr/bin", dir.path().display()))
            .current_dir(dir.path())
            .args([
                "alpha",
                "bundle",
                "build",
                "-d",
                "demo-1.0.0/manifests",
                "-t",
                "q.io/x/y:1",
                "-p",
                "demo",
                "-c",
                "stable",
                "-b",
                name,
            ]);
        ran(&command.output().expect("opm runs"))
    };
    build("podman").ok();
    let called = std::fs::read_to_string(dir.path().join("called")).expect("called");
    assert_eq!(called, "build -f bundle.Dockerfile -t q.io/x/y:1 .\n");
    let error = build("kaniko").fails();
    assert!(error.contains("kaniko is not supported image builder"), "{error}");
    let error = build("buildah").fails();
    assert!(error.contains("cannot run buildah"), "{error}");
}

/// An API server with one ConfigMap: a GET returns it, and a PUT is recorded.
fn one_config_map(listener: TcpListener) -> std::thread::JoinHandle<Vec<(String, String)>> {
    std::thread::spawn(move || {
        let mut requests = Vec::new();
        let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","resourceVersion":"7"},"data":{"old":"x"}}"#;
        while requests.len() < 2 {
            let (mut stream, _) = listener.accept().expect("connection");
            let mut text = Vec::new();
            let mut buffer = [0; 4096];
            let (head, body) = loop {
                let count = stream.read(&mut buffer).expect("request");
                text.extend_from_slice(&buffer[..count]);
                let whole = String::from_utf8_lossy(&text).into_owned();
                let Some((head, body)) = whole.split_once("\r\n\r\n") else {
                    continue;
                };
                let length = head
                    .lines()
                    .find_map(|line| {
                        line.to_ascii_lowercase()
                            .strip_prefix("content-length: ")?
                            .parse()
                            .ok()
                    })
                    .unwrap_or(0);
                if body.len() >= length {
                    break (head.to_owned(), body.to_owned());
                }
            };
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{map}",
                map.len()
            );
            stream.write_all(answer.as_bytes()).expect("answer");
            requests.push((head, body));
        }
        requests
    })
}

#[test]
fn extract_fills_a_config_map() {
    let dir = tempfile::tempdir().expect("folder");
    let bundle = bundle(dir.path(), "1.0.0");
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    let address = listener.local_addr().expect("address");
    let server = one_config_map(listener);
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(
        &kubeconfig,
        format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {{server: 'http://{address}'}}}}]\nusers: [{{name: u, user: {{token: secret}}}}]\n"
        ),
    )
    .expect("kubeconfig");
    let mut command = program();
    command.env("CONTAINER_IMAGE", "q.io/demo/bundle:v1").args([
        "alpha",
        "bundle",
        "extract",
        "-m",
        &format!("{}/", text(&bundle)),
        "-n",
        "olm",
        "-c",
        "m",
        "-k",
        text(&kubeconfig),
    ]);
    ran(&command.output().expect("opm runs")).ok();
    let requests = server.join().expect("server");
    assert!(
        requests[0]
            .0
            .starts_with("GET /api/v1/namespaces/olm/configmaps/m "),
        "{}",
        requests[0].0
    );
    assert!(requests[0].0.contains("Bearer secret"), "{}", requests[0].0);
    assert!(
        requests[1]
            .0
            .starts_with("PUT /api/v1/namespaces/olm/configmaps/m "),
        "{}",
        requests[1].0
    );
    let written: serde_json::Value = serde_json::from_str(&requests[1].1).expect("object");
    assert_eq!(
        written["metadata"]["resourceVersion"], "7",
        "an update by somebody else is not overwritten"
    );
    assert_eq!(
        written["metadata"]["annotations"]["olm.sourceImage"],
        "q.io/demo/bundle:v1"
    );
    assert_eq!(
        written["metadata"]["annotations"]["operators.operatorframework.io.bundle.package.v1"],
        "demo"
    );
    let keys: Vec<&String> = written["data"].as_object().expect("data").keys().collect();
    assert_eq!(keys, ["demo.clusterserviceversion.yaml", "things.crd.yaml"]);
    let error = opm(&["alpha", "bundle", "extract", "-c", "m"]).fails();
    assert!(error.contains("cluster config failed"), "{error}");
}

#[test]
fn graphs_are_drawn() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    let graph = |more: &[&str]| opm(&[&["graph", text(&catalog)], more].concat());
    let svg = graph(&["demo"]).ok();
    assert!(svg.starts_with("<svg ") && svg.contains("demo.v1.1.0"));
    assert!(
        graph(&["demo", "-o", "dot", "-c", "stable"])
            .ok()
            .contains("\"stable/demo.v1.0.0\" -> \"stable/demo.v1.1.0\";")
    );
    assert_eq!(graph(&["other"]).fails(), "Error: package \"other\" not found\n");
    assert_eq!(
        graph(&["demo", "-c", "x"]).fails(),
        "Error: package \"demo\", channel \"x\" not found\n"
    );
}

#[test]
fn lint_fails_on_findings_unless_allowed() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    let lint = |more: &[&str]| opm(&[&["lint", text(&catalog)], more].concat());
    assert_eq!(lint(&[]).ok(), "");
    let file = catalog.join("catalog.json");
    let blobs = std::fs::read_to_string(&file).expect("catalog");
    std::fs::write(
        &file,
        blobs.replace(
            r#""replaces": "demo.v1.0.0""#,
            r#""replaces": "demo.v1.0.0", "skipRange": "<=1.1.0""#,
        ),
    )
    .expect("catalog");
    let found = lint(&[]);
    assert_eq!(found.code, 1);
    assert!(
        found
            .stdout
            .contains("package \"demo\", channel \"stable\", skip-range-of-itself: "),
        "{}",
        found.stdout
    );
    assert!(found.stderr.contains("1 finding"), "{}", found.stderr);
    assert_eq!(lint(&["--allow", "skip-range-of-itself"]).ok(), "");
    let json: serde_json::Value = serde_json::from_str(&lint(&["-o", "json"]).stdout).expect("JSON");
    assert_eq!(json["findings"][0]["rule"], "skip-range-of-itself");
    assert!(
        lint(&["--allow", "x"])
            .fails()
            .contains("unknown rule \"x\", known are no-upgrade-path")
    );
    let yaml = lint(&["-o", "yaml"]);
    assert_eq!(yaml.code, 1);
    assert!(
        yaml.stdout.contains("rule: skip-range-of-itself"),
        "{}",
        yaml.stdout
    );
    // Balanced brackets, but never true.
    for (rule, expected) in [
        ("1 + 1", "cel expressions must have type Bool"),
        ("nobody(properties)", "nobody"),
    ] {
        let property = format!(r#"{{"type": "olm.constraint", "value": {{"cel": {{"rule": "{rule}"}}}}}}, "#);
        let with_rule = blobs.replacen("\"properties\": [", &format!("\"properties\": [{property}"), 1);
        assert_ne!(with_rule, blobs);
        std::fs::write(&file, with_rule).expect("catalog");
        let found = lint(&[]);
        assert_eq!(found.code, 1, "{}", found.stderr);
        assert!(
            found.stdout.contains(
                "package \"demo\", bundle \"demo.v1.0.0\", constraint: property[0]: it can never be met"
            ) && found.stdout.contains(expected),
            "{}",
            found.stdout
        );
    }
    std::fs::write(&file, "{}").expect("catalog");
    assert!(
        lint(&[]).fails().contains("missing root schema field"),
        "faults come first"
    );
}

/// Upstream accepts such a bundle and does not report what it drops.
#[test]
fn what_is_dropped_of_a_bundle_is_named() {
    let dir = tempfile::tempdir().expect("folder");
    let bundle = bundle(dir.path(), "1.0.0");
    let manifests = bundle.join("manifests");
    let file = manifests.join("demo.clusterserviceversion.yaml");
    let csv = std::fs::read_to_string(&file).expect("file");
    let csv = csv.replace(
        "metadata:\n  name: demo",
        "metadata:\n  annotations: {olm.skipRange: <v1.0.0}\n  name: demo",
    );
    std::fs::write(&file, csv).expect("file");
    let service = |name: &str| format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n");
    std::fs::write(
        manifests.join("two.yaml"),
        format!("{}---\n{}", service("a"), service("b")),
    )
    .expect("file");
    for command in [
        &["alpha", "bundle", "validate", "-t", text(&bundle)][..],
        &["render", text(&bundle)],
    ] {
        let ran = opm(command);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        for warning in [
            "warning: manifests/two.yaml: only the first document of the file is used",
            "warning: manifests/demo.clusterserviceversion.yaml: annotation olm.skipRange \"<v1.0.0\" is ignored, because it is not a version range",
            "write \"<1.0.0\"",
        ] {
            assert!(ran.stderr.contains(warning), "{warning} in {}", ran.stderr);
        }
    }
}
