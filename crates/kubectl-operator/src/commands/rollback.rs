//! `kubectl operator rollback`: goes back to the previous version of an operator. OLM does not downgrade, so the operator is removed
//! and installed again, while its definitions and custom resources stay.

mod decide;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use anyhow::{Context as _, anyhow, bail};
use kube::ResourceExt as _;
use olm_resolver::CatalogKey;
use olm_resolver::plan::Install;

use self::decide::{Way, decide, find};
use super::approve::Shown;
use super::uninstall::{self, Removal};
use super::{rollout, status};
use crate::args::change::{OperandStrategy, UninstallArgs};
use crate::args::recover::RollbackArgs;
use crate::args::shared::{Document, WaitArgs};
use crate::cluster::Cluster;
use crate::confirm::confirm;
use crate::reader::api;
use crate::watch::Screen;
use crate::{Verdict, catalogs, printer, writer};

/// Shows the way back, asks for confirmation, and goes it.
///
/// # Errors
/// There is no way back, a request to the API server fails, or a step does not complete in time.
pub(crate) async fn run(args: &RollbackArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let name = &args.name;
    let removal = Box::pin(uninstall::look(&cluster, &removal_args(args))).await;
    let removal = removal.with_context(|| format!("cannot roll back {name}"))?;
    let way = look(&cluster, args, &removal).await?;
    printer::data(&format!("{}\n", way.text(&removal)))?;
    printer::document(&way.subscription, Document::Yaml)?;
    if args.dry_run {
        return Ok(Verdict::Fine);
    }
    if !confirm(&format!("Roll back {name} to {}?", way.target), args.yes)? {
        printer::progress(&format!("{name} was not rolled back"));
        return Ok(Verdict::Unresolved);
    }
    replace(&cluster, &removal, &way, &args.wait).await?;
    if !install(&cluster, &way, &args.wait).await? {
        return Ok(Verdict::Unresolved);
    }
    let name = way.subscription.name_any();
    let verdict = status::follow(&cluster, &name, &args.wait).await?;
    if verdict == Verdict::Fine {
        printer::data(&format!("operator {name:?} is back at {}\n", way.target))?;
    }
    Ok(verdict)
}

/// Returns the flags of an uninstallation that keeps definitions and custom resources.
fn removal_args(args: &RollbackArgs) -> UninstallArgs {
    UninstallArgs {
        name: args.name.clone(),
        operand_strategy: Some(OperandStrategy::Ignore),
        delete_operator: false,
        delete_operator_groups: false,
        delete_operator_group_names: Vec::new(),
        delete_all: false,
        delete_crd: Vec::new(),
        dry_run: args.dry_run,
        yes: args.yes,
        wait: args.wait.clone(),
        connection: args.connection.clone(),
    }
}

/// Determines the version to go back to, and reads it from the catalog.
async fn look(cluster: &Cluster, args: &RollbackArgs, removal: &Removal) -> anyhow::Result<Way> {
    let wanted = decide::wanted(removal, &args.name, args.to.as_deref())?;
    let subscription = removal.subscription.as_ref();
    let spec = &subscription
        .ok_or_else(|| anyhow!("{} has no Subscription", args.name))?
        .spec;
    let key = CatalogKey {
        name: spec.source.clone(),
        namespace: spec.source_namespace.clone(),
    };
    let mut catalogs = catalogs::read(&cluster.client, &BTreeSet::from([key.clone()])).await;
    let snapshot = match catalogs.contents.remove(&key) {
        Some(Ok(snapshot)) => snapshot,
        Some(Err(cause)) => bail!("cannot read catalog {key}: {cause}; nothing was changed"),
        None => bail!("cannot read catalog {key}; nothing was changed"),
    };
    let entry = find(&snapshot, spec, &wanted)?;
    let bundle = catalogs
        .bundle(&Install {
            name: entry.name.to_string(),
            package: entry.package.to_string(),
            channel: entry.channel.to_string(),
            catalog: key,
            ..Install::default()
        })
        .await;
    decide(removal, entry, &bundle)
}

/// Deletes the operator, and creates its Subscription again.
async fn replace(cluster: &Cluster, removal: &Removal, way: &Way, wait: &WaitArgs) -> anyhow::Result<()> {
    let client = &cluster.client;
    let mut tell = |text: &str| printer::progress(text);
    let removed = uninstall::remove(client, removal, wait, &mut Screen::stderr(), &mut tell).await;
    let incomplete = || {
        format!(
            "the rollback of {} is incomplete; uninstall what is left, then create the Subscription that is shown above with `kubectl create -f FILE`",
            way.subscription.name_any()
        )
    };
    if !removed.with_context(incomplete)? {
        bail!("{}", incomplete());
    }
    let subscriptions = api(client, Some(&cluster.namespace));
    let created = writer::create(&subscriptions, &way.subscription).await;
    if created.with_context(incomplete)?.is_none() {
        bail!(
            "{} was created meanwhile by another client, so the rollback stopped",
            writer::subject(&way.subscription)
        );
    }
    tell(&format!("{} created", writer::subject(&way.subscription)));
    Ok(())
}

/// Approves the plan for the version and nothing else, and waits until it completes. Returns false if it was not approved.
async fn install(cluster: &Cluster, way: &Way, wait: &WaitArgs) -> anyhow::Result<bool> {
    let target = way.target.as_str();
    let mut ask = |shown: &Shown| {
        if shown.operators == [target] {
            return Ok(true);
        }
        printer::data(&shown.to_string())?;
        match shown.operators.iter().any(|name| name == target) {
            true => confirm(
                &format!(
                    "InstallPlan {} installs more than {target}. Approve it?",
                    shown.plan
                ),
                false,
            ),
            false => Ok(false),
        }
    };
    let done = Box::pin(rollout::first_plan(cluster, &way.subscription, wait, &mut ask)).await?;
    if done.is_none() {
        let name = way.subscription.name_any();
        printer::warning(&format!(
            "the InstallPlan was not approved because it does not install {target} alone; to approve it use `{}`",
            cluster
                .commands
                .told("approve {}", &[&name], Some(&cluster.namespace))
        ));
    }
    Ok(done.is_some())
}
