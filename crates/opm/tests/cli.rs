//! Help, exit codes and errors, and the commands that need no network.

mod support;

use support::{bundle, catalog, opm, program, ran, text};

#[test]
fn help_of_every_command_is_as_recorded() {
    let commands: &[&[&str]] = &[
        &[],
        &["generate"],
        &["generate", "catalog"],
        &["generate", "dockerfile"],
        &["graph"],
        &["init"],
        &["lint"],
        &["migrate"],
        &["render"],
        &["serve"],
        &["validate"],
        &["alpha"],
        &["alpha", "bundle"],
        &["alpha", "bundle", "build"],
        &["alpha", "bundle", "extract"],
        &["alpha", "bundle", "generate"],
        &["alpha", "bundle", "unpack"],
        &["alpha", "bundle", "validate"],
        &["alpha", "image"],
        &["alpha", "image", "bundle"],
        &["alpha", "image", "catalog"],
        &["alpha", "image", "push"],
        &["alpha", "list"],
        &["alpha", "list", "bundles"],
        &["alpha", "render-graph"],
        &["alpha", "render-template"],
        &["alpha", "convert-template"],
        &["alpha", "convert-template", "basic"],
        &["completion"],
    ];
    for command in commands {
        let mut arguments = command.to_vec();
        arguments.push("--help");
        let help = opm(&arguments).ok();
        insta::assert_snapshot!(
            format!("help {}", command.join(" ")).trim().replace(' ', "-"),
            help
        );
    }
}

#[test]
fn a_wrong_command_line_is_a_failure_with_usage() {
    for arguments in [
        &["fly"][..],
        &["validate"],
        &["render"],
        &["serve", "x", "--port", "many"],
        &["init", "x", "-o", "xml"],
    ] {
        let error = opm(arguments).fails();
        assert!(
            error.contains("Usage:") || error.contains("expected (") || error.contains("invalid value"),
            "{error}"
        );
    }
    for arguments in [&[][..], &["alpha"], &["generate"], &["alpha", "list"]] {
        assert!(
            opm(arguments).ok().contains("Usage:"),
            "help is shown: {arguments:?}"
        );
    }
    assert!(opm(&["--version"]).ok().starts_with("opm "));
    assert!(opm(&["version"]).ok().starts_with("Version: "));
    let error = opm(&["render", "quay.io/a/b:v1", "--use-http", "--skip-tls-verify"]).fails();
    assert!(error.contains("invalid flag combination"), "{error}");
    let error = opm(&["render", "quay.io/a/b:v1", "--registry-config", "/nonexistent"]).fails();
    assert!(
        error.contains("registry configuration /nonexistent is not a directory"),
        "{error}"
    );
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = opm(&["completion", shell]).ok();
        assert!(
            script.contains("render") && script.contains("validate"),
            "{shell}"
        );
    }
}

