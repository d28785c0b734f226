//! Describes the changes of a plan. Users who write plans or publish bundles choose the names, so a name is quoted if it could be
//! read as more than a name. Pure.

use kube::ResourceExt as _;
use olm_api::labels::PLAN_PREVIEW;
use olm_api::plan_preview::{
    DefinitionChange, ImageChange, ObjectChange, PermissionChange, PlanPreview, Rule, Verb,
};
use olm_api::v1alpha1::InstallPlan;

use crate::terminal::plain;

/// Suffix for changes whose objects were not compared with existing ones.
const NOT_COMPARED: &str = " (not compared with the cluster)";
/// Maximum number of changes in a short description.
const MAX_CHANGES: usize = 12;

/// Prefix in previews for all roles with certain labels.
const SELECTED: &str = "ClusterRoles with ";
/// Text in previews for a selector without conditions.
const ALL_SELECTED: &str = "any labels";

/// Returns a name, quoted if it could be mistaken for several words of the surrounding text. Many letters look like blanks.
pub(crate) fn name(name: &str) -> String {
    let is_word = |letter: char| letter.is_ascii_graphic() && letter != '"' && letter != ',';
    match !name.is_empty() && name.chars().all(is_word) {
        true => name.to_owned(),
        false => format!("{name:?}"),
    }
}

/// Returns the preview of an InstallPlan; `None` if it has none, or one that cannot be read.
pub(crate) fn of_plan(plan: &InstallPlan) -> Option<PlanPreview> {
    PlanPreview::from_annotation(plan.annotations().get(PLAN_PREVIEW)?)
}

/// Returns names separated by commas.
pub(crate) fn names<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.into_iter().map(|one| name(one)).collect();
    names.join(", ")
}

/// Returns the ClusterServiceVersion that another one replaces, by the preview of its plan. `None` if there is none.
pub(crate) fn replaced<'a>(preview: Option<&'a PlanPreview>, csv: &str) -> Option<&'a str> {
    let mut changes = preview?.operators.iter();
    let change = changes.find(|change| change.name == csv && !change.replaces.is_empty())?;
    Some(&change.replaces)
}

/// Returns what a plan does in a few words, such as `shop 1.0.0 → 1.1.0`; `None` if it installs nothing.
pub(crate) fn title(operators: &[String], preview: Option<&PlanPreview>) -> Option<String> {
    let first = operators.first()?;
    let text = match (replaced(preview, first), package_and_version(first)) {
        (Some(replaced), Some((package, version))) => match package_and_version(replaced) {
            Some((same, former)) if same == package => {
                format!("{} {} → {}", name(package), name(former), name(version))
            }
            _ => format!("{} → {}", name(replaced), name(first)),
        },
        (Some(replaced), None) => format!("{} → {}", name(replaced), name(first)),
        (None, Some((package, version))) => format!("{} {}", name(package), name(version)),
        (None, None) => name(first),
    };
    Some(match operators.len() - 1 {
        0 => text,
        more => format!("{text} and {more} more"),
    })
}

/// Splits the usual names of ClusterServiceVersions, `shop.v1.0.0` and `shop.1.0.0`.
fn package_and_version(csv: &str) -> Option<(&str, &str)> {
    csv.match_indices('.').find_map(|(at, dot)| {
        let (package, version) = (csv.get(..at)?, csv.get(at + dot.len()..)?);
        let version = version.strip_prefix('v').unwrap_or(version);
        let is_version = !package.is_empty() && version.starts_with(|first: char| first.is_ascii_digit());
        is_version.then_some((package, version))
    })
}

/// Quotes a kind with a name, the form of subjects and roles in previews.
pub(crate) fn kind_and_name(text: &str) -> String {
    if let Some(labels) = text.strip_prefix(SELECTED) {
        return match labels {
            ALL_SELECTED => text.to_owned(),
            _ => format!("{SELECTED}{}", name(labels)),
        };
    }
    match text.split_once(' ') {
        Some((kind, rest)) => format!("{} {}", name(kind), name(rest)),
        None => name(text),
    }
}

