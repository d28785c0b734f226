//! What newcomers ran into: commands that were silent about what would hurt, and messages that named the wrong cause.

mod support;

use support::{bash, bundle};

/// A bundle in a folder has no image: whoever writes it into a catalog hears so once, on stderr, with the flag that names one.
#[test]
fn bundles_without_image_are_told_with_the_flag_that_names_one() {
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
                .starts_with("warning: bundle \"demo.v1.0.0\" and 1 more have no image: ")
                && found.stderr.lines().count() == 1
                && found.stderr.contains(&format!("; {flag} ")),
            "{line}: {}",
            found.stderr
        );
        // What it says to do helps.
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

/// A folder of bundles is no catalog, and manifests in one are told with what makes a catalog of them.
#[test]
fn manifests_where_a_catalog_is_needed_are_told_with_what_makes_one() {
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
    }
}
