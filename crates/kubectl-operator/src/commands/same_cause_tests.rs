//! Tests that all commands name the same cause for the same state, and exit with the same code.

use olm_api::labels::{PLAN_PREVIEW, UPGRADE_HOLD, UPGRADE_WAITS, UPGRADE_WINDOW};
use olm_resolver::plan::{Explained, Standing};
use olm_testing::cluster::FakeCluster;
use serde_json::{Value, json};

use super::doctor::tests::{cluster, diagnosed_in};
use super::explain::{Cause, is_fine, with_causes};
use super::plan::failures;
use crate::command_line::CommandLine;
use crate::gather;
use crate::operators::lines;
use crate::operators::tests::{csv, deployment, plan, subscription};
use crate::terminal::{Colours, Mark};

/// Change of a cluster in which all is well, the cause that all commands name, a part of the way out, and whether all exit with 0.
type Row = (fn(&FakeCluster), &'static str, &'static str, bool);

fn put_status(cluster: &FakeCluster, status: &Value) {
    cluster.put(subscription("db", status));
}

/// Puts a Subscription without a version, with a condition.
fn put_condition(cluster: &FakeCluster, type_: &str, message: &str) {
    let conditions = json!([{"type": type_, "status": "True", "message": message}]);
    put_status(cluster, &json!({"conditions": conditions}));
}

/// Puts a Subscription whose next version has a plan in a phase.
fn put_plan(cluster: &FakeCluster, phase: &str, change: impl FnOnce(&mut Value)) {
    put_status(
        cluster,
        &json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "state": "UpgradePending",
            "installPlanRef": {"name": "install-1"}}),
    );
    let mut next = plan("install-1", phase, false);
    change(&mut next);
    cluster.put(next);
}

/// Deletes the installed version while the plan of the next one waits for approval.
fn put_deleted(cluster: &FakeCluster) {
    put_plan(cluster, "RequiresApproval", |_| {});
    assert!(cluster.delete("ClusterServiceVersion", "shop", "etcd.v1.0.0"));
}

/// Puts a plan that waits for approval, and whose definition OLM will not change.
fn put_refused(cluster: &FakeCluster) {
    put_plan(cluster, "RequiresApproval", |plan| {
        let refused = "updated validation is too restrictive: spec.color: is required";
        let definitions = json!([{"name": "etcds.example.com", "refused": refused}]);
        let preview = json!({"version": 1, "definitions": definitions});
        plan["metadata"]["annotations"] = json!({PLAN_PREVIEW: preview.to_string()});
    });
}

/// Puts an upgrade that is in a phase.
fn put_upgrade(cluster: &FakeCluster, phase: &str, message: &str) {
    put_status(
        cluster,
        &json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0", "state": "AtLatestKnown"}),
    );
    let mut next = csv("2.0.0", phase, message);
    next["spec"]["replaces"] = json!("etcd.v1.0.0");
    cluster.put(next);
    cluster.put(csv("1.0.0", "Replacing", "being replaced"));
}

fn edit(cluster: &FakeCluster, patch: &Value) {
    assert!(cluster.edit("Subscription", "shop", "db", patch));
}

/// Puts a condition about the next version at a Subscription that is pinned at the installed one.
fn put_pinned(cluster: &FakeCluster, type_: &str, message: &str) {
    let conditions = json!([{"type": type_, "status": "True", "message": message}]);
    edit(
        cluster,
        &json!({"spec": {"startingCSV": "etcd.v1.0.0", "installPlanApproval": "Manual"},
            "status": {"conditions": conditions}}),
    );
}

/// Sets an annotation about upgrades.
fn annotate(cluster: &FakeCluster, key: &str, value: &str) {
    edit(cluster, &json!({"metadata": {"annotations": {key: value}}}));
}

