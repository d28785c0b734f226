//! The way from a Subscription to a running operator, and its upgrade.

use anyhow::Context as _;
use e2e::demo::{FIRST, SECOND, greet, install};
use e2e::lab::{Lab, condition};
use serde_json::{Value, json};
use xtask::kubectl::text;

const APPROVE: &str = "operatorframework.io/upgrade-approve";
const HOLD: &str = "operatorframework.io/upgrade-hold";

#[test]
fn arch_001_a_catalog_a_group_and_a_subscription_are_enough() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("main-own")?;
    install(&namespace, &[namespace.name()], |_| {})?;

    let csv = namespace.wait_for_phase(SECOND, "Succeeded")?;
    assert_eq!(csv["status"]["reason"], "InstallSucceeded");
    assert_eq!(
        csv["status"]["message"],
        "install strategy completed with no errors"
    );
    let annotations = &csv["metadata"]["annotations"];
    assert_eq!(annotations["olm.operatorGroup"], "group");
    assert_eq!(annotations["olm.operatorNamespace"], namespace.name());
    assert_eq!(annotations["olm.targetNamespaces"], namespace.name());

    let deployment = namespace
        .get("deployment", "demo-operator")?
        .context("no Deployment")?;
    assert_eq!(deployment["status"]["availableReplicas"], 1);
    assert_eq!(deployment["metadata"]["labels"]["olm.owner"], SECOND);
    assert_eq!(deployment["metadata"]["labels"]["olm.managed"], "true");

    let subscription = namespace.wait_for("subscription", "demo", "AtLatestKnown", |object| {
        text(object, "/status/state") == "AtLatestKnown"
    })?;
    assert_eq!(subscription["status"]["installedCSV"], SECOND);
    let plan = text(&subscription, "/status/installPlanRef/name");
    let plan = namespace
        .get("installplan", plan)?
        .context("the plan the Subscription names does not exist")?;
    assert_eq!(plan["status"]["phase"], "Complete");
    assert_eq!(plan["spec"]["approved"], true);
    greet(&namespace, "1.1.0")
}

#[test]
fn what_is_changed_or_taken_away_by_hand_is_put_back_and_replicas_are_not() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("main-by-hand")?;
    install(&namespace, &[namespace.name()], |_| {})?;
    namespace.wait_for_phase(SECOND, "Succeeded")?;
    let kubectl = Lab::shared()?.kubectl();
    let within = ["-n", namespace.name(), "deployment/demo-operator"];
    let image = |object: &Value| text(object, "/spec/template/spec/containers/0/image").to_owned();
    let get = || {
        let found = namespace.get("deployment", "demo-operator")?;
        found.context("no Deployment")
    };
    let before = image(&get()?);
    let installed = get()?;
    let noted =
        |object: &Value| object["metadata"]["annotations"]["operatorframework.io/undone-change"].clone();
    assert!(
        noted(&installed).is_null(),
        "nothing was undone yet: {}",
        noted(&installed)
    );
    let name = get()?["spec"]["template"]["spec"]["containers"][0]["name"].clone();
    let other = format!("{}=example.invalid/other:1", name.as_str().unwrap_or_default());
    kubectl.run(&["set", "image", within[2], &other, within[0], within[1]])?;
    namespace.wait_for("deployment", "demo-operator", "its image back", |object| {
        image(object) == before
            && !text(
                object,
                "/metadata/annotations/operatorframework.io~1undone-change",
            )
            .is_empty()
    })?;
    namespace.wait_for_phase(SECOND, "Succeeded")?;
    let image_back = get()?;
    assert_eq!(image_back["spec"], installed["spec"]);

    // A missing field has no owner.
    for path in ["resources", "env/0", "securityContext/capabilities"] {
        let before = noted(&get()?);
        let patch = format!(r#"[{{"op": "remove", "path": "/spec/template/spec/containers/0/{path}"}}]"#);
        kubectl.run(&[
            "patch",
            within[2],
            "--type=json",
            "-p",
            &patch,
            within[0],
            within[1],
        ])?;
        namespace.wait_for("deployment", "demo-operator", "what was taken away", |object| {
            object["spec"] == installed["spec"] && noted(object) != before
        })?;
        namespace.wait_for_phase(SECOND, "Succeeded")?;
    }
    let restored = get()?;

    kubectl.run(&["rollout", "restart", within[2], within[0], within[1]])?;
    kubectl.run(&["scale", within[2], "--replicas=2", within[0], within[1]])?;
    let scaled = namespace.wait_for("deployment", "demo-operator", "two replicas", |object| {
        object["status"]["availableReplicas"] == 2
    })?;
    // A write that reverts one of the two would have happened by now.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let found = get()?;
    assert_eq!(found["spec"], scaled["spec"]);
    let restarted = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt";
    assert!(!text(&found, restarted).is_empty());
    assert_eq!(noted(&found), noted(&restored));
    Ok(())
}

