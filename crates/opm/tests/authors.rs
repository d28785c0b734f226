//! Problems of authors: rows D5, D13 and D17 to D20 of the first round of manual tests, one test each. (Misspelt names are tested
//! with validation and lint, guides by `guides.rs`, completion by `completion.rs`.)

mod support;

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{bash, bundle, catalog, opm, program, text};

/// D5: the image from the template is a related image, as in upstream, so mirrors copy it.
#[test]
fn d5_the_image_of_the_template_is_a_related_image() {
    let dir = tempfile::tempdir().expect("folder");
    let bundle = bundle(dir.path(), "1.0.0");
    let related = |template: &str| -> Vec<String> {
        let output = opm(&["render", text(&bundle), "--alpha-image-ref-template", template]).ok();
        let blob: Value = serde_json::from_str(&output).expect("one JSON document");
        let images = blob["relatedImages"].as_array().expect("list").iter();
        images
            .map(|related| related["image"].as_str().expect("text").to_owned())
            .collect()
    };
    assert_eq!(
        related("quay.io/demo/bundle:v{{.Version}}"),
        ["quay.io/demo/bundle:v1.0.0", "quay.io/demo/operator:1.0.0"],
        "sorted by image"
    );
    assert_eq!(
        related("quay.io/demo/operator:{{.Version}}"),
        ["quay.io/demo/operator:1.0.0"],
        "none is there twice"
    );
    assert_eq!(related(""), ["quay.io/demo/operator:1.0.0"]);
}

/// D13: arguments for files accept pipes, too, as of `<(…)`. Arguments for folders reject a pipe and do not wait.
#[test]
fn d13_files_may_be_pipes() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    std::fs::write(
        dir.path().join("template.yaml"),
        "schema: olm.semver\ngenerateMajorChannels: true\nstable:\n  bundles:\n  - image: demo-1.0.0\n",
    )
    .expect("file");
    for (line, part) in [
        ("opm init demo -d <(echo Described.)", "Described."),
        ("opm init demo -i <(printf '\\x89PNG\\r\\n\\x1a\\n')", "image/png"),
        (
            "opm alpha render-template semver <(cat template.yaml)",
            "stable-v1",
        ),
        ("opm alpha render-template <(cat template.yaml)", "stable-v1"),
        (
            "opm alpha convert-template basic <(cat catalog/catalog.json)",
            "olm.template.basic",
        ),
    ] {
        let found = bash(dir.path(), line).ok();
        assert!(found.contains(part), "{line}: {found}");
    }
    let image = "opm alpha image bundle demo-1.0.0 -t quay.io/demo/bundle:v1 -o >(cat > made.tar)";
    assert!(bash(dir.path(), image).ok().contains("@sha256:"));
    for (line, part) in [
        ("opm validate <(echo x)", "is not a directory"),
        ("opm lint <(echo x)", "is not a directory"),
        ("opm render <(echo x)", "is not a directory: not allowed"),
        ("opm serve <(echo x)", "is not a directory"),
        (
            "mkfifo pipe && timeout 10 opm render pipe",
            "is not a directory: not allowed",
        ),
        // The pipe is read: its content is invalid.
        (
            "opm alpha bundle unpack 127.0.0.1:1/x/y:v1 --root-ca <(echo none)",
            "127.0.0.1:1/x/y:v1",
        ),
    ] {
        let error = bash(dir.path(), line).fails();
        assert!(
            error.contains(part) && !error.contains("root CA"),
            "{line}: {error}"
        );
    }
    assert!(catalog.is_dir());
}

/// D17: one mistake, one error.
#[test]
fn d17_a_wrong_format_is_one_error() {
    for arguments in [
        &["render", "c", "-o", "xml"][..],
        &["lint", "c", "-o", "xml"],
        &["init", "p", "--output=xml"],
        &["validate", "c", "-o", "xml"],
        &["rendr"],
        &["render"],
    ] {
        let error = opm(arguments).fails();
        let errors = error.to_lowercase().matches("error:").count();
        assert_eq!(errors, 1, "{arguments:?}: {error}");
    }
    assert_eq!(
        opm(&["render", "c", "-o", "xml"]).fails(),
        "Error: invalid --output value \"xml\", expected (json|yaml)\n\n  tip: a similar value exists: 'yaml'\n\nFor more information, try '--help'.\n"
    );
}

