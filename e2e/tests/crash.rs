//! An operator may be killed at any point of the demo; the end state is the same.
//!
//! The main job runs undisturbed first: its end state is the reference, and the API server's audit log gives the number of writes
//! of each operator. Then it runs repeatedly, each time in a new namespace, and SIGKILL follows a write. In run k the catalog
//! operator is killed after its k-th write, and the OLM operator after a write that is half its total further. So every write of
//! both is followed by a kill in some run. [`e2e::normalise`] defines the comparison. The short form runs a tenth of these runs:
//! the operators' own tests interrupt writes of whole stories, too, on the cluster in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::demo::{FIRST, SECOND, install};
use e2e::lab::{Lab, Namespace};
use e2e::normalise::{State, differences, normalise};
use e2e::operator::Operator;
use e2e::short_leases::ShortLeases;
use e2e::writes::Writes;
use olm_testing::long;
use serde_json::{Value, json};
use xtask::cluster::audit::AuditTail;
use xtask::deploy::OPERATORS;
use xtask::kubectl::text;

const DEFINITION: &str = "greetings.demo.example.com";

/// Time without a write, with everything ready, after which a run has ended.
const QUIET: Duration = Duration::from_secs(4);
/// Time for which the reference run is observed for writes at rest.
const REST: Duration = Duration::from_secs(30);
/// The same time for the other runs, after [`QUIET`].
const SHORT_REST: Duration = Duration::from_secs(1);
/// Timeout of a run.
const PATIENCE: Duration = Duration::from_secs(240);
/// Maximum number of writes of an operator beyond those of the reference run. Its own crash costs up to three: the write with a
/// lost answer is repeated, and a status is written in two parts. While the other operator is down, it reports additional states:
/// at most one write for each phase of each of the two versions.
const EXTRA_WRITES: usize = 10;
/// Share of kills in the short form: one in this number.
const SHARE: usize = 10;
/// Number of failed runs after which a series is aborted.
const ENOUGH: usize = 6;

#[test]
fn killed_operators_end_where_undisturbed_ones_do() -> anyhow::Result<()> {
    series("crash-auto", "Automatic", 1)
}

/// The same with a manually approved plan for each version; every third write is enough.
#[test]
fn killed_operators_end_there_also_with_plans_approved_by_hand() -> anyhow::Result<()> {
    series("crash-hand", "Manual", 3)
}

/// Kills each operator after every `step`-th of its writes.
fn series(prefix: &str, approval: &'static str, step: usize) -> anyhow::Result<()> {
    // The operators are shared by the cluster: two series at once would kill each other's.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let began = Instant::now();
    let lab = Lab::shared()?;
    let _short = ShortLeases::start(lab.kubectl())?;
    let bench = Bench {
        lab,
        kinds: listable(lab)?,
        approval,
    };

    let reference = bench.run(&format!("{prefix}-ref-1"), &Kills::new(), REST)?;
    let again = bench.run(&format!("{prefix}-ref-2"), &Kills::new(), SHORT_REST)?;
    let differences = differences(&reference.state, &again.state);
    ensure!(
        differences.is_empty(),
        "two undisturbed runs differ:\n{}",
        differences.join("\n")
    );
    check_shape(&reference)?;
    eprintln!("{approval}: undisturbed: {}; {}", reference.told(), again.told());

    let mut counts = Kills::new();
    for program in OPERATORS {
        let count = reference.writes.count(program).max(again.writes.count(program));
        ensure!(count > 5, "the audit log has only {count} writes of {program}");
        eprintln!(
            "{approval}: {program} makes {count} writes: {:#?}",
            reference.writes.by_program[program]
        );
        counts.insert(program, count);
    }
    let rounds = counts.values().copied().max().unwrap_or_default();
    let (mut runs, mut failures) = (0, Vec::new());
    let picked = long::every_nth(
        SHARE,
        &format!("kills on the way with plans approved {approval}"),
        (0..rounds).step_by(step),
    );
    for round in picked {
        let kills = kills(&counts, round);
        let outcome = bench.run(&format!("{prefix}-{round:03}"), &kills, SHORT_REST);
        runs += 1;
        let verdict = outcome.and_then(|outcome| {
            eprintln!("{approval}: killed after {kills:?}: {}", outcome.told());
            check_crashed(&reference, &outcome)
        });
        if let Err(error) = verdict {
            let text = format!("killed after {kills:?}: {error:#}");
            eprintln!("FAILED: {text}");
            failures.push(text);
        }
        if failures.len() >= ENOUGH {
            break;
        }
    }
    eprintln!(
        "{approval}: {runs} runs in {:.1} minutes",
        began.elapsed().as_secs_f64() / 60.0
    );
    ensure!(
        failures.is_empty(),
        "{} of {runs} runs failed:\n{}",
        failures.len(),
        failures.join("\n\n")
    );
    Ok(())
}

