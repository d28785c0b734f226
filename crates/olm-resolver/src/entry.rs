//! One bundle in the form that resolution needs: its properties are parsed once.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::Arc;

use go_compat::semver::Version;
use olm_fbc::entry::{BundleEntry, EntryProperty};
use olm_fbc::property::{Gvk, Typed, kinds};

use crate::cel::Budget;
use crate::predicate::Predicate;
use crate::requirement::{self, MAX_REQUIREMENTS, MalformedProperty, is_requirement};

/// An `olm.package` property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFact {
    /// Package name.
    pub name: Arc<str>,
    /// The stated version, if it is valid by the strict rules.
    pub version: Option<Version>,
}

/// A bundle in one channel, or an installed ClusterServiceVersion (whose channel is empty), with its parsed
/// properties. Dereferences to the [`BundleEntry`] it was built from.
#[derive(Clone, Debug)]
pub struct Entry {
    bundle: BundleEntry,
    facts: Arc<Facts>,
}

/// Parsed content of a list of properties. Most versions of a package differ only in their version, so the
/// rest is shared.
#[derive(Debug)]
struct Facts {
    packages: Box<[PackageFact]>,
    rest: Rest,
}

/// Properties, kept so that their address is not reused, and their parsed content.
type Read = (Arc<[EntryProperty]>, Arc<Facts>);

/// Builds entries, and parses each list of properties once however many bundles share it.
#[derive(Default)]
pub(crate) struct Reader {
    /// Parsed lists by address. The lists are kept, so that no other can get their address.
    known: HashMap<*const [EntryProperty], Read>,
    shared: Shared,
}

/// Parsed properties except the package and its version.
#[derive(Clone, Debug)]
struct Rest {
    apis: Arc<BTreeSet<Gvk>>,
    labels: Arc<BTreeSet<String>>,
    deprecated: bool,
    requirements: Result<Arc<[Arc<Predicate>]>, MalformedProperty>,
}

/// Values that lists of properties have in common, each once.
#[derive(Default)]
struct Shared {
    /// By the properties behind it, which the next version mostly repeats word by word.
    rest: HashMap<Vec<EntryProperty>, Rest>,
    names: BTreeSet<Arc<str>>,
    apis: BTreeSet<Arc<BTreeSet<Gvk>>>,
    labels: BTreeSet<Arc<BTreeSet<String>>>,
    predicates: BTreeSet<Arc<Predicate>>,
    requirements: BTreeSet<Arc<[Arc<Predicate>]>>,
}

/// Returns the value in `known` that equals `value`, which is added if absent.
fn shared<T: ?Sized + Ord, V: Into<Arc<T>> + Borrow<T>>(known: &mut BTreeSet<Arc<T>>, value: V) -> Arc<T> {
    if let Some(known) = known.get(value.borrow()) {
        return Arc::clone(known);
    }
    let value: Arc<T> = value.into();
    known.insert(Arc::clone(&value));
    value
}

impl Reader {
    /// See [`Entry::new`].
    pub(crate) fn entry(&mut self, bundle: BundleEntry) -> Entry {
        let list = &bundle.properties;
        let (_, facts) = self.known.entry(Arc::as_ptr(list)).or_insert_with(|| {
            let facts = Arc::new(Facts::of(list, &mut self.shared));
            (Arc::clone(list), facts)
        });
        let facts = Arc::clone(facts);
        Entry { bundle, facts }
    }
}

impl Facts {
    fn of(properties: &[EntryProperty], known: &mut Shared) -> Self {
        let mut packages = Vec::new();
        for property in properties.iter().filter(|p| &*p.kind == kinds::PACKAGE) {
            if let Ok(Typed::Package(package)) = property.parse() {
                packages.push(PackageFact {
                    name: shared(&mut known.names, package.package_name.as_str()),
                    version: Version::parse(&package.version).ok(),
                });
            }
        }
        let says_more = |property: &&EntryProperty| {
            [kinds::GVK, kinds::LABEL, kinds::DEPRECATED].contains(&&*property.kind)
                || is_requirement(&property.kind)
        };
        let more: Vec<EntryProperty> = properties.iter().filter(says_more).cloned().collect();
        let rest = match known.rest.get(&more) {
            Some(rest) => rest.clone(),
            None => {
                let rest = Rest::of(&more, known);
                known.rest.insert(more, rest.clone());
                rest
            }
        };
        Facts {
            packages: packages.into(),
            rest,
        }
    }
}

