//! Files of a machine that reaches only a mirror: a disconnected OpenShift.

use super::*;

/// Configuration that `oc` writes for ImageDigestMirrorSets with a never contacted source, and an insecure
/// registry.
const BASTION: &str = r#"
unqualified-search-registries = ["registry.access.redhat.com", "docker.io"]
short-name-mode = ""

[[registry]]
  prefix = ""
  location = "registry.redhat.io/redhat"
  blocked = true

  [[registry.mirror]]
    location = "bastion.example.com:8443/olm/redhat"
    pull-from-mirror = "digest-only"

  [[registry.mirror]]
    location = "spare.example.com/olm/redhat"
    insecure = true

[[registry]]
  location = "quay.io"
  mirror-by-digest-only = true
  [[registry.mirror]]
    location = "bastion.example.com:8443/quay"

[[registry]]
  location = "lab.example.com:5000"
  insecure = true

[[registry]]
  prefix = "*.corp.example.com"
  insecure = true

[[registry]]
  prefix = "old.example.com/team"
  location = "new.example.com/teams/team"
"#;
const DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// A machine with these files, below a root and with a home at `/home/me`.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn with(files: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().expect("folder");
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("folder")).expect("folder");
            std::fs::write(path, text).expect("file");
        }
        Self { root }
    }

    fn tools(&self) -> ContainerTools {
        let home = self.root.path().join("home/me");
        ContainerTools::new(Some(home)).with_root(self.root.path())
    }

    /// Returns the locations that are asked for an image, in order.
    fn asks(&self, image: &str) -> Vec<String> {
        asks(&self.tools(), image)
    }
}

fn asks(tools: &ContainerTools, image: &str) -> Vec<String> {
    let hosts = tools.hosts(&image.parse().expect("image")).expect("hosts");
    hosts
        .iter()
        .map(|host| {
            let way = match (host.skip_verify, host.http_fallback) {
                (true, true) => " insecure",
                _ => "",
            };
            let blocked = host.refusal.as_ref().map_or("", |_| " blocked");
            let repository = host.repository.as_deref().unwrap_or_default();
            format!("{}/{repository}{way}{blocked}", host.authority)
        })
        .collect()
}

#[test]
fn mirrors_are_asked_in_order_and_a_blocked_source_never() {
    let machine = Machine::with(&[("etc/containers/registries.conf", BASTION)]);
    let by_digest = format!("registry.redhat.io/redhat/index@{DIGEST}");
    assert_eq!(
        machine.asks(&by_digest),
        [
            "bastion.example.com:8443/olm/redhat/index",
            "spare.example.com/olm/redhat/index insecure",
            "registry.redhat.io/redhat/index blocked",
        ]
    );
    assert_eq!(
        machine.asks("registry.redhat.io/redhat/index:v4.20"),
        [
            "spare.example.com/olm/redhat/index insecure",
            "registry.redhat.io/redhat/index blocked",
        ]
    );
    let tools = machine.tools();
    let hosts = tools.hosts(&by_digest.parse().expect("image")).expect("hosts");
    let refusal = hosts
        .last()
        .and_then(|host| host.refusal.clone())
        .expect("refusal");
    assert!(
        refusal.starts_with("registry registry.redhat.io/redhat is blocked in ")
            && refusal.ends_with("etc/containers/registries.conf"),
        "{refusal}"
    );
}

#[test]
fn the_longest_prefix_decides_and_settings_are_its_own() {
    let machine = Machine::with(&[("etc/containers/registries.conf", BASTION)]);
    for (image, expected) in [
        (
            "registry.redhat.io/other/x:v1",
            vec!["registry.redhat.io/other/x"],
        ),
        (
            "registry.redhat.io/redhatter/x:v1",
            vec!["registry.redhat.io/redhatter/x"],
        ),
        ("quay.io/a/b:v1", vec!["quay.io/a/b"]),
        (
            "lab.example.com:5000/a/b:v1",
            vec!["lab.example.com:5000/a/b insecure"],
        ),
        ("lab.example.com/a/b:v1", vec!["lab.example.com/a/b"]),
        (
            "x.y.corp.example.com/a:v1",
            vec!["x.y.corp.example.com/a insecure"],
        ),
        (
            "x.corp.example.com:5000/a:v1",
            vec!["x.corp.example.com:5000/a insecure"],
        ),
        ("corp.example.com/a:v1", vec!["corp.example.com/a"]),
        (
            "evil.org/x.corp.example.com/a:v1",
            vec!["evil.org/x.corp.example.com/a"],
        ),
        (
            "old.example.com/team/app:v1",
            vec!["new.example.com/teams/team/app"],
        ),
        ("nginx", vec!["registry-1.docker.io/library/nginx"]),
    ] {
        assert_eq!(machine.asks(image), expected, "{image}");
    }
    let by_digest = format!("quay.io/a/b@{DIGEST}");
    assert_eq!(
        machine.asks(&by_digest),
        ["bastion.example.com:8443/quay/a/b", "quay.io/a/b"]
    );
}

#[test]
fn pushes_go_to_no_mirror() {
    let machine = Machine::with(&[("etc/containers/registries.conf", BASTION)]);
    let image = format!("registry.redhat.io/redhat/index@{DIGEST}");
    let own = machine
        .tools()
        .own_host(&image.parse().expect("image"))
        .expect("host");
    assert_eq!(own.authority, "registry.redhat.io");
    assert!(own.refusal.is_some());
    let lab = "lab.example.com:5000/a/b:v1".parse().expect("image");
    let own = machine.tools().own_host(&lab).expect("host");
    assert!(own.skip_verify && own.http_fallback && own.refusal.is_none());
}

