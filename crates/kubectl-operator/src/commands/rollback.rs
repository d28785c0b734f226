//! `kubectl operator rollback`: installs the previous version of an operator again. OLM has no downgrade, so the operator is removed
//! and installed. Its custom resources are kept, as far as the definitions of the previous version have their fields.

mod decide;
mod definitions;
#[cfg(test)]
mod tests;

use std::fs::{OpenOptions, remove_file};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use kube::ResourceExt as _;
use olm_api::v1alpha1::{InstallPlan, Subscription, SubscriptionStatus};
use olm_resolver::CatalogKey;
use olm_resolver::objects::{Objects, resolver_subscription};
use olm_resolver::plan::plan;

use self::decide::{Rollback, decide};
use super::approve::Shown;
use super::uninstall::{self, Removal};
use super::{rollout, status};
use crate::args::change::{OperandStrategy, RollbackArgs, UninstallArgs};
use crate::args::shared::{Document, WaitArgs, quoted};
use crate::cluster::Cluster;
use crate::confirm::confirm;
use crate::reader::{api, list};
use crate::watch::Screen;
use crate::{Unsettled, Verdict, catalogs, global, printer, writer};

/// Shows what is done, asks for confirmation, and does it.
///
/// # Errors
/// The rollback is impossible or would lose data, a request to the API server fails, or a step does not complete in time.
pub(crate) async fn run(args: &RollbackArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let name = &args.name;
    let removal = Box::pin(uninstall::look(&cluster, &removal_args(args))).await;
    let mut removal = removal.with_context(|| format!("cannot roll back {name}"))?;
    let rollback = look(&cluster, args, &mut removal).await?;
    printer::data(&format!("{}\n", rollback.text(&removal)))?;
    printer::document(&rollback.subscription, Document::Yaml)?;
    if args.dry_run {
        return Ok(Verdict::Fine);
    }
    check_permissions(&cluster, &removal, name).await?;
    let file = file(&rollback.subscription);
    if !is_agreed(args, &rollback, &file)? {
        printer::progress(&format!("{name} was not rolled back"));
        return Ok(Verdict::Unresolved);
    }
    // The answer may take long.
    let now = Box::pin(uninstall::look(&cluster, &removal_args(args))).await?;
    if !is_same(&removal, &now) {
        bail!("{name} changed since it was shown, so it was not rolled back; review it again");
    }
    replace(&cluster, &now, &rollback, &args.wait, &file).await?;
    let mut screen = Screen::stderr();
    if !install(&cluster, &rollback, &args.wait, &mut screen).await? {
        return Ok(Verdict::Unresolved);
    }
    let name = rollback.subscription.name_any();
    let verdict = status::follow(&cluster, &name, None, &args.wait, &mut screen).await?;
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
        yes: args.yes,
        connection: args.connection.clone(),
        ..UninstallArgs::default()
    }
}

/// Determines the version to go back to, reads it from the catalog, and adds the definitions that it replaces to the removal.
async fn look(cluster: &Cluster, args: &RollbackArgs, removal: &mut Removal) -> anyhow::Result<Rollback> {
    let plans = list::<InstallPlan>(&cluster.client, Some(&cluster.namespace), "").await?;
    let wanted = decide::wanted(removal, &args.name, args.to.as_deref(), &plans)?;
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
    // After the deletion it is too late to ask about them.
    let names = definitions::definitions(&bundle.objects).into_keys();
    uninstall::add_definitions(&cluster.client, removal, names).await?;
    let mut rollback = decide(removal, &entry, &bundle)?;
    rollback.also = check_resolution(cluster, removal, &rollback).await?;
    rollback.accepts_loss = args.accept_data_loss;
    Ok(rollback)
}

