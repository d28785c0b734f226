//! Bundle and catalog images with a real registry.

#[path = "../../olm-oci/tests/support/mod.rs"]
mod registry;
mod support;

use registry::Registry;
use support::{bundle, catalog, mirror, opm, text};

#[test]
fn a_bundle_image_renders_like_its_directory() {
    let Some(registry) = Registry::start(None) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    let bundle = bundle(dir.path(), "1.0.0");
    let name = "quay.io/demo/bundle:v1";
    let hosts = mirror(dir.path(), &registry.address);
    let pushed = opm(&[
        "alpha",
        "image",
        "bundle",
        text(&bundle),
        "-t",
        name,
        "--push",
        "--registry-config",
        text(&hosts),
    ])
    .ok();
    assert!(pushed.starts_with("quay.io/demo/bundle@sha256:"), "{pushed}");

    for reference in [name, pushed.trim()] {
        let output = opm(&["render", reference, "--registry-config", text(&hosts)]).ok();
        let blob: serde_json::Value = serde_json::from_str(&output).expect("one JSON document");
        assert_eq!(blob["image"], reference);
        let images: Vec<&str> = blob["relatedImages"]
            .as_array()
            .expect("list")
            .iter()
            .filter_map(|i| i["image"].as_str())
            .collect();
        assert!(
            images.contains(&reference) && images.contains(&"quay.io/demo/operator:1.0.0"),
            "{images:?}"
        );
        let directory = ["render", text(&bundle), "--alpha-image-ref-template", reference];
        assert_eq!(opm(&directory).ok(), output, "the guide's way to a catalog");
    }
}

/// A package gets description and icon from its bundle's manifest, which a migration removes.
#[test]
fn templates_are_made_before_their_bundles_are_migrated() {
    let Some(registry) = Registry::start(None) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    let hosts = mirror(dir.path(), &registry.address);
    let config = ["--registry-config", text(&hosts)];
    let mut template = "schema: olm.semver\nstable:\n  bundles:\n".to_owned();
    for version in ["1.0.0", "1.1.0"] {
        let bundle = bundle(dir.path(), version);
        let name = format!("quay.io/demo/bundle:v{version}");
        let push = ["alpha", "image", "bundle", text(&bundle), "-t", &name, "--push"];
        opm(&[&push[..], &config].concat()).ok();
        template.push_str(&format!("  - image: {name}\n"));
    }
    let file = dir.path().join("template.yaml");
    std::fs::write(&file, template).expect("file");
    let render = |more: &[&str]| -> Vec<serde_json::Value> {
        let command = ["alpha", "render-template", "semver", text(&file)];
        let output = opm(&[&command[..], &config, more].concat()).ok();
        serde_json::Deserializer::from_str(&output)
            .into_iter()
            .collect::<Result<_, _>>()
            .expect("JSON documents")
    };
    let (plain, migrated) = (render(&[]), render(&["--migrate-level", "all"]));
    assert_eq!(migrated[0]["schema"], "olm.package");
    assert_eq!(migrated[0]["description"], "Greets version 1.1.0.");
    assert_eq!(migrated[0]["icon"]["mediatype"], "image/svg+xml");
    assert_eq!(migrated[0], plain[0]);
    let kinds = |blobs: &[serde_json::Value]| -> Vec<String> {
        let bundles = blobs.iter().filter(|blob| blob["schema"] == "olm.bundle");
        let last = bundles.map(|bundle| {
            bundle["properties"]
                .as_array()
                .and_then(|all| all.last())
                .expect("one")
        });
        last.map(|property| property["type"].as_str().expect("type").to_owned())
            .collect()
    };
    assert_eq!(kinds(&migrated), ["olm.csv.metadata", "olm.csv.metadata"]);
    assert_eq!(kinds(&plain), ["olm.bundle.object", "olm.bundle.object"]);
}

