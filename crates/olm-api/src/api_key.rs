//! Keys of the APIs that operators provide and require.
//!
//! Text form is `Kind.version.group`; sets are printed sorted, joined by commas. The plural name plays no part.

use std::collections::BTreeSet;
use std::fmt;

use crate::hash::fnv1a64;
use crate::v1alpha1::{ApiServiceDescription, ClusterServiceVersionSpec, CrdDescription};

/// An API that operators provide or require.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKey {
    /// Kind of the API.
    pub kind: String,
    /// Version of the API.
    pub version: String,
    /// Group of the API.
    pub group: String,
}

/// Set of APIs.
pub type ApiSet = BTreeSet<ApiKey>;

/// Error for a description in a ClusterServiceVersion that does not name an API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApiKeyError(String);

impl ApiKey {
    /// Creates a key from group, version and kind.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            version: version.to_owned(),
            group: group.to_owned(),
        }
    }

    /// Returns true if the text form names this API and no other. This holds for every API a cluster can serve: kind and version
    /// are one word each, and the group is words joined by dots. A ClusterServiceVersion may contain anything in these fields.
    pub fn is_well_formed(&self) -> bool {
        is_word(&self.kind) && is_word(&self.version) && self.group.split('.').all(is_word)
    }

    /// Hash in label keys: FNV-1a of the text form, in lower-case hex without padding.
    pub fn hash(&self) -> String {
        format!("{:x}", fnv1a64(self.to_string().as_bytes()))
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.kind, self.version, self.group)
    }
}

impl TryFrom<&CrdDescription> for ApiKey {
    type Error = ApiKeyError;

    fn try_from(description: &CrdDescription) -> Result<Self, ApiKeyError> {
        let name = &description.name;
        let (_, group) = name.split_once('.').ok_or_else(|| {
            ApiKeyError(format!(
                "custom resource definition name `{name}` is not of the form plural.group"
            ))
        })?;
        Ok(Self::new(group, &description.version, &description.kind))
    }
}

impl From<&ApiServiceDescription> for ApiKey {
    fn from(description: &ApiServiceDescription) -> Self {
        Self::new(&description.group, &description.version, &description.kind)
    }
}

/// Returns true for one segment of an API's name, the text between two dots: letters, digits, dashes.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns the APIs the operator provides. Descriptions that do not form a valid API are skipped: no cluster can serve them, and
/// a printed list that contains them would parse as different APIs.
///
/// # Errors
/// The first custom resource whose name has no group.
pub fn provided_apis(spec: &ClusterServiceVersionSpec) -> Result<ApiSet, ApiKeyError> {
    let services = spec.owned_api_services().iter();
    let services = services.map(|service| Ok(ApiKey::from(service)));
    let all = spec.owned_crds().iter().map(ApiKey::try_from).chain(services);

    all.filter(|key| !key.as_ref().is_ok_and(|key| !key.is_well_formed()))
        .collect()
}

/// Prints a set: text forms, sorted, joined by commas.
pub fn print_api_set(apis: &ApiSet) -> String {
    let mut texts: Vec<String> = apis.iter().map(ToString::to_string).collect();
    // Sorted by text, not by key: `.` does not sort before every character a version can have.
    texts.sort();
    texts.join(",")
}

/// Parses a set written by [`print_api_set`]. Spaces are ignored. Items that are not keys are dropped, because users can edit the
/// annotation.
pub fn parse_api_set(text: &str) -> ApiSet {
    items(text).filter_map(|item| parse(&item)).collect()
}

/// Returns true if a list contains an item that is not an API. [`parse_api_set`] drops such items.
pub fn has_malformed(text: &str) -> bool {
    items(text).any(|item| parse(&item).is_none())
}

fn parse(item: &str) -> Option<ApiKey> {
    let (kind, rest) = item.split_once('.')?;
    let (version, group) = rest.split_once('.')?;
    Some(ApiKey::new(group, version, kind)).filter(ApiKey::is_well_formed)
}

