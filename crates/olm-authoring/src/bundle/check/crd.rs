//! Checks of CustomResourceDefinitions, as an API server makes them.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::crd::{API_VERSION as V1, OLD_API_VERSION as V1BETA1};
use olm_api::embedded::drop_nulls;
use olm_api::names::dns1123_subdomain_faults;
use serde::Deserialize;
use serde_json::Value;

use super::{metadata, text};

/// Kubernetes' own groups, which need an approval.
const PROTECTED: [&str; 2] = ["k8s.io", "kubernetes.io"];
const APPROVAL: &str = "api-approved.kubernetes.io";
const COLUMN_TYPES: &str = "boolean,date,integer,number,string";

/// A version of a CRD, as CSVs refer to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Defined {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    group: String,
    scope: String,
    version: String,
    names: Names,
    versions: Vec<Version>,
    preserve_unknown_fields: Option<bool>,
    conversion: Option<Conversion>,
    additional_printer_columns: Vec<BTreeMap<String, Value>>,
    subresources: Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Names {
    plural: String,
    singular: String,
    kind: String,
    list_kind: String,
    short_names: Vec<String>,
    categories: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Version {
    name: String,
    #[allow(dead_code, reason = "decoded for its type alone")]
    served: Option<bool>,
    storage: bool,
    deprecated: bool,
    deprecation_warning: Option<String>,
    schema: Value,
    additional_printer_columns: Vec<BTreeMap<String, Value>>,
    subresources: Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Conversion {
    strategy: String,
    webhook: Option<Value>,
    webhook_client_config: Option<Value>,
    conversion_review_versions: Vec<String>,
}

/// Problems of one CRD, each prefixed with its field as in upstream's validator.
struct Found<'a>(&'a mut Vec<String>);

impl Found<'_> {
    fn add(&mut self, field: &str, value: &str, problem: &str) {
        self.0
            .push(format!("Error: Field {field}, Value {value}: {field}: {problem}"));
    }

    fn required(&mut self, field: &str) {
        self.add(field, "", "Required value");
    }

    fn invalid(&mut self, field: &str, value: &str, problem: &str) {
        self.add(field, value, &format!("Invalid value: {value:?}: {problem}"));
    }

    fn all_invalid(&mut self, field: &str, value: &str, problems: Vec<&str>) {
        for problem in problems {
            self.invalid(field, value, problem);
        }
    }
}

