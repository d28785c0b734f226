//! A package of a file-based catalog: its channels and the images of its bundles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::bundle::list;

/// An API in the form of catalogs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Api {
    /// API group.
    pub group: String,
    /// Version of the group.
    pub version: String,
    /// Kind of the API.
    pub kind: String,
}

/// One package of a catalog.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    default_channel: String,
    /// Entries by channel: the name and the name it replaces.
    channels: BTreeMap<String, BTreeMap<String, Option<String>>>,
    skipped: BTreeMap<String, BTreeSet<String>>,
    bundles: BTreeMap<String, Value>,
}

impl Catalog {
    /// Reads a `catalog.json`.
    ///
    /// # Errors
    /// If it cannot be read or is not JSON.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no catalog", file.display()))
    }

    /// Reads the blobs of one package.
    ///
    /// # Errors
    /// If the text is not a sequence of JSON objects.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut catalog = Self::default();
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for blob in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
            let blob = blob?;
            match blob["schema"].as_str() {
                Some("olm.package") => catalog.default_channel = word(&blob["defaultChannel"]),
                Some("olm.channel") => {
                    let entries = list(&blob["entries"]);
                    let replaces = |entry: &Value| {
                        (
                            word(&entry["name"]),
                            entry["replaces"].as_str().map(str::to_owned),
                        )
                    };
                    let skips = entries.iter().flat_map(|entry| list(&entry["skips"])).map(word);
                    catalog.skipped.insert(word(&blob["name"]), skips.collect());
                    catalog
                        .channels
                        .insert(word(&blob["name"]), entries.iter().map(replaces).collect());
                }
                Some("olm.bundle") => {
                    catalog.bundles.insert(word(&blob["name"]), blob);
                }
                _ => {}
            }
        }
        Ok(catalog)
    }

    /// Returns the name of the default channel.
    pub fn default_channel(&self) -> &str {
        &self.default_channel
    }

    /// Returns the bundles that a Subscription to `channel` installs one after the other: from `start` to the channel's head
    /// along `replaces`, or only the head without `start`.
    ///
    /// # Errors
    /// If the channel does not exist, has several heads, or no edges lead from `start` to the head.
    pub fn path(&self, channel: &str, start: Option<&str>) -> anyhow::Result<Vec<String>> {
        let entries = self
            .channels
            .get(channel)
            .with_context(|| format!("there is no channel {channel}"))?;
        let skipped = self.skipped.get(channel);
        let replaced: BTreeSet<&str> = entries.values().filter_map(Option::as_deref).collect();
        let is_head = |name: &&String| {
            !replaced.contains(name.as_str()) && !skipped.is_some_and(|skipped| skipped.contains(*name))
        };
        let heads: Vec<&String> = entries.keys().filter(is_head).collect();
        let [head] = heads.as_slice() else {
            bail!("channel {channel} has the heads {heads:?}")
        };
        let mut path = vec![(*head).clone()];
        let Some(start) = start else { return Ok(path) };
        while path.last().is_some_and(|last| last != start) {
            let last = path.last().and_then(|last| entries.get(last)).cloned().flatten();
            match last {
                Some(previous) if !path.contains(&previous) => path.push(previous),
                _ => bail!("no edges lead from {start} to {head}"),
            }
        }
        path.reverse();
        Ok(path)
    }

    /// Returns the image of a bundle.
    ///
    /// # Errors
    /// If the catalog has no such bundle, or the bundle has no image.
    pub fn image(&self, bundle: &str) -> anyhow::Result<&str> {
        self.bundles
            .get(bundle)
            .and_then(|blob| blob["image"].as_str())
            .with_context(|| format!("the catalog has no image for {bundle}"))
    }

    /// Returns the APIs that any bundle of the package provides.
    pub fn provided(&self) -> impl Iterator<Item = Api> {
        self.bundles.values().flat_map(|blob| apis(blob, "olm.gvk"))
    }

    /// Returns the APIs that a bundle provides.
    pub fn provides(&self, bundle: &str) -> impl Iterator<Item = Api> {
        self.bundles
            .get(bundle)
            .into_iter()
            .flat_map(|blob| apis(blob, "olm.gvk"))
    }

    /// Returns the APIs that a bundle requires from other operators.
    ///
    /// # Errors
    /// If it requires anything but APIs.
    pub fn required(&self, bundle: &str) -> anyhow::Result<Vec<Api>> {
        let blob = self
            .bundles
            .get(bundle)
            .with_context(|| format!("the catalog has no bundle {bundle}"))?;
        for property in list(&blob["properties"]) {
            let kind = property["type"].as_str().unwrap_or_default();
            if matches!(kind, "olm.package.required" | "olm.constraint") {
                bail!("{bundle} has a dependency of type {kind}");
            }
        }
        Ok(apis(blob, "olm.gvk.required").collect())
    }
}