fn items(text: &str) -> impl Iterator<Item = String> {
    let items = text.split(',').map(|item| item.replace(' ', ""));
    items.filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1alpha1::{ApiServiceDefinitions, CustomResourceDefinitions};
    use proptest::prelude::*;

    #[test]
    fn text_form_and_hash() {
        let key = ApiKey::new("ghouls", "v1alpha1", "Ghost");
        assert_eq!(key.to_string(), "Ghost.v1alpha1.ghouls");
        assert_eq!(key.hash(), "6435ab0d7c6bda64");
        assert_eq!(
            ApiKey::new("example.com", "v1", "Demo").hash(),
            "ddb619aba476937e"
        );
    }

    #[test]
    fn sets_are_parsed_leniently_and_printed_sorted() {
        let set = parse_api_set("B.v1.x.y, A.v1.z ,,broken,also.broken, A.v1.z");
        assert_eq!(print_api_set(&set), "A.v1.z,B.v1.x.y");
        assert_eq!(print_api_set(&ApiSet::new()), "");
        assert_eq!(parse_api_set(""), ApiSet::new());
    }

    #[test]
    fn what_is_no_api_is_in_no_list() {
        let odd = ApiKey::new("cluster.com", "apiextensions.k8s.io/v1alpha1", "Insgflfz");
        assert!(!odd.is_well_formed());
        let text = odd.to_string();
        assert_eq!(parse_api_set(&text), ApiSet::new());
        assert!(has_malformed(&format!("A.v1.z,{text}")) && has_malformed("A.v1.z,Goose.v1alpha1"));
        assert!(!has_malformed("A.v1.z, B.v1.x.y,") && !has_malformed(""));
        for (kind, version, group) in [
            ("", "v1", "g"),
            ("K", "", "g"),
            ("K", "v1", ""),
            ("K.x", "v1", "g"),
            ("K", "v1", "g..h"),
            ("K,L", "v1", "g"),
        ] {
            assert!(
                !ApiKey::new(group, version, kind).is_well_formed(),
                "{kind} {version} {group}"
            );
        }
        let crd = |version: &str| CrdDescription {
            name: "demos.example.com".into(),
            version: version.into(),
            kind: "Demo".into(),
            ..CrdDescription::default()
        };
        let spec = ClusterServiceVersionSpec {
            custom_resource_definitions: Some(CustomResourceDefinitions {
                owned: vec![crd("example.com/v1"), crd("v1")].into(),
                ..CustomResourceDefinitions::default()
            }),
            ..ClusterServiceVersionSpec::default()
        };
        assert_eq!(
            print_api_set(&provided_apis(&spec).unwrap()),
            "Demo.v1.example.com"
        );
    }

    #[test]
    fn apis_of_a_csv() {
        let crd = |name: &str| CrdDescription {
            name: name.into(),
            version: "v1".into(),
            kind: "Demo".into(),
            ..CrdDescription::default()
        };
        let spec = ClusterServiceVersionSpec {
            custom_resource_definitions: Some(CustomResourceDefinitions {
                owned: vec![crd("demos.example.com")].into(),
                ..CustomResourceDefinitions::default()
            }),
            api_service_definitions: Some(ApiServiceDefinitions {
                owned: vec![ApiServiceDescription {
                    name: "flies".into(),
                    group: "api.example.com".into(),
                    version: "v2".into(),
                    kind: "Fly".into(),
                    ..ApiServiceDescription::default()
                }]
                .into(),
                ..ApiServiceDefinitions::default()
            }),
            ..ClusterServiceVersionSpec::default()
        };
        assert_eq!(
            print_api_set(&provided_apis(&spec).unwrap()),
            "Demo.v1.example.com,Fly.v2.api.example.com"
        );
        let nameless = ClusterServiceVersionSpec {
            custom_resource_definitions: Some(CustomResourceDefinitions {
                owned: vec![crd("demos")].into(),
                ..CustomResourceDefinitions::default()
            }),
            ..ClusterServiceVersionSpec::default()
        };
        assert_eq!(
            provided_apis(&nameless).unwrap_err().to_string(),
            "custom resource definition name `demos` is not of the form plural.group"
        );
    }

    proptest! {
        #[test]
        fn printing_and_parsing_agree(parts in prop::collection::vec(("[A-Z][a-z]{0,3}", "v[0-9a-z-]{1,3}", "[a-z]{1,3}([.][a-z]{1,3}){0,2}"), 0..6)) {
            let set: ApiSet = parts.iter().map(|(kind, version, group)| ApiKey::new(group, version, kind)).collect();
            prop_assert_eq!(parse_api_set(&print_api_set(&set)), set);
        }
    }
}