/// Checks a CRD.
pub(super) fn check(crd: &Value, problems: &mut Vec<String>) {
    let api_version = text(crd, "apiVersion");
    if api_version != V1 && api_version != V1BETA1 {
        problems.push(format!("Unsupported api version of CRD: {api_version}"));
        return;
    }
    let name = text(&crd["metadata"], "name");
    let mut spec = crd["spec"].clone();
    // Null counts as absent.
    drop_nulls(&mut spec);
    let spec: Spec = match serde_json::from_value(spec) {
        Ok(spec) => spec,
        Err(_) if crd["spec"].is_null() => Spec::default(),
        Err(error) => {
            problems.push(format!("CustomResourceDefinition {name:?}: spec: {error}"));
            return;
        }
    };
    for problem in metadata::problems(&crd["metadata"]) {
        let field = problem.split(':').next().unwrap_or_default();
        problems.push(format!("Error: Field {field}, Value : {problem}"));
    }
    let mut found = Found(problems);
    let expected = format!("{}.{}", spec.names.plural, spec.group);
    if name != expected {
        found.invalid(
            "metadata.name",
            name,
            "must be spec.names.plural+\".\"+spec.group",
        );
    }
    check_group(&spec.group, &crd["metadata"]["annotations"], &mut found);
    match spec.scope.as_str() {
        "" => found.required("spec.scope"),
        "Cluster" | "Namespaced" => {}
        other => found.add(
            "spec.scope",
            other,
            &format!("Unsupported value: {other:?}: supported values: \"Cluster\", \"Namespaced\""),
        ),
    }
    check_versions(&spec, api_version, &mut found);
    // The older API keeps unknown fields by default.
    if spec.preserve_unknown_fields.unwrap_or(api_version == V1BETA1) {
        found.add(
            "spec.preserveUnknownFields",
            "true",
            "Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
    check_names(&spec.names, &mut found);
    check_conversion(spec.conversion.as_ref(), api_version, &mut found);
}

fn check_group(group: &str, annotations: &Value, found: &mut Found<'_>) {
    if group.is_empty() {
        found.required("spec.group");
        return;
    }
    let wrong = dns1123_subdomain_faults(group);
    if wrong.is_empty() && !group.contains('.') {
        found.invalid("spec.group", group, "should be a domain with at least one dot");
    }
    found.all_invalid("spec.group", group, wrong);
    let is_protected = PROTECTED.into_iter().any(|end| {
        group
            .strip_suffix(end)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    if is_protected {
        let approval = text(annotations, APPROVAL);
        let field = format!("metadata.annotations[{APPROVAL}]");
        if approval.is_empty() {
            found.add(
                &field,
                "",
                &format!("Required value: protected groups must have approval annotation {APPROVAL:?}"),
            );
        } else if !approval.starts_with("unapproved") && !approval.contains("://") {
            found.invalid(
                &field,
                approval,
                "protected groups must have approval annotation with either a URL or a reason starting with \"unapproved\"",
            );
        }
    }
}

fn check_versions(spec: &Spec, api_version: &str, found: &mut Found<'_>) {
    let single = Version {
        name: spec.version.clone(),
        storage: true,
        ..Version::default()
    };
    let versions = match spec.versions.as_slice() {
        // The older API allows a single version beside or instead of the list.
        [] if !spec.version.is_empty() => std::slice::from_ref(&single),
        versions => versions,
    };
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let name = version.name.as_str();
        found.all_invalid(&format!("spec.versions[{index}].name"), name, label_1035(name));
        if !seen.insert(name) {
            found.invalid("spec.versions", name, "must contain unique version names");
        }
        if let Some(warning) = &version.deprecation_warning
            && !version.deprecated
        {
            found.invalid(
                &format!("spec.versions[{index}].deprecationWarning"),
                warning,
                "can only be set for deprecated versions",
            );
        }
        if api_version == V1 && !version.schema["openAPIV3Schema"].is_object() {
            found.required(&format!("spec.versions[{index}].schema.openAPIV3Schema"));
        }
        // A problem of a single version is reported for the whole CRD.
        let path = match versions.len() {
            1 => "spec".to_owned(),
            _ => format!("spec.versions[{index}]"),
        };
        check_columns(&version.additional_printer_columns, &path, found);
        check_scale(&version.subresources, &path, found);
    }
    check_columns(&spec.additional_printer_columns, "spec", found);
    check_scale(&spec.subresources, "spec", found);
    let stored = versions.iter().filter(|version| version.storage).count();
    if stored != 1 {
        found.invalid(
            "spec.versions",
            &format!("{stored} stored"),
            "must have exactly one version marked as storage version",
        );
    }
    if let Some(first) = versions.first()
        && !spec.version.is_empty()
        && spec.version != first.name
    {
        found.invalid(
            "spec.version",
            &spec.version,
            "must match the first version in spec.versions",
        );
    }
}

fn check_columns(columns: &[BTreeMap<String, Value>], path: &str, found: &mut Found<'_>) {
    for (index, column) in columns.iter().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{index}]");
        let field = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default();
        if field("name").is_empty() {
            found.required(&format!("{path}.name"));
        }
        match field("type") {
            "" => found.required(&format!("{path}.type")),
            kind if COLUMN_TYPES.split(',').any(|known| known == kind) => {}
            kind => found.invalid(
                &format!("{path}.type"),
                kind,
                &format!("must be one of {COLUMN_TYPES}"),
            ),
        }
        // The older API used capitals.
        if field("jsonPath").is_empty() && field("JSONPath").is_empty() {
            found.required(&format!("{path}.JSONPath"));
        }
    }
}

fn check_scale(subresources: &Value, path: &str, found: &mut Found<'_>) {
    let scale = &subresources["scale"];
    if !scale.is_object() {
        return;
    }
    for (key, start) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let field = format!("{path}.subresources.scale.{key}");
        match text(scale, key) {
            "" => found.required(&field),
            value if !value.starts_with('.') => {
                found.invalid(&field, value, "must be a simple json path starting with .");
            }
            value if !value.starts_with(start) => {
                found.invalid(&field, value, &format!("should be a json path under {start}"));
            }
            _ => {}
        }
    }
}

