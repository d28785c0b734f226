use std::sync::Arc;

use olm_runtime::NamespacedName;
use olm_testing::shared::shared_path;

use super::*;
use crate::index::{Catalog, CatalogFacts, Packages};
use crate::package_manifest::Package;

const NOW: &str = "2026-11-20T21:29:12Z";

/// Returns the package of the recorded PackageManifest, in the view of a request for `namespace`.
fn item(namespace: &str, name: &str) -> Item {
    let package = Package {
        name: name.into(),
        labels: BTreeMap::from([
            ("provider".to_owned(), "t".to_owned()),
            ("provider-url".to_owned(), String::new()),
        ]),
        icon: None,
        content: vec![
            Bytes::from_static(b"\"provider\":{\"name\":\"t\"},\"channels\":["),
            Bytes::from_static(b"]"),
        ],
    };
    Item {
        namespace: namespace.into(),
        catalog: Arc::new(Catalog {
            facts: CatalogFacts {
                key: NamespacedName::new("golden", "cat"),
                display_name: "Golden".to_owned(),
                publisher: "t".to_owned(),
                created: Some("2026-11-20T21:28:40Z".parse().unwrap()),
                ..CatalogFacts::default()
            },
            packages: Arc::new(Packages::new()),
        }),
        package: Arc::new(package),
    }
}

fn rendering(shape: Shape, include: Include) -> Rendering {
    Rendering {
        shape,
        include,
        now: NOW.parse().unwrap(),
    }
}

fn listed(rendering: Rendering, items: Vec<Item>) -> Value {
    read(rendering.list(items))
}

fn read(pieces: BodyChunks) -> Value {
    let pieces: Vec<Bytes> = pieces.collect();
    serde_json::from_slice(&pieces.concat()).unwrap()
}

fn golden() -> Option<Value> {
    let path = shared_path("golden/packagemanifests.json")?;
    let golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    Some(golden["items"][0].clone())
}

#[test]
fn pkg_001_a_packagemanifest_is_served_as_upstream_does() {
    let Some(golden) = golden() else { return };
    let told = read(rendering(Shape::Object, Include::None).single(item("golden", "demo")));
    for field in ["apiVersion", "kind", "metadata", "spec"] {
        assert_eq!(told[field], golden[field], "{field}");
    }
    for field in [
        "catalogSource",
        "catalogSourceDisplayName",
        "catalogSourceNamespace",
        "catalogSourcePublisher",
        "provider",
    ] {
        assert_eq!(told["status"][field], golden["status"][field], "{field}");
    }
}

#[test]
fn pkg_001_the_table_is_upstreams() {
    let Some(path) = shared_path("golden/packagemanifests.table") else {
        return;
    };
    let golden = std::fs::read_to_string(path).unwrap();
    let table = listed(
        rendering(Shape::Table, Include::Metadata),
        vec![item("golden", "demo")],
    );
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    // kubectl adds the namespace column itself.
    let names = table["columnDefinitions"].as_array().unwrap().iter();
    let mut head = vec!["NAMESPACE".to_owned()];
    head.extend(names.map(|column| column["name"].as_str().unwrap().to_uppercase()));
    let row = &table["rows"][0];
    let mut cells = vec![
        row["object"]["metadata"]["namespace"]
            .as_str()
            .unwrap()
            .to_owned(),
    ];
    cells.extend(
        row["cells"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cell| cell.as_str().unwrap().to_owned()),
    );
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = golden
        .lines()
        .filter(|line| !line.is_empty())
        .map(words)
        .collect();
    assert_eq!(lines, [head, cells]);
}

#[test]
fn rows_bring_along_what_is_asked_for() {
    let table = |include| {
        let item = item("ns", "demo");
        let told = listed(rendering(Shape::Table, include), vec![item]);
        told["rows"][0]["object"].clone()
    };
    assert_eq!(table(Include::None), Value::Null);
    assert_eq!(table(Include::Metadata)["kind"], "PartialObjectMetadata");
    assert!(table(Include::Metadata).get("status").is_none());
    assert_eq!(table(Include::Object)["status"]["catalogSource"], "cat");
}

