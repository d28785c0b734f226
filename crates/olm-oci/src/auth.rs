//! Registry credentials in the form of Docker's `config.json`, which pull secrets use too.
//!
//! Several pull secrets are merged. Every entry that fits an image is tried, the most specific key first, as
//! the kubelet does. Keys are a host, optionally with port and path (`quay.io/team`). `*` matches within one
//! host label.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;

use crate::asked::Asked;
use crate::credential::{Credential, CredentialsError};
use crate::reference::DEFAULT_REGISTRY;

/// Credentials for any number of registries.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    entries: Vec<Entry>,
    asked: Asked,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Entry {
    host: String,
    path: String,
    credential: Credential,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, AuthEntry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthEntry {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
    registrytoken: String,
}

impl Credentials {
    /// Returns no credentials: every pull is anonymous.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Reads a `config.json` (type `kubernetes.io/dockerconfigjson` of a Secret). `origin` names it in errors.
    ///
    /// # Errors
    /// [`CredentialsError::Parse`] and [`CredentialsError::Auth`].
    pub fn from_docker_config(text: &[u8], origin: &str) -> Result<Self, CredentialsError> {
        Self::read(text, origin, false, None)
    }

    /// Reads the data of a pull secret of either type; none in other secrets.
    ///
    /// # Errors
    /// [`CredentialsError::Parse`] and [`CredentialsError::Auth`].
    pub fn from_secret(data: &BTreeMap<String, Vec<u8>>, origin: &str) -> Result<Self, CredentialsError> {
        for (key, is_old) in [(".dockerconfigjson", false), (".dockercfg", true)] {
            if let Some(text) = data.get(key) {
                return Self::read(text, origin, is_old, None);
            }
        }
        Ok(Self::anonymous())
    }

    /// Reads a `config.json`, or the older `.dockercfg`: the `auths` map without its envelope. With `registries`
    /// (host, with port if any) the entries of others are ignored.
    ///
    /// # Errors
    /// [`CredentialsError::Parse`] and [`CredentialsError::Auth`].
    pub(crate) fn read(
        text: &[u8],
        origin: &str,
        is_old: bool,
        registries: Option<&[String]>,
    ) -> Result<Self, CredentialsError> {
        let config: Result<DockerConfig, serde_json::Error> = match is_old {
            true => serde_json::from_slice(text).map(|auths| DockerConfig { auths }),
            false => serde_json::from_slice(text),
        };
        let config = config.map_err(|error| CredentialsError::Parse {
            origin: origin.into(),
            line: error.line(),
            column: error.column(),
        })?;
        let mut credentials = Self::default();
        for (key, auth) in config.auths {
            let (host, path) = normalise_key(&key);
            let fits = |registry: &String| host_fits(&host, &normalise_key(registry).0);
            if registries.is_some_and(|registries| !registries.iter().any(fits)) {
                continue;
            }
            let credential = auth.into_credential().map_err(|()| CredentialsError::Auth {
                origin: origin.into(),
                key,
            })?;
            // `docker login` leaves an empty entry when a helper keeps the password.
            credentials.entries.extend(credential.map(|credential| Entry {
                host,
                path,
                credential,
            }));
        }
        credentials.sort();
        Ok(credentials)
    }

    /// Returns one credential for all repositories of a registry.
    pub(crate) fn of_registry(registry: &str, credential: Credential) -> Self {
        let (host, path) = normalise_key(registry);
        Self {
            entries: vec![Entry {
                host,
                path,
                credential,
            }],
            ..Self::default()
        }
    }

    /// Adds the record of the sources these credentials came from.
    pub(crate) fn with_asked(self, asked: Asked) -> Self {
        Self { asked, ..self }
    }

    /// Describes the files and helpers asked for a registry's credentials, with their answers. `None` if
    /// there were none.
    pub fn asked(&self, registry: &str) -> Option<String> {
        self.asked.of(registry)
    }

    /// Adds the entries of `other`; where both fit equally well, those already here are tried first.
    pub fn merge(&mut self, other: Self) {
        let mut known: HashSet<Entry> = self.entries.iter().cloned().collect();
        for entry in other.entries {
            if known.insert(entry.clone()) {
                self.entries.push(entry);
            }
        }
        self.sort();
    }

    /// Returns whether there are no credentials.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the credentials that fit any repository of a host (with port if any).
    pub(crate) fn for_registry(&self, host: &str) -> Vec<&Credential> {
        self.fitting(host, |_| true)
    }

    /// Returns the credentials that fit a repository of a host (with port if any), the most specific first.
    pub fn for_repository(&self, host: &str, repository: &str) -> Vec<&Credential> {
        self.fitting(host, |path| path_fits(path, repository))
    }

    fn fitting(&self, host: &str, is_for: impl Fn(&str) -> bool) -> Vec<&Credential> {
        let (host, _) = normalise_key(host);
        let fits = |entry: &&Entry| host_fits(&entry.host, &host) && is_for(&entry.path);
        let entries = self.entries.iter().filter(fits);
        entries.map(|entry| &entry.credential).collect()
    }

    /// Sorts by longest path, then exact hosts before patterns. The sort is stable: it keeps the order of
    /// merging otherwise.
    fn sort(&mut self) {
        self.entries.sort_by_key(|entry| {
            (
                std::cmp::Reverse(entry.path.len()),
                entry.host.matches('*').count(),
            )
        });
    }
}

impl fmt::Debug for Credentials {
    /// Shows hosts only, never secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(
                self.entries
                    .iter()
                    .map(|entry| format!("{}{}", entry.host, entry.path)),
            )
            .finish()
    }
}

