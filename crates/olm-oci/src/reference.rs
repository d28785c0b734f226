//! Image references: `[registry/]repository[:tag][@digest]`.
//!
//! Short names are completed as Docker and the kubelet do: `nginx` is `docker.io/library/nginx:latest`.

use std::fmt;
use std::str::FromStr;

use go_compat::image_ref::{self, Parts, is_host, is_path, is_tag};

use crate::digest::Digest;

/// Registry of names that have none.
pub const DEFAULT_REGISTRY: &str = "docker.io";
/// Tag of names that have neither tag nor digest.
pub const DEFAULT_TAG: &str = "latest";

/// Longest repository name that registries accept.
const MAX_NAME: usize = 255;

/// A complete image reference: a registry, a repository, and a tag or a digest or both.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// A text is not an image reference. The error has the text itself and the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReferenceError(String);

impl Reference {
    /// Returns the registry as users write it, for example `quay.io` or `localhost:5000`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the repository within the registry, for example `library/nginx`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag, if one is given (or implied, when there is no digest either).
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest, if one is given.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Returns the same image by digest alone, which no later push can change.
    pub fn pinned(&self, digest: Digest) -> Self {
        Self {
            tag: None,
            digest: Some(digest),
            ..self.clone()
        }
    }

    /// Returns the part that a registry is asked for: the digest if there is one, else the tag.
    pub fn selector(&self) -> &str {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.as_str(),
            (None, Some(tag)) => tag,
            (None, None) => DEFAULT_TAG,
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if text.trim().is_empty() {
            return Err(ReferenceError("image reference is empty".to_owned()));
        }
        let Parts { name, tag, digest } = image_ref::split(text);
        let digest = digest.map(str::parse::<Digest>).transpose();
        let digest = digest.map_err(|error| ReferenceError(format!("image reference `{text}`: {error}")))?;
        let invalid = |reason: &str| {
            Err(ReferenceError(format!(
                "image reference `{text}` has an {reason}"
            )))
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return invalid(
                "invalid tag: letters, digits, `_`, `.` and `-`, at most 128, not starting with `.` or `-`",
            );
        }
        let (registry, repository) = split_registry(name);
        if !is_registry(&registry) {
            return invalid("invalid registry host");
        }
        if repository.len() > MAX_NAME || !is_path(&repository) {
            return invalid(
                "invalid repository: lower-case letters, digits and single `.`, `_`, `-` or `/` between them, at most 255 characters",
            );
        }
        let tag = match (tag, &digest) {
            (Some(tag), _) => Some(tag.to_owned()),
            (None, Some(_)) => None,
            (None, None) => Some(DEFAULT_TAG.to_owned()),
        };
        Ok(Self {
            registry,
            repository,
            tag,
            digest,
        })
    }
}

/// Splits off the registry. The first path element is one only if it looks like a host; Docker Hub's several
/// names become one.
fn split_registry(name: &str) -> (String, String) {
    let (registry, repository) = match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => (DEFAULT_REGISTRY, name),
    };
    let registry = match registry {
        "index.docker.io" | "registry-1.docker.io" => DEFAULT_REGISTRY,
        other => other,
    };
    if registry == DEFAULT_REGISTRY && !repository.is_empty() && !repository.contains('/') {
        return (registry.to_owned(), format!("library/{repository}"));
    }
    (registry.to_owned(), repository.to_owned())
}

fn is_registry(registry: &str) -> bool {
    let (host, port) = match registry.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && !port.ends_with(']') => (host, Some(port)),
        _ => (registry, None),
    };
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return false;
    }
    if let Some(address) = host.strip_prefix('[') {
        return address
            .strip_suffix(']')
            .is_some_and(|a| a.parse::<std::net::Ipv6Addr>().is_ok());
    }
    is_host(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHA: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn references_are_completed_as_docker_does() {
        for (text, expected) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.25", "docker.io/library/nginx:1.25"),
            ("bitnami/nginx", "docker.io/bitnami/nginx:latest"),
            ("index.docker.io/nginx", "docker.io/library/nginx:latest"),
            ("registry-1.docker.io/a/b:c", "docker.io/a/b:c"),
            ("quay.io/a/b", "quay.io/a/b:latest"),
            (
                "quay.io/a/b/c_d__e--f.g:V1_2-x.y",
                "quay.io/a/b/c_d__e--f.g:V1_2-x.y",
            ),
            ("localhost/a", "localhost/a:latest"),
            ("localhost:5000/a:b", "localhost:5000/a:b"),
            ("127.0.0.1:5000/a", "127.0.0.1:5000/a:latest"),
            ("[::1]:5000/a:b", "[::1]:5000/a:b"),
        ] {
            assert_eq!(
                text.parse::<Reference>().expect(text).to_string(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn digest_without_tag_implies_no_tag() {
        let reference: Reference = format!("quay.io/a/b@{SHA}").parse().expect("reference");
        assert_eq!(reference.tag(), None);
        assert_eq!(reference.selector(), SHA);
        let both: Reference = format!("quay.io/a/b:v1@{SHA}").parse().expect("reference");
        assert_eq!(both.tag(), Some("v1"));
        assert_eq!(both.selector(), SHA);
        assert_eq!(both.to_string(), format!("quay.io/a/b:v1@{SHA}"));
    }

    #[test]
    fn pinning_drops_the_tag() {
        let reference: Reference = "quay.io/a/b:v1".parse().expect("reference");
        let pinned = reference.pinned(SHA.parse().expect("digest"));
        assert_eq!(pinned.to_string(), format!("quay.io/a/b@{SHA}"));
    }

    #[test]
    fn malformed_references_say_which_part_is_wrong() {
        for text in [
            "quay.io/a/b@sha256:12",
            "quay.io/a/b@md5:d41d8cd98f00b204e9800998ecf8427e",
            "quay.io/a/b@",
        ] {
            let error = text.parse::<Reference>().expect_err(text);
            assert!(error.to_string().contains("`: digest `"), "{text}: {error}");
            assert!(error.to_string().contains(text), "{error}");
        }
        for text in [
            "quay.io/A/b",
            "quay.io/a//b",
            "quay.io/",
            "a b",
            "quay.io/a/.b",
            "quay.io/a..b",
        ] {
            let error = text.parse::<Reference>().expect_err(text);
            assert!(
                error.to_string().contains("invalid repository:"),
                "{text}: {error}"
            );
        }
        for text in ["quay.io/a:", "quay.io/a:-x", "quay.io/a:x y", "a:b:c"] {
            let error = text.parse::<Reference>().expect_err(text);
            assert!(error.to_string().contains("invalid tag:"), "{text}: {error}");
        }
        for text in ["quay.io:port/a", "-x.io/a", "a..b/c", "../a", "[::g]:1/a"] {
            let error = text.parse::<Reference>().expect_err(text);
            assert!(
                error.to_string().contains("invalid registry host"),
                "{text}: {error}"
            );
        }
        let error = " ".parse::<Reference>().expect_err("empty");
        assert_eq!(error.to_string(), "image reference is empty");
    }

    proptest! {
        #[test]
        fn displayed_reference_parses_to_itself(text in "([a-z]{1,5}\\.io(:[1-9][0-9]{0,3})?/)?[a-z0-9]{1,6}(/[a-z0-9]{1,6}){0,2}(:[a-z0-9]{1,5})?") {
            let reference: Reference = text.parse().expect("reference");
            prop_assert_eq!(reference.to_string().parse::<Reference>().expect("again"), reference);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Reference>();
        }
    }
}