/// Returns the write after which each program is killed; the second program is half its total ahead of the first. Over all rounds
/// every write of every program has its turn.
fn kills(counts: &Kills, round: usize) -> Kills {
    let turns = counts.iter().enumerate();
    turns
        .map(|(index, (program, count))| (*program, (round + index * count / 2) % count + 1))
        .collect()
}

/// Checks the reference itself, so that comparisons with it are meaningful.
fn check_shape(reference: &Outcome) -> anyhow::Result<()> {
    let count = |kind: &str| {
        reference
            .state
            .keys()
            .filter(|key| key.split(' ').next() == Some(kind))
            .count()
    };
    for (kind, expected) in [
        ("CatalogSource", 1),
        ("ClusterServiceVersion", 1),
        ("CustomResourceDefinition", 1),
        ("Deployment", 1),
        ("InstallPlan", 2),
        ("OperatorCondition", 1),
        ("OperatorGroup", 1),
        ("Pod", 2),
        ("Subscription", 1),
    ] {
        ensure!(
            count(kind) == expected,
            "{} objects of kind {kind}, not {expected}",
            count(kind)
        );
    }
    ensure!(
        count("ClusterRole") > 0 && count("Role") > 0,
        "no roles were found"
    );
    ensure!(
        reference.at_rest.is_empty(),
        "writes in {} s at rest: {:?}",
        REST.as_secs(),
        reference.at_rest
    );
    ensure!(
        reference.phases.iter().all(|phase| phase != "Failed"),
        "a phase was Failed: {:?}",
        reference.phases
    );
    Ok(())
}

fn check_crashed(reference: &Outcome, outcome: &Outcome) -> anyhow::Result<()> {
    let differences = differences(&reference.state, &outcome.state);
    ensure!(
        differences.is_empty(),
        "the end state is another one:\n{}",
        differences.join("\n")
    );
    for program in OPERATORS {
        let (usual, now) = (reference.writes.count(program), outcome.writes.count(program));
        ensure!(
            now <= usual + EXTRA_WRITES,
            "{program} made {now} writes instead of {usual}: {:#?}",
            outcome.writes.by_program[program]
        );
    }
    ensure!(
        outcome.at_rest.is_empty(),
        "writes at rest: {:?}",
        outcome.at_rest
    );
    ensure!(
        outcome.phases.iter().all(|phase| phase != "Failed"),
        "a phase was Failed: {:?}",
        outcome.phases
    );
    Ok(())
}

/// Programs to kill, with the number of the write after which they are killed.
type Kills = BTreeMap<&'static str, usize>;

/// Result of a run.
struct Outcome {
    state: State,
    writes: Writes,
    /// Number of writes of killed programs until their exit.
    written: BTreeMap<String, usize>,
    /// Writes after the end state was taken.
    at_rest: Vec<String>,
    /// Phases in the history of the ClusterServiceVersion.
    phases: Vec<String>,
    took: Duration,
}

impl Outcome {
    fn told(&self) -> String {
        let counts: Vec<String> = self
            .writes
            .by_program
            .iter()
            .map(|(name, list)| format!("{} {name}", list.len()))
            .collect();
        format!(
            "{:.1} s, gone after {:?}, writes: {}",
            self.took.as_secs_f64(),
            self.written,
            counts.join(", ")
        )
    }
}