/// D17: on a terminal the log of `serve` is coloured, unless `NO_COLOR` disables it.
#[test]
fn d17_no_color_makes_the_log_of_serve_plain() {
    if Command::new("script").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "script of util-linux is missing"
        );
        eprintln!("not run: a terminal is needed, which script of util-linux gives");
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    // A used port ends the command, after it has logged that it cannot write the cache.
    let taken = std::net::TcpListener::bind("[::]:0").or_else(|_| std::net::TcpListener::bind("0.0.0.0:0"));
    let taken = taken.expect("port");
    let port = taken.local_addr().expect("address").port();
    let serve = format!(
        "{} serve {} --port {port} --cache-dir /proc/none --cache-enforce-integrity=false",
        env!("CARGO_BIN_EXE_opm"),
        catalog.display()
    );
    let logged = |no_color: Option<&str>| {
        let mut command = Command::new("script");
        command.args(["-qec", &serve, "/dev/null"]).stdin(Stdio::null());
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        no_color.map(|value| command.env("NO_COLOR", value));
        let output = command.output().expect("script runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("the cache cannot be written"), "{text}");
        text
    };
    let escape = '\u{1b}';
    assert!(!logged(Some("1")).contains(escape));
    assert!(logged(None).contains(escape));
    assert!(logged(Some("")).contains(escape), "empty is as good as not set");
}

/// D17: a `package.json` that is not JSON was reported as one without a package.
#[test]
fn d17_a_package_file_that_is_no_json_is_reported() {
    let dir = tempfile::tempdir().expect("folder");
    bundle(dir.path(), "1.0.0");
    let file = dir.path().join("package.json");
    for (content, found) in [
        ("just words", "found string"),
        ("", "found null"),
        ("[1]", "found array"),
        ("{\"package\": \"demo\"", "unexpected end of JSON input"),
    ] {
        std::fs::write(&file, content).expect("file");
        let error = opm(&["generate", "catalog", text(dir.path())]).fails();
        assert!(
            error.contains("package.json: not JSON: expected an object with \"package\"")
                && error.contains(found),
            "{content}: {error}"
        );
    }
    std::fs::write(&file, "{\"channels\": {}}").expect("file");
    let error = opm(&["generate", "catalog", text(dir.path())]).fails();
    assert!(error.contains("package.json: \"package\" must be set"), "{error}");
}

/// D19: as with upstream's, SIGPIPE ends the process, which shells show as 141.
#[test]
fn d19_a_closed_reader_is_reported_by_the_exit_code() {
    let dir = tempfile::tempdir().expect("folder");
    let description = dir.path().join("README.md");
    std::fs::write(&description, "x".repeat(1 << 20)).expect("file");
    for arguments in [
        &["init", "demo", "-d", text(&description)][..],
        &["completion", "zsh"],
        &["render", "--help"],
    ] {
        let (reader, writer) = std::io::pipe().expect("pipe");
        drop(reader);
        let output = program()
            .args(arguments)
            .stdout(writer)
            .output()
            .expect("opm runs");
        assert_eq!(
            output.status.signal(),
            Some(13),
            "{arguments:?}: {:?}",
            output.status
        );
        assert_eq!(output.stderr, b"", "{arguments:?}");
    }
    let line = "set -o pipefail; opm init demo -d README.md | head -c 10";
    assert_eq!(bash(dir.path(), line).code, 141);
    let line = "set -o pipefail; opm init demo -d README.md | wc -c";
    assert_eq!(bash(dir.path(), line).code, 0);
}

