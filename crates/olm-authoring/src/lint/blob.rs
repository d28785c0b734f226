//! Rules about single documents.

use go_compat::semver::Range;
use olm_api::crd;
use olm_fbc::manifest::CSV_KIND;
use olm_fbc::property::{Typed, kinds};
use olm_fbc::schema::{Bundle, Other, Package};
use olm_fbc::schema_name;

use super::negation::negations;
use super::{Linter, Rule};
use crate::bundle::object;
use crate::icon;
use crate::manifest_validator::ManifestValidator;

/// Default maximum message size of clients in bytes, minus room for the parts of a bundle besides its manifests.
const MESSAGE_BYTES: usize = (4 << 20) - (64 << 10);

impl Linter<'_> {
    pub(super) fn package(&mut self, package: &Package) {
        let Some(shown) = &package.icon else { return };
        let problem = match olm_fbc::base64::decode(&shown.base64data) {
            Err(error) => Some(format!("base64data is not base64: {error}")),
            Ok(_) if shown.mediatype.is_empty() => Some("mediatype is not set".to_owned()),
            Ok(_) if !shown.mediatype.starts_with("image/") => {
                Some(format!("mediatype {:?} is not that of an image", shown.mediatype))
            }
            Ok(bytes) => match icon::media_type(&bytes) {
                None => Some("base64data is not an image".to_owned()),
                Some(found) if found != shown.mediatype => Some(format!(
                    "mediatype is {:?}, but the data is {found}",
                    shown.mediatype
                )),
                Some(_) => None,
            },
        };
        if let Some(problem) = problem {
            self.find(
                Rule::Icon,
                &package.name,
                String::new(),
                format!("the icon cannot be shown: {problem}"),
            );
        }
    }

    pub(super) fn bundle(&mut self, bundle: &Bundle) {
        let object = format!("bundle {:?}", bundle.name);
        let validator = self.validator;
        let mut tell = |rule, message: String| self.find(rule, &bundle.package, object.clone(), message);
        let (mut has_csv, mut has_objects, mut bytes) = (false, false, 0);
        for (index, property) in bundle.properties.iter().enumerate() {
            if property.kind.is_empty() || property.value.is_null() {
                let missing = if property.kind.is_empty() { "type" } else { "value" };
                tell(
                    Rule::EmptyProperty,
                    format!("property[{index}] has no {missing}: no constraint can match it"),
                );
            }
            match property.parse() {
                Ok(Typed::PackageRequired(required)) => {
                    if let Err(error) = Range::parse(&required.version_range) {
                        tell(
                            Rule::RequiredRange,
                            format!(
                                "it needs package {:?} in range {:?}, which cannot be parsed: {error}; it can never be installed",
                                required.package_name, required.version_range
                            ),
                        );
                    }
                }
                Ok(Typed::Constraint(value)) => {
                    if let Some(problem) = constraint_problem(&value, validator) {
                        tell(Rule::Constraint, format!("property[{index}]: {problem}"));
                    }
                    for negation in negations(&value) {
                        tell(Rule::Negation, format!("property[{index}]: {negation}"));
                    }
                }
                Ok(Typed::CsvMetadata(_)) => has_csv = true,
                Ok(Typed::BundleObject(data)) => {
                    has_objects = true;
                    bytes += data.len() / 4 * 3;
                }
                _ => {}
            }
        }
        if has_objects {
            for manifest in object::objects(bundle) {
                let is_csv = manifest["kind"] == CSV_KIND;
                has_csv |= is_csv;
                let problem = is_csv.then(|| validator.csv_problem(&manifest)).flatten();
                if let Some(problem) = problem {
                    tell(Rule::UnreadableCsv, object::unreadable_csv(&problem));
                }
                let version = manifest["apiVersion"].as_str().unwrap_or_default();
                if manifest["kind"] == crd::KIND && version != crd::API_VERSION {
                    tell(
                        Rule::OldCrd,
                        format!(
                            "CustomResourceDefinition {} has apiVersion {version}, which Kubernetes 1.22 and later do not serve; use {}",
                            manifest["metadata"]["name"],
                            crd::API_VERSION
                        ),
                    );
                }
            }
        }
        if !has_csv {
            tell(
                Rule::NoCsv,
                format!(
                    "neither {:?} with its ClusterServiceVersion nor {:?}: consoles show no name, icon or description",
                    kinds::BUNDLE_OBJECT,
                    kinds::CSV_METADATA
                ),
            );
        }
        if bytes > MESSAGE_BYTES {
            tell(
                Rule::LargeBundle,
                format!(
                    "its manifests have {bytes} bytes, and clients accept messages of at most 4 MiB; migrate to {}",
                    kinds::CSV_METADATA
                ),
            );
        }
        for (index, related) in bundle.related_images.iter().enumerate() {
            if related.image.is_empty() {
                tell(
                    Rule::EmptyRelatedImage,
                    format!(
                        "relatedImages[{index}] {:?} has no image: it will be missing in mirrors",
                        related.name
                    ),
                );
            }
        }
        // Without manifests, too, it is a fault that validation reports.
        if bundle.image.is_empty() && has_objects {
            tell(
                Rule::NoImage,
                "it has no image, so OLM installs the manifests in the catalog, which OLM v1 does not support and \
                 migrations cannot shrink; opm render and opm generate catalog set images from a template"
                    .to_owned(),
            );
        }
        if bundle.related_images.is_empty() && !bundle.image.is_empty() {
            tell(
                Rule::NoRelatedImages,
                "it lists no relatedImages: mirrors for disconnected clusters will lack its images; name them in spec.relatedImages of the CSV"
                    .to_owned(),
            );
        }
    }

    pub(super) fn other(&mut self, other: &Other) {
        if let Err(error) = schema_name::check(&other.schema, &other.package) {
            self.find(
                Rule::SchemaName,
                &other.package,
                format!("schema {:?}", other.schema),
                format!("{error}: it is not served, because no client can request it"),
            );
        }
    }
}

/// Returns why a value is not a constraint, judged by its shape.
fn constraint_problem(value: &serde_json::Value, validator: &dyn ManifestValidator) -> Option<String> {
    const FORMS: [&str; 6] = ["cel", "gvk", "package", "all", "any", "not"];
    let Some(map) = value.as_object() else {
        return Some("a constraint must be an object".to_owned());
    };
    let forms: Vec<&str> = FORMS.into_iter().filter(|form| map.contains_key(*form)).collect();
    match forms.as_slice() {
        [] => Some(format!("a constraint needs one of {}", FORMS.join(", "))),
        ["cel"] => {
            let rule = map["cel"]["rule"].as_str().unwrap_or_default();
            let problem = validator.rule_problem(rule)?;
            Some(format!("it can never be met: cel rule {rule:?}: {problem}"))
        }
        ["package"] => {
            let range = map["package"]["versionRange"].as_str().unwrap_or_default();
            let error = Range::parse(range).err()?;
            Some(format!("range {range:?} cannot be parsed: {error}"))
        }
        [form @ ("all" | "any" | "not")] => map[*form]["constraints"]
            .as_array()
            .map_or(Some(format!("{form} needs a list of constraints")), |list| {
                list.iter().find_map(|part| constraint_problem(part, validator))
            }),
        ["gvk"] => None,
        several => Some(format!(
            "a constraint must have one form, found {}",
            several.join(", ")
        )),
    }
}