#[test]
fn metadata_can_be_had_alone() {
    let told = listed(
        rendering(Shape::Metadata, Include::None),
        vec![item("ns", "a"), item("ns", "b")],
    );
    assert_eq!(told["kind"], "PartialObjectMetadataList");
    assert_eq!(told["items"][1]["metadata"]["name"], "b");
    assert!(told["items"][1].get("status").is_none());
}

#[test]
fn lists_of_any_length_are_lists() {
    for count in [0, 1, 2, 3000] {
        let items: Vec<Item> = (0..count)
            .map(|number| item("ns", &format!("p{number}")))
            .collect();
        let told = listed(rendering(Shape::Object, Include::None), items);
        assert_eq!(told["kind"], "PackageManifestList");
        assert_eq!(told["metadata"], json!({}));
        assert_eq!(told["items"].as_array().unwrap().len(), count);
    }
}

#[test]
fn a_list_takes_memory_for_a_piece_of_it_at_a_time() {
    let items = vec![item("ns", "demo"); 3000];
    let pieces: Vec<usize> = rendering(Shape::Object, Include::None)
        .list(items)
        .map(|piece| piece.len())
        .collect();
    assert!(pieces.len() > 10, "{}", pieces.len());
    assert!(pieces.iter().all(|length| *length < 2 * PIECE));
}

/// A package of megabytes is not copied, alone or in a list.
#[test]
fn what_a_package_has_ready_is_sent_as_it_is() {
    let text = [b"\"".as_slice(), &[b'x'; 20 * PIECE], b"\""].concat();
    let large = Bytes::from(text);
    let mut demo = item("ns", "demo");
    let content = vec![
        Bytes::from_static(b"\"small\":1,\"large\":"),
        large.clone(),
        Bytes::from_static(b",\"last\":2"),
    ];
    demo.package = Arc::new(Package {
        content,
        ..(*demo.package).clone()
    });
    let (object, table) = (
        rendering(Shape::Object, Include::None),
        rendering(Shape::Table, Include::Object),
    );
    let list = vec![demo.clone(), demo.clone()];
    let answers = [
        (1, object.single(demo.clone())),
        (1, table.single(demo)),
        (2, object.list(list.clone())),
        (2, table.list(list)),
    ];
    let of_large = large.as_ptr_range();
    for (count, pieces) in answers {
        let pieces: Vec<Bytes> = pieces.collect();
        assert!(pieces.iter().all(|piece| piece.len() < 2 * PIECE));
        let shared = pieces.iter().filter(|piece| of_large.contains(&piece.as_ptr()));
        assert_eq!(shared.map(Bytes::len).sum::<usize>(), count * large.len());
        let told: Value = serde_json::from_slice(&pieces.concat()).unwrap();
        let told = [&told, &told["rows"][0]["object"], &told["items"][0]];
        let told = told.iter().find(|told| told["status"]["small"] == 1).unwrap();
        assert_eq!(told["status"]["last"], 2);
    }
}

#[test]
fn an_unknown_age_is_reported_as_unknown() {
    let mut item = item("ns", "demo");
    let age = |item: &Item| {
        let told = read(rendering(Shape::Table, Include::None).single(item.clone()));
        told["rows"][0]["cells"][2].clone()
    };
    assert_eq!(age(&item), "32s");
    let mut catalog = (*item.catalog).clone();
    catalog.facts.created = None;
    item.catalog = Arc::new(catalog.clone());
    assert_eq!(age(&item), "<unknown>");
    // A slow clock does not result in negative ages.
    catalog.facts.created = Some("2027-01-01T00:00:00Z".parse().unwrap());
    item.catalog = Arc::new(catalog);
    assert_eq!(age(&item), "0s");
}
