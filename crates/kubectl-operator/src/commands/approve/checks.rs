//! What a plan means for the OperatorGroup of its namespace and for other operators, as far as its text does not say so.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, ResourceExt as _};
use olm_api::labels::OWNER_KIND_CSV;
use olm_api::plan_preview::{DefinitionChange, PlanPreview};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan};

use crate::gather;
use crate::groups::Group;
use crate::operators::stated_misfit;
use crate::packages::{Package, offered};
use crate::preview::name as quoted;
use crate::reader::{get_cluster, list_readable};

/// Maximum number of operators named per definition.
const MAX_NAMED: usize = 5;
/// Maximum number of definitions that are read per plan.
const MAX_READ: usize = 50;

/// Operators of a plan that do not suit the OperatorGroup of its namespace, a text for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Misfits {
    /// Those that will fail.
    pub certain: Vec<String>,
    /// Those whose install modes are unknown, while the head of their channel does not suit it.
    pub possible: Vec<String>,
}

/// Compares the operators of a plan with the OperatorGroup. Their install modes are in the plan if it has the whole
/// ClusterServiceVersion; package-server serves only those of channel heads. For other versions the plan's own text counts, which OLM
/// wrote when it created the plan.
pub(super) async fn misfits(client: &Client, namespace: &str, plan: &InstallPlan) -> Misfits {
    let mut misfits = Misfits::default();
    let stated = stated_misfit(plan);
    let mut is_known = true;
    let group = group(client, namespace).await;
    let packages = match group {
        Some(_) => offered(client, Some(namespace)).await.ok().and_then(Result::ok),
        None => None,
    };
    let packages = packages.unwrap_or_default();
    for name in &plan.spec.cluster_service_version_names {
        let found = group.as_ref().zip(modes_of(plan, &packages, name));
        let Some((group, (of, modes))) = found.filter(|(_, (of, _))| of == name || stated.is_none()) else {
            is_known = false;
            continue;
        };
        match group.misfit(&of, &modes, namespace) {
            None => {}
            Some(text) if of == *name => {
                let text = format!("{text}: it will fail until the OperatorGroup is changed");
                misfits.certain.push(text);
            }
            Some(text) => misfits.possible.push(format!(
                "{text}; install modes are only known for {of}, the channel head: {name} may fail until the OperatorGroup is changed"
            )),
        }
    }
    let stated = stated.filter(|_| !is_known);
    misfits.certain.extend(stated.map(str::to_owned));
    misfits
}