impl Rest {
    fn of(properties: &[EntryProperty], known: &mut Shared) -> Self {
        let (mut apis, mut labels) = (BTreeSet::new(), BTreeSet::new());
        let offers = [kinds::GVK, kinds::LABEL];
        for property in properties.iter().filter(|p| offers.contains(&&*p.kind)) {
            match property.parse() {
                Ok(Typed::Gvk(api)) => {
                    apis.insert(api);
                }
                Ok(Typed::Label(label)) => {
                    labels.insert(label);
                }
                _ => {}
            }
        }
        let requirements = requirements(properties).map(|list| {
            // Catalog servers state each one twice, as property and as dependency; one constraint is enough.
            let mut seen = BTreeSet::new();
            let list: Vec<_> = list
                .into_iter()
                .map(|predicate| shared(&mut known.predicates, predicate))
                .filter(|predicate| seen.insert(Arc::clone(predicate)))
                .collect();
            shared(&mut known.requirements, list.as_slice())
        });
        Rest {
            apis: shared(&mut known.apis, apis),
            labels: shared(&mut known.labels, labels),
            deprecated: properties.iter().any(|p| &*p.kind == kinds::DEPRECATED),
            requirements,
        }
    }
}

impl Entry {
    /// Parses the properties.
    ///
    /// Never fails. Malformed properties that offer something are ignored. A malformed requirement is kept as
    /// an error, see [`Entry::requirements`].
    pub fn new(bundle: BundleEntry) -> Self {
        Reader::default().entry(bundle)
    }

    /// Returns its `olm.package` properties.
    pub fn packages(&self) -> &[PackageFact] {
        &self.facts.packages
    }

    /// Returns the APIs it provides, by `olm.gvk` properties alone.
    pub fn apis(&self) -> &BTreeSet<Gvk> {
        &self.facts.rest.apis
    }

    /// Returns its labels.
    pub fn labels(&self) -> &BTreeSet<String> {
        &self.facts.rest.labels
    }

    /// Returns whether a property `olm.deprecated` excludes it from selection.
    pub fn is_deprecated(&self) -> bool {
        self.facts.rest.deprecated
    }

    /// Returns its requirements in property order, without duplicates.
    ///
    /// # Errors
    /// The first malformed requirement.
    pub fn requirements(&self) -> Result<&[Arc<Predicate>], &MalformedProperty> {
        self.facts.rest.requirements.as_deref()
    }

    /// Returns whether the bundle passes the test. A test that exceeds the budget of one bundle fails.
    pub fn meets(&self, predicate: &Predicate) -> bool {
        self.meets_within(predicate, &Budget::of_bundle())
    }

    /// Returns whether the bundle passes the test. CEL rules use the budget, which records whether it was
    /// sufficient.
    pub fn meets_within(&self, predicate: &Predicate, budget: &Budget) -> bool {
        match predicate {
            Predicate::ProvidesApi(api) => self.apis().contains(api),
            Predicate::Package(package) => {
                *self.package == **package || self.packages().iter().any(|p| *p.name == **package)
            }
            Predicate::VersionInRange(range) => {
                let stated = self.packages().iter().filter_map(|p| p.version.as_ref());
                stated.chain(&self.version).any(|version| range.contains(version))
            }
            Predicate::Label(label) => self.labels().contains(label),
            Predicate::All(parts) => parts.iter().all(|part| self.meets_within(part, budget)),
            Predicate::Any(parts) => parts.iter().any(|part| self.meets_within(part, budget)),
            Predicate::Not(parts) => !parts.iter().any(|part| self.meets_within(part, budget)),
            Predicate::Cel(rule, _) => rule.test(&self.properties, budget),
            Predicate::WithMessage(_, test) => self.meets_within(test, budget),
        }
    }
}

impl Deref for Entry {
    type Target = BundleEntry;

    fn deref(&self) -> &BundleEntry {
        &self.bundle
    }
}