/// Quotes a version with a field, the form of removed fields in previews.
fn version_and_field(text: &str) -> String {
    match text.split_once(": ") {
        Some((version, field)) => format!("{}: {}", name(version), name(field)),
        None => name(text),
    }
}

fn object_text(object: &ObjectChange) -> String {
    let (kind, own) = (name(&object.kind), name(&object.name));
    let mut text = match object.namespace.as_str() {
        "" => format!("{kind} {own}"),
        namespace => format!("{kind} {}/{own}", name(namespace)),
    };
    if !object.fields.is_empty() {
        text = format!("{text}: {}", names(&object.fields));
    }
    if object.keys_removed > 0 {
        text = format!("{text}; {} other keys are removed", object.keys_removed);
    }
    if object.not_compared {
        text += NOT_COMPARED;
    }
    if object.foreign {
        text += " (existed before OLM)";
    }
    text
}

pub(crate) fn definition_text(definition: &DefinitionChange) -> String {
    let fields = |fields: &[String]| {
        let fields: Vec<String> = fields.iter().map(|field| version_and_field(field)).collect();
        fields.join(", ")
    };
    let parts = [
        ("serves", names(&definition.versions_added)),
        ("no longer serves", names(&definition.versions_removed)),
        ("gains", fields(&definition.fields_added)),
        ("loses", fields(&definition.fields_removed)),
        ("now requires", fields(&definition.fields_required)),
        ("changes", names(&definition.fields)),
    ];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let texts: Vec<String> = parts.map(|(word, names)| format!("{word} {names}")).collect();
    let mut text = format!("{}: {}", name(&definition.name), texts.join("; "));
    if definition.not_compared {
        text += NOT_COMPARED;
    }
    if !definition.refused.is_empty() {
        text = format!("{text}; OLM will not change it: {}", plain(&definition.refused));
    }
    text
}

/// Returns one line for each version and field that CustomResourceDefinitions of the cluster lose.
pub(crate) fn losses(preview: &PlanPreview) -> impl Iterator<Item = String> {
    preview.definitions.iter().flat_map(|definition| {
        let versions = definition.versions_removed.iter();
        let versions = versions.map(|version| format!("version {}", name(version)));
        let fields = definition
            .fields_removed
            .iter()
            .map(|field| version_and_field(field));
        let lost = versions.chain(fields);
        lost.map(move |lost| {
            format!(
                "loses    {lost} of CustomResourceDefinition {}",
                name(&definition.name)
            )
        })
    })
}

/// Describes an image that changes, without a sign.
pub(crate) fn image_text(image: &ImageChange) -> String {
    let [kind, own, container] = [&image.kind, &image.name, &image.container].map(|text| name(text));
    let place = format!("({kind} {own}, container {container})");
    let [from, to] = [&image.from, &image.to].map(|image| name(image));
    match (image.from.is_empty(), image.to.is_empty()) {
        (true, _) => format!("{to} {place}"),
        (false, true) => format!("{from} {place}, removed"),
        (false, false) => format!("{from} to {to} {place}"),
    }
}

/// Describes an image that changes, with a sign.
pub(crate) fn image_line(image: &ImageChange) -> String {
    let sign = match (image.from.is_empty(), image.to.is_empty()) {
        (true, _) => '+',
        (false, true) => '-',
        (false, false) => '~',
    };
    format!("{sign} image {}", image_text(image))
}

fn rule_text(rule: &Rule) -> String {
    if !rule.role.is_empty() {
        return format!("everything that {} allows", kind_and_name(&rule.role));
    }
    let verbs = names(&rule.verbs);
    if !rule.url.is_empty() {
        return format!("{verbs} {}", name(&rule.url));
    }
    let resource = match rule.group.as_str() {
        "" => name(&rule.resource),
        group => name(&format!("{}.{group}", rule.resource)),
    };
    match rule.resource_name.as_str() {
        "" => format!("{verbs} {resource}"),
        one => format!("{verbs} {resource} {}", name(one)),
    }
}

/// Describes the changes of a plan in a few lines, like a diff.
pub(crate) fn diff(preview: &PlanPreview) -> Vec<String> {
    let mut lines = changes(preview);
    let more = lines.len().saturating_sub(MAX_CHANGES);
    lines.truncate(MAX_CHANGES);
    if more > 0 {
        lines.push(format!("… and {more} more changes"));
    }
    lines
}

