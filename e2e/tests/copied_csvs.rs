//! Copies of a ClusterServiceVersion in fifty namespaces: created, kept and collected, at the promised cost.

use std::time::{Duration, Instant};

use e2e::lab::{Lab, Namespace, PATIENCE, operator_group};
use serde_json::{Value, json};
use xtask::cluster::audit::{AuditEvent, AuditTail};
use xtask::kubectl::text;

const COPIES: usize = 50;
const CSV: &str = "copied.v1.0.0";
const LABEL: &str = "olm.copiedFrom=copies";
/// Time until a completed write is in the audit log.
const LOGGED: Duration = Duration::from_secs(2);

fn targets() -> Vec<String> {
    (0..COPIES).map(|number| format!("copies-{number}")).collect()
}

/// Returns an operator without Deployments and requirements.
fn operator() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": CSV},
        "spec": {"displayName": "copied", "version": "1.0.0",
            "installModes": [{"type": "MultiNamespace", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": []}}}
    })
}

struct Stage<'a> {
    lab: &'a Lab,
    namespace: Namespace<'a>,
    log: AuditTail,
}

impl Stage<'_> {
    /// Waits until all existing copies are `right`.
    fn wait(&self, what: &str, count: usize, right: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        self.lab.kubectl().wait(what, PATIENCE, |_| {
            let found = self
                .lab
                .kubectl()
                .get(&["csv", "-A", "-l", LABEL])?
                .unwrap_or_default();
            let copies = found["items"].as_array().cloned().unwrap_or_default();
            let good = copies.iter().filter(|copy| right(copy)).count();
            Ok(if copies.len() == count && good == count {
                Ok(())
            } else {
                Err(format!("{} copies, {good} as they should be", copies.len()))
            })
        })
    }

    /// Returns the number of phases of the original that lasted so long that copies show them, too; more than 0 only on a machine
    /// that is too busy. Its times have whole seconds.
    fn slow_phases(&self) -> anyhow::Result<usize> {
        let original = self.namespace.get("csv", CSV)?.unwrap_or_default();
        let conditions = original["status"]["conditions"].as_array().cloned();
        let began: Vec<jiff::Timestamp> = conditions
            .iter()
            .flatten()
            .map(|condition| text(condition, "/lastTransitionTime").parse())
            .collect::<Result<_, _>>()?;
        let lasted = began
            .windows(2)
            .map(|pair| pair[1].as_second() - pair[0].as_second());
        Ok(lasted.filter(|seconds| *seconds >= 4).count())
    }

    /// Returns the writes of OLM's programs to the copies in the target namespaces since the last call. Writes for other tests'
    /// operators for all namespaces are ignored.
    fn writes(&mut self) -> anyhow::Result<Vec<String>> {
        std::thread::sleep(LOGGED);
        let events = self.log.read()?.into_iter().filter(AuditEvent::is_write);
        let of_copies = events.filter_map(|event| {
            let object = event.object_ref.as_ref()?;
            let is_copy = object.resource == "clusterserviceversions"
                && object.name == CSV
                && object.namespace.starts_with("copies-");
            is_copy.then(|| format!("{} {} {}", event.verb, object.namespace, object.subresource))
        });
        Ok(of_copies.collect())
    }
}

fn is_copy(copy: &Value) -> bool {
    let annotations = &copy["metadata"]["annotations"];
    text(copy, "/status/reason") == "Copied"
        && text(copy, "/status/phase") == "Succeeded"
        && annotations["olm.operatorNamespace"] == "copies"
        && annotations["olm.targetNamespaces"].is_null()
}

#[test]
fn copies_are_made_kept_and_collected_at_two_requests_each() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let targets = targets();
    let namespaces: Vec<Namespace<'_>> = targets
        .iter()
        .map(|name| lab.namespace(name))
        .collect::<anyhow::Result<_>>()?;
    let mut stage = Stage {
        lab,
        namespace: lab.namespace("copies")?,
        log: AuditTail::of_olm(&lab.cluster().audit_log())?,
    };
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    let began = Instant::now();
    stage
        .namespace
        .apply(&[operator_group("group", &names), operator()])?;
    stage.wait("every copy", COPIES, is_copy)?;
    println!("{COPIES} copies after {:?}", began.elapsed());
    let writes = stage.writes()?;
    let more = COPIES * stage.slow_phases()?;
    assert!(
        (2 * COPIES..=2 * COPIES + more).contains(&writes.len()),
        "{more} more for phases that took long: {writes:#?}"
    );

    let renamed = r#"{"spec":{"displayName":"renamed"}}"#;
    stage.lab.kubectl().run(&[
        "patch", "csv", CSV, "-n", "copies", "--type", "merge", "-p", renamed,
    ])?;
    let is_renamed = |copy: &Value| is_copy(copy) && text(copy, "/spec/displayName") == "renamed";
    stage.wait("every copy renamed", COPIES, is_renamed)?;
    let writes = stage.writes()?;
    assert_eq!(writes.len(), COPIES, "{writes:#?}");

    let forged = r#"{"spec":{"displayName":"forged"},"metadata":{"labels":{"more":"x"}}}"#;
    stage.lab.kubectl().run(&[
        "patch", "csv", CSV, "-n", "copies-7", "--type", "merge", "-p", forged,
    ])?;
    stage
        .lab
        .kubectl()
        .run(&["delete", "csv", CSV, "-n", "copies-8", "--wait=false"])?;
    let is_plain = |copy: &Value| is_renamed(copy) && copy["metadata"]["labels"]["more"].is_null();
    stage.wait("edits undone", COPIES, is_plain)?;
    let writes = stage.writes()?;
    assert_eq!(writes.len(), 3, "{writes:#?}");

    stage.lab.kubectl().run(&["delete", "csv", CSV, "-n", "copies"])?;
    stage.wait("no copy", 0, |_| false)?;
    drop(namespaces);
    Ok(())
}