#[test]
fn manual_approval_holds_the_install_and_each_upgrade() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("main-manual")?;
    install(&namespace, &[namespace.name()], |wanted| {
        wanted["spec"]["installPlanApproval"] = json!("Manual");
        wanted["spec"]["startingCSV"] = json!(FIRST);
    })?;

    let first_plan = namespace.wait_for_plan(FIRST, "RequiresApproval")?;
    assert!(
        namespace.own_csvs()?.is_empty(),
        "nothing may be installed before the approval"
    );
    let pending = namespace.wait_for_condition("demo", "InstallPlanPending")?;
    assert_eq!(pending["reason"], "RequiresApproval");
    namespace.approve(&first_plan)?;
    namespace.wait_for_phase(FIRST, "Succeeded")?;
    greet(&namespace, "1.0.0")?;

    let second_plan = namespace.wait_for_plan(SECOND, "RequiresApproval")?;
    assert_ne!(first_plan, second_plan);
    let subscription = namespace.wait_for("subscription", "demo", "the upgrade that waits", |object| {
        text(object, "/status/state") == "UpgradePending" && text(object, "/status/currentCSV") == SECOND
    })?;
    assert_eq!(subscription["status"]["installedCSV"], FIRST);
    namespace.approve(&second_plan)?;
    let csv = namespace.wait_for_phase(SECOND, "Succeeded")?;
    assert_eq!(csv["spec"]["replaces"], FIRST);
    greet(&namespace, "1.1.0")?;
    Lab::shared()?
        .kubectl()
        .wait("the old CSV to be deleted", e2e::lab::PATIENCE, |_| {
            Ok(match namespace.get("csv", FIRST)? {
                None => Ok(()),
                Some(csv) => Err(csv["status"]["phase"].to_string()),
            })
        })?;
    let roles = Lab::shared()?.kubectl().get(&[
        "clusterrole",
        "-l",
        &format!("olm.owner={FIRST},olm.owner.namespace={}", namespace.name()),
    ])?;
    let roles = roles.unwrap_or_default();
    assert!(
        roles["items"].as_array().is_none_or(Vec::is_empty),
        "the old CSV's cluster roles stayed: {roles}"
    );
    Ok(())
}

/// A first install uses the best allowed version; then a hold is removed, and an upgrade larger than a patch follows.
#[test]
fn upgrades_wait_for_what_annotations_ask_for() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("main-policy")?;
    let annotate = |annotations: Value| {
        let patch =
            json!({"metadata": {"annotations": annotations}, "spec": {"installPlanApproval": "Manual"}});
        let patch = patch.to_string();
        let within = ["-n", namespace.name(), "subscription", "demo"];
        let kubectl = Lab::shared()?.kubectl();
        kubectl.run(&[&["patch", "--type=merge", "-p", &patch][..], &within].concat())
    };
    install(&namespace, &[namespace.name()], |wanted| {
        wanted["metadata"]["annotations"] = json!({HOLD: "<1.1.0"});
    })?;
    namespace.wait_for_phase(FIRST, "Succeeded")?;
    namespace.wait_for("subscription", "demo", "AtLatestKnown", |object| {
        text(object, "/status/state") == "AtLatestKnown" && text(object, "/status/installedCSV") == FIRST
    })?;
    assert_eq!(namespace.list("installplan")?.len(), 1, "the head is not planned");

    annotate(json!({HOLD: null, APPROVE: "patch"}))?;
    let plan = namespace.wait_for_plan(SECOND, "RequiresApproval")?;
    let pending = namespace.wait_for("subscription", "demo", "what it waits for", |object| {
        let pending = condition(object, "InstallPlanPending");
        pending.is_some_and(|pending| text(pending, "/message").contains(APPROVE))
    })?;
    assert_eq!(pending["status"]["installPlanRef"]["name"], plan.as_str());
    assert!(namespace.get("csv", SECOND)?.is_none());

    annotate(json!({APPROVE: "minor"}))?;
    namespace.wait_for_phase(SECOND, "Succeeded")?;
    let plan = namespace.get("installplan", &plan)?.context("no plan")?;
    assert_eq!(plan["spec"]["approved"], true);
    greet(&namespace, "1.1.0")
}