/// D20: the error for a missing folder names the folder, not only images.
#[test]
fn d20_a_missing_folder_is_reported_as_such() {
    let dir = tempfile::tempdir().expect("folder");
    catalog(dir.path(), &["1.0.0"]);
    let fails = |line: &str| bash(dir.path(), line).fails();
    assert_eq!(
        fails("opm render catlog"),
        "Error: render reference \"catlog\": failed to pull image \"catlog\": repository name must be canonical: no such file \
         or directory either; an image is named with its registry, as in quay.io/NAMESPACE/NAME:TAG: did you mean \
         \"catalog\"?\n"
    );
    // No image reference begins like a path, so the error does not mention images.
    for path in ["./catlog", "../nothere/catlog", "/nothere/catlog"] {
        let error = fails(&format!("opm render {path}"));
        let expected = format!("Error: render reference {path:?}: stat {path}: no such file or directory");
        assert!(
            error.starts_with(&expected) && !error.contains("image"),
            "{error}"
        );
    }
    assert!(fails("opm render ./catlog").ends_with("did you mean \"./catalog\"?\n"));
    let template =
        "schema: olm.semver\ngenerateMajorChannels: true\nstable:\n  bundles:\n  - image: bundles/1.2.0\n";
    std::fs::write(dir.path().join("template.yaml"), template).expect("file");
    let error = fails("opm alpha render-template semver template.yaml");
    assert!(
        error.contains("failed to pull image \"bundles/1.2.0\"")
            && error.contains("no such file or directory either"),
        "{error}"
    );
    for command in ["validate", "lint", "serve", "generate catalog"] {
        assert_eq!(
            fails(&format!("opm {command} ./catlog")),
            "Error: stat ./catlog: no such file or directory: did you mean \"./catalog\"?\n"
        );
    }
}

