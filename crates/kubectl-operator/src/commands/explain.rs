//! `kubectl operator explain`: prints why Subscriptions are not resolved or upgraded, and why operators are not ready.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use olm_resolver::installed::package_of;
use olm_resolver::objects::Objects;
use olm_resolver::plan::{Explained, Question, Standing, Unsatisfiable};
use olm_resolver::{CatalogKey, Problem, ResolveError};

use crate::args::{ClusterArgs, ExplainArgs};
use crate::catalogs::Contents;
use crate::cluster::Cluster;
use crate::command_line::CommandLine;
use crate::commands::plan;
use crate::operators::{Gathered, Operator, Position, State};
use crate::terminal::Mark;
use crate::{Verdict, catalogs, gather, global, printer};

/// Prints the explanation.
///
/// # Errors
/// The cluster cannot be read, or does not have the Subscription.
pub(crate) async fn run(args: &ExplainArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.cluster.connection).await?;
    let read = question(&cluster, &args.cluster).await?;
    let name = args.subscription.as_deref();
    let explained = explain(&read.question, name)?;
    catalogs::require_right(&read.question.problem, &explained.unsatisfiable)?;
    let explained = with_causes(explained, &read.causes, name);
    let verdict = Verdict::when(is_fine(&explained, &read.causes, name));
    match args.output.document() {
        None => {
            let text = for_people(explained, &read.causes, name).to_string();
            printer::data(&text)?;
            if let Some(note) = cluster.commands.note(&text) {
                printer::progress(&note);
            }
        }
        Some(format) => printer::document(&explained, format)?,
    }
    Ok(verdict)
}

/// An operator that is not ready, held or pinned, and why, in the words of `status`. Resolution does not know why a plan waits, a
/// bundle cannot be unpacked or a version does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cause {
    /// Subscription, or ClusterServiceVersion without one.
    name: String,
    /// Its versions.
    position: Position,
    state: State,
    message: String,
    /// True if the message is about the InstallPlan that waits for approval.
    names_plan: bool,
    way_out: Option<String>,
}

impl Cause {
    /// Returns the causes of all operators that are not ready, held or pinned. `olm` is OLM's namespace.
    pub(super) fn all(gathered: &Gathered, olm: &str) -> Vec<Self> {
        // The flags of the cluster are added to all commands by a note.
        let commands = CommandLine::default();
        let operators = gathered.operators();
        let causes = operators.iter().filter_map(|operator| {
            let verdict = operator.verdict();
            let mut way_out = operator.way_out(&verdict, &commands);
            if operator.subscription.is_none() && !operator.is_part_of_olm(olm) {
                let ways = subscribe_or_remove(operator, &commands);
                let alone = format!("it has no Subscription: {ways}");
                way_out = Some(way_out.into_iter().chain([alone]).collect::<Vec<_>>().join("; "));
            }
            (verdict.state != State::Ready).then(|| Self {
                name: operator.name(),
                position: operator.position(),
                state: verdict.state,
                names_plan: operator.pending_plan().is_some(),
                way_out,
                message: verdict.message,
            })
        });
        causes.collect()
    }

    /// Returns the versions of a Subscription, given by its name.
    pub(super) fn position(causes: &[Self], name: &str) -> Option<Position> {
        let found = causes.iter().find(|cause| cause.name == name)?;
        Some(found.position.clone())
    }

    /// Returns true if it is held or pinned, as the user wants it to be.
    fn is_settled(&self) -> bool {
        self.state.mark() == Mark::Fine
    }

    /// Returns the state and its cause.
    fn text(&self) -> String {
        format!("{}: {}", self.state.as_str(), self.message)
    }

    /// Returns the cause alone, for an operator of which resolution reports nothing else.
    fn standing(&self) -> Standing {
        Standing {
            subscription: self.name.clone(),
            installed: self.position.installed.clone(),
            state: self.text(),
            way_out: self.way_out.clone(),
            ..Standing::default()
        }
    }
}

