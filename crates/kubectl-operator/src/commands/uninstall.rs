//! `kubectl operator uninstall`: deletes a Subscription and what it installed. CustomResourceDefinitions are only deleted by
//! `--delete-crd`, `--delete-operator` or `--delete-all`.

mod leftovers;
mod plans;
mod removal;
#[cfg(test)]
pub(in crate::commands) mod tests;
mod text;

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{anyhow, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use olm_api::v1::{Operator, OperatorGroup};
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan, Subscription};

use self::plans::{OpenPlan, open_plans};
use self::removal::decide;
pub(super) use self::removal::{Definition, Objects, Removal};
use crate::args::change::{OperandStrategy, UninstallArgs};
use crate::args::shared::{UPSTREAM_TIMEOUT, WaitArgs, quoted, slice};
use crate::cluster::Cluster;
use crate::confirm::{has_terminal, unless_refused};
use crate::operands::Operand;
use crate::operators::Gathered;
use crate::reader::{answer, api, get_cluster, list, list_names, require_namespace};
use crate::watch::{Look, Outcome, Screen, are_gone, until};
use crate::{Verdict, gather, operands, printer, terminal, writer};

/// Maximum number of objects read per kind; the rest is counted.
const MAX_OBJECTS: u32 = 500;

/// Shows what would be deleted, asks for confirmation, and deletes it.
///
/// # Errors
/// There is no such operator, or it has operands without a strategy for them. A request to the API server fails, or the deletion
/// does not complete in time.
pub(crate) async fn run(args: &UninstallArgs) -> anyhow::Result<Verdict> {
    if let Some(text) = without_effect(args) {
        printer::warning(text);
    }
    let cluster = Cluster::connect(&args.connection).await?;
    let mut removal = Box::pin(look(&cluster, args)).await?;
    keep_plans(&cluster.client, &mut removal, &args.name).await;
    printer::data(&removal.to_string())?;
    if args.dry_run {
        return Ok(Verdict::Fine);
    }
    check_permissions(&cluster.client, &removal, &args.name).await?;
    let is_asked = has_terminal() && !args.yes;
    let question = question(&removal, args, is_asked)?;
    if !unless_refused(&question, args.yes)? {
        printer::progress(&format!("{} was not uninstalled", args.name));
        return Ok(Verdict::Unresolved);
    }
    let mut tell = |text: &str| printer::progress(text);
    let (client, mut screen) = (&cluster.client, Screen::stderr());
    let wait = args.wait.or(UPSTREAM_TIMEOUT);
    let is_gone = remove(client, &removal, &wait, &mut screen, &mut tell).await?;
    Ok(Verdict::when(is_gone))
}

/// Keeps the waiting InstallPlans that the user may not delete, with a note: upstream's plugin deletes none. A running one would
/// create the operator again, so [`check_permissions`] refuses it.
async fn keep_plans(client: &Client, removal: &mut Removal, name: &str) {
    for open in std::mem::take(&mut removal.plans) {
        let plan = open.plan.name_any();
        let step = ["delete", "installplans", plan.as_str()];
        // The API server may not answer that.
        let is_kept = !open.is_approved()
            && !writer::is_allowed(client, &removal.namespace, step)
                .await
                .unwrap_or(true);
        if !is_kept {
            removal.plans.push(open);
            continue;
        }
        removal.notes.push(format!(
            "InstallPlan {plan} is not deleted because you have no permission to delete it; while it exists, approving it installs \
             {name} again"
        ));
        removal.shared.insert(plan);
    }
}

