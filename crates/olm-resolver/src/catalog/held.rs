//! Memory of a snapshot. Values that entries share count once.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use go_compat::semver::{Identifier, Version};
use olm_fbc::entry::BundleEntry;
use olm_fbc::property::Gvk;

use super::{Snapshot, has_rule};
use crate::entry::{Entry, Facts};
use crate::predicate::Predicate;

/// Bytes of the two counters of a shared value.
const COUNTERS: usize = 2 * size_of::<usize>();
/// Bytes of a rule's tree per byte of its text.
const RULE: usize = 32;

impl Snapshot {
    /// Returns the approximate bytes in memory. Cached test results are not included; they have a limit of
    /// their own.
    pub fn held(&self) -> usize {
        let mut held = Held::default();
        held.add(size_of::<Self>());
        held.add(self.entries.capacity().saturating_mul(size_of::<Arc<Entry>>()));
        held.add(self.in_chain.capacity());
        for entry in &self.entries {
            held.shared(entry, |held, entry| held.entry(entry));
        }
        for (package, channels) in &self.packages {
            held.text(package);
            held.map(channels);
            channels.keys().for_each(|channel| held.text(channel));
        }
        held.map(&self.packages);
        held.map(&self.by_package);
        held.map(&self.by_api);
        held.map(&self.by_label);
        self.by_package.keys().for_each(|name| held.text(name));
        self.by_api.keys().for_each(|api| held.api(api));
        self.by_label.keys().for_each(|label| held.add(label.capacity()));
        let lists = self
            .by_package
            .values()
            .chain(self.by_api.values())
            .chain(self.by_label.values());
        lists.for_each(|list| held.add(list.capacity().saturating_mul(size_of::<usize>())));
        held.bytes
    }
}

/// Bytes counted so far.
#[derive(Default)]
struct Held {
    seen: HashSet<*const ()>,
    bytes: usize,
}

impl Held {
    fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Counts a shared value and its content, unless it was counted before.
    fn shared<T: ?Sized>(&mut self, value: &Arc<T>, inside: impl FnOnce(&mut Self, &T)) {
        if self.seen.insert(Arc::as_ptr(value).cast()) {
            self.add(size_of_val(&**value).saturating_add(COUNTERS));
            inside(self, value);
        }
    }

    fn text(&mut self, text: &Arc<str>) {
        self.shared(text, |_, _| {});
    }

    /// Counts the nodes of a map, which are mostly two thirds full.
    fn map<K, V>(&mut self, map: &BTreeMap<K, V>) {
        self.items::<(K, V)>(map.len());
    }

    fn items<T>(&mut self, count: usize) {
        let size = size_of::<T>().saturating_add(size_of::<usize>());
        self.add(count.saturating_mul(size).saturating_mul(3) / 2);
    }

    fn api(&mut self, api: &Gvk) {
        self.add(api.group.capacity());
        self.add(api.kind.capacity());
        self.add(api.version.capacity());
    }

    fn version(&mut self, version: Option<&Version>) {
        let Some(version) = version else { return };
        self.add(version.build.len());
        self.add(version.pre.len().saturating_mul(size_of::<Identifier>()));
    }

    fn entry(&mut self, entry: &Entry) {
        self.bundle(entry);
        self.shared(entry.facts(), Self::facts);
    }

    fn bundle(&mut self, bundle: &BundleEntry) {
        let texts = [&bundle.name, &bundle.package, &bundle.channel];
        texts.into_iter().for_each(|text| self.text(text));
        let optional = [&bundle.replaces, &bundle.bundle_path];
        optional.into_iter().flatten().for_each(|text| self.text(text));
        self.version(bundle.version.as_ref());
        self.shared(&bundle.skips, |held, skips| {
            skips.iter().for_each(|skip| held.text(skip));
        });
        if let Some(range) = &bundle.skip_range {
            // The text, and the range parsed from it.
            self.shared(range, |held, range| {
                held.add(range.as_str().len().saturating_mul(10));
            });
        }
        self.shared(&bundle.properties, |held, properties| {
            for property in properties {
                held.text(&property.kind);
                held.text(&property.value);
            }
        });
        for apis in [&bundle.provided_apis, &bundle.required_apis] {
            self.shared(apis, |held, apis| apis.iter().for_each(|api| held.api(api)));
        }
        if let Some(digest) = &bundle.inline {
            self.shared(digest, |_, _| {});
        }
        if let Some(deprecation) = &bundle.deprecation {
            self.shared(deprecation, |held, deprecation| {
                let texts = [&deprecation.package, &deprecation.channel, &deprecation.bundle];
                texts.into_iter().flatten().for_each(|text| held.text(text));
            });
        }
    }