/// Describes each change of a plan in a line: removals first, then definitions, images, new permissions and objects.
pub(crate) fn changes(preview: &PlanPreview) -> Vec<String> {
    let of_rules = |sign: char, is_gained: bool| {
        let texts = rules(preview, is_gained);
        texts.map(move |text| format!("{sign} {text}"))
    };
    let definitions = preview.definitions.iter();
    let definitions =
        definitions.map(|found| format!("~ CustomResourceDefinition {}", definition_text(found)));
    let of_objects = |sign: char, verb: Verb| {
        let texts = objects(preview, verb);
        texts.map(move |text| format!("{sign} {text}"))
    };
    let all = of_rules('-', false)
        .chain(of_objects('-', Verb::Delete))
        .chain(definitions)
        .chain(preview.images.iter().map(image_line))
        .chain(of_rules('+', true))
        .chain(of_objects('~', Verb::Change))
        .chain(of_objects('+', Verb::Create));
    all.collect()
}

/// Returns one line for each object that a plan creates, changes or deletes.
pub(crate) fn objects(preview: &PlanPreview, verb: Verb) -> impl Iterator<Item = String> {
    let objects = preview.objects.iter().filter(move |object| object.verb == verb);
    objects.map(object_text)
}

/// Returns one line for each rule that accounts gain, or lose.
pub(crate) fn rules(preview: &PlanPreview, is_gained: bool) -> impl Iterator<Item = String> {
    preview.permissions.iter().flat_map(move |change| {
        let rules = if is_gained { &change.gained } else { &change.lost };
        rule_texts(change, rules)
    })
}

/// Returns one line for each rule that an account gains or loses.
pub(crate) fn rule_texts<'a>(
    change: &'a PermissionChange,
    rules: &'a [Rule],
) -> impl Iterator<Item = String> + 'a {
    let subject = kind_and_name(&change.subject);
    let place = match change.namespace.as_str() {
        "" => "in the whole cluster".to_owned(),
        namespace => format!("in namespace {}", name(namespace)),
    };
    rules
        .iter()
        .map(move |rule| format!("{subject} {place}: {}", rule_text(rule)))
}