/// Checks that OLM chooses the version when the operator is removed. Returns what else it may install with it.
async fn check_resolution(
    cluster: &Cluster,
    removal: &Removal,
    rollback: &Rollback,
) -> anyhow::Result<Vec<String>> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let found = global::find(client, None, Some(namespace)).await;
    let (objects, notes) = cluster.objects(&found.catalogs, &[]).await?;
    notes.iter().for_each(|text| printer::warning(text));
    let objects = Objects::of(objects)?;
    let catalogs = Box::pin(catalogs::read(client, &objects.catalog_keys(namespace))).await;
    let mut question = objects.question(namespace, &found.catalogs, catalogs.contents);
    let is_removed = |csv: &str| removal.csvs.iter().any(|removed| removed.name_any() == csv);
    let name = rollback.subscription.name_any();
    let problem = &mut question.problem;
    problem.installed.retain(|csv| !is_removed(&csv.name));
    for subscription in problem.subscriptions.iter_mut().filter(|of| of.name == name) {
        *subscription = resolver_subscription(&rollback.subscription, &SubscriptionStatus::default());
    }
    question.not_succeeded.retain(|found| !is_removed(&found.csv));
    question.waiting.retain(|waiting| waiting.subscription != name);
    question.steps = Some(1);
    let plan = plan(&question)?;
    let names = plan.install().map(|install| install.name.clone());
    let (found, also): (Vec<String>, Vec<String>) = names.partition(|name| *name == rollback.target);
    if found.is_empty() {
        bail!(
            "cannot roll back to {}: OLM would not install it:\n{plan}",
            rollback.target
        );
    }
    Ok(also)
}

/// Checks that the user may do every step. Without the permission for a later one, the operator would stay removed.
///
/// # Errors
/// A permission is missing, or the API server does not answer.
async fn check_permissions(cluster: &Cluster, removal: &Removal, name: &str) -> anyhow::Result<()> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let objects = removal.objects();
    let deleted = objects
        .iter()
        .map(|(plural, name, _)| ["delete", *plural, name.as_str()]);
    // One Manual Subscription makes all plans of the namespace wait for approval.
    let subscriptions = list::<Subscription>(client, Some(namespace), "").await?;
    let is_manual = subscriptions.iter().any(|found| found.spec.is_manual());
    let approved = is_manual.then_some(["patch", "installplans", ""]);
    let mut missing = Vec::new();
    for step in std::iter::once(["create", "subscriptions", ""])
        .chain(deleted)
        .chain(approved)
    {
        if !writer::is_allowed(client, namespace, step).await? {
            missing.push(step.join(" ").trim_end().to_owned());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "cannot roll back {name}, so nothing was changed: you have no permission in namespace {namespace} to {}; request it, or see \
         `kubectl auth can-i --list {}`",
        missing.join(" and to "),
        removal.flags
    )
}

/// Returns the file that has the Subscription while the cluster does not.
fn file(subscription: &Subscription) -> PathBuf {
    let namespace = subscription.namespace().unwrap_or_default();
    PathBuf::from(format!("rollback-{namespace}-{}.yaml", subscription.name_any()))
}

/// Writes a new file that only the user can read.
///
/// # Errors
/// The file exists, or cannot be written.
pub(super) fn save_new(file: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(text.as_bytes())
}

/// Writes the Subscription to a new file that only the user can read.
fn save(subscription: &Subscription, file: &Path) -> anyhow::Result<()> {
    let text = olm_fbc::yaml::to_string(subscription)?;
    save_new(file, &text).with_context(|| {
        format!(
            "cannot save the Subscription in {}, so nothing was changed; if the file exists, it belongs to an earlier rollback: create its Subscription if that is still missing, and remove the file",
            file.display()
        )
    })
}

/// Asks for confirmation, and a second time if fields of custom resources may be lost.
fn is_agreed(args: &RollbackArgs, rollback: &Rollback, file: &Path) -> anyhow::Result<bool> {
    let may_lose = rollback.replaced.loses_data;
    if may_lose && args.yes && !args.accept_data_loss {
        bail!(
            "cannot roll back {}: data of custom resources may be lost, see the lines with `loses`; use --accept-data-loss if that is acceptable",
            args.name
        );
    }
    if args.yes && !rollback.also.is_empty() {
        bail!(
            "cannot roll back {} with --yes: its InstallPlan may also install {}; approve or hold that first, or run the command without --yes",
            args.name,
            rollback.others()
        );
    }
    let question = format!(
        "The Subscription is saved in {} until it is created again. Roll back {} to {}?",
        file.display(),
        args.name,
        rollback.target
    );
    let loss = "Data of custom resources may be lost, see the lines with `loses`. Continue?";
    Ok(confirm(&question, args.yes)? && (!may_lose || confirm(loss, args.accept_data_loss)?))
}

