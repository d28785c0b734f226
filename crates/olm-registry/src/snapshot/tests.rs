use super::*;

fn property(kind: &str, value: &str) -> proto::Property {
    proto::Property {
        r#type: kind.to_owned(),
        value: value.to_owned(),
    }
}

fn dependency(kind: &str, value: &str) -> proto::Dependency {
    proto::Dependency {
        r#type: kind.to_owned(),
        value: value.to_owned(),
    }
}

fn api(kind: &str) -> proto::GroupVersionKind {
    proto::GroupVersionKind {
        group: "g".into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: "plural".into(),
    }
}

fn bundle(channel: &str, name: &str) -> proto::Bundle {
    proto::Bundle {
        csv_name: name.into(),
        package_name: "p".into(),
        channel_name: channel.into(),
        bundle_path: "quay.io/x/p:1".into(),
        version: "v1.2".into(),
        skip_range: "<1.2.0".into(),
        properties: vec![property(
            "olm.package",
            r#"{"packageName":"p","version":"1.2.0"}"#,
        )],
        replaces: "p.v1".into(),
        skips: vec!["p.v0".into()],
        ..proto::Bundle::default()
    }
}

fn package() -> proto::Package {
    proto::Package {
        name: "p".into(),
        default_channel_name: "stable".into(),
        channels: ["stable", "fast"]
            .map(|name| proto::Channel {
                name: name.into(),
                csv_name: "p.v2".into(),
                deprecation: (name == "fast").then(|| proto::Deprecation {
                    message: "old".into(),
                }),
            })
            .to_vec(),
        deprecation: None,
    }
}

fn fetched(bundles: Vec<proto::Bundle>) -> Fetched {
    let mut builder = Builder::default();
    for bundle in bundles {
        builder.add_bundle(bundle);
    }
    builder.add_package(package());
    builder.finish()
}

fn properties(bundle: proto::Bundle) -> Vec<String> {
    let fetched = fetched(vec![bundle]);
    assert_eq!(fetched.skipped, Vec::<String>::new());
    fetched.snapshot.entries[0]
        .properties
        .iter()
        .map(|property| format!("{} {}", property.kind, property.value))
        .collect()
}

#[test]
fn a_bundle_becomes_an_entry() {
    let fetched = fetched(vec![bundle("stable", "p.v2"), bundle("fast", "p.v2")]);
    let [fast, stable] = &fetched.snapshot.entries[..] else {
        panic!("two entries")
    };
    assert_eq!((&*fast.channel, fast.default_channel), ("fast", false));
    assert_eq!((&*stable.channel, stable.default_channel), ("stable", true));
    assert_eq!(stable.version, Some(Version::new(1, 2, 0)));
    assert_eq!(stable.replaces.as_deref(), Some("p.v1"));
    assert_eq!(&*stable.skips[0], "p.v0");
    assert!(
        stable
            .skip_range
            .as_ref()
            .is_some_and(|range| range.contains(&Version::new(1, 1, 9)))
    );
    assert_eq!(stable.bundle_path.as_deref(), Some("quay.io/x/p:1"));
    assert_eq!((&stable.inline, &stable.deprecation), (&None, &None));
    assert_eq!(
        fast.deprecation
            .as_ref()
            .and_then(|deprecation| deprecation.channel.clone())
            .as_deref(),
        Some("old")
    );
    assert!(
        Arc::ptr_eq(&fast.properties, &stable.properties),
        "equal lists are stored once"
    );
    assert!(Arc::ptr_eq(&fast.name, &stable.name));
    assert!(Arc::ptr_eq(&fast.provided_apis, &stable.provided_apis));
    assert!(Arc::ptr_eq(&fast.skips, &stable.skips));
    let texts = [fast, stable].map(|entry| entry.bundle_path.as_ref().unwrap().as_ptr());
    assert_eq!(texts[0], texts[1]);
    let ranges = [fast, stable].map(|entry| Arc::as_ptr(entry.skip_range.as_ref().unwrap()));
    assert_eq!(ranges[0], ranges[1]);
    assert_eq!(fetched.snapshot.packages["p"].channels.len(), 2);
}

/// The limit on a namespace's catalogs uses this count.
#[test]
fn whatever_a_catalog_can_make_large_counts_and_what_bundles_share_counts_once() {
    let long = "x".repeat(100_000);
    let plain = fetched(vec![bundle("stable", "a.v1")]).bytes;
    type Change = fn(&mut proto::Bundle, &str);
    let large: [(&str, Change); 6] = [
        ("properties", |bundle, text| {
            bundle.properties.push(property("x.large", &format!("{text:?}")));
        }),
        ("provided APIs", |bundle, text| {
            bundle.provided_apis.push(api(text));
        }),
        ("skips", |bundle, text| {
            bundle.skips.push(text.to_owned());
        }),
        ("image", |bundle, text| bundle.bundle_path = text.to_owned()),
        ("text of the version", |bundle, text| {
            bundle.version = format!("1.2.0+{text}");
        }),
        ("parts of the version", |bundle, text| {
            bundle.version = format!("1.2.0-{}x", "x.".repeat(text.len() / 50));
        }),
    ];
    for (what, change) in large {
        let with = |names: &[&str]| {
            let bundles = names.iter().map(|name| {
                let mut bundle = bundle("stable", name);
                change(&mut bundle, &long);
                bundle
            });
            fetched(bundles.collect()).bytes
        };
        let one = with(&["a.v1"]);
        assert!(one > long.len() + plain - 100, "{what}: {plain} {one}");
        if what == "properties" {
            let two = with(&["a.v1", "a.v2"]);
            assert!(two < one + 10_000, "{what}: {one} {two}");
        }
    }
}

