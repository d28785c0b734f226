//! The five kinds of target namespaces of an OperatorGroup, each with a running operator: own namespace, one other, several, by
//! label, all.
//!
//! The targets must be visible in the group's status, on the running pod, in the copies, in the operator's actions, and in its
//! permissions. All tests read one catalog, from a pod in a namespace of its own.

use std::collections::BTreeSet;
use std::sync::{OnceLock, PoisonError, RwLock};

use anyhow::{Context as _, ensure};
use e2e::demo::{SECOND, greet, greeting};
use e2e::lab::{Lab, Namespace, PATIENCE, catalog_source, operator_group, subscription};
use serde_json::{Value, json};
use xtask::demo::PACKAGE;
use xtask::kubectl::text;

const RELEASE: &str = "1.1.0";
const KIND: &str = "greetings.demo.example.com";
/// Some of the operator's permissions.
const RIGHTS: [(&str, &str); 4] = [
    ("list", KIND),
    ("watch", KIND),
    ("create", "configmaps"),
    ("delete", "configmaps"),
];

/// Groups with disjoint targets may coexist and provide the same API; one for all namespaces conflicts with all others. So the
/// test for all namespaces waits until no other one runs.
static API: RwLock<()> = RwLock::new(());

/// Returns the address of the catalog that all tests read; its namespace exists as long as the cluster.
fn catalog() -> anyhow::Result<&'static str> {
    const ADDRESS: &str = "catalog.shapes-catalog.svc:50051";
    static MADE: OnceLock<Result<Namespace<'static>, String>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let made = || {
            let lab = Lab::shared()?;
            let namespace = lab.namespace("shapes-catalog")?;
            namespace.apply(&[catalog_source("catalog", lab.demo_catalog()?)])?;
            namespace.wait_for("catalogsource", "catalog", "to be READY", |catalog| {
                text(catalog, "/status/connectionState/lastObservedState") == "READY"
            })?;
            Ok(namespace)
        };
        made().map_err(|error: anyhow::Error| format!("{error:#}"))
    });
    match made {
        Ok(_) => Ok(ADDRESS),
        Err(error) => anyhow::bail!("no catalog: {error}"),
    }
}

/// An operator in its own namespace, whose name is also the name of the operator's account.
struct Installed {
    lab: &'static Lab,
    namespace: Namespace<'static>,
}