/// Unknown names in templates and packages of `generate catalog` are reported with a suggestion.
#[test]
fn templates_and_packages_name_what_was_meant() {
    let dir = tempfile::tempdir().expect("folder");
    bundle(dir.path(), "1.0.0");
    let write = |name: &str, content: &str| std::fs::write(dir.path().join(name), content).expect("file");
    let fails = |line: &str| bash(dir.path(), line).fails();

    write("template.yaml", "schema: olm.semver\nstabel: {}\n");
    let error = fails("opm alpha render-template template.yaml");
    assert!(
        error.contains("unknown field \"stabel\": did you mean \"stable\"?"),
        "{error}"
    );
    let error = fails("opm alpha render-template semver templat.yaml");
    assert!(error.ends_with("did you mean \"template.yaml\"?\n"), "{error}");
    let error = fails("opm alpha render-template semvr template.yaml");
    assert!(error.ends_with("did you mean \"semver\"?\n"), "{error}");
    let error = fails("opm alpha render-template semvr");
    assert!(error.ends_with("did you mean the type \"semver\"?\n"), "{error}");
    write("template.yaml", "schema: olm.template.basic\nentires: []\n");
    let found = bash(dir.path(), "opm alpha render-template template.yaml");
    assert_eq!(
        (found.code, found.stdout.as_str(), found.stderr.as_str()),
        (
            0,
            "",
            "warning: unknown key \"entires\": did you mean \"entries\"?\n"
        )
    );

    write(
        "package.json",
        r#"{"package": "demo", "channels": {"stable": [{"name": "demo.v1.0.0", "replace": "demo.v0.9.0"}]}}"#,
    );
    assert_eq!(
        fails("opm generate catalog ."),
        "Error: package directory .: ./package.json: channel \"stable\", entry \"demo.v1.0.0\": unknown key \"replace\": did \
         you mean \"replaces\"?\n"
    );
    write("package.json", r#"{"package": "demo", "chanels": {}}"#);
    assert!(
        fails("opm generate catalog .").ends_with("unknown key \"chanels\": did you mean \"channels\"?\n")
    );

    let error = fails("opm render . --migrate-level=al");
    assert!(error.ends_with("did you mean \"all\"?\n"), "{error}");
}

/// D14: an error of an image's file is printed once.
#[test]
fn d14_an_image_that_is_not_there_is_reported_once() {
    let dir = tempfile::tempdir().expect("folder");
    catalog(dir.path(), &["1.0.0"]);
    let line =
        "opm alpha image catalog catalog --opm-image nothing.tar -t quay.io/demo/catalog:v1 -o made.tar";
    assert_eq!(
        bash(dir.path(), line).fails(),
        "Error: nothing.tar: No such file or directory (os error 2)\n"
    );
}

/// D20: the error for a missing required cache names the command that creates it.
#[test]
fn d20_a_missing_cache_is_reported_with_the_command_that_builds_it() {
    let dir = tempfile::tempdir().expect("folder");
    catalog(dir.path(), &["1.0.0"]);
    let serve = "opm serve catalog --cache-dir=cache --cache-enforce-integrity";
    let error = bash(dir.path(), serve).fails();
    for part in [
        "Error: integrity check failed: ",
        "No such file",
        "\"opm serve catalog --cache-dir=cache --cache-only\"",
        "without --cache-enforce-integrity",
    ] {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
    // The suggested command helps.
    bash(dir.path(), "opm serve catalog --cache-dir=cache --cache-only").ok();
    let file = dir.path().join("catalog/catalog.json");
    let mut blobs = std::fs::OpenOptions::new().append(true).open(file).expect("file");
    blobs.write_all(b"{\"schema\": \"custom\"}\n").expect("file");
    let error = bash(dir.path(), serve).fails();
    assert!(
        error.contains("cache requires rebuild") && error.contains("--cache-only"),
        "{error}"
    );
}

/// D15 and D20: upstream's text first, then our suggestion.
#[test]
fn d15_d20_validate_and_lint_name_what_was_meant() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    let file = catalog.join("catalog.json");
    let blobs = std::fs::read_to_string(&file).expect("catalog");
    let write = |text: &str| std::fs::write(&file, text).expect("catalog");
    let meant = "entries[1]: unknown key \"replace\": did you mean \"replaces\"?";

    write(&blobs.replace("\"replaces\":", "\"replace\":"));
    let error = opm(&["validate", text(&catalog)]).fails();
    assert!(
        error.starts_with("Error: invalid index:\n└── invalid package \"demo\":\n") && error.contains(meant),
        "{error}"
    );
    let found = opm(&["lint", text(&catalog)]);
    assert_eq!(found.code, 1);
    assert!(found.stdout.contains(meant), "{}", found.stdout);
    assert!(
        found.stderr.starts_with("Error: invalid index:\n") && found.stderr.contains("1 finding"),
        "{}",
        found.stderr
    );
    let json: Value =
        serde_json::from_str(&opm(&["lint", text(&catalog), "-o", "json"]).stdout).expect("JSON");
    assert_eq!(json["findings"][0]["rule"], "misspelling");
    assert_eq!(
        json["faults"][0]["message"],
        "multiple channel heads found in graph: demo.v1.0.0, demo.v1.1.0"
    );

    write(&blobs.replace("olm.channel", "olm.chanel"));
    let error = opm(&["validate", text(&catalog)]).fails();
    let meant = "unknown schema \"olm.chanel\": did you mean \"olm.channel\"?";
    assert!(error.contains(meant), "{error}");

    // A valid catalog remains valid.
    write(&blobs.replace("\"replaces\":", "\"skipRnage\": \"<1.1.0\", \"replaces\":"));
    let found = opm(&["validate", text(&catalog)]);
    assert_eq!((found.code, found.stdout.as_str()), (0, ""));
    assert!(
        found.stderr.starts_with("warning: ") && found.stderr.contains("did you mean \"skipRange\"?"),
        "{}",
        found.stderr
    );
    assert_eq!(
        opm(&["validate", text(&catalog), "-o", "json"]).stdout,
        "{\n  \"passed\": true\n}\n"
    );

    write(&blobs);
    for (arguments, error) in [
        (
            &["graph", text(&catalog), "dmeo"][..],
            "package \"dmeo\" not found: did you mean \"demo\"?",
        ),
        (
            &["graph", text(&catalog), "demo", "-c", "stabel"],
            "package \"demo\", channel \"stabel\" not found: did you mean \"stable\"?",
        ),
        (
            &["alpha", "list", "channels", text(&catalog), "dmeo"],
            "package \"dmeo\" not found: did you mean \"demo\"?",
        ),
    ] {
        assert_eq!(opm(arguments).fails(), format!("Error: {error}\n"));
    }
}