/// Returns true if the operator is as it was shown, and no kind has objects that had none.
fn is_same(shown: &Removal, now: &Removal) -> bool {
    let csvs = |removal: &Removal| -> Vec<_> {
        let csvs = removal.csvs.iter();
        csvs.map(|csv| (csv.name_any(), csv.phase().clone())).collect()
    };
    let subscription = |removal: &Removal| {
        let found = removal.subscription.clone();
        found.map(|found| {
            (
                found.uid(),
                found.spec,
                found.metadata.labels,
                found.metadata.annotations,
            )
        })
    };
    let had_objects = |name: &str| {
        let mut before = shown.definitions.iter();
        before.any(|definition| definition.name == name && definition.has_objects())
    };
    let mut definitions = now.definitions.iter();
    csvs(shown) == csvs(now)
        && subscription(shown) == subscription(now)
        && definitions.all(|definition| !definition.has_objects() || had_objects(&definition.name))
}

/// Deletes the operator, and creates its Subscription again. Until that is created, it is in `file`.
async fn replace(
    cluster: &Cluster,
    removal: &Removal,
    rollback: &Rollback,
    wait: &WaitArgs,
    file: &Path,
) -> anyhow::Result<()> {
    save(&rollback.subscription, file)?;
    let client = &cluster.client;
    let mut tell = |text: &str| printer::progress(text);
    let removed = uninstall::remove(client, removal, wait, &mut Screen::stderr(), &mut tell).await;
    let incomplete = || {
        format!(
            "the rollback of {} is incomplete; uninstall what is left, then create the Subscription with `kubectl create -f {}`",
            rollback.subscription.name_any(),
            quoted(&file.display().to_string())
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
    if let Err(error) = remove_file(file) {
        printer::warning(&format!("cannot delete {}: {error}", file.display()));
    }
    Ok(())
}

/// Prints the plan, approves it if it needs approval and does no more than the user agreed to, and waits until it completes. Returns
/// false if OLM installed another version. Nothing is asked, because the operator is removed already.
///
/// # Errors
/// The plan is not created, approved or completed; the message says that the operator is removed.
async fn install(
    cluster: &Cluster,
    rollback: &Rollback,
    wait: &WaitArgs,
    screen: &mut Screen<io::Stderr>,
) -> anyhow::Result<bool> {
    let target = rollback.target.as_str();
    let (mut plan, mut why): (Option<String>, Option<String>) = (None, None);
    let mut ask = |shown: &Shown| -> anyhow::Result<bool> {
        // Without its output, the operator must not stay removed.
        if let Err(error) = printer::data(&shown.to_string()) {
            printer::warning(&format!("{error:#}"));
        }
        plan = Some(shown.plan.clone());
        why = rollback.unforeseen(shown);
        Ok(why.is_none())
    };
    let subscription = &rollback.subscription;
    let installed = Box::pin(rollout::first_plan(cluster, subscription, wait, screen, &mut ask)).await;
    let name = subscription.name_any();
    let approve = cluster.suggest("approve {}", &[plan.as_deref().unwrap_or(&name)]);
    let plan = plan.map_or_else(
        || "its InstallPlan".to_owned(),
        |plan| format!("InstallPlan {plan}"),
    );
    let removed = format!("{name} is removed, and {target} is not installed yet");
    let done = installed
        .with_context(|| format!("{removed}; if {plan} waits for approval, finish with `{approve}`"))?;
    let Some(done) = done else {
        let why = why.map(|why| format!(", because it {why}"));
        let why = why.unwrap_or_default();
        let text =
            format!("{removed}: {plan} waits for approval{why}; review it and finish with `{approve}`");
        return Err(Unsettled(text).into());
    };
    if done.csv != target {
        printer::warning(&format!("OLM installed {} instead of {target}", done.csv));
    }
    Ok(done.csv == target)
}
