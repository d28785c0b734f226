//! `kubectl operator install`: creates a Subscription, and the namespace and OperatorGroup that it needs.

mod decide;
mod listed;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{anyhow, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ObjectMeta;
use kube::{Api, Client, ResourceExt as _};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{
    CatalogSource, ClusterServiceVersion, ClusterServiceVersionPhase as Phase, Subscription,
};
use olm_resolver::installed::package_of;
use olm_resolver::{CatalogKey, Snapshot};

use self::decide::{Subscribed, There, Unsubscribed, Wanted, decide};
use super::approve::Shown;
use super::{rollout, status};
use crate::args::change::InstallArgs;
use crate::args::shared::UPSTREAM_TIMEOUT;
use crate::cluster::Cluster;
use crate::confirm::{has_terminal, unless_refused};
use crate::groups::Group;
use crate::operators::Gathered;
use crate::packages::{Channel, Package, Version, is_catalog, named, preferred};
use crate::preview::losses;
use crate::reader::{api, get, has_namespace, is_forbidden, list_names, list_readable, require_namespace};
use crate::terminal::count;
use crate::watch::Screen;
use crate::{Verdict, catalogs, gather, global, printer, writer};

/// Installs a package.
///
/// # Errors
/// It cannot be installed as requested, a request to the API server fails, or its plan does not complete in time.
pub(crate) async fn run(args: &InstallArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    Box::pin(install(&cluster, args)).await
}

/// Installs a package in a cluster.
async fn install(cluster: &Cluster, args: &InstallArgs) -> anyhow::Result<Verdict> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let wanted = match wanted(cluster, args).await {
        Ok(wanted) => wanted,
        Err(error) => return Err(obstacle(cluster, args, error).await),
    };
    wanted.notes.iter().for_each(|note| printer::warning(note));
    let name = wanted.subscription.name_any();
    write(client, namespace, args.create_namespace, &wanted, &mut |text| {
        printer::progress(text);
    })
    .await?;
    if args.no_wait {
        printer::progress(&format!(
            "OLM continues in the background; see `{}`",
            cluster.suggest("status {} --watch", &[&name])
        ));
        return Ok(Verdict::Fine);
    }
    let mut ask = |shown: &Shown| answer(cluster, args, &wanted.subscription, shown);
    let (limit, mut screen) = (args.wait.or(UPSTREAM_TIMEOUT), Screen::stderr());
    let Some(mut done) = Box::pin(rollout::first_plan(
        cluster,
        &wanted.subscription,
        &limit,
        &mut screen,
        &mut ask,
    ))
    .await?
    else {
        printer::progress(&format!(
            "{} is not installed; approve its InstallPlan with `{}`",
            args.package,
            cluster.suggest("approve {}", &[&name])
        ));
        return Ok(Verdict::Unresolved);
    };
    if args.until_ready {
        let spec = &wanted.subscription.spec;
        // With automatic approval, the requested version is only the first one.
        let version = spec.starting_csv().filter(|_| spec.is_manual());
        let verdict = status::follow(cluster, &name, version, &args.wait, &mut screen).await?;
        if verdict != Verdict::Fine {
            return Ok(verdict);
        }
        done.waits = None;
    }
    printer::data(&done.text(&args.package, "installed"))?;
    if let Some(warning) = done.warning(cluster, &name) {
        printer::warning(&warning);
    }
    if let Some(note) = done.note(cluster, &name) {
        printer::progress(&note);
    }
    Ok(Verdict::Fine)
}