#[test]
fn a_users_own_file_hides_the_machines_and_drop_ins_add() {
    let mirror = |of: &str, to: &str| {
        format!("[[registry]]\nlocation = \"{of}\"\n[[registry.mirror]]\nlocation = \"{to}\"\n")
    };
    let (one, two, three) = (
        mirror("quay.io", "one.example.com"),
        mirror("quay.io", "two.example.com"),
        mirror("ghcr.io", "three.example.com"),
    );
    let system = [
        ("etc/containers/registries.conf", one.as_str()),
        ("etc/containers/registries.conf.d/10-a.conf", &two),
        ("etc/containers/registries.conf.d/ignored.txt", "["),
        ("home/me/.config/containers/registries.conf.d/20-b.conf", &three),
    ];
    let machine = Machine::with(&system);
    assert_eq!(machine.asks("quay.io/a:v1"), ["two.example.com/a", "quay.io/a"]);
    assert_eq!(machine.asks("ghcr.io/a:v1"), ["three.example.com/a", "ghcr.io/a"]);

    let own = ("home/me/.config/containers/registries.conf", one.as_str());
    let machine = Machine::with(&[&system[..], &[own]].concat());
    assert_eq!(machine.asks("quay.io/a:v1"), ["one.example.com/a", "quay.io/a"]);
    assert_eq!(machine.asks("ghcr.io/a:v1"), ["three.example.com/a", "ghcr.io/a"]);

    let named = machine.root.path().join("named.conf");
    std::fs::write(&named, mirror("docker.io", "four.example.com")).expect("file");
    let tools = machine.tools().with_registries_conf(Some(named.clone()));
    assert_eq!(
        asks(&tools, "nginx"),
        [
            "four.example.com/library/nginx",
            "registry-1.docker.io/library/nginx"
        ]
    );
    std::fs::remove_file(named).expect("removed");
    assert!(
        tools.hosts(&"nginx".parse().expect("image")).is_err(),
        "it was asked for"
    );
    assert_eq!(Machine::with(&[]).asks("quay.io/a:v1"), ["quay.io/a"]);
}

#[test]
fn the_old_form_is_read() {
    let text = "[registries.search]\nregistries = ['quay.io']\n[registries.insecure]\nregistries = ['lab.example.com']\n\
        [registries.block]\nregistries = ['docker.io', 'lab.example.com']\n";
    let machine = Machine::with(&[("etc/containers/registries.conf", text)]);
    assert_eq!(
        machine.asks("lab.example.com/a:v1"),
        ["lab.example.com/a insecure blocked"]
    );
    assert_eq!(
        machine.asks("nginx"),
        ["registry-1.docker.io/library/nginx blocked"]
    );
}

#[test]
fn certificates_come_from_the_first_folder_of_the_registry() {
    let machine = Machine::with(&[
        ("etc/docker/certs.d/lab.example.com:5000/ca.crt", ""),
        ("etc/containers/certs.d/quay.io/ca.crt", ""),
        ("etc/containers/certs.d/quay.io/me.cert", ""),
        ("etc/containers/certs.d/quay.io/me.key", ""),
        ("etc/docker/certs.d/quay.io/other.crt", ""),
        ("home/me/.config/containers/certs.d/ghcr.io/own.crt", ""),
        ("etc/containers/certs.d/ghcr.io/other.crt", ""),
        ("etc/containers/certs.d/broken.example.com/me.cert", ""),
    ]);
    let of = |image: &str| {
        let hosts = machine.tools().hosts(&image.parse().expect("image"));
        hosts.map(|hosts| {
            let name = |path: &PathBuf| path.file_name().expect("name").to_string_lossy().into_owned();
            let client = hosts[0].client.iter().map(|(certificate, _)| name(certificate));
            hosts[0]
                .ca
                .iter()
                .map(name)
                .chain(client)
                .collect::<Vec<_>>()
                .join(" ")
        })
    };
    assert_eq!(of("lab.example.com:5000/a:v1").expect("certificates"), "ca.crt");
    assert_eq!(of("quay.io/a:v1").expect("certificates"), "ca.crt me.cert");
    assert_eq!(of("ghcr.io/a:v1").expect("certificates"), "own.crt");
    assert_eq!(of("docker.io/a:v1").expect("certificates"), "");
    let error = of("broken.example.com/a:v1").expect_err("no key").to_string();
    assert!(
        error.contains("me.cert") && error.contains("me.key is missing"),
        "{error}"
    );
}

#[test]
fn faults_name_the_file() {
    for (text, expected) in [
        (
            "[[registry]]\nlocation = 1",
            "cannot parse registry configuration",
        ),
        (
            "[[registry]]\nblocked = true",
            "an entry has neither location nor prefix",
        ),
        ("[[registry]]\nprefix = \"a.io\"", "a.io has no location"),
        (
            "[[registry]]\nlocation = \"https://a.io\"",
            "https://a.io must not have a scheme",
        ),
        (
            "[[registry]]\nprefix = \"*.a.io/x\"",
            "invalid prefix *.a.io/x: expected for example *.example.com",
        ),
        (
            "[[registry]]\nlocation = \"a.io\"\n[[registry.mirror]]\nlocation = \"b.io\"\npull-from-mirror = \"never\"",
            "unsupported pull-from-mirror \"never\" of mirror b.io",
        ),
    ] {
        let machine = Machine::with(&[("etc/containers/registries.conf", text)]);
        let error = machine.tools().hosts(&"quay.io/a".parse().expect("image"));
        let error = error.expect_err(text).to_string();
        assert!(
            error.contains(expected) && error.contains("etc/containers/registries.conf"),
            "{error}"
        );
    }
}
