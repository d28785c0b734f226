//! Recorded behaviour of upstream's `opm` (operator-registry bf58a7de) for small inputs: exit code and output where scripts see
//! them.

mod support;

use std::path::Path;

use support::{Ran, program, ran};

const CATALOG: &str = r#"{"schema": "olm.package", "name": "foo", "defaultChannel": "c"}
{"schema": "olm.channel", "name": "c", "package": "foo", "entries": [{"name": "foo.v1"}]}
{"schema": "olm.bundle", "name": "foo.v1", "package": "foo", "image": "quay.io/x/y:1",
 "properties": [{"type": "olm.package", "value": {"packageName": "foo", "version": "1.0.0"}}]}
"#;

/// Creates a directory with the catalog `c`, the broken catalog `broken`, the file `f` and other test data.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("folder");
    let write = |name: &str, text: &[u8]| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("folder")).expect("folder");
        std::fs::write(path, text).expect("file");
    };
    write("c/x.json", CATALOG.as_bytes());
    write(
        "broken/x.json",
        br#"{"schema": "olm.package", "name": "<a>&", "defaultChannel": "c"}"#,
    );
    write("f", b"text");
    write("latin.md", b"caf\xe9");
    dir
}

fn run(dir: &Path, arguments: &str) -> Ran {
    // `''` is an empty argument.
    let arguments = arguments
        .split(' ')
        .map(|word| if word == "''" { "" } else { word });
    ran(&program()
        .current_dir(dir)
        .args(arguments)
        .output()
        .expect("opm runs"))
}

