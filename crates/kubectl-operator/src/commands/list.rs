//! `kubectl operator list`: prints the operators of a namespace or of all.

use serde_json::json;

use crate::args::look::ListArgs;
use crate::args::shared::ListFormat;
use crate::cluster::Cluster;
use crate::command_line::CommandLine;
use crate::operators::{Row, State};
use crate::reader::place;
use crate::table;
use crate::terminal::first_line;
use crate::{Verdict, gather, printer};

/// Prints the operators.
///
/// # Errors
/// The cluster cannot be read.
pub(crate) async fn run(args: &ListArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let namespace = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let gathered = gather::existing(&cluster.client, namespace).await?;
    gathered.warn();
    let rows: Vec<Row> = gathered
        .operators()
        .iter()
        .map(|operator| operator.row())
        .collect();
    match args.output.and_then(ListFormat::document) {
        Some(format) => printer::document(&json!({"operators": rows}), format)?,
        None if rows.is_empty() => {
            printer::progress(&format!("No operators found in {}.", place(namespace)));
        }
        None if args.output == Some(ListFormat::Name) => printer::data(&names(&rows))?,
        None => {
            let is_wide = args.output == Some(ListFormat::Wide);
            printer::data(&table(&rows, args.all_namespaces, is_wide, &cluster.commands))?;
        }
    }
    Ok(Verdict::Fine)
}

fn names(rows: &[Row]) -> String {
    table::names(rows.iter().map(|row| {
        let resource = match row.subscribed {
            true => "subscription.operators.coreos.com",
            false => "clusterserviceversion.operators.coreos.com",
        };
        (resource, row.name.as_str())
    }))
}

fn table(rows: &[Row], with_namespace: bool, is_wide: bool, commands: &CommandLine) -> String {
    let message = |row: &Row| match row.message.trim().contains('\n') && row.state == State::Unresolved {
        true => {
            let explain = commands.suggest("explain {}", &[&row.name], Some(&row.namespace));
            format!("{}; see {explain}", first_line(&row.message))
        }
        false => first_line(&row.message),
    };
    table::of(
        rows,
        &[
            (with_namespace, "NAMESPACE", &|row| row.namespace.clone()),
            (true, "NAME", &|row| row.name.clone()),
            (true, "PACKAGE", &|row| row.package.clone()),
            (true, "CHANNEL", &|row| row.channel.clone()),
            (true, "INSTALLED", &|row| row.installed_version.clone()),
            (true, "CURRENT", &|row| row.current_version.clone()),
            (true, "STATE", &|row| row.state.as_str().to_owned()),
            (is_wide, "CATALOG", &|row| row.catalog.clone()),
            (is_wide, "APPROVAL", &|row| row.approval.clone()),
            (is_wide, "CSV", &|row| row.current_csv.clone()),
            (is_wide, "MESSAGE", &message),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::tests::gathered;

    #[test]
    fn operators_are_listed_as_kubectl_lists() {
        let gathered = gathered();
        let rows: Vec<Row> = gathered
            .operators()
            .iter()
            .map(|operator| operator.row())
            .collect();
        insta::assert_snapshot!(names(&rows), @r"
        subscription.operators.coreos.com/new
        subscription.operators.coreos.com/ready
        subscription.operators.coreos.com/waits
        subscription.operators.coreos.com/wrong
        clusterserviceversion.operators.coreos.com/etcd.v9.0.0
        ");
        insta::assert_snapshot!(table(&rows, false, false, &CommandLine::default()), @r"
        NAME          PACKAGE   CHANNEL   INSTALLED   CURRENT   STATE
        new           etcd      stable    <none>      <none>    Pending
        ready         etcd      stable    1.0.0       1.0.0     Ready
        waits         etcd      stable    1.0.0       2.0.0     RequiresApproval
        wrong         etcd      stable    <none>      <none>    Unresolved
        etcd.v9.0.0   <none>    <none>    <none>      9.0.0     Failed
        ");
        insta::assert_snapshot!(table(&rows, true, true, &CommandLine::default()), @r"
        NAMESPACE   NAME          PACKAGE   CHANNEL   INSTALLED   CURRENT   STATE              CATALOG   APPROVAL    CSV           MESSAGE
        shop        new           etcd      stable    <none>      <none>    Pending            olm/cat   Automatic   <none>        waiting for OLM to resolve it
        shop        ready         etcd      stable    1.0.0       1.0.0     Ready              olm/cat   Automatic   etcd.v1.0.0   <none>
        shop        waits         etcd      stable    1.0.0       2.0.0     RequiresApproval   olm/cat   Automatic   etcd.v2.0.0   InstallPlan install-1: waiting for approval
        shop        wrong         etcd      stable    <none>      <none>    Unresolved         olm/cat   Automatic   <none>        no \u{1b}[2Joperators found
        shop        etcd.v9.0.0   <none>    <none>    <none>      9.0.0     Failed             <none>    <none>      etcd.v9.0.0   ClusterServiceVersion etcd.v9.0.0: no group
        ");
        insta::assert_snapshot!(serde_json::to_string_pretty(&rows[0]).unwrap(), @r#"
        {
          "namespace": "shop",
          "name": "new",
          "subscribed": true,
          "package": "etcd",
          "channel": "stable",
          "catalog": "olm/cat",
          "approval": "Automatic",
          "installedVersion": "",
          "installedCSV": "",
          "currentVersion": "",
          "currentCSV": "",
          "state": "Pending",
          "message": "waiting for OLM to resolve it"
        }
        "#);
    }
}