/// Shows the first plan of a Subscription, and returns the user's answer. Without a terminal it is yes, as in upstream's plugin.
///
/// # Errors
/// The plan does not install the requested version, or what it installs will fail and nobody can be asked.
fn answer(
    cluster: &Cluster,
    args: &InstallArgs,
    subscription: &Subscription,
    shown: &Shown,
) -> anyhow::Result<bool> {
    let name = subscription.name_any();
    let starting = subscription.spec.starting_csv();
    if let Some(csv) = starting.filter(|csv| !shown.operators.iter().any(|name| name == csv)) {
        bail!(
            "InstallPlan {} does not install {csv}, so it was not approved; review it with `{}`",
            shown.plan,
            cluster.suggest("approve {}", &[&name])
        );
    }
    let is_asked = has_terminal() && !args.yes;
    if let Some(text) = shown.misfit.as_ref().filter(|_| !is_asked) {
        bail!(
            "InstallPlan {} was not approved and waits: {text}; then approve it with `{}`",
            shown.plan,
            cluster.suggest("approve {}", &[&name])
        );
    }
    if is_asked {
        printer::data(&shown.to_string())?;
    } else {
        // An older version takes fields from all who use its definitions.
        let losses = shown.preview.iter().flat_map(losses);
        losses.for_each(|line| printer::progress(&line));
        shown.newer.iter().for_each(|text| printer::warning(text));
        if let Some(text) = shared(shown, &name) {
            printer::warning(&text);
        } else if shown.operators.len() > 1 {
            printer::progress(&format!("its plan installs {}", shown.operators.join(", ")));
        }
    }
    unless_refused(&format!("Install {}?", args.package), args.yes)
}

/// Returns a warning if a plan is for other Subscriptions than `own`, too. Upstream's OLM makes one plan for a namespace.
fn shared(shown: &Shown, own: &str) -> Option<String> {
    let others = shown.subscriptions.iter().map(String::as_str);
    let others: Vec<&str> = others.filter(|name| *name != own).collect();
    let text = || {
        format!(
            "its plan is also for other Subscriptions ({}), and installs {}",
            others.join(", "),
            shown.operators.join(", ")
        )
    };
    (!others.is_empty()).then(text)
}

/// Returns why nothing can be installed: the namespace does not exist, or else this error.
async fn obstacle(cluster: &Cluster, args: &InstallArgs, error: anyhow::Error) -> anyhow::Error {
    if args.create_namespace {
        return error;
    }
    match require_namespace(&cluster.client, &cluster.namespace).await {
        Ok(()) => error,
        Err(missing) => anyhow!("{missing}; create it with --create-namespace"),
    }
}

/// Returns the objects to write.
async fn wanted(cluster: &Cluster, args: &InstallArgs) -> anyhow::Result<Wanted> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let is_wanted =
        |package: &Package, catalog: &str| package.name == args.package && is_catalog(package, catalog);
    let packages = match (listed::packages(cluster, args).await?, args.catalog.as_deref()) {
        (Ok(packages), None) => packages,
        (Ok(packages), Some(catalog)) if packages.iter().any(|package| is_wanted(package, catalog)) => {
            packages
        }
        // The package-server may not have read a new catalog yet.
        _ => of_catalogs(cluster, args).await?,
    };
    let provided = packages.iter().flat_map(|package| &package.channels);
    let provided: BTreeSet<String> = provided.flat_map(|channel| channel.provides.clone()).collect();
    let catalog = args.catalog.as_deref();
    let packages = named(packages, &args.package, catalog, namespace, &cluster.commands)?;
    let preferred = match packages.as_slice() {
        [_] => None,
        _ => preferred(client, namespace, &args.package).await,
    };
    let (groups, unreadable_groups) = list_readable::<OperatorGroup>(client, Some(namespace), "").await?;
    let known = groups.iter().map(Group::from);
    // A group that cannot be read still counts, with unknown targets.
    let unread = unreadable_groups.iter().map(|found| Group {
        name: found.name.clone(),
        targets: None,
        account: None,
    });
    let groups: Vec<Group> = known.chain(unread).collect();
    let (all_groups, group_note) = match list_readable::<OperatorGroup>(client, None, "").await {
        Ok((groups, _)) => (groups, None),
        // A tenant may not read those of others.
        Err(error) if is_forbidden(&error) => (Vec::new(), None),
        Err(error) => {
            let note = format!("{error:#}; another OperatorGroup may provide the same APIs");
            (Vec::new(), Some(note))
        }
    };
    let (subscriptions, unreadable) = list_readable::<Subscription>(client, Some(namespace), "").await?;
    let mut gathered = match gather::versions(client, Some(namespace)).await {
        Ok(found) => found,
        // An account that only creates Subscriptions need not be allowed to list what runs.
        Err(error) if is_forbidden(&error) => Gathered::default(),
        Err(error) => return Err(error),
    };
    gathered.subscriptions = subscriptions;
    let unsubscribed = unsubscribed(&args.package, &gathered);
    let known = gathered.subscriptions.into_iter().map(|found| Subscribed {
        name: found.name_any(),
        package: found.spec.name,
    });
    // The package name of an unreadable Subscription may still be readable.
    let unread = unreadable.iter().map(|found| Subscribed {
        name: found.name.clone(),
        package: found.object["spec"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    });
    let subscribed: Vec<Subscribed> = known.chain(unread).collect();
    let there = There {
        namespace,
        packages: &packages,
        preferred: preferred.as_deref(),
        groups: &groups,
        all_groups: &all_groups,
        subscriptions: &subscribed,
        unsubscribed: &unsubscribed,
        provided: &provided,
    };
    let mut wanted = decide(args, there)?;
    let notes = unreadable
        .iter()
        .map(|found| format!("{}; it may have this package", found.text));
    wanted.notes.extend(notes);
    wanted.notes.extend(group_note);
    let doubts = targets_in_doubt(client, namespace, wanted.group.as_ref()).await;
    wanted.notes.extend(doubts);
    Ok(wanted)
}

