//! `policy.json` of container tools, containers-policy.json(5): the images that may be pulled.
//!
//! A rejection is honoured. Signatures are not verified here: callers report the policy that requires them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::containers::ContainerTools;
use crate::host::RegistryConfigError;
use crate::reference::Reference;

/// Policy file below the folders of container tools.
const POLICY: &str = "policy.json";
/// The transport of images in registries.
const TRANSPORT: &str = "docker";

#[derive(Debug, Deserialize)]
struct Policy {
    default: Vec<Requirement>,
    #[serde(default)]
    transports: BTreeMap<String, BTreeMap<String, Vec<Requirement>>>,
}

#[derive(Debug, Deserialize)]
struct Requirement {
    #[serde(rename = "type")]
    kind: String,
}

/// Judges an image by the user's policy, else by the machine's. Without a policy everything is accepted. Returns
/// the policy's file if the image may be pulled only if it is signed, which is not verified here.
///
/// # Errors
/// The policy rejects the image, or cannot be read.
pub(crate) fn judge(
    tools: &ContainerTools,
    image: &Reference,
) -> Result<Option<PathBuf>, RegistryConfigError> {
    let files = tools.folders().into_iter().map(|folder| folder.join(POLICY));
    match files.into_iter().find(|file| file.is_file()) {
        Some(file) => judge_by(&file, image),
        None => Ok(None),
    }
}

fn judge_by(file: &Path, image: &Reference) -> Result<Option<PathBuf>, RegistryConfigError> {
    let text = std::fs::read(file).map_err(RegistryConfigError::cannot("read", file))?;
    let invalid = |reason: String| RegistryConfigError::invalid(file, reason);
    let policy: Policy = serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
    let of_registries = policy.transports.get(TRANSPORT);
    let scoped = scopes(image)
        .into_iter()
        .find_map(|scope| of_registries?.get(&scope));
    let requirements = scoped.unwrap_or(&policy.default);
    let mut unverified = None;
    for requirement in requirements {
        match requirement.kind.as_str() {
            "insecureAcceptAnything" => {}
            "reject" => return Err(invalid(format!("image {image} is rejected by policy"))),
            _ => unverified = Some(file.to_owned()),
        }
    }
    if requirements.is_empty() {
        return Err(invalid(format!(
            "the list of requirements for image {image} is empty"
        )));
    }
    Ok(unverified)
}

/// Returns the names under which a policy may list an image, the most specific first.
fn scopes(image: &Reference) -> Vec<String> {
    let name = format!("{}/{}", image.registry(), image.repository());
    let mut scopes = vec![match (image.digest(), image.tag()) {
        (Some(digest), _) => format!("{name}@{digest}"),
        (None, tag) => format!("{name}:{}", tag.unwrap_or_default()),
    }];
    let mut parent = name.as_str();
    loop {
        scopes.push(parent.to_owned());
        match parent.rsplit_once('/') {
            Some((shorter, _)) => parent = shorter,
            None => break,
        }
    }
    let mut domain = image
        .registry()
        .rsplit_once(':')
        .map_or(image.registry(), |(host, _)| host);
    while let Some((_, rest)) = domain.split_once('.') {
        scopes.push(format!("*.{rest}"));
        domain = rest;
    }
    scopes.push(String::new());
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_scope_decides() {
        let root = tempfile::tempdir().expect("folder");
        let folder = root.path().join("etc/containers");
        std::fs::create_dir_all(&folder).expect("folder");
        let file = folder.join(POLICY);
        let tools = ContainerTools::new(None).with_root(root.path());
        let judged = |image: &str| match judge(&tools, &image.parse().expect("image")) {
            Ok(None) => "accepted".to_owned(),
            Ok(Some(_)) => "unverified".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(judged("quay.io/a:v1"), "accepted", "there is no policy");
        std::fs::write(
            &file,
            r#"{"default": [{"type": "reject"}], "transports": {
                "docker-daemon": {"": [{"type": "insecureAcceptAnything"}]},
                "docker": {
                    "registry.redhat.io": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/k"}],
                    "quay.io/good": [{"type": "insecureAcceptAnything"}],
                    "quay.io/good/bad": [{"type": "reject"}],
                    "quay.io/good/bad:v2": [{"type": "insecureAcceptAnything"}],
                    "*.example.com": [{"type": "insecureAcceptAnything"}]}}}"#,
        )
        .expect("file");
        assert_eq!(judged("quay.io/good/x:v1"), "accepted");
        assert_eq!(judged("quay.io/good/bad:v2"), "accepted");
        assert_eq!(judged("a.b.example.com:5000/x:v1"), "accepted");
        assert_eq!(judged("registry.redhat.io/x/y:v1"), "unverified");
        for image in [
            "quay.io/good/bad:v1",
            "quay.io/goods/x:v1",
            "ghcr.io/x:v1",
            "example.com/x:v1",
        ] {
            let error = judged(image);
            assert!(
                error.ends_with(&format!("image {image} is rejected by policy"))
                    && error.contains("etc/containers/policy.json"),
                "{error}"
            );
        }
        std::fs::write(&file, "{}").expect("file");
        assert!(judged("quay.io/a:v1").contains("missing field `default`"));
    }
}
