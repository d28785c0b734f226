//! Conversion of ConfigMaps to channels and bundles, or to a fault.

use std::collections::BTreeMap;

use olm_fbc::yaml;
use serde_json::{Value, json};

use super::*;

fn crd(plural: &str, versions: &[&str]) -> Value {
    let versions: Vec<_> = versions.iter().map(|name| json!({"name": name})).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.x.io")},
        "spec": {"group": "x.io", "names": {"kind": "Thing", "plural": plural}, "versions": versions},
    })
}

fn csv(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name}, "spec": {"version": version},
    })
}

/// Parses `name@version`, `name@version>replaced`, `name@version>replaced!skipped!skipped`.
fn csvs(text: &str) -> Value {
    let csv = |word: &str| {
        let mut parts = word.split('!');
        let (edge, skips) = (parts.next().unwrap(), parts.collect::<Vec<_>>());
        let (name, replaces) = edge.split_once('>').unwrap_or((edge, ""));
        let (name, version) = name.split_once('@').unwrap();
        let mut csv = csv(name, version);
        csv["spec"]["replaces"] = json!(replaces);
        csv["spec"]["skips"] = json!(skips);
        csv
    };
    text.split_whitespace().map(csv).collect()
}

fn packages(heads: &[(&str, &str)], default: &str) -> Value {
    let channels: Vec<_> = heads
        .iter()
        .map(|(name, csv)| json!({"name": name, "currentCSV": csv}))
        .collect();
    json!([{"packageName": "p", "channels": channels, "defaultChannel": default}])
}

fn convert_lists(crds: &Value, csvs: &Value, packages: &Value) -> Result<Converted, Error> {
    let texts = [crds, csvs, packages].map(|list| yaml::to_string(list).unwrap());
    convert(|key| {
        let at = keys::KEYS.iter().position(|known| *known == key)?;
        Some(texts[at].as_bytes())
    })
}

#[track_caller]
fn fault(crds: &Value, csvs: &Value, packages: &Value) -> String {
    convert_lists(crds, csvs, packages).unwrap_err().to_string()
}

/// Prints `channel: entry entry`, with entries as for [`csvs`] without their version.
fn channels(converted: &Converted) -> Vec<String> {
    let shown = |entry: &ChannelEntry| {
        let skips = entry
            .skips
            .iter()
            .map(|name| format!("!{name}"))
            .collect::<String>();
        let replaces = match entry.replaces.as_str() {
            "" => String::new(),
            name => format!(">{name}"),
        };
        format!(" {}{replaces}{skips}{}", entry.name, entry.skip_range)
    };
    let blobs = converted.blobs.iter().filter_map(|(blob, _)| match blob {
        Blob::Channel(channel) => Some(channel),
        _ => None,
    });
    blobs
        .map(|channel| {
            format!(
                "{}:{}",
                channel.name,
                channel.entries.iter().map(shown).collect::<String>()
            )
        })
        .collect()
}

fn bundles(converted: &Converted) -> Vec<&olm_fbc::schema::Bundle> {
    let bundles = converted.blobs.iter().filter_map(|(blob, _)| match blob {
        Blob::Bundle(bundle) => Some(bundle),
        _ => None,
    });
    bundles.collect()
}

