//! `kubectl operator uninstall`: a Subscription and what it installed; CustomResourceDefinitions only by name.

mod plans;
mod removal;
#[cfg(test)]
mod tests;

use std::io::Write;

use anyhow::{anyhow, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use olm_api::names::is_dns1123_subdomain;
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan};

use self::plans::{OpenPlan, open_plans};
use self::removal::{Definition, MAX_NAMED, Objects, Removal, decide};
use crate::args::change::UninstallArgs;
use crate::args::shared::WaitArgs;
use crate::cluster::Cluster;
use crate::confirm::confirm;
use crate::reader::{answer, api, list};
use crate::watch::{Look, Outcome, Screen, until};
use crate::{Verdict, gather, printer, writer};

/// Objects of a kind that are looked at; more are counted.
const MAX_OBJECTS: u32 = 500;

/// Shows what goes, asks, and deletes it.
///
/// # Errors
/// There is no such operator, or the API server refuses.
pub(crate) async fn run(args: &UninstallArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let removal = look(&cluster, args).await?;
    printer::data(&removal.to_string())?;
    if !is_wanted(&removal, args)? {
        printer::progress(&format!("{} is not uninstalled", args.name));
        return Ok(Verdict::Unresolved);
    }
    let mut tell = |text: &str| printer::progress(text);
    let (client, mut screen) = (&cluster.client, Screen::stderr());
    let is_gone = remove(client, &removal, &args.wait, &mut screen, &mut tell).await?;
    Ok(Verdict::when(is_gone))
}

/// Whether whoever asks wants that. A script says with a flag of its own that custom resources may go which nobody named: a new version of the
/// operator may begin to have them cleaned up.
fn is_wanted(removal: &Removal, args: &UninstallArgs) -> anyhow::Result<bool> {
    let name = &args.name;
    if args.yes && removal.has_cleanup() && !args.allow_cleanup {
        printer::warning(&format!(
            "nothing is changed: OLM would delete custom resources of {name}, as its ClusterServiceVersion says; say --allow-cleanup"
        ));
        return Ok(false);
    }
    confirm(&format!("Uninstall {name}?"), args.yes)
}

/// What uninstalling an operator means.
async fn look(cluster: &Cluster, args: &UninstallArgs) -> anyhow::Result<Removal> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    // Who may see all namespaces sees all who own or need a kind.
    let (gathered, doubt) = match gather::operators(client, None).await {
        Ok(gathered) => (gathered, None),
        Err(error) => (
            gather::operators(client, Some(namespace)).await?,
            Some(format!("{error:#}")),
        ),
    };
    let plans = list::<InstallPlan>(client, Some(namespace), "").await?;
    let mut removal = decide(&gathered, &plans, namespace, args, doubt)?;
    for definition in &mut removal.definitions {
        fill(client, definition).await?;
    }
    Ok(removal)
}

/// Notes what there is of a kind. Not to know it of one that stays is told.
///
/// # Errors
/// One that is to be deleted cannot be read.
async fn fill(client: &Client, definition: &mut Definition) -> anyhow::Result<()> {
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let what = || format!("read CustomResourceDefinition {}", definition.name);
    let found = answer(what, async {
        if !is_dns1123_subdomain(&definition.name) {
            return Ok(None);
        }
        crds.get_opt(&definition.name).await
    })
    .await;
    match found {
        // Without it the definition would stay, and the operator go that ends its objects.
        Err(error) if definition.is_deleted => bail!("{error:#}; nothing is uninstalled"),
        Err(error) => definition.objects = Objects::Unknown(format!("{error:#}")),
        Ok(None) => definition.objects = Objects::NoDefinition,
        Ok(Some(crd)) => {
            definition.objects = match objects(client, &crd).await {
                Ok(objects) => objects,
                Err(error) => Objects::Unknown(format!("{error:#}")),
            };
            definition.crd = Some(crd);
        }
    }
    Ok(())
}

async fn objects(client: &Client, crd: &CustomResourceDefinition) -> anyhow::Result<Objects> {
    let spec = &crd.spec;
    let Some(version) = spec.versions.iter().find(|version| version.served) else {
        bail!("it serves no version");
    };
    let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let params = ListParams::default().limit(MAX_OBJECTS);
    let what = || format!("list {} in all namespaces", crd.name_any());
    let page = answer(what, api.list_metadata(&params)).await?;
    let more = page.metadata.remaining_item_count.unwrap_or_default();
    let is_cut = page
        .metadata
        .continue_
        .as_deref()
        .is_some_and(|token| !token.is_empty());
    let name = |object: &kube::core::PartialObjectMeta<DynamicObject>| match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    };
    Ok(Objects::Known {
        count: page.items.len() + usize::try_from(more).unwrap_or_default(),
        // Where the server does not say how many more there are.
        at_least: is_cut && more == 0,
        with_finalizers: page
            .items
            .iter()
            .filter(|object| !object.finalizers().is_empty())
            .count(),
        names: page.items.iter().take(MAX_NAMED).map(name).collect(),
    })
}