/// Contents of the audit log so far.
struct Seen {
    writes: Writes,
    last: Instant,
    /// True until all kills have happened and their consequences have been awaited.
    to_come: bool,
    killed: BTreeMap<String, Instant>,
    /// Number of completed writes of killed programs at their exit.
    written: BTreeMap<String, usize>,
    failed: Option<anyhow::Error>,
}

struct Bench {
    lab: &'static Lab,
    /// All namespaced kinds, in kubectl's format.
    kinds: String,
    approval: &'static str,
}

impl Bench {
    /// Runs the main job in its own namespace, and observes it for writes at rest for `rest`.
    fn run(&self, name: &str, kills: &Kills, rest: Duration) -> anyhow::Result<Outcome> {
        self.lab.kubectl().run(&[
            "delete",
            "crd",
            DEFINITION,
            "--ignore-not-found",
            "--wait=true",
            "--timeout=180s",
        ])?;
        let namespace = self.lab.namespace(name)?;
        let operators = Operator::all(self.lab.kubectl())?;
        let seen = Mutex::new(Seen {
            writes: Writes::of(name),
            last: Instant::now(),
            to_come: !kills.is_empty(),
            killed: BTreeMap::new(),
            written: BTreeMap::new(),
            failed: None,
        });
        let tail = AuditTail::of_olm(&self.lab.cluster().audit_log())?;
        let over = AtomicBool::new(false);
        let outcome = thread::scope(|scope| {
            scope.spawn(|| watch(tail, &operators, kills, &seen, &over));
            let outcome = self.observe(&namespace, &operators, kills, &seen, rest);
            over.store(true, Ordering::Relaxed);
            outcome
        });
        // Its cluster roles are deleted with it, before the next run counts writes to cluster roles.
        self.lab.kubectl().run(&[
            "delete",
            "subscription,csv",
            "--all",
            "-n",
            name,
            "--wait=true",
            "--timeout=180s",
        ])?;
        outcome
    }

    fn observe(
        &self,
        namespace: &Namespace<'_>,
        operators: &[Operator],
        kills: &Kills,
        seen: &Mutex<Seen>,
        rest: Duration,
    ) -> anyhow::Result<Outcome> {
        let began = Instant::now();
        self.start(namespace)?;
        self.settle(namespace, kills, seen)?;
        if !kills.is_empty() {
            self.kill_late(operators, kills, seen)?;
            self.wait_restarted(operators, kills)?;
            {
                // Writes after the restart may still follow from here on.
                let mut seen = locked(seen);
                (seen.last, seen.to_come) = (Instant::now(), false);
            }
            self.settle(namespace, kills, seen)?;
        }
        let took = began.elapsed();
        let what = format!("garbage of {} to be collected", namespace.name());
        self.lab.kubectl().wait(&what, PATIENCE, |_| {
            let (objects, _) = self.collect(namespace)?;
            let Some(orphan) = orphan(&objects) else {
                return Ok(Ok(()));
            };
            // The status of its Operator is written after it is gone.
            locked(seen).last = Instant::now();
            Ok(Err(format!("{orphan} refers to an owner that is gone")))
        })?;
        self.settle(namespace, kills, seen)?;
        let (objects, phases) = self.collect(namespace)?;
        let state = normalise(&objects, namespace.name());
        let (writes, written) = {
            let seen = locked(seen);
            (seen.writes.clone(), seen.written.clone())
        };
        thread::sleep(rest);
        let seen = locked(seen);
        let at_rest = seen
            .writes
            .by_program
            .iter()
            .flat_map(|(program, list)| {
                list[writes.count(program)..]
                    .iter()
                    .map(move |write| format!("{program} {write}"))
            })
            .collect();
        Ok(Outcome {
            state,
            writes,
            written,
            at_rest,
            phases,
            took,
        })
    }

    fn start(&self, namespace: &Namespace<'_>) -> anyhow::Result<()> {
        install(namespace, &[namespace.name()], |wanted| {
            wanted["spec"]["startingCSV"] = json!(FIRST);
            wanted["spec"]["installPlanApproval"] = json!(self.approval);
        })
    }

