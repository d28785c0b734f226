//! Failures of pulls and writes, in classes a caller can act on.

use std::fmt;

/// Class of a failure, which decides what can be done about it.
///
/// The order is the order of weight: when several hosts failed differently, the heaviest class is reported.
/// An answer weighs more than silence, and "forbidden" or "broken" more than "not found".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PullErrorClass {
    /// The host's name cannot be resolved here. A retry can help; a kubelet may resolve it, or use a mirror.
    UnknownHost,
    /// No answer, or the server failed (5xx, too many requests). A retry can help.
    Unreachable,
    /// The certificate is not trusted here, or TLS could not be agreed on. A kubelet may know the authority.
    Untrusted,
    /// The registry does not have the image. A kubelet that knows another mirror may still find it.
    NotFound,
    /// Credentials are missing, wrong or not sufficient. A kubelet may have others.
    Unauthorized,
    /// Larger than the limits allow, or a decompression bomb. A retry does not help.
    TooLarge,
    /// The content is not an image of the wanted kind, or is damaged in itself. A retry does not help.
    Malformed,
    /// The registry delivered other bytes than the digest promises. They are neither used nor cached.
    DigestMismatch,
    /// This machine has no room for a layer while it is verified. No registry is at fault.
    Storage,
}

/// One host that was tried and failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Host as configured, with scheme: `https://quay.io`.
    pub host: String,
    /// Class of the failure.
    pub class: PullErrorClass,
    /// Description of the failure, without image or host.
    pub detail: String,
}

/// A pull or push that failed. Names the image and every host that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullError {
    image: String,
    attempts: Vec<Attempt>,
    verb: &'static str,
}

impl PullError {
    /// Returns a failure of pulling `image`. At least one attempt is expected.
    pub(crate) fn new(image: impl fmt::Display, attempts: Vec<Attempt>) -> Self {
        Self {
            image: image.to_string(),
            attempts,
            verb: "pull",
        }
    }

    /// Returns a failure that has nothing to do with a particular host, for example of the content itself.
    pub(crate) fn of_content(
        image: impl fmt::Display,
        class: PullErrorClass,
        detail: impl fmt::Display,
    ) -> Self {
        Self::new(
            image,
            vec![Attempt {
                host: String::new(),
                class,
                detail: detail.to_string(),
            }],
        )
    }

    /// Returns the same failure, reported as one of a push.
    pub(crate) fn pushing(self) -> Self {
        Self { verb: "push", ..self }
    }

    /// Returns every host that was tried, in order.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Returns the heaviest class of all attempts.
    pub fn class(&self) -> PullErrorClass {
        self.attempts
            .iter()
            .map(|attempt| attempt.class)
            .max()
            .unwrap_or(PullErrorClass::Unreachable)
    }
}

impl fmt::Display for PullError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} image `{}`: ", self.verb, self.image)?;
        let mut separator = "";
        for (index, attempt) in self.attempts.iter().enumerate() {
            // A registry that is configured as its own mirror is asked twice.
            if self.attempts[..index].contains(attempt) {
                continue;
            }
            f.write_str(separator)?;
            if !attempt.host.is_empty() {
                write!(f, "{}: ", attempt.host)?;
            }
            f.write_str(&attempt.detail)?;
            separator = "; ";
        }
        Ok(())
    }
}

impl std::error::Error for PullError {}

/// An image cannot be written, or an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A path inside the image is empty, has `..` or is given twice in one layer.
    #[error("invalid path `{0}` for an image layer")]
    Path(String),
    /// The archive is not an OCI layout with one image.
    #[error("{}: {detail}", path.display())]
    Archive {
        /// The archive.
        path: std::path::PathBuf,
        /// The missing or wrong part.
        detail: String,
    },
    /// The parts of an image do not fit together.
    #[error("cannot assemble the image: {0}")]
    Encode(String),
}

impl WriteError {
    /// Returns the error of a file that cannot be read or written.
    pub(crate) fn io(path: &std::path::Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(host: &str, class: PullErrorClass, detail: &str) -> Attempt {
        Attempt {
            host: host.into(),
            class,
            detail: detail.into(),
        }
    }

    #[test]
    fn heaviest_class_is_reported_and_every_host_is_named() {
        let error = PullError::new(
            "quay.io/a/b:v1",
            vec![
                attempt("http://mirror:5000", PullErrorClass::NotFound, "not found"),
                // Asked twice, named once.
                attempt("http://mirror:5000", PullErrorClass::NotFound, "not found"),
                attempt(
                    "https://quay.io",
                    PullErrorClass::Unreachable,
                    "connection refused",
                ),
            ],
        );
        assert_eq!(error.class(), PullErrorClass::NotFound);
        assert_eq!(
            error.to_string(),
            "cannot pull image `quay.io/a/b:v1`: http://mirror:5000: not found; https://quay.io: connection refused"
        );
    }

    #[test]
    fn damaged_content_outweighs_silence() {
        let error = PullError::new(
            "i",
            vec![
                attempt("a", PullErrorClass::DigestMismatch, "x"),
                attempt("b", PullErrorClass::Unreachable, "y"),
            ],
        );
        assert_eq!(error.class(), PullErrorClass::DigestMismatch);
    }
}
