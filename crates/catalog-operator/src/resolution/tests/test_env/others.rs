//! Stand-ins for the other controllers, as far as resolution can see them.

use super::*;

impl TestEnv {
    /// The watch reports the plan whose creation got no response.
    pub fn deliver_late_event(&mut self) {
        self.lose_answers = false;
        self.cluster.release("InstallPlan");
    }

    /// Plays the InstallPlan reconciler and olm-operator for every plan that may be carried out.
    pub fn carry_out_plans(&mut self) {
        for plan in self.plans() {
            let status = plan.status.unwrap_or_default();
            if status.phase.to_string() != "Installing" {
                continue;
            }
            for csv in &plan.spec.cluster_service_version_names {
                self.put_csv(csv);
            }
            let steps = status.plan.iter();
            for step in steps.filter(|step| step.resource.kind == "Subscription") {
                let mut object: Value =
                    serde_json::from_str(step.resource.manifest.as_deref().unwrap()).unwrap();
                object["metadata"]["annotations"] = json!({"olm.generated-by": plan.metadata.name});
                self.put(object);
            }
            self.set_phase(plan.metadata.name.as_deref().unwrap(), "Complete");
        }
    }

    /// What was approved begins, as the InstallPlan reconciler has it.
    pub fn begin_approved(&mut self) {
        for plan in self.plans() {
            if plan.spec.approved && plan.phase().as_str() == "RequiresApproval" {
                self.set_phase(plan.metadata.name.as_deref().unwrap(), "Installing");
            }
        }
    }

    /// A ClusterServiceVersion that has succeeded; what it replaces goes.
    pub fn put_csv(&mut self, name: &str) {
        self.put(csv(name));
        let plans = self.plans();
        let lookups = plans
            .iter()
            .flat_map(|plan| plan.status.iter().flat_map(|status| &status.bundle_lookups));
        let replaced = lookups
            .into_iter()
            .find(|lookup| lookup.identifier == *name)
            .map(|lookup| lookup.replaces.clone())
            .unwrap_or_default();
        let kind = "ClusterServiceVersion";
        if self.cluster.get(kind, NAMESPACE, &replaced).is_some() {
            self.delete(kind, &replaced);
        }
    }

    /// A ClusterServiceVersion that replaces another, which stays.
    pub fn put_csv_beside(&mut self, name: &str, replaced: &str) {
        let mut csv = csv(name);
        csv["spec"]["replaces"] = json!(replaced);
        self.put(csv);
    }

    pub fn set_csv_phase(&mut self, name: &str, phase: &str) {
        self.edit(
            "ClusterServiceVersion",
            name,
            &json!({"status": {"phase": phase}}),
        );
    }

    /// Puts a ClusterServiceVersion into a phase, from now on.
    pub fn start_phase(&mut self, name: &str, phase: &str, message: &str) {
        let since = self.stage.now().to_string();
        let status = json!({"phase": phase, "message": message, "lastTransitionTime": since});
        self.edit("ClusterServiceVersion", name, &json!({"status": status}));
    }

    pub fn terminate_namespace(&mut self) {
        let metadata = json!({"name": NAMESPACE, "deletionTimestamp": "2026-01-01T00:00:00Z"});
        self.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
    }

    pub fn set_phase(&mut self, plan: &str, phase: &str) {
        self.edit("InstallPlan", plan, &json!({"status": {"phase": phase}}));
    }
}

fn csv(name: &str) -> Value {
    let (package, number) = name.split_once(".v").unwrap();
    let properties = json!({"properties": [
        {"type": "olm.package", "value": {"packageName": package, "version": format!("{number}.0.0")}},
        {"type": "olm.gvk", "value": {"group": "example.com", "version": "v1", "kind": format!("Of{package}")}},
    ]});
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": NAMESPACE,
            "annotations": {"operatorframework.io/properties": properties.to_string()}},
        "spec": {"displayName": name, "version": format!("{number}.0.0"), "install": {"strategy": "deployment"}},
        "status": {"phase": "Succeeded"},
    })
}
