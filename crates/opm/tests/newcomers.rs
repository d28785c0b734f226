//! Problems of newcomers: commands that did not warn, and messages that named the wrong cause.

mod support;

use support::{bash, bundle, catalog, opm, text};

/// A bundle in a folder has no image: writing it into a catalog causes one warning on stderr, with the flag that sets an image.
#[test]
fn bundles_without_image_are_reported_with_the_flag_that_names_one() {
    let dir = tempfile::tempdir().expect("folder");
    bundle(dir.path(), "1.0.0");
    bundle(dir.path(), "1.1.0");
    let write = |name: &str, content: &str| std::fs::write(dir.path().join(name), content).expect("file");
    write(
        "template.yaml",
        "schema: olm.semver\ngenerateMajorChannels: true\nstable:\n  bundles:\n  - image: demo-1.0.0\n  - image: demo-1.1.0\n",
    );
    write(
        "package.json",
        r#"{"package": "demo", "defaultChannel": "s", "channels": {"s": [{"name": "demo.v1.0.0"}, {"name": "demo.v1.1.0", "replaces": "demo.v1.0.0"}]}}"#,
    );
    for (line, flag) in [
        ("opm render demo-1.0.0 demo-1.1.0", "--alpha-image-ref-template"),
        (
            "opm alpha render-template semver template.yaml",
            "--alpha-image-ref-template",
        ),
        ("opm generate catalog .", "--image-ref-template"),
    ] {
        let found = bash(dir.path(), line);
        assert_eq!(found.code, 0, "{line}: {}", found.stderr);
        assert!(
            found.stdout.contains("\"image\": \"\""),
            "{line}: {}",
            found.stdout
        );
        assert!(
            found
                .stderr
                .starts_with("warning: bundle \"demo.v1.0.0\" and 1 more have no image, ")
                && found.stderr.lines().count() == 1
                && found.stderr.contains(&format!("; {flag} ")),
            "{line}: {}",
            found.stderr
        );
        // The suggested command helps.
        let mended = bash(
            dir.path(),
            &format!("{line} {flag} 'registry.example.com/{{{{.Package}}}}-bundle:v{{{{.Version}}}}'"),
        );
        assert_eq!((mended.code, mended.stderr.as_str()), (0, ""), "{line}");
        assert!(
            mended
                .stdout
                .contains("\"image\": \"registry.example.com/demo-bundle:v1.1.0\"")
                && !mended.stdout.contains("\"image\": \"\""),
            "{line}: {}",
            mended.stdout
        );
    }
    bash(
        dir.path(),
        "opm generate catalog . > all.json && mkdir made && mv all.json made && opm validate made",
    )
    .ok();
    let found = bash(dir.path(), "opm lint made");
    assert_eq!(found.code, 1);
    assert_eq!(
        found.stdout.matches(", no-image: it has no image").count(),
        2,
        "{}",
        found.stdout
    );
}

/// A folder of bundles is not a catalog, and the error for manifests names the command that makes a catalog from them.
#[test]
fn manifests_in_place_of_a_catalog_are_reported_with_the_command_that_builds_one() {
    let dir = tempfile::tempdir().expect("folder");
    std::fs::create_dir(dir.path().join("bundles")).expect("folder");
    bundle(&dir.path().join("bundles"), "1.0.0");
    for command in ["validate", "render", "lint"] {
        let error = bash(dir.path(), &format!("opm {command} bundles")).fails();
        assert!(
            error.contains("is missing root schema field")
                && error.contains(
                    "this looks like the manifest of a bundle: make a catalog of bundles with \"opm render\""
                ),
            "{command}: {error}"
        );
        assert!(
            error.lines().all(|line| line.chars().count() < 400),
            "{command}: {error}"
        );
        if command != "render" {
            assert_eq!(
                error.matches("this looks like the manifest").count(),
                1,
                "{error}"
            );
            assert_eq!(
                error.matches("is missing root schema field").count(),
                3,
                "{error}"
            );
        }
    }
}

