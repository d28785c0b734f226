//! Configuration in containerd's form.

use super::*;

/// Writes `folder -> hosts.toml text` pairs and returns the configuration with its folder.
fn config(files: &[(&str, &str)]) -> (tempfile::TempDir, RegistryConfig) {
    let dir = tempfile::tempdir().expect("folder");
    for (folder, text) in files {
        std::fs::create_dir_all(dir.path().join(folder)).expect("folder");
        std::fs::write(dir.path().join(folder).join(HOSTS_FILE), text).expect("file");
    }
    let config = RegistryConfig::from_dir(dir.path());
    (dir, config)
}

/// Returns an image of a registry.
fn image(registry: &str) -> Reference {
    format!("{registry}/a/b:v1").parse().expect("image")
}

fn origins(config: &RegistryConfig, registry: &str) -> Vec<String> {
    let hosts = config.hosts(&image(registry)).expect("hosts");
    hosts
        .iter()
        .map(|host| format!("{}{}", host.origin(), host.path))
        .collect()
}

#[test]
fn without_configuration_the_registry_itself_answers() {
    let config = RegistryConfig::default();
    assert_eq!(origins(&config, "quay.io"), ["https://quay.io/v2"]);
    assert_eq!(origins(&config, "docker.io"), ["https://registry-1.docker.io/v2"]);
    for loopback in ["localhost:5000", "127.0.0.1:5000", "[::1]:5000", "localhost"] {
        assert_eq!(origins(&config, loopback), [format!("https://{loopback}/v2")]);
        let hosts = config.hosts(&image(loopback)).expect("hosts");
        assert!(hosts[0].http_fallback && !hosts[0].skip_verify, "{loopback}");
    }
    let missing = RegistryConfig::from_dir("/does/not/exist");
    assert_eq!(origins(&missing, "quay.io"), ["https://quay.io/v2"]);
}

#[test]
fn the_folder_that_a_user_names_must_exist_and_decides() {
    let (dir, _) = config(&[("quay.io", "server = \"http://mirror:5000\"\n")]);
    let named = RegistryConfig::of_user(Some(dir.path())).expect("configuration");
    assert_eq!(origins(&named, "quay.io"), ["http://mirror:5000/v2"]);
    let error = RegistryConfig::of_user(Some(Path::new("/does/not/exist"))).expect_err("missing");
    assert_eq!(
        error.to_string(),
        "registry configuration /does/not/exist is not a directory"
    );
}

#[test]
fn insecure_registries_may_have_any_certificate_or_none() {
    let ways = |config: RegistryConfig| {
        let hosts = config
            .with_insecure(true)
            .hosts(&image("quay.io"))
            .expect("hosts");
        let way = |host: &Host| format!("{} {} {}", host.origin(), host.skip_verify, host.http_fallback);
        hosts.iter().map(way).collect::<Vec<_>>()
    };
    assert_eq!(ways(RegistryConfig::default()), ["https://quay.io true true"]);
    let (_dir, config) = config(&[("quay.io", "[host.\"https://m\"]\n[host.\"http://n\"]\n")]);
    assert_eq!(
        ways(config),
        [
            "https://m true false",
            "http://n true false",
            "https://quay.io true true"
        ],
        "a scheme that is written is meant"
    );
}

#[test]
fn mirrors_come_in_the_order_of_the_file_then_the_server() {
    let (_dir, config) = config(&[(
        "quay.io",
        r#"
server = "https://quay.io"
[host."http://z-first:5000"]
  capabilities = ["pull", "resolve"]
[host."https://a-second"]
  skip_verify = true
"#,
    )]);
    assert_eq!(
        origins(&config, "quay.io"),
        [
            "http://z-first:5000/v2",
            "https://a-second/v2",
            "https://quay.io/v2"
        ]
    );
    let hosts = config.hosts(&image("quay.io")).expect("hosts");
    assert_eq!(
        hosts[0].capabilities,
        Capabilities {
            pull: true,
            resolve: true,
            push: false
        }
    );
    assert_eq!(hosts[1].capabilities, Capabilities::ALL);
    assert_eq!(
        [hosts[0].skip_verify, hosts[1].skip_verify, hosts[2].skip_verify],
        [false, true, false]
    );
    assert_eq!(
        [hosts[0].mirror, hosts[1].mirror, hosts[2].mirror],
        [true, true, false]
    );
}

