//! Nothing that tenants write makes the operator panic: bundles through the checks, the plan and its steps, definitions
//! merged with what is in the cluster, annotations and specs of the objects that are read.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

#[path = "../../olm-fbc/tests/fuzzing/mod.rs"]
mod fuzzing;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use catalog_operator::for_tests::catalog_source::{ConfigMapState, Observed as ObservedSource, PodSettings};
use catalog_operator::for_tests::install_plan::{
    CheckRequest, CheckState, NoObject, Observed, Reads, observe,
};
use catalog_operator::for_tests::subscription::{Facts, NamespaceState, ResolutionOutcome};
use catalog_operator::for_tests::{
    BundleImageReference, ConnectionState, Manifest, UnpackedBundle, annotation, bundle_unpack,
    catalog_source, crd_upgrade, install_plan, object, read_files, resolution, subscription,
};
use fuzzing::{Fuzz, Random, tree};
use kube::core::ApiResource;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{BundleLookup, CatalogSource, ClusterServiceVersion, InstallPlan, Subscription};
use olm_runtime::discovery::ServedKind;
use olm_runtime::error::ObserveError;
use olm_runtime::outcome::{Outcome, outcomes_for_tests};
use olm_runtime::plan::{Target, merge_patch};
use olm_runtime::{NamespacedName, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAMESPACE: &str = "ns";

const WORDS: [&str; 26] = [
    "null",
    "{}",
    "[]",
    "\"\"",
    "apiVersion",
    "kind",
    "CustomResourceDefinition",
    "ClusterServiceVersion",
    "BundleImage",
    "ConfigMap",
    "metadata",
    "annotations",
    "spec",
    "names",
    "conversion",
    "versions",
    "ownerReferences",
    "storedVersions",
    "deletionTimestamp",
    "3000000000000000h",
    "1ns",
    "-1h",
    "18446744073709551615",
    "1e999",
    "\u{e9}",
    "%",
];

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("time")
}

fn documents(input: &[u8]) -> Vec<Value> {
    serde_json::Deserializer::from_slice(input)
        .into_iter::<Value>()
        .map_while(Result::ok)
        .take(40)
        .collect()
}

fn text(values: &[Value]) -> Vec<u8> {
    let lines: Vec<String> = values.iter().map(Value::to_string).collect();
    lines.join("\n").into_bytes()
}

fn changed_documents(seeds: &[Vec<u8>], random: &mut Random) -> Option<Vec<u8>> {
    let mut values = documents(random.of::<Vec<u8>>(seeds));
    let others = documents(random.of::<Vec<u8>>(seeds));
    if values.is_empty() || others.is_empty() {
        return None;
    }
    tree::change_documents(&mut values, &others, |value, _| value.clone(), random);
    Some(text(&values))
}

fn csv() -> Value {
    let rules = json!([{"serviceAccountName": "demo", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}]);
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "demo.v1", "namespace": NAMESPACE, "annotations": {
            "operatorframework.io/properties": "{\"properties\":[{\"type\":\"olm.package\",\"value\":{\"packageName\":\"demo\",\"version\":\"1.0.0\"}}]}"}},
        "spec": {"displayName": "Demo", "version": "1.0.0", "minKubeVersion": "1.20.0", "replaces": "demo.v0",
            "customresourcedefinitions": {"owned": [{"name": "demos.example.com", "version": "v1", "kind": "Demo"}]},
            "webhookdefinitions": [{"type": "ConversionWebhook", "generateName": "c", "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "conversionCRDs": ["demos.example.com"]}],
            "install": {"strategy": "deployment", "spec": {"deployments": [],
                "permissions": rules, "clusterPermissions": rules}}}})
}

