//! Templates, lists, graphs and Dockerfiles from the command line.

mod support;

use std::io::Write as _;
use std::process::Stdio;

use support::{Ran, bundle, catalog, opm, program, ran, text};

fn with_input(arguments: &[&str], input: &str) -> Ran {
    let mut child = program()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("opm runs");
    let mut stdin = child.stdin.take().expect("pipe");
    stdin.write_all(input.as_bytes()).expect("input");
    drop(stdin);
    ran(&child.wait_with_output().expect("output"))
}

#[test]
fn templates_are_rendered_from_files_and_standard_input() {
    let dir = tempfile::tempdir().expect("folder");
    let bundles = ["1.0.0", "1.1.0"].map(|version| bundle(dir.path(), version));
    let [one, two] = bundles.each_ref().map(|path| text(path).to_owned());
    let template = format!(
        "schema: olm.semver\ngenerateMajorChannels: true\nstable:\n  bundles:\n  - image: {one}\n  - image: {two}\n"
    );
    let file = dir.path().join("template.yaml");
    std::fs::write(&file, &template).expect("file");
    let command = ["alpha", "render-template"];
    let rendered = opm(&[&command[..], &["semver", text(&file), "-o", "yaml"]].concat()).ok();
    assert!(
        rendered.contains("name: stable-v1\n") && rendered.contains("replaces: demo.v1.0.0"),
        "{rendered}"
    );
    for (arguments, input) in [
        (vec![text(&file), "-o", "yaml"], ""),
        (vec!["semver", "-o", "yaml"], template.as_str()),
        (vec!["-o", "yaml"], template.as_str()),
        (vec!["semver", "-", "-o", "yaml"], template.as_str()),
    ] {
        assert_eq!(
            with_input(&[&command[..], &arguments].concat(), input).ok(),
            rendered,
            "{arguments:?}"
        );
    }
    let made = dir.path().join("made");
    std::fs::create_dir(&made).expect("folder");
    std::fs::write(made.join("catalog.yaml"), &rendered).expect("file");
    assert_eq!(
        opm(&["validate", text(&made)]).ok(),
        "",
        "bundles from directories carry their content"
    );
    let graph = opm(&[&command[..], &[text(&file), "-o", "mermaid"]].concat()).ok();
    assert!(
        graph.starts_with("graph LR\n") && graph.contains("-- replace -->"),
        "{graph}"
    );

    // Upstream marks skipped bundles in templates, and in `render-graph` only on request.
    let patch = bundle(dir.path(), "1.0.1");
    let patched = format!("{template}  - image: {}\n", text(&patch));
    let graph = with_input(&[&command[..], &["-o", "mermaid"]].concat(), &patched).ok();
    assert!(
        graph.contains("class demo-stable-v1-demo.v1.0.0 skipped\n") && graph.contains("stroke-dasharray"),
        "{graph}"
    );

    let error = opm(&[&command[..], &["unknown", text(&file)]].concat()).fails();
    assert!(
        error.contains("invalid template type \"unknown\", must be one of"),
        "{error}"
    );
    let error = opm(&[&command[..], &["/nonexistent"]].concat()).fails();
    assert!(error.contains("unable to open \"/nonexistent\""), "{error}");
    let error = with_input(&command, "entries: []\n").fails();
    assert!(
        error.contains("template input missing required 'schema' field"),
        "{error}"
    );
    let error = with_input(&[&command[..], &["basic"]].concat(), &template).fails();
    assert!(error.contains("should be \"olm.template.basic\""), "{error}");
}

#[test]
fn catalogs_are_converted_to_templates() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]).join("catalog.json");
    let convert = ["alpha", "convert-template"];
    let basic = opm(&[&convert[..], &["basic", text(&catalog)]].concat()).ok();
    let document: serde_json::Value = serde_json::from_str(&basic).expect("one document");
    assert_eq!(document["schema"], "olm.template.basic");
    let bundle = &document["entries"][1];
    assert_eq!(
        *bundle,
        serde_json::json!({"schema": "olm.bundle", "image": "quay.io/demo/bundle:v1.0.0"})
    );
    let blobs = std::fs::read_to_string(&catalog).expect("catalog");
    let yaml = with_input(&[&convert[..], &["substitutes", "-o", "yaml"]].concat(), &blobs).ok();
    assert!(
        yaml.starts_with("---\nentries:\n") && yaml.contains("substitutions: []"),
        "{yaml}"
    );
    // Without substitutions it renders to the catalog it was created from.
    let rendered = with_input(&["alpha", "render-template"], &yaml).ok();
    assert_eq!(
        rendered,
        opm(&["render", text(catalog.parent().expect("folder"))]).ok()
    );
    let error = with_input(&[&convert[..], &["basic"]].concat(), "{}").fails();
    assert!(error.contains("missing root schema field"), "{error}");
}