/// Upstream serves such a catalog, and its clusters leave the package out as ours do.
#[test]
fn a_csv_that_clusters_cannot_read_is_a_warning_with_its_field() {
    let dir = tempfile::tempdir().expect("folder");
    let folder = dir.path().join("catalog");
    std::fs::create_dir(&folder).expect("folder");
    let made = |name: &str| {
        let csv = format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {{name: demo.v1.0.0}}\n\
             spec: {{version: 1.0.0, displayName: {name}}}\n"
        );
        let data = olm_fbc::base64::encode(csv.as_bytes());
        let catalog = format!(
            r#"{{"schema": "olm.package", "name": "demo", "defaultChannel": "c"}}
{{"schema": "olm.channel", "package": "demo", "name": "c", "entries": [{{"name": "demo.v1.0.0"}}]}}
{{"schema": "olm.bundle", "package": "demo", "name": "demo.v1.0.0", "image": "q.io/d:1", "relatedImages": [{{"image": "q.io/d:1"}}],
  "properties": [{{"type": "olm.package", "value": {{"packageName": "demo", "version": "1.0.0"}}}},
    {{"type": "olm.bundle.object", "value": {{"data": "{data}"}}}}]}}
"#
        );
        std::fs::write(folder.join("catalog.json"), catalog).expect("file");
        [opm(&["validate", text(&folder)]), opm(&["lint", text(&folder)])]
    };
    let [validated, linted] = made("N");
    assert_eq!((validated.code, linted.code), (0, 1), "{}", validated.stderr);
    assert!(
        validated
            .stderr
            .starts_with("warning: package \"demo\" bundle \"demo.v1.0.0\": failed to decode "),
        "{}",
        validated.stderr
    );
    for told in [&validated.stderr, &linted.stdout] {
        for part in [
            "field `spec.displayName`: invalid type: boolean `false`",
            "; YAML 1.1 reads N, no, off, ",
            "; clusters cannot install it, and may not list a channel whose head it is",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
    assert!(linted.stdout.contains(", unreadable-csv: "), "{}", linted.stdout);
    let [validated, linted] = made("'N'");
    assert_eq!((validated.code, validated.stderr.as_str()), (0, ""));
    assert_eq!((linted.code, linted.stdout.as_str()), (0, ""));
}

/// `alpha bundle validate` names the invalid file, as `render` does, and the existing optional checks.
#[test]
fn bundle_validate_names_the_file_and_the_validators() {
    let dir = tempfile::tempdir().expect("folder");
    let made = bundle(dir.path(), "1.0.0");
    let validate = |more: &[&str]| opm(&[&["alpha", "bundle", "validate", "-t", text(&made)], more].concat());
    assert_eq!(
        validate(&["-o", "operatorhub, bundle-objects"]).code,
        validate(&["-o", "operatorhub"]).code
    );
    assert_eq!(
        validate(&["-o", "operatorhb"]).fails(),
        "Error: unknown validator \"operatorhb\", known are operatorhub, bundle-objects: did you mean \"operatorhub\"?\n"
    );
    let manifests = made.join("manifests");
    let csv = std::fs::read_dir(&manifests)
        .expect("folder")
        .map(|entry| entry.expect("entry").path())
        .find(|path| {
            std::fs::read_to_string(path).is_ok_and(|text| text.contains("kind: ClusterServiceVersion"))
        })
        .expect("CSV");
    let name = csv.file_name().and_then(|name| name.to_str()).expect("name");
    let whole = std::fs::read_to_string(&csv).expect("CSV");

    std::fs::write(manifests.join("second.yaml"), &whole).expect("file");
    let error = validate(&[]).fails();
    assert!(
        error.contains("bundle has more than one ClusterServiceVersion: ") && error.contains("second.yaml"),
        "{error}"
    );
    std::fs::remove_file(manifests.join("second.yaml")).expect("file");

    std::fs::write(
        &csv,
        whole.replace("kind: ClusterServiceVersion", "kind: ClusterServiceVerson"),
    )
    .expect("file");
    let error = validate(&[]).fails();
    assert!(
        error.contains(&format!(
            "manifests/{name}: kind \"ClusterServiceVerson\": did you mean"
        )),
        "{error}"
    );
    std::fs::write(&csv, format!("{whole}\nspec: [\n")).expect("file");
    let error = validate(&[]).fails();
    assert!(
        error.contains(&format!("manifests/{name}: invalid YAML: line ")),
        "{error}"
    );
}

/// A catalog image needs the program that serves it, and an empty folder is probably a mistake.
#[test]
fn catalog_images_need_opm_and_files() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).expect("folder");
    let base = |file: &str| {
        let mut layer = olm_oci::LayerSpec::new();
        layer.file(file, "program", 0o755, 0).expect("file");
        let path = dir.path().join("base.tar");
        let image = olm_oci::ImageSpec {
            layers: vec![layer],
            ..Default::default()
        };
        image.build().expect("image").write(&path, None).expect("written");
        path
    };
    let image = |folder: &std::path::Path, base: &std::path::Path| {
        let made = dir.path().join("made.tar");
        let command = [
            "alpha",
            "image",
            "catalog",
            text(folder),
            "--opm-image",
            text(base),
        ];
        opm(&[
            &command[..],
            &["-t", "quay.io/demo/catalog:v1", "-o", text(&made)],
        ]
        .concat())
    };
    let error = image(&catalog, &base("bin/other")).fails();
    assert!(
        error.contains("base.tar has no /bin/opm, which serves the catalog"),
        "{error}"
    );
    assert!(!dir.path().join("made.tar").exists());
    let made = image(&catalog, &base("bin/opm"));
    assert_eq!((made.code, made.stderr.as_str()), (0, ""));
    // The catalog may be a link, but folders in it may not.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&catalog, &link).expect("link");
    assert_eq!(image(&link, &base("bin/opm")).code, 0);
    let holder = dir.path().join("holder");
    std::fs::create_dir(&holder).expect("folder");
    std::os::unix::fs::symlink(&catalog, holder.join("inside")).expect("link");
    let error = image(&holder, &base("bin/opm")).fails();
    assert!(
        error.contains("inside is a symbolic link to a directory"),
        "{error}"
    );
    let made = image(&empty, &base("bin/opm"));
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(
        made.stderr.starts_with("warning: ")
            && made
                .stderr
                .contains("empty has no catalog files, so the image will serve nothing"),
        "{}",
        made.stderr
    );
}