fn crd() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "demos.example.com", "annotations": {"operatorframework.io/installed-alongside-1": "ns/demo.v0"}},
        "spec": {"group": "example.com", "scope": "Namespaced", "preserveUnknownFields": false,
            "names": {"kind": "Demo", "plural": "demos", "listKind": "DemoList", "singular": "demo"},
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"caBundle": "Q0E=", "service": {"name": "s", "namespace": "n", "path": "/", "port": 443}}}},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
        "status": {"storedVersions": ["v1"], "conditions": [
            {"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]}})
}

fn core(kind: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": kind.to_lowercase(), "labels": {"a": "b"},
        "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "demo.v1", "uid": ""}]}});
    olm_testing::patch::merge(&mut object, rest);
    object
}

/// The objects of bundles, and of a cluster.
fn bundle_seeds() -> Vec<Vec<u8>> {
    let rbac = "rbac.authorization.k8s.io/v1";
    let rich = [
        csv(),
        crd(),
        core("ConfigMap", &json!({"data": {"a": "1"}, "immutable": false})),
        core(
            "Secret",
            &json!({"stringData": {"password": "x"}, "type": "Opaque"}),
        ),
        core("Service", &json!({"spec": {"ports": [{"port": 80}]}})),
        core("ServiceAccount", &json!({"imagePullSecrets": [{"name": "s"}]})),
        json!({"apiVersion": rbac, "kind": "Role", "metadata": {"name": "r"}, "rules": [{"verbs": ["*"]}]}),
        json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "b"}, "subjects": [],
            "roleRef": {"kind": "ClusterRole", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p"}, "spec": {"minAvailable": 1}}),
    ];
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let seeds: [&[Value]; 4] = [&rich, &[csv(), crd()], &[csv()], &[csv(), pod]];
    seeds.map(text).to_vec()
}

/// A cluster that answers every read with another document, under the name that was asked for.
struct AnyCluster {
    bundle: UnpackedBundle,
    documents: Vec<Value>,
    asked: AtomicUsize,
}

#[async_trait]
impl Reads for AnyCluster {
    async fn get(&self, target: &Target) -> Result<Option<Value>, ObserveError> {
        let at = self.asked.fetch_add(1, Ordering::Relaxed);
        let found = self.documents.get(at % (self.documents.len() + 1)).cloned();
        // An API server answers with objects only, of the name that was asked for.
        let Some(mut found) = found.filter(Value::is_object) else {
            return Ok(None);
        };
        object::map_mut(&mut found, "metadata").insert("name".to_owned(), target.name.clone().into());
        Ok(Some(found))
    }

    async fn find_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<Option<ServedKind>, ObserveError> {
        let api = ApiResource {
            group: group.into(),
            version: version.into(),
            api_version: format!("{group}/{version}"),
            kind: kind.into(),
            plural: format!("{}s", kind.to_lowercase()),
        };
        let namespaced = kind.len().is_multiple_of(2);
        Ok((kind != "PriorityClass").then_some(ServedKind { api, namespaced }))
    }

    async fn bundle(&self, _: &BundleImageReference, _: &InstallPlan) -> Result<UnpackedBundle, NoObject> {
        Ok(self.bundle.clone())
    }

    fn csv_exists(&self, csv: &str) -> bool {
        csv.len().is_multiple_of(2)
    }

    fn converters(&self, crd: &str, _: &str) -> Vec<String> {
        let count = usize::from(crd.len().is_multiple_of(2));
        vec!["converter.v1".to_owned(); count]
    }

    fn crd_owners(&self, crd: &str) -> Vec<NamespacedName> {
        vec![NamespacedName::new("elsewhere", "owner.v1"); crd.len() % 3]
    }

    async fn check_custom_resources(&self, request: CheckRequest) -> CheckState {
        match request.crd.len().is_multiple_of(2) {
            true => CheckState::Fits,
            false => CheckState::Unread("no answer".to_owned()),
        }
    }

    fn global_namespace(&self) -> &str {
        "olm"
    }
}

fn typed<K: DeserializeOwned>(value: &Value) -> Option<K> {
    serde_json::from_value(value.clone()).ok()
}

/// A few reconciles of a plan, each with the status that the previous one wrote.
fn carry_out(mut plan: InstallPlan, cluster: &AnyCluster) -> usize {
    let group: OperatorGroup = typed(&json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "og", "namespace": NAMESPACE}, "spec": {}, "status": {"namespaces": [NAMESPACE], "lastUpdated": null}}))
    .expect("group");
    let csvs: Vec<Arc<ClusterServiceVersion>> =
        cluster.documents.iter().filter_map(typed).map(Arc::new).collect();
    let mut actions = 0;
    for round in 0..3 {
        let observed = Observed {
            install_plan: Arc::new(plan.clone()),
            operator_groups: vec![Arc::new(group.clone())],
            csvs: if round == 0 { Vec::new() } else { csvs.clone() },
            retry_timeout: Duration::from_secs(60),
            ..Observed::default()
        };
        let observed = futures::executor::block_on(observe(cluster, observed)).expect("reads that answer");
        let (writes, verdict) = install_plan::decide(&observed);
        actions += writes.actions.len();
        assert!(!writes.to_string().is_empty() || writes.actions.is_empty());
        let done = |_: &_| Outcome::Done(Arc::new(json!({})));
        let outcomes = outcomes_for_tests(writes.actions.iter().map(done).collect());
        let update = install_plan::status(&observed, verdict, &outcomes, now());
        let [olm_runtime::plan::Action::Patch { patch, .. }] = &update.patches[..] else {
            break;
        };
        let mut next = serde_json::to_value(&plan).expect("JSON");
        olm_testing::patch::merge(&mut next, patch);
        plan = serde_json::from_value(next).expect("what was written can be read");
    }
    actions
}