/// Deletes what was shown: first what would install it again, then the definitions that are named while the operator still runs, then
/// the operator. Whether all of it has gone in time, and nothing of it came meanwhile.
async fn remove<W: Write>(
    client: &Client,
    removal: &Removal,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
    tell: &mut dyn FnMut(&str),
) -> anyhow::Result<bool> {
    let namespace = removal.namespace.as_str();
    // The error of a step alone does not say what is left to be done.
    let go_on = |error: anyhow::Error| anyhow!("{error:#}; to go on: `{}`", removal.again());
    if let Some(subscription) = &removal.subscription {
        writer::delete(&api(client, Some(namespace)), subscription).await?;
        tell(&format!("{} deleted", writer::subject(subscription)));
    }
    for OpenPlan { plan, .. } in &removal.plans {
        let deleted = writer::delete(&api(client, Some(namespace)), plan).await;
        deleted.map_err(go_on)?;
        tell(&format!("{} deleted", writer::subject(plan)));
    }
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let going: Vec<&CustomResourceDefinition> = removal
        .definitions
        .iter()
        .filter(|definition| definition.is_deleted)
        .filter_map(|definition| definition.crd.as_ref())
        .collect();
    for crd in &going {
        writer::delete(&crds, *crd).await.map_err(go_on)?;
    }
    if !gone_crds(&crds, &going, wait, screen).await.map_err(go_on)? {
        printer::warning(&format!(
            "the operator still runs, so that it can end what it has to: look at the finalizers of these objects; to go on: `{}`",
            removal.again()
        ));
        return Ok(false);
    }
    for crd in &going {
        tell(&format!("{} deleted", writer::subject(*crd)));
    }
    for csv in &removal.csvs {
        let deleted = writer::delete(&api(client, Some(namespace)), csv).await;
        deleted.map_err(go_on)?;
    }
    let Some(came) = gone(client, removal, wait, screen).await.map_err(go_on)? else {
        printer::warning(&format!(
            "OLM has not ended it in time; it goes on, see `kubectl operator status {}`",
            removal.flags
        ));
        return Ok(false);
    };
    for csv in &removal.csvs {
        tell(&format!("{} deleted", writer::subject(csv)));
    }
    for subject in &came {
        printer::warning(&format!(
            "{subject} came meanwhile, and is not deleted as it was not shown; see `kubectl operator list {}`",
            removal.flags
        ));
    }
    Ok(came.is_empty())
}

async fn gone_crds<W: Write>(
    crds: &Api<CustomResourceDefinition>,
    going: &[&CustomResourceDefinition],
    wait: &WaitArgs,
    screen: &mut Screen<W>,
) -> anyhow::Result<bool> {
    let outcome = until(screen, wait.limit(), async || {
        let mut left = Vec::new();
        for crd in going {
            let what = || format!("read {}", writer::subject(*crd));
            let found = answer(what, crds.get_metadata_opt(&crd.name_any())).await?;
            if found.is_some_and(|found| found.uid() == crd.uid()) {
                left.push(format!(
                    "{}: waits for the end of its objects",
                    writer::subject(*crd)
                ));
            }
        }
        Ok(look_of(left))
    });
    Ok(outcome.await? == Outcome::Done)
}

/// Waits until ClusterServiceVersions and plans have gone. Returns what of the operator came meanwhile; none if they have not gone in time.
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
    // What OLM had begun when its plan went comes a moment later.
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
                left.push(format!("{}: waits for OLM to end it", writer::subject(csv)));
            } else if replaces || removal.coming.contains(&csv.name_any()) {
                came.push(writer::subject(csv));
            }
        }
        let is_known = |plan: &InstallPlan| is_going(plan.uid()) || removal.shared.contains(&plan.name_any());
        for plan in plans.iter().filter(|plan| is_going(plan.uid())) {
            left.push(format!("{}: waits for its end", writer::subject(plan)));
        }
        let open = open_plans(&plans, &[], None, &removal.names);
        let new = open.iter().filter(|open| !is_known(&open.plan));
        came.extend(new.map(|open| writer::subject(&open.plan)));
        let mut look = look_of(left);
        if !std::mem::replace(&mut is_settled, true) && look.outcome == Outcome::Done {
            look.outcome = Outcome::Waits;
        }
        Ok(look)
    });
    let is_gone = outcome.await? == Outcome::Done;
    Ok(is_gone.then_some(came))
}

fn look_of(left: Vec<String>) -> Look {
    let outcome = match left.is_empty() {
        true => Outcome::Done,
        false => Outcome::Waits,
    };
    Look {
        tree: left.clone(),
        flat: left,
        outcome,
    }
}