#[test]
fn arch_003_each_operator_writes_the_status_of_its_own_kinds() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("main-owners")?;
    install(&namespace, &[namespace.name()], |_| {})?;
    namespace.wait_for_phase(SECOND, "Succeeded")?;
    namespace.wait_for("subscription", "demo", "AtLatestKnown", |o| {
        text(o, "/status/state") == "AtLatestKnown"
    })?;
    let owner = |resource: &str| match resource {
        "clusterserviceversions" | "operatorgroups" => Some("system:serviceaccount:olm:olm-operator"),
        "installplans" | "catalogsources" | "subscriptions" => {
            Some("system:serviceaccount:olm:catalog-operator")
        }
        _ => None,
    };
    let mut seen = std::collections::BTreeSet::new();
    for event in Lab::shared()?
        .cluster()
        .audit_events()?
        .iter()
        .filter(|event| event.is_write())
    {
        let Some(object) = &event.object_ref else { continue };
        if object.namespace != namespace.name() || object.subresource != "status" {
            continue;
        }
        if let Some(owner) = owner(&object.resource) {
            assert_eq!(event.user.username, owner, "{}", event.request_uri);
            seen.insert(object.resource.clone());
        }
    }
    assert_eq!(seen.len(), 5, "statuses written: {seen:?}");
    Ok(())
}

#[test]
fn tables_have_upstreams_columns() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("main-tables")?;
    install(&namespace, &[namespace.name()], |_| {})?;
    namespace.wait_for_phase(SECOND, "Succeeded")?;
    let table = |kind: &str| -> anyhow::Result<Vec<Vec<String>>> {
        let text = Lab::shared()?
            .kubectl()
            .run(&["get", kind, "-n", namespace.name()])?;
        Ok(text
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|c| !c.is_empty())
                    .map(str::to_owned)
                    .collect()
            })
            .collect())
    };
    assert_eq!(
        table("csv")?[0],
        ["NAME", "DISPLAY", "VERSION", "RELEASE", "REPLACES", "PHASE"]
    );
    // Operators for all namespaces of other tests are copied to this namespace, too.
    let versions = table("csv")?;
    assert_eq!(
        versions.iter().find(|row| row[0] == SECOND).context("no row")?[..],
        [SECOND, "Demo Operator", "1.1.0", FIRST, "Succeeded"]
    );
    assert_eq!(
        table("sub")?,
        [
            ["NAME", "PACKAGE", "SOURCE", "CHANNEL"],
            ["demo", "demo-operator", "catalog", "stable"]
        ]
    );
    assert_eq!(table("installplan")?[0], ["NAME", "CSV", "APPROVAL", "APPROVED"]);
    assert_eq!(table("installplan")?[1][1..], [SECOND, "Automatic", "true"]);
    assert_eq!(
        table("catsrc")?[0],
        ["NAME", "DISPLAY", "TYPE", "PUBLISHER", "AGE"]
    );
    assert_eq!(table("catsrc")?[1][..4], ["catalog", "catalog", "grpc", "e2e"]);
    assert_eq!(table("og")?[0], ["NAME", "AGE"]);
    Ok(())
}