#[test]
fn cat_009_channels_follow_replaces_from_their_current_csv() {
    for (text, heads, expected) in [
        ("a@1.0.0", &[("stable", "a")][..], "stable: a"),
        (
            "a@1.0.0 b@1.1.0>a c@1.2.0>b",
            &[("fast", "c"), ("stable", "b")],
            "fast: c>b b>a a; stable: b>a a",
        ),
        // Skipped versions are offered if they exist.
        (
            "a@1.0.0 b@1.1.0>a c@1.2.0>a!b!gone",
            &[("s", "c")],
            "s: c>a!b!gone a b>a",
        ),
        ("a@1.0.0 b@1.1.0>a c@1.2.0!b", &[("s", "c")], "s: c!b b>a"),
        (
            "a@1.0.0 b@1.1.0>a c@1.2.0!b d@1.3.0>b!c",
            &[("s", "d")],
            "s: d>b!c b>a a c!b",
        ),
        // Rules of file-based catalogs that upstream's loader does not have: versions behind a skipped one are kept, the head may
        // be skipped, and versions may be equal or invalid.
        ("a@1.0.0 b@1.1.0>a c@1.2.0>b!b", &[("s", "c")], "s: c>b!b b>a a"),
        ("a@1.0.0!b b@1.1.0>a", &[("s", "b")], "s: b>a a!b"),
        ("a@1.0.0 b@1.0.0>a", &[("s", "b")], "s: b>a a"),
        ("a@ b@v2>a", &[("s", "b")], "s: b>a a"),
        // A version without a channel is skipped.
        ("a@1.0.0 b@1.1.0>a old@0.1.0", &[("s", "b")], "s: b>a a"),
    ] {
        let converted = convert_lists(&json!([]), &csvs(text), &packages(heads, heads[0].0)).unwrap();
        assert_eq!(channels(&converted).join("; "), expected, "{text}");
    }
}

