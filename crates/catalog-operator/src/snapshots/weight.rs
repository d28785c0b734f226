//! What the content of a catalog takes in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use olm_fbc::entry::{BundleEntry, CatalogSnapshot, Deprecation, EntryProperty, InlineBundle};
use olm_fbc::property::Gvk;

/// What an entry takes in the indexes beside the entry itself, about.
const INDEXED: usize = 256;
/// The counters in front of what is shared.
const COUNTERS: usize = 16;

/// Bytes that a content takes, about; what entries share counts once.
pub(super) fn bytes(content: &CatalogSnapshot) -> usize {
    let mut scale = Scale::default();
    content.entries.iter().for_each(|entry| scale.entry(entry));
    scale.bytes
}

#[derive(Default)]
struct Scale {
    bytes: usize,
    /// Addresses of what was counted.
    seen: BTreeSet<usize>,
}

impl Scale {
    fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Counts the place that something shared takes. False when it was counted before.
    fn shared<T: ?Sized>(&mut self, value: &Arc<T>) -> bool {
        let is_new = self.seen.insert(Arc::as_ptr(value).cast::<()>().addr());
        if is_new {
            self.add(size_of_val(&**value).saturating_add(COUNTERS));
        }
        is_new
    }

    fn text(&mut self, text: &Arc<str>) {
        self.shared(text);
    }

    fn entry(&mut self, entry: &BundleEntry) {
        self.add(size_of::<BundleEntry>().saturating_add(INDEXED));
        for text in [&entry.name, &entry.package, &entry.channel] {
            self.text(text);
        }
        for text in entry.replaces.iter().chain(&entry.bundle_path) {
            self.text(text);
        }
        if let Some(range) = &entry.skip_range {
            self.shared(range);
        }
        if self.shared(&entry.skips) {
            entry.skips.iter().for_each(|skipped| self.text(skipped));
        }
        if self.shared(&entry.properties) {
            entry
                .properties
                .iter()
                .for_each(|property| self.property(property));
        }
        for apis in [&entry.provided_apis, &entry.required_apis] {
            if self.shared(apis) {
                apis.iter().for_each(|api| self.api(api));
            }
        }
        if let Some(inline) = &entry.inline
            && self.shared(inline)
        {
            self.inline(inline);
        }
        if let Some(deprecation) = &entry.deprecation
            && self.shared(deprecation)
        {
            let Deprecation {
                package,
                channel,
                bundle,
            } = &**deprecation;
            for text in [package, channel, bundle].into_iter().flatten() {
                self.text(text);
            }
        }
    }

    fn property(&mut self, property: &EntryProperty) {
        self.text(&property.kind);
        self.text(&property.value);
    }

    fn api(&mut self, api: &Gvk) {
        for text in [&api.group, &api.kind, &api.version] {
            self.add(text.capacity());
        }
    }

    fn inline(&mut self, inline: &InlineBundle) {
        self.add(inline.csv_json.capacity());
        for object in &inline.objects {
            self.add(size_of::<String>().saturating_add(object.capacity()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::entry;
    use super::*;

    fn weigh(entries: Vec<BundleEntry>) -> usize {
        bytes(&CatalogSnapshot::new(BTreeMap::new(), entries))
    }

    #[test]
    fn what_entries_share_counts_once() {
        let large: Arc<[EntryProperty]> = Arc::new([EntryProperty::new(
            "olm.large",
            format!("{:?}", "x".repeat(10_000)),
        )]);
        let with = |number: usize, properties: &Arc<[EntryProperty]>| BundleEntry {
            properties: Arc::clone(properties),
            ..entry(number)
        };
        let copy: Arc<[EntryProperty]> = Arc::new([EntryProperty::new(
            "olm.large",
            format!("{:?}", "x".repeat(10_000)),
        )]);
        let one = weigh(vec![with(0, &large)]);
        let shared = weigh(vec![with(0, &large), with(1, &large)]);
        let copied = weigh(vec![with(0, &large), with(1, &copy)]);
        assert!(one > 10_000 && shared < one + 2_000, "{one} {shared}");
        assert!(copied > shared + 10_000, "{copied}");
    }

    #[test]
    fn whatever_a_catalog_can_make_large_counts() {
        let text = || -> Arc<str> { "x".repeat(5_000).into() };
        let plain = entry(0);
        let api = Gvk {
            group: text().to_string(),
            ..Gvk::default()
        };
        let large = [
            BundleEntry {
                name: text(),
                ..plain.clone()
            },
            BundleEntry {
                package: text(),
                ..plain.clone()
            },
            BundleEntry {
                channel: text(),
                ..plain.clone()
            },
            BundleEntry {
                replaces: Some(text()),
                ..plain.clone()
            },
            BundleEntry {
                bundle_path: Some(text()),
                ..plain.clone()
            },
            BundleEntry {
                skips: Arc::new([text()]),
                ..plain.clone()
            },
            BundleEntry {
                provided_apis: Arc::new([api.clone()]),
                ..plain.clone()
            },
            BundleEntry {
                required_apis: Arc::new([api]),
                ..plain.clone()
            },
            BundleEntry {
                inline: Some(Arc::new(InlineBundle {
                    csv_json: text().to_string(),
                    objects: Vec::new(),
                })),
                ..plain.clone()
            },
            BundleEntry {
                inline: Some(Arc::new(InlineBundle {
                    csv_json: String::new(),
                    objects: vec![text().to_string()],
                })),
                ..plain.clone()
            },
            BundleEntry {
                deprecation: Some(Arc::new(Deprecation {
                    bundle: Some(text()),
                    ..Deprecation::default()
                })),
                ..plain.clone()
            },
        ];
        let least = weigh(vec![plain]);
        for (number, entry) in large.into_iter().enumerate() {
            assert!(weigh(vec![entry]) >= least + 4_900, "{number}");
        }
    }
}