/// Returns the commands that give an operator a Subscription, or remove it. OLM adopts only a version that names its package.
fn subscribe_or_remove(operator: &Operator<'_>, commands: &CommandLine) -> String {
    let (name, namespace) = (operator.name(), operator.namespace());
    let suggest = |form: &str, names: &[&str]| commands.suggest(form, names, Some(&namespace));
    let remove = format!("remove it with `{}`", suggest("uninstall {}", &[&name]));
    let Some(package) = operator.installed.and_then(package_of) else {
        return remove;
    };
    let subscribe = suggest("install {} --version {}", &[&package, &name]);
    let back = match operator.former() {
        Some(_) => format!(", then go back with `{}`", suggest("rollback {}", &[&package])),
        None => String::new(),
    };
    format!("subscribe to it with `{subscribe}`{back}; or {remove}")
}

/// Returns the causes of one operator by its name, or of all.
fn asked<'a>(causes: &'a [Cause], name: Option<&'a str>) -> impl Iterator<Item = &'a Cause> {
    causes
        .iter()
        .filter(move |cause| name.is_none_or(|name| name == cause.name))
}

/// Adds the causes to an explanation of one Subscription by its name, or of all.
pub(super) fn with_causes(mut explained: Explained, causes: &[Cause], name: Option<&str>) -> Explained {
    for cause in asked(causes, name) {
        let parts = explained.unsatisfiable.iter_mut();
        let failed = parts.flat_map(|part| &mut part.advice.failed_upgrades);
        let own = failed.filter(|failed| failed.subscription == cause.name && cause.state == State::Failed);
        own.for_each(|failed| failed.remedy = cause.way_out.clone().unwrap_or_default());
        let mut standings = explained.standings.iter_mut();
        if let Some(standing) = standings.find(|standing| standing.subscription == cause.name) {
            let is_complete = match cause.is_settled() {
                true => cause.names_plan,
                // The cause is about the next version, such as that its bundle cannot be unpacked.
                false => standing
                    .next
                    .as_ref()
                    .is_none_or(|next| cause.message.contains(next)),
            };
            standing.state = match is_complete {
                true => cause.text(),
                // What comes next, or what the channel has.
                false => format!("{}; {}", cause.text(), standing.state),
            };
            // `explain` itself is no way out.
            let way_out = cause.way_out.clone();
            standing.way_out = way_out.filter(|_| cause.state != State::Unresolved);
            continue;
        }
        let mut unsatisfiable = explained.unsatisfiable.iter();
        let is_told = unsatisfiable.any(|failure| failure.concerned().contains(&cause.name));
        if is_told && cause.state != State::Unresolved {
            explained.standings.push(cause.standing());
        }
    }
    explained
}

/// Adds the causes of operators without a Subscription, and leaves out reasons that causes and failed upgrades contain already.
pub(super) fn for_people(mut explained: Explained, causes: &[Cause], name: Option<&str>) -> Explained {
    for cause in asked(causes, name) {
        let mut standings = explained.standings.iter();
        let mut unsatisfiable = explained.unsatisfiable.iter();
        let is_known = standings.any(|standing| standing.subscription == cause.name)
            || unsatisfiable.any(|failure| failure.concerned().contains(&cause.name));
        if !is_known {
            explained.standings.push(cause.standing());
        }
    }
    let parts = explained.unsatisfiable.iter();
    let failed: Vec<_> = parts
        .flat_map(|part| part.advice.failed_upgrades.clone())
        .collect();
    explained.standings.retain(|standing| {
        let mut failed = failed.iter();
        !failed.any(|failed| failed.subscription == standing.subscription)
    });
    explained.not_succeeded.retain(|found| {
        let name = format!("ClusterServiceVersion {}: ", found.csv);
        let mut standings = explained.standings.iter();
        let of_standing = standings.any(|standing| standing.state.contains(&name));
        !of_standing && !failed.iter().any(|failed| failed.csv == found.csv)
    });
    explained
}

/// Returns true if everything resolves, and all operators are ready.
pub(super) fn is_fine(explained: &Explained, causes: &[Cause], name: Option<&str>) -> bool {
    explained.unsatisfiable.is_empty() && asked(causes, name).all(Cause::is_settled)
}

/// The objects read from a namespace.
pub(super) struct Read {
    /// Its state, and the contents of its catalogs.
    pub question: Question,
    /// Its operators that are not ready, held or pinned.
    pub causes: Vec<Cause>,
    /// Operators that failed or lack something by name, as `plan` notes them.
    pub failures: BTreeMap<String, String>,
    /// Objects that are excluded, and why.
    pub notes: Vec<String>,
}