const ROWS: [Row; 43] = [
    (|_| {}, "", "", true),
    (
        |cluster| put_condition(cluster, "CatalogSourcesUnhealthy", "olm/cat does not answer"),
        "olm/cat does not answer",
        "kubectl operator catalog list -o wide -A",
        false,
    ),
    (
        |cluster| {
            let text = "targeted catalogsource olm/cat unhealthy";
            let conditions = json!([
                {"type": "CatalogSourcesUnhealthy", "status": "True", "message": text},
                {"type": "Ready", "status": "False", "message": format!("{text}: cannot pull image c:v1")},
            ]);
            put_status(cluster, &json!({"conditions": conditions}));
        },
        "targeted catalogsource olm/cat unhealthy: cannot pull image c:v1",
        "or add it again if it was deleted (kubectl operator catalog add cat IMAGE -n olm), and OLM continues",
        false,
    ),
    (
        |cluster| {
            put_plan(cluster, "Installing", |plan| {
                let pending = json!([{"type": "BundleLookupPending", "status": "True", "message": "unpack Job pending"}]);
                plan["spec"]["approved"] = json!(true);
                plan["status"]["bundleLookups"] = json!([{"path": "x:v2", "identifier": "etcd.v2.0.0", "replaces": "",
                    "catalogSourceRef": {}, "conditions": pending}]);
            });
        },
        "InstallPlan install-1: bundle etcd.v2.0.0: unpack Job pending",
        "",
        false,
    ),
    (
        |cluster| put_condition(cluster, "BundleUnpacking", "cannot pull image x:v1"),
        "cannot pull image x:v1",
        "push the bundle image",
        false,
    ),
    (
        |cluster| {
            let conditions = json!([{"type": "InstallPlanMissing", "status": "True", "reason": "ReferencedInstallPlanNotFound"}]);
            put_status(
                cluster,
                &json!({"conditions": conditions, "installPlanRef": {"name": "install-1"}}),
            );
        },
        "the InstallPlan that status.installPlanRef names does not exist",
        "",
        false,
    ),
    (
        |cluster| put_condition(cluster, "BundleUnpackFailed", "unpack Job: DeadlineExceeded"),
        "unpack Job: DeadlineExceeded",
        "correct the cause, and OLM tries again",
        false,
    ),
    (
        |cluster| {
            let names = "registry.example.com/team/etcd-bundle@sha256:0123456789abcdef ".repeat(16);
            put_condition(
                cluster,
                "BundleUnpackFailed",
                &format!("cannot pull {names}(HTTP 404); push the image"),
            );
        },
        "(HTTP 404); push the image",
        "push the bundle image",
        false,
    ),
    (
        |cluster| {
            let conditions =
                json!([{"type": "BundleUnpacking", "status": "True", "message": "cannot pull image x:v2"}]);
            edit(cluster, &json!({"status": {"conditions": conditions}}));
        },
        "cannot pull image x:v2",
        "push the bundle image",
        false,
    ),
    (
        |cluster| put_pinned(cluster, "BundleUnpacking", "cannot pull image x:v2"),
        "cannot pull image x:v2; pinned at etcd.v1.0.0 by spec.startingCSV",
        "push the bundle image",
        false,
    ),
    (
        |cluster| put_pinned(cluster, "BundleUnpackFailed", "unpack Job: DeadlineExceeded"),
        "unpack Job: DeadlineExceeded",
        "correct the cause, and OLM tries again",
        false,
    ),
    (
        |cluster| {
            let conditions =
                json!([{"type": "BundleUnpacking", "status": "True", "message": "cannot pull image x:v2"}]);
            edit(
                cluster,
                &json!({"metadata": {"annotations": {UPGRADE_HOLD: "<2.0.0"}}, "status": {"conditions": conditions}}),
            );
        },
        "cannot pull image x:v2",
        "push the bundle image",
        false,
    ),
    (
        |cluster| put_condition(cluster, "ResolutionFailed", "constraints not satisfiable: no x"),
        "constraints not satisfiable: no x",
        "kubectl operator explain db -n shop",
        false,
    ),
    (
        |cluster| put_plan(cluster, "RequiresApproval", |_| {}),
        "InstallPlan install-1: waiting for approval",
        "kubectl operator approve db -n shop",
        false,
    ),
    (
        |cluster| {
            put_plan(cluster, "RequiresApproval", |plan| {
                plan["status"]["message"] =
                    json!("its ClusterServiceVersion will fail with UnsupportedOperatorGroup");
            });
        },
        "InstallPlan install-1: its ClusterServiceVersion will fail with UnsupportedOperatorGroup; waiting for approval",
        "change spec.targetNamespaces of the OperatorGroup first, or install it in another namespace; then kubectl operator \
         approve db -n shop",
        false,
    ),
    (
        put_refused,
        "InstallPlan install-1: waiting for approval; OLM will not change CustomResourceDefinition etcds.example.com: updated \
         validation is too restrictive: spec.color: is required",
        "or ask the author of the bundle for a default), then delete the plan, and OLM creates another: kubectl delete installplan \
         install-1 -n shop",
        false,
    ),
    (
        |cluster| {
            put_refused(cluster);
            edit(
                cluster,
                &json!({"spec": {"startingCSV": "etcd.v1.0.0", "installPlanApproval": "Manual"}}),
            );
        },
        "updated validation is too restrictive: spec.color: is required; pinned at etcd.v1.0.0 by spec.startingCSV",
        "then delete the plan, and OLM creates another: kubectl delete installplan install-1 -n shop",
        false,
    ),
    (
        |cluster| {
            put_plan(cluster, "RequiresApproval", |plan| {
                plan["metadata"]["annotations"] =
                    json!({UPGRADE_WAITS: "waiting by policy: the window opens at 2"});
            });
        },
        "waiting by policy: the window opens at 2",
        "wait, or approve it now: kubectl operator approve db -n shop",
        false,
    ),
    (
        |cluster| {
            put_plan(cluster, "Failed", |plan| {
                plan["status"]["message"] = json!("it is forbidden");
            });
        },
        "InstallPlan install-1: it is forbidden",
        "kubectl delete installplan install-1 -n shop",
        false,
    ),
    (
        |cluster| {
            put_plan(cluster, "Installing", |plan| {
                plan["spec"]["approved"] = json!(true);
                plan["status"]["message"] = json!("roles is forbidden (account of OperatorGroup og)");
            });
        },
        "roles is forbidden (account of OperatorGroup og)",
        "",
        false,
    ),
    (
        |cluster| put_upgrade(cluster, "Failed", "install timeout; pod etcd-1: ImagePullBackOff"),
        "ClusterServiceVersion etcd.v2.0.0: install timeout; pod etcd-1: ImagePullBackOff",
        "or go back to etcd.v1.0.0: kubectl operator rollback db -n shop",
        false,
    ),
    (
        |cluster| {
            put_upgrade(
                cluster,
                "Pending",
                "waiting for csv etcd.v1.0.0 (it is in Failed)",
            );
            cluster.put(csv("1.0.0", "Failed", "install timeout"));
        },
        "waiting for csv etcd.v1.0.0 (it is in Failed)",
        "correct the failure of etcd.v1.0.0 (install timeout), and OLM continues, or go back: kubectl operator rollback db -n shop",
        false,
    ),
    (
        |cluster| {
            let mut failed = csv("1.0.0", "Failed", "admission webhook \"x\" denied the request");
            failed["status"]["reason"] = json!("InstallComponentFailed");
            cluster.put(failed);
        },
        "ClusterServiceVersion etcd.v1.0.0: InstallComponentFailed: admission webhook \"x\" denied the request",
        "correct the cause, and OLM tries again",
        false,
    ),
    (
        |cluster| {
            let mut failed = csv("1.0.0", "Failed", "AllNamespaces InstallModeType not supported");
            failed["metadata"]["annotations"] = json!({"olm.operatorGroup": "og"});
            failed["spec"]["installModes"] = json!([{"type": "OwnNamespace", "supported": true},
                {"type": "AllNamespaces", "supported": false}]);
            failed["status"]["reason"] = json!("UnsupportedOperatorGroup");
            cluster.put(failed);
        },
        "AllNamespaces InstallModeType not supported; OperatorGroup og does not suit it, as it supports OwnNamespace",
        "or set spec.targetNamespaces of the group to [shop]: kubectl edit operatorgroup og -n shop",
        false,
    ),
    (
        |cluster| {
            let mut failed = csv("1.0.0", "Failed", "Etcd is provided by OperatorGroup far/other");
            failed["metadata"]["annotations"] = json!({"olm.operatorGroup": "og"});
            failed["status"]["reason"] = json!("InterOperatorGroupOwnerConflict");
            cluster.put(failed);
        },
        "Etcd is provided by OperatorGroup far/other; OperatorGroup og of this one has namespaces in common with it",
        "so that the groups have no namespace in common: kubectl edit operatorgroup og -n shop",
        false,
    ),
    (
        |cluster| {
            let mut waits = csv("1.0.0", "Pending", "one or more requirements couldn't be found");
            waits["status"]["requirementStatus"] = json!([{"group": "", "version": "v1", "kind": "CustomResourceDefinition",
                "name": "disks.example.com", "status": "NotPresent", "message": "CRD is not present"}]);
            cluster.put(waits);
        },
        "waiting for CustomResourceDefinition disks.example.com (CRD is not present)",
        "provide what is missing, and OLM continues; all requirements: kubectl get csv etcd.v1.0.0 -n shop",
        false,
    ),
    (
        |cluster| {
            put_plan(cluster, "RequiresApproval", |_| {});
            cluster.put(csv(
                "1.0.0",
                "Installing",
                "pods \"etcd-1\" is forbidden: exceeded quota: q, requested: pods=1",
            ));
        },
        "ClusterServiceVersion etcd.v1.0.0: pods \"etcd-1\" is forbidden: exceeded quota: q, requested: pods=1; InstallPlan \
         install-1 for etcd.v2.0.0 waits for approval",
        "raise ResourceQuota q, or delete what uses it up, and OLM continues: kubectl edit resourcequota q -n shop",
        false,
    ),
    (
        |cluster| {
            put_plan(cluster, "RequiresApproval", |_| {});
            cluster.put(csv("1.0.0", "Failed", "exceeded quota: q, requested: pods=1"));
        },
        "ClusterServiceVersion etcd.v1.0.0: exceeded quota: q, requested: pods=1",
        "raise ResourceQuota q",
        false,
    ),
    (
        |cluster| {
            put_plan(cluster, "RequiresApproval", |_| {});
            cluster.put(csv("1.0.0", "Installing", "waiting for deployment etcd"));
        },
        "ClusterServiceVersion etcd.v1.0.0: waiting for deployment etcd; InstallPlan install-1 for etcd.v2.0.0 waits for approval",
        "",
        false,
    ),
    (
        |cluster| {
            let mut waits = csv("1.0.0", "Pending", "one or more requirements couldn't be found");
            waits["spec"]["customresourcedefinitions"] =
                json!({"owned": [{"name": "etcds.example.com", "kind": "Etcd", "version": "v1"}]});
            waits["status"]["requirementStatus"] = json!([{"group": "", "version": "v1", "kind": "CustomResourceDefinition",
                "name": "etcds.example.com", "status": "NotPresent", "message": "CRD is not present"}]);
            cluster.put(waits);
        },
        "waiting for CustomResourceDefinition etcds.example.com (CRD is not present)",
        "save the Subscription with kubectl get subscription db -n shop -o yaml, set its spec.startingCSV to etcd.v1.0.0 there, then \
         delete it and ClusterServiceVersion etcd.v1.0.0, and create it again",
        false,
    ),
    (
        |cluster| {
            put_plan(cluster, "RequiresApproval", |_| {});
            let mut waits = csv("1.0.0", "Pending", "one or more requirements couldn't be found");
            waits["status"]["requirementStatus"] = json!([{"group": "", "version": "v1", "kind": "CustomResourceDefinition",
                "name": "disks.example.com", "status": "NotPresent", "message": "CRD is not present"}]);
            cluster.put(waits);
        },
        "waiting for CustomResourceDefinition disks.example.com (CRD is not present); InstallPlan install-1 for etcd.v2.0.0 waits \
         for approval",
        "; or approve InstallPlan install-1, if its version lacks nothing: kubectl operator approve db -n shop",
        false,
    ),
    (
        // A former `startingCSV` is older than the version that was installed.
        |cluster| {
            edit(
                cluster,
                &json!({"spec": {"startingCSV": "etcd.v0.9.0", "installPlanApproval": "Manual"}}),
            );
            assert!(cluster.delete("ClusterServiceVersion", "shop", "etcd.v1.0.0"));
        },
        "its ClusterServiceVersion etcd.v1.0.0 was deleted, and OLM does not restore it",
        "set its spec.startingCSV to etcd.v1.0.0 there, then delete it, and create it again",
        false,
    ),
    (
        put_deleted,
        "its ClusterServiceVersion etcd.v1.0.0 was deleted, and OLM does not restore it; InstallPlan install-1 for etcd.v2.0.0 waits \
         for approval",
        "approve InstallPlan install-1, which installs the next version: kubectl operator approve db -n shop; or save the Subscription",
        false,
    ),
    (
        |cluster| {
            put_deleted(cluster);
            annotate(cluster, UPGRADE_HOLD, "=1.0.0");
        },
        "InstallPlan install-1 for etcd.v2.0.0 waits for approval; held within =1.0.0 by annotation",
        "allow the next version first: kubectl operator unhold db -n shop; or save the Subscription",
        false,
    ),
    (
        |cluster| {
            edit(
                cluster,
                &json!({"metadata": {"annotations": {UPGRADE_HOLD: "=1.0.0"}}}),
            );
        },
        "held within =1.0.0 by annotation operatorframework.io/upgrade-hold",
        "",
        true,
    ),
    (
        |cluster| annotate(cluster, UPGRADE_HOLD, ">2.0.0"),
        "the installed version 1.0.0 is outside the hold: held within >2.0.0 by annotation operatorframework.io/upgrade-hold",
        "to go back to a version within the range `kubectl operator rollback db --to VERSION -n shop`",
        true,
    ),
    (
        |cluster| annotate(cluster, UPGRADE_HOLD, "~1.0"),
        "invalid annotation operatorframework.io/upgrade-hold: \"~1.0\": Could not parse Range \"~1.0\": Could not parse comparator \
         \"~\" in \"~1.0\"; no other version is installed until it is corrected",
        "set a valid range, for example: kubectl operator hold db --range '<2.0.0' -n shop, or allow all versions: kubectl operator \
         unhold db -n shop",
        false,
    ),
    (
        |cluster| {
            put_plan(cluster, "RequiresApproval", |_| {});
            annotate(cluster, UPGRADE_HOLD, "~1.0");
        },
        "; no other version is installed until it is corrected; InstallPlan install-1 for etcd.v2.0.0 waits for approval",
        "set a valid range, for example: kubectl operator hold db --range '<2.0.0' -n shop",
        false,
    ),
    (
        |cluster| {
            put_plan(cluster, "RequiresApproval", |plan| {
                plan["metadata"]["annotations"] = json!({UPGRADE_WAITS: "the annotation is invalid (it is empty): that of Subscription other"});
            });
        },
        "the annotation is invalid (it is empty): that of Subscription other",
        "correct that annotation, or approve the InstallPlan now: kubectl operator approve db -n shop",
        false,
    ),
    (
        |cluster| annotate(cluster, UPGRADE_WINDOW, "Mon 99:00"),
        "invalid annotation operatorframework.io/upgrade-window: \"Mon 99:00\": expected <days> <start> <duration> [<time zone>]",
        "kubectl annotate subscription db -n shop --overwrite operatorframework.io/upgrade-window='Sat,Sun 02:00 4h'",
        false,
    ),
    (
        |cluster| {
            put_plan(cluster, "RequiresApproval", |plan| {
                plan["metadata"]["annotations"] = json!({UPGRADE_WAITS: "the annotation is invalid (expected <days> <start> <duration> [<time zone>])"});
            });
            annotate(cluster, UPGRADE_WINDOW, "Mon 99:00");
        },
        "InstallPlan install-1: the annotation is invalid (expected <days> <start> <duration> [<time zone>])",
        "--overwrite operatorframework.io/upgrade-window='Sat,Sun 02:00 4h'; or approve the InstallPlan without it: kubectl operator \
         approve db -n shop",
        false,
    ),
    (
        |cluster| {
            edit(
                cluster,
                &json!({"spec": {"startingCSV": "etcd.v1.0.0", "installPlanApproval": "Manual"}}),
            );
        },
        "pinned at etcd.v1.0.0 by spec.startingCSV",
        "",
        true,
    ),
    (
        |cluster| {
            put_plan(cluster, "RequiresApproval", |_| {});
            edit(
                cluster,
                &json!({"spec": {"startingCSV": "etcd.v1.0.0", "installPlanApproval": "Manual"}}),
            );
        },
        "pinned at etcd.v1.0.0 by spec.startingCSV; InstallPlan install-1 for etcd.v2.0.0 waits for approval",
        "",
        true,
    ),
];

