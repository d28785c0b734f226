use serde_json::json;

use super::*;

fn package(name: &str, labels: &[(&str, &str)]) -> Arc<Package> {
    Arc::new(Package {
        name: name.into(),
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        icon: None,
        content: Vec::new(),
    })
}

fn catalog(namespace: &str, name: &str, priority: i64, packages: &[Arc<Package>]) -> Catalog {
    Catalog {
        facts: CatalogFacts {
            key: NamespacedName::new(namespace, name),
            priority,
            ..CatalogFacts::default()
        },
        packages: Arc::new(
            packages
                .iter()
                .map(|package| (package.name.clone(), Arc::clone(package)))
                .collect(),
        ),
    }
}

fn index(catalogs: Vec<Catalog>) -> Index {
    Index {
        global_namespace: "global".into(),
        catalogs: catalogs
            .into_iter()
            .map(|catalog| (catalog.facts.key.clone(), Arc::new(catalog)))
            .collect(),
    }
}

/// Returns the list as lines: namespace, package, catalog's namespace, catalog.
fn list(index: &Index, namespace: Option<&str>, labels: &str, fields: &str) -> Vec<String> {
    let (labels, fields) = (
        LabelSelector::parse(labels).unwrap(),
        FieldSelector::parse(fields).unwrap(),
    );
    let items = index.list(namespace, &labels, &fields);
    items
        .iter()
        .map(|item| {
            let key = &item.catalog.facts.key;
            format!(
                "{}/{} {}/{}",
                item.namespace, item.package.name, key.namespace, key.name
            )
        })
        .collect()
}

#[test]
fn pkg_001_all_catalogs_in_reach_are_listed_and_each_package_of_each() {
    let (a, b) = (package("a", &[]), package("b", &[]));
    let index = index(vec![
        catalog("global", "cat", 0, &[b.clone(), a.clone()]),
        catalog("ns", "own", 0, std::slice::from_ref(&a)),
        catalog("other", "hidden", 0, &[package("secret", &[])]),
    ]);
    assert_eq!(
        list(&index, Some("ns"), "", ""),
        ["ns/a global/cat", "ns/a ns/own", "ns/b global/cat"]
    );
    assert_eq!(
        list(&index, None, "", ""),
        [
            "global/a global/cat",
            "global/b global/cat",
            "ns/a ns/own",
            "other/secret other/hidden"
        ]
    );
    assert_eq!(
        list(&index, Some("global"), "", ""),
        ["global/a global/cat", "global/b global/cat"]
    );
    // A namespace without catalogs, or one that does not exist, sees the global ones.
    assert_eq!(list(&index, Some("absent"), "", "").len(), 2);
}

/// Users of a namespace may choose from the catalogs that an administrator put there or made global.
#[test]
fn arch_016_a_namespace_sees_its_own_catalogs_and_the_global_ones_alone() {
    let index = index(vec![
        catalog("global", "cat", 0, &[package("a", &[])]),
        catalog("ns", "own", 0, &[package("b", &[])]),
        catalog("other", "theirs", 0, &[package("c", &[])]),
    ]);
    for (namespace, listed) in [
        ("ns", &["ns/a global/cat", "ns/b ns/own"][..]),
        ("other", &["other/a global/cat", "other/c other/theirs"]),
        ("third", &["third/a global/cat"]),
    ] {
        assert_eq!(list(&index, Some(namespace), "", ""), listed);
        let got = ["a", "b", "c"].map(|name| index.get(namespace, name).is_some());
        let expected = [true, namespace == "ns", namespace == "other"];
        assert_eq!(got, expected, "{namespace}");
    }
}

#[test]
fn without_a_global_namespace_each_namespace_sees_its_own() {
    let mut index = index(vec![
        catalog("", "odd", 0, &[package("a", &[])]),
        catalog("ns", "own", 0, &[]),
    ]);
    index.global_namespace = "".into();
    assert!(list(&index, Some("ns"), "", "").is_empty());
}

#[test]
fn selectors_choose_what_is_listed() {
    let (a, b) = (
        package("a", &[("provider", "t")]),
        package("b", &[("provider", "u")]),
    );
    let index = index(vec![catalog("global", "cat", 0, &[a, b])]);
    let list = |labels: &str, fields: &str| list(&index, Some("ns"), labels, fields);
    assert_eq!(list("catalog", "").len(), 2);
    assert!(list("!catalog", "").is_empty());
    assert_eq!(list("provider=t", ""), ["ns/a global/cat"]);
    assert_eq!(
        list("catalog-namespace=global,provider!=t", ""),
        ["ns/b global/cat"]
    );
    assert_eq!(list("", "metadata.name=b"), ["ns/b global/cat"]);
    assert_eq!(list("", "metadata.namespace=ns").len(), 2);
    assert!(list("", "metadata.namespace=global").is_empty());
}

#[test]
fn the_choice_among_packages_of_one_name_is_stable() {
    let a = package("a", &[]);
    let get = |catalogs: Vec<Catalog>| {
        let found = index(catalogs)
            .get("ns", "a")
            .map(|item| item.catalog.facts.key.to_string());
        found.unwrap_or_default()
    };
    let of = |namespace, name, priority| catalog(namespace, name, priority, std::slice::from_ref(&a));
    assert_eq!(get(vec![of("global", "b", 0), of("global", "a", 0)]), "global/a");
    assert_eq!(get(vec![of("global", "a", 0), of("ns", "b", 0)]), "ns/b");
    assert_eq!(get(vec![of("global", "z", 1), of("ns", "b", 0)]), "global/z");
    assert_eq!(get(vec![of("other", "a", 9)]), "");
    assert_eq!(get(vec![]), "");
}

#[test]
fn a_global_package_is_shown_in_the_namespace_that_looks() {
    let index = index(vec![catalog("global", "cat", 0, &[package("a", &[])])]);
    let item = index.get("ns", "a").unwrap();
    assert_eq!(&*item.namespace, "ns");
    assert_eq!(item.labels()["catalog-namespace"], "global");
}

#[test]
fn later_labels_win_and_systems_are_supposed_only_where_nothing_is_said() {
    let mut catalog = catalog(
        "ns",
        "cat",
        0,
        &[package("a", &[("own", "package"), ("provider", "t")])],
    );
    catalog.facts.labels = BTreeMap::from([
        ("own".to_owned(), "source".to_owned()),
        ("catalog".to_owned(), "forged".to_owned()),
        ("kept".to_owned(), "yes".to_owned()),
    ]);
    let item = index(vec![catalog]).get("ns", "a").unwrap();
    assert_eq!(
        serde_json::to_value(item.labels()).unwrap(),
        json!({"own": "package", "kept": "yes", "catalog": "cat", "catalog-namespace": "ns", "provider": "t",
            "operatorframework.io/arch.amd64": "supported", "operatorframework.io/os.linux": "supported"})
    );
}

#[test]
fn systems_and_architectures_that_are_named_stand_alone() {
    for (label, absent, present) in [
        (
            "operatorframework.io/os.windows",
            "operatorframework.io/os.linux",
            "operatorframework.io/arch.amd64",
        ),
        (
            "operatorframework.io/arch.arm",
            "operatorframework.io/arch.amd64",
            "operatorframework.io/os.linux",
        ),
    ] {
        let index = index(vec![catalog(
            "ns",
            "cat",
            0,
            &[package("a", &[(label, "supported")])],
        )]);
        let item = index.get("ns", "a").unwrap();
        let labels = item.labels();
        assert!(labels.contains_key(label) && labels.contains_key(present));
        assert!(!labels.contains_key(absent), "{label}");
    }
}
