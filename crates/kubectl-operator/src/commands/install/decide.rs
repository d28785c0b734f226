//! Decides which objects to write to install a package. Pure.

use std::collections::BTreeSet;

use anyhow::bail;
use olm_api::condition::csv::INTER_OPERATOR_GROUP_OWNER_CONFLICT;
use olm_api::v1::{OperatorGroup, OperatorGroupSpec};
use olm_api::v1alpha1::{Approval, InstallModeType as Mode, Subscription, SubscriptionSpec};

use crate::args::change::{InstallArgs, WhoApproves};
use crate::catalogs::MAX_NAMED;
use crate::command_line::CommandLine;
use crate::groups::{ALL, Group, provided_elsewhere};
use crate::operators::PART_GROUPS;
use crate::packages::{Channel, Package};
use crate::terminal::listed;

/// Maximum length of a label's value. OLM labels the objects of a ClusterServiceVersion with its name.
const MAX_LABEL: usize = 63;

/// The objects to write.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    /// OperatorGroup to create; `None` if the namespace has one.
    pub group: Option<OperatorGroup>,
    pub subscription: Subscription,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// An existing Subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subscribed {
    pub name: String,
    /// Package of the Subscription; empty if it cannot be read.
    pub package: String,
}

/// A ClusterServiceVersion without a Subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsubscribed {
    pub name: String,
    pub version: String,
    /// True if it failed.
    pub has_failed: bool,
    /// The ClusterServiceVersion that it replaces, while that exists.
    pub former: Option<String>,
}

impl Unsubscribed {
    /// Returns the version with its state.
    fn text(&self) -> String {
        match (&self.former, self.has_failed) {
            (Some(former), true) => format!("{}, which failed to replace {former},", self.name),
            (None, true) => format!("{}, which failed,", self.name),
            (_, false) => self.name.clone(),
        }
    }
}

/// Existing objects of the namespace, and the offered packages.
#[derive(Debug, Clone, Copy)]
pub(super) struct There<'a> {
    pub namespace: &'a str,
    /// Packages of the requested name.
    pub packages: &'a [Package],
    /// NAMESPACE/NAME of the catalog that package-server prefers if several have the package.
    pub preferred: Option<&'a str>,
    pub groups: &'a [Group],
    /// OperatorGroups of all namespaces, as far as they may be read.
    pub all_groups: &'a [OperatorGroup],
    pub subscriptions: &'a [Subscribed],
    /// ClusterServiceVersions of the package that have no Subscription.
    pub unsubscribed: &'a [Unsubscribed],
    /// CustomResourceDefinitions that the channel heads of all packages provide, as `Kind (name)`.
    pub provided: &'a BTreeSet<String>,
}

