//! What the API server and the other controllers make of writes, as far as resolution can see.

use super::*;

impl World {
    pub(super) fn perform(&mut self, action: &Action) -> Outcome {
        match action {
            Action::Create { object, exists, .. } => {
                if let Some(text) = self.refuse.clone() {
                    return refused(action, text);
                }
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                let is_late = self
                    .late
                    .as_ref()
                    .is_some_and(|late| late["metadata"]["name"] == *name);
                if is_late || self.stores.plans.get(NAMESPACE, &name).is_some() {
                    assert_eq!(*exists, Exists::Keep);
                    return Outcome::Kept;
                }
                let version = self.next_version();
                let mut object = object.clone();
                object["metadata"]["uid"] = json!(format!("uid-{name}"));
                object["metadata"]["resourceVersion"] = json!(version);
                object.as_object_mut().unwrap().remove("status");
                let text = action.to_string();
                // The rest of the name is a hash of the generation.
                let length = text.find("install-").unwrap() + "install-".len();
                self.writes.push(text[..length].to_owned());
                if self.lose_answers {
                    self.late = Some(object);
                    return failed(action, FailureClass::Retry, "no answer within 10 s".to_owned());
                }
                self.stores.plans.put(serde_json::from_value(object).unwrap());
            }
            Action::Patch {
                target,
                patch,
                subresource,
                guard,
                ..
            } => {
                assert_eq!(*subresource, Some("status"));
                if let Some(text) = self
                    .refuse_status
                    .clone()
                    .filter(|_| target.api.kind == "InstallPlan")
                {
                    return refused(action, text);
                }
                self.writes
                    .push(format!("patch status of {} {}", target.api.kind, target.name));
                let version = self.next_version();
                let uid = guard.uid.clone();
                match target.api.kind.as_str() {
                    "InstallPlan" => {
                        patch_in(&self.stores.plans, &target.name, uid.as_ref(), patch, &version);
                    }
                    "Subscription" => patch_in(
                        &self.stores.subscriptions,
                        &target.name,
                        uid.as_ref(),
                        patch,
                        &version,
                    ),
                    other => unreachable!("patch of {other}"),
                }
            }
            Action::Delete { target, .. } => {
                self.writes.push(action.to_string());
                self.stores
                    .plans
                    .remove_for_tests(&NamespacedName::new(NAMESPACE, &target.name));
            }
            other => unreachable!("{other}"),
        }
        Outcome::Done(Arc::new(Value::Null))
    }

    /// The watch tells of the plan whose creation nobody answered.
    pub fn deliver_late_event(&mut self) {
        self.lose_answers = false;
        let late = self.late.take().unwrap();
        self.stores.plans.put(serde_json::from_value(late).unwrap());
    }

    /// Plays the InstallPlan reconciler and olm-operator for every plan that may be carried out.
    pub fn carry_out_plans(&mut self) {
        for plan in self.stores.plans.list() {
            let phase = plan
                .status
                .as_ref()
                .map(|status| status.phase.to_string())
                .unwrap_or_default();
            if phase != "Installing" {
                continue;
            }
            for csv in &plan.spec.cluster_service_version_names {
                self.put_csv(csv);
            }
            for step in plan
                .status
                .iter()
                .flat_map(|status| &status.plan)
                .filter(|step| step.resource.kind == "Subscription")
            {
                let mut object: Value =
                    serde_json::from_str(step.resource.manifest.as_deref().unwrap()).unwrap();
                object["metadata"]["uid"] = json!(format!("uid-{}", step.resource.name));
                object["metadata"]["resourceVersion"] = json!(self.next_version());
                object["metadata"]["annotations"] = json!({"olm.generated-by": plan.metadata.name});
                self.stores
                    .subscriptions
                    .put(serde_json::from_value(object).unwrap());
            }
            self.set_phase(plan.metadata.name.as_deref().unwrap(), "Complete");
        }
    }

    pub fn put_csv(&mut self, name: &str) {
        let replaces = self.stores.plans.list().iter().find_map(|plan| {
            let lookups = plan.status.iter().flat_map(|status| &status.bundle_lookups);
            lookups
                .into_iter()
                .find(|lookup| lookup.identifier == *name)
                .map(|lookup| lookup.replaces.clone())
        });
        let version = self.next_version();
        let (package, number) = name.split_once(".v").unwrap();
        let properties = json!({"properties": [
            {"type": "olm.package", "value": {"packageName": package, "version": format!("{number}.0.0")}},
            {"type": "olm.gvk", "value": {"group": "example.com", "version": "v1", "kind": format!("Of{package}")}},
        ]});
        let csv: ClusterServiceVersion = serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}"), "resourceVersion": version,
                "annotations": {"operatorframework.io/properties": properties.to_string()}},
            "spec": {"displayName": name, "version": format!("{number}.0.0"), "install": {"strategy": "deployment"}},
            "status": {"phase": "Succeeded"},
        }))
        .unwrap();
        self.stores.csvs.put(csv);
        // The successor has succeeded: what it replaces goes.
        if let Some(replaced) = replaces.filter(|replaced| !replaced.is_empty()) {
            self.stores
                .csvs
                .remove_for_tests(&NamespacedName::new(NAMESPACE, replaced));
        }
    }

    /// A ClusterServiceVersion that replaces another, which stays.
    pub fn put_csv_beside(&mut self, name: &str, replaced: &str) {
        let kept = self.stores.csvs.get(NAMESPACE, replaced).unwrap();
        self.put_csv(name);
        let mut csv = ClusterServiceVersion::clone(&self.stores.csvs.get(NAMESPACE, name).unwrap());
        csv.spec.replaces = Some(replaced.to_owned());
        csv.metadata.resource_version = Some(self.next_version());
        self.stores.csvs.put(csv);
        let mut kept = ClusterServiceVersion::clone(&kept);
        kept.metadata.resource_version = Some(self.next_version());
        self.stores.csvs.put(kept);
    }

    pub fn set_csv_phase(&mut self, name: &str, phase: &str) {
        let version = self.next_version();
        patch_in(
            &self.stores.csvs,
            name,
            None,
            &json!({"status": {"phase": phase}}),
            &version,
        );
    }

    pub fn terminate_namespace(&mut self) {
        let version = self.next_version();
        let meta = json!({"metadata": {"name": NAMESPACE, "resourceVersion": version, "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        self.stores.namespaces.put(serde_json::from_value(meta).unwrap());
    }

    pub fn set_phase(&mut self, plan: &str, phase: &str) {
        let version = self.next_version();
        patch_in(
            &self.stores.plans,
            plan,
            None,
            &json!({"status": {"phase": phase}}),
            &version,
        );
    }
}

fn refused(action: &Action, message: String) -> Outcome {
    failed(action, FailureClass::Forbidden, message)
}

fn failed(action: &Action, class: FailureClass, message: String) -> Outcome {
    Outcome::Failed(Failure {
        class,
        code: 0,
        message,
        action: action.to_string(),
    })
}

fn patch_in<K>(store: &Store<K>, name: &str, uid: Option<&String>, patch: &Value, version: &str)
where
    K: olm_runtime::store::Stored + serde::Serialize,
{
    let known = store.get(NAMESPACE, name).unwrap();
    if uid.is_some() {
        assert_eq!(known.meta().uid.as_ref(), uid);
    }
    let mut object = serde_json::to_value(known.as_ref()).unwrap();
    olm_testing::patch::merge(&mut object, patch);
    object["metadata"]["resourceVersion"] = json!(version);
    store.put(serde_json::from_value(object).unwrap());
}
