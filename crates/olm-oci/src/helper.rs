//! Credential helpers: programs that keep passwords for Docker's `config.json` (`credHelpers`, `credsStore`).
//!
//! `docker-credential-<name> get` reads a registry from its standard input and prints `{"Username", "Secret"}`. Only people's
//! own configuration files are read so; what comes out of a cluster never starts a program.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::credential::{Credential, CredentialsError};
use crate::reference::DEFAULT_REGISTRY;

/// The key under which Docker keeps its hub's password.
const HUB_KEY: &str = "https://index.docker.io/v1/";
/// Stands for a user name where the secret is an identity token.
const TOKEN_USER: &str = "<token>";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Helpers {
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

/// What the helper of a registry host, or the store of all hosts, says of it; `None` without a helper, or where it knows
/// nothing.
///
/// # Errors
/// The configuration is no JSON, or a helper that is named for the very host cannot be run.
pub(crate) fn ask(config: &[u8], origin: &str, host: &str) -> Result<Option<Credential>, CredentialsError> {
    let helpers: Helpers = serde_json::from_slice(config).map_err(|error| CredentialsError::Parse {
        origin: origin.to_owned(),
        line: error.line(),
        column: error.column(),
    })?;
    let is_hub = host == DEFAULT_REGISTRY;
    let hub_key = is_hub.then_some(HUB_KEY);
    let keys: Vec<&str> = hub_key.into_iter().chain([host]).collect();
    let own = keys.iter().find_map(|key| helpers.cred_helpers.get(*key));
    let (name, is_own) = match own {
        Some(name) => (name.as_str(), true),
        None => (helpers.creds_store.as_str(), false),
    };
    if name.is_empty() {
        return Ok(None);
    }
    for key in keys {
        match run(name, key) {
            Ok(Some(credential)) => return Ok(Some(credential)),
            Ok(None) => {}
            Err(reason) if is_own => {
                return Err(CredentialsError::Helper {
                    helper: program(name),
                    origin: origin.to_owned(),
                    reason,
                });
            }
            // A store is left behind where Docker was removed; public images need none.
            Err(reason) => {
                tracing::warn!(helper = program(name), %reason, "the credential store of {origin} is not asked");
                return Ok(None);
            }
        }
    }
    Ok(None)
}

fn program(name: &str) -> String {
    format!("docker-credential-{name}")
}

fn run(name: &str, key: &str) -> Result<Option<Credential>, String> {
    // The name becomes part of a program's, and must not become a path.
    if name.contains(['/', '\\']) {
        return Err("its name is a path".to_owned());
    }
    let mut child = Command::new(program(name))
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    if let Some(mut input) = child.stdin.take() {
        // A helper that does not read it will not answer well either.
        let _ = input.write_all(key.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        // Knowing nothing of a host and failing look alike.
        return Ok(None);
    }
    let output: HelperOutput =
        serde_json::from_slice(&output.stdout).map_err(|_| "its answer is not JSON".to_owned())?;
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
