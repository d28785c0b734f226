use olm_testing::shared::shared_path;
use serde_json::{Value, json};

use super::*;

/// Returns a head with this name, with `more` in its spec and these labels.
fn head(name: &str, more: Value, labels: &Value) -> Arc<Head> {
    let mut spec = json!({"displayName": "Demo", "version": "1.0.0", "provider": {"name": "t"}});
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    let csv = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
    Arc::new(Head::parse(&csv.to_string()).unwrap())
}

fn channel(head: &Arc<Head>) -> Channel {
    Channel {
        head: Arc::clone(head),
        entries: Entries::default(),
    }
}

fn registry_package(default: &str, channels: &[(&str, Option<&str>)]) -> proto::Package {
    let deprecation = |message: &Option<&str>| {
        message.map(|message| proto::Deprecation {
            message: message.to_owned(),
        })
    };
    proto::Package {
        name: "demo".to_owned(),
        default_channel_name: default.to_owned(),
        channels: channels
            .iter()
            .map(|(name, message)| proto::Channel {
                name: (*name).to_owned(),
                csv_name: String::new(),
                deprecation: deprecation(message),
            })
            .collect(),
        deprecation: None,
    }
}

fn channels<const N: usize>(channels: [(&str, Channel); N]) -> BTreeMap<String, Channel> {
    channels.map(|(name, channel)| (name.to_owned(), channel)).into()
}

fn told(package: &Package) -> Value {
    let text: Vec<u8> = package.content.concat();
    serde_json::from_str(&format!("{{{}}}", String::from_utf8(text).unwrap())).unwrap()
}

fn described(head: &Head) -> Value {
    serde_json::from_slice(&head.description).unwrap()
}

fn bundle(channel: &str, name: &str, version: &str) -> proto::Bundle {
    proto::Bundle {
        package_name: "demo".to_owned(),
        channel_name: channel.to_owned(),
        csv_name: name.to_owned(),
        version: version.to_owned(),
        ..proto::Bundle::default()
    }
}

#[test]
fn pkg_003_a_package_is_described_as_upstream_does() {
    let Some(path) = shared_path("golden/packagemanifests.json") else {
        return;
    };
    let golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let golden = &golden["items"][0]["status"];
    let csv = json!({
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "demo.v1.0.0", "annotations": {"capabilities": "Basic Install"}},
        "spec": {
            "displayName": "Demo", "version": "1.0.0", "maturity": "alpha", "provider": {"name": "t"},
            "customresourcedefinitions": {"owned": [{"name": "demos.example.com", "version": "v1", "kind": "Demo",
                "displayName": "Demo", "description": "d", "resources": [{"kind": "Pod"}]}]},
            "installModes": golden["channels"][0]["currentCSVDesc"]["installModes"],
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "demo", "spec": {"selector": {},
                "template": {"spec": {"containers": [{"name": "c", "image": "192.168.77.1:5000/busybox:latest"}]}}}}]}},
        },
    });
    let head = Arc::new(Head::parse(&csv.to_string()).unwrap());
    let mut entries = EntryLists::default();
    entries.add(bundle("stable", "demo.v1.0.0", "1.0.0"));
    let stable = Channel {
        head,
        entries: entries.take("demo", "stable"),
    };
    let package = Package::new(
        registry_package("stable", &[("stable", None)]),
        &channels([("stable", stable)]),
    );
    let package = package.unwrap();
    let told = told(&package);
    for (field, value) in told.as_object().unwrap() {
        assert_eq!(value, &golden[field], "{field}");
    }
    let of_catalog = [
        "catalogSource",
        "catalogSourceDisplayName",
        "catalogSourceNamespace",
        "catalogSourcePublisher",
    ];
    let fields = golden.as_object().unwrap().keys().map(String::as_str);
    let of_package: Vec<&str> = fields.filter(|field| !of_catalog.contains(field)).collect();
    let own: Vec<&str> = told.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(own, of_package);
    assert_eq!(package.labels["provider"], "t");
    assert_eq!(package.labels["provider-url"], "");
}