/// Checks that the user may delete the Subscription, its InstallPlans and its ClusterServiceVersions. Otherwise the operator would go on
/// running without its Subscription.
///
/// # Errors
/// A permission is missing.
async fn check_permissions(client: &Client, removal: &Removal, name: &str) -> anyhow::Result<()> {
    let mut missing = Vec::new();
    for (plural, own, subject) in removal.objects() {
        let allowed = writer::is_allowed(client, &removal.namespace, ["delete", plural, &own]).await;
        // The API server may not answer that.
        if !allowed.unwrap_or(true) {
            missing.push(subject);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "cannot uninstall {name}, so nothing was changed: you have no permission to delete {}; request it, or see `kubectl auth can-i \
         --list {}`",
        missing.join(", "),
        removal.flags
    )
}

/// Returns a warning about a flag that has no effect.
fn without_effect(args: &UninstallArgs) -> Option<&'static str> {
    let is_alone = !slice(&args.delete_operator_group_names).is_empty() && !args.deletes_groups();
    is_alone.then_some("--delete-operator-group-names has no effect without --delete-operator-groups")
}

/// Returns the question to the user.
///
/// # Errors
/// There are operands, and no strategy for them is given. The text is upstream's.
fn question(removal: &Removal, args: &UninstallArgs, is_asked: bool) -> anyhow::Result<String> {
    let name = &args.name;
    let count = removal.operands.len();
    let operands = format!("its {}", terminal::count(count, "operand"));
    match args.strategy() {
        _ if count == 0 => Ok(format!("Uninstall {name}?")),
        Some(OperandStrategy::Ignore) => Ok(format!("Uninstall {name}, and leave {operands}?")),
        Some(OperandStrategy::Delete) => Ok(format!("Uninstall {name}, and delete {operands}?")),
        None if is_asked => Ok(format!(
            "Uninstall {name}, and leave {operands} (see --operand-strategy)?"
        )),
        None | Some(OperandStrategy::Abort) => bail!(
            "could not proceed with deletion of {name:?}: operand deletion aborted: one or more operands exist and operand strategy is \"abort\"; \
             see --operand-strategy, and `kubectl operator list-operands {} {}`",
            quoted(name),
            removal.flags
        ),
    }
}

/// Determines what an uninstallation deletes and keeps.
pub(super) async fn look(cluster: &Cluster, args: &UninstallArgs) -> anyhow::Result<Removal> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    // With permission to read all namespaces, all operators that own or require a kind are known.
    let (gathered, doubt) = match gather::operators(client, None).await {
        Ok(gathered) => (gathered, None),
        Err(error) => (
            gather::operators(client, Some(namespace)).await?,
            Some(format!("{error:#}")),
        ),
    };
    let operators = gathered.operators();
    if !operators.iter().any(|operator| operator.namespace() == namespace) {
        require_namespace(client, namespace).await?;
    }
    let plans = list::<InstallPlan>(client, Some(namespace), "").await?;
    // An operator that does not exist is reported later.
    let name = gathered.of_package(namespace, &args.name);
    let found = gathered.find(namespace, &name, &cluster.commands).ok();
    let package = found.and_then(|found| found.package().map(str::to_owned));
    let operator = match package {
        Some(package) => get_cluster::<Operator>(client, &format!("{package}.{namespace}")).await,
        None => Ok(None),
    };
    // A kept Operator object is only mentioned, so a user who may not read it can uninstall.
    let (operator, kept_operator) = match args.deletes_operator() {
        true => (operator?, None),
        false => (None, operator.unwrap_or_default()),
    };
    let mut removal = decide(&gathered, &plans, namespace, args, operator, doubt)?;
    removal.kept_operator = kept_operator;
    for definition in &mut removal.definitions {
        fill(client, definition).await?;
    }
    operands_of(client, args, &mut removal).await?;
    let groups = list::<OperatorGroup>(client, Some(namespace), "").await;
    if args.deletes_groups() {
        let names = slice(&args.delete_operator_group_names);
        removal.groups = groups?;
        removal
            .groups
            .retain(|group| names.is_empty() || names.contains(&group.name_any()));
    } else if is_last(&gathered, &removal) {
        // They are only mentioned, so a user who may not read them can uninstall.
        removal.unused_groups = groups.unwrap_or_default();
    }
    Ok(removal)
}