impl Installed {
    /// Creates the group, a catalog by its address, and a Subscription.
    fn new(name: &str, group: Value) -> anyhow::Result<Self> {
        let lab = Lab::shared()?;
        let address = catalog()?;
        let namespace = lab.namespace(name)?;
        let catalog = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "catalog"},
            "spec": {"sourceType": "grpc", "address": address, "displayName": "catalog"}
        });
        namespace.apply(&[
            catalog,
            group,
            subscription("demo", PACKAGE, "stable", "catalog", name),
        ])?;
        Ok(Self { lab, namespace })
    }

    /// Waits until the operator has succeeded and all objects show these targets; none means all namespaces.
    fn wait_for_targets(&self, targets: &[&str]) -> anyhow::Result<()> {
        let wanted: BTreeSet<&str> = targets.iter().copied().collect();
        let joined = wanted.iter().copied().collect::<Vec<_>>().join(",");
        let status = if wanted.is_empty() {
            json!([""])
        } else {
            json!(wanted)
        };
        let home = self.namespace.name();
        let what = format!("the operator of {home} to be for {joined:?}");
        self.lab.kubectl().wait(&what, PATIENCE, |_| {
            let group = self.namespace.get("operatorgroup", "group")?.unwrap_or_default();
            if group["status"]["namespaces"] != status {
                return Ok(Err(format!("the group says {}", group["status"])));
            }
            let csv = self.namespace.get("csv", SECOND)?.unwrap_or_default();
            let annotated = &csv["metadata"]["annotations"]["olm.targetNamespaces"];
            if *annotated != json!(joined) || text(&csv, "/status/phase") != "Succeeded" {
                return Ok(Err(format!(
                    "the CSV is for {annotated}, {}",
                    csv["status"]["message"]
                )));
            }
            let deployment = self.namespace.get("deployment", PACKAGE)?.unwrap_or_default();
            let (template, pods) = (
                watched(&deployment["spec"]["template"]),
                self.namespace.list("pod")?,
            );
            let running: Vec<String> = pods.iter().filter(|pod| is_ready(pod)).map(watched).collect();
            if template != joined || running != [joined.as_str()] || pods.len() != 1 {
                let count = pods.len();
                return Ok(Err(format!(
                    "pods are to be for {template:?}, of {count} run {running:?}"
                )));
            }
            let (found, copies) = (self.copies()?, self.copies_for(&wanted)?);
            Ok(if found == copies {
                Ok(())
            } else {
                Err(format!("copies in {found:?} instead of {copies:?}"))
            })
        })
    }

    fn copies(&self) -> anyhow::Result<BTreeSet<String>> {
        let label = format!("olm.copiedFrom={}", self.namespace.name());
        let found = self.lab.kubectl().get(&["csv", "-A", "-l", &label])?;
        Ok(names(&found.unwrap_or_default(), "/metadata/namespace", |_| true))
    }

    /// Returns the namespaces of copies: the targets except the operator's own namespace.
    fn copies_for(&self, targets: &BTreeSet<&str>) -> anyhow::Result<BTreeSet<String>> {
        let mut namespaces: BTreeSet<String> = targets.iter().map(|name| (*name).to_owned()).collect();
        if targets.is_empty() {
            let all = self.lab.kubectl().get(&["namespaces"])?.unwrap_or_default();
            namespaces = names(&all, "/metadata/name", |namespace| {
                text(namespace, "/status/phase") == "Active"
            });
        }
        namespaces.remove(self.namespace.name());
        Ok(namespaces)
    }

    /// Checks the operator's permissions in a namespace by access reviews: all of [`RIGHTS`] or none.
    fn check_rights(&self, within: &str, may: bool) -> anyhow::Result<()> {
        let who = format!("--as=system:serviceaccount:{}:{PACKAGE}", self.namespace.name());
        for (verb, resource) in RIGHTS {
            let answer = self.lab.kubectl().can_i(&[verb, resource, "-n", within, &who])?;
            ensure!(
                answer == may,
                "{verb} {resource} in {within} by the operator of {}: {answer}",
                self.namespace.name()
            );
        }
        Ok(())
    }

    /// Creates a Greeting in each namespace: it is answered in the targets, and the operator has no permissions elsewhere.
    fn check_acts(&self, targets: &[&Namespace<'_>], elsewhere: &[&Namespace<'_>]) -> anyhow::Result<()> {
        for other in elsewhere {
            other.apply(&[greeting()])?;
        }
        for target in targets {
            self.check_rights(target.name(), true)?;
            greet(target, RELEASE)?;
        }
        for other in elsewhere {
            self.check_rights(other.name(), false)?;
            let found = other.get(KIND, "ada")?.context("the Greeting is gone")?;
            ensure!(found["status"].is_null(), "answered in {}: {found}", other.name());
        }
        self.check_rights("default", false)
    }

    /// Removes the operator, so that other operators may own its API.
    fn remove(self) -> anyhow::Result<()> {
        let home = self.namespace.name();
        let kubectl = self.lab.kubectl();
        kubectl.run(&["delete", "subscription", "demo", "-n", home])?;
        kubectl.run(&["delete", "csv", SECOND, "-n", home])?;
        kubectl.wait(&format!("the copies of {home} to go"), PATIENCE, |_| {
            let left = self.copies()?;
            Ok(if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            })
        })
    }
}

/// Returns the watched namespaces of a pod or pod template.
fn watched(pod: &Value) -> String {
    text(pod, "/metadata/annotations/olm.targetNamespaces").to_owned()
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["containerStatuses"][0]["ready"] == true
}

/// Returns the values at `pointer` in the items of a list for which `counts` is true.
fn names(found: &Value, pointer: &str, counts: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let items = found["items"].as_array().into_iter().flatten();
    items
        .filter(|item| counts(item))
        .map(|item| text(item, pointer).to_owned())
        .collect()
}

/// Returns the roles in a namespace that belong to a copy of the operator.
fn carried_roles(namespace: &Namespace<'_>) -> anyhow::Result<Vec<Value>> {
    let roles = [namespace.list("role")?, namespace.list("rolebinding")?].concat();
    let is_carried = |role: &Value| text(role, "/metadata/labels/olm.owner") == SECOND;
    Ok(roles.into_iter().filter(is_carried).collect())
}

#[test]
fn og_005_a_group_for_its_own_namespace() -> anyhow::Result<()> {
    let _free = API.read().unwrap_or_else(PoisonError::into_inner);
    let elsewhere = Lab::shared()?.namespace("shapes-own-elsewhere")?;
    let operator = Installed::new("shapes-own", operator_group("group", &["shapes-own"]))?;
    operator.wait_for_targets(&["shapes-own"])?;
    operator.check_acts(&[&operator.namespace], &[&elsewhere])?;
    operator.remove()
}

