//! Failures at a host, in our classes.

use go_compat::error_chain;

use crate::digest::Digest;
use crate::error::{Attempt, PullErrorClass};
use crate::host::Host;

/// Prefix of the HTTP library's error text for a name without an address; the library has no type for it.
const UNRESOLVED: &str = "dns error";

/// A failure at one host.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) class: PullErrorClass,
    pub(crate) detail: String,
    /// True if the other side was found to speak TLS.
    pub(crate) speaks_tls: bool,
}

impl Failure {
    pub(crate) fn new(class: PullErrorClass, detail: impl Into<String>) -> Self {
        Self {
            class,
            detail: detail.into(),
            speaks_tls: false,
        }
    }

    pub(crate) fn at(self, host: &Host) -> Attempt {
        Attempt {
            host: host.origin(),
            class: self.class,
            detail: self.detail,
        }
    }
}

pub(super) fn too_large(limit: u64) -> Failure {
    Failure::new(
        PullErrorClass::TooLarge,
        format!("larger than the limit of {limit} bytes"),
    )
}

/// Returns the failure of a transfer that exceeds a limit of time.
pub(super) fn too_slow(detail: String) -> Failure {
    Failure::new(PullErrorClass::Unreachable, detail)
}

/// Returns the failure of content that is not what its digest promises, with the difference.
pub(super) fn mismatch(expected: &Digest, difference: &str) -> Failure {
    let detail = format!("content of {expected} {difference}");
    Failure::new(PullErrorClass::DigestMismatch, detail)
}

pub(super) fn transport_failure(error: &reqwest::Error) -> Failure {
    let detail = error_chain(error);
    let class = if error.is_connect() && detail.contains(UNRESOLVED) {
        PullErrorClass::UnknownHost
    } else if error.is_connect() && tls_error(error).is_some() {
        PullErrorClass::Untrusted
    } else {
        PullErrorClass::Unreachable
    };
    Failure {
        // A side that does not speak TLS sends a message that cannot be parsed.
        speaks_tls: tls_error(error).is_some_and(|error| !matches!(error, rustls::Error::InvalidMessage(_))),
        ..Failure::new(class, detail)
    }
}

/// Returns the TLS error behind a failure, if there is one. The HTTP library nests it in IO errors, which do
/// not report their inner error as their source.
fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        let within = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        next = match within {
            Some(within) => Some(within),
            None => error.source(),
        };
    }
    None
}

pub(super) fn malformed(detail: String) -> Failure {
    Failure::new(PullErrorClass::Malformed, detail)
}