    /// Waits until the upgrade is done, approving plans on the way, and writes have stopped.
    fn settle(&self, namespace: &Namespace<'_>, kills: &Kills, seen: &Mutex<Seen>) -> anyhow::Result<()> {
        let mut approved = BTreeSet::new();
        let what = format!("{} to be done in {}", self.approval, namespace.name());
        self.lab.kubectl().wait(&what, PATIENCE, |destination| {
            if let Some(error) = locked(seen).failed.take() {
                return Err(error);
            }
            let all = destination
                .get(&["csv,subscription,installplan,pod", "-n", namespace.name()])?
                .unwrap_or_default();
            let all = all["items"].as_array().cloned().unwrap_or_default();
            for plan in all.iter().filter(|object| object["kind"] == "InstallPlan") {
                let name = text(plan, "/metadata/name");
                if text(plan, "/status/phase") == "RequiresApproval" && approved.insert(name.to_owned()) {
                    namespace.approve(name)?;
                }
            }
            if let Some(lacking) = lacking(&all) {
                return Ok(Err(lacking));
            }
            let seen = locked(seen);
            let since = seen.last.elapsed();
            if since >= QUIET || (seen.to_come && seen.killed.len() == kills.len()) {
                return Ok(Ok(()));
            }
            Ok(Err(format!("a write {} ms ago", since.as_millis())))
        })
    }

    /// Kills an operator at rest if the run needed fewer writes than the reference.
    fn kill_late(&self, operators: &[Operator], kills: &Kills, seen: &Mutex<Seen>) -> anyhow::Result<()> {
        let mut seen = locked(seen);
        for program in kills.keys() {
            if !seen.killed.contains_key(*program) {
                find(operators, program)?.kill()?;
                seen.note_kill(program);
            }
        }
        Ok(())
    }

    /// Waits until a killed program has restarted, exactly once; other programs must not have restarted.
    fn wait_restarted(&self, operators: &[Operator], kills: &Kills) -> anyhow::Result<()> {
        for before in operators {
            let expected = before.restarts + u64::from(kills.contains_key(before.name));
            let what = format!("{} to be back", before.name);
            self.lab.kubectl().wait(&what, PATIENCE, |destination| {
                let now = Operator::ready(destination, before.name)?;
                Ok(if now.restarts == expected {
                    Ok(())
                } else {
                    Err(format!("{} restarts, not {expected}", now.restarts))
                })
            })?;
        }
        Ok(())
    }