/// Returns the requirements as stated.
fn requirements(properties: &[EntryProperty]) -> Result<Vec<Predicate>, MalformedProperty> {
    let stated = properties
        .iter()
        .filter(|property| is_requirement(&property.kind));
    let count = stated.clone().count();
    if count > MAX_REQUIREMENTS {
        return Err(MalformedProperty(format!(
            "the bundle has {count} requirements, the limit is {MAX_REQUIREMENTS}"
        )));
    }
    stated
        .filter_map(|property| requirement::parse(property).transpose())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(rows: &[(&str, &str)]) -> Entry {
        Entry::new(BundleEntry {
            name: "a".into(),
            package: "p".into(),
            channel: "c".into(),
            properties: rows
                .iter()
                .map(|(kind, value)| EntryProperty::new(*kind, *value))
                .collect(),
            ..BundleEntry::default()
        })
    }

    #[test]
    fn too_many_requirements_are_not_read() {
        let value = r#"{"all":{"constraints":[]}}"#;
        let mut rows = vec![("olm.constraint", value); MAX_REQUIREMENTS];
        rows.push(("olm.label", r#"{"label":"counts for nothing"}"#));
        let requirements = entry(&rows).requirements().map(<[_]>::len).map_err(Clone::clone);
        assert_eq!(requirements, Ok(1));
        rows.push(("olm.gvk.required", r#"{"group":"g","kind":"K","version":"v1"}"#));
        let error = entry(&rows).requirements().unwrap_err().to_string();
        assert_eq!(error, "the bundle has 1001 requirements, the limit is 1000");
    }

    #[test]
    fn properties_are_read_once_and_leniently() {
        let entry = entry(&[
            ("olm.package", r#"{"packageName":"p","version":"v1.2"}"#),
            ("olm.gvk", r#"{"group":"g","kind":"K","version":"v1"}"#),
            ("olm.gvk", r#"{"version":"v1","group":"g","kind":"K"}"#),
            ("olm.gvk", "[]"),
            ("olm.label", r#"{"label":"l"}"#),
            ("olm.gvk.required", r#"{"group":"h","kind":"K","version":"v1"}"#),
            ("olm.gvk.required", r#"{"version":"v1","kind":"K","group":"h"}"#),
            ("color", "\"red\""),
        ]);
        assert_eq!(
            entry.packages(),
            [PackageFact {
                name: "p".into(),
                version: None
            }]
        );
        assert_eq!(
            entry.apis().iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["K.v1.g"]
        );
        assert_eq!(entry.labels().iter().collect::<Vec<_>>(), ["l"]);
        assert!(!entry.is_deprecated());
        assert_eq!(entry.requirements().map(<[_]>::len), Ok(1));
        assert_eq!(
            entry.properties.len(),
            8,
            "what is written to the InstallPlan stays whole"
        );
    }

    #[test]
    fn each_requirement_is_read_once_in_property_order() {
        let values: Vec<String> = (0..MAX_REQUIREMENTS)
            .map(|number| format!(r#"{{"label":"{}"}}"#, number % 990))
            .collect();
        let rows: Vec<(&str, &str)> = values
            .iter()
            .map(|value| ("olm.label.required", value.as_str()))
            .collect();
        let entry = entry(&rows);
        let found = entry.requirements().expect("requirements");
        assert_eq!(
            (found.len(), &*found[989]),
            (990, &Predicate::Label("989".into()))
        );
    }

    #[test]
    fn bundles_that_share_their_properties_share_what_is_read_of_them() {
        let (one, other) = (
            entry(&[("olm.label", r#"{"label":"l"}"#)]),
            entry(&[("color", "1")]),
        );
        let mut reader = Reader::default();
        let [a, b, c] = [&one, &one, &other].map(|entry| reader.entry(BundleEntry::clone(entry)));
        assert!(Arc::ptr_eq(&a.facts, &b.facts));
        assert_eq!((b.labels().len(), c.labels().len()), (1, 0));
    }

    /// Two versions of an operator with common APIs and requirements.
    #[test]
    fn bundles_with_equal_apis_and_requirements_hold_them_once() {
        let version = |text: &str| {
            entry(&[
                ("olm.package", text),
                ("olm.gvk", r#"{"group":"g","kind":"K","version":"v1"}"#),
                ("olm.label", r#"{"label":"l"}"#),
                ("olm.gvk.required", r#"{"group":"h","kind":"K","version":"v1"}"#),
            ])
        };
        let mut reader = Reader::default();
        let [a, b] = [
            r#"{"packageName":"p","version":"1.0.0"}"#,
            r#"{"packageName":"p","version":"1.1.0"}"#,
        ]
        .map(|text| reader.entry(BundleEntry::clone(&version(text))));
        assert_ne!(a.packages(), b.packages());
        assert!(Arc::ptr_eq(&a.packages()[0].name, &b.packages()[0].name));
        assert!(Arc::ptr_eq(&a.facts.rest.apis, &b.facts.rest.apis));
        assert!(Arc::ptr_eq(&a.facts.rest.labels, &b.facts.rest.labels));
        assert!(std::ptr::eq(a.requirements().unwrap(), b.requirements().unwrap()));
    }

    #[test]
    fn one_malformed_requirement_is_remembered() {
        let entry = entry(&[("olm.deprecated", "true"), ("olm.constraint", "{}")]);
        assert!(entry.is_deprecated());
        let error = entry.requirements().unwrap_err().to_string();
        assert_eq!(error, "constraint is empty");
    }
}