#[test]
fn bundles_of_any_kind_through_checks_and_plan() {
    let fuzz = Fuzz {
        name: "plan",
        seeds: bundle_seeds(),
        words: &WORDS,
        structured: Some(changed_documents),
    };
    fuzz.run(|input| {
        let documents = documents(input);
        let files: Vec<(String, String)> = documents
            .iter()
            .enumerate()
            .map(|(index, value)| (format!("{index}.yaml"), value.to_string()))
            .collect();
        let read = read_files(
            "r/b@sha256:00",
            files.iter().map(|(name, text)| (name.as_str(), text.as_bytes())),
        );
        let Ok(bundle) = read else { return false };
        let name = object::name(&bundle.csv).to_owned();
        let checked = bundle_unpack::check(&bundle, &name).is_ok();
        let cluster = resolution::Cluster {
            kubernetes: Some("v1.34.1".to_owned()),
            targets: None,
        };
        resolution::obstacles(&name, &bundle, NAMESPACE, &cluster);
        let lookup: BundleLookup = typed(&json!({"path": "r/b:v1", "identifier": name, "replaces": "demo.v0",
            "catalogSourceRef": {"name": "cat", "namespace": NAMESPACE}}))
        .expect("lookup");
        // Whatever the checks say: plans of users know no checks.
        let Ok(steps) = install_plan::plan_steps(bundle.clone(), &lookup, NAMESPACE) else {
            return false;
        };
        let plan: InstallPlan = typed(&json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": "install-1", "namespace": NAMESPACE},
            "spec": {"clusterServiceVersionNames": [name], "approval": "Automatic", "approved": true, "generation": 1},
            "status": {"phase": "Installing", "catalogSources": [], "plan": steps, "bundleLookups": [lookup]}}))
        .expect("plan");
        let cluster = AnyCluster {
            bundle,
            documents,
            asked: AtomicUsize::new(0),
        };
        carry_out(plan, &cluster) > 0 && checked
    });
}