/// An empty folder causes a message, and many findings a summary per rule.
#[test]
fn lint_says_when_there_is_nothing_and_sums_up_what_is_much() {
    let dir = tempfile::tempdir().expect("folder");
    let lint = |folder: &std::path::Path| opm(&["lint", text(folder)]);
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).expect("folder");
    let found = lint(&empty);
    assert_eq!((found.code, found.stdout.as_str()), (0, ""));
    assert!(
        found
            .stderr
            .ends_with("empty has no catalog files, so there is nothing to check\n"),
        "{}",
        found.stderr
    );

    let made = catalog(dir.path(), &["1.0.0"]);
    let file = made.join("catalog.json");
    let blobs = std::fs::read_to_string(&file).expect("catalog");
    let write = |properties: usize| {
        let odd = r#"{"type": "odd", "value": null}, "#.repeat(properties);
        let text = blobs.replacen("\"properties\": [", &format!("\"properties\": [{odd}"), 1);
        std::fs::write(&file, text).expect("catalog");
        lint(&made)
    };
    let found = write(20);
    assert_eq!(found.stdout.lines().count(), 20, "{}", found.stdout);
    assert_eq!(
        found.stderr,
        "Error: 20 findings (--allow <rule> turns a rule off)\n"
    );
    let found = write(21);
    assert_eq!(found.stdout.lines().count(), 21, "{}", found.stdout);
    assert_eq!(
        found.stderr,
        "    21 empty-property: properties without type or value\nError: 21 findings (--allow <rule> turns a rule off)\n"
    );
}

/// Called by the probe's name, `-help` prints help.
#[test]
fn the_probe_shows_its_flags() {
    let dir = tempfile::tempdir().expect("folder");
    let line = format!(
        "ln -s {} grpc_health_probe && ./grpc_health_probe -help",
        env!("CARGO_BIN_EXE_opm")
    );
    let found = bash(dir.path(), &line);
    assert_eq!((found.code, found.stderr.as_str()), (0, ""));
    assert!(
        found
            .stdout
            .starts_with("usage: grpc_health_probe -addr=HOST:PORT"),
        "{}",
        found.stdout
    );
}