#[tokio::test(start_paused = true)]
async fn each_command_names_the_same_cause_and_exits_alike() {
    for (change, cause, way_out, fine) in ROWS {
        let cluster = cluster();
        cluster.put(deployment(2));
        change(&cluster);
        let (client, _link) = cluster.connect();
        let gathered = Box::pin(gather::with_workloads(&client, Some("shop"), |_| true))
            .await
            .unwrap();
        let operators = gathered.operators();
        let db = operators.iter().find(|operator| operator.name() == "db").unwrap();

        // `list` and the pages.
        let row = db.row();
        assert!(row.message.contains(cause), "list: {row:?}");
        assert_eq!(row.state.mark() == Mark::Fine, fine, "{row:?}");

        let tree = gathered.tree(db, &CommandLine::default());
        assert_eq!(tree.is_fine(), fine, "status: {tree:?}");
        let text = lines(&[tree], Colours(false)).join("\n");
        assert!(text.contains(cause), "status: {text}");
        let is_refused = cause.contains("too restrictive");
        assert!(
            !is_refused || !text.contains("operator approve"),
            "status: {text}"
        );

        let standing = Standing {
            subscription: "db".to_owned(),
            ..Standing::default()
        };
        let explained = Explained {
            standings: vec![standing],
            ..Explained::default()
        };
        let causes = Cause::all(&gathered, "olm");
        let explained = with_causes(explained, &causes, Some("db"));
        assert_eq!(
            is_fine(&explained, &causes, Some("db")),
            fine,
            "explain: {explained}"
        );
        assert!(explained.to_string().contains(cause), "explain: {explained}");

        let diagnosis = Box::pin(diagnosed_in(&cluster, Some("shop"))).await;
        assert_eq!(diagnosis.healthy, fine, "doctor: {diagnosis:?}");
        let mut findings = diagnosis.findings.iter();
        let found = findings.find(|finding| finding.cause.contains(cause));
        assert_eq!(found.is_none(), fine, "doctor: {diagnosis:?}");
        if let Some(found) = found {
            assert!(found.remedy.contains(way_out), "doctor: {found:?}");
        }

        if let Some(line) = failures(&gathered).get("db") {
            assert!(line.contains(cause) && line.contains(way_out), "plan: {line}");
            assert!(!fine, "plan: {line}");
        }

        let commands = CommandLine::default();
        let suggested = db.way_out(&db.verdict(), &commands).unwrap_or_default();
        assert!(suggested.contains(way_out), "{suggested}");
    }
}
