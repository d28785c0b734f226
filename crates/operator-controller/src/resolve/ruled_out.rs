//! Why a bundle is not chosen.

use std::fmt;

/// Why a bundle is not chosen. The text is the end of a sentence whose subject is the bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuledOut {
    /// No wanted channel has it.
    OtherChannel,
    /// Its version is outside of the requested range.
    OutsideRange {
        /// The wanted range.
        range: String,
    },
    /// Its version cannot be read; the value is the cause.
    NoVersion(String),
    /// It is older than the installed bundle, and the catalog does not name it as a successor.
    Downgrade,
    /// No entry of a wanted channel names it as a successor of the installed bundle.
    NotASuccessor,
    /// Upgrades follow semantic versions, and by those it is not compatible with the installed bundle.
    Incompatible,
    /// It does not support the cluster's version of OpenShift.
    OpenShift {
        /// The last minor version that it supports.
        last: String,
        /// Minor version of the cluster.
        cluster: String,
    },
    /// It is deprecated, and another candidate is not.
    Deprecated {
        /// Name of that bundle.
        instead: String,
    },
    /// The same catalog has a newer candidate.
    NotNewest {
        /// Name of the newest.
        newest: String,
    },
    /// A catalog of higher priority has a candidate.
    LowerPriority {
        /// Name of that catalog.
        catalog: String,
    },
    /// Another catalog of the same priority has a candidate too, so none is chosen.
    Ambiguous,
    /// It depends on other bundles; the value is the type of the property.
    Dependency(String),
}

impl fmt::Display for RuledOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherChannel => f.write_str("is in none of the requested channels"),
            Self::OutsideRange { range } => write!(f, "is outside of the requested range {range}"),
            Self::NoVersion(reason) => write!(f, "has no readable version: {reason}"),
            Self::Downgrade => f.write_str("is older than the installed version"),
            Self::NotASuccessor => f.write_str("is not a successor of the installed version"),
            Self::Incompatible => {
                f.write_str("is not compatible with the installed version by semantic versioning")
            }
            Self::OpenShift { last, cluster } => {
                write!(
                    f,
                    "supports OpenShift up to {last}, and the cluster runs {cluster}"
                )
            }
            Self::Deprecated { instead } => write!(f, "is deprecated, and {instead} is not"),
            Self::NotNewest { newest } => write!(f, "is not the newest candidate, which is {newest}"),
            Self::LowerPriority { catalog } => {
                write!(f, "is in a catalog of lower priority than {catalog}")
            }
            Self::Ambiguous => f.write_str("is offered by several catalogs of the same priority"),
            Self::Dependency(property) => {
                write!(
                    f,
                    "depends on other bundles through property {property}, which is not supported"
                )
            }
        }
    }
}
