//! Why an image could not be had, in classes a caller can act on.

use std::fmt;

/// What kind of failure it was, and with that what can be done about it.
///
/// The order is the order of weight: when several hosts were asked and failed differently, the heaviest class is
/// reported. An answer weighs more than silence, and "may not" or "broken" more than "not here".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PullErrorClass {
    /// The name of the host is not known here. Trying again later can help; a kubelet may know it, or a mirror.
    UnknownHost,
    /// Nobody answered, or the server failed (5xx, too many requests). Trying again later can help.
    Unreachable,
    /// Somebody answered with a certificate that nobody vouches for here, or TLS could not be agreed on. A kubelet may know who signed it.
    Untrusted,
    /// The registry does not have it. A kubelet that knows another mirror may still find it.
    NotFound,
    /// Credentials are missing, wrong or not sufficient. A kubelet may have others.
    Unauthorized,
    /// Larger than the limits allow, or a decompression bomb. Trying again does not help.
    TooLarge,
    /// What came is no image of the kind that was wanted, or is damaged in itself. Trying again does not help.
    Malformed,
    /// The registry delivered other bytes than the digest promises. Never used, never cached.
    DigestMismatch,
    /// There is no room on this machine to hold a layer while it is verified. No registry is at fault.
    Storage,
}

impl PullErrorClass {
    /// The name of the class in PascalCase, for reasons of conditions and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownHost => "UnknownHost",
            Self::Unreachable => "Unreachable",
            Self::Untrusted => "Untrusted",
            Self::NotFound => "NotFound",
            Self::Unauthorized => "Unauthorized",
            Self::TooLarge => "TooLarge",
            Self::Malformed => "Malformed",
            Self::DigestMismatch => "DigestMismatch",
            Self::Storage => "Storage",
        }
    }
}

impl fmt::Display for PullErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One host that was asked in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Host as configured, with scheme: `https://quay.io`.
    pub host: String,
    /// What kind of failure.
    pub class: PullErrorClass,
    /// What happened, without image or host.
    pub detail: String,
}

/// A pull or push that failed; names the image and every host that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullError {
    image: String,
    attempts: Vec<Attempt>,
    verb: &'static str,
}

impl PullError {
    /// A failure of pulling `image`. At least one attempt is expected.
    pub(crate) fn new(image: impl fmt::Display, attempts: Vec<Attempt>) -> Self {
        Self {
            image: image.to_string(),
            attempts,
            verb: "pull",
        }
    }

    /// A failure that has nothing to do with a particular host, for example of the content itself.
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

    /// The same failure, told as one of pushing.
    pub(crate) fn pushing(self) -> Self {
        Self { verb: "push", ..self }
    }

    /// The image as it was asked for.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// Every host that was tried, in order.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// The heaviest class of all attempts.
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
        for attempt in &self.attempts {
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

/// Why an image cannot be written or an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A path inside the image is empty, has `..` or is given twice in one layer.
    #[error("path `{0}` cannot be put into an image layer")]
    Path(String),
    /// The archive is no OCI layout with one image.
    #[error("{}: {detail}", path.display())]
    Archive {
        /// The archive.
        path: std::path::PathBuf,
        /// What is missing or wrong.
        detail: String,
    },
    /// The parts of an image do not fit together.
    #[error("cannot put the image together: {0}")]
    Encode(String),
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