fn check_names(names: &Names, found: &mut Found<'_>) {
    let (plural, kind) = (names.plural.as_str(), names.kind.as_str());
    if plural.is_empty() {
        found.required("spec.names.plural");
    } else {
        found.all_invalid("spec.names.plural", plural, label_1035(plural));
    }
    let (singular, list) = (names.singular.as_str(), names.list_kind.as_str());
    if !singular.is_empty() {
        found.all_invalid("spec.names.singular", singular, label_1035(singular));
    }
    let mixed = |field: &str, value: &str, found: &mut Found<'_>| {
        for problem in label_1035(&value.to_lowercase()) {
            let problem = format!("may have mixed case, but should otherwise match: {problem}");
            found.invalid(field, value, &problem);
        }
    };
    if kind.is_empty() {
        found.required("spec.names.kind");
    } else {
        mixed("spec.names.kind", kind, found);
    }
    if !list.is_empty() {
        mixed("spec.names.listKind", list, found);
        if list == kind {
            found.invalid(
                "spec.names.listKind",
                list,
                "kind and listKind may not be the same",
            );
        }
    }
    for (field, list) in [
        ("shortNames", &names.short_names),
        ("categories", &names.categories),
    ] {
        for (index, name) in list.iter().enumerate() {
            found.all_invalid(&format!("spec.names.{field}[{index}]"), name, label_1035(name));
        }
    }
}

/// Checks the conversion. The older API has a default for the review version.
fn check_conversion(conversion: Option<&Conversion>, api_version: &str, found: &mut Found<'_>) {
    let Some(conversion) = conversion else { return };
    match conversion.strategy.as_str() {
        "" => found.required("spec.conversion.strategy"),
        "None" => {}
        "Webhook" => {
            let webhook = conversion.webhook.as_ref();
            let client = webhook
                .map(|webhook| &webhook["clientConfig"])
                .or(conversion.webhook_client_config.as_ref());
            if client.is_none_or(Value::is_null) {
                found.add(
                    "spec.conversion.webhookClientConfig",
                    "",
                    "Required value: required when strategy is set to Webhook",
                );
            }
            let versions = webhook
                .and_then(|webhook| webhook["conversionReviewVersions"].as_array().map(Vec::len))
                .unwrap_or(conversion.conversion_review_versions.len());
            if versions == 0 && api_version == V1 {
                found.required("spec.conversion.conversionReviewVersions");
            }
        }
        other => found.add(
            "spec.conversion.strategy",
            other,
            &format!("Unsupported value: {other:?}: supported values: \"None\", \"Webhook\""),
        ),
    }
}

/// Returns why a text is not a DNS label that begins with a letter, in the words of Kubernetes; empty if it is one.
fn label_1035(text: &str) -> Vec<&'static str> {
    const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let is_end = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    let is_label = text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.ends_with(is_end)
        && text.chars().all(|char| is_end(char) || char == '-');
    let faults = [
        (text.len() > 63, "must be no more than 63 bytes"),
        (!is_label, LABEL),
    ];
    let found = faults.into_iter().filter(|(is_fault, _)| *is_fault);
    found.map(|(_, fault)| fault).collect()
}

/// Returns the definitions of a CRD, one per version.
pub(super) fn defined(crd: &Value) -> BTreeSet<Defined> {
    let spec = &crd["spec"];
    let listed = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|version| text(version, "name"));
    let versions: Vec<&str> = match (text(crd, "apiVersion"), text(spec, "version")) {
        (V1BETA1, single) if !single.is_empty() => vec![single],
        (V1 | V1BETA1, _) => listed.collect(),
        _ => Vec::new(),
    };
    let (name, kind) = (text(&crd["metadata"], "name"), text(&spec["names"], "kind"));
    versions
        .into_iter()
        .map(|version| Defined {
            name: name.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        })
        .collect()
}
