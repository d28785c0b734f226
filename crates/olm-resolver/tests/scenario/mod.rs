//! The file format of scenarios: a small namespace with catalogs, in the terms of OLM.

use std::sync::Arc;

use go_compat::semver::{Range, Version};
use olm_fbc::entry::{BundleEntry, EntryProperty};
use olm_fbc::property::Gvk;
use olm_resolver::{
    Catalog, CatalogKey, InstalledCsv, OperatorGroup, Problem, RuntimeConstraint, Snapshot, Subscription,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One scenario file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    /// Subject of the scenario.
    #[allow(dead_code)]
    about: String,
    /// Catalogs the cluster has, by default in the namespace `ns` that is resolved.
    #[serde(default)]
    catalogs: Vec<CatalogFile>,
    /// ClusterServiceVersions in the namespace.
    #[serde(default)]
    installed: Vec<Installed>,
    /// Subscriptions in the namespace.
    #[serde(default)]
    subscriptions: Vec<Asked>,
    #[serde(default)]
    operator_group: Group,
    /// Properties every bundle of a catalog is tested with.
    #[serde(default)]
    runtime_constraints: Vec<RawProperty>,
    /// Expected result.
    pub expect: Expect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CatalogFile {
    name: String,
    #[serde(default = "namespace")]
    namespace: String,
    #[serde(default)]
    priority: i32,
    /// Reason why it cannot be read, if so.
    unavailable: Option<String>,
    #[serde(default)]
    entries: Vec<Entry>,
}

/// A bundle in a channel, by default that of package and version in its name, in the default channel `stable`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Entry {
    csv: String,
    package: Option<String>,
    version: Option<String>,
    channel: Option<String>,
    #[serde(default)]
    not_default_channel: bool,
    replaces: Option<String>,
    #[serde(default)]
    skips: Vec<String>,
    #[serde(default)]
    skip_range: String,
    /// APIs as `Kind.version.group`.
    #[serde(default)]
    provides: Vec<String>,
    #[serde(default)]
    requires: Vec<Requirement>,
    #[serde(default)]
    properties: Vec<RawProperty>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Requirement {
    api: Option<String>,
    package: Option<String>,
    #[serde(default)]
    range: String,
    label: Option<String>,
    constraint: Option<Value>,
    /// Depth of an `olm.constraint` of nested `not`.
    nested_not: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProperty {
    r#type: String,
    value: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Installed {
    csv: String,
    version: Option<String>,
    /// Package in its properties annotation as `olm.package`; without it there is no annotation.
    package: Option<String>,
    /// The properties annotation as written, overriding all other fields.
    annotation: Option<String>,
    #[serde(default)]
    replaces: String,
    #[serde(default)]
    phase: String,
    #[serde(default)]
    copied: bool,
    /// APIs as `Kind.version.group`.
    #[serde(default)]
    provides: Vec<String>,
    #[serde(default)]
    requires: Vec<Requirement>,
    #[serde(default)]
    properties: Vec<RawProperty>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Asked {
    name: String,
    package: String,
    #[serde(default)]
    channel: String,
    #[serde(default, rename = "startingCSV")]
    starting_csv: String,
    #[serde(default, rename = "installedCSV")]
    installed_csv: String,
    #[serde(default, rename = "currentCSV")]
    current_csv: String,
    #[serde(default)]
    hold: Option<String>,
    #[serde(default = "catalog")]
    source: String,
    #[serde(default = "namespace")]
    source_namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Group {
    count: Option<usize>,
    fail_forward: bool,
    exclude_global_namespace: bool,
}

/// The result in sentences; anything that is not mentioned must not happen.
#[derive(Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Expect {
    /// `<csv> from <catalog>/<namespace> channel <channel>`, then, if applicable: `replacing <csv>`, `for
    /// <subscriptions>`, `required by <csvs>`, `with subscription <generated name>`.
    pub install: Vec<String>,
    /// Subscriptions that change their current CSV.
    pub updates: Vec<String>,
    /// Messages of the parts that fail, each after the Subscriptions concerned.
    pub failures: Vec<String>,
    /// The user's report on the failures: the reasons as a tree, and the advice.
    pub explain: Vec<String>,
    /// Bundles and channels that were left out, with the reason.
    pub excluded: Vec<String>,
    /// Error if nothing can be resolved at all.
    pub error: Option<String>,
}

fn namespace() -> String {
    "ns".to_owned()
}

fn catalog() -> String {
    "cat".to_owned()
}

fn api(text: &str) -> Gvk {
    let mut parts = text.splitn(3, '.');
    let mut next = || {
        parts
            .next()
            .unwrap_or_else(|| panic!("{text} is not Kind.version.group"))
            .to_owned()
    };
    Gvk {
        kind: next(),
        version: next(),
        group: next(),
    }
}

fn api_value(text: &str) -> Value {
    let Gvk { group, version, kind } = api(text);
    json!({"group": group, "version": version, "kind": kind})
}

/// Returns the properties for a bundle's offers and needs.
fn properties(provides: &[String], requires: &[Requirement], raw: &[RawProperty]) -> Vec<EntryProperty> {
    let provided = provides
        .iter()
        .map(|api| ("olm.gvk".to_owned(), api_value(api).to_string()));
    let required = requires.iter().map(|r| match r {
        Requirement { api: Some(api), .. } => ("olm.gvk.required".to_owned(), api_value(api).to_string()),
        Requirement {
            package: Some(package),
            range,
            ..
        } => (
            "olm.package.required".to_owned(),
            json!({"packageName": package, "versionRange": range}).to_string(),
        ),
        Requirement {
            label: Some(label), ..
        } => (
            "olm.label.required".to_owned(),
            json!({"label": label}).to_string(),
        ),
        Requirement {
            constraint: Some(value),
            ..
        } => ("olm.constraint".to_owned(), value.to_string()),
        Requirement {
            nested_not: Some(depth),
            ..
        } => {
            let open = r#"{"not":{"constraints":["#.repeat(*depth);
            let value = format!(r#"{open}{{"any":{{}}}}{}"#, "]}}".repeat(*depth));
            ("olm.constraint".to_owned(), value)
        }
        _ => panic!("a requirement names an api, package, label or constraint"),
    });
    let raw = raw.iter().map(|p| (p.r#type.clone(), p.value.to_string()));
    let all = provided.chain(required).chain(raw);
    all.map(|(kind, value)| EntryProperty::new(kind, value)).collect()
}

/// Splits `name.v1.2.3` into `name` and `1.2.3`.
fn split_name(csv: &str) -> (&str, &str) {
    csv.split_once(".v").unwrap_or((csv, ""))
}

fn package_property(package: &str, version: &str) -> EntryProperty {
    EntryProperty::new(
        "olm.package",
        json!({"packageName": package, "version": version}).to_string(),
    )
}

impl Entry {
    fn build(&self) -> BundleEntry {
        let (package, version) = split_name(&self.csv);
        let package = self.package.as_deref().unwrap_or(package);
        let version = self.version.as_deref().unwrap_or(version);
        let mut properties = properties(&self.provides, &self.requires, &self.properties);
        properties.push(package_property(package, version));
        BundleEntry {
            name: self.csv.as_str().into(),
            package: package.into(),
            channel: self.channel.as_deref().unwrap_or("stable").into(),
            default_channel: !self.not_default_channel,
            version: Version::parse_tolerant(version).ok(),
            replaces: self.replaces.as_deref().map(Into::into),
            skips: self.skips.iter().map(|s| s.as_str().into()).collect(),
            skip_range: Range::parse(&self.skip_range).ok().map(Arc::new),
            properties: properties.into(),
            bundle_path: Some(format!("registry.example.com/{}", self.csv).into()),
            ..BundleEntry::default()
        }
    }
}

impl Installed {
    fn build(&self) -> InstalledCsv {
        let version = self
            .version
            .clone()
            .unwrap_or_else(|| split_name(&self.csv).1.to_owned());
        let annotation = self.package.as_ref().map(|package| {
            let mut properties = properties(&self.provides, &self.requires, &self.properties);
            properties.push(package_property(package, &version));
            let published: Vec<String> = properties
                .iter()
                .map(|p| format!(r#"{{"type":"{}","value":{}}}"#, p.kind, p.value))
                .collect();
            format!(r#"{{"properties":[{}]}}"#, published.join(","))
        });
        InstalledCsv {
            name: self.csv.clone(),
            replaces: self.replaces.clone(),
            phase: self.phase.clone(),
            copied: self.copied,
            properties: self.annotation.clone().or(annotation).map(Into::into),
            owned: self.provides.iter().map(|a| api(a)).collect(),
            required: self
                .requires
                .iter()
                .filter_map(|r| r.api.as_deref())
                .map(api)
                .collect(),
            version,
        }
    }
}

impl Scenario {
    /// Returns the problem; `reversed` reverses every list.
    pub fn problem(&self, reversed: bool) -> Problem {
        fn list<T, U>(items: &[T], reversed: bool, build: impl Fn(&T) -> U) -> Vec<U> {
            let mut built: Vec<U> = items.iter().map(build).collect();
            if reversed {
                built.reverse();
            }
            built
        }
        Problem {
            namespace: namespace(),
            global_namespace: "olm".to_owned(),
            subscriptions: list(&self.subscriptions, reversed, |s| Subscription {
                name: s.name.clone(),
                package: s.package.clone(),
                channel: s.channel.clone(),
                starting_csv: s.starting_csv.clone(),
                catalog: CatalogKey {
                    name: s.source.clone(),
                    namespace: s.source_namespace.clone(),
                },
                current_csv: s.current_csv.clone(),
                installed_csv: s.installed_csv.clone(),
                hold: s.hold.clone(),
                must_move: false,
            }),
            installed: list(&self.installed, reversed, Installed::build),
            catalogs: list(&self.catalogs, reversed, |c| Catalog {
                key: CatalogKey {
                    name: c.name.clone(),
                    namespace: c.namespace.clone(),
                },
                priority: c.priority,
                content: match &c.unavailable {
                    Some(cause) => Err(cause.clone()),
                    None => Ok(Arc::new(Snapshot::new(list(&c.entries, reversed, Entry::build)))),
                },
            }),
            operator_group: OperatorGroup {
                count: self.operator_group.count.unwrap_or(1),
                names: Vec::new(),
                fail_forward: self.operator_group.fail_forward,
                exclude_global_namespace: self.operator_group.exclude_global_namespace,
            },
            runtime_constraints: list(&self.runtime_constraints, reversed, |p| {
                let property = EntryProperty::new(p.r#type.as_str(), p.value.to_string());
                RuntimeConstraint::parse(&property).unwrap().unwrap()
            }),
        }
    }
}

/// Returns the result of resolving, in the sentences of [`Expect`].
pub fn outcome(problem: &Problem) -> Expect {
    let resolution = match olm_resolver::resolve(problem) {
        Ok(resolution) => resolution,
        Err(error) => {
            return Expect {
                error: Some(error.to_string()),
                ..Expect::default()
            };
        }
    };
    let install = resolution.solution.operators.iter().map(|operator| {
        let mut text = format!(
            "{} from {}/{} channel {}",
            operator.entry.name, operator.catalog.name, operator.catalog.namespace, operator.entry.channel
        );
        let mut say = |words: &str, names: &str| {
            if !names.is_empty() {
                text.push_str(&format!(" {words} {names}"));
            }
        };
        say("replacing", &operator.replaces);
        say("for", &operator.subscriptions.join(" "));
        say("required by", &operator.required_by.join(" "));
        say(
            "with subscription",
            operator.generated_subscription.as_ref().map_or("", |g| &g.name),
        );
        text
    });
    let updates = resolution
        .solution
        .updates
        .iter()
        .map(|u| format!("{} to {}", u.subscription, u.current_csv));
    let failures = resolution
        .failures
        .iter()
        .map(|f| format!("{}: {}", f.subscriptions.join(" "), f.message()));
    let advisor = olm_resolver::Advisor::new(problem, &resolution.failures);
    let hints = olm_resolver::Hints::new(problem);
    let explain = resolution.failures.iter().flat_map(|failure| {
        let advice = advisor.advise(failure).lines(&problem.namespace);
        let reasons = failure.tree(&hints).into_iter().flat_map(|tree| tree.lines());
        reasons.chain(advice).collect::<Vec<_>>()
    });
    Expect {
        install: install.collect(),
        updates: updates.collect(),
        failures: failures.collect(),
        explain: explain.collect(),
        excluded: resolution.excluded,
        error: None,
    }
}
