//! Expected result of a bundle, derived from its content, the OperatorGroup, and the cluster's version and node.
//!
//! This is a second implementation of the specification, on plain JSON and without code of the operators, so the operators are
//! not tested against themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::bundle::{Bundle, list};
use super::catalog::Api;
use super::pods;

/// Kinds that every cluster has; bundles may contain older versions of them than the cluster serves.
const BUILT_IN: [&str; 9] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CustomResourceDefinition",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
];
/// Kinds that bundles may contain and that are applied only if the cluster serves them.
const OPTIONAL: [&str; 11] = [
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PriorityClass",
    "PrometheusRule",
    "ServiceMonitor",
    "VerticalPodAutoscaler",
];

/// Namespaces an OperatorGroup selects, relative to the operator's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Targets {
    /// Its own namespace.
    Own,
    /// One other namespace.
    OneOther,
    /// All namespaces.
    All,
}

impl Targets {
    /// Returns the install mode an operator needs for these targets, and their description in the message.
    fn mode(self) -> (&'static str, &'static str) {
        match self {
            Self::Own => ("OwnNamespace", "own namespace"),
            Self::OneOther => ("SingleNamespace", "one namespace"),
            Self::All => ("AllNamespaces", "all namespaces"),
        }
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode().0)
    }
}

/// State of the cluster that affects the result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Major, minor and patch version of Kubernetes.
    pub kubernetes: [u64; 3],
    /// Labels of the node all pods run on.
    pub node_labels: BTreeMap<String, String>,
    /// `group/version` of all APIs served.
    pub served: BTreeSet<String>,
    /// APIs that bundles of the catalog provide.
    pub provided: BTreeSet<Api>,
}

/// Expected result of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expectation {
    /// Its ClusterServiceVersion has this status.
    Csv {
        /// `status.phase`.
        phase: &'static str,
        /// Value of `status.reason`.
        reason: &'static str,
        /// Texts that `status.message` contains.
        says: Vec<String>,
    },
    /// Nothing is applied, and the Subscription has a condition that is True.
    Subscription {
        /// Type of the condition.
        condition: &'static str,
        /// Reason of the condition.
        reason: &'static str,
        /// Texts that the condition's message contains.
        says: Vec<String>,
    },
    /// The InstallPlan fails.
    PlanFailed {
        /// Texts of which the plan's message contains at least one.
        says_one_of: Vec<String>,
    },
}

impl Expectation {
    /// Returns the expectation that the operator runs.
    pub fn succeeded() -> Self {
        Self::Csv {
            phase: "Succeeded",
            reason: "InstallSucceeded",
            says: vec!["install strategy completed with no errors".to_owned()],
        }
    }

    /// Returns true if the operator must finally run.
    pub fn is_success(&self) -> bool {
        matches!(
            self,
            Self::Csv {
                phase: "Succeeded",
                ..
            }
        )
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Csv { phase, reason, .. } => write!(f, "{phase}/{reason}"),
            Self::Subscription {
                condition, reason, ..
            } => write!(f, "Subscription {condition}/{reason}"),
            Self::PlanFailed { .. } => f.write_str("InstallPlan Failed"),
        }
    }
}

/// Error: the result of a bundle cannot be predicted; the reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpredictable(pub Vec<String>);

impl fmt::Display for Unpredictable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for Unpredictable {}

/// Returns the expected result of `bundle`, which requires the APIs `required` of other operators, under an OperatorGroup with
/// `targets`.
///
/// # Errors
/// If the result depends on more than this.
pub fn derive(
    bundle: &Bundle,
    required: &[Api],
    targets: Targets,
    around: &Surroundings,
) -> Result<Expectation, Unpredictable> {
    if let Some(missing) = required.iter().find(|api| !around.provided.contains(api)) {
        return Ok(unresolvable(missing));
    }
    if !required.is_empty() {
        return Err(Unpredictable(vec!["it depends on other operators".to_owned()]));
    }
    let early = refused(bundle)
        .or_else(|| not_served(bundle, around))
        .or_else(|| mode_not_supported(bundle, targets));
    if let Some(early) = early.or_else(|| kubernetes_too_old(bundle, around)) {
        return Ok(early);
    }
    if !pods::misplaced(bundle, &around.node_labels).is_empty() {
        return Ok(unschedulable());
    }
    let obstacles = pods::obstacles(bundle);
    if !obstacles.is_empty() {
        return Err(Unpredictable(obstacles));
    }
    let late = pinned_image(bundle).or_else(|| unserved_api(bundle));
    Ok(late.unwrap_or_else(Expectation::succeeded))
}