fn apis<'a>(blob: &'a Value, kind: &'a str) -> impl Iterator<Item = Api> + 'a {
    list(&blob["properties"])
        .iter()
        .filter(move |property| property["type"] == kind)
        .map(|property| {
            let word = |field: &str| property["value"][field].as_str().unwrap_or_default().to_owned();
            Api {
                group: word("group"),
                version: word("version"),
                kind: word("kind"),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        {"schema": "olm.package", "name": "a", "defaultChannel": "stable"}
        {"schema": "olm.channel", "package": "a", "name": "stable", "entries": [
            {"name": "a.v3", "replaces": "a.v2", "skips": ["a.v2-broken"]}, {"name": "a.v2", "replaces": "a.v1"},
            {"name": "a.v1"}, {"name": "a.v2-broken", "replaces": "a.v1"}]}
        {"schema": "olm.channel", "package": "a", "name": "two", "entries": [{"name": "a.v1"}, {"name": "a.v3"}]}
        {"schema": "olm.bundle", "package": "a", "name": "a.v3", "image": "quay.io/a/a:v3", "properties": [
            {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "A"}},
            {"type": "olm.gvk.required", "value": {"group": "h", "version": "v1", "kind": "B"}}]}
        {"schema": "olm.bundle", "package": "a", "name": "a.v2", "image": "", "properties": [
            {"type": "olm.package.required", "value": {"packageName": "b", "versionRange": ">1"}}]}"#;

    fn catalog() -> Catalog {
        Catalog::parse(TEXT).unwrap()
    }

    #[test]
    fn a_path_leads_from_the_start_to_the_head() {
        assert_eq!(
            catalog().path("stable", Some("a.v1")).unwrap(),
            ["a.v1", "a.v2", "a.v3"]
        );
        assert_eq!(catalog().path("stable", None).unwrap(), ["a.v3"]);
    }

    #[test]
    fn a_path_that_is_not_there_is_an_error() {
        let error =
            |channel: &str, start: &str| catalog().path(channel, Some(start)).unwrap_err().to_string();
        assert_eq!(error("stable", "a.v0"), "no edges lead from a.v0 to a.v3");
        assert_eq!(
            error("two", "a.v1"),
            r#"channel two has the heads ["a.v1", "a.v3"]"#
        );
        assert_eq!(error("none", "a.v1"), "there is no channel none");
    }

    #[test]
    fn bundles_show_what_they_provide_and_need() {
        let catalog = catalog();
        let api = |group: &str, kind: &str| Api {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
        };
        assert_eq!(catalog.provided().collect::<Vec<_>>(), [api("g", "A")]);
        assert_eq!(catalog.provides("a.v3").collect::<Vec<_>>(), [api("g", "A")]);
        assert_eq!(catalog.provides("a.v2").count(), 0);
        assert_eq!(catalog.required("a.v3").unwrap(), [api("h", "B")]);
        assert!(
            catalog
                .required("a.v2")
                .unwrap_err()
                .to_string()
                .contains("olm.package.required")
        );
        assert_eq!(catalog.image("a.v3").unwrap(), "quay.io/a/a:v3");
    }
}
