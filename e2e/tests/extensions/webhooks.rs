//! Webhooks of a bundle, with certificates of OLM.

use anyhow::ensure;
use e2e::lab::PATIENCE;
use e2e::variant::CSV_FILE;
use serde_json::{Value, json};
use xtask::kubectl::text;

use crate::{Versions, extension, installed, setup};

const NAME: &str = "swift";

/// Returns a webhook of the operator for its own kind, with its last fields.
fn webhook(kind: &str, path: &str, more: &str) -> String {
    format!(
        "    - type: {kind}
      generateName: {path}.{NAME}.example.com
      deploymentName: {NAME}
      containerPort: 443
      targetPort: 8443
      admissionReviewVersions: [v1]
      sideEffects: None
      webhookPath: /{path}
{more}"
    )
}

fn greeting(greeted: &str) -> Value {
    json!({"apiVersion": format!("{NAME}.example.com/v1"), "kind": "Greeting", "metadata": {"name": greeted},
        "spec": {"name": greeted}})
}

/// Case 26.
#[test]
fn v1_webhooks_refuse_change_and_convert() -> anyhow::Result<()> {
    let setup = setup()?;
    let lab = &setup.lab;
    let kubectl = lab.kubectl();
    let namespace = lab.namespace(NAME)?;
    let versions = Versions::new(lab, NAME)?;
    let variant = &versions.first;
    let definition = variant.definition();
    let rules = format!(
        "      failurePolicy: Fail
      rules:
        - apiGroups: [{NAME}.example.com]
          apiVersions: [v1]
          operations: [CREATE]
          resources: [greetings]
"
    );
    let webhooks = format!(
        "  webhookdefinitions:\n{}{}{}",
        webhook("ValidatingAdmissionWebhook", "validate", &rules),
        webhook("MutatingAdmissionWebhook", "mutate", &rules),
        webhook(
            "ConversionWebhook",
            "convert",
            &format!("      conversionCRDs: [{definition}]\n")
        ),
    );
    variant.edit(CSV_FILE, |csv| {
        csv.replace("  install:\n", &format!("{webhooks}  install:\n"))
    })?;
    variant.with_older_version()?;
    versions.publish_in_order(1, &["1.0.0"], "stable")?;
    kubectl.apply(&[extension(NAME, NAME, &json!({}))])?;
    installed(kubectl, NAME, "1.0.0")?;

    kubectl.wait("the webhooks to be asked", PATIENCE, |kubectl| {
        // The API server sees a new configuration a moment after its writer.
        let refused = namespace.apply(&[greeting("nobody")]);
        Ok(match refused {
            Err(error) if format!("{error:#}").contains("nobody cannot be greeted") => Ok(()),
            Err(error) => Err(format!("{error:#}")),
            Ok(()) => {
                kubectl.run(&["delete", &definition, "nobody", "-n", NAME])?;
                Err("it was not refused".to_owned())
            }
        })
    })?;
    kubectl.wait("the other webhook to be asked", PATIENCE, |kubectl| {
        namespace.apply(&[greeting("ada")])?;
        let found = namespace.get(&definition, "ada")?.unwrap_or_default();
        if text(&found, "/metadata/labels/greeted") == "politely" {
            return Ok(Ok(()));
        }
        kubectl.run(&["delete", &definition, "ada", "-n", NAME])?;
        Ok(Err(found["metadata"].to_string()))
    })?;
    let older = format!("greetings.v1beta1.{NAME}.example.com");
    kubectl.wait("the conversion", PATIENCE, |_| {
        let found = namespace.get(&older, "ada").map(Option::unwrap_or_default);
        Ok(match found {
            Ok(found) if found["metadata"]["annotations"]["converted"] == "by the operator" => Ok(()),
            Ok(found) => Err(found.to_string()),
            Err(error) => Err(format!("{error:#}")),
        })
    })?;
    for kind in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
        let found = kubectl.get(&[kind])?.unwrap_or_default();
        ensure!(found.to_string().contains("swift-1"), "{found}");
    }
    Ok(())
}