#[test]
fn default_folder_answers_for_all_others_and_keeps_their_own_server() {
    let (_dir, config) = config(&[
        ("_default", "[host.\"http://10.0.0.1:5000\"]\n"),
        ("quay.io_8443_", "server = \"http://other\"\n"),
    ]);
    assert_eq!(
        origins(&config, "ghcr.io"),
        ["http://10.0.0.1:5000/v2", "https://ghcr.io/v2"]
    );
    assert_eq!(
        origins(&config, "docker.io"),
        ["http://10.0.0.1:5000/v2", "https://registry-1.docker.io/v2"]
    );
    assert_eq!(origins(&config, "quay.io:8443"), ["http://other/v2"]);
    assert!(config.hosts(&image("quay.io:8443")).expect("hosts")[0].mirror);
}

#[test]
fn a_folder_without_hosts_file_hides_the_default() {
    let (dir, config) = config(&[("_default", "[host.\"http://mirror\"]\n")]);
    std::fs::create_dir(dir.path().join("quay.io")).expect("folder");
    assert_eq!(origins(&config, "quay.io"), ["https://quay.io/v2"]);
}

#[test]
fn paths_are_completed_or_overridden() {
    let (_dir, config) = config(&[(
        "quay.io",
        r#"
[host."https://m/proxy"]
[host."https://m/v2"]
[host."https://m/v2/quay-cache"]
  override_path = true
[host."https://m/"]
  override_path = true
"#,
    )]);
    assert_eq!(
        origins(&config, "quay.io"),
        [
            "https://m/proxy/v2",
            "https://m/v2",
            "https://m/v2/quay-cache",
            "https://m",
            "https://quay.io/v2"
        ]
    );
}

#[test]
fn files_are_relative_to_the_folder_and_headers_are_kept() {
    let (dir, config) = config(&[(
        "quay.io",
        r#"
ca = "own.crt"
[host."https://m"]
  ca = ["a.crt", "/etc/b.crt"]
  client = [["c.cert", "c.key"], ["both.pem", ""]]
  [host."https://m".header]
x-one = "1"
x-two = ["2", "3"]
"#,
    )]);
    let hosts = config.hosts(&image("quay.io")).expect("hosts");
    let folder = dir.path().join("quay.io");
    assert_eq!(hosts[0].ca, [folder.join("a.crt"), PathBuf::from("/etc/b.crt")]);
    assert_eq!(
        hosts[0].client,
        [
            (folder.join("c.cert"), Some(folder.join("c.key"))),
            (folder.join("both.pem"), None)
        ]
    );
    assert_eq!(hosts[0].headers["x-two"], ["2", "3"]);
    assert_eq!(hosts[1].ca, [folder.join("own.crt")]);
}

#[test]
fn broken_files_are_named() {
    for (text, expected) in [
        ("server = [", "cannot parse registry configuration"),
        ("server = \"ftp://x\"", "`ftp://x` is not a http or https URL"),
        (
            "[host.\"https://m\"]\ncapabilities = [\"fly\"]",
            "unknown capability `fly` of `https://m`",
        ),
        (
            "[host.\"https://m\"]\nskip_verify = \"yes\"",
            "cannot parse registry configuration",
        ),
    ] {
        let (dir, config) = config(&[("quay.io", text)]);
        let error = config.hosts(&image("quay.io")).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
        let file = dir.path().join("quay.io").join(HOSTS_FILE);
        assert!(error.contains(&file.display().to_string()), "{error}");
    }
}
