//! Operators that the API server calls: validating, mutating and conversion webhooks, and a served API. OLM provides certificates
//! and Services.

use e2e::lab::{Lab, Namespace, PATIENCE};
use e2e::variant::{CSV_FILE, Variant};
use serde_json::{Value, json};
use xtask::kubectl::text;

/// Installs a variant of the demo operator with `more` in the spec of its ClusterServiceVersion.
fn install(
    name: &str,
    namespace: &Namespace<'_>,
    targets: &[&str],
    more: &str,
    change: impl FnOnce(&Variant) -> anyhow::Result<()>,
) -> anyhow::Result<Variant> {
    let variant = Variant::install(name, namespace, targets, |variant| {
        variant.edit(CSV_FILE, |text| {
            text.replace("  install:\n", &format!("{more}  install:\n"))
        })?;
        change(variant)
    })?;
    namespace.wait_for_phase(&variant.csv(), "Succeeded")?;
    Ok(variant)
}

fn greeting(name: &str, version: &str, greeted: &str) -> Value {
    json!({"apiVersion": format!("{name}.example.com/{version}"), "kind": "Greeting", "metadata": {"name": greeted},
        "spec": {"name": greeted}})
}

/// Returns a webhook of the operator for its own kind.
fn webhook(name: &str, kind: &str, path: &str) -> String {
    format!(
        "    - type: {kind}
      generateName: {path}.{name}.example.com
      deploymentName: {name}
      containerPort: 443
      targetPort: 8443
      admissionReviewVersions: [v1]
      sideEffects: None
      failurePolicy: Fail
      webhookPath: /{path}
      rules:
        - apiGroups: [{name}.example.com]
          apiVersions: [v1]
          operations: [CREATE]
          resources: [greetings]
"
    )
}

#[test]
fn wh_002_webhooks_refuse_and_change_what_is_in_the_groups_namespaces() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let name = "serving-webhooks";
    let (namespace, elsewhere) = (lab.namespace(name)?, lab.namespace("serving-elsewhere")?);
    let more = format!(
        "  webhookdefinitions:\n{}{}",
        webhook(name, "ValidatingAdmissionWebhook", "validate"),
        webhook(name, "MutatingAdmissionWebhook", "mutate")
    );
    let variant = install(name, &namespace, &[namespace.name()], &more, |_| Ok(()))?;
    let definition = variant.definition();
    lab.kubectl().wait("the webhooks to be asked", PATIENCE, |_| {
        // The API server sees a new configuration a moment after its writer.
        let refused = namespace.apply(&[greeting(name, "v1", "nobody")]);
        Ok(match refused {
            Err(error) if format!("{error:#}").contains("nobody cannot be greeted") => Ok(()),
            Err(error) => Err(format!("{error:#}")),
            Ok(()) => {
                lab.kubectl()
                    .run(&["delete", &definition, "nobody", "-n", namespace.name()])?;
                Err("it was not refused".to_owned())
            }
        })
    })?;
    lab.kubectl()
        .wait("the other webhook to be asked", PATIENCE, |kubectl| {
            namespace.apply(&[greeting(name, "v1", "ada")])?;
            let found = namespace.get(&definition, "ada")?.unwrap_or_default();
            if text(&found, "/metadata/labels/greeted") == "politely" {
                return Ok(Ok(()));
            }
            kubectl.run(&["delete", &definition, "ada", "-n", namespace.name()])?;
            Ok(Err(found["metadata"].to_string()))
        })?;
    elsewhere.apply(&[greeting(name, "v1", "nobody")])?;
    let found = elsewhere.get(&definition, "nobody")?.unwrap_or_default();
    assert!(found["metadata"]["labels"].is_null(), "{found}");

    lab.kubectl()
        .run(&["delete", "csv", &variant.csv(), "-n", namespace.name()])?;
    lab.kubectl()
        .wait("the webhooks to be asked no more", PATIENCE, |_| {
            let made = namespace.apply(&[greeting(name, "v1", "nobody")]);
            Ok(made.map_err(|error| format!("{error:#}")))
        })
}

#[test]
fn versions_are_converted_by_the_operator_and_stay_readable_when_it_goes() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let name = "serving-versions";
    let namespace = lab.namespace(name)?;
    let more = format!(
        "  webhookdefinitions:
    - type: ConversionWebhook
      generateName: convert.{name}.example.com
      deploymentName: {name}
      containerPort: 443
      targetPort: 8443
      admissionReviewVersions: [v1]
      sideEffects: None
      webhookPath: /convert
      conversionCRDs: [greetings.{name}.example.com]
"
    );
    let variant = install(name, &namespace, &[], &more, Variant::with_older_version)?;
    namespace.apply(&[greeting(name, "v1", "ada")])?;
    let older = format!("greetings.v1beta1.{name}.example.com");
    let read = || namespace.get(&older, "ada").map(Option::unwrap_or_default);
    lab.kubectl().wait("the conversion", PATIENCE, |_| {
        let found = read();
        Ok(match found {
            Ok(found) if found["metadata"]["annotations"]["converted"] == "by the operator" => Ok(()),
            Ok(found) => Err(found.to_string()),
            Err(error) => Err(format!("{error:#}")),
        })
    })?;
    lab.kubectl()
        .run(&["delete", "csv", &variant.csv(), "-n", namespace.name()])?;
    lab.kubectl().wait("the end of the conversion", PATIENCE, |_| {
        Ok(match read() {
            Ok(found) if found["metadata"]["annotations"]["converted"].is_null() => Ok(()),
            Ok(found) => Err(found.to_string()),
            Err(error) => Err(format!("{error:#}")),
        })
    })?;
    assert_eq!(
        text(&read()?, "/apiVersion"),
        format!("{name}.example.com/v1beta1")
    );
    Ok(())
}

#[test]
fn an_api_is_served_by_its_operator_and_gone_with_it() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let name = "serving-api";
    let namespace = lab.namespace(name)?;
    let more = format!(
        "  apiservicedefinitions:
    owned:
      - name: salutes
        group: salutes.{name}.example.com
        version: v1
        kind: Salute
        deploymentName: {name}
        containerPort: 8443
"
    );
    let variant = install(name, &namespace, &[namespace.name()], &more, |_| Ok(()))?;
    let list = format!("/apis/salutes.{name}.example.com/v1/namespaces/{name}/salutes");
    let salutes = lab.kubectl().run(&["get", "--raw", &list])?;
    assert!(salutes.contains("SaluteList"), "{salutes}");
    let service = format!("v1.salutes.{name}.example.com");
    assert!(lab.kubectl().get(&["apiservice", &service])?.is_some());
    lab.kubectl()
        .run(&["delete", "csv", &variant.csv(), "-n", namespace.name()])?;
    assert!(lab.kubectl().get(&["apiservice", &service])?.is_none());
    Ok(())
}
