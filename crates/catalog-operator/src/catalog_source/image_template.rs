//! The image of annotation `olm.catalogImageTemplate`, with the cluster's version filled in. No I/O.
//!
//! Rules: `docs/reference/catalogs.md`.

use std::time::Duration;

use go_compat::semver::Version;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use olm_api::condition::{FALSE, TRUE, catalog_source as reasons};
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use olm_oci::Reference;
use olm_runtime::condition::{condition_of, remove_condition, set_condition};
use olm_runtime::plan::Requeue;

/// Time for which the cluster's version is used, because no watch reports an upgrade.
const VERSION_LASTS: Duration = Duration::from_secs(300);
/// Interval of retries while the version is unknown.
const VERSION_PAUSE: Duration = Duration::from_secs(60);
/// Maximum length of the annotation in a condition, which the API server limits; no image is longer.
const MAX_SHOWN: usize = 1024;
/// Replacement for an unknown number in a template.
const MISSING: &str = "missing";

/// Result of the annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageTemplate {
    /// The catalog has no template.
    Absent,
    /// A valid image.
    Resolved(String),
    /// No valid image: `spec.image` is used, if set.
    Unresolved {
        /// The annotation with the known values.
        text: String,
        /// Reason why that is no image.
        message: String,
        /// True when the reason is the unknown version of the cluster.
        version_unknown: bool,
    },
}

/// Resolves the annotation. `git_version` is the cluster's version, such as `v1.34.4`; `None` while it is
/// unknown.
pub fn resolve_template(source: &CatalogSource, git_version: Option<&str>) -> ImageTemplate {
    let Some(template) = template(source) else {
        return ImageTemplate::Absent;
    };
    let version = git_version.and_then(|text| Version::parse_tolerant(text).ok());
    let number = |read: fn(&Version) -> u64| version.as_ref().map(read);
    let numbers = [
        ("{kube_major_version}", number(|version| version.major)),
        ("{kube_minor_version}", number(|version| version.minor)),
        ("{kube_patch_version}", number(|version| version.patch)),
    ];
    let mut text = template.to_owned();
    let mut unknown = Vec::new();
    for (variable, number) in numbers {
        if !text.contains(variable) {
            continue;
        }
        let value = number.map_or_else(|| MISSING.to_owned(), |number| number.to_string());
        text = text.replace(variable, &value);
        if number.is_none() {
            unknown.push(format!("\"{variable}\""));
        }
    }
    let is_image = text.parse::<Reference>().is_ok();
    let of_variables = format!("variable(s) {} could not be resolved", unknown.join(", "));
    let of_syntax = "one or more template(s) has improper syntax";
    let why = match (unknown.is_empty(), is_image) {
        (true, true) => return ImageTemplate::Resolved(text),
        (true, false) => of_syntax.to_owned(),
        (false, true) => of_variables,
        (false, false) => format!("{of_variables} and {of_syntax}"),
    };
    ImageTemplate::Unresolved {
        text,
        message: format!("cannot construct catalog image reference, because {why}"),
        version_unknown: !unknown.is_empty(),
    }
}

/// True when the catalog depends on the cluster's version.
pub(crate) fn needs_version(source: &CatalogSource) -> bool {
    template(source).is_some()
}

fn template(source: &CatalogSource) -> Option<&str> {
    let annotations = source.metadata.annotations.as_ref()?;
    let template = annotations.get(labels::CATALOG_IMAGE_TEMPLATE)?;
    (!template.is_empty()).then_some(template)
}

impl ImageTemplate {
    /// Returns the image of the catalog; the template takes precedence over the spec.
    pub(crate) fn image<'a>(&'a self, source: &'a CatalogSource) -> Option<&'a str> {
        match self {
            Self::Resolved(image) => Some(image),
            Self::Absent | Self::Unresolved { .. } => source.spec.image.as_deref(),
        }
    }

    /// Returns the new image for `spec.image`, if it differs.
    pub(crate) fn image_to_write(&self, source: &CatalogSource) -> Option<&str> {
        match self {
            Self::Resolved(image) if source.spec.image.as_ref() != Some(image) => Some(image),
            _ => None,
        }
    }

    /// Returns the time of the next version check.
    pub(crate) fn requeue(&self) -> Requeue {
        let delay = match self {
            Self::Absent => return Requeue::AwaitChange,
            Self::Unresolved {
                version_unknown: true,
                ..
            } => VERSION_PAUSE,
            Self::Resolved(_) | Self::Unresolved { .. } => VERSION_LASTS,
        };
        Requeue::after(delay, "version of the cluster in an image template")
    }

    /// Updates the conditions of the status.
    pub(crate) fn report(&self, conditions: &mut Vec<Condition>, now: Timestamp) {
        let types = [reasons::TEMPLATES_HAVE_RESOLVED, reasons::RESOLVED_IMAGE];
        let (status, reason, messages) = match self {
            Self::Absent => {
                types.iter().for_each(|type_| remove_condition(conditions, type_));
                return;
            }
            Self::Resolved(image) => {
                let message = "catalog image reference was successfully resolved";
                (TRUE, reasons::ALL_TEMPLATES_RESOLVED, [message, image.as_str()])
            }
            Self::Unresolved { text, message, .. } => (
                FALSE,
                reasons::UNABLE_TO_RESOLVE,
                [message.as_str(), text.as_str()],
            ),
        };
        for (type_, message) in types.into_iter().zip(messages) {
            let shown: String = message.chars().take(MAX_SHOWN).collect();
            let texts = [type_, status, reason, &shown];
            set_condition(conditions, condition_of(&ObjectMeta::default(), texts, now));
        }
    }
}
