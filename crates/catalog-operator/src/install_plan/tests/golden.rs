//! Steps and objects compared with what upstream left in a real cluster.

use olm_api::v1alpha1::{BundleLookup, Step};
use olm_fbc::yaml;
use serde_json::{Value, json};

use super::super::steps::{Projection, bundle_objects, plan_steps};
use crate::bundle_unpack::{UnpackedBundle, config_map};
use crate::object;

const FOLDER: &str = "golden/02-succeeded";

fn items(file: &str) -> Option<Vec<Value>> {
    let path = olm_testing::shared::shared_path(&format!("{FOLDER}/{file}"))?;
    let list = yaml::parse(&std::fs::read(path).unwrap()).unwrap();
    Some(list["items"].as_array().unwrap().clone())
}

fn recorded_bundle() -> Option<UnpackedBundle> {
    let config_maps = items("configmaps.yaml")?;
    let unpacked = config_maps
        .iter()
        .find(|found| found.get("binaryData").is_some())
        .unwrap();
    Some(config_map::decode(unpacked).unwrap())
}

fn recorded_plan() -> Option<Value> {
    items("installplans.yaml")?.into_iter().next()
}

/// IP-011, IP-012: the same steps in the same order, with the same names, apart from the manifest's form.
#[test]
fn ip_001_ip_009_ip_010_ip_011_steps_are_those_of_the_recorded_plan() {
    let (Some(bundle), Some(plan)) = (recorded_bundle(), recorded_plan()) else {
        return;
    };
    let lookup: BundleLookup = serde_json::from_value(plan["status"]["bundleLookups"][0].clone()).unwrap();
    let without_manifest = |step: &Step| {
        let mut step = serde_json::to_value(step).unwrap();
        step["resource"].as_object_mut().unwrap().remove("manifest");
        step["status"] = "Created".into();
        step
    };
    let ours: Vec<Value> = plan_steps(bundle, &lookup, "golden")
        .unwrap()
        .iter()
        .map(without_manifest)
        .collect();
    let mut recorded = plan["status"]["plan"].as_array().unwrap().clone();
    for step in &mut recorded {
        step["resource"].as_object_mut().unwrap().remove("manifest");
    }
    assert_eq!(ours, recorded);
}

/// RBAC objects, ServiceAccount, CRD and ClusterServiceVersion say what the recorded ones say.
#[test]
fn objects_say_what_the_recorded_ones_say() {
    let (Some(bundle), Some(plan)) = (recorded_bundle(), recorded_plan()) else {
        return;
    };
    let properties = plan["status"]["bundleLookups"][0]["properties"].as_str().unwrap();
    let projection = Projection {
        namespace: "golden",
        replaces: "",
        properties,
    };
    let mut compared = 0;
    let files = [
        "roles.yaml",
        "rolebindings.yaml",
        "cluster-rbac.yaml",
        "serviceaccounts.yaml",
        "clusterserviceversions.yaml",
    ];
    let recorded: Vec<Value> = files.iter().filter_map(|file| items(file)).flatten().collect();
    for ours in bundle_objects(bundle, &projection).unwrap() {
        let name = object::name(&ours);
        let same = |found: &&Value| object::kind(found) == object::kind(&ours) && object::name(found) == name;
        let Some(found) = recorded.iter().find(same) else {
            continue;
        };
        compared += 1;
        for field in ["rules", "roleRef", "subjects"] {
            assert_eq!(ours.get(field), found.get(field), "{name} {field}");
        }
        for field in ["labels", "annotations"] {
            for (key, value) in object::metadata_entries(&ours, field) {
                assert_eq!(found["metadata"][field][key], *value, "{name} {field}");
            }
        }
        let owners = |object: &Value| {
            let mut owners = object::owner_references(object).to_vec();
            owners.iter_mut().for_each(|owner| owner["uid"] = json!(""));
            owners
        };
        assert_eq!(owners(&ours), owners(found), "{name}");
        if object::kind(&ours) == "ClusterServiceVersion" {
            assert_eq!(
                ours["spec"]["install"]["strategy"],
                found["spec"]["install"]["strategy"]
            );
            assert_eq!(ours["spec"].get("replaces"), found["spec"].get("replaces"));
        }
    }
    assert_eq!(compared, 6, "all but the CRD, which is in a file of its own");
}