#[test]
fn images_that_hold_neither_bundle_nor_catalog_are_reported() {
    let Some(registry) = Registry::start(None) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    let cases = [
        (None, "has no labels"),
        (
            Some("maintainer"),
            "image type could not be determined, found labels maintainer",
        ),
        (
            Some("operators.operatorframework.io.index.database.v1"),
            "is not a catalog: it has no table package",
        ),
        (
            Some("operators.operatorframework.io.index.configs.v1"),
            "has no files below \"x\", which its label",
        ),
    ];
    for (number, (label, expected)) in cases.into_iter().enumerate() {
        let tar = dir.path().join("image.tar");
        let labels = label
            .map(|label| (label.to_owned(), "x".to_owned()))
            .into_iter()
            .collect();
        let config = olm_oci::RunConfig {
            labels,
            ..Default::default()
        };
        let mut layer = olm_oci::LayerSpec::new();
        layer.file("x", "x", 0o644, 0).expect("file");
        let image = olm_oci::ImageSpec {
            base: None,
            layers: vec![layer],
            config,
        }
        .build()
        .expect("image");
        image.write(&tar, None).expect("written");
        let name = format!("{}/x/y:v{number}", registry.address);
        opm(&["alpha", "image", "push", text(&tar), &name]).ok();
        let error = opm(&["render", &name]).fails();
        assert!(error.contains(expected) && error.contains(&name), "{error}");
    }
    let missing = format!("{}/x/y:none", registry.address);
    let error = opm(&["render", &missing]).fails();
    assert!(
        error.contains("not found (HTTP 404): manifest unknown") && error.contains(&missing),
        "{error}"
    );
}

#[test]
fn a_catalog_image_renders_like_its_directory() {
    let Some(registry) = Registry::start(None) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    let base = dir.path().join("opm.tar");
    let mut layer = olm_oci::LayerSpec::new();
    layer.file("bin/opm", "program", 0o755, 0).expect("file");
    let image = olm_oci::ImageSpec {
        layers: vec![layer],
        ..Default::default()
    }
    .build()
    .expect("image");
    image.write(&base, None).expect("written");
    let name = format!("{}/demo/catalog:v1", registry.address);
    opm(&[
        "alpha",
        "image",
        "catalog",
        text(&catalog),
        "--opm-image",
        text(&base),
        "-t",
        &name,
        "--push",
    ])
    .ok();
    assert_eq!(
        opm(&["render", &name]).ok(),
        opm(&["render", text(&catalog)]).ok()
    );
}

/// A registry that requires a password and has no image; the received credentials are recorded.
fn guarded() -> (String, std::sync::mpsc::Receiver<String>) {
    use std::io::{BufRead as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("port");
    let address = listener.local_addr().expect("address").to_string();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("connection");
            let mut first = [0];
            // TLS connections are closed, as by any plain HTTP server.
            if stream.peek(&mut first).is_err() || first == [0x16] {
                continue;
            }
            let reader = std::io::BufReader::new(stream.try_clone().expect("stream"));
            let head: Vec<String> = reader
                .lines()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let shown = head.iter().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("authorization")
                    .then(|| value.to_owned())
            });
            let answer = match shown {
                None => "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic realm=\"r\"\r\n",
                Some(shown) => {
                    let _ = sender.send(shown);
                    "HTTP/1.1 404 Not Found\r\n"
                }
            };
            let _ = write!(stream, "{answer}connection: close\r\ncontent-length: 0\r\n\r\n");
        }
    });
    (address, receiver)
}