fn unresolvable(missing: &Api) -> Expectation {
    let Api { group, version, kind } = missing;
    Expectation::Subscription {
        condition: "ResolutionFailed",
        reason: "ConstraintsNotSatisfiable",
        says: vec![format!(
            "requires an operator providing an API with group: {group}, version: {version}, kind: {kind}"
        )],
    }
}

/// Returns the refusal of objects that no current cluster accepts; it is reported before anything is applied.
fn refused(bundle: &Bundle) -> Option<Expectation> {
    let says: Vec<String> = bundle
        .objects
        .iter()
        .filter_map(|object| {
            let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, version) = (word(&object["kind"]), word(&object["apiVersion"]));
            let name = word(&object["metadata"]["name"]);
            if kind == "CustomResourceDefinition" && version != "apiextensions.k8s.io/v1" {
                return Some(format!(
                    "CustomResourceDefinition {name} has apiVersion {version}"
                ));
            }
            let known = BUILT_IN.contains(&kind.as_str()) || OPTIONAL.contains(&kind.as_str());
            (!known).then(|| format!("OLM does not support objects of kind {kind}"))
        })
        .collect();
    (!says.is_empty()).then_some(Expectation::Subscription {
        condition: "BundleUnpackFailed",
        reason: "ErrorPreventedUnpacking",
        says,
    })
}

fn not_served(bundle: &Bundle, around: &Surroundings) -> Option<Expectation> {
    let says_one_of: Vec<String> = bundle
        .objects
        .iter()
        .filter_map(|object| {
            let (kind, version) = (object["kind"].as_str()?, object["apiVersion"].as_str()?);
            let name = object["metadata"]["name"].as_str()?;
            (OPTIONAL.contains(&kind) && !around.served.contains(version)).then(|| {
                format!(
                    "api-server resource not found installing {kind} {name}: GroupVersionKind {version}, Kind={kind} not \
                     found on the cluster"
                )
            })
        })
        .collect();
    (!says_one_of.is_empty()).then_some(Expectation::PlanFailed { says_one_of })
}

fn mode_not_supported(bundle: &Bundle, targets: Targets) -> Option<Expectation> {
    let (needed, what) = targets.mode();
    let supported = list(&bundle.csv["spec"]["installModes"])
        .iter()
        .any(|mode| mode["type"] == needed && mode["supported"] == true);
    (!supported).then(|| Expectation::Csv {
        phase: "Failed",
        reason: "UnsupportedOperatorGroup",
        says: vec![format!(
            "{needed} InstallModeType not supported, cannot configure to watch {what}"
        )],
    })
}

/// Returns the expectation of pods that fit no node; the scheduler's own message is reported.
fn unschedulable() -> Expectation {
    Expectation::Csv {
        phase: "Installing",
        reason: "InstallWaiting",
        says: vec![
            "cannot be scheduled".to_owned(),
            "node affinity/selector".to_owned(),
        ],
    }
}

/// Returns the expectation of an operator that serves an API, because no stand-in serves one.
fn unserved_api(bundle: &Bundle) -> Option<Expectation> {
    let owned = list(&bundle.csv["spec"]["apiservicedefinitions"]["owned"]);
    let is_served = owned.iter().any(|api| !api["deploymentName"].is_null());
    is_served.then(|| Expectation::Csv {
        phase: "Installing",
        reason: "InstallWaiting",
        says: vec!["apiServices not installed".to_owned()],
    })
}