/// Returns true if the namespace has no other operator.
fn is_last(gathered: &Gathered, removal: &Removal) -> bool {
    let own = removal.subscription.as_ref().map(|own| own.name_any());
    let mut subscriptions = gathered.subscriptions.iter();
    let mut csvs = gathered.csvs.keys();
    subscriptions.all(|found| {
        found.namespace().as_deref() != Some(removal.namespace.as_str()) || Some(found.name_any()) == own
    }) && csvs.all(|(namespace, name)| *namespace != removal.namespace || removal.names.contains(name))
}

/// Adds the operands. If these cannot be determined, none are deleted, and all objects of the kinds count as operands.
async fn operands_of(client: &Client, args: &UninstallArgs, removal: &mut Removal) -> anyhow::Result<()> {
    if args.strategy() == Some(OperandStrategy::Ignore) || removal.csvs.is_empty() {
        return Ok(());
    }
    let csvs: Vec<&ClusterServiceVersion> = removal.csvs.iter().collect();
    let targets = match operands::targets(client, &removal.namespace).await {
        Ok(targets) => targets,
        Err(error) if removal.deletes_operands => return Err(error),
        Err(error) => {
            removal
                .notes
                .push(format!("cannot read the operator's target namespaces: {error:#}"));
            None
        }
    };
    let found = operands::list(client, &csvs, targets.as_ref()).await;
    let found = match (found, args.strategy(), args.yes || !has_terminal()) {
        (Ok(found), ..) => found,
        // The user is asked, and sees the note above.
        (Err(_), None, false) => Vec::new(),
        (Err(error), ..) => return Err(error.context("operands are unknown; see --operand-strategy")),
    };
    let goes = |name: &str| {
        let mut all = removal.definitions.iter();
        all.any(|definition| definition.name == name && definition.is_deleted)
    };
    // Operands of kinds that are deleted by name are deleted with them.
    removal.operands = found
        .into_iter()
        .filter(|operand| removal.deletes_operands || !goes(&operand.definition))
        .collect();
    if removal.deletes_operands {
        for definition in removal.definitions.iter_mut().filter(|found| !found.is_deleted) {
            let of_it = removal.operands.iter();
            let deleted: BTreeSet<String> = of_it
                .filter(|operand| operand.definition == definition.name)
                .map(Operand::name)
                .collect();
            definition.deleted = deleted.len();
            // The deleted ones are listed themselves.
            if let Objects::Known { names, .. } = &mut definition.objects {
                names.retain(|name| !deleted.contains(name));
            }
        }
    }
    Ok(())
}

/// Adds definitions that exist in the cluster and are not the operator's, as kept ones.
///
/// # Errors
/// See [`fill`].
pub(super) async fn add_definitions(
    client: &Client,
    removal: &mut Removal,
    names: impl Iterator<Item = String>,
) -> anyhow::Result<()> {
    for name in names {
        if removal.definitions.iter().any(|known| known.name == name) {
            continue;
        }
        let mut definition = Definition {
            name,
            ..Definition::default()
        };
        fill(client, &mut definition).await?;
        if definition.objects != Objects::NoDefinition {
            removal.definitions.push(definition);
        }
    }
    Ok(())
}

/// Adds the objects of a kind. A failed read of a kind that stays is only noted.
///
/// # Errors
/// A definition that is to be deleted cannot be read.
async fn fill(client: &Client, definition: &mut Definition) -> anyhow::Result<()> {
    let found = get_cluster::<CustomResourceDefinition>(client, &definition.name).await;
    match found {
        // Otherwise the definition would stay without the operator that removes finalizers of its objects.
        Err(error) if definition.is_deleted => bail!("{error:#}; nothing was uninstalled"),
        Err(error) => definition.objects = Objects::Unknown(format!("{error:#}")),
        Ok(None) => definition.objects = Objects::NoDefinition,
        Ok(Some(crd)) => {
            let found = objects(client, &crd).await;
            definition.objects = found.unwrap_or_else(|error| Objects::Unknown(format!("{error:#}")));
            definition.crd = Some(crd);
        }
    }
    Ok(())
}