/// Returns the ClusterServiceVersions of a package that no Subscription has, that no other replaces, and that are not being deleted.
fn unsubscribed(package: &str, gathered: &Gathered) -> Vec<Unsubscribed> {
    let is_own = |csv: &&ClusterServiceVersion| {
        csv.metadata.deletion_timestamp.is_none() && package_of(csv).as_deref() == Some(package)
    };
    let operators = gathered.operators();
    let alone = operators.iter().filter(|found| found.subscription.is_none());
    let own = alone.filter_map(|found| {
        let csv = found.installed.filter(is_own)?;
        Some(Unsubscribed {
            name: csv.name_any(),
            version: csv.spec.version.clone().unwrap_or_default(),
            has_failed: *csv.phase() == Phase::Failed,
            former: found.former().map(|former| former.name_any()),
        })
    });
    own.collect()
}

/// Returns notes on target namespaces that may not exist. OLM accepts them, and an operator that watches nothing is ready.
async fn targets_in_doubt(client: &Client, namespace: &str, group: Option<&OperatorGroup>) -> Vec<String> {
    let targets = group
        .into_iter()
        .flat_map(|group| group.spec.target_namespaces.iter());
    let mut doubts = Vec::new();
    for target in targets.filter(|target| *target != namespace) {
        match has_namespace(client, target).await {
            Ok(true) => {}
            Ok(false) => doubts.push(format!(
                "namespace {target} does not exist; the operator has nothing to watch until it is created"
            )),
            Err(cause) => doubts.push(format!(
                "cannot check whether namespace {target} exists: {cause:#}"
            )),
        }
    }
    doubts
}

/// Reads packages from the catalogs themselves, for clusters without package-server.
async fn of_catalogs(cluster: &Cluster, args: &InstallArgs) -> anyhow::Result<Vec<Package>> {
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let given = args.global_catalog_namespace.as_deref();
    let global = global::find(client, given, Some(namespace)).await.catalogs;
    let global = global.as_str();
    let mut keys = BTreeSet::new();
    for namespace in BTreeSet::from([namespace, global]) {
        let sources = list_names::<CatalogSource>(client, namespace).await?;
        keys.extend(sources.into_iter().map(|name| CatalogKey {
            name,
            namespace: namespace.to_owned(),
        }));
    }
    if let Some(catalog) = &args.catalog {
        keys.retain(|key| key.name == *catalog || key.to_string() == *catalog);
    }
    if keys.is_empty() {
        bail!(
            "no catalog{} in namespaces {namespace} and {global} (see {}); list all with `{}`",
            args.catalog
                .as_ref()
                .map(|name| format!(" {name}"))
                .unwrap_or_default(),
            global::FLAG,
            cluster.commands.suggest("catalog list", &[], None)
        );
    }
    printer::progress(&format!(
        "reading {} because package-server does not list the package",
        count(keys.len(), "catalog")
    ));
    let mut packages = Vec::new();
    for (key, content) in catalogs::read(client, &keys).await.contents {
        match content {
            Ok(snapshot) => packages.extend(of_snapshot(&key, &snapshot)),
            // An unreadable catalog may have a package of this name, too, so the choice would be a guess.
            Err(cause) if keys.len() > 1 => bail!(
                "cannot read catalog {key}, which may also have package {}: {cause}; choose another catalog with --catalog NAMESPACE/NAME",
                args.package
            ),
            Err(cause) => bail!("cannot read catalog {key}: {cause}"),
        }
    }
    Ok(packages)
}