#[cfg(test)]
mod tests {
    use olm_api::plan_preview::OperatorChange;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_lost_is_reported_first_and_not_without_end() {
        let rule = |resource: &str| json!({"resource": resource, "verbs": ["get"]});
        let objects: Vec<_> = (0..100)
            .map(|number| json!({"verb": "create", "kind": "Role", "name": format!("r{number}"), "namespace": "shop"}))
            .collect();
        let preview: PlanPreview = serde_json::from_value(json!({
            "version": 1, "objects": objects,
            "definitions": [{"name": "etcds.example.com", "fieldsAdded": ["v1: spec.new"], "fieldsRemoved": ["v1: spec.size"], "fieldsRequired": ["v1: spec.key"],
                "refused": "a\ndoes not fit"}],
            "images": [{"kind": "Deployment", "name": "etcd", "container": "manager", "from": "x:1", "to": "x:2"},
                {"kind": "Deployment", "name": "new", "container": "m", "to": "y:1"}],
            "permissions": [{"subject": "ServiceAccount etcd", "namespace": "shop", "gained": [rule("pods")], "lost": [rule("jobs, + x")]}]
        }))
        .unwrap();
        let lines = diff(&preview);
        insta::assert_snapshot!(lines[..6].join("\n"), @r#"
        - ServiceAccount etcd in namespace shop: get "jobs, + x"
        ~ CustomResourceDefinition etcds.example.com: gains v1: spec.new; loses v1: spec.size; now requires v1: spec.key; OLM will not change it: a does not fit
        ~ image x:1 to x:2 (Deployment etcd, container manager)
        + image y:1 (Deployment new, container m)
        + ServiceAccount etcd in namespace shop: get pods
        + Role shop/r0
        "#);
        assert_eq!(lines.len(), MAX_CHANGES + 1);
        assert_eq!(lines[MAX_CHANGES], "… and 93 more changes");
    }

    #[test]
    fn each_version_and_field_that_definitions_lose_has_a_line() {
        let preview: PlanPreview = serde_json::from_value(json!({"version": 1, "definitions": [
            {"name": "etcds.example.com", "fieldsAdded": ["v1: spec.new"], "fieldsRemoved": ["v1: spec.size", "v1: a b"],
                "versionsRemoved": ["v2"]},
            {"name": "others.example.com", "fieldsRequired": ["v1: spec.key"]}]}))
        .unwrap();
        let lines: Vec<String> = losses(&preview).collect();
        assert_eq!(
            lines,
            [
                "loses    version v2 of CustomResourceDefinition etcds.example.com",
                "loses    v1: spec.size of CustomResourceDefinition etcds.example.com",
                "loses    v1: \"a b\" of CustomResourceDefinition etcds.example.com",
            ]
        );
    }

    #[test]
    fn a_name_is_not_read_as_more_than_a_name() {
        assert_eq!(name("system:serviceaccount:a:b"), "system:serviceaccount:a:b");
        assert_eq!(name(""), "\"\"");
        for blank in ["\u{3164}", "\u{115f}", "\u{2800}", "\u{a0}"] {
            let told = name(&format!("get{blank}pods"));
            assert!(told.starts_with('"') && told.ends_with('"'), "{told}");
        }
        assert_eq!(name("get, list"), "\"get, list\"");
        assert_eq!(names(&["get".to_owned(), "a,b".to_owned()]), "get, \"a,b\"");
        for (text, expected) in [
            ("ServiceAccount demo", "ServiceAccount demo"),
            ("ServiceAccount other/demo", "ServiceAccount other/demo"),
            (
                "User demo in namespace shop: get pods",
                "User \"demo in namespace shop: get pods\"",
            ),
            ("ClusterRoles with any labels", "ClusterRoles with any labels"),
            ("ClusterRoles with a=b", "ClusterRoles with a=b"),
            (
                "ClusterRoles with a=b, c Exists",
                "ClusterRoles with \"a=b, c Exists\"",
            ),
            ("User", "User"),
        ] {
            assert_eq!(kind_and_name(text), expected);
        }
        assert_eq!(version_and_field("v1: spec.size"), "v1: spec.size");
        assert_eq!(
            version_and_field("v1: spec.a; serves v2"),
            "v1: \"spec.a; serves v2\""
        );
    }

    #[test]
    fn a_plan_has_a_title() {
        type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], Option<&'a str>);

        let preview = |operators: &[(&str, &str)]| {
            let operators = operators.iter().map(|(name, replaces)| OperatorChange {
                name: (*name).to_owned(),
                replaces: (*replaces).to_owned(),
            });
            PlanPreview {
                operators: operators.collect(),
                ..PlanPreview::default()
            }
        };
        let cases: [Case<'_>; 9] = [
            (
                &["shop.v1.1.0"],
                &[("shop.v1.1.0", "shop.v1.0.0")],
                Some("shop 1.0.0 → 1.1.0"),
            ),
            (&["shop.v1.1.0"], &[("shop.v1.1.0", "")], Some("shop 1.1.0")),
            (&["shop.v1.1.0"], &[], Some("shop 1.1.0")),
            (&["my.shop.0.9.4-beta.1"], &[], Some("my.shop 0.9.4-beta.1")),
            (
                &["shop.v1.1.0", "db.v2.0.0"],
                &[("db.v2.0.0", "db.v1.0.0"), ("shop.v1.1.0", "store.v1.0.0")],
                Some("store.v1.0.0 → shop.v1.1.0 and 1 more"),
            ),
            (&["shop"], &[("shop", "store.v1")], Some("store.v1 → shop")),
            (&["shop"], &[], Some("shop")),
            (&["a b.v1"], &[], Some("\"a b\" 1")),
            (&[], &[], None),
        ];
        for (names, operators, expected) in cases {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let found = title(&names, Some(&preview(operators)));
            assert_eq!(found.as_deref(), expected, "{names:?}");
        }
    }
}
