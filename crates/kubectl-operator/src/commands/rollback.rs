//! `kubectl operator rollback`: installs the previous version of an operator again. OLM has no downgrade, so the operator is removed
//! and installed, while its definitions and custom resources are kept.

mod decide;
#[cfg(test)]
mod tests;

use anyhow::{Context as _, anyhow, bail};
use kube::ResourceExt as _;
use olm_resolver::CatalogKey;

use self::decide::{Rollback, decide};
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

/// Shows what is done, asks for confirmation, and does it.
///
/// # Errors
/// The rollback is impossible or would lose data, a request to the API server fails, or a step does not complete in time.
pub(crate) async fn run(args: &RollbackArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let name = &args.name;
    let removal = Box::pin(uninstall::look(&cluster, &removal_args(args))).await;
    let removal = removal.with_context(|| format!("cannot roll back {name}"))?;
    let rollback = look(&cluster, args, &removal).await?;
    printer::data(&format!("{}\n", rollback.text(&removal)))?;
    printer::document(&rollback.subscription, Document::Yaml)?;
    if args.dry_run {
        return Ok(Verdict::Fine);
    }
    if !confirm(&format!("Roll back {name} to {}?", rollback.target), args.yes)? {
        printer::progress(&format!("{name} was not rolled back"));
        return Ok(Verdict::Unresolved);
    }
    replace(&cluster, &removal, &rollback, &args.wait).await?;
    if !install(&cluster, &rollback, &args.wait).await? {
        return Ok(Verdict::Unresolved);
    }
    let name = rollback.subscription.name_any();
    let verdict = status::follow(&cluster, &name, &args.wait).await?;
    if verdict == Verdict::Fine {
        printer::data(&format!("operator {name:?} is back at {}\n", rollback.target))?;
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
async fn look(cluster: &Cluster, args: &RollbackArgs, removal: &Removal) -> anyhow::Result<Rollback> {
    let wanted = decide::wanted(removal, &args.name, args.to.as_deref())?;
    let subscription = removal.subscription.as_ref();
    let spec = &subscription
        .ok_or_else(|| anyhow!("{} has no Subscription", args.name))?
        .spec;
    let key = CatalogKey {
        name: spec.source.clone(),
        namespace: spec.source_namespace.clone(),
    };
    let read = catalogs::read_version(&cluster.client, &key, &spec.name, spec.channel(), Some(&wanted));
    let (entry, bundle) = read
        .await
        .with_context(|| format!("cannot roll back to {wanted}"))?;
    decide(removal, &entry, &bundle)
}

/// Deletes the operator, and creates its Subscription again.
async fn replace(
    cluster: &Cluster,
    removal: &Removal,
    rollback: &Rollback,
    wait: &WaitArgs,
) -> anyhow::Result<()> {
    let client = &cluster.client;
    let mut tell = |text: &str| printer::progress(text);
    let removed = uninstall::remove(client, removal, wait, &mut Screen::stderr(), &mut tell).await;
    let incomplete = || {
        format!(
            "the rollback of {} is incomplete; uninstall what is left, then create the Subscription that is shown above with `kubectl create -f FILE`",
            rollback.subscription.name_any()
        )
    };
    if !removed.with_context(incomplete)? {
        bail!("{}", incomplete());
    }
    let subscriptions = api(client, Some(&cluster.namespace));
    let created = writer::create(&subscriptions, &rollback.subscription).await;
    if created.with_context(incomplete)?.is_none() {
        bail!(
            "{} was created meanwhile by another client, so the rollback stopped",
            writer::subject(&rollback.subscription)
        );
    }
    tell(&format!("{} created", writer::subject(&rollback.subscription)));
    Ok(())
}

/// Approves the plan for the version and nothing else, and waits until it completes. Returns false if it was not approved.
async fn install(cluster: &Cluster, rollback: &Rollback, wait: &WaitArgs) -> anyhow::Result<bool> {
    let target = rollback.target.as_str();
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
    let done = Box::pin(rollout::first_plan(
        cluster,
        &rollback.subscription,
        wait,
        &mut ask,
    ))
    .await?;
    if done.is_none() {
        let name = rollback.subscription.name_any();
        printer::warning(&format!(
            "the InstallPlan was not approved because it does not install {target} alone; to approve it use `{}`",
            cluster
                .commands
                .told("approve {}", &[&name], Some(&cluster.namespace))
        ));
    }
    Ok(done.is_some())
}
