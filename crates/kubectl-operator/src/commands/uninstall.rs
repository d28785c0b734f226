//! `kubectl operator uninstall`: a Subscription and what it installed; CustomResourceDefinitions only by name.

mod removal;
#[cfg(test)]
mod tests;

use std::io::Write;

use anyhow::bail;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use olm_api::v1alpha1::ClusterServiceVersion;

use self::removal::{Definition, MAX_NAMED, Objects, Removal, decide};
use crate::args::change::UninstallArgs;
use crate::args::shared::WaitArgs;
use crate::cluster::Cluster;
use crate::confirm::confirm;
use crate::operators::Gathered;
use crate::reader::{answer, api, get};
use crate::terminal::plain;
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
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let removal = look(client, namespace, &args.name, &args.delete_crd).await?;
    printer::data(&removal.to_string())?;
    let question = format!("Uninstall {}?", plain(&args.name));
    if !confirm(&question, args.yes)? {
        return Ok(Verdict::Unresolved);
    }
    let mut tell = |text: &str| printer::progress(text);
    match remove(client, &removal, &args.wait, &mut Screen::stderr(), &mut tell).await? {
        true => Ok(Verdict::Fine),
        false => Ok(Verdict::Unresolved),
    }
}

/// What uninstalling an operator means.
async fn look(
    client: &Client,
    namespace: &str,
    name: &str,
    delete_crds: &[String],
) -> anyhow::Result<Removal> {
    // Who may see all namespaces sees all who own or need a kind.
    let (gathered, doubt) = match gather::operators(client, None).await {
        Ok(gathered) => (gathered, None),
        Err(error) => (
            gather::operators(client, Some(namespace)).await?,
            Some(format!("{error:#}")),
        ),
    };
    let mut removal = decide(&gathered, namespace, name, delete_crds, doubt)?;
    for definition in &mut removal.definitions {
        fill(client, definition).await;
    }
    Ok(removal)
}

/// Notes what there is of a kind. Not to know it is told.
async fn fill(client: &Client, definition: &mut Definition) {
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let what = || format!("read CustomResourceDefinition {}", plain(&definition.name));
    let found = answer(what, async {
        match crds.get(&definition.name).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            answer => answer.map(Some),
        }
    })
    .await;
    match found {
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
    let what = || format!("list {} in all namespaces", plain(&crd.name_any()));
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
/// the operator. Whether all of it has gone in time.
async fn remove<W: Write>(
    client: &Client,
    removal: &Removal,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
    tell: &mut dyn FnMut(&str),
) -> anyhow::Result<bool> {
    let namespace = removal.namespace.as_str();
    if let Some(subscription) = &removal.subscription {
        writer::delete(&api(client, Some(namespace)), subscription).await?;
        tell(&format!("{} deleted", writer::subject(subscription)));
    }
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let going: Vec<&CustomResourceDefinition> = removal
        .definitions
        .iter()
        .filter(|definition| definition.is_deleted)
        .filter_map(|definition| definition.crd.as_ref())
        .collect();
    for crd in &going {
        writer::delete(&crds, *crd).await?;
    }
    if !gone_crds(&crds, &going, wait, screen).await? {
        printer::warning(&format!(
            "the operator still runs, so that it can end what it has to: look at the finalizers of these objects, then \
             `kubectl operator uninstall {}` goes on",
            removal.again()
        ));
        return Ok(false);
    }
    for crd in &going {
        tell(&format!("{} deleted", writer::subject(*crd)));
    }
    for csv in &removal.csvs {
        writer::delete(&api(client, Some(namespace)), csv).await?;
    }
    if !gone_csvs(client, namespace, &removal.csvs, wait, screen).await? {
        printer::warning("OLM has not ended it in time; it goes on, see `kubectl operator status`");
        return Ok(false);
    }
    for csv in &removal.csvs {
        tell(&format!("{} deleted", writer::subject(csv)));
    }
    Ok(true)
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

async fn gone_csvs<W: Write>(
    client: &Client,
    namespace: &str,
    going: &[ClusterServiceVersion],
    wait: &WaitArgs,
    screen: &mut Screen<W>,
) -> anyhow::Result<bool> {
    let outcome = until(screen, wait.limit(), async || {
        let mut left = Vec::new();
        for csv in going {
            let found = get::<ClusterServiceVersion>(client, namespace, &csv.name_any()).await?;
            if found.is_some_and(|found| found.uid() == csv.uid()) {
                left.push(format!("{}: waits for OLM to end it", writer::subject(csv)));
            }
        }
        Ok(look_of(left))
    });
    Ok(outcome.await? == Outcome::Done)
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

/// Names of the operators of a namespace, for who names one that is not there.
fn known(gathered: &Gathered, namespace: &str) -> String {
    let operators = gathered.operators();
    let own = operators
        .iter()
        .filter(|operator| operator.namespace() == namespace);
    let names: Vec<String> = own.map(|operator| plain(&operator.name())).collect();
    match names.is_empty() {
        true => "it has none; `kubectl operator list -A` shows those of all namespaces".to_owned(),
        false => format!("it has {}", names.join(", ")),
    }
}
