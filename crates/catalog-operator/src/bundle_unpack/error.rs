//! Reasons why a bundle is unavailable, with the way out.

use std::fmt;

use olm_oci::PullErrorClass;

/// Class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnpackClass {
    /// No response, or an error of the registry.
    Unreachable,
    /// The registry's host name cannot be resolved here.
    UnknownHost,
    /// The registry's certificate is not trusted here.
    Untrusted,
    /// The registry has no such image.
    NotFound,
    /// Credentials are missing, wrong or insufficient.
    Unauthorized,
    /// The registry returned content that does not match the digest.
    DigestMismatch,
    /// This pod has no storage for a layer during its verification.
    Storage,
    /// The unpacked bundle cannot be stored on disk.
    NoRoom,
    /// The bundle exceeds the size limit.
    TooLarge,
    /// No image, or an unreadable one.
    Malformed,
    /// The image has no manifests folder, or an empty one.
    NoManifests,
    /// A file of the bundle is invalid.
    InvalidManifest,
    /// The bundle cannot work on any current cluster.
    Unsupported,
    /// The unpack Job is running.
    JobIncomplete,
    /// The Job has not started, or none of its pods runs.
    JobHeldUp,
    /// The Job exceeded its deadline.
    DeadlineExceeded,
    /// The Job's pods failed too often.
    BackoffLimitExceeded,
    /// The Job failed otherwise, or its result cannot be trusted.
    JobFailed,
}

impl UnpackClass {
    /// Returns the reason for conditions and events: the name of the variant. Those of Jobs are upstream's or Kubernetes'.
    pub fn reason(self) -> String {
        match self {
            Self::JobHeldUp => Self::JobIncomplete.reason(),
            other => format!("{other:?}"),
        }
    }

    /// True when the failure may be temporary: the unpack retries until its deadline.
    pub fn is_passing(self) -> bool {
        matches!(self, Self::Unreachable | Self::UnknownHost | Self::Untrusted)
    }

    /// True when a node may succeed at once, with other credentials, mirrors, names, authorities or storage.
    /// For an unresponsive registry there is a delay first, see [`super::retry::is_for_nodes`].
    pub fn is_for_nodes(self) -> bool {
        matches!(
            self,
            Self::Unauthorized
                | Self::NotFound
                | Self::UnknownHost
                | Self::Untrusted
                | Self::DigestMismatch
                | Self::Storage
        )
    }

    /// True when the content itself is invalid, so that only another image helps.
    pub fn is_content(self) -> bool {
        matches!(
            self,
            Self::TooLarge | Self::Malformed | Self::NoManifests | Self::InvalidManifest | Self::Unsupported
        )
    }

    /// Returns the way out, for readers of the condition.
    pub fn way_out(self) -> &'static str {
        match self {
            Self::Unreachable | Self::UnknownHost => {
                "OLM retries until the registry answers; check the registry, the network and mirrors"
            }
            Self::Untrusted => {
                "configure the CA of the registry's certificate: --registry-ca of catalog-operator, or ca in the registry's hosts.toml (catalog.registryCA of the chart)"
            }
            Self::NotFound => {
                "check the image name in the catalog, push the image, or configure a mirror that has it"
            }
            Self::Unauthorized => {
                "add a pull secret for the registry to spec.secrets of the CatalogSource or to imagePullSecrets of its ServiceAccount"
            }
            Self::DigestMismatch => {
                "the registry or mirror serves wrong content; push the image again or use another mirror"
            }
            Self::Storage => {
                "give the pod of catalog-operator a writable volume with free space, and set a folder in it with --unpack-spool or --unpack-cache"
            }
            Self::NoRoom => {
                "give the pod of catalog-operator a writable volume with free space, and set a folder in it with --unpack-cache"
            }
            Self::TooLarge => "build the bundle image with manifests only",
            Self::Malformed => "build and push the bundle image again",
            Self::NoManifests => {
                "put the manifests under /manifests, or under the folder named in metadata/annotations.yaml, and build the bundle image again"
            }
            Self::InvalidManifest => "correct the file and build the bundle image again",
            Self::Unsupported => "a newer version of the operator is needed",
            Self::JobIncomplete => {
                "a node keeps trying to pull it until the Job's deadline; check the credentials and mirrors of the nodes, or add a pull secret to spec.secrets of the CatalogSource"
            }
            Self::JobHeldUp => {
                "OLM continues once this is resolved; see `kubectl describe jobs,pods` in the CatalogSource's namespace"
            }
            Self::DeadlineExceeded | Self::BackoffLimitExceeded | Self::JobFailed => {
                "OLM retries; see `kubectl describe jobs,pods` in the CatalogSource's namespace within some minutes"
            }
        }
    }
}