#[test]
fn broken_versions_and_ranges_count_as_none() {
    let mut broken = bundle("stable", "p.v2");
    broken.version = "latest".into();
    broken.skip_range = "whatever".into();
    let fetched = fetched(vec![broken]);
    assert_eq!(fetched.snapshot.entries[0].version, None);
    assert_eq!(fetched.snapshot.entries[0].skip_range, None);
}

#[test]
fn dependencies_are_appended_as_requirements() {
    let mut with = bundle("stable", "p.v2");
    with.dependencies = vec![
        dependency("olm.gvk", r#"{"group":"g","kind":"K","version":"v1"}"#),
        dependency("olm.package", r#"{"packageName":"q","version":">1.0.0"}"#),
        dependency("olm.label", r#"{"label":"l"}"#),
        dependency("olm.constraint", r#"{"failureMessage":"x"}"#),
        dependency("unknown", "1"),
    ];
    assert_eq!(
        properties(with),
        [
            r#"olm.package {"packageName":"p","version":"1.2.0"}"#,
            r#"olm.gvk.required {"group":"g","version":"v1","kind":"K"}"#,
            r#"olm.package.required {"packageName":"q","versionRange":">1.0.0"}"#,
            r#"olm.label.required {"label":"l"}"#,
            r#"olm.constraint {"failureMessage":"x"}"#,
        ]
    );
}

/// The catalog's value is kept, whether it is meaningful or not.
#[test]
fn ocp_001_the_last_version_of_openshift_stays_as_the_catalog_has_it() {
    let mut limited = bundle("stable", "p.v2");
    limited
        .properties
        .push(property("olm.maxOpenShiftVersion", r#""4.18""#));
    assert_eq!(
        properties(limited),
        [
            r#"olm.package {"packageName":"p","version":"1.2.0"}"#,
            r#"olm.maxOpenShiftVersion "4.18""#,
        ]
    );
}

#[test]
fn without_properties_they_are_made_from_the_api_lists() {
    let mut bare = bundle("stable", "p.v2");
    bare.properties.clear();
    bare.provided_apis = vec![api("Z"), api("A")];
    bare.required_apis = vec![api("R")];
    assert_eq!(
        properties(bare),
        [
            r#"olm.gvk {"group":"g","kind":"A","version":"v1"}"#,
            r#"olm.gvk {"group":"g","kind":"Z","version":"v1"}"#,
            r#"olm.gvk.required {"group":"g","version":"v1","kind":"R"}"#,
            r#"olm.package {"packageName":"p","version":"v1.2"}"#,
        ]
    );
}

#[test]
fn a_broken_dependency_leaves_the_bundle_out() {
    let mut broken = bundle("stable", "p.v2");
    broken.dependencies = vec![dependency("olm.gvk", "{")];
    let fetched = fetched(vec![broken, bundle("stable", "p.v3")]);
    assert_eq!(fetched.snapshot.entries.len(), 1);
    assert_eq!(fetched.skipped.len(), 1);
    assert!(
        fetched.skipped[0].starts_with(
            "bundle \"p.v2\" of package \"p\", channel \"stable\": failed to unmarshal legacy 'olm.gvk' dependency: "
        ),
        "{:?}",
        fetched.skipped
    );
}

/// The bundle itself is offered all the same.
#[test]
fn an_unreadable_skip_range_is_named() {
    let with_range = |name: &str, range: &str| {
        let mut ranged = bundle("stable", name);
        range.clone_into(&mut ranged.skip_range);
        ranged
    };
    let fetched = fetched(vec![
        with_range("p.v2", "<v2.9.0"),
        with_range("p.v3", "<2.9.0"),
        with_range("p.v4", ""),
    ]);
    assert_eq!(fetched.snapshot.entries.len(), 3);
    assert_eq!(
        fetched.skipped,
        [
            "invalid skipRange \"<v2.9.0\" of bundle \"p.v2\" of package \"p\", channel \"stable\": no version is upgraded by it"
        ]
    );
}

/// Only a hash of inline manifests is kept, once for all channels.
#[test]
fn manifests_of_a_bundle_without_image_are_known_by_their_hash_and_not_kept() {
    let inline = |channel: &str, object: String| {
        let mut inline = bundle(channel, "p.v2");
        inline.bundle_path.clear();
        inline.csv_json.clone_from(&object);
        inline.object = vec![object];
        inline
    };
    let small = fetched(vec![inline("stable", "{}".to_owned())]);
    let entry = &small.snapshot.entries[0];
    assert_eq!(entry.bundle_path, None);
    assert_eq!(
        entry.inline.as_deref(),
        Some(&manifest_digest(&["{}".to_owned()]))
    );
    let text = "x".repeat(100_000);
    let large = fetched(vec![inline("stable", text.clone()), inline("fast", text)]);
    assert!(
        large.bytes < small.bytes + 5_000,
        "{} {}",
        large.bytes,
        small.bytes
    );
    let [fast, stable] = &large.snapshot.entries[..] else {
        panic!("two entries")
    };
    let digests = [fast, stable].map(|entry| Arc::as_ptr(entry.inline.as_ref().unwrap()));
    assert_eq!(digests[0], digests[1]);
    assert_ne!(
        manifest_digest(&["a".to_owned()]),
        manifest_digest(&["b".to_owned()])
    );
    assert_ne!(
        manifest_digest(&["ab".to_owned(), "c".to_owned()]),
        manifest_digest(&["a".to_owned(), "bc".to_owned()])
    );
}

#[test]
fn bundles_of_unknown_packages_are_left_out() {
    let mut builder = Builder::default();
    builder.add_bundle(bundle("stable", "p.v2"));
    assert_eq!(builder.package_names().len(), 1);
    assert!(builder.finish().snapshot.entries.is_empty());
}
