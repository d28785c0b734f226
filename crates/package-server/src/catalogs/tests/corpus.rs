//! Real operators: each package is compared field by field with its catalog file, and with the answers of
//! upstream's `opm`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use go_compat::semver::Version;
use olm_testing::shared::{corpus_dir, shared_path};
use serde_json::{Map, Value};

use super::*;

/// The catalog file of one package.
struct File {
    blobs: Vec<Value>,
}

impl File {
    fn read(folder: &Path) -> Self {
        let catalog = std::fs::read(folder.join("catalog.json")).unwrap();
        let blobs = serde_json::Deserializer::from_slice(&catalog).into_iter();
        Self {
            blobs: blobs.map(Result::unwrap).collect(),
        }
    }

    fn of<'a>(&'a self, schema: &'a str) -> impl Iterator<Item = &'a Value> {
        self.blobs.iter().filter(move |blob| blob["schema"] == schema)
    }

    fn bundle(&self, name: &str) -> Option<&Value> {
        self.of("olm.bundle").find(|bundle| bundle["name"] == name)
    }

    /// Returns the ClusterServiceVersion of a bundle.
    fn csv(&self, name: &str) -> Value {
        let properties = self.bundle(name).unwrap()["properties"].as_array().unwrap();
        let objects = properties
            .iter()
            .filter(|property| property["type"] == "olm.bundle.object");
        let mut objects = objects.map(|property| -> Value {
            let data = property["value"]["data"].as_str().unwrap();
            serde_json::from_slice(&STANDARD.decode(data).unwrap()).unwrap()
        });
        objects
            .find(|object| object["kind"] == "ClusterServiceVersion")
            .unwrap()
    }

    fn version(&self, name: &str) -> String {
        let properties = self.bundle(name).unwrap()["properties"].as_array().unwrap();
        let package = properties
            .iter()
            .find(|property| property["type"] == "olm.package");
        package.unwrap()["value"]["version"].as_str().unwrap().to_owned()
    }
}

/// Returns a member by name, compared as Go's JSON does.
fn member<'a>(object: &'a Value, name: &str) -> &'a Value {
    let members = object.as_object();
    let found = members.and_then(|members| {
        members.get(name).or_else(|| {
            let same = |(key, _): &(&String, &Value)| key.eq_ignore_ascii_case(name);
            members.iter().find(same).map(|(_, value)| value)
        })
    });
    found.unwrap_or(&Value::Null)
}

/// Returns these members of `object`; `filled` ones only if they are not empty.
fn picked(object: &Value, always: &[&str], filled: &[&str]) -> Value {
    let is_empty = |value: &Value| {
        value.is_null()
            || value == ""
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty)
    };
    let mut out = Map::new();
    for name in always {
        let nothing = if *name == "supported" {
            json!(false)
        } else {
            json!("")
        };
        let value = Some(member(object, name)).filter(|value| !value.is_null());
        out.insert((*name).to_owned(), value.cloned().unwrap_or(nothing));
    }
    for name in filled {
        let value = member(object, name);
        if !is_empty(value) {
            out.insert((*name).to_owned(), value.clone());
        }
    }
    Value::Object(out)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns `currentCSVDesc` as the API defines it, built from the manifest without our types.
fn described(csv: &Value) -> Value {
    let spec = member(csv, "spec");
    let filled = [
        "displayName",
        "keywords",
        "maturity",
        "description",
        "minKubeVersion",
    ];
    let mut out = picked(spec, &["version"], &filled);
    // Go reads null texts as empty ones.
    let text = |(key, value): (&String, &Value)| (key.clone(), json!(value.as_str().unwrap_or_default()));
    let annotations = member(member(csv, "metadata"), "annotations").as_object();
    let annotations: Map<String, Value> = annotations.into_iter().flatten().map(text).collect();
    if !annotations.is_empty() {
        out["annotations"] = annotations.into();
    }
    out["provider"] = picked(member(spec, "provider"), &[], &["name", "url"]);
    let lists: [(&str, &str, &[&str], &[&str]); 4] = [
        ("links", "links", &[], &["name", "url"]),
        ("maintainers", "maintainers", &[], &["name", "email"]),
        ("installModes", "installModes", &["type", "supported"], &[]),
        ("nativeAPIs", "nativeApis", &["group", "version", "kind"], &[]),
    ];
    for (from, to, always, filled) in lists {
        let items: Vec<Value> = list(member(spec, from))
            .iter()
            .map(|item| picked(item, always, filled))
            .collect();
        if !items.is_empty() {
            out[to] = items.into();
        }
    }
    let definitions: [(&str, &[&str]); 2] = [
        ("customresourcedefinitions", &["name", "version", "kind"]),
        ("apiservicedefinitions", &["name", "group", "version", "kind"]),
    ];
    for (field, always) in definitions {
        out[field] = json!({});
        for side in ["owned", "required"] {
            let items = list(member(member(spec, field), side));
            let items: Vec<Value> = items
                .iter()
                .map(|item| picked(item, always, &["displayName", "description"]))
                .collect();
            if !items.is_empty() {
                out[field][side] = items.into();
            }
        }
    }
    let mut images: BTreeSet<&str> = BTreeSet::new();
    images.extend(
        list(member(spec, "relatedImages"))
            .iter()
            .filter_map(|related| related["image"].as_str()),
    );
    for deployment in list(&spec["install"]["spec"]["deployments"]) {
        let pod = &deployment["spec"]["template"]["spec"];
        for containers in ["initContainers", "containers"] {
            images.extend(
                list(&pod[containers])
                    .iter()
                    .filter_map(|container| container["image"].as_str()),
            );
        }
    }
    if !images.is_empty() {
        out["relatedImages"] = json!(images);
    }
    out
}