#[test]
fn lists_name_what_they_cannot_find() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    let list = |kind: &str, rest: &[&str]| opm(&[&["alpha", "list", kind, text(&catalog)], rest].concat());
    assert_eq!(
        list("channels", &["demo"]).ok(),
        "PACKAGE  CHANNEL  HEAD\ndemo     stable   demo.v1.1.0\n"
    );
    let error = list("bundles", &["other"]).fails();
    assert_eq!(error, "Error: package \"other\" not found\n");
    let bundle = dir.path().join("demo-1.0.0");
    let error = opm(&["alpha", "list", "packages", text(&bundle)]).fails();
    assert_eq!(
        error,
        format!("Error: cannot list non-index {:?}\n", text(&bundle))
    );
    let error = opm(&["alpha", "list", "packages", "unknown-index"]).fails();
    let upstreams = "Error: render reference \"unknown-index\": failed to pull image \"unknown-index\": repository name must be canonical";
    assert!(error.starts_with(upstreams), "{error}");
    let file = catalog.join("catalog.json");
    let blobs = std::fs::read_to_string(&file).expect("catalog");
    std::fs::write(&file, blobs.replace(r#", "replaces": "demo.v1.0.0""#, "")).expect("catalog");
    let error = list("channels", &[]).fails();
    assert!(error.contains("multiple channel heads found in graph"), "{error}");
}

#[test]
fn graphs_can_be_cut() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0", "1.2.0"]);
    let graph = |rest: &[&str]| opm(&[&["alpha", "render-graph", text(&catalog)], rest].concat());
    let cut = graph(&["--minimum-edge", "demo.v1.1.0"]).ok();
    assert!(
        !cut.contains("demo.v1.0.0") && cut.contains("-- replace -->"),
        "{cut}"
    );
    assert!(!graph(&["-p", "other"]).ok().contains("subgraph"));
    let error = graph(&["--minimum-edge", "x"]).fails();
    assert_eq!(error, "Error: unknown minimum edge name: \"x\"\n");
}

#[test]
fn dockerfiles_are_written_beside_the_catalog() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let generate = |rest: &[&str]| opm(&[&["generate", "dockerfile", text(&catalog)], rest].concat());
    let file = dir.path().join("catalog.Dockerfile");
    assert_eq!(generate(&["-l", "a=b,c=d", "--extra-labels", "a=e"]).ok(), "");
    let written = std::fs::read_to_string(&file).expect("Dockerfile");
    for line in [
        "FROM quay.io/operator-framework/opm:latest as builder",
        "FROM quay.io/operator-framework/opm:latest",
        "ADD catalog /configs",
        "LABEL operators.operatorframework.io.index.configs.v1=/configs",
        "LABEL \"a\"=\"e\"",
        "LABEL \"c\"=\"d\"",
    ] {
        assert!(
            written.lines().any(|found| found == line),
            "{line} is missing in\n{written}"
        );
    }
    let error = generate(&[]).fails();
    assert!(
        error.contains("catalog.Dockerfile") && error.contains("file already exists"),
        "{error}"
    );
    std::fs::remove_file(&file).expect("removed");
    let error = generate(&["-b", "scratch"]).fails();
    assert!(error.contains("invalid builder image: \"scratch\""), "{error}");
    let error = generate(&["-l", "a"]).fails();
    assert!(error.contains("invalid label \"a\""), "{error}");
    assert!(!file.exists(), "nothing is written in vain");
    let error = opm(&["generate", "dockerfile", text(&dir.path().join("none"))]).fails();
    assert!(error.contains("is not a directory"), "{error}");
    generate(&["--binary-image", "x/y:1"]).ok();
    let written = std::fs::read_to_string(&file).expect("Dockerfile");
    assert_eq!(
        written
            .lines()
            .filter(|line| line.starts_with("FROM x/y:1"))
            .count(),
        2
    );
}

/// All ways to call the composite template give a message that names the replacement.
#[test]
fn the_composite_template_is_refused_with_an_alternative() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("contributions.yaml");
    std::fs::write(&file, "schema: olm.composite\ncomponents: []\n").expect("file");
    let command = ["alpha", "render-template"];
    for more in [
        &["composite", "-f", "catalogs.yaml", "-c", text(&file)][..],
        &[
            "composite",
            "--catalog-config",
            "catalogs.yaml",
            "--composite-config",
            text(&file),
            "-o",
            "yaml",
        ],
        &["composite"],
        &["composite", text(&file)],
        &[text(&file)],
    ] {
        let error = opm(&[&command[..], more].concat()).fails();
        assert!(
            error.contains("composite templates are no longer supported")
                && error.contains("render-template basic"),
            "{more:?}: {error}"
        );
    }
}