/// Docker's files name programs that keep passwords; podman's file need not know every registry.
#[test]
fn passwords_come_from_files_and_helpers() {
    let basic = |text: &str| format!("Basic {}", olm_fbc::base64::encode(text));
    let dir = tempfile::tempdir().expect("folder");
    let home = dir.path();
    let write = |path: &str, text: &str| {
        let path = home.join(path);
        std::fs::create_dir_all(path.parent().expect("folder")).expect("folder");
        std::fs::write(&path, text).expect("file");
        path
    };
    for (name, script) in [
        (
            "own",
            "read -r host; printf '{\"Username\": \"helped\", \"Secret\": \"%s\"}' \"$host\"",
        ),
        ("empty", "echo credentials not found in native keychain; exit 1"),
    ] {
        let program = write(
            &format!("bin/docker-credential-{name}"),
            &format!("#!/bin/sh\n[ \"$1\" = get ] || exit 2\n{script}\n"),
        );
        std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
    }
    let (address, shown) = guarded();
    let render = |docker: &str| {
        write(".docker/config.json", docker);
        let mut command = support::program();
        command
            .env("HOME", home)
            .env("XDG_RUNTIME_DIR", home.join("run"))
            .env("PATH", format!("{}:/bin:/usr/bin", home.join("bin").display()))
            .args(["render", &format!("{address}/x/y:v1")]);
        let error = support::ran(&command.output().expect("opm runs")).fails();
        (shown.try_iter().next(), error)
    };
    let auths = format!(r#""auths": {{"{address}/x": {{"auth": "dXNlcjpwYXRo"}}, "{address}": {{}}}}"#);
    let helped = basic(&format!("helped:{address}"));
    for (docker, expected) in [
        (
            format!(r#"{{"credHelpers": {{"{address}": "own"}}}}"#),
            Some(&helped),
        ),
        (r#"{"credsStore": "own"}"#.to_owned(), Some(&helped)),
        (
            format!(r#"{{{auths}, "credsStore": "empty"}}"#),
            Some(&basic("user:path")),
        ),
        (
            format!(r#"{{{auths}, "credsStore": "removed"}}"#),
            Some(&basic("user:path")),
        ),
        (
            r#"{"credHelpers": {"other.example.com": "removed"}}"#.to_owned(),
            None,
        ),
    ] {
        let (found, error) = render(&docker);
        assert_eq!(found.as_ref(), expected, "{docker}: {error}");
    }
    let (found, error) = render(&format!(r#"{{"credHelpers": {{"{address}": "removed"}}}}"#));
    assert_eq!(found, None);
    assert!(
        error.contains("credential helper docker-credential-removed, configured in")
            && error.contains("config.json"),
        "{error}"
    );
    write(
        "run/containers/auth.json",
        r#"{"auths": {"quay.io": {"auth": "YTpi"}}}"#,
    );
    let (found, _) = render(&format!("{{{auths}}}"));
    assert_eq!(
        found,
        Some(basic("user:path")),
        "a file that does not know the host hides no other"
    );
}

/// Home directory of a machine without internet access, with its registries and credentials.
struct Bastion {
    home: tempfile::TempDir,
}

impl Bastion {
    fn with(files: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().expect("folder");
        for (path, text) in files {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().expect("folder")).expect("folder");
            std::fs::write(path, text).expect("file");
        }
        Self { home }
    }

    fn render(&self, image: &str, flags: &[&str]) -> support::Ran {
        let mut command = support::program();
        command
            .env("HOME", self.home.path())
            .env("XDG_RUNTIME_DIR", self.home.path().join("run"))
            .args(["render", image])
            .args(flags);
        support::ran(&command.output().expect("opm runs"))
    }
}

/// The named registry is unreachable; a mirror without TLS has its images.
#[test]
fn a_disconnected_machine_renders_from_its_mirror() {
    let Some(registry) = Registry::start(None) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    let bundle = bundle(dir.path(), "1.0.0");
    let mirrored = format!("{}/olm/redhat/demo:v1", registry.address);
    opm(&[
        "alpha",
        "image",
        "bundle",
        text(&bundle),
        "-t",
        &mirrored,
        "--push",
    ])
    .ok();
    let image = "registry.redhat.invalid/redhat/demo:v1";
    let conf = |more: &str| {
        format!(
            "[[registry]]\nlocation = \"registry.redhat.invalid/redhat\"\nblocked = true\n[[registry.mirror]]\n\
             location = \"{}/olm/redhat\"\n{more}",
            registry.address
        )
    };
    let file = ".config/containers/registries.conf";
    let rendered = Bastion::with(&[(file, &conf("insecure = true\n"))])
        .render(image, &[])
        .ok();
    assert!(
        rendered.contains("demo.v1.0.0") && rendered.contains(image),
        "an image keeps its name: {rendered}"
    );
    let by_digest = conf("insecure = true\npull-from-mirror = \"digest-only\"\n");
    let error = Bastion::with(&[(file, &by_digest)]).render(image, &[]).fails();
    assert!(
        error.contains("registry registry.redhat.invalid/redhat is blocked in ")
            && error.contains("registries.conf"),
        "{error}"
    );
    let policy = (
        ".config/containers/policy.json",
        r#"{"default": [{"type": "reject"}]}"#,
    );
    let error = Bastion::with(&[(file, &conf("insecure = true\n")), policy])
        .render(image, &[])
        .fails();
    assert!(
        error.contains("policy.json: image registry.redhat.invalid/redhat/demo:v1 is rejected by policy"),
        "{error}"
    );
}

/// A rejection by a registry names all sources of credentials that were read.
#[test]
fn a_refusal_names_files_and_helpers() {
    let (address, _shown) = guarded();
    let docker = format!(r#"{{"credHelpers": {{"{address}": "gone"}}}}"#);
    let bastion = Bastion::with(&[
        (".docker/config.json", &docker),
        ("run/containers/auth.json", r#"{"auths": {}}"#),
    ]);
    let error = bastion.render(&format!("{address}/x/y:v1"), &[]).fails();
    for said in [
        "unauthorised (HTTP 401)",
        &format!("credentials looked up for {address}: "),
        ".docker/config.json: credential helper docker-credential-gone, configured in ",
        "No such file or directory",
        "run/containers/auth.json: has no credentials for it",
        "not found: ",
    ] {
        assert!(error.contains(said), "{said}: {error}");
    }
}