impl From<PullErrorClass> for UnpackClass {
    fn from(class: PullErrorClass) -> Self {
        match class {
            PullErrorClass::UnknownHost => Self::UnknownHost,
            PullErrorClass::Untrusted => Self::Untrusted,
            PullErrorClass::Unreachable => Self::Unreachable,
            PullErrorClass::NotFound => Self::NotFound,
            PullErrorClass::Unauthorized => Self::Unauthorized,
            PullErrorClass::TooLarge => Self::TooLarge,
            PullErrorClass::Malformed => Self::Malformed,
            PullErrorClass::DigestMismatch => Self::DigestMismatch,
            PullErrorClass::Storage => Self::Storage,
        }
    }
}

/// Error about an unavailable bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackError {
    /// Name of the bundle; empty if it is not known yet.
    pub bundle: String,
    /// Class of the failure.
    pub class: UnpackClass,
    /// Cause of the failure; names image, hosts and files.
    pub cause: String,
}

impl UnpackError {
    /// Creates an error without the bundle's name, see [`UnpackError::of_bundle`].
    pub fn new(class: UnpackClass, cause: impl fmt::Display) -> Self {
        Self {
            bundle: String::new(),
            class,
            cause: cause.to_string(),
        }
    }

    /// Returns the same error with the bundle's name.
    #[must_use]
    pub fn of_bundle(self, bundle: &str) -> Self {
        Self {
            bundle: bundle.to_owned(),
            ..self
        }
    }

    /// Returns the error to report after the last attempt. Temporary failures only end at the deadline, which
    /// upstream reports with the reason of its Jobs.
    #[must_use]
    pub fn after_deadline(self) -> Self {
        if !self.class.is_passing() {
            return self;
        }
        let cause = format!("DeadlineExceeded: {}", self.cause);
        Self { cause, ..self }
    }
}

impl fmt::Display for UnpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.bundle.is_empty() {
            write!(f, "bundle {}: ", self.bundle)?;
        }
        write!(f, "{}; {}", self.cause, self.class.way_out())
    }
}

impl std::error::Error for UnpackError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node has its own credentials, mirrors, names and authorities. Meanwhile an unresponsive registry is
    /// retried.
    #[test]
    fn what_a_node_may_have_and_this_process_has_not_is_left_to_a_job() {
        let of = |class: PullErrorClass| {
            let class = UnpackClass::from(class);
            (class.is_for_nodes(), class.is_passing())
        };
        assert_eq!(of(PullErrorClass::Untrusted), (true, true));
        assert_eq!(of(PullErrorClass::UnknownHost), (true, true));
        assert_eq!(of(PullErrorClass::Unauthorized), (true, false));
        assert_eq!(of(PullErrorClass::NotFound), (true, false));
        assert_eq!(of(PullErrorClass::Unreachable), (false, true));
        assert_eq!(of(PullErrorClass::DigestMismatch), (true, false));
        assert_eq!(of(PullErrorClass::Storage), (true, false));
        assert_eq!(of(PullErrorClass::TooLarge), (false, false));
    }

    #[test]
    fn what_the_deadline_ended_says_so() {
        let cause = |class| UnpackError::new(class, "no answer").after_deadline().cause;
        assert_eq!(cause(UnpackClass::Unreachable), "DeadlineExceeded: no answer");
        // More attempts would not have helped.
        assert_eq!(cause(UnpackClass::NotFound), "no answer");
    }

    #[test]
    fn error_names_bundle_cause_and_way_out() {
        let error = UnpackError::new(
            UnpackClass::Unauthorized,
            "cannot pull image `quay.io/a/b:v1`: https://quay.io: 401",
        )
        .of_bundle("a.v1");
        insta::assert_snapshot!(error, @"bundle a.v1: cannot pull image `quay.io/a/b:v1`: https://quay.io: 401; add a pull secret for the registry to spec.secrets of the CatalogSource or to imagePullSecrets of its ServiceAccount");
    }
}