#[test]
fn init_writes_a_package() {
    let dir = tempfile::tempdir().expect("folder");
    let readme = dir.path().join("README.md");
    std::fs::write(&readme, "# Demo\n<b>&</b>\n").expect("file");
    let icon = dir.path().join("icon.png");
    std::fs::write(&icon, b"\x89PNG\r\n\x1a\n").expect("file");
    insta::assert_snapshot!(
        opm(&["init", "demo", "-c", "stable", "-d", text(&readme), "-i", text(&icon)]).ok(),
        @r###"
    {
        "schema": "olm.package",
        "name": "demo",
        "defaultChannel": "stable",
        "icon": {
            "base64data": "iVBORw0KGgo=",
            "mediatype": "image/png"
        },
        "description": "# Demo\n<b>&</b>\n"
    }
    "###
    );
    insta::assert_snapshot!(opm(&["init", "demo", "-o", "yaml"]).ok(), @r###"
    ---
    defaultChannel: ""
    name: demo
    schema: olm.package
    "###);
}

#[test]
fn init_refuses_what_is_no_icon() {
    let dir = tempfile::tempdir().expect("folder");
    let icon = dir.path().join("icon");
    std::fs::write(&icon, "text").expect("file");
    let error = opm(&["init", "demo", "-i", text(&icon)]).fails();
    assert!(
        error.contains("not an image") && error.contains(text(&icon)),
        "{error}"
    );
    std::fs::write(&icon, "").expect("file");
    let error = opm(&["init", "demo", "-i", text(&icon)]).fails();
    assert!(error.contains("is empty"), "{error}");
    let error = opm(&["init", "demo", "-d", "/nonexistent"]).fails();
    assert!(error.contains("cannot read description /nonexistent"), "{error}");
}

#[test]
fn render_of_a_bundle_directory_fills_the_image_from_the_template() {
    let dir = tempfile::tempdir().expect("folder");
    let bundle = bundle(dir.path(), "1.0.0");
    let template = "quay.io/demo/{{.Package}}:{{.Name}}-{{.Version}}";
    let output = opm(&["render", text(&bundle), "--alpha-image-ref-template", template]).ok();
    let blob: serde_json::Value = serde_json::from_str(&output).expect("one JSON document");
    assert_eq!(blob["image"], "quay.io/demo/demo:demo.v1.0.0-1.0.0");
    let kinds: Vec<&str> = blob["properties"]
        .as_array()
        .expect("list")
        .iter()
        .filter_map(|property| property["type"].as_str())
        .collect();
    assert_eq!(
        kinds,
        ["olm.gvk", "olm.package", "olm.bundle.object", "olm.bundle.object"]
    );
    assert_eq!(blob["relatedImages"][1]["image"], "quay.io/demo/operator:1.0.0");
    let plain: serde_json::Value =
        serde_json::from_str(&opm(&["render", text(&bundle)]).ok()).expect("one JSON document");
    assert_eq!(plain["image"], "");
}

#[test]
fn render_names_the_source_that_cannot_be_read() {
    let dir = tempfile::tempdir().expect("folder");
    let bundle = bundle(dir.path(), "1.0.0");
    let csv = bundle.join("manifests/demo.clusterserviceversion.yaml");
    std::fs::write(&csv, "kind: [\n").expect("file");
    let error = opm(&["render", text(&bundle)]).fails();
    for part in [
        text(&bundle),
        "manifests/demo.clusterserviceversion.yaml",
        "invalid YAML",
    ] {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
    std::fs::remove_file(&csv).expect("removed");
    let error = opm(&["render", text(&bundle)]).fails();
    assert!(error.contains("no csv in bundle"), "{error}");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("file");
    let error = opm(&["render", text(&file)]).fails();
    assert!(error.contains("is not a directory: not allowed"), "{error}");
    let error = opm(&["render", "unknown-index"]).fails();
    let upstreams = "Error: render reference \"unknown-index\": failed to pull image \"unknown-index\": repository name must be canonical";
    assert!(error.starts_with(upstreams), "{error}");
}

#[test]
fn a_catalog_made_by_init_and_render_is_valid_and_renders_to_itself() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    assert_eq!(opm(&["validate", text(&catalog)]).ok(), "");
    let once = opm(&["render", text(&catalog)]).ok();
    std::fs::write(catalog.join("catalog.json"), &once).expect("file");
    assert_eq!(opm(&["render", text(&catalog)]).ok(), once);
    let yaml = opm(&["render", text(&catalog), "-o", "yaml"]).ok();
    assert!(yaml.starts_with("---\n"), "{yaml}");
    std::fs::remove_file(catalog.join("catalog.json")).expect("removed");
    std::fs::write(catalog.join("catalog.yaml"), &yaml).expect("file");
    assert_eq!(
        opm(&["render", text(&catalog)]).ok(),
        once,
        "YAML and JSON say the same"
    );
}

#[test]
fn validate_reports_every_fault_and_its_place() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    let file = catalog.join("catalog.json");
    let blobs = std::fs::read_to_string(&file).expect("file");
    std::fs::write(
        &file,
        blobs.replace("\"defaultChannel\": \"stable\"", "\"defaultChannel\": \"beta\""),
    )
    .expect("file");
    let error = opm(&["validate", text(&catalog)]).fails();
    assert!(
        error.contains("invalid package \"demo\"") && error.contains("beta"),
        "{error}"
    );

    let json = ran(&program()
        .args(["validate", text(&catalog), "-o", "json"])
        .output()
        .expect("opm runs"));
    assert_eq!(json.code, 1);
    let result: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(result["passed"], false);
    assert!(
        result["error"]["message"]
            .as_str()
            .expect("text")
            .contains("beta")
    );

    std::fs::write(&file, blobs.replace("\"schema\": \"olm.channel\",", "")).expect("file");
    let error = opm(&["validate", text(&catalog)]).fails();
    assert!(
        error.contains("catalog.json") && error.contains("missing root schema field"),
        "{error}"
    );
    std::fs::write(&file, "{").expect("file");
    let error = opm(&["validate", text(&catalog)]).fails();
    assert!(error.contains("catalog.json"), "{error}");
    let error = opm(&["validate", text(&file)]).fails();
    assert!(error.contains("is not a directory"), "{error}");
}

#[test]
fn bundle_images_have_their_annotations_as_labels_and_the_same_digest_each_time() {
    let dir = tempfile::tempdir().expect("folder");
    let bundle = bundle(dir.path(), "1.0.0");
    let tars = [dir.path().join("1.tar"), dir.path().join("2.tar")];
    let pinned = tars.each_ref().map(|tar| {
        opm(&[
            "alpha",
            "image",
            "bundle",
            text(&bundle),
            "-t",
            "quay.io/demo/bundle:v1",
            "-o",
            text(tar),
        ])
        .ok()
    });
    assert_eq!(pinned[0], pinned[1]);
    assert!(
        pinned[0].starts_with("quay.io/demo/bundle@sha256:"),
        "{}",
        pinned[0]
    );
    assert_eq!(
        std::fs::read(&tars[0]).expect("file"),
        std::fs::read(&tars[1]).expect("file")
    );
    let labels = olm_oci::ImageArchive::read(&tars[0])
        .expect("archive")
        .config()
        .expect("config")
        .config
        .labels;
    assert_eq!(labels["operators.operatorframework.io.bundle.package.v1"], "demo");
    let error = opm(&[
        "alpha",
        "image",
        "bundle",
        text(dir.path()),
        "-t",
        "quay.io/x/y:v1",
        "-o",
        "/dev/null",
    ])
    .fails();
    assert!(error.contains("manifests"), "{error}");
}