async fn objects(client: &Client, crd: &CustomResourceDefinition) -> anyhow::Result<Objects> {
    let resource = operands::resource(crd, "")?;
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let params = ListParams::default().limit(MAX_OBJECTS);
    let what = || format!("list {} in all namespaces", crd.name_any());
    let page = answer(what, api.list_metadata(&params)).await?;
    let more = page.metadata.remaining_item_count.unwrap_or_default();
    let token = page.metadata.continue_.as_deref().unwrap_or_default();
    let name = |object: &kube::core::PartialObjectMeta<DynamicObject>| match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    };
    Ok(Objects::Known {
        count: page.items.len() + usize::try_from(more).unwrap_or_default(),
        // The server may not report how many more there are.
        at_least: !token.is_empty() && more == 0,
        with_finalizers: page
            .items
            .iter()
            .filter(|object| !object.finalizers().is_empty())
            .count(),
        names: page.items.iter().map(name).collect(),
    })
}

/// Deletes what was shown. First come objects that would reinstall the operator, then the named definitions while the operator
/// still runs, then the operator. Returns true if everything is deleted in time and no part was created meanwhile.
pub(super) async fn remove<W: Write>(
    client: &Client,
    removal: &Removal,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
    tell: &mut dyn FnMut(&str),
) -> anyhow::Result<bool> {
    let namespace = removal.namespace.as_str();
    // The error of a step alone does not include how to continue.
    let go_on = |error: anyhow::Error| anyhow!("{error:#}; to continue: {}", removal.again());
    if let Some(subscription) = &removal.subscription {
        writer::delete(&api(client, Some(namespace)), subscription).await?;
        tell(&format!("{} deleted", writer::subject(subscription)));
    }
    for OpenPlan { plan, .. } in &removal.plans {
        let deleted = writer::delete(&api(client, Some(namespace)), plan).await;
        deleted.map_err(go_on)?;
        tell(&format!("{} deleted", writer::subject(plan)));
    }
    let late = |what: &str, finalizers: &str| {
        go_on(anyhow!(
            "deletion of {what} timed out after {} s; the operator still runs so that it can finish; check {finalizers}",
            wait.timeout().as_secs()
        ))
    };
    if removal.deletes_operands {
        let operands = removal.operands.iter().map(|operand| {
            let subject = format!("{} {}", operand.resource.kind, operand.name());
            (operand.api(client), &operand.object, subject)
        });
        let operands: Vec<_> = operands.collect();
        for (api, object, _) in &operands {
            writer::delete_dynamic(api, object).await.map_err(go_on)?;
        }
        let gone = are_gone(&operands, "deletion", wait, screen).await;
        if !gone.map_err(go_on)? {
            return Err(late("operands", "their finalizers"));
        }
    }
    let definitions = removal.definitions.iter();
    let going = definitions.filter(|definition| definition.is_deleted);
    let crds = going.filter_map(|definition| definition.crd.as_ref());
    let api_of_crds = Api::<CustomResourceDefinition>::all(client.clone());
    let crds: Vec<_> = crds
        .map(|crd| (api_of_crds.clone(), crd, writer::subject(crd)))
        .collect();
    for (api, crd, _) in &crds {
        writer::delete(api, *crd).await.map_err(go_on)?;
    }
    let are_gone = are_gone(&crds, "deletion of its objects", wait, screen).await;
    if !are_gone.map_err(go_on)? {
        return Err(late(
            "CustomResourceDefinitions",
            "the finalizers of their objects",
        ));
    }
    for (_, _, subject) in &crds {
        tell(&format!("{subject} deleted"));
    }
    for csv in &removal.csvs {
        let deleted = writer::delete(&api(client, Some(namespace)), csv).await;
        deleted.map_err(go_on)?;
    }
    let Some(came) = gone(client, removal, wait, screen).await.map_err(go_on)? else {
        bail!(
            "OLM has not finished the cleanup within {} s; it continues in the background, see `kubectl operator status {}`",
            wait.timeout().as_secs(),
            removal.flags
        );
    };
    for csv in &removal.csvs {
        tell(&format!("{} deleted", writer::subject(csv)));
    }
    for subject in &came {
        printer::warning(&format!(
            "{subject} was created meanwhile and was not deleted; see `kubectl operator list {}`",
            removal.flags
        ));
    }
    // Objects created meanwhile may need those that the Operator object lists.
    if let Some(operator) = removal.operator.as_ref().filter(|_| came.is_empty()) {
        let kept = leftovers::end(client, removal, operator, wait, screen).await;
        let (kept, subject) = (kept.map_err(go_on)?, writer::subject(operator));
        match kept.is_empty() {
            true => tell(&format!("{subject} deleted")),
            false => tell(&format!(
                "{subject} is kept: it lists {}, and OLM would create it again",
                kept.join(", ")
            )),
        }
    }
    if !removal.groups.is_empty() {
        let left = list_names::<Subscription>(client, namespace).await?;
        if left.is_empty() {
            for group in &removal.groups {
                writer::delete(&api(client, Some(namespace)), group).await?;
                tell(&format!("{} deleted", writer::subject(group)));
            }
        } else {
            tell(&format!(
                "OperatorGroups were kept: namespace {namespace} has Subscriptions {}",
                left.join(", ")
            ));
        }
    }
    Ok(came.is_empty())
}

