//! Image references, checked as container tools check them.

use go_compat::image_ref::{self, Parts, is_host, is_path, is_tag};

/// The text does not match the grammar.
const FORMAT: &str = "invalid reference format";

/// Checks `[host[:port]/]path[:tag][@algorithm:hex]`.
///
/// # Errors
/// The first violated rule, in the words of the reference grammar's own library.
pub fn check(reference: &str) -> Result<(), &'static str> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if reference.len() == 64 && reference.bytes().all(is_hex) {
        return Err("invalid repository name, cannot specify 64-byte hexadecimal strings");
    }
    let Parts { name, tag, digest } = image_ref::split(reference);
    if !tag.is_none_or(is_tag) {
        return Err(FORMAT);
    }
    check_name(name)?;
    digest.map_or(Ok(()), check_digest)
}

fn check_name(name: &str) -> Result<(), &'static str> {
    let (domain, path) = match name.split_once('/') {
        Some((first, rest)) if is_domain_like(first) => (Some(first), rest),
        _ => (None, name),
    };
    if domain.is_some_and(|domain| !is_domain(domain)) {
        return Err(FORMAT);
    }
    if !is_path(path) {
        let lower = path.to_ascii_lowercase();
        return Err(if lower != path && is_path(&lower) {
            "invalid reference format: repository name must be lowercase"
        } else {
            FORMAT
        });
    }
    if name.len() > 255 {
        return Err("repository name must not be more than 255 characters");
    }
    Ok(())
}

/// Returns true for a first component that is a host: it has a dot, a port or capitals, or is `localhost`.
fn is_domain_like(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (domain, None),
    };
    is_host(host) && port.is_none_or(is_port)
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn check_digest(digest: &str) -> Result<(), &'static str> {
    let (algorithm, hex) = digest.split_once(':').ok_or(FORMAT)?;
    let is_algorithm = !algorithm.is_empty()
        && algorithm.split(['+', '.', '-', '_']).all(|part| {
            part.starts_with(|char: char| char.is_ascii_alphabetic())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
    if !is_algorithm || hex.len() < 32 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(FORMAT);
    }
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Err("unsupported digest algorithm"),
    };
    if hex.len() != length {
        return Err("invalid checksum digest length");
    }
    if hex.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("invalid checksum digest format");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        let sha = "a".repeat(64);
        for (reference, expected) in [
            ("quay.io/x/y:1".to_owned(), Ok(())),
            ("busybox".to_owned(), Ok(())),
            ("localhost:5000/x".to_owned(), Ok(())),
            // Newer tools accept IPv6 hosts; upstream's grammar does not.
            ("[::1]:5000/x:tag".to_owned(), Err(FORMAT)),
            (
                "0123456789abcdef".repeat(4),
                Err("invalid repository name, cannot specify 64-byte hexadecimal strings"),
            ),
            (format!("{}a", "0123456789abcdef".repeat(4)), Ok(())),
            (
                format!("quay.io/x@sha256:{}", sha.to_uppercase()),
                Err("invalid checksum digest format"),
            ),
            (format!("quay.io/x/y@sha256:{sha}"), Ok(())),
            (format!("quay.io/x/y:1@sha256:{sha}"), Ok(())),
            ("memcached:1.5".to_owned(), Ok(())),
            ("quay.io/a-b/c__d/e.f--g".to_owned(), Ok(())),
            (format!("docker.io/x/y@@sha256:{sha}"), Err(FORMAT)),
            ("quay.io/x/y:".to_owned(), Err(FORMAT)),
            ("quay.io/x y".to_owned(), Err(FORMAT)),
            ("quay.io//y".to_owned(), Err(FORMAT)),
            ("-x/y.".to_owned(), Err(FORMAT)),
            (String::new(), Err(FORMAT)),
            (
                "quay.io/X/y".to_owned(),
                Err("invalid reference format: repository name must be lowercase"),
            ),
            (
                format!("quay.io/{}", "a".repeat(260)),
                Err("repository name must not be more than 255 characters"),
            ),
            ("quay.io/x@sha256:abc".to_owned(), Err(FORMAT)),
            (
                format!("quay.io/x@sha256:{}", &sha[..40]),
                Err("invalid checksum digest length"),
            ),
            (
                format!("quay.io/x@md5:{}", &sha[..32]),
                Err("unsupported digest algorithm"),
            ),
        ] {
            assert_eq!(check(&reference), expected, "{reference:?}");
        }
    }
}