/// Reads the state of the namespace and the contents of its catalogs, and prints the notes as warnings.
///
/// # Errors
/// The cluster cannot be read.
async fn question(cluster: &Cluster, args: &ClusterArgs) -> anyhow::Result<Read> {
    let contents =
        async |keys: &BTreeSet<CatalogKey>| Box::pin(catalogs::read(&cluster.client, keys)).await.contents;
    let read = question_with(cluster, args, contents).await?;
    read.notes.iter().for_each(|text| printer::warning(text));
    Ok(read)
}

/// Does the same with given catalog contents, and prints nothing.
///
/// # Errors
/// The cluster cannot be read.
pub(super) async fn question_with(
    cluster: &Cluster,
    args: &ClusterArgs,
    contents: impl AsyncFnOnce(&BTreeSet<CatalogKey>) -> Contents,
) -> anyhow::Result<Read> {
    let given = args.global_catalog_namespace.as_deref();
    let found = global::find(&cluster.client, given, Some(&cluster.namespace)).await;
    let global = found.catalogs.as_str();
    let (objects, mut notes) = cluster.objects(global, &[]).await?;
    let gathered = Box::pin(gather::operators(&cluster.client, Some(&cluster.namespace))).await;
    let gathered = gathered.unwrap_or_else(|error| {
        notes.push(format!("{error:#}; only resolution is explained"));
        Gathered::default()
    });
    let causes = Cause::all(&gathered, &found.olm);
    let failures = plan::failures(&gathered);
    let objects = Objects::of(objects)?;
    let namespace = match objects.namespace(Some(&cluster.namespace)) {
        // Operators without a Subscription have causes, too.
        Err(_) if !causes.is_empty() => cluster.namespace.clone(),
        Err(error) => {
            let mut alone = gathered.operators();
            alone.retain(|operator| !operator.is_part_of_olm(&found.olm));
            let alone = alone.into_iter().map(|operator| {
                let ways = subscribe_or_remove(&operator, &cluster.commands);
                format!("{} is installed without one: {ways}", operator.name())
            });
            // The excluded objects may be the cause.
            let texts = std::iter::once(error.to_string()).chain(alone);
            bail!("{}", texts.chain(notes).collect::<Vec<String>>().join("; "));
        }
        Ok(namespace) => namespace,
    };
    let contents = contents(&objects.catalog_keys(&namespace)).await;
    let mut question = objects.question(&namespace, global, contents);
    if question.problem.subscriptions.is_empty() {
        // OLM resolves nothing without one.
        question.problem.installed.clear();
    }
    question.problem.runtime_constraints = args.runtime_constraints()?;
    plan::note_plans(&mut question, &gathered);
    Ok(Read {
        question,
        causes,
        failures,
        notes,
    })
}

/// Explains one Subscription, or all.
pub(super) fn explain(question: &Question, name: Option<&str>) -> anyhow::Result<Explained> {
    let problem = &question.problem;
    if let Some(name) = name
        && !problem.subscriptions.iter().any(|s| s.name == name)
    {
        bail!("{}", problem.unknown_subscription(name));
    }
    match question.explain(name) {
        // OLM resolves nothing, and needs no OperatorGroup for that.
        Err(ResolveError::OperatorGroups { .. }) if problem.subscriptions.is_empty() => Ok(Explained {
            namespace: problem.namespace.clone(),
            not_succeeded: question.not_succeeded.clone(),
            ..Explained::default()
        }),
        // A reason for which nothing is resolved is an answer, too.
        Err(error @ ResolveError::OperatorGroups { .. }) => Ok(nothing_resolves(problem, name, &error)),
        explained => Ok(explained?),
    }
}

/// Reports one reason for all requested Subscriptions.
fn nothing_resolves(problem: &Problem, name: Option<&str>, error: &ResolveError) -> Explained {
    let known = problem.subscriptions.iter().map(|found| &found.name);
    let asked = known.filter(|known| name.is_none_or(|name| name == known.as_str()));
    Explained {
        namespace: problem.namespace.clone(),
        unsatisfiable: vec![Unsatisfiable {
            subscriptions: asked.cloned().collect(),
            message: error.to_string(),
            summary: error.to_string(),
            ..Unsatisfiable::default()
        }],
        ..Explained::default()
    }
}

#[cfg(test)]
mod tests;