/// Plans that users write: steps with any manifest, of any kind.
#[test]
fn plans_of_any_kind() {
    let step = |kind: &str, manifest: String| {
        json!({"resolving": "demo.v1", "status": "Unknown", "resource": {"sourceName": "cat", "sourceNamespace": NAMESPACE,
            "group": "", "version": "v1", "kind": kind, "name": kind.to_lowercase(), "manifest": manifest}})
    };
    let reference = BundleImageReference::new("r/b@sha256:00", "demo.v1", "cat", NAMESPACE).to_manifest();
    let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "install-1", "namespace": NAMESPACE, "annotations": {"a": "b"}},
        "spec": {"clusterServiceVersionNames": ["demo.v1"], "approval": "Automatic", "approved": true, "generation": 1},
        "status": {"phase": "Installing", "catalogSources": [],
            "bundleLookups": [{"path": "r/b:v1", "identifier": "demo.v1", "replaces": "", "properties": "{}", "catalogSourceRef": {"name": "cat"}}],
            "plan": [step("ClusterServiceVersion", csv().to_string()), step("CustomResourceDefinition", crd().to_string()),
                step("ConfigMap", reference), step("Secret", "{}".to_owned()), step("ServiceAccount", "[]".to_owned()),
                step("Role", json!({"rules": []}).to_string()), step("Subscription", "{}".to_owned())]}});
    let fuzz = Fuzz {
        name: "user-plan",
        seeds: vec![text(&[plan, csv(), crd()]), text(&[csv(), crd()])],
        words: &WORDS,
        structured: Some(changed_documents),
    };
    fuzz.run(|input| {
        let documents = documents(input);
        let Some(mut plan) = documents.first().and_then(typed::<InstallPlan>) else {
            return false;
        };
        let csv_file = csv().to_string();
        let bundle =
            read_files("r/b@sha256:00", [("csv.yaml", csv_file.as_bytes())].into_iter()).expect("bundle");
        let steps = plan.status.iter().flat_map(|status| status.plan.iter());
        for step in steps {
            let _ = Manifest::parse(step.resource.manifest.as_deref().unwrap_or_default());
        }
        for document in &documents {
            let _ = bundle_unpack::decode(document);
        }
        plan.metadata.namespace = Some(NAMESPACE.to_owned());
        plan.metadata.name = Some("install-1".to_owned());
        install_plan::prune(&mut plan.clone());
        let cluster = AnyCluster {
            bundle,
            documents,
            asked: AtomicUsize::new(0),
        };
        carry_out(plan, &cluster) > 0
    });
}

