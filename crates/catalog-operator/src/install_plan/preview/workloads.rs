//! Deployments, images and webhooks of a ClusterServiceVersion, compared with those of the one that it replaces. Pure.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::plan_preview::{ObjectChange, PlanPreview, Verb, Workload, image_changes};
use olm_runtime::plan::merge_patch;
use serde_json::{Value, json};

use super::{FIELDS, add_paths};

/// Kind of the Deployments.
const DEPLOYMENT: &str = "Deployment";

/// Adds the changes from one ClusterServiceVersion to the next one; `before` is `None` if nothing is replaced.
pub(super) fn add(preview: &mut PlanPreview, namespace: &str, before: Option<&Value>, after: &Value) {
    let old = before.map(components).unwrap_or_default();
    let new = components(after);
    let keys: BTreeSet<&Key> = old.keys().chain(new.keys()).collect();
    for key in keys {
        let (verb, fields) = match (old.get(key), new.get(key)) {
            (Some(old), Some(new)) => {
                let Some(patch) = merge_patch(old, new) else {
                    continue;
                };
                let mut fields = BTreeSet::new();
                add_paths(&patch, &mut Vec::new(), &mut fields);
                (Verb::Change, fields)
            }
            (Some(_), None) => (Verb::Delete, BTreeSet::new()),
            (None, _) => (Verb::Create, BTreeSet::new()),
        };
        let (kind, name) = key;
        preview.objects.push(ObjectChange {
            verb,
            kind: (*kind).to_owned(),
            name: name.clone(),
            namespace: if *kind == DEPLOYMENT {
                namespace.to_owned()
            } else {
                String::new()
            },
            fields: fields.into_iter().take(FIELDS).collect(),
            ..ObjectChange::default()
        });
    }
    preview
        .images
        .extend(image_changes(deployments(&old), deployments(&new)));
}

/// Identity of a component.
type Key = (&'static str, String);

/// Returns the objects that OLM creates for a ClusterServiceVersion besides the steps of its plan.
fn components(csv: &Value) -> BTreeMap<Key, Value> {
    let list = |pointer: &str| {
        csv.pointer(pointer)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let deployments = list("/spec/install/spec/deployments").map(|deployment| {
        let spec = json!({"spec": deployment["spec"]});
        ((DEPLOYMENT, text(&deployment["name"])), spec)
    });
    let webhooks = list("/spec/webhookdefinitions").filter_map(|webhook| {
        let kind = match webhook["type"].as_str()? {
            "ValidatingAdmissionWebhook" => "ValidatingWebhookConfiguration",
            "MutatingAdmissionWebhook" => "MutatingWebhookConfiguration",
            "ConversionWebhook" => "ConversionWebhook",
            _ => return None,
        };
        Some(((kind, text(&webhook["generateName"])), webhook.clone()))
    });
    deployments.chain(webhooks).collect()
}

/// Returns the Deployments among the components.
fn deployments(components: &BTreeMap<Key, Value>) -> impl Iterator<Item = Workload<'_>> {
    let components = components.iter().filter(|((kind, _), _)| *kind == DEPLOYMENT);
    components.map(|((kind, name), object)| (*kind, name.as_str(), object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(deployments: &[(&str, &str)], webhooks: &[(&str, &str, i64)]) -> Value {
        let deployment = |(name, image): &(&str, &str)| {
            let containers = json!([{"name": "manager", "image": image}]);
            json!({"name": name, "spec": {"replicas": 1, "template": {"spec": {"containers": containers}}}})
        };
        let webhook = |(type_, name, port): &(&str, &str, i64)| json!({"type": type_, "generateName": name, "containerPort": port});
        json!({"spec": {"install": {"spec": {"deployments": deployments.iter().map(deployment).collect::<Vec<_>>()}},
            "webhookdefinitions": webhooks.iter().map(webhook).collect::<Vec<_>>()}})
    }

    fn lines(before: Option<&Value>, after: &Value) -> Vec<String> {
        let mut preview = PlanPreview::default();
        add(&mut preview, "shop", before, after);
        let objects = preview.objects.iter().map(|object| {
            let fields = object.fields.join(" ");
            format!(
                "{:?} {} {}/{} {fields}",
                object.verb, object.kind, object.namespace, object.name
            )
        });
        let images = preview.images.iter();
        let images = images.map(|image| {
            format!(
                "{}/{}: {} to {}",
                image.name, image.container, image.from, image.to
            )
        });
        objects.chain(images).collect()
    }

    #[test]
    fn deployments_images_and_webhooks_are_compared() {
        let validating = "ValidatingAdmissionWebhook";
        let before = csv(
            &[("a", "x:1"), ("gone", "y:1")],
            &[(validating, "v", 443), ("ConversionWebhook", "c", 443)],
        );
        let after = csv(
            &[("a", "x:2"), ("new", "z:1")],
            &[(validating, "v", 8443), ("MutatingAdmissionWebhook", "m", 443)],
        );
        assert_eq!(
            lines(Some(&before), &after),
            [
                "Delete ConversionWebhook /c ",
                "Change Deployment shop/a spec.template.spec",
                "Delete Deployment shop/gone ",
                "Create Deployment shop/new ",
                "Create MutatingWebhookConfiguration /m ",
                "Change ValidatingWebhookConfiguration /v containerPort",
                "a/manager: x:1 to x:2",
                "gone/manager: y:1 to ",
                "new/manager:  to z:1",
            ]
        );
        assert_eq!(lines(Some(&before), &before), Vec::<String>::new());
        assert_eq!(
            lines(None, &csv(&[("a", "x:1")], &[])),
            ["Create Deployment shop/a ", "a/manager:  to x:1"]
        );
        assert_eq!(
            lines(None, &json!({"spec": {"install": 7}})),
            Vec::<String>::new()
        );
    }
}