#[test]
fn og_006_a_group_for_one_other_namespace() -> anyhow::Result<()> {
    let _free = API.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::shared()?;
    let (target, elsewhere) = (
        lab.namespace("shapes-single-target")?,
        lab.namespace("shapes-single-elsewhere")?,
    );
    let operator = Installed::new("shapes-single", operator_group("group", &[target.name()]))?;
    operator.wait_for_targets(&[target.name()])?;
    // In its own namespace the operator has the rights of its plan, but watches nothing.
    operator.namespace.apply(&[greeting()])?;
    operator.check_acts(&[&target], &[&elsewhere])?;
    let own = operator.namespace.get(KIND, "ada")?.unwrap_or_default();
    ensure!(own["status"].is_null(), "answered in its own namespace: {own}");

    let carried = carried_roles(&target)?;
    ensure!(carried.len() == 2, "one Role and its binding: {carried:#?}");
    for role in &carried {
        ensure!(text(role, "/metadata/labels/olm.copiedFrom") == "shapes-single");
    }
    operator.remove()?;
    let left = carried_roles(&target)?;
    ensure!(left.is_empty(), "the deleted CSV's rights stayed: {left:#?}");
    Ok(())
}

#[test]
fn og_007_a_group_for_several_namespaces() -> anyhow::Result<()> {
    let _free = API.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::shared()?;
    let (first, second) = (lab.namespace("shapes-multi-b")?, lab.namespace("shapes-multi-a")?);
    let elsewhere = lab.namespace("shapes-multi-elsewhere")?;
    let names = ["shapes-multi", first.name(), second.name()];
    let operator = Installed::new("shapes-multi", operator_group("group", &names))?;
    operator.wait_for_targets(&names)?;
    operator.check_acts(&[&operator.namespace, &first, &second], &[&elsewhere])?;
    operator.remove()
}

#[test]
fn og_015_a_group_for_the_namespaces_of_a_label() -> anyhow::Result<()> {
    let _free = API.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::shared()?;
    let (first, second) = (lab.namespace("shapes-label-a")?, lab.namespace("shapes-label-b")?);
    let label = |namespace: &Namespace<'_>, change: &str| {
        let words = ["label", "namespace", namespace.name(), change];
        lab.kubectl().run(&words)
    };
    label(&first, "shapes=yes")?;
    label(&second, "shapes=no")?;
    let mut group = operator_group("group", &[]);
    group["spec"]["selector"] = json!({"matchLabels": {"shapes": "yes"}});
    let operator = Installed::new("shapes-label", group)?;
    operator.wait_for_targets(&[first.name()])?;
    operator.check_acts(&[&first], &[&second])?;

    lab.kubectl()
        .run(&["label", "--overwrite", "namespace", second.name(), "shapes=yes"])?;
    operator.wait_for_targets(&[first.name(), second.name()])?;
    // The Greeting that had no answer before gets one now.
    greet(&second, RELEASE)?;
    operator.check_acts(&[&first, &second], &[])?;

    label(&first, "shapes-")?;
    operator.wait_for_targets(&[second.name()])?;
    lab.kubectl().run(&["delete", KIND, "ada", "-n", first.name()])?;
    operator.check_acts(&[&second], &[&first])?;
    ensure!(carried_roles(&first)?.is_empty());
    operator.remove()
}

#[test]
fn og_008_a_group_for_all_namespaces() -> anyhow::Result<()> {
    let _alone = API.write().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::shared()?;
    let before = lab.namespace("shapes-all-before")?;
    let operator = Installed::new("shapes-all", operator_group("group", &[]))?;
    operator.wait_for_targets(&[])?;
    let after = lab.namespace("shapes-all-after")?;
    for namespace in [&before, &after, &operator.namespace] {
        greet(namespace, RELEASE)?;
        operator.check_rights(namespace.name(), true)?;
    }
    operator.check_rights("default", true)?;
    operator.wait_for_targets(&[])?;
    operator.remove()?;
    // The account and its cluster-wide permissions are deleted with the ClusterServiceVersion.
    for kind in ["clusterrole", "clusterrolebinding"] {
        let found = lab.kubectl().get(&[
            kind,
            "-l",
            "olm.owner.namespace=shapes-all,olm.owner.kind=ClusterServiceVersion",
        ])?;
        let left = names(&found.unwrap_or_default(), "/metadata/name", |_| true);
        ensure!(left.is_empty(), "{kind} left: {left:?}");
    }
    Ok(())
}