impl AuthEntry {
    fn into_credential(self) -> Result<Option<Credential>, ()> {
        if !self.registrytoken.is_empty() {
            return Ok(Some(Credential::Bearer(self.registrytoken)));
        }
        // The user name beside an identity token has no meaning, and there is no password.
        if !self.identitytoken.is_empty() {
            return Ok(Some(Credential::Identity(self.identitytoken)));
        }
        let (username, password) = if self.auth.is_empty() {
            (self.username, self.password)
        } else {
            decode_auth(&self.auth).ok_or(())?
        };
        if username.is_empty() && password.is_empty() {
            return Ok(None);
        }
        Ok(Some(Credential::Basic { username, password }))
    }
}

fn decode_auth(auth: &str) -> Option<(String, String)> {
    let trimmed = auth.trim();
    let bytes = STANDARD
        .decode(trimmed)
        .or_else(|_| STANDARD_NO_PAD.decode(trimmed))
        .ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (username, password) = text.split_once(':')?;
    // Some tools pad the decoded value with NUL bytes.
    Some((username.to_owned(), password.trim_end_matches('\0').to_owned()))
}

/// Splits a key into host and path. Scheme and API version are dropped; Docker Hub's several names become
/// one.
fn normalise_key(key: &str) -> (String, String) {
    let bare = key.trim();
    let bare = bare
        .strip_prefix("https://")
        .or_else(|| bare.strip_prefix("http://"))
        .unwrap_or(bare);
    let bare = bare.trim_end_matches('/');
    let (host, path) = bare
        .split_once('/')
        .map_or((bare, ""), |(host, path)| (host, path));
    let path = if path == "v1" || path == "v2" { "" } else { path };
    let host = match host {
        "index.docker.io" | "registry-1.docker.io" => DEFAULT_REGISTRY,
        other => other,
    };
    let path = if path.is_empty() {
        String::new()
    } else {
        format!("/{path}")
    };
    (host.to_owned(), path)
}

/// Returns whether a host fits a pattern. `*` matches (part of) one label; the number of labels and the port
/// must agree.
fn host_fits(pattern: &str, host: &str) -> bool {
    let port = |text: &str| text.rsplit_once(':').map(|(_, port)| port.to_owned());
    if !pattern.contains('*') {
        return pattern == host;
    }
    let name = |text: &str| {
        text.rsplit_once(':')
            .map_or(text.to_owned(), |(name, _)| name.to_owned())
    };
    let (pattern_name, host_name) = (name(pattern), name(host));
    port(pattern) == port(host)
        && pattern_name.split('.').count() == host_name.split('.').count()
        && pattern_name
            .split('.')
            .zip(host_name.split('.'))
            .all(|(p, h)| label_fits(p, h))
}

fn label_fits(pattern: &str, label: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == label,
        Some((prefix, rest)) => label.strip_prefix(prefix).is_some_and(|tail| {
            let boundaries = tail.char_indices().map(|(at, _)| at).chain([tail.len()]);
            boundaries.into_iter().any(|at| label_fits(rest, &tail[at..]))
        }),
    }
}

