//! What is written to have a package installed. Pure.

use anyhow::bail;
use olm_api::v1::{OperatorGroup, OperatorGroupSpec};
use olm_api::v1alpha1::{Approval, InstallModeType as Mode, Subscription, SubscriptionSpec};

use crate::args::change::{InstallArgs, WhoApproves};
use crate::command_line::CommandLine;
use crate::packages::{Channel, Package};

/// Versions that are named where one is not found.
const MAX_NAMED: usize = 10;
/// What an OperatorGroup is called that is made.
const GROUP_NAME: &str = "operators";

/// What is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    /// None where there is one.
    pub group: Option<OperatorGroup>,
    pub subscription: Subscription,
    /// What who installs should know.
    pub notes: Vec<String>,
}

/// A Subscription that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subscribed {
    pub name: String,
    /// Empty where it cannot be read.
    pub package: String,
}

/// Decides it from the packages of that name, and the OperatorGroups and Subscriptions that are in the namespace.
///
/// # Errors
/// For people: it cannot become what is asked for, why, and what to do.
pub(super) fn decide(
    args: &InstallArgs,
    namespace: &str,
    packages: &[Package],
    groups: &[String],
    subscriptions: &[Subscribed],
) -> anyhow::Result<Wanted> {
    let package = match packages {
        [package] => package,
        _ => {
            let catalogs: Vec<String> = packages.iter().map(|package| package.catalog_key()).collect();
            bail!(
                "several catalogs have package {}: choose with --catalog, of {}",
                args.package,
                catalogs.join(", ")
            );
        }
    };
    let name = args.name.as_ref().unwrap_or(&args.package);
    not_subscribed(name, args, namespace, subscriptions)?;
    let channel = channel(package, args.channel.as_deref())?;
    let version = args.version.as_deref();
    let starting_csv = version
        .map(|version| starting_csv(channel, version))
        .transpose()?;
    let approval = args.approval.unwrap_or(match version {
        Some(_) => WhoApproves::Manual,
        None => WhoApproves::Automatic,
    });
    let mut notes = Vec::new();
    for (what, deprecated) in [("package", &package.deprecated), ("channel", &channel.deprecated)] {
        notes.extend(
            deprecated
                .as_ref()
                .map(|text| format!("the {what} is deprecated: {text}")),
        );
    }
    let first = starting_csv.as_ref().unwrap_or(&channel.head);
    let entry = channel.versions.iter().find(|version| version.name == *first);
    let deprecated = entry.and_then(|entry| entry.deprecated.as_ref());
    notes.extend(deprecated.map(|text| format!("the version is deprecated: {text}")));
    if starting_csv.as_ref().is_some_and(|csv| *csv != channel.head) && approval == WhoApproves::Automatic {
        notes.push(format!("it goes on to {}, the head of its channel", channel.head));
    }
    let group = group(args, namespace, channel, groups, &mut notes)?;
    let spec = SubscriptionSpec {
        source: package.catalog.clone(),
        source_namespace: package.catalog_namespace.clone(),
        name: package.name.clone(),
        channel: Some(channel.name.clone()),
        starting_csv,
        install_plan_approval: Some(Approval::from(approval)),
        ..SubscriptionSpec::default()
    };
    let mut subscription = Subscription::new(name, spec);
    subscription.metadata.namespace = Some(namespace.to_owned());
    Ok(Wanted {
        group,
        subscription,
        notes,
    })
}

/// OLM installs a package once in a namespace.
fn not_subscribed(
    name: &str,
    args: &InstallArgs,
    namespace: &str,
    subscriptions: &[Subscribed],
) -> anyhow::Result<()> {
    let package = &args.package;
    let there = subscriptions
        .iter()
        .find(|subscription| subscription.name == name || subscription.package == *package);
    let Some(Subscribed {
        name: there,
        package: of,
    }) = there
    else {
        return Ok(());
    };
    let of = match of.as_str() {
        "" => String::new(),
        of => format!(" of package {of}"),
    };
    let commands = CommandLine::of(&args.connection);
    let told = |form: &str| commands.told(form, &[there], Some(namespace));
    bail!(
        "namespace {namespace} has Subscription {there}{of} already: `{}` shows how it is doing, `{}` upgrades it",
        told("status {}"),
        told("upgrade {}")
    )
}

fn channel<'a>(package: &'a Package, wanted: Option<&str>) -> anyhow::Result<&'a Channel> {
    let name = wanted.unwrap_or(&package.default_channel);
    let found = package.channels.iter().find(|channel| channel.name == name);
    let Some(channel) = found else {
        let names: Vec<&str> = package
            .channels
            .iter()
            .map(|channel| channel.name.as_str())
            .collect();
        let (catalog, package) = (package.catalog_key(), &package.name);
        bail!(
            "package {package} of catalog {catalog} has no channel {}: choose with --channel, of {}",
            name,
            names.join(", ")
        );
    };
    Ok(channel)
}