    /// Returns all objects of the namespace and of the cluster that belong to the run, and the phases of its operator.
    fn collect(&self, namespace: &Namespace<'_>) -> anyhow::Result<(Vec<Value>, Vec<String>)> {
        let destination = self.lab.kubectl();
        let owned = format!("olm.owner.namespace={}", namespace.name());
        let mut objects = Vec::new();
        for arguments in [
            vec![self.kinds.as_str(), "-n", namespace.name()],
            vec!["clusterrole,clusterrolebinding", "-l", &owned],
        ] {
            let list = destination.get(&arguments)?.unwrap_or_default();
            objects.extend(list["items"].as_array().cloned().unwrap_or_default());
        }
        objects.extend(destination.get(&["crd", DEFINITION])?);
        objects.extend(destination.get(&["namespace", namespace.name()])?);
        let phases = objects
            .iter()
            .filter(|object| object["kind"] == "ClusterServiceVersion")
            .flat_map(|csv| {
                csv["status"]["conditions"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default()
            })
            .map(|condition| text(&condition, "/phase").to_owned())
            .collect();
        Ok((objects, phases))
    }
}

/// Returns the first object with a deleted ClusterServiceVersion among its owners. Kubernetes' own garbage collector, which is
/// not tested here, discovers new kinds half a minute late on a cluster that has just started.
fn orphan(objects: &[Value]) -> Option<String> {
    let there: BTreeSet<&str> = objects
        .iter()
        .map(|object| text(object, "/metadata/uid"))
        .collect();
    let owners = |object: &Value| object["metadata"]["ownerReferences"].as_array().cloned();
    let is_orphan = |object: &&Value| {
        owners(object)
            .iter()
            .flatten()
            .any(|owner| owner["kind"] == "ClusterServiceVersion" && !there.contains(text(owner, "/uid")))
    };
    let found = objects.iter().find(is_orphan)?;
    Some(format!(
        "{} {}",
        text(found, "/kind"),
        text(found, "/metadata/name")
    ))
}

impl Seen {
    fn note_kill(&mut self, program: &str) {
        self.killed.insert(program.to_owned(), Instant::now());
        self.written
            .insert(program.to_owned(), self.writes.count(program));
    }
}

/// Follows the audit log until the run has ended and kills programs at their turn.
fn watch(mut tail: AuditTail, operators: &[Operator], kills: &Kills, seen: &Mutex<Seen>, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let step = tail.read().and_then(|events| {
            let mut seen = locked(seen);
            for event in events {
                let Some(program) = seen.writes.note(&event) else {
                    continue;
                };
                seen.last = Instant::now();
                let count = seen.writes.count(&program);
                match seen.killed.get(&program).copied() {
                    None if kills.get(program.as_str()) == Some(&count) => {
                        find(operators, &program)?.kill()?;
                        seen.note_kill(&program);
                    }
                    // The log lags a little, and no program restarts within half a second.
                    Some(killed) if killed.elapsed() < Duration::from_millis(500) => {
                        seen.written.insert(program, count);
                    }
                    _ => {}
                }
            }
            Ok(())
        });
        if let Err(error) = step {
            locked(seen).failed = Some(error);
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn find<'a>(operators: &'a [Operator], name: &str) -> anyhow::Result<&'a Operator> {
    operators
        .iter()
        .find(|operator| operator.name == name)
        .with_context(|| format!("no operator {name}"))
}

fn locked(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what is missing until the upgrade is done.
fn lacking(objects: &[Value]) -> Option<String> {
    let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let csvs: Vec<String> = of("ClusterServiceVersion")
        .map(|csv| format!("{} {}", text(csv, "/metadata/name"), text(csv, "/status/phase")))
        .collect();
    if csvs != [format!("{SECOND} Succeeded")] {
        return Some(format!("ClusterServiceVersions: {csvs:?}"));
    }
    let Some(subscription) = of("Subscription").next() else {
        return Some("no Subscription".to_owned());
    };
    let installed = text(subscription, "/status/installedCSV");
    let state = text(subscription, "/status/state");
    if (installed, state) != (SECOND, "AtLatestKnown") {
        return Some(format!("Subscription: {installed} {state}"));
    }
    of("Pod")
        .find(|pod| !is_settled(pod))
        .map(|pod| format!("pod {}", text(pod, "/metadata/name")))
}

/// Returns true for a pod that is ready and not terminating.
fn is_settled(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    ready && pod["metadata"].get("deletionTimestamp").is_none()
}

/// Returns every namespaced kind, for one `kubectl get`.
fn listable(lab: &Lab) -> anyhow::Result<String> {
    let listed = [
        "api-resources",
        "--verbs=list",
        "--namespaced",
        "--output=name",
        "--cached=false",
    ];
    // The command fails while an API of the cluster does not respond.
    let names = lab
        .kubectl()
        .wait("all kinds", PATIENCE, |kubectl| Ok(Ok(kubectl.run(&listed)?)))?;
    // The run creates and removes its own kind, without objects of it.
    let names: Vec<&str> = names
        .lines()
        .filter(|name| !name.starts_with("events") && *name != DEFINITION)
        .collect();
    ensure!(
        names.contains(&"installplans.operators.coreos.com"),
        "api-resources lacks our kinds: {names:?}"
    );
    Ok(names.join(","))
}

#[test]
fn every_write_of_every_operator_has_its_turn() {
    let counts = Kills::from([("a", 37), ("b", 26)]);
    for (program, count) in &counts {
        let turns: BTreeSet<usize> = (0..37).map(|round| kills(&counts, round)[program]).collect();
        assert_eq!(turns, (1..=*count).collect());
    }
    assert_eq!(kills(&counts, 0), Kills::from([("a", 1), ("b", 14)]));
}