    fn facts(&mut self, facts: &Facts) {
        self.add(size_of_val(&*facts.packages));
        for package in &facts.packages {
            self.text(&package.name);
            self.version(package.version.as_ref());
        }
        self.shared(&facts.apis, |held, apis| {
            held.items::<Gvk>(apis.len());
            apis.iter().for_each(|api| held.api(api));
        });
        self.shared(&facts.labels, |held, labels| {
            held.items::<String>(labels.len());
            labels.iter().for_each(|label| held.add(label.capacity()));
        });
        if let Ok(requirements) = &facts.requirements {
            self.shared(requirements, |held, requirements| {
                for requirement in requirements {
                    held.shared(requirement, Self::predicate);
                }
            });
        }
    }

    fn predicate(&mut self, predicate: &Predicate) {
        let each = if has_rule(predicate) { RULE } else { 2 };
        self.add(predicate.text_len().saturating_mul(each));
    }
}

#[cfg(test)]
mod tests {
    use olm_fbc::entry::EntryProperty;

    use super::*;

    const BUNDLES: usize = 1000;

    /// Returns 1,000 versions of ten operators in each channel. They share common values, as after a read.
    fn catalog(channels: &[&str]) -> Snapshot {
        let kind: Arc<str> = "olm.gvk".into();
        let apis: Vec<EntryProperty> = (0..5)
            .map(|number| EntryProperty {
                kind: Arc::clone(&kind),
                value: format!(r#"{{"group":"example.com","version":"v1","kind":"Kind{number}"}}"#).into(),
            })
            .collect();
        let provided: Arc<[Gvk]> = (0..5)
            .map(|number| Gvk {
                group: "example.com".to_owned(),
                version: "v1".to_owned(),
                kind: format!("Kind{number}"),
            })
            .collect();
        let (package_kind, skips): (Arc<str>, Arc<[Arc<str>]>) = ("olm.package".into(), Arc::default());
        let bundles = (0..BUNDLES).map(|number| {
            let (package, minor) = (number / 100, number % 100);
            let own = EntryProperty {
                kind: Arc::clone(&package_kind),
                value: format!(r#"{{"packageName":"p{package}","version":"1.{minor}.0"}}"#).into(),
            };
            BundleEntry {
                name: format!("p{package}.v1.{minor}.0").into(),
                package: format!("p{package}").into(),
                version: Version::parse(&format!("1.{minor}.0")).ok(),
                replaces: minor
                    .checked_sub(1)
                    .map(|last| format!("p{package}.v1.{last}.0").into()),
                properties: apis.iter().cloned().chain([own]).collect(),
                provided_apis: Arc::clone(&provided),
                skips: Arc::clone(&skips),
                bundle_path: Some(format!("registry.example/p{package}@sha256:{number:064}").into()),
                ..BundleEntry::default()
            }
        });
        let bundles: Vec<BundleEntry> = bundles.collect();
        let entries = channels.iter().flat_map(|channel| {
            let channel: Arc<str> = (*channel).into();
            bundles.iter().map(move |bundle| BundleEntry {
                channel: Arc::clone(&channel),
                ..bundle.clone()
            })
        });
        Snapshot::new(entries)
    }

    /// Target P18 allows some 26 MiB for ten of them and four that are being read.
    #[test]
    fn a_thousand_bundles_in_two_channels_take_less_than_two_mebibytes() {
        let held = catalog(&["stable", "fast"]).held();
        assert!((1 << 20..2 << 20).contains(&held), "{held}");
    }

    /// A bundle's properties are kept once, in however many channels it is.
    #[test]
    fn another_channel_costs_its_entries_and_nothing_of_what_its_bundles_say() {
        let [one, two, three] =
            [&["a"][..], &["a", "b"], &["a", "b", "c"]].map(|channels| catalog(channels).held());
        let each = (two - one) / BUNDLES;
        assert!(each < 2 * size_of::<Entry>(), "{each}");
        assert!((three - two).abs_diff(two - one) < BUNDLES, "{one} {two} {three}");
    }

    #[test]
    fn what_is_shared_counts_once_and_what_is_not_counts_each_time() {
        let large: Arc<str> = "x".repeat(100_000).into();
        let of = |texts: [Arc<str>; 2]| {
            let entries = texts.into_iter().enumerate().map(|(number, text)| BundleEntry {
                name: format!("a.v{number}").into(),
                bundle_path: Some(text),
                ..BundleEntry::default()
            });
            Snapshot::new(entries).held()
        };
        let shared = of([Arc::clone(&large), Arc::clone(&large)]);
        let apart = of([Arc::clone(&large), (*large).into()]);
        assert_eq!(apart - shared, large.len() + COUNTERS);
    }
}