#[test]
fn pkg_002_channels_are_listed_by_name_with_their_heads_and_the_default() {
    let (old, new) = (
        head("demo.v1", json!({}), &json!({})),
        head("demo.v2", json!({}), &json!({})),
    );
    let known = channels([("beta", channel(&new)), ("alpha", channel(&old))]);
    let package = Package::new(
        registry_package("alpha", &[("beta", None), ("alpha", None)]),
        &known,
    )
    .unwrap();
    let told = told(&package);
    assert_eq!(told["defaultChannel"], "alpha");
    let heads: Vec<_> = told["channels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|channel| (channel["name"].clone(), channel["currentCSV"].clone()))
        .collect();
    assert_eq!(
        heads,
        [
            (json!("alpha"), json!("demo.v1")),
            (json!("beta"), json!("demo.v2"))
        ]
    );
    assert_eq!(told["channels"][0]["entries"], Value::Null);
}

#[test]
fn a_channel_without_head_is_left_out_and_the_first_other_one_counts() {
    let good = head("demo.v1", json!({}), &json!({"from": "good"}));
    let listed = registry_package("stable", &[("stable", None), ("beta", None), ("alpha", None)]);
    let known = channels([("beta", channel(&good)), ("alpha", channel(&good))]);
    let package = Package::new(listed.clone(), &known).unwrap();
    let told = told(&package);
    assert_eq!(told["defaultChannel"], "alpha");
    assert_eq!(told["channels"].as_array().unwrap().len(), 2);
    assert_eq!(package.labels["from"], "good");
    let none = Package::new(listed, &BTreeMap::new()).unwrap_err();
    assert_eq!(none.to_string(), "packagemanifest has no valid channels");
}

#[test]
fn without_a_default_channel_the_first_counts_and_there_is_no_icon() {
    let icon = json!({"icon": [{"base64data": "aGVsbG8=", "mediatype": "image/png"}]});
    let head = head("demo.v1", icon, &json!({"from": "alpha"}));
    let known = channels([("alpha", channel(&head))]);
    let package = Package::new(registry_package("", &[("alpha", None)]), &known).unwrap();
    assert_eq!(told(&package)["defaultChannel"], "");
    assert_eq!(package.labels["from"], "alpha");
    assert_eq!(package.icon, None);
    let package = Package::new(registry_package("alpha", &[("alpha", None)]), &known).unwrap();
    let icon = package.icon.unwrap();
    assert_eq!(icon.tag, "demo.alpha.demo.v1");
    assert_eq!(&icon.icon.data[..], b"hello");
    assert!(
        !String::from_utf8(head.description.to_vec())
            .unwrap()
            .contains("aGVsbG8")
    );
}

#[test]
fn dpr_010_deprecations_are_reported_at_their_place() {
    let head = head("demo.v1", json!({}), &json!({}));
    let mut entries = EntryLists::default();
    entries.add(bundle("alpha", "demo.v1", "1.0.0"));
    entries.add(proto::Bundle {
        deprecation: Some(proto::Deprecation {
            message: "old version".to_owned(),
        }),
        ..bundle("alpha", "demo.v0", "0.1.0")
    });
    let alpha = Channel {
        head: Arc::clone(&head),
        entries: entries.take("demo", "alpha"),
    };
    let mut listed = registry_package("alpha", &[("alpha", Some("old channel")), ("beta", None)]);
    listed.deprecation = Some(proto::Deprecation {
        message: "old package".to_owned(),
    });
    let known = channels([("alpha", alpha), ("beta", channel(&head))]);
    let told = told(&Package::new(listed, &known).unwrap());
    assert_eq!(told["deprecation"]["message"], "old package");
    assert_eq!(told["channels"][0]["deprecation"]["message"], "old channel");
    assert_eq!(
        told["channels"][0]["entries"],
        json!([{"name": "demo.v1", "version": "1.0.0"},
            {"name": "demo.v0", "version": "0.1.0", "deprecation": {"message": "old version"}}])
    );
    assert!(told["channels"][1].get("deprecation").is_none());
    let plain = Package::new(registry_package("beta", &[("beta", None)]), &known).unwrap();
    assert!(self::told(&plain).get("deprecation").is_none());
}

#[test]
fn versions_are_listed_newest_first() {
    let mut lists = EntryLists::default();
    for (name, version) in [
        ("six", "0.6.1"),
        ("nine-two", "0.9.2"),
        ("none", ""),
        ("ten", "0.10.0"),
        ("nine", "0.9.0"),
        ("bad", "v1"),
        ("pre", "0.9.2-rc1"),
    ] {
        lists.add(bundle("stable", name, version));
    }
    lists.add(bundle("other", "six", "0.6.1"));
    let gone = proto::Property {
        r#type: "olm.deprecated".to_owned(),
        value: "{}".to_owned(),
    };
    lists.add(proto::Bundle {
        properties: vec![gone],
        ..bundle("stable", "gone", "9.9.9")
    });
    let names = |lists: &mut EntryLists, channel| -> Vec<String> {
        lists
            .take("demo", channel)
            .0
            .into_iter()
            .map(|entry| entry.name)
            .collect()
    };
    assert_eq!(
        names(&mut lists, "stable"),
        ["ten", "nine-two", "pre", "nine", "six", "bad", "none"]
    );
    assert_eq!(names(&mut lists, "other"), ["six"]);
    assert!(names(&mut lists, "absent").is_empty());
}

#[test]
fn what_is_kept_of_a_version_is_counted() {
    let mut lists = EntryLists::default();
    let first = lists.add(bundle("stable", "demo.v1", "1.0.0"));
    let plain = lists.add(bundle("stable", "demo.v1", "1.0.0"));
    let deprecated = lists.add(proto::Bundle {
        deprecation: Some(proto::Deprecation {
            message: "m".repeat(1000),
        }),
        ..bundle("stable", "demo.v1", "1.0.0")
    });
    assert_eq!(deprecated, plain + 1000);
    let named = lists.add(proto::Bundle {
        package_name: "p".repeat(1000),
        ..bundle("stable", "demo.v1", "1.0.0")
    });
    assert!(named > plain + 900, "{named}");
    // Room for four entries, a map and its node.
    assert!(first > plain + 1000, "{first}");
    let channel = lists.add(bundle("fast", "demo.v1", "1.0.0"));
    assert!(first > channel && channel > plain + 400, "{channel}");
}

/// Returns the counted bytes of these entries; `name` chooses the list of each.
fn counted(count: usize, name: impl Fn(usize) -> (String, String)) -> usize {
    let mut lists = EntryLists::default();
    let add = |number: usize| {
        let (package_name, channel_name) = name(number);
        lists.add(proto::Bundle {
            package_name,
            channel_name,
            ..bundle("", "demo.v1", "1.0.0")
        })
    };
    (0..count).map(add).sum()
}

/// Counts are slightly too high, so that limits hold: figures of a 64-bit machine.
#[test]
fn lists_of_versions_are_counted_as_they_are() {
    let each = |total: usize| total / 10_000;
    let one_list = each(counted(10_000, |_| ("p".to_owned(), "c".to_owned())));
    let channels = each(counted(10_000, |number| ("p".to_owned(), number.to_string())));
    let packages = each(counted(10_000, |number| (number.to_string(), "c".to_owned())));
    let entry = size_of::<ChannelEntry>();
    assert!(
        (entry..=2 * entry + ENTRY_BYTES + 20).contains(&one_list),
        "{one_list}"
    );
    assert!(channels > 4 * entry + ENTRY_BYTES, "{channels}");
    assert!(packages > channels + 11 * 48, "{packages}");
}

#[test]
fn labels_of_the_head_stand_above_its_provider() {
    let provider = json!({"provider": {"name": "Red Hat", "url": "https://example.com"}});
    let plain = head("demo.v1", provider.clone(), &json!({"projected": "yes"}));
    let labels = labels(&plain);
    assert_eq!(labels["provider"], "Red Hat");
    assert_eq!(labels["provider-url"], "https://example.com");
    assert_eq!(labels["projected"], "yes");
    let own = head("demo.v1", provider, &json!({"provider": "own"}));
    assert_eq!(self::labels(&own)["provider"], "own");
}

#[test]
fn images_are_those_listed_and_those_run_each_once() {
    let pod = json!({"initContainers": [{"name": "i", "image": "init"}],
        "containers": [{"name": "c", "image": "run"}, {"name": "d", "image": "listed"}, {"name": "e"}]});
    let run = json!({"strategy": "deployment", "spec": {"deployments": [
        {"name": "demo", "spec": {"selector": {}, "template": {"spec": pod}}},
        {"name": "broken", "spec": {"replicas": "many"}},
        {"name": "empty", "spec": {"selector": {}, "template": {}}},
    ]}});
    let listed = json!([{"name": "a", "image": "listed"}, {"name": "b", "image": ""}]);
    let head = head(
        "demo.v1",
        json!({"install": run, "relatedImages": listed}),
        &json!({}),
    );
    assert_eq!(
        described(&head)["relatedImages"],
        json!(["init", "listed", "run"])
    );
}

#[test]
fn an_install_strategy_that_nobody_knows_ends_nothing() {
    let unknown =
        json!({"install": {"strategy": "magic"}, "relatedImages": [{"name": "a", "image": "listed"}]});
    let head = head("demo.v1", unknown, &json!({}));
    assert_eq!(described(&head)["relatedImages"], json!(["listed"]));
}

#[test]
fn versions_are_read_tolerantly_and_none_is_zero() {
    for (written, expected) in [
        (json!("v1.2"), "1.2.0"),
        (json!("1.0.0-rc1"), "1.0.0-rc1"),
        (Value::Null, "0.0.0"),
    ] {
        let head = head("demo.v1", json!({"version": written}), &json!({}));
        assert_eq!(described(&head)["version"], expected);
    }
    let broken = json!({"metadata": {"name": "x"}, "spec": {"version": "one"}});
    let refused = |csv: &str| Head::parse(csv).unwrap_err();
    assert_eq!(refused(&broken.to_string()), "invalid version \"one\"");
    assert!(refused("{").starts_with("the ClusterServiceVersion is not valid JSON: "));
    assert!(Head::parse(r#"{"spec": {"keywords": 7}}"#).is_err());
}

/// YAML 1.1 reads `displayName: N` as false. Installing it names the field, if it is found at all.
#[test]
fn a_text_that_yaml_read_as_a_boolean_or_number_hides_no_package() {
    let spec = json!({"displayName": false, "maturity": 1.5, "version": 2});
    let told = described(&head("demo.v1", spec, &json!({})));
    assert_eq!(
        [&told["displayName"], &told["maturity"], &told["version"]],
        ["false", "1.5", "2.0.0"]
    );
    assert_eq!(told["provider"]["name"], "t");
}

#[test]
fn only_identifying_fields_of_apis_are_listed() {
    let definition = json!({"name": "a.example.com", "version": "v1", "kind": "A", "description": "",
        "specDescriptors": [{"path": "x"}], "unknown": 1, "group": "example.com"});
    let service = json!({"name": "b", "group": "g", "version": "v1", "kind": "B", "deploymentName": "d",
        "containerPort": 443, "displayName": "Bee"});
    let apis = json!({"customresourcedefinitions": {"required": [definition]},
        "apiservicedefinitions": {"owned": [service]},
        "nativeAPIs": [{"group": "g", "version": "v1", "kind": "N", "name": "n.g"}]});
    let told = described(&head("demo.v1", apis, &json!({})));
    assert_eq!(
        told["customresourcedefinitions"],
        json!({"required": [{"name": "a.example.com", "version": "v1", "kind": "A"}]})
    );
    assert_eq!(
        told["apiservicedefinitions"],
        json!({"owned": [{"name": "b", "group": "g", "version": "v1", "kind": "B", "displayName": "Bee"}]})
    );
    assert_eq!(
        told["nativeApis"],
        json!([{"group": "g", "version": "v1", "kind": "N"}])
    );
}

#[test]
fn channels_with_the_same_head_share_what_it_says() {
    let head = head(
        "demo.v1",
        json!({"description": "long ".repeat(1000)}),
        &json!({}),
    );
    let known = channels([("alpha", channel(&head)), ("beta", channel(&head))]);
    let package = Package::new(
        registry_package("alpha", &[("alpha", None), ("beta", None)]),
        &known,
    )
    .unwrap();
    let shared = package
        .content
        .iter()
        .filter(|piece| piece.as_ptr() == head.description.as_ptr());
    assert_eq!(shared.count(), 2);
}

#[test]
fn what_can_never_be_installed_is_not_read() {
    let csv = |length: usize| {
        format!(
            "{{\"metadata\": {{\"name\": \"x\"}}, \"spec\": {{\"description\": \"{}\"}}}}",
            "d".repeat(length)
        )
    };
    assert!(Head::parse(&csv(1 << 20)).is_ok());
    let refused = Head::parse(&csv(crate::limits::CSV_BYTES)).unwrap_err();
    assert!(refused.starts_with("the ClusterServiceVersion has more than "));
}

/// Channels may share a head: it is kept once, but written for each channel.
#[test]
fn a_package_that_is_more_than_one_answer_is_left_out() {
    let large = head(
        "demo.v1",
        json!({"description": "x".repeat(PACKAGE_MANIFEST_BYTES / 3)}),
        &json!({}),
    );
    let package = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("c{number}")).collect();
        let listed: Vec<(&str, Option<&str>)> = names.iter().map(|name| (name.as_str(), None)).collect();
        let known = names.iter().map(|name| (name.clone(), channel(&large))).collect();
        Package::new(registry_package("c0", &listed), &known)
    };
    assert!(package(2).is_ok());
    assert!(package(3).unwrap_err().starts_with("its PackageManifest has "));
}

#[test]
fn what_channels_share_counts_once() {
    let large = head("demo.v1", json!({"description": "x".repeat(100_000)}), &json!({}));
    let package = |names: &[&str]| {
        let listed: Vec<(&str, Option<&str>)> = names.iter().map(|name| (*name, None)).collect();
        let known = names.iter().map(|name| ((*name).to_owned(), channel(&large)));
        Package::new(registry_package("a", &listed), &known.collect()).unwrap()
    };
    let (one, three) = (package(&["a"]).bytes(), package(&["a", "b", "c"]).bytes());
    assert!(one > 100_000, "{one}");
    assert!(
        one + 2 * PIECE_BYTES < three && three < one + 1000,
        "{one} {three}"
    );
}