/// Decides which objects to write.
///
/// # Errors
/// The installation is impossible; the text says why, and what to do.
pub(super) fn decide(args: &InstallArgs, there: There<'_>) -> anyhow::Result<Wanted> {
    let namespace = there.namespace;
    let mut notes = Vec::new();
    let package = package(args, there, &mut notes)?;
    let name = args.name.as_ref().unwrap_or(&args.package);
    not_subscribed(name, args, namespace, there.subscriptions)?;
    let channel = channel(package, args.channel.as_deref())?;
    let version = args.version.as_deref().filter(|version| !version.is_empty());
    let adopted = adopted(args, namespace, version, there.unsubscribed)?;
    let starting_csv = match (adopted, version) {
        (Some(found), _) => {
            notes.push(format!(
                "{} has no Subscription; this Subscription adopts it",
                found.text()
            ));
            Some(found.name.clone())
        }
        (None, version) => version
            .map(|version| starting_csv(package, channel, version))
            .transpose()?,
    };
    let first = starting_csv.as_ref().unwrap_or(&channel.head);
    if first.len() > MAX_LABEL {
        bail!(
            "cannot install {first}: the name of a ClusterServiceVersion becomes a label value, which is limited to {MAX_LABEL} characters, but has {}; ask its author for a shorter name",
            first.len()
        );
    }
    for (what, deprecated) in [("package", &package.deprecated), ("channel", &channel.deprecated)] {
        notes.extend(
            deprecated
                .as_ref()
                .map(|text| format!("the {what} is deprecated: {text}")),
        );
    }
    let entry = channel.versions.iter().find(|version| version.name == *first);
    let deprecated = entry.and_then(|entry| entry.deprecated.as_ref());
    notes.extend(deprecated.map(|text| format!("the version is deprecated: {text}")));
    let suggested = channel.suggested_namespace.as_str();
    if !suggested.is_empty() && suggested != namespace {
        notes.push(format!("{} suggests namespace {suggested}", channel.head));
    }
    let required = channel.requires.iter();
    let (found, missing): (Vec<&str>, Vec<&str>) = required
        .map(String::as_str)
        .partition(|required| there.provided.contains(*required));
    if !found.is_empty() {
        notes.push(format!(
            "it needs {}; OLM installs operators that provide the missing ones",
            found.join(", ")
        ));
    }
    if !missing.is_empty() {
        notes.push(format!(
            "it needs {}, which no channel head of the catalogs provides; OLM cannot install it unless an operator of \
             namespace {namespace} does",
            missing.join(", ")
        ));
    }
    if *first != channel.head && args.approval == WhoApproves::Automatic {
        notes.push(format!("it then upgrades to {}, the channel head", channel.head));
    }
    let is_head = *first == channel.head;
    let group = group(args, there, channel, is_head, &mut notes)?;
    if is_head {
        not_provided_elsewhere(channel, there, group.as_ref())?;
    }
    let spec = SubscriptionSpec {
        source: package.catalog.clone(),
        source_namespace: package.catalog_namespace.clone(),
        name: package.name.clone(),
        // Without a channel the resolver considers all channels of the package.
        channel: Some(channel.name.clone()),
        starting_csv,
        install_plan_approval: Some(Approval::from(args.approval)),
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

/// Returns the package. If several catalogs have it, package-server's preferred one is used, as in upstream's plugin.
fn package<'a>(args: &InstallArgs, there: There<'a>, notes: &mut Vec<String>) -> anyhow::Result<&'a Package> {
    if let [package] = there.packages {
        return Ok(package);
    }
    let catalogs: Vec<String> = there
        .packages
        .iter()
        .map(|package| package.catalog_key())
        .collect();
    let catalogs = catalogs.join(", ");
    let is_preferred = |package: &&Package| Some(package.catalog_key().as_str()) == there.preferred;
    let Some(package) = there.packages.iter().find(is_preferred) else {
        bail!(
            "several catalogs have package {}; choose one with --catalog: {catalogs}",
            args.package
        );
    };
    notes.push(format!(
        "several catalogs have package {}: {catalogs}; using {}, choose another with --catalog",
        args.package,
        package.catalog_key()
    ));
    Ok(package)
}

/// OLM installs a package once per namespace. A second Subscription would block the resolution of the others.
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
    let suggest = |form: &str| commands.suggest(form, &[there], Some(namespace));
    bail!(
        "Subscription {there}{of} already exists in namespace {namespace}; see `{}`, or upgrade it with `{}`",
        suggest("status {}"),
        suggest("upgrade {}")
    )
}

/// Returns the ClusterServiceVersion without a Subscription, if the requested version is exactly that. OLM adopts it.
///
/// # Errors
/// There is another one, so that OLM would find two providers of the same APIs.
fn adopted<'a>(
    args: &InstallArgs,
    namespace: &str,
    version: Option<&str>,
    unsubscribed: &'a [Unsubscribed],
) -> anyhow::Result<Option<&'a Unsubscribed>> {
    let Some(first) = unsubscribed.first() else {
        return Ok(None);
    };
    let number = version.map(|version| version.strip_prefix('v').unwrap_or(version));
    let is_wanted = |found: &&Unsubscribed| {
        version == Some(found.name.as_str()) || number == Some(found.version.as_str())
    };
    if let Some(found) = unsubscribed.iter().find(is_wanted) {
        return Ok(Some(found));
    }
    let commands = CommandLine::of(&args.connection);
    let suggest = |form: &str, names: &[&str]| commands.suggest(form, names, Some(namespace));
    let name = args.name.as_ref().unwrap_or(&args.package);
    let rollback = match first.has_failed && first.former.is_some() {
        true => format!(" and go back with `{}`", suggest("rollback {}", &[name])),
        false => String::new(),
    };
    bail!(
        "cannot install {}: {} is in namespace {namespace} without a Subscription; subscribe to it with `{}`{rollback}, or remove it \
         first with `{}`",
        args.package,
        first.text(),
        suggest("install {} --version {}", &[&args.package, &first.name]),
        suggest("uninstall {}", &[&first.name])
    )
}

