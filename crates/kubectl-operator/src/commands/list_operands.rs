//! `kubectl operator list-operands`: prints the custom resources of an operator.

use kube::ResourceExt as _;
use olm_api::v1alpha1::ClusterServiceVersionPhase as Phase;
use serde_json::{Value, json};

use crate::args::look::OperandsArgs;
use crate::cluster::Cluster;
use crate::operands::{self, Operand};
use crate::table;
use crate::{Verdict, gather, printer};

/// Prints the operands.
///
/// # Errors
/// There is no such operator, or its operands cannot be read.
pub(crate) async fn run(args: &OperandsArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let (found, notes) = of_operator(&cluster, &args.name).await?;
    notes.iter().for_each(|note| printer::warning(note));
    if found.is_empty() {
        printer::progress("No resources found");
    }
    match args.output {
        Some(format) => printer::document(&document(&found), format)?,
        None if found.is_empty() => {}
        None => printer::data(&table(&found))?,
    }
    Ok(Verdict::Fine)
}

/// Returns the operands as a List, also if there are none.
fn document(operands: &[Operand]) -> Value {
    let items: Vec<_> = operands.iter().map(|operand| &operand.object).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Returns the operands of the installed operator, and notes on why the list may be incomplete.
async fn of_operator(cluster: &Cluster, name: &str) -> anyhow::Result<(Vec<Operand>, Vec<String>)> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let gathered = gather::existing(client, Some(namespace)).await?;
    let name = gathered.of_package(namespace, name);
    let operator = gathered.find(namespace, &name, &cluster.commands)?;
    let csvs: Vec<_> = operator.installed.or(operator.current).into_iter().collect();
    let mut notes = Vec::new();
    match csvs.first() {
        None => notes.push(format!("{name} has no ClusterServiceVersion yet")),
        Some(csv) if csv.spec.owned_crds().is_empty() => notes.push(format!(
            "ClusterServiceVersion {} owns no CustomResourceDefinition",
            csv.name_any()
        )),
        Some(csv) if *csv.phase() != Phase::Succeeded => notes.push(format!(
            "ClusterServiceVersion {} is not in phase Succeeded, so the list may not be accurate",
            csv.name_any()
        )),
        Some(_) => {}
    }
    let targets = operands::targets(client, namespace).await?;
    Ok((operands::list(client, &csvs, targets.as_ref()).await?, notes))
}

fn table(operands: &[Operand]) -> String {
    table::of(
        operands,
        &[
            (true, "APIVERSION", &|found| found.resource.api_version.clone()),
            (true, "KIND", &|found| found.resource.kind.clone()),
            (true, "NAMESPACE", &|found| {
                found.object.namespace().unwrap_or_default()
            }),
            (true, "NAME", &|found| found.object.name_any()),
            (true, "CREATED", &|found| {
                let created = found.object.creation_timestamp();
                created.map(|time| time.0.to_string()).unwrap_or_default()
            }),
        ],
    )
}

#[cfg(test)]
mod tests {
    use olm_testing::cluster::FakeCluster;

    use super::*;
    use crate::commands::uninstall::tests::{cluster, etcd_in, group};

    async fn listed(cluster: &FakeCluster, name: &str) -> anyhow::Result<(Vec<Operand>, Vec<String>)> {
        let (client, _link) = cluster.connect();
        of_operator(&Cluster::of(client, "shop"), name).await
    }

    #[tokio::test(start_paused = true)]
    async fn operands_are_those_of_the_targets_by_package_or_subscription() {
        let cluster = cluster();
        cluster.put(etcd_in("elsewhere", "c"));
        for (targets, expected) in [
            (json!([""]), &["elsewhere/c", "shop/a", "shop/b\u{1b}"][..]),
            (json!(["shop"]), &["shop/a", "shop/b\u{1b}"]),
            (json!(["elsewhere"]), &["elsewhere/c"]),
        ] {
            cluster.put(group(&targets));
            for name in ["db", "etcd"] {
                let (found, notes) = listed(&cluster, name).await.unwrap();
                let names: Vec<String> = found.iter().map(Operand::name).collect();
                assert_eq!(names, expected, "{targets} {name}");
                assert!(notes.is_empty(), "{notes:?}");
                assert!(found.iter().all(|operand| operand.object.types.is_some()));
            }
        }
        let text = table(&listed(&cluster, "db").await.unwrap().0);
        assert!(text.contains("example.com/v1   Etcd   elsewhere"), "{text}");
        assert_eq!(
            document(&[]),
            json!({"apiVersion": "v1", "kind": "List", "items": []})
        );
        let error = listed(&cluster, "nope").await.unwrap_err().to_string();
        assert!(error.contains("has no operator nope"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn where_it_works_is_not_guessed() {
        let cluster = cluster();
        let error = listed(&cluster, "db").await.unwrap_err().to_string();
        assert_eq!(
            error,
            "unexpected number (0) of operator groups found in namespace shop"
        );
        cluster.put(group(&json!(["shop"])));
        let mut pending: Value = cluster
            .get("ClusterServiceVersion", "shop", "etcd.v1.0.0")
            .unwrap();
        pending["status"]["phase"] = json!("Failed");
        cluster.put(pending);
        let (found, notes) = listed(&cluster, "db").await.unwrap();
        assert_eq!(found.len(), 2);
        assert!(notes[0].contains("may not be accurate"), "{notes:?}");
    }
}