#[test]
fn exit_codes_are_upstreams() {
    for (arguments, code, part) in [
        // The last value of a repeated flag is used; switches accept values.
        ("init foo -c x -c y", 0, r#""defaultChannel": "y""#),
        ("init foo -c=", 0, r#""defaultChannel": "=""#),
        ("init foo --default-channel=", 0, r#""defaultChannel": """#),
        ("version", 0, "Version: version.Version{OpmVersion:\"v"),
        (
            "version",
            0,
            "GitCommit:\"\", BuildDate:\"\", GoOs:\"linux\", GoArch:\"",
        ),
        ("render c -o yaml -o json", 0, "\"schema\": \"olm.package\""),
        ("render c --migrate=true", 0, "foo.v1"),
        ("render c --migrate=false", 0, "foo.v1"),
        ("render c --migrate --migrate-level all", 1, ""),
        ("alpha render-graph c --draw-v0-semantics=false", 0, "graph LR"),
        ("render c --bogus", 1, "unknown flag: --bogus"),
        ("render c -x", 1, "unknown shorthand flag: 'x' in -x"),
        (
            "render c -o xml",
            1,
            r#"invalid --output value "xml", expected (json|yaml)"#,
        ),
        (
            "render c -o ''",
            1,
            r#"invalid --output value "", expected (json|yaml)"#,
        ),
        ("bogus", 1, r#"unknown command "bogus" for "opm""#),
        ("validate c -o ''", 0, ""),
        (
            "validate c -o xml",
            1,
            r#"invalid --output value "xml", expected (json|yaml)"#,
        ),
        ("validate nope", 1, "stat nope: no such file or directory"),
        ("validate nope -o json", 1, "stat nope: no such file or directory"),
        ("validate f -o json", 1, "\"f\" is not a directory"),
        ("alpha list bundles c ''", 0, "foo.v1"),
        ("alpha list channels c ''", 0, "foo.v1"),
        ("alpha list channels c nope", 1, r#"package "nope" not found"#),
        ("alpha list packages f", 1, r#"cannot list non-index "f""#),
        (
            "render f",
            1,
            r#"render reference "f": ref "f" is not a directory: not allowed"#,
        ),
        ("completion bash --no-descriptions", 0, "opm"),
        // Conflicting registry flags are accepted by commands that contact no registry.
        ("validate c --use-http --skip-tls-verify", 0, ""),
        ("init foo --use-http --skip-tls", 0, "olm.package"),
        ("render c --skip-tls=true", 0, "foo.v1"),
        (
            "render c --use-http --skip-tls-verify",
            1,
            "invalid flag combination: --use-http and --skip-tls-verify cannot both be true",
        ),
        (
            "render c --use-http --skip-tls",
            1,
            "invalid flag combination: cannot use --use-http with --skip-tls",
        ),
        (
            "render c --skip-tls-verify --skip-tls",
            1,
            "invalid flag combination: cannot use --skip-tls-verify with --skip-tls",
        ),
        ("init foo -d latin.md", 0, "caf\u{fffd}"),
        ("init foo -i f", 1, r#"detected invalid type "": not an image"#),
    ] {
        let dir = place();
        let found = run(dir.path(), arguments);
        assert_eq!(found.code, code, "{arguments}: {}", found.stderr);
        let told = if code == 0 { &found.stdout } else { &found.stderr };
        assert!(told.contains(part), "{arguments}: {told}");
        assert!(
            code == 0 || found.stdout.is_empty(),
            "{arguments}: {}",
            found.stdout
        );
    }
}

#[test]
fn validation_reports_are_upstreams_byte_for_byte() {
    let dir = place();
    for (arguments, code, expected) in [
        ("validate c", 0, ""),
        ("validate c -o json", 0, "{\n  \"passed\": true\n}\n"),
        ("validate c -o yaml", 0, "passed: true\n\n"),
    ] {
        let found = run(dir.path(), arguments);
        assert_eq!(
            (found.code, found.stdout.as_str()),
            (code, expected),
            "{arguments}"
        );
    }
    let found = run(dir.path(), "validate broken -o json");
    assert_eq!(found.code, 1);
    let start = "{\n  \"passed\": false,\n  \"error\": {\n    \"message\": \"invalid package name \\\"\\u003ca\\u003e\\u0026\\\": [";
    assert!(found.stdout.starts_with(start), "{}", found.stdout);
    assert!(found.stdout.ends_with("\"\n  }\n}\n"), "{}", found.stdout);
    let found = run(dir.path(), "validate broken -o yaml");
    assert!(
        found.stdout.starts_with("error:\n  message: "),
        "{}",
        found.stdout
    );
    assert!(found.stdout.ends_with("passed: false\n\n"), "{}", found.stdout);
}

#[test]
fn converted_templates_are_upstreams_byte_for_byte() {
    let dir = place();
    let basic = run(dir.path(), "alpha convert-template basic c/x.json").ok();
    assert!(
        basic.contains("        {\n            \"schema\": \"olm.bundle\",\n            \"image\": \"quay.io/x/y:1\"\n        }"),
        "{basic}"
    );
    let entry = r#"{"schema": "olm.channel", "package": "p", "name": "c", "entries": [{"name": "b", "skipRange": "<1.0.0&>"}]}"#;
    std::fs::write(dir.path().join("range.json"), entry).expect("file");
    let escaped = run(dir.path(), "alpha convert-template basic range.json").ok();
    assert!(
        escaped.contains(r#""skipRange": "\u003c1.0.0\u0026\u003e""#),
        "{escaped}"
    );
    for kind in ["basic", "substitutes"] {
        let yaml = run(
            dir.path(),
            &format!("alpha convert-template {kind} c/x.json -o yaml"),
        )
        .ok();
        assert!(
            yaml.starts_with("---\nentries:\n") && yaml.ends_with("\n\n"),
            "{yaml}"
        );
    }
}

/// Dockerfiles are named after the last part of the directory, even if it is dots.
#[test]
fn dockerfiles_have_upstreams_names() {
    for (directory, expected) in [
        ("c", "c.Dockerfile"),
        ("./c/", "c.Dockerfile"),
        (".", "..Dockerfile"),
        ("..", "...Dockerfile"),
    ] {
        let dir = place();
        let found = run(
            dir.path(),
            &format!("generate dockerfile {directory} -l \"a=1,2\",b=3"),
        );
        assert_eq!((found.code, found.stderr.as_str()), (0, ""), "{directory}");
        let text = std::fs::read_to_string(dir.path().join(expected)).expect(expected);
        for line in ["LABEL \"a\"=\"1,2\"", "LABEL \"b\"=\"3\""] {
            assert!(text.lines().any(|found| found == line), "{directory}: {text}");
        }
        assert!(
            run(dir.path(), &format!("generate dockerfile {directory}"))
                .fails()
                .contains("already exists")
        );
    }
}

/// Rendering reads the manifests in a bundle, so broken ones are an error.
#[test]
fn rendering_refuses_broken_manifests() {
    for (value, part) in [
        (
            r#"{"data": "%%"}"#,
            "read bundle objects: package \"foo\", bundle \"foo.v2\": parse property at index 0",
        ),
        (r#"{"data": 1}"#, "expected a string, found number"),
        (r#""text""#, "expected an object, found string"),
        // base64 of `a: b: c`
        (r#"{"data": "YTogYjogYw=="}"#, "mapping values"),
    ] {
        let dir = place();
        let bundle = format!(
            r#"{{"schema": "olm.bundle", "name": "foo.v2", "package": "foo", "image": "i",
                "properties": [{{"type": "olm.bundle.object", "value": {value}}}]}}"#
        );
        std::fs::write(dir.path().join("c/y.json"), bundle).expect("file");
        for arguments in ["render c", "migrate c out", "alpha list bundles c", "validate c"] {
            let error = run(dir.path(), arguments).fails();
            assert!(error.contains(part), "{arguments} {value}: {error}");
        }
    }
}