/// Two definitions: what is there, and what a bundle brings.
#[test]
fn definitions_of_any_kind_are_merged() {
    let mut other = crd();
    other["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "required": [], "default": ""});
    other["spec"]["conversion"] = json!({"strategy": "None"});
    let fuzz = Fuzz {
        name: "crd",
        seeds: vec![
            text(&[crd(), crd()]),
            text(&[crd(), other.clone()]),
            text(&[other, crd()]),
        ],
        words: &WORDS,
        structured: Some(changed_documents),
    };
    fuzz.run(|input| {
        let documents = documents(input);
        let [current, wanted, ..] = &documents[..] else {
            return false;
        };
        let _ = crd_upgrade::check_stored_versions(current, wanted);
        crd_upgrade::is_established(current);
        let alive: BTreeSet<&str> = crd_upgrade::installed_alongside(wanted).collect();
        for converted in [false, true] {
            let mut noted = wanted.clone();
            crd_upgrade::note_installed_alongside(&mut noted, NAMESPACE, "demo.v1");
            let merged = crd_upgrade::merged(current, &noted, |csv| alive.contains(csv), converted);
            // Once merged there is nothing left to merge, or an operator would write without end.
            let again = crd_upgrade::merged(&merged, &noted, |csv| alive.contains(csv), converted);
            if [current, wanted].iter().all(|crd| crd["spec"].is_object()) {
                assert_eq!(merge_patch(&merged, &again), None, "{current}\n{wanted}");
            }
        }
        current.is_object() && wanted.is_object()
    });
}

fn objects() -> Vec<Value> {
    let annotations = json!({"operatorframework.io/bundle-unpack-timeout": "10m", "operatorframework.io/bundle-unpack-min-retry-interval": "5m",
        "olm.operatorframework.io/exclude-global-namespace-resolution": "true", "operatorframework.io/priorityclass": "p",
        "olm.generated-by": "install-1"});
    let metadata =
        |name: &str| json!({"name": name, "namespace": NAMESPACE, "uid": "u", "annotations": annotations});
    let v1alpha1 = "operators.coreos.com/v1alpha1";
    vec![
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": metadata("og"), "spec": {"upgradeStrategy": "Default"}}),
        json!({"apiVersion": v1alpha1, "kind": "CatalogSource", "metadata": metadata("cat.a"),
            "spec": {"sourceType": "grpc", "image": "quay.io/x/y:v1", "priority": -5, "secrets": ["s", ""],
                "updateStrategy": {"registryPoll": {"interval": "45m"}},
                "grpcPodConfig": {"memoryTarget": "5Mi", "securityContextConfig": "restricted", "priorityClassName": "",
                    "extractContent": {"cacheDir": "/c", "catalogDir": "/d"}, "tolerations": [{"key": "k"}], "affinity": {}}},
            "status": {"registryService": {"protocol": "grpc"}, "connectionState": {"address": "a", "lastObservedState": "READY"}}}),
        json!({"apiVersion": v1alpha1, "kind": "Subscription", "metadata": metadata("sub"),
            "spec": {"name": "demo", "channel": "stable", "source": "cat", "sourceNamespace": NAMESPACE, "startingCSV": "demo.v1"},
            "status": {"state": "UpgradePending", "currentCSV": "demo.v1", "installPlanGeneration": 1, "lastUpdated": null,
                "installPlanRef": {"name": "install-1"}, "conditions": [{"type": "ResolutionFailed", "status": "True"}]}}),
        csv(),
    ]
}

fn look_at_group(group: OperatorGroup) -> bool {
    let Ok(settings) = resolution::read(NAMESPACE, &[Arc::new(group)]) else {
        return false;
    };
    for duration in [settings.unpack_deadline, settings.unpack_retry]
        .into_iter()
        .flatten()
    {
        assert!(duration <= annotation::LONGEST, "{duration:?}");
        assert!(Instant::now().checked_add(duration).is_some());
    }
    assert_ne!(settings.unpack_retry, Some(Duration::from_nanos(1)));
    true
}

fn look_at_source(object: CatalogSource) -> bool {
    let settings = PodSettings {
        opm_image: "opm".to_owned(),
        util_image: "util".to_owned(),
        user_id: Some(1001),
        namespace_restricted: true,
    };
    let parsed = catalog_source::parse_source(&object);
    catalog_source::shown_address(&object, &parsed);
    let object = Arc::new(object);
    let template = catalog_source::resolve_template(&object, Some("v1.34.4"));
    let poll = catalog_source::schedule(&object, &parsed, now(), now());
    let observed = ObservedSource {
        template,
        poll,
        update_pods: Vec::new(),
        source: Arc::clone(&object),
        parsed,
        settings,
        service_account: None,
        service: None,
        server_policy: None,
        unpack_policy: None,
        pods: Vec::new(),
        connection: ConnectionState::Waiting,
        config_map: ConfigMapState::NotNamed,
    };
    let (plan, verdict) = catalog_source::decide(&observed, now());
    let done = |_: &_| Outcome::Done(Arc::new(json!({})));
    let outcomes = outcomes_for_tests(plan.actions.iter().map(done).collect());
    catalog_source::compose(&observed, &verdict, &outcomes, now());
    true
}

fn look_at_subscription(object: Subscription) -> bool {
    let around = NamespaceState::default();
    let status = subscription::settle(&object, &around);
    resolution::resolver_subscription(&object, &status);
    let facts = Facts {
        catalogs: &[],
        outcome: &ResolutionOutcome::Unknown,
        deprecation: None,
        assignment: None,
    };
    let next = subscription::compose(&object, &around, &facts, now());
    subscription::is_worth_writing(object.status.as_ref(), &next);
    true
}

/// Annotations, specs and statuses as the API server lets users write them.
#[test]
fn objects_of_any_kind_are_looked_at() {
    let fuzz = Fuzz {
        name: "object",
        seeds: objects()
            .iter()
            .map(|object| text(std::slice::from_ref(object)))
            .collect(),
        words: &WORDS,
        structured: Some(changed_documents),
    };
    fuzz.run(|input| {
        let mut taken = false;
        for document in documents(input) {
            taken |= match object::kind(&document) {
                "OperatorGroup" => typed(&document).is_some_and(look_at_group),
                "CatalogSource" => typed(&document).is_some_and(look_at_source),
                "Subscription" => typed(&document).is_some_and(look_at_subscription),
                _ => typed::<ClusterServiceVersion>(&document).is_some_and(|csv| {
                    resolution::installed_csv(&csv);
                    true
                }),
            };
        }
        taken
    });
}