/// Returns the served corpus: each package's item and status.
async fn served(corpus: &Path) -> Vec<(Item, Value)> {
    let lab = Lab::new();
    let registry = Registry::of(&corpus.join("fbc")).await;
    lab.sources.put(source("olm", "community", &registry.address));
    let state = wait_for("the corpus", || {
        lab.state("olm", "community")
            .filter(|state| state.read_at.is_some())
    })
    .await;
    assert_eq!(state.left_out, 0);
    let index = lab.catalogs.index().borrow().clone();
    let items = index.list(None, &LabelSelector::default(), &FieldSelector::default());
    let status = |item: Item| {
        let text = [b"{".to_vec(), item.package.content.concat(), b"}".to_vec()].concat();
        let status = serde_json::from_slice(&text).unwrap();
        (item, status)
    };
    items.into_iter().map(status).collect()
}

#[tokio::test]
async fn pkg_001_pkg_002_real_operators_are_served_as_their_authors_wrote_them() {
    let Some(corpus) = corpus_dir() else { return };
    let served = served(&corpus).await;
    assert_eq!(served.len(), 125);
    let (mut icons, mut wrong) = (0, Vec::new());
    for (item, status) in &served {
        let name = &*item.package.name;
        let file = File::read(&corpus.join("fbc").join(name));
        assert_eq!(status["packageName"], name);
        let default = &file.of("olm.package").next().unwrap()["defaultChannel"];
        assert_eq!(status["defaultChannel"], *default, "{name}");
        let told = |channel: &Value| channel["name"].as_str().unwrap().to_owned();
        let channels: Vec<String> = list(&status["channels"]).iter().map(told).collect();
        let mut expected: Vec<String> = file.of("olm.channel").map(told).collect();
        expected.sort();
        assert_eq!(channels, expected, "{name}");
        for channel in list(&status["channels"]) {
            let blob = file
                .of("olm.channel")
                .find(|blob| blob["name"] == channel["name"])
                .unwrap();
            let context = format!("{name} {}", channel["name"]);
            entries_are_right(&file, blob, channel, &context);
            let csv = file.csv(channel["currentCSV"].as_str().unwrap());
            let (told, expected) = (&channel["currentCSVDesc"], described(&csv));
            let fields = told.as_object().into_iter().chain(expected.as_object()).flatten();
            let other = fields.filter(|(field, _)| told[*field] != expected[*field]);
            let other = other
                .map(|(field, _)| format!("{context} {field}: {}, not {}", told[field], expected[field]));
            wrong.extend(other.map(|line| line.chars().take(400).collect::<String>()));
        }
        let speaking = list(&status["channels"])
            .iter()
            .find(|channel| channel["name"] == *default);
        let csv = file.csv(speaking.unwrap()["currentCSV"].as_str().unwrap());
        assert_eq!(status["provider"], described(&csv)["provider"], "{name}");
        labels_are_right(item, &csv);
        icons += usize::from(icon_is_right(item, &csv));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(icons > 100, "{icons}");
}

fn entries_are_right(file: &File, blob: &Value, channel: &Value, context: &str) {
    // A channel's entry without a bundle is not a version.
    let names = list(&blob["entries"])
        .iter()
        .filter_map(|entry| entry["name"].as_str());
    let expected: BTreeSet<(String, String)> = names
        .filter(|name| file.bundle(name).is_some())
        .map(|name| (name.to_owned(), file.version(name)))
        .collect();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap().to_owned();
    let entries: Vec<(String, String)> = list(&channel["entries"])
        .iter()
        .map(|entry| (text(entry, "name"), text(entry, "version")))
        .collect();
    assert_eq!(
        entries.iter().cloned().collect::<BTreeSet<_>>(),
        expected,
        "{context}"
    );
    let versions: Vec<Version> = entries
        .iter()
        .filter_map(|(_, version)| Version::parse(version).ok())
        .collect();
    assert!(versions.is_sorted_by(|newer, older| newer >= older), "{context}");
}

fn labels_are_right(item: &Item, csv: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let provider = &csv["spec"]["provider"];
    let mut expected: BTreeMap<String, String> = BTreeMap::from([
        ("catalog".to_owned(), "community".to_owned()),
        ("catalog-namespace".to_owned(), "olm".to_owned()),
        ("provider".to_owned(), text(&provider["name"])),
        ("provider-url".to_owned(), text(&provider["url"])),
    ]);
    let own = csv["metadata"]["labels"].as_object().into_iter().flatten();
    expected.extend(own.map(|(key, value)| (key.clone(), text(value))));
    for (prefix, default) in [
        ("operatorframework.io/os", "os.linux"),
        ("operatorframework.io/arch", "arch.amd64"),
    ] {
        if !expected.keys().any(|key| key.starts_with(prefix)) {
            expected.insert(format!("operatorframework.io/{default}"), "supported".to_owned());
        }
    }
    let labels = item
        .labels()
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(
        labels.collect::<BTreeMap<_, _>>(),
        expected,
        "{}",
        item.package.name
    );
}

fn icon_is_right(item: &Item, csv: &Value) -> bool {
    let icon = &csv["spec"]["icon"][0];
    let Some(served) = &item.package.icon else {
        assert!(icon.is_null(), "{}", item.package.name);
        return false;
    };
    let text: String = icon["base64data"]
        .as_str()
        .unwrap_or_default()
        .split(['\r', '\n'])
        .collect();
    if let Ok(data) = STANDARD.decode(text) {
        assert_eq!(served.icon.data, data, "{}", item.package.name);
    }
    assert_eq!(icon["mediatype"], served.icon.media_type, "{}", item.package.name);
    true
}

/// Upstream's `opm` was asked about some of the same catalogs.
#[tokio::test]
async fn pkg_002_real_catalogs_are_listed_as_by_upstream() {
    let (Some(corpus), Some(golden)) = (corpus_dir(), shared_path("golden/opm")) else {
        return;
    };
    let served = served(&corpus).await;
    let mut compared = 0;
    for package in [
        "3scale-community-operator",
        "argocd-operator",
        "keycloak-operator",
        "prometheus",
    ] {
        let rows = |what: &str| {
            table(&std::fs::read_to_string(golden.join(format!("list-{what}-{package}.txt"))).unwrap())
        };
        let (_, status) = served
            .iter()
            .find(|(item, _)| &*item.package.name == package)
            .unwrap();
        let channels = list(&status["channels"]);
        let of = |name: &str| channels.iter().find(|channel| channel["name"] == name).unwrap();
        let listed = rows("packages").remove(0);
        assert_eq!(status["defaultChannel"], listed["DEFAULT CHANNEL"]);
        assert_eq!(
            of(&listed["DEFAULT CHANNEL"])["currentCSVDesc"]["displayName"],
            listed["DISPLAY NAME"]
        );
        let heads = rows("channels");
        assert_eq!(heads.len(), channels.len(), "{package}");
        for head in heads {
            assert_eq!(of(&head["CHANNEL"])["currentCSV"], head["HEAD"], "{package}");
        }
        let mut bundles: Vec<(String, String)> = rows("bundles")
            .into_iter()
            .map(|row| (row["CHANNEL"].clone(), row["BUNDLE"].clone()))
            .collect();
        let mut entries: Vec<(String, String)> = channels
            .iter()
            .flat_map(|channel| {
                list(&channel["entries"])
                    .iter()
                    .map(move |entry| (channel, entry))
            })
            .map(|(channel, entry)| {
                (
                    channel["name"].as_str().unwrap().to_owned(),
                    entry["name"].as_str().unwrap().to_owned(),
                )
            })
            .collect();
        bundles.sort();
        entries.sort();
        assert_eq!(entries, bundles, "{package}");
        compared += bundles.len();
    }
    assert!(compared > 20, "{compared}");
}

/// Returns the rows of a printed table, by column header.
fn table(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    let mut columns: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    for name in head.split("  ").filter(|name| !name.trim().is_empty()) {
        let start = at + head[at..].find(name).unwrap() + (name.len() - name.trim_start().len());
        columns.push((start, name.trim()));
        at = start + name.trim().len();
    }
    let cell = |line: &str, index: usize| {
        let end = columns
            .get(index + 1)
            .map_or(line.len(), |(next, _)| (*next).min(line.len()));
        line.get(columns[index].0.min(end)..end)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let row = |line: &str| {
        (0..columns.len())
            .map(|index| (columns[index].1.to_owned(), cell(line, index)))
            .collect()
    };
    lines.filter(|line| !line.trim().is_empty()).map(row).collect()
}
