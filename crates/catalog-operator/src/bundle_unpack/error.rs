//! Why a bundle cannot be had, in words that help.

use std::fmt;

use olm_oci::PullErrorClass;

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnpackClass {
    /// Nobody answered, or the registry failed.
    Unreachable,
    /// The registry's host has no address here.
    UnknownHost,
    /// Nobody vouches for the registry's certificate here.
    Untrusted,
    /// The registry has no such image.
    NotFound,
    /// Credentials are missing, wrong or not sufficient.
    Unauthorized,
    /// The registry delivered other bytes than the digest promises.
    DigestMismatch,
    /// This pod has nowhere to hold a layer while it is verified.
    Storage,
    /// Other bundles have the memory there is.
    NoRoom,
    /// Larger than bundles may be.
    TooLarge,
    /// No image, or none that can be read.
    Malformed,
    /// The image has no manifests folder, or nothing in it.
    NoManifests,
    /// A file of the bundle cannot be understood.
    InvalidManifest,
    /// The bundle cannot work on any cluster of today.
    Unsupported,
    /// The Job that unpacks it goes on.
    JobIncomplete,
    /// The Job has not begun, or none of its pods runs.
    JobHeldUp,
    /// The Job took longer than it may.
    DeadlineExceeded,
    /// The Job's pods failed more often than they may.
    BackoffLimitExceeded,
    /// The Job failed otherwise, or what it left cannot be trusted.
    JobFailed,
}

impl UnpackClass {
    /// Reason as conditions and events show it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unreachable => "Unreachable",
            Self::UnknownHost => "UnknownHost",
            Self::Untrusted => "Untrusted",
            Self::NotFound => "NotFound",
            Self::Unauthorized => "Unauthorized",
            Self::DigestMismatch => "DigestMismatch",
            Self::Storage => "Storage",
            Self::NoRoom => "NoRoom",
            Self::TooLarge => "TooLarge",
            Self::Malformed => "Malformed",
            Self::NoManifests => "NoManifests",
            Self::InvalidManifest => "InvalidManifest",
            Self::Unsupported => "Unsupported",
            // Those of upstream, or of Kubernetes.
            Self::JobIncomplete | Self::JobHeldUp => "JobIncomplete",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::BackoffLimitExceeded => "BackoffLimitExceeded",
            Self::JobFailed => "JobFailed",
        }
    }

    /// Whether the failure may be over in a moment: the unpack goes on by itself until its deadline.
    pub fn is_passing(self) -> bool {
        matches!(self, Self::Unreachable | Self::UnknownHost | Self::Untrusted)
    }

    /// True if a node may have at once what this process lacks: other credentials, mirrors, names, authorities or room. A silent
    /// registry is given some time first, see [`super::retry::is_for_nodes`].
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

    /// Whether the content itself is at fault, so that nothing but another image helps.
    pub fn is_content(self) -> bool {
        matches!(
            self,
            Self::TooLarge | Self::Malformed | Self::NoManifests | Self::InvalidManifest | Self::Unsupported
        )
    }

    /// The way out, for whoever reads the condition.
    pub fn way_out(self) -> &'static str {
        match self {
            Self::Unreachable | Self::UnknownHost => {
                "it is tried again until the registry answers; check the registry, the network and mirrors"
            }
            Self::Untrusted => {
                "tell the catalog operator who signed the registry's certificate: --registry-ca, or ca in the registry's hosts.toml (catalog.registryCA of the chart)"
            }
            Self::NotFound => {
                "check the image name in the catalog, push the image, or configure a mirror that has it"
            }
            Self::Unauthorized => {
                "name a pull secret for the registry in spec.secrets of the CatalogSource or in imagePullSecrets of its ServiceAccount"
            }
            Self::DigestMismatch => {
                "the registry or mirror is damaged or dishonest: push the image again or use another mirror"
            }
            Self::Storage => {
                "no registry is at fault: give the catalog operator's pod a writable volume with room, and name a folder in it with --unpack-spool or --unpack-cache"
            }
            Self::NoRoom => {
                "it is tried again; fewer operators installed at a time, or smaller bundles, need less memory"
            }
            Self::TooLarge => "a bundle image holds manifests only: build it without anything else",
            Self::Malformed => "build and push the bundle image again",
            Self::NoManifests => {
                "put the manifests under /manifests, or under the folder named in metadata/annotations.yaml, and build the bundle image again"
            }
            Self::InvalidManifest => "correct the file and build the bundle image again",
            Self::Unsupported => "a newer version of the operator is needed",
            Self::JobIncomplete => {
                "a node pulls it until the Job's deadline; check the credentials and mirrors of the nodes, or name a pull secret in spec.secrets of the CatalogSource"
            }
            Self::JobHeldUp => {
                "it goes on by itself once that is over; `kubectl describe jobs,pods` in the CatalogSource's namespace shows more"
            }
            Self::DeadlineExceeded | Self::BackoffLimitExceeded | Self::JobFailed => {
                "it is tried again; `kubectl describe jobs,pods` in the CatalogSource's namespace shows the Job for some minutes"
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

/// A bundle that cannot be had: which, from where, why, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackError {
    /// Name of the bundle, empty when it is not known yet.
    pub bundle: String,
    /// What kind of failure.
    pub class: UnpackClass,
    /// What happened; names image, hosts and files.
    pub cause: String,
}

impl UnpackError {
    /// A failure of a bundle that is not named yet, see [`UnpackError::of_bundle`].
    pub fn new(class: UnpackClass, cause: impl fmt::Display) -> Self {
        Self {
            bundle: String::new(),
            class,
            cause: cause.to_string(),
        }
    }

    /// The same failure with the bundle's name.
    #[must_use]
    pub fn of_bundle(self, bundle: &str) -> Self {
        Self {
            bundle: bundle.to_owned(),
            ..self
        }
    }

    /// What is told when no more attempts follow: nothing but the deadline ends those that may still succeed, and upstream calls that
    /// by the word of its Jobs.
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

    /// A node has credentials, mirrors, names and authorities of its own. Who said nothing of the image is asked again meanwhile.
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
    fn error_tells_bundle_cause_and_way_out() {
        let error = UnpackError::new(
            UnpackClass::Unauthorized,
            "cannot pull image `quay.io/a/b:v1`: https://quay.io: 401",
        )
        .of_bundle("a.v1");
        insta::assert_snapshot!(error, @"bundle a.v1: cannot pull image `quay.io/a/b:v1`: https://quay.io: 401; name a pull secret for the registry in spec.secrets of the CatalogSource or in imagePullSecrets of its ServiceAccount");
    }
}