fn channel<'a>(package: &'a Package, wanted: Option<&str>) -> anyhow::Result<&'a Channel> {
    let wanted = wanted.filter(|wanted| !wanted.is_empty());
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
            "package {package} of catalog {catalog} has no channel {}; choose one with --channel: {}",
            name,
            names.join(", ")
        );
    };
    Ok(channel)
}

/// Returns the ClusterServiceVersion of a version in the channel, given by number or by name.
fn starting_csv(package: &Package, channel: &Channel, wanted: &str) -> anyhow::Result<String> {
    let number = wanted.strip_prefix('v').unwrap_or(wanted);
    let find = |channel: &Channel| {
        let mut versions = channel.versions.iter();
        let found = versions.find(|version| version.name == wanted || version.version == number);
        found.map(|version| version.name.clone())
    };
    if let Some(name) = find(channel) {
        return Ok(name);
    }
    let others = package.channels.iter().filter(|other| find(other).is_some());
    let others: Vec<&str> = others.map(|other| other.name.as_str()).collect();
    if !others.is_empty() {
        bail!(
            "channel {} has no version {wanted}; choose a channel that has it with --channel: {}",
            channel.name,
            others.join(", ")
        );
    }
    let all = channel.versions.iter().map(|version| version.version.clone());
    let names: Vec<String> = all.collect();
    bail!(
        "channel {} has no version {wanted}; it has {}",
        channel.name,
        listed(&names, MAX_NAMED)
    )
}

/// Returns the OperatorGroup to create, if there is none and the flags request it. A package that does not support the group or
/// the flags is rejected, as in upstream's plugin. If the install modes are those of another version, there is only a note.
fn group(
    args: &InstallArgs,
    there: There<'_>,
    channel: &Channel,
    is_head: bool,
    notes: &mut Vec<String>,
) -> anyhow::Result<Option<OperatorGroup>> {
    let namespace = there.namespace;
    let watched = args.watched();
    let supported: BTreeSet<&str> = channel.install_modes.iter().map(String::as_str).collect();
    let desired = modes_of(&watched, namespace);
    let is_known = !supported.is_empty();
    let mut refuse = |text: String| -> anyhow::Result<()> {
        if is_head {
            bail!("{text}");
        }
        notes.push(format!(
            "{text} (install modes are only known for {}, the channel head)",
            channel.head
        ));
        Ok(())
    };
    let fits = |mode: &&Mode| !is_known || supported.contains(mode.as_str());
    let mut possible = desired.iter().filter(fits);
    let mode = possible.next();
    // The package may still support the existing group.
    if mode.is_none() && (there.groups.is_empty() || !watched.is_empty()) {
        let asked = match watched.is_empty() {
            true => "without --watch it needs",
            false => "--watch requires",
        };
        refuse(format!(
            "{} supports install modes {}, but {asked} {}",
            channel.head,
            channel.install_modes.join(", "),
            words(&desired)
        ))?;
    }
    match there.groups {
        [] => {}
        [group] => {
            if let Some(text) = misfit(args, there, channel, group, &desired) {
                refuse(text)?;
            }
            if args.create_operator_group {
                notes.push(format!(
                    "OperatorGroup {} already exists and is not changed",
                    group.name
                ));
            }
            return Ok(None);
        }
        several => {
            let names: Vec<&str> = several.iter().map(|group| group.name.as_str()).collect();
            bail!(
                "cannot install in namespace {namespace}: it has more than one OperatorGroup ({}); delete all but one",
                names.join(", ")
            )
        }
    }
    if !args.create_operator_group {
        bail!(
            "cannot install in namespace {namespace}: it has no OperatorGroup; create one with --create-operator-group"
        );
    }
    let targets = match mode.or(desired.first()) {
        // If the install modes are unknown, the own namespace is the most widely supported target.
        Some(Mode::AllNamespaces) if is_known || desired.len() == 1 => Vec::new(),
        Some(Mode::AllNamespaces | Mode::OwnNamespace) => vec![namespace.to_owned()],
        _ => watched,
    };
    if targets.is_empty() {
        let own = match supported.contains(Mode::OwnNamespace.as_str()) {
            true => format!("; use --watch {namespace} to watch only that namespace"),
            false => String::new(),
        };
        notes.push(format!(
            "OperatorGroup {namespace}/{namespace} selects all namespaces: all operators in {namespace} watch the whole cluster{own}"
        ));
    }
    if targets.len() > 1 {
        notes.push(format!(
            "OperatorGroup {namespace}/{namespace} selects several namespaces, which a later version of OLM may not support; if possible, install it in each of them, or for all namespaces"
        ));
    }
    if !is_head && is_known {
        notes.push(format!(
            "install modes were checked for {}, the channel head; the requested version may differ",
            channel.head
        ));
    }
    let spec = OperatorGroupSpec {
        target_namespaces: targets.into(),
        ..OperatorGroupSpec::default()
    };
    // The group has the namespace's name, as in upstream's plugin.
    let mut group = OperatorGroup::new(namespace, spec);
    group.metadata.namespace = Some(namespace.to_owned());
    Ok(Some(group))
}

