use super::*;
use crate::credential::Credential;

/// A home with these files; an `auth` is base64 of `name:p`.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn with(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("folder");
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("folder")).expect("folder");
            std::fs::write(path, text).expect("file");
        }
        Self { dir }
    }

    fn places(&self) -> AuthPlaces {
        AuthPlaces {
            runtime_dir: Some(self.dir.path().join("run")),
            home: Some(self.dir.path().to_owned()),
            ..AuthPlaces::default()
        }
    }
}

fn users(credentials: &Credentials, repository: &str) -> Vec<String> {
    let found = credentials.for_repository("quay.io", repository).into_iter();
    found
        .map(|credential| match credential {
            Credential::Basic { username, .. } => username.clone(),
            other => format!("{other:?}"),
        })
        .collect()
}

fn of_user(places: &AuthPlaces) -> Credentials {
    Credentials::of_user(places, &[], &["quay.io".to_owned()])
}

fn auths(user: &str) -> String {
    format!(r#"{{"auths": {{"quay.io": {{"username": "{user}", "password": "p"}}}}}}"#)
}

#[test]
fn every_file_is_asked_in_upstreams_order() {
    let home = Home::with(&[
        (".docker/config.json", &auths("docker")),
        ("run/containers/auth.json", &auths("session")),
        (".config/containers/auth.json", &auths("config")),
        (
            ".dockercfg",
            r#"{"https://quay.io/v1/": {"username": "old", "password": "p"}}"#,
        ),
        ("named.json", &auths("named")),
        ("other/config.json", &auths("other")),
        ("xdg/containers/auth.json", &auths("xdg")),
    ]);
    let places = home.places();
    assert_eq!(
        users(&of_user(&places), "a"),
        ["docker", "session", "config", "old"]
    );
    let at = |path: &str| Some(home.dir.path().join(path));
    let named = AuthPlaces {
        auth_file: at("named.json"),
        ..places.clone()
    };
    assert_eq!(
        users(&of_user(&named), "a"),
        ["named", "session", "config", "docker", "old"]
    );
    let elsewhere = AuthPlaces {
        docker_config: at("other"),
        config_home: at("xdg"),
        ..places.clone()
    };
    assert_eq!(
        users(&of_user(&elsewhere), "a"),
        ["other", "session", "xdg", "old"]
    );
    let missing = AuthPlaces {
        auth_file: at("missing.json"),
        ..places
    };
    assert_eq!(
        users(&of_user(&missing), "a"),
        ["session", "config", "docker", "old"],
        "a file that is not there is no error"
    );
}

#[test]
fn keys_of_repositories_come_before_those_of_hosts() {
    let text = r#"{"auths": {"quay.io": {"auth": "aG9zdDpw"}, "quay.io/team": {"auth": "dGVhbTpw"}}}"#;
    let home = Home::with(&[(".docker/config.json", text)]);
    let credentials = of_user(&home.places());
    assert_eq!(users(&credentials, "team/app"), ["team", "host"]);
    assert_eq!(users(&credentials, "other/app"), ["host"]);
}

#[test]
fn unreadable_objects_are_recorded_and_stop_nothing() {
    let home = Home::with(&[
        (".docker/config.json", "{"),
        (
            "run/containers/auth.json",
            r#"{"auths": {"other.io": {"auth": "broken"}, "quay.io": {"auth": "dXNlcjpw"}}}"#,
        ),
        (
            ".config/containers/auth.json",
            r#"{"auths": {"quay.io": {"auth": "broken"}}}"#,
        ),
    ]);
    let credentials = of_user(&home.places());
    assert_eq!(
        users(&credentials, "a"),
        ["user"],
        "a broken entry of another registry is none"
    );
    let asked = credentials.asked("quay.io").expect("asked");
    for said in [
        "credentials looked up for quay.io: ",
        ".docker/config.json: is not a valid config.json: line 1, column 1",
        "run/containers/auth.json: has credentials",
        ".config/containers/auth.json: `auth` of `quay.io` is not base64 of user:password",
        "not found: ",
        ".dockercfg",
    ] {
        assert!(asked.contains(said), "{said}: {asked}");
    }
}

#[test]
fn helpers_that_fail_are_named_with_their_file() {
    let text =
        r#"{"credHelpers": {"quay.io": "that-is-not-there"}, "auths": {"quay.io": {"auth": "dXNlcjpw"}}}"#;
    let home = Home::with(&[(".docker/config.json", text)]);
    let credentials = of_user(&home.places());
    assert_eq!(users(&credentials, "a"), ["user"]);
    let asked = credentials.asked("quay.io").expect("asked");
    assert!(
        asked.contains("config.json: credential helper docker-credential-that-is-not-there, configured in ")
            && asked.contains("No such file"),
        "{asked}"
    );
    let global = Credentials::of_user(
        &home.places(),
        &["gone".to_owned(), FILES.to_owned()],
        &["quay.io".to_owned()],
    );
    let asked = global.asked("quay.io").expect("asked");
    assert!(
        asked.contains("registries.conf: credential helper docker-credential-gone: No such file"),
        "{asked}"
    );
    assert_eq!(users(&global, "a"), ["user"]);
    assert_eq!(Credentials::anonymous().asked("quay.io"), None);
}