/// The ClusterServiceVersion of a version, which may be named itself.
fn starting_csv(channel: &Channel, wanted: &str) -> anyhow::Result<String> {
    let number = wanted.strip_prefix('v').unwrap_or(wanted);
    let is_wanted = |version: &&crate::packages::Version| version.name == wanted || version.version == number;
    if let Some(version) = channel.versions.iter().find(is_wanted) {
        return Ok(version.name.clone());
    }
    let all = channel.versions.iter().map(|version| version.version.clone());
    let mut names: Vec<String> = all.take(MAX_NAMED).collect();
    let more = channel.versions.len().saturating_sub(MAX_NAMED);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    bail!(
        "channel {} has no version {}: it has {}",
        channel.name,
        wanted,
        names.join(", ")
    )
}

/// The OperatorGroup to make, if there is none and it is asked for.
fn group(
    args: &InstallArgs,
    namespace: &str,
    channel: &Channel,
    groups: &[String],
    notes: &mut Vec<String>,
) -> anyhow::Result<Option<OperatorGroup>> {
    match (groups, args.create_operator_group) {
        ([], None) => bail!(
            "namespace {namespace} has no OperatorGroup, so nothing can be installed there: --create-operator-group makes one"
        ),
        ([_], None) => return Ok(None),
        ([name], Some(_)) => {
            notes.push(format!(
                "OperatorGroup {name} is there already and stays as it is"
            ));
            return Ok(None);
        }
        ([], Some(_)) => {}
        (several, _) => bail!(
            "namespace {namespace} has several OperatorGroups ({}), so nothing can be installed there: delete all but one",
            several.join(", ")
        ),
    }
    let supported = &channel.install_modes;
    let supports = |mode: &Mode| supported.iter().any(|name| name == mode.as_str());
    let asked = args.create_operator_group.and_then(|mode| mode.mode());
    let mode = match asked {
        Some(mode) => mode,
        // What nobody knows may be what most operators support.
        None if supported.is_empty() || supports(&Mode::OwnNamespace) => Mode::OwnNamespace,
        // A catalog alone does not have somebody give away the whole cluster.
        None if supports(&Mode::AllNamespaces) => bail!(
            "{} does not support OwnNamespace, but all namespaces: its OperatorGroup is then for the whole cluster, which \
             --create-operator-group=AllNamespaces says",
            channel.head
        ),
        None => bail!(
            "{} supports {} only: say which with --create-operator-group=MODE and --target-namespace",
            channel.head,
            supported.join(", ")
        ),
    };
    if !supported.is_empty() && !supports(&mode) {
        bail!(
            "{} does not support {mode}: choose with --create-operator-group=MODE, of {}",
            channel.head,
            supported.join(", ")
        );
    }
    let targets = targets(&mode, namespace, &args.target_namespace)?;
    if targets.is_empty() {
        notes.push(format!(
            "OperatorGroup {namespace}/{GROUP_NAME} is made for all namespaces: whatever is installed in {namespace} works in the whole cluster"
        ));
    }
    if targets.len() > 1 {
        notes.push(format!(
            "OperatorGroup {namespace}/{GROUP_NAME} is made for several namespaces, which a later version of OLM may no longer have: \
             install it in each of them, or for all namespaces, where that does as well"
        ));
    }
    if args.version.is_some() && !supported.is_empty() {
        notes.push(format!(
            "which namespaces it can work for is known of {} alone, the head of its channel",
            channel.head
        ));
    }
    let spec = OperatorGroupSpec {
        target_namespaces: targets.into(),
        ..OperatorGroupSpec::default()
    };
    let mut group = OperatorGroup::new(GROUP_NAME, spec);
    group.metadata.namespace = Some(namespace.to_owned());
    Ok(Some(group))
}

/// Target namespaces of an OperatorGroup; none are all.
fn targets(mode: &Mode, namespace: &str, named: &[String]) -> anyhow::Result<Vec<String>> {
    let (count, way_out) = match mode {
        Mode::SingleNamespace => (1..=1, "name one other with --target-namespace"),
        Mode::MultiNamespace => (2..=usize::MAX, "name several with --target-namespace"),
        _ => (0..=0, "leave out --target-namespace"),
    };
    if !count.contains(&named.len())
        || (*mode == Mode::SingleNamespace && named.iter().any(|name| name == namespace))
    {
        bail!("an OperatorGroup of mode {mode} does not have these target namespaces: {way_out}");
    }
    Ok(match mode {
        Mode::OwnNamespace => vec![namespace.to_owned()],
        _ => named.to_vec(),
    })
}
