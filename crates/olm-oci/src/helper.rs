//! Credential helpers: programs that keep passwords for Docker's `config.json` (`credHelpers`, `credsStore`).
//!
//! `docker-credential-<name> get` reads a registry from its standard input and prints `{"Username",
//! "Secret"}`. Helpers run only for a user's own configuration files: content of a cluster never starts a
//! program.

use std::collections::BTreeMap;
use std::io::{Read, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde::Deserialize;

use crate::credential::Credential;
use crate::reference::DEFAULT_REGISTRY;

/// The key under which Docker keeps its hub's password.
const HUB_KEY: &str = "https://index.docker.io/v1/";
/// User name in the answer if the secret is an identity token.
const TOKEN_USER: &str = "<token>";
/// Text of a helper that has nothing for a registry, which is not a failure.
const NOT_FOUND: &str = "credentials not found";
/// Time for an answer. Some helpers ask a cloud, or wait for a person to unlock a keychain.
const LIMIT: Duration = Duration::from_secs(60);
/// Time for the helper to exit after its answer, and the interval of checking for it.
const AFTER: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Maximum bytes of an answer that are read.
const OUTPUT_BYTES: u64 = 1 << 16;
/// Maximum characters of a helper's text that an error repeats.
const WORDS: usize = 200;

/// The helpers that a file names.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Helpers {
    cred_helpers: BTreeMap<String, String>,
    creds_store: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperOutput {
    #[serde(default)]
    username: String,
    #[serde(default)]
    secret: String,
}

/// Answer of a helper for a registry; `None` if it has nothing for it.
pub(crate) type Answer = Result<Option<Credential>, String>;

impl Helpers {
    /// Returns the helper of a registry, else the store for all registries; `None` if neither is configured.
    pub(crate) fn of(&self, registry: &str) -> Option<&str> {
        let own = keys(registry).find_map(|key| self.cred_helpers.get(key));
        let name = own.unwrap_or(&self.creds_store).as_str();
        (!name.is_empty()).then_some(name)
    }
}

/// Returns the name of a helper's program.
pub(crate) fn program(name: &str) -> String {
    format!("docker-credential-{name}")
}

/// Asks a helper for a registry's credential.
pub(crate) fn ask(name: &str, registry: &str) -> Answer {
    for key in keys(registry) {
        if let Some(credential) = run(name, key)? {
            return Ok(Some(credential));
        }
    }
    Ok(None)
}

/// Returns the names under which a registry's password may be kept.
fn keys(registry: &str) -> impl Iterator<Item = &str> {
    let hub = (registry == DEFAULT_REGISTRY).then_some(HUB_KEY);
    hub.into_iter().chain([registry])
}

fn run(name: &str, key: &str) -> Answer {
    // The name becomes part of a program's name, and must not become a path.
    if name.contains(['/', '\\']) {
        return Err("the name of the helper is a path".to_owned());
    }
    let mut child = Command::new(program(name))
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    if let Some(mut input) = child.stdin.take() {
        // A helper that does not read its input will not answer well either.
        let _ = input.write_all(key.as_bytes());
    }
    let (output, errors) = (reader(child.stdout.take()), reader(child.stderr.take()));
    // The answer is complete when the output closes. A background process of the helper may keep it open
    // until the limit.
    let Ok(answer) = output.recv_timeout(LIMIT) else {
        end(&mut child);
        return Err(format!("no answer within {} s", LIMIT.as_secs_f32()));
    };
    let Some(status) = ended(&mut child) else {
        end(&mut child);
        return Err("the helper did not exit after its response".to_owned());
    };
    if !status.success() {
        let errors = errors.recv_timeout(AFTER).unwrap_or_default();
        return refusal(status, &answer, &errors);
    }
    let output: HelperOutput =
        serde_json::from_slice(&answer).map_err(|_| "the response of the helper is not JSON".to_owned())?;
    if output.secret.is_empty() {
        return Ok(None);
    }
    if output.username == TOKEN_USER {
        return Ok(Some(Credential::Identity(output.secret)));
    }
    Ok(Some(Credential::Basic {
        username: output.username,
        password: output.secret,
    }))
}

/// Turns a helper's failure into an answer. Helpers write the reason to either output.
fn refusal(status: ExitStatus, output: &[u8], errors: &[u8]) -> Answer {
    let texts = [output, errors].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
    if texts.iter().any(|text| text.contains(NOT_FOUND)) {
        return Ok(None);
    }
    let said = texts.iter().find(|text| !text.is_empty()).map(|text| {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let printable = line.chars().filter(|character| !character.is_control());
        printable.take(WORDS).collect::<String>()
    });
    Err(match said {
        Some(said) => format!("{status}: {said}"),
        None => status.to_string(),
    })
}

/// Receives a program's output once it is closed.
fn reader(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(OUTPUT_BYTES).read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

fn ended(child: &mut Child) -> Option<ExitStatus> {
    for _ in 0..AFTER.as_millis() / LOOK_EVERY.as_millis() {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => std::thread::sleep(LOOK_EVERY),
            Err(_) => return None,
        }
    }
    None
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_of_a_registry_comes_before_the_store_of_all() {
        let helpers = |text: &str| serde_json::from_str::<Helpers>(text).expect("helpers");
        let both = helpers(
            r#"{"credHelpers": {"a.io": "own", "https://index.docker.io/v1/": "hub"}, "credsStore": "store"}"#,
        );
        assert_eq!(both.of("a.io"), Some("own"));
        assert_eq!(both.of("b.io"), Some("store"));
        assert_eq!(both.of("docker.io"), Some("hub"));
        assert_eq!(helpers(r#"{"auths": {}}"#).of("a.io"), None);
    }

    #[test]
    fn a_helper_that_cannot_be_run_says_so() {
        assert!(ask("that-is-not-there", "a.io").is_err());
        assert_eq!(
            ask("../x", "a.io"),
            Err("the name of the helper is a path".to_owned())
        );
    }
}