fn kubernetes_too_old(bundle: &Bundle, around: &Surroundings) -> Option<Expectation> {
    let least = bundle.csv["spec"]["minKubeVersion"]
        .as_str()
        .filter(|text| !text.is_empty())?;
    let parts: Vec<u64> = least
        .trim_start_matches('v')
        .split('.')
        .filter_map(|part| part.parse().ok())
        .collect();
    (parts.as_slice() > around.kubernetes.as_slice()).then(|| Expectation::Csv {
        phase: "Pending",
        reason: "RequirementsNotMet",
        says: Vec::new(),
    })
}

/// Returns the expectation of an image with a digest, because no stand-in has the digest of its original.
fn pinned_image(bundle: &Bundle) -> Option<Expectation> {
    let image = bundle.images().find(|image| image.contains('@'))?;
    Some(Expectation::Csv {
        phase: "Installing",
        reason: "InstallWaiting",
        says: vec![
            format!("ImagePullBackOff: image {image} cannot be pulled"),
            "not found".to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
    fn csv(spec: Value) -> Value {
        let mut csv = json!({
            "kind": "ClusterServiceVersion", "metadata": {"name": "a.v1"},
            "spec": {
                "installModes": [
                    {"type": "OwnNamespace", "supported": true}, {"type": "SingleNamespace", "supported": true},
                    {"type": "AllNamespaces", "supported": false}],
                "install": {"strategy": "deployment", "spec": {"deployments": [
                    {"name": "d", "spec": {"template": {"spec": {"containers": [
                        {"name": "c", "image": "quay.io/a/a:v1", "command": ["/manager"]}]}}}}]}}
            }
        });
        for (key, value) in spec.as_object().unwrap() {
            csv["spec"][key] = value.clone();
        }
        csv
    }

    fn around() -> Surroundings {
        Surroundings {
            kubernetes: [1, 34, 1],
            served: BTreeSet::from(["policy/v1".to_owned()]),
            ..Default::default()
        }
    }

    #[track_caller]
    fn check(spec: Value, objects: &[Value], targets: Targets, expected: &str, says: &[&str]) {
        let mut manifests = vec![csv(spec)];
        manifests.extend_from_slice(objects);
        let found = derive(&Bundle::new(manifests).unwrap(), &[], targets, &around()).unwrap();
        assert_eq!(found.to_string(), expected);
        let (Expectation::Csv { says: found, .. }
        | Expectation::Subscription { says: found, .. }
        | Expectation::PlanFailed { says_one_of: found }) = found;
        assert_eq!(found, says);
    }

    fn crd(version: &str) -> Value {
        json!({"kind": "CustomResourceDefinition", "apiVersion": format!("apiextensions.k8s.io/{version}"),
               "metadata": {"name": "as.example.com"}})
    }

    const FINE: &str = "Succeeded/InstallSucceeded";
    const DONE: [&str; 1] = ["install strategy completed with no errors"];

    #[test]
    fn a_plain_operator_succeeds_where_its_modes_allow() {
        check(json!({}), &[crd("v1")], Targets::Own, FINE, &DONE);
        check(json!({}), &[crd("v1")], Targets::OneOther, FINE, &DONE);
        let says = "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces";
        check(
            json!({}),
            &[],
            Targets::All,
            "Failed/UnsupportedOperatorGroup",
            &[says],
        );
        let says = "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace";
        check(
            json!({"installModes": []}),
            &[],
            Targets::Own,
            "Failed/UnsupportedOperatorGroup",
            &[says],
        );
    }

    #[test]
    fn an_old_custom_resource_definition_is_refused_before_anything_else() {
        let says = "CustomResourceDefinition as.example.com has apiVersion apiextensions.k8s.io/v1beta1";
        let expected = "Subscription BundleUnpackFailed/ErrorPreventedUnpacking";
        check(
            json!({"installModes": []}),
            &[crd("v1beta1")],
            Targets::Own,
            expected,
            &[says],
        );
        let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}});
        check(
            json!({}),
            &[pod],
            Targets::Own,
            expected,
            &["OLM does not support objects of kind Pod"],
        );
    }

    #[test]
    fn what_the_cluster_does_not_serve_fails_the_plan() {
        let object = |version: &str, kind: &str| json!({"kind": kind, "apiVersion": version, "metadata": {"name": "m"}});
        let objects = [
            object("monitoring.coreos.com/v1", "ServiceMonitor"),
            object("policy/v1", "PodDisruptionBudget"),
            object("rbac.authorization.k8s.io/v1beta1", "ClusterRole"),
        ];
        let says = "api-server resource not found installing ServiceMonitor m: GroupVersionKind monitoring.coreos.com/v1, \
                    Kind=ServiceMonitor not found on the cluster";
        check(json!({}), &objects, Targets::Own, "InstallPlan Failed", &[says]);
        check(json!({}), &objects[1..], Targets::Own, FINE, &DONE);
    }

    #[test]
    fn webhooks_need_no_answer_and_apis_do() {
        let spec = json!({"webhookdefinitions": [{"generateName": "w"}]});
        check(spec, &[], Targets::Own, FINE, &DONE);
        let spec = json!({"apiservicedefinitions": {"owned": [{"name": "x", "deploymentName": "d"}]}});
        let expected = "Installing/InstallWaiting";
        check(spec, &[], Targets::Own, expected, &["apiServices not installed"]);
    }

    #[test]
    fn a_newer_kubernetes_than_there_is_is_waited_for() {
        let least = |version: &str| json!({"minKubeVersion": version});
        check(
            least("1.35.0"),
            &[],
            Targets::Own,
            "Pending/RequirementsNotMet",
            &[],
        );
        for fine in ["1.34.1", "1.9.0", "", "v1.34.0"] {
            check(least(fine), &[], Targets::Own, FINE, &DONE);
        }
    }

    #[test]
    fn a_pinned_image_cannot_be_pulled() {
        let mut bundle = Bundle::new(vec![csv(json!({}))]).unwrap();
        let image = "quay.io/a/a@sha256:12";
        bundle.csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"]
            [0]["image"] = json!(image);
        let found = derive(&bundle, &[], Targets::Own, &around()).unwrap();
        assert_eq!(found.to_string(), "Installing/InstallWaiting");
        let Expectation::Csv { says, .. } = found else {
            unreachable!()
        };
        assert!(says[0].contains(image), "{says:?}");
    }

    #[test]
    fn a_required_api_must_be_provided_by_the_catalog() {
        let bundle = Bundle::new(vec![csv(json!({}))]).unwrap();
        let api = Api {
            group: "g".into(),
            version: "v1".into(),
            kind: "K".into(),
        };
        let mut around = around();
        let found = derive(&bundle, std::slice::from_ref(&api), Targets::Own, &around).unwrap();
        assert_eq!(
            found.to_string(),
            "Subscription ResolutionFailed/ConstraintsNotSatisfiable"
        );
        around.provided.insert(api.clone());
        assert!(derive(&bundle, &[api], Targets::Own, &around).is_err());
    }

    #[test]
    fn what_depends_on_the_node_or_on_others_is_not_guessed() {
        let mut bundle = Bundle::new(vec![csv(json!({}))]).unwrap();
        let pod = &mut bundle.csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"];
        pod["hostNetwork"] = json!(true);
        let Unpredictable(why) = derive(&bundle, &[], Targets::Own, &around()).unwrap_err();
        assert_eq!(why, ["Deployment d wants the node's network"]);
    }

    #[test]
    fn pods_that_fit_no_node_are_waited_for() {
        let mut bundle = Bundle::new(vec![csv(json!({}))]).unwrap();
        let pod = &mut bundle.csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"];
        pod["nodeSelector"] = json!({"role": "master"});
        let found = derive(&bundle, &[], Targets::Own, &around()).unwrap();
        assert_eq!(found.to_string(), "Installing/InstallWaiting");
    }
}