fn path_fits(path: &str, repository: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else {
        return true;
    };
    repository
        .strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(credentials: &Credentials, host: &str, repository: &str) -> Vec<String> {
        let name = |credential: &Credential| match credential {
            Credential::Basic { username, password } => format!("{username}:{password}"),
            Credential::Bearer(token) => format!("bearer {token}"),
            Credential::Identity(token) => format!("identity {token}"),
        };
        credentials
            .for_repository(host, repository)
            .into_iter()
            .map(name)
            .collect()
    }

    fn parse(text: &str) -> Credentials {
        Credentials::from_docker_config(text.as_bytes(), "test").expect("credentials")
    }

    #[test]
    fn auth_is_base64_of_user_and_password() {
        let credentials = parse(r#"{"auths":{"quay.io":{"auth":"dXNlcjpwYTpzcw=="}}}"#);
        assert_eq!(users(&credentials, "quay.io", "a/b"), ["user:pa:ss"]);
        assert!(users(&credentials, "ghcr.io", "a/b").is_empty());
        assert!(users(&credentials, "quay.io:5000", "a/b").is_empty());
    }

    #[test]
    fn plain_fields_tokens_and_empty_entries() {
        let credentials = parse(
            r#"{"credsStore":"x","auths":{"a.io":{"username":"u","password":"p"},"b.io":{"registrytoken":"t"},
                "c.io":{},"d.io":{"auth":"MDA6","identitytoken":"i"}}}"#,
        );
        assert_eq!(users(&credentials, "a.io", "x"), ["u:p"]);
        assert_eq!(users(&credentials, "b.io", "x"), ["bearer t"]);
        assert!(users(&credentials, "c.io", "x").is_empty());
        assert_eq!(users(&credentials, "d.io", "x"), ["identity i"]);
    }

    #[test]
    fn all_names_of_docker_hub_are_one() {
        for key in [
            "https://index.docker.io/v1/",
            "docker.io",
            "registry-1.docker.io",
            "http://docker.io/v2",
        ] {
            let credentials = parse(&format!(
                r#"{{"auths":{{"{key}":{{"username":"u","password":"p"}}}}}}"#
            ));
            for host in ["docker.io", "registry-1.docker.io", "index.docker.io"] {
                assert_eq!(
                    users(&credentials, host, "library/nginx"),
                    ["u:p"],
                    "{key} {host}"
                );
            }
        }
    }

    #[test]
    fn the_most_specific_key_comes_first() {
        let credentials = parse(
            r#"{"auths":{"quay.io":{"username":"host","password":""},"quay.io/team":{"username":"team","password":""},
                "*.io":{"username":"any","password":""},"quay.io/team/app":{"username":"app","password":""}}}"#,
        );
        assert_eq!(
            users(&credentials, "quay.io", "team/app"),
            ["app:", "team:", "host:", "any:"]
        );
        assert_eq!(users(&credentials, "quay.io", "teams/app"), ["host:", "any:"]);
        assert_eq!(users(&credentials, "ghcr.io", "x"), ["any:"]);
        assert!(users(&credentials, "a.ghcr.io", "x").is_empty());
    }

    #[test]
    fn patterns_stand_for_parts_of_a_label() {
        for (pattern, host, fits) in [
            ("*.example.com", "a.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "a.example.com.evil.org", false),
            ("*.com", "a.com.evil.org", false),
            ("reg*.example.com:5000", "reg1.example.com:5000", true),
            ("reg*.example.com:5000", "reg1.example.com", false),
            ("a*c*.io", "abcd.io", true),
            ("a*x.io", "abcd.io", false),
        ] {
            assert_eq!(host_fits(pattern, host), fits, "{pattern} {host}");
        }
    }

    #[test]
    fn merged_secrets_are_all_tried_in_order_without_doubles() {
        let mut merged = parse(r#"{"auths":{"quay.io":{"username":"first","password":"1"}}}"#);
        merged.merge(parse(
            r#"{"auths":{"quay.io":{"username":"second","password":"2"}}}"#,
        ));
        merged.merge(parse(
            r#"{"auths":{"quay.io":{"username":"first","password":"1"}}}"#,
        ));
        let old = br#"{"quay.io":{"username":"old","password":"3"}}"#;
        merged.merge(Credentials::read(old, "test", true, None).expect("credentials"));
        assert_eq!(users(&merged, "quay.io", "x"), ["first:1", "second:2", "old:3"]);
    }

    #[test]
    fn both_types_of_pull_secret_are_read_and_errors_show_none_of_it() {
        let auth = r#"{"quay.io": {"username": "u", "password": "p"}}"#;
        let config = format!("{{\"auths\": {auth}}}");
        let read = |key: &str, text: &str| {
            let data = [(key.to_owned(), text.as_bytes().to_vec())].into();
            Credentials::from_secret(&data, "Secret a/b")
        };
        for (key, text, expected) in [
            (".dockerconfigjson", config.as_str(), 1),
            (".dockercfg", auth, 1),
            ("other", "x", 0),
        ] {
            let credentials = read(key, text).expect("credentials");
            assert_eq!(users(&credentials, "quay.io", "a/b").len(), expected, "{key}");
        }
        let broken = read(".dockerconfigjson", "{\"auths\": hunter2}").expect_err("not JSON");
        let error = broken.to_string();
        assert!(
            error.contains("Secret a/b") && !error.contains("hunter2"),
            "{error}"
        );
    }

    #[test]
    fn errors_and_debug_output_hold_no_secret() {
        let error =
            Credentials::from_docker_config(br#"{"auths":{"q":{"auth":"c2VjcmV0"}}}"#, "secret ns/pull");
        assert_eq!(
            error.expect_err("no colon").to_string(),
            "credentials in secret ns/pull: `auth` of `q` is not base64 of user:password"
        );
        let error = Credentials::from_docker_config(b"{\"auths\": hunter2", "x").expect_err("not JSON");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        let credentials = parse(r#"{"auths":{"quay.io":{"username":"u","password":"hunter2"}}}"#);
        assert!(
            !format!("{credentials:?} {:?}", credentials.for_repository("quay.io", "x")).contains("hunter2")
        );
    }
}