/// Upstream loads packages one after the other. The only channel of a package is its default, even if the package names another.
#[test]
fn cat_009_the_last_package_of_a_name_and_the_only_channel_count() {
    let package = |name: &str, heads: &[(&str, &str)], default: &str| {
        let mut list = packages(heads, default);
        list[0]["packageName"] = json!(name);
        list[0].take()
    };
    let lists = json!([
        package("PackageDependent", &[("old", "a"), ("s", "a")], "old"),
        package("q", &[("stable", "a"), ("fast", "b"), ("stable", "b")], "stable"),
        package("PackageDependent", &[("myapp-stable", "b")], "stable"),
        {"channels": [{"name": "s", "currentCSV": "a"}]},
    ]);
    let converted = convert_lists(&json!([]), &csvs("a@1.0.0 b@1.1.0"), &lists).unwrap();
    assert_eq!(channels(&converted), ["fast: b", "stable: b", "myapp-stable: b"]);
    let defaults: Vec<_> = converted
        .blobs
        .iter()
        .filter_map(|(blob, _)| match blob {
            Blob::Package(package) => Some((package.name.as_str(), package.default_channel.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(defaults, [("q", "stable"), ("PackageDependent", "myapp-stable")]);
    assert_eq!(
        converted.warnings,
        [
            "package q, channel stable: it is listed again, so its currentCSV is b and not a",
            "packages[3]: skipped, because it has no packageName",
            "packages[0]: skipped, because packages[2] has the same packageName \"PackageDependent\"",
            "skipped, because no channel leads to them: a",
        ]
    );
}

/// The key of a list defines the kind of its objects.
#[test]
fn cat_009_the_type_of_an_object_is_completed() {
    let owner = |api_version: Option<&str>, kind: Option<&str>| {
        let mut owner = csv("a", "1.0.0");
        owner["apiVersion"] = json!(api_version);
        owner["kind"] = json!(kind);
        owner["spec"]["customresourcedefinitions"]["owned"] =
            json!([{"name": "things.x.io", "version": "v1", "kind": "Thing"}]);
        owner
    };
    let v1 = crd("things", &["v1"]);
    let mut bare = v1.clone();
    bare.as_object_mut()
        .unwrap()
        .retain(|key, _| key != "apiVersion" && key != "kind");
    let mut short = v1.clone();
    short["apiVersion"] = json!("v1");
    let mut old = bare.clone();
    old["spec"] = json!({"group": "x.io", "version": "v1", "names": {"kind": "Thing", "plural": "things"}});
    let mut older = v1.clone();
    older["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
    let (full, kind) = (
        Some("operators.coreos.com/v1alpha1"),
        Some("ClusterServiceVersion"),
    );
    for (crd, crd_version) in [
        (&v1, "apiextensions.k8s.io/v1"),
        (&bare, "apiextensions.k8s.io/v1"),
        (&short, "apiextensions.k8s.io/v1"),
        (&old, "apiextensions.k8s.io/v1beta1"),
        (&older, "apiextensions.k8s.io/v1beta1"),
    ] {
        for csv in [
            owner(full, kind),
            owner(Some("v1alpha1"), kind),
            owner(Some("v1"), None),
            owner(None, None),
            owner(Some(""), Some("")),
        ] {
            let converted =
                convert_lists(&json!([crd]), &json!([csv]), &packages(&[("s", "a")], "")).unwrap();
            assert_eq!(converted.warnings, [""; 0]);
            let objects: BTreeMap<String, String> = crate::bundle::object::objects(bundles(&converted)[0])
                .map(|object| {
                    let text = |key: &str| object[key].as_str().unwrap().to_owned();
                    (text("kind"), text("apiVersion"))
                })
                .collect();
            assert_eq!(objects["ClusterServiceVersion"], "operators.coreos.com/v1alpha1");
            assert_eq!(objects["CustomResourceDefinition"], crd_version);
            let gvk = bundles(&converted)[0]
                .properties
                .iter()
                .find(|one| one.kind == "olm.gvk");
            assert_eq!(
                gvk.unwrap().value,
                json!({"group": "x.io", "kind": "Thing", "version": "v1"})
            );
        }
    }
}

#[test]
fn what_is_left_out_is_reported() {
    let mut listed = csvs("a@1.0.0 b@1.1.0>a old@0.1.0");
    listed.as_array_mut().unwrap().extend([json!(null), json!("x")]);
    let role = json!([{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}]);
    let converted = convert_lists(&role, &listed, &packages(&[("s", "b")], "")).unwrap();
    assert_eq!(
        converted.warnings,
        [
            "customResourceDefinitions[0]: skipped, because it is not a CustomResourceDefinition but ClusterRole",
            "clusterServiceVersions[3]: skipped, because it is not a ClusterServiceVersion but null",
            "clusterServiceVersions[4]: skipped, because it is not a ClusterServiceVersion but string",
            "skipped, because no channel leads to them: old"
        ]
    );
}

#[test]
fn cat_009_bundles_carry_their_definitions_and_properties() {
    let mut first = csv("a.v1", "1.0.0");
    first["metadata"]["annotations"] = json!({
        "olm.skipRange": "<1.0.0",
        "olm.properties": r#"[{"type": "olm.maxOpenShiftVersion", "value": "4.9"}]"#,
    });
    first["spec"]["customresourcedefinitions"] = json!({
        "owned": [
            {"name": "things.x.io", "version": "v1", "kind": "Thing"},
            {"name": "things.x.io", "version": "v2", "kind": "Thing"},
        ],
        "required": [{"name": "needs.y.io", "version": "v1", "kind": "Need"}],
    });
    let crds = json!([crd("things", &["v1", "v2"]), crd("others", &["v1"])]);
    let converted = convert_lists(&crds, &json!([first]), &packages(&[("s", "a.v1")], "")).unwrap();
    assert_eq!(channels(&converted), ["s: a.v1<1.0.0"]);
    let [bundle] = bundles(&converted)[..] else {
        panic!("one bundle")
    };
    assert_eq!((bundle.package.as_str(), bundle.image.as_str()), ("p", ""));
    let kinds = |kind: &str| bundle.properties.iter().filter(|one| one.kind == kind).count();
    let property = |kind: &str| {
        bundle
            .properties
            .iter()
            .find(|one| one.kind == kind)
            .unwrap()
            .value
            .clone()
    };
    assert_eq!(
        property("olm.package"),
        json!({"packageName": "p", "version": "1.0.0"})
    );
    assert_eq!(kinds("olm.gvk"), 2);
    assert_eq!(
        property("olm.gvk.required"),
        json!({"group": "y.io", "kind": "Need", "version": "v1"})
    );
    assert_eq!(property("olm.maxOpenShiftVersion"), json!("4.9"));
    let objects: Vec<Value> = crate::bundle::object::objects(bundle).collect();
    let mut names: Vec<_> = objects
        .iter()
        .map(|object| object["metadata"]["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["a.v1", "things.x.io"]);
}

#[test]
fn cat_009_content_that_is_no_catalog_is_reported() {
    let (none, one) = (json!([]), csvs("a@1.0.0"));
    let stable = packages(&[("s", "a")], "");
    let mut owner = one.clone();
    owner[0]["spec"]["customresourcedefinitions"]["owned"] =
        json!([{"name": "things.x.io", "version": "v3", "kind": "Thing"}]);
    let mut substitute = one.clone();
    substitute[0]["metadata"]["annotations"] = json!({"olm.substitutesFor": "b"});
    let (once, twice) = (
        json!([crd("things", &["v1"])]),
        json!([crd("things", &["v1"]), crd("things", &["v1", "v2"])]),
    );
    for (crds, csvs, packages, expected) in [
        (
            &twice,
            &one,
            &stable,
            "can't add the same CRD twice in one configmap: things.x.io/v1",
        ),
        (
            &none,
            &csvs("a@1.0.0 a@1.0.1"),
            &stable,
            "can't add the same CSV twice in one configmap: a",
        ),
        (
            &once,
            &owner,
            &stable,
            "couldn't find owned CRD in crd list: a owns things.x.io/v3 (Thing)",
        ),
        (
            &none,
            &csvs("a@1.0.0>b b@1.0.0>a"),
            &stable,
            "Cycle detected, b replaces a",
        ),
        (&none, &csvs("a@1.0.0>a"), &stable, "Cycle detected, a replaces a"),
        (
            &none,
            &csvs("a@1.0.0>gone"),
            &stable,
            "Invalid bundle a, replaces nonexistent bundle gone",
        ),
        (
            &none,
            &one,
            &packages(&[("s", "b")], ""),
            "package p, channel s: couldn't find currentCSV b in csv list",
        ),
        (
            &none,
            &one,
            &packages(&[("s", "a"), ("t", "a")], ""),
            "no default channel specified for p",
        ),
        (
            &none,
            &one,
            &packages(&[], ""),
            "no default channel specified for p",
        ),
        (
            &none,
            &one,
            &packages(&[("s", "a"), ("t", "a")], "u"),
            "no default channel specified for p",
        ),
        (
            &none,
            &one,
            &json!(["p"]),
            "packages[0]: expected an object, found string",
        ),
        (
            &none,
            &one,
            &json!({"packageName": "p"}),
            "packages: expected a list, found object",
        ),
        (
            &none,
            &substitute,
            &stable,
            "clusterServiceVersions[0]: annotation olm.substitutesFor is not supported in a configmap",
        ),
    ] {
        assert_eq!(fault(crds, csvs, packages), expected);
    }
}

fn convert_texts(texts: [Option<&str>; 3]) -> String {
    let text = |key: &str| {
        let at = keys::KEYS.iter().position(|known| *known == key)?;
        texts[at].map(str::as_bytes)
    };
    match convert(text) {
        Ok(converted) => format!("{} blobs", converted.blobs.len()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn texts_that_are_no_lists_are_reported() {
    for (texts, expected) in [
        (
            [None, Some(""), Some("")],
            "couldn't find expected key customResourceDefinitions in configmap",
        ),
        (
            [Some(""), None, Some("")],
            "couldn't find expected key clusterServiceVersions in configmap",
        ),
        (
            [Some(""), Some(""), None],
            "couldn't find expected key packages in configmap",
        ),
        ([Some(""), Some(""), Some("")], "0 blobs"),
        (
            [Some("a: ["), Some(""), Some("")],
            "customResourceDefinitions: invalid YAML: line 1: ",
        ),
        ([Some(""), Some(""), Some("---\n[]\n---\n[]\n")], "0 blobs"),
    ] {
        let told = convert_texts(texts);
        assert!(told.starts_with(expected), "{told}");
    }
}

/// Four endless or growing inputs.
#[test]
fn a_catalog_that_grows_when_it_is_read_is_refused() {
    // Each line repeats the previous one nine times.
    let mut bomb = "- &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for depth in 1..10 {
        let before = format!("*a{}", depth - 1);
        bomb += &format!("- &a{depth} [{}]\n", [before.as_str(); 9].join(", "));
    }
    let told = convert_texts([Some(&bomb), Some(""), Some("")]);
    assert!(
        told.starts_with("customResourceDefinitions: line ") && told.contains("alias"),
        "{told}"
    );

    let large = " ".repeat(keys::MAX_BYTES / 2 + 1);
    assert_eq!(
        convert_texts([Some(&large), Some(&large), Some("")]),
        "the catalog in the configmap is larger than 8388608 bytes"
    );

    // A definition is copied into every bundle that owns it.
    let mut wide = crd("things", &["v1"]);
    wide["spec"]["description"] = json!("x".repeat(1 << 20));
    let owner = |number: usize| {
        let mut csv = csv(&format!("a{number}"), &format!("1.0.{number}"));
        csv["spec"]["customresourcedefinitions"]["owned"] =
            json!([{"name": "things.x.io", "version": "v1", "kind": "Thing"}]);
        csv["spec"]["replaces"] = json!(if number == 0 {
            String::new()
        } else {
            format!("a{}", number - 1)
        });
        csv
    };
    let owners: Value = (0..64).map(owner).collect();
    let told = fault(&json!([wide]), &owners, &packages(&[("s", "a63")], ""));
    assert_eq!(
        told,
        "the bundles of the configmap are larger than 67108864 bytes together"
    );

    // A chain is copied into every channel that begins with its head.
    let chain: Value = (0..200)
        .map(|number| {
            let mut csv = csv(&format!("a{number}"), &format!("1.0.{number}"));
            csv["spec"]["replaces"] = json!(if number == 0 {
                String::new()
            } else {
                format!("a{}", number - 1)
            });
            csv
        })
        .collect();
    let names: Vec<String> = (0..101).map(|number| format!("c{number}")).collect();
    let heads: Vec<_> = names.iter().map(|name| (name.as_str(), "a199")).collect();
    let told = fault(&json!([]), &chain, &packages(&heads, "c0"));
    assert_eq!(
        told,
        "the channels of the configmap have more than 20000 entries and skipped names together"
    );
}

/// A version's references are copied into each of its channels.
#[test]
fn what_channels_repeat_is_bounded() {
    let channels = |count: usize, current: &str| {
        let channels: Vec<Value> = (0..count)
            .map(|number| json!({"name": format!("c{number}"), "currentCSV": current}))
            .collect();
        json!([{"packageName": "p", "channels": channels, "defaultChannel": "c0"}])
    };
    let mut skipping = csv("a", "1.0.0");
    skipping["spec"]["skips"] = (0..10_000).map(|number| format!("gone{number}")).collect();
    let fine = convert_lists(&json!([]), &json!([skipping]), &channels(1, "a"));
    assert_eq!(fine.unwrap().blobs.len(), 3);
    assert_eq!(
        fault(&json!([]), &json!([skipping]), &channels(1000, "a")),
        "the channels of the configmap have more than 20000 entries and skipped names together"
    );

    let larger = "the bundles of the configmap are larger than 67108864 bytes together";
    let long = "x".repeat(100_000);
    for (skips, range, replaced) in [
        (json!([long]), "", ""),
        (json!([]), long.as_str(), ""),
        (json!([]), "", long.as_str()),
    ] {
        let mut first = csv("a", "1.0.0");
        first["spec"]["skips"] = skips;
        first["spec"]["replaces"] = json!(replaced);
        first["metadata"]["annotations"] = json!({"olm.skipRange": range});
        let versions = json!([first, csv(&long, "0.9.0")]);
        assert_eq!(fault(&json!([]), &versions, &channels(1000, "a")), larger);
    }
    let named = json!([csv("a", "1.0.0")]);
    let mut package = channels(1000, "a");
    package[0]["packageName"] = json!(long);
    assert_eq!(fault(&json!([]), &named, &package), larger);
}