/// Returns the only OperatorGroup of a namespace.
async fn group(client: &Client, namespace: &str) -> Option<Group> {
    let groups = list_readable::<OperatorGroup>(client, Some(namespace), "").await;
    match groups.ok()? {
        (groups, unreadable) if unreadable.is_empty() => match groups.as_slice() {
            [group] => Some(Group::from(group)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the install modes that a ClusterServiceVersion of a plan supports: its own, or those of the head of its channel. Comes with
/// the name of the version that has them.
fn modes_of(plan: &InstallPlan, packages: &[Package], name: &str) -> Option<(String, Vec<String>)> {
    let mut steps = plan.status.iter().flat_map(|status| status.plan.iter());
    let own = steps.find_map(|step| {
        let resource = &step.resource;
        let is_own = resource.kind == OWNER_KIND_CSV && resource.name == name;
        let manifest = resource.manifest.as_deref().filter(|_| is_own)?;
        // A reference to the bundle has another kind.
        let csv = serde_json::from_str::<ClusterServiceVersion>(manifest).ok()?;
        (csv.name_any() == name).then_some(csv)
    });
    if let Some(csv) = own {
        let modes = csv.spec.install_modes.iter().filter(|mode| mode.supported);
        let modes = modes.map(|mode| mode.type_.as_str().to_owned());
        return Some((name.to_owned(), modes.collect()));
    }
    let channels = || packages.iter().flat_map(|package| &package.channels);
    let head = channels().find(|channel| channel.head == name);
    let channel = head.or_else(|| {
        let mut channels = channels();
        channels.find(|channel| channel.versions.iter().any(|version| version.name == name))
    })?;
    Some((channel.head.clone(), channel.install_modes.clone()))
}

/// Returns the CustomResourceDefinitions of a waiting plan that are newer than its preview. Those that cannot be read are left out.
pub(super) async fn newer(client: &Client, plan: &InstallPlan, preview: Option<&PlanPreview>) -> Vec<String> {
    let made_at = preview.and_then(|preview| preview.made_at.parse::<Timestamp>().ok());
    let Some(made_at) = made_at.filter(|_| plan.waits_for_approval()) else {
        return Vec::new();
    };
    // A definition that the plan did not change is not in the preview.
    let steps = plan.status.iter().flat_map(|status| status.plan.iter());
    let steps = steps.filter(|step| step.resource.kind == "CustomResourceDefinition");
    let names: BTreeSet<&str> = steps.map(|step| step.resource.name.as_str()).collect();
    let mut newer = Vec::new();
    for name in names.into_iter().take(MAX_READ) {
        let read = get_cluster::<CustomResourceDefinition>(client, name).await;
        let found = read.ok().flatten();
        if found.is_some_and(|found| is_newer(&found.metadata, made_at)) {
            newer.push(name.to_owned());
        }
    }
    newer
}

/// Returns true if a definition was created, or its versions were written, after this time. Others write its status and labels.
fn is_newer(definition: &ObjectMeta, time: Timestamp) -> bool {
    let entries = definition.managed_fields.iter().flatten();
    let written = entries.filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| fields.0.pointer("/f:spec/f:versions").is_some())
    });
    let written = written.filter_map(|entry| entry.time.as_ref());
    let mut times = definition.creation_timestamp.iter().chain(written);
    times.any(|found| found.0 > time)
}

/// Returns the note on a definition that is newer than the preview.
pub(super) fn newer_text(definition: &str) -> String {
    format!(
        "CustomResourceDefinition {} was created or changed after this preview, so what the plan takes from it is unknown: delete the \
         InstallPlan, and OLM makes another with a new preview",
        quoted(definition)
    )
}

/// Returns who else owns or needs the CustomResourceDefinitions that lose or require something by a plan of this namespace, or are
/// `newer` than its preview.
pub(super) async fn sharers(
    client: &Client,
    namespace: &str,
    preview: Option<&PlanPreview>,
    newer: &[String],
) -> Vec<String> {
    let takes = |change: &&DefinitionChange| {
        let taken = [
            &change.versions_removed,
            &change.fields_removed,
            &change.fields_required,
        ];
        taken.iter().any(|taken| !taken.is_empty())
    };
    let definitions = preview.into_iter().flat_map(|preview| &preview.definitions);
    let taken = definitions.filter(takes).map(|change| change.name.as_str());
    let definitions: BTreeSet<&str> = taken.chain(newer.iter().map(String::as_str)).collect();
    if definitions.is_empty() {
        return Vec::new();
    }
    let gathered = match gather::versions(client, None).await {
        Ok(gathered) => gathered,
        Err(error) => {
            return vec![format!(
                "cannot check whether operators in other namespaces need these kinds: {error:#}"
            )];
        }
    };
    let texts = definitions.into_iter().filter_map(|crd| {
        // Another owner in the same namespace is an older version of the operator.
        let others = gathered.sharers(crd, MAX_NAMED, |(of, _), csv| {
            of == namespace && csv.spec.owns_crd(crd)
        });
        let others = others.join("; ");
        (!others.is_empty()).then(|| format!("CustomResourceDefinition {} is {others}", quoted(crd)))
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use olm_testing::cluster::{FakeCluster, Fault, Refusal, Verb};
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::Cluster;
    use crate::commands::approve::{Shown, approve};
    use crate::packages::tests::{manifest, served};

    fn plan_of(name: &str, csv: &Value, message: &str) -> InstallPlan {
        let step = json!({"resolving": name, "status": "Unknown", "resource": {"sourceName": "", "sourceNamespace": "",
            "group": "operators.coreos.com", "version": "v1alpha1", "kind": "ClusterServiceVersion", "name": name,
            "manifest": csv.to_string()}});
        let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"namespace": "shop", "name": "install-1"},
            "spec": {"clusterServiceVersionNames": [name], "approval": "Manual", "approved": false},
            "status": {"phase": "RequiresApproval", "catalogSources": [], "plan": [step], "message": message}});
        serde_json::from_value(plan).unwrap()
    }

    /// Otherwise it is not reported before the ClusterServiceVersion is Failed.
    #[tokio::test(start_paused = true)]
    async fn an_operator_that_cannot_work_with_the_group_is_reported_before_it_is_approved() {
        let cluster = served();
        cluster.put(manifest("etcd", "cat"));
        let (client, _link) = cluster.connect();
        let reference = json!({"kind": "BundleImage", "image": "x@sha256:1", "identifier": "etcd.v1.0.0"});
        let own = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "etcd.v1.0.0"}, "spec": {"install": {"strategy": "deployment"},
                "installModes": [{"type": "AllNamespaces", "supported": true}]}});
        let stated =
            "when this plan was created: its ClusterServiceVersion will fail with UnsupportedOperatorGroup";
        let (head, older) = ("etcd.v1.1.0", "etcd.v1.0.0");
        for (targets, name, csv, message, certain, possible) in [
            ("shop", head, &reference, "", None, None),
            (
                "",
                head,
                &reference,
                "",
                Some("etcd.v1.1.0 supports install modes OwnNamespace, but OperatorGroup og"),
                None,
            ),
            // The group was changed since.
            ("shop", head, &reference, stated, None, None),
            ("shop", older, &reference, "", None, None),
            (
                "",
                older,
                &reference,
                "",
                None,
                Some("etcd.v1.0.0 may fail until the OperatorGroup is changed"),
            ),
            ("", older, &reference, stated, Some(stated), None),
            ("", older, &own, "", None, None),
            (
                "shop",
                older,
                &own,
                "",
                Some("etcd.v1.0.0 supports install modes AllNamespaces"),
                None,
            ),
        ] {
            cluster.put(
                json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"namespace": "shop", "name": "og"}, "spec": {},
                "status": {"namespaces": [targets], "lastUpdated": null}}),
            );
            let found = misfits(&client, "shop", &plan_of(name, csv, message)).await;
            for (texts, part) in [(&found.certain, certain), (&found.possible, possible)] {
                let is_told = match (texts.as_slice(), part) {
                    ([], None) => true,
                    ([text], Some(part)) => text.contains(part),
                    _ => false,
                };
                assert!(is_told, "{targets:?} {name} {message}: {found:?}");
            }
        }
    }

    /// Returns a ClusterServiceVersion that owns or requires etcds.example.com.
    fn csv(namespace: &str, name: &str, relation: &str) -> Value {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"namespace": namespace, "name": name}, "spec": {"install": {"strategy": "deployment"},
                "customresourcedefinitions": {relation: [{"name": "etcds.example.com", "kind": "Etcd", "version": "v1"}]}}})
    }

    #[tokio::test(start_paused = true)]
    async fn others_that_share_a_definition_are_named_if_it_loses_or_requires_something() {
        let cluster = FakeCluster::new();
        cluster.put(csv("shop", "etcd.v1.0.0", "owned"));
        cluster.put(csv("shop", "backup.v1", "required"));
        let (client, _link) = cluster.connect();
        let of = async |change: Value| {
            let mut definition = json!({"name": "etcds.example.com"});
            olm_testing::patch::merge(&mut definition, &change);
            let preview: PlanPreview =
                serde_json::from_value(json!({"version": 1, "definitions": [definition]})).unwrap();
            sharers(&client, "shop", Some(&preview), &[]).await
        };
        let loss = json!({"fieldsRemoved": ["v1: spec.a"]});
        let needed = "needed by shop/backup.v1";
        assert_eq!(
            of(loss.clone()).await,
            [format!("CustomResourceDefinition etcds.example.com is {needed}")]
        );
        for number in 1..=7 {
            cluster.put(csv(&format!("n{number}"), "etcd.v1.0.0", "owned"));
        }
        let owned = "also owned by n1/etcd.v1.0.0, n2/etcd.v1.0.0, n3/etcd.v1.0.0, n4/etcd.v1.0.0, n5/etcd.v1.0.0 and 2 more";
        let expected = format!("CustomResourceDefinition etcds.example.com is {owned}; {needed}");
        for change in [
            loss.clone(),
            json!({"fieldsRequired": ["v1: spec.b"]}),
            json!({"versionsRemoved": ["v1"]}),
        ] {
            assert_eq!(of(change).await, std::slice::from_ref(&expected));
        }
        assert!(of(json!({"fieldsAdded": ["v1: spec.c"]})).await.is_empty());
        // A tenant may not read other namespaces.
        cluster.on_request(|request| {
            let is_read = request.verb == Verb::List && request.kind.kind == "ClusterServiceVersion";
            is_read.then(|| Fault::Refuse(Refusal::forbidden("it is forbidden")))
        });
        let doubts = of(loss).await;
        assert!(
            doubts.len() == 1
                && doubts[0]
                    .starts_with("cannot check whether operators in other namespaces need these kinds: "),
            "{doubts:?}"
        );
    }

    /// Another tenant installs a newer version while the plan waits.
    #[tokio::test]
    async fn a_definition_that_is_newer_than_the_preview_is_named_with_its_owners() {
        let (early, made_at, late) = (
            "2026-11-28T09:00:00Z",
            "2026-11-28T10:00:00Z",
            "2026-11-28T11:00:00Z",
        );
        let written = |time: &str, fields: Value| {
            json!([{"manager": "m", "operation": "Update", "apiVersion": "apiextensions.k8s.io/v1", "time": time,
                "fieldsType": "FieldsV1", "fieldsV1": fields}])
        };
        let versions = || json!({"f:spec": {"f:versions": {}}});
        let labels = json!({"f:metadata": {"f:labels": {}}});
        let status = json!({"f:status": {"f:conditions": {}}});
        for (created, writes, may_read, is_named) in [
            (early, written(early, versions()), true, false),
            (late, json!([]), true, true),
            (late, json!([]), false, false),
            (early, written(late, versions()), true, true),
            (early, written(late, labels), true, false),
            (early, written(late, status), true, false),
        ] {
            let cluster = FakeCluster::new();
            cluster.put(csv("other", "etcd.v1.3.0", "owned"));
            cluster.put(
                json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "etcds.example.com", "creationTimestamp": created, "managedFields": writes},
                "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Etcd", "plural": "etcds"},
                    "versions": []}}),
            );
            cluster.on_request(move |request| {
                let is_read = request.verb == Verb::Get && request.kind.kind == "CustomResourceDefinition";
                (is_read && !may_read).then(|| Fault::Refuse(Refusal::forbidden("it is forbidden")))
            });
            let mut plan = serde_json::to_value(plan_of("etcd.v1.2.0", &json!({}), "")).unwrap();
            plan["apiVersion"] = json!("operators.coreos.com/v1alpha1");
            plan["kind"] = json!("InstallPlan");
            let preview = json!({"version": 1, "madeAt": made_at, "objects": [
                {"verb": "create", "kind": "CustomResourceDefinition", "name": "etcds.example.com"}]});
            plan["metadata"]["annotations"] = json!({olm_api::labels::PLAN_PREVIEW: preview.to_string()});
            plan["status"]["plan"][0]["resource"]["kind"] = json!("CustomResourceDefinition");
            plan["status"]["plan"][0]["resource"]["name"] = json!("etcds.example.com");
            cluster.put(plan);
            let (client, _link) = cluster.connect();
            let mut text = String::new();
            let mut asked = |shown: &Shown| {
                text = shown.to_string();
                Ok(true)
            };
            let approved = approve(&Cluster::of(client, "shop"), "install-1", &mut asked).await;
            assert!(approved.unwrap().approved);
            let notes = "note: CustomResourceDefinition etcds.example.com was created or changed after this preview, so what the \
                         plan takes from it is unknown: delete the InstallPlan, and OLM makes another with a new preview\n\
                         note: CustomResourceDefinition etcds.example.com is also owned by other/etcd.v1.3.0\n";
            assert_eq!(text.contains(notes), is_named, "{created} {writes}: {text}");
            assert_eq!(text.contains("note: "), is_named, "{created} {writes}: {text}");
        }
    }
}
