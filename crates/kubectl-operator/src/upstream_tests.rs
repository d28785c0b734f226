//! Tests that objects written by upstream's OLM on a real cluster are read correctly. Users need the plugin before they replace
//! their OLM.

use olm_testing::cluster::FakeCluster;
use olm_testing::shared::shared_path;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::command_line::CommandLine;
use crate::gather;
use crate::operands;
use crate::operators::{Gathered, Node, lines};
use crate::packages::offered;
use crate::packages::tests::served;
use crate::terminal::Colours;

/// Files of a recording that are read.
const FILES: [&str; 8] = [
    "subscriptions",
    "end-subscriptions",
    "installplans",
    "clusterserviceversions",
    "end-clusterserviceversions",
    "operatorgroups",
    "deployments",
    "pods",
];

/// Returns a cluster from a recording of upstream's OLM; `None` if the recordings are missing.
fn recorded(folder: &str) -> Option<FakeCluster> {
    let folder = shared_path(&format!("golden/{folder}"))?;
    let cluster = FakeCluster::new();
    for file in FILES {
        let Ok(text) = std::fs::read(folder.join(format!("{file}.yaml"))) else {
            continue;
        };
        let documents: Vec<Value> = olm_fbc::yaml::parse_all(&text).unwrap();
        for document in documents {
            let items = document["items"].as_array().cloned();
            for object in items.unwrap_or_else(|| vec![document]) {
                cluster.put(object);
            }
        }
    }
    Some(cluster)
}

async fn gathered(cluster: &FakeCluster) -> Gathered {
    let (client, _link) = cluster.connect();
    gather::with_workloads(&client, None, |_| true).await.unwrap()
}

/// Folder, name, state, and a part of the tree with the reason.
const MOMENTS: [(&str, &str, &str, &str); 16] = [
    (
        "01-requires-approval",
        "demo",
        "RequiresApproval",
        "waiting for approval",
    ),
    ("02-succeeded", "demo", "Ready", "1.0.0 installed"),
    (
        "03-unresolvable",
        "missing",
        "Pending",
        "dependency resolution requires at least one catalogsource",
    ),
    ("05-all-namespaces", "demo", "Ready", "1.0.0 installed"),
    (
        "06-dependency",
        "upper-sub",
        "Installing",
        "upper.v0.1.0: Succeeded",
    ),
    ("08-webhooks", "webhooker", "Pinned", "1.0.0 installed"),
    ("08-webhooks-upgraded", "webhooker", "Ready", "1.1.0 installed"),
    (
        "09-unsupported-install-mode",
        "webhooker.v1.0.0",
        "Failed",
        "OwnNamespace InstallModeType not supported",
    ),
    (
        "10-apiservice",
        "hatter",
        "Installing",
        "hatter.v1.0.0 has succeeded; OLM has not yet recorded it",
    ),
    (
        "11-crd-upgrade-refused",
        "gadgeteer",
        "Failed",
        "error validating existing CRs against new CRD's schema",
    ),
    (
        "12-scoped-without-rights",
        "forward",
        "Installing",
        "retrying execution due to error",
    ),
    (
        "12-scoped-with-rights",
        "forward",
        "Installing",
        "forward.v1.0.0 has succeeded; OLM has not yet recorded it",
    ),
    (
        "13-scoped-account-missing",
        "forward",
        "Failed",
        "error ensuring InstallPlan",
    ),
    (
        "14-failed-upgrade-default",
        "forward",
        "Unresolved",
        "waiting for deployment forward to become ready",
    ),
    (
        "15-groups-intersect-second",
        "gadgeteer",
        "Failed",
        "intersecting operatorgroups provide the same apis",
    ),
    (
        "16-two-groups-in-a-namespace",
        "gadgeteer",
        "Failed",
        "multiple operatorgroups",
    ),
];

#[tokio::test(start_paused = true)]
async fn what_upstream_wrote_is_shown_as_it_is() {
    let mut wrong = Vec::new();
    for (folder, name, state, part) in MOMENTS {
        let Some(cluster) = recorded(folder) else {
            return;
        };
        let gathered = gathered(&cluster).await;
        assert!(
            gathered.unreadable.is_empty(),
            "{folder}: {:?}",
            gathered.unreadable
        );
        let operators = gathered.operators();
        let Some(operator) = operators.iter().find(|operator| operator.name() == name) else {
            panic!("{folder} has no {name}");
        };
        let node: Node = gathered.tree(operator, &CommandLine::default());
        let tree = lines(std::slice::from_ref(&node), Colours(false)).join("\n");
        let row = operator.row();
        if row.state.as_str() != state || !tree.contains(part) {
            wrong.push(format!(
                "{folder}: {} {}\n{tree}",
                row.state.as_str(),
                row.message
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[tokio::test(start_paused = true)]
async fn packages_of_upstreams_package_server_are_read() {
    let Some(path) = shared_path("golden/packagemanifests.json") else {
        return;
    };
    let list: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cluster = served();
    for item in list["items"].as_array().unwrap() {
        cluster.put(item.clone());
    }
    let (client, _link) = cluster.connect();
    let Ok(packages) = offered(&client, Some("golden")).await.unwrap() else {
        panic!("it is served");
    };
    let [package] = packages.as_slice() else {
        panic!("{packages:?}");
    };
    assert_eq!((package.name.as_str(), package.catalog.as_str()), ("demo", "cat"));
    let head = package.head_channel().unwrap();
    assert!(
        !head.head_version.is_empty() && !head.install_modes.is_empty(),
        "{head:?}"
    );
    assert!(
        head.versions.iter().any(|version| version.name == head.head),
        "{head:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn operands_are_found_by_what_upstream_noted() {
    let Some(cluster) = recorded("02-succeeded") else {
        return;
    };
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client.clone(), "golden");
    let gathered = gather::operators(&client, Some("golden")).await.unwrap();
    let operator = gathered.find("golden", "demo", &here.commands).unwrap();
    let targets = operands::targets(&client, "golden").await.unwrap();
    assert!(targets.is_some_and(|targets| targets.contains("golden")));
    assert!(!operator.installed.unwrap().spec.owned_crds().is_empty());
}