/// OLM fails an operator with an API that an OperatorGroup with a common namespace provides. `created` is the group to create.
fn not_provided_elsewhere(
    channel: &Channel,
    there: There<'_>,
    created: Option<&OperatorGroup>,
) -> anyhow::Result<()> {
    let created = created.map(Group::from);
    let group = created.as_ref().or(there.groups.first());
    let targets = group.and_then(|group| group.targets.as_deref());
    let elsewhere = provided_elsewhere(
        &channel.apis,
        there.namespace,
        targets.unwrap_or_default(),
        there.all_groups,
    );
    if elsewhere.is_empty() {
        return Ok(());
    }
    bail!(
        "cannot install {} in namespace {}: {}, which has a namespace in common with the OperatorGroup of this one, so OLM would report \
         {INTER_OPERATOR_GROUP_OWNER_CONFLICT}; uninstall the other operator, or {PART_GROUPS}",
        channel.head,
        there.namespace,
        listed(&elsewhere, MAX_NAMED)
    )
}

/// Returns the install modes that allow these namespaces, the preferred one first.
fn modes_of(watched: &[String], namespace: &str) -> Vec<Mode> {
    match watched {
        [] => vec![Mode::AllNamespaces, Mode::OwnNamespace],
        [one] if one == ALL => vec![Mode::AllNamespaces],
        [one] if one == namespace => vec![Mode::OwnNamespace],
        [_] => vec![Mode::SingleNamespace],
        _ => vec![Mode::MultiNamespace],
    }
}

fn words(modes: &[Mode]) -> String {
    let words: Vec<&str> = modes.iter().map(Mode::as_str).collect();
    words.join(" or ")
}

/// Returns why the operator or `--watch` does not match the OperatorGroup, and a remedy.
fn misfit(
    args: &InstallArgs,
    there: There<'_>,
    channel: &Channel,
    group: &Group,
    desired: &[Mode],
) -> Option<String> {
    let namespace = there.namespace;
    let of_group = modes_of(group.targets.as_ref()?, namespace);
    if !args.watched().is_empty() && of_group.iter().all(|mode| !desired.contains(mode)) {
        return Some(format!(
            "--watch requires install mode {}, but OperatorGroup {} of namespace {namespace} is {}",
            words(desired),
            group.name,
            group.scope()
        ));
    }
    let text = group.misfit(&channel.head, &channel.install_modes, namespace)?;
    let is_simple = |mode: &String| {
        [Mode::AllNamespaces, Mode::OwnNamespace]
            .iter()
            .any(|simple| simple.as_str() == mode)
    };
    let watch = match channel.install_modes.iter().any(is_simple) {
        true => "",
        false => " --watch WATCHED",
    };
    let commands = CommandLine::of(&args.connection);
    let elsewhere = commands.suggest(
        &format!("install {{}} --create-namespace --create-operator-group{watch}"),
        &[&args.package],
        Some("NAMESPACE"),
    );
    Some(format!(
        "{text}; install it in its own namespace (`{elsewhere}`), or change the OperatorGroup if no other operator uses it"
    ))
}