/// Waits until ClusterServiceVersions and plans are deleted. Returns the parts of the operator that were created meanwhile;
/// `None` at the time limit.
async fn gone<W: Write>(
    client: &Client,
    removal: &Removal,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
) -> anyhow::Result<Option<Vec<String>>> {
    let namespace = Some(removal.namespace.as_str());
    let is_going = |uid: Option<String>| {
        let csvs = removal.csvs.iter().map(|csv| csv.uid());
        let plans = removal.plans.iter().map(|open| open.plan.uid());
        csvs.chain(plans).any(|going| going == uid)
    };
    let mut came = Vec::new();
    // OLM may create objects shortly after the deletion of a plan that it was running.
    let mut is_settled = !removal.plans.iter().any(OpenPlan::is_approved);
    let outcome = until(screen, wait.limit(), async || {
        let csvs = list::<ClusterServiceVersion>(client, namespace, &gather::originals()).await?;
        let plans = list::<InstallPlan>(client, namespace, "").await?;
        let mut left = Vec::new();
        came.clear();
        for csv in csvs.iter().filter(|csv| !csv.is_copied()) {
            let replaces = csv
                .spec
                .replaces()
                .is_some_and(|name| removal.names.contains(name));
            if is_going(csv.uid()) {
                left.push(format!("{}: waiting for OLM to clean up", writer::subject(csv)));
            } else if replaces || removal.coming.contains(&csv.name_any()) {
                came.push(writer::subject(csv));
            }
        }
        let is_known = |plan: &InstallPlan| is_going(plan.uid()) || removal.shared.contains(&plan.name_any());
        for plan in plans.iter().filter(|plan| is_going(plan.uid())) {
            left.push(format!("{}: waiting for deletion", writer::subject(plan)));
        }
        let open = open_plans(&plans, &[], None, &removal.names);
        let new = open.iter().filter(|open| !is_known(&open.plan));
        came.extend(new.map(|open| writer::subject(&open.plan)));
        let mut look = Look::at_left(left);
        if !std::mem::replace(&mut is_settled, true) && look.outcome == Outcome::Done {
            look.outcome = Outcome::Waits;
        }
        Ok(look)
    });
    let is_gone = outcome.await? == Outcome::Done;
    Ok(is_gone.then_some(came))
}