/// Returns the packages of a catalog, without the fields that only ClusterServiceVersions have.
fn of_snapshot(catalog: &CatalogKey, snapshot: &Snapshot) -> Vec<Package> {
    let mut packages: BTreeMap<&str, Package> = BTreeMap::new();
    for entry in snapshot.entries() {
        let package = packages.entry(&entry.package).or_insert_with(|| Package {
            name: entry.package.to_string(),
            catalog: catalog.name.clone(),
            catalog_namespace: catalog.namespace.clone(),
            ..Package::default()
        });
        let deprecation = entry.deprecation.as_deref();
        let said = |message: Option<&Arc<str>>| message.map(ToString::to_string);
        package.deprecated = package
            .deprecated
            .take()
            .or_else(|| deprecation.and_then(|found| said(found.package.as_ref())));
        if entry.default_channel {
            package.default_channel = entry.channel.to_string();
        }
        let version = Version {
            version: entry
                .version
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            name: entry.name.to_string(),
            deprecated: deprecation.and_then(|found| said(found.bundle.as_ref())),
        };
        match package
            .channels
            .iter_mut()
            .find(|channel| *channel.name == *entry.channel)
        {
            Some(channel) => channel.versions.push(version),
            // The head is the first entry.
            None => package.channels.push(Channel {
                name: entry.channel.to_string(),
                head: version.name.clone(),
                head_version: version.version.clone(),
                deprecated: deprecation.and_then(|found| said(found.channel.as_ref())),
                versions: vec![version],
                ..Channel::default()
            }),
        }
    }
    packages.into_values().collect()
}

/// Writes namespace, group and Subscription, in this order, and reports each.
async fn write(
    client: &Client,
    namespace: &str,
    with_namespace: bool,
    wanted: &Wanted,
    tell: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    if with_namespace {
        let object = Namespace {
            metadata: ObjectMeta {
                name: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        match writer::create(&Api::all(client.clone()), &object).await? {
            Some(_) => tell(&format!("Namespace {namespace} created")),
            None => tell(&format!("Namespace {namespace} already exists")),
        }
    }
    if let Some(group) = &wanted.group {
        let name = group.name_any();
        if writer::create(&api(client, Some(namespace)), group)
            .await?
            .is_none()
        {
            bail!(
                "OperatorGroup {name} in namespace {namespace} was created meanwhile, so nothing was installed; try again"
            );
        }
        let of = match group.spec.target_namespaces.is_empty() {
            true => ", for all namespaces",
            false => "",
        };
        tell(&format!("OperatorGroup {namespace}/{name} created{of}"));
    }
    let name = wanted.subscription.name_any();
    let created = writer::create(&api(client, Some(namespace)), &wanted.subscription).await?;
    if created.is_none() {
        let there = get::<Subscription>(client, namespace, &name).await?;
        // The response to our own request may have been lost.
        if there.is_none_or(|there| there.spec != wanted.subscription.spec) {
            bail!(
                "Subscription {} in namespace {namespace} was created meanwhile for another package",
                name
            );
        }
    }
    let spec = &wanted.subscription.spec;
    tell(&format!(
        "Subscription {namespace}/{} created: package {}, channel {} of catalog {}/{}",
        name,
        spec.name,
        spec.channel().unwrap_or_default(),
        spec.source_namespace,
        spec.source
    ));
    Ok(())
}
