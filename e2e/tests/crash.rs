//! Wherever in the demo's way an operator is killed, the end is the same.
//!
//! The main job runs undisturbed first: its end state is the reference, and the API server's audit log tells how many
//! writes each operator made. Then it runs once for each operator and each of these writes, and SIGKILL follows the
//! write. [`e2e::normalise`] says what is compared.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use e2e::lab::{Lab, Namespace, catalog_source, operator_group, subscription};
use e2e::normalise::{State, differences, normalise};
use e2e::operator::Operator;
use e2e::writes::{AuditTail, Writes};
use serde_json::{Value, json};
use xtask::deploy::OPERATORS;
use xtask::kubectl::text;

const FIRST: &str = "demo-operator.v1.0.0";
const SECOND: &str = "demo-operator.v1.1.0";
const DEFINITION: &str = "greetings.demo.example.com";

/// Without a write for so long, with everything ready, a run is over.
const QUIET: Duration = Duration::from_secs(3);
/// How long the reference run is watched for writes at rest.
const REST: Duration = Duration::from_secs(30);
/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Writes that a crash may cost beyond those of the reference run, for each operator: the write whose answer was lost is
/// made again, and a status may be written in two parts.
const EXTRA_WRITES: usize = 3;
/// A series with so many failed runs is given up.
const ENOUGH: usize = 6;

#[test]
fn a_killed_operator_ends_where_an_undisturbed_one_does() -> anyhow::Result<()> {
    series("crash-auto", "Automatic")
}

#[test]
fn a_killed_operator_ends_there_also_with_plans_approved_by_hand() -> anyhow::Result<()> {
    series("crash-hand", "Manual")
}

/// Kills each operator after each of its writes, one run each.
fn series(prefix: &str, approval: &'static str) -> anyhow::Result<()> {
    // The operators are the cluster's: two series at once would kill each other's.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let began = Instant::now();
    let lab = Lab::shared()?;
    let bench = Bench {
        lab,
        kinds: listable(lab)?,
        approval,
    };

    let reference = bench.run(&format!("{prefix}-ref-1"), None)?;
    let again = bench.run(&format!("{prefix}-ref-2"), None)?;
    let differences = differences(&reference.state, &again.state);
    ensure!(
        differences.is_empty(),
        "two undisturbed runs differ:\n{}",
        differences.join("\n")
    );
    check_shape(&reference)?;

    let mut failures = Vec::new();
    let mut runs = 0;
    for program in OPERATORS {
        let writes = reference.writes.count(program).max(again.writes.count(program));
        ensure!(writes > 5, "the audit log has only {writes} writes of {program}");
        eprintln!(
            "{approval}: {program} makes {writes} writes: {:#?}",
            reference.writes.by_program[program]
        );
        for after in 1..=writes {
            let short = &program[..3];
            let kill = Kill { program, after };
            let outcome = bench.run(&format!("{prefix}-{short}-{after:03}"), Some(kill));
            runs += 1;
            let verdict = outcome.and_then(|outcome| {
                eprintln!(
                    "{approval}: {program} killed after write {after}: {}",
                    outcome.told()
                );
                check_crashed(&reference, &outcome)
            });
            if let Err(error) = verdict {
                let text = format!("{program} killed after write {after}: {error:#}");
                eprintln!("FAILED: {text}");
                failures.push(text);
            }
            if failures.len() >= ENOUGH {
                bail!(
                    "{} of {runs} runs failed, more were not tried:\n{}",
                    failures.len(),
                    failures.join("\n\n")
                );
            }
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

/// What the reference itself has to look like, so that comparing with it means something.
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

/// Which program is killed, after which of its writes.
#[derive(Debug, Clone, Copy)]
struct Kill {
    program: &'static str,
    after: usize,
}

/// What came of a run.
struct Outcome {
    state: State,
    writes: Writes,
    /// Writes the killed program had made when it was gone.
    written: usize,
    /// Writes after the end state was taken.
    at_rest: Vec<String>,
    /// Phases the ClusterServiceVersion remembers.
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
            "{:.1} s, gone after {}, writes: {}",
            self.took.as_secs_f64(),
            self.written,
            counts.join(", ")
        )
    }
}

/// What the log has told so far.
struct Seen {
    writes: Writes,
    last: Instant,
    /// Whether a kill is to come, after which everything is waited for again.
    to_come: bool,
    killed: Option<Instant>,
    /// Writes of the killed program that were finished when it was gone.
    written: usize,
    failed: Option<anyhow::Error>,
}

struct Bench {
    lab: &'static Lab,
    /// All kinds that a namespace can hold, as kubectl takes them.
    kinds: String,
    approval: &'static str,
}

impl Bench {
    /// The main job in a namespace of its own.
    fn run(&self, name: &str, kill: Option<Kill>) -> anyhow::Result<Outcome> {
        self.lab.kubectl().run(&[
            "delete",
            "crd",
            DEFINITION,
            "--ignore-not-found",
            "--wait=true",
            "--timeout=60s",
        ])?;
        let namespace = self.lab.namespace(name)?;
        let operators = Operator::all(self.lab.kubectl())?;
        let seen = Mutex::new(Seen {
            writes: Writes::of(name),
            last: Instant::now(),
            to_come: kill.is_some(),
            killed: None,
            written: 0,
            failed: None,
        });
        let tail = AuditTail::from_now(&self.lab.cluster().audit_log())?;
        let over = AtomicBool::new(false);
        let outcome = thread::scope(|scope| {
            scope.spawn(|| watch(tail, &operators, kill, &seen, &over));
            let outcome = self.observe(&namespace, &operators, kill, &seen);
            over.store(true, Ordering::Relaxed);
            outcome
        });
        // Its cluster roles go with it, before the next run counts what happens to cluster roles.
        self.lab.kubectl().run(&[
            "delete",
            "subscription,csv",
            "--all",
            "-n",
            name,
            "--wait=true",
            "--timeout=60s",
        ])?;
        outcome
    }

    fn observe(
        &self,
        namespace: &Namespace<'_>,
        operators: &[Operator],
        kill: Option<Kill>,
        seen: &Mutex<Seen>,
    ) -> anyhow::Result<Outcome> {
        let began = Instant::now();
        self.start(namespace)?;
        self.settle(namespace, seen)?;
        if let Some(kill) = kill {
            // A run may have got by with fewer writes than the reference; then the operator is killed at rest.
            self.kill_late(operators, kill, seen)?;
            self.wait_restarted(operators, kill)?;
            {
                // What it has to say after its start it may say from now on.
                let mut seen = locked(seen);
                (seen.last, seen.to_come) = (Instant::now(), false);
            }
            self.settle(namespace, seen)?;
        }
        let took = began.elapsed();
        let (objects, phases) = self.collect(namespace)?;
        let state = normalise(&objects, namespace.name());
        let (writes, written) = {
            let seen = locked(seen);
            (seen.writes.clone(), seen.written)
        };
        thread::sleep(if kill.is_some() { QUIET / 3 } else { REST });
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
        let image = self.lab.demo_catalog()?;
        let mut wanted = subscription("demo", "demo-operator", "stable", "catalog", namespace.name());
        wanted["spec"]["startingCSV"] = json!(FIRST);
        wanted["spec"]["installPlanApproval"] = json!(self.approval);
        namespace.apply(&[
            catalog_source("catalog", image),
            operator_group("group", &[namespace.name()]),
            wanted,
        ])
    }

    /// Waits until the upgrade is done, approving plans on the way, and nothing is written any more.
    fn settle(&self, namespace: &Namespace<'_>, seen: &Mutex<Seen>) -> anyhow::Result<()> {
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
            if since >= QUIET || (seen.to_come && seen.killed.is_some()) {
                return Ok(Ok(()));
            }
            Ok(Err(format!("a write {} ms ago", since.as_millis())))
        })
    }

    fn kill_late(&self, operators: &[Operator], kill: Kill, seen: &Mutex<Seen>) -> anyhow::Result<()> {
        let mut seen = locked(seen);
        if seen.killed.is_none() {
            find(operators, kill.program)?.kill()?;
            seen.killed = Some(Instant::now());
            seen.written = seen.writes.count(kill.program);
        }
        Ok(())
    }

    /// The killed program comes back once; the other one has not noticed.
    fn wait_restarted(&self, operators: &[Operator], kill: Kill) -> anyhow::Result<()> {
        for before in operators {
            let expected = before.restarts + u64::from(before.name == kill.program);
            self.lab
                .kubectl()
                .wait(&format!("{} to be back", before.name), PATIENCE, |destination| {
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

    /// All objects of the namespace and of the cluster that belong to the run, and the phases its operator went through.
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

/// Follows the audit log until the run is over and kills when it is time.
fn watch(
    mut tail: AuditTail,
    operators: &[Operator],
    kill: Option<Kill>,
    seen: &Mutex<Seen>,
    over: &AtomicBool,
) {
    while !over.load(Ordering::Relaxed) {
        let step = tail.read().and_then(|events| {
            let mut seen = locked(seen);
            for event in events {
                let Some(program) = seen.writes.note(&event) else {
                    continue;
                };
                seen.last = Instant::now();
                let Some(kill) = kill.filter(|kill| kill.program == program) else {
                    continue;
                };
                if seen.killed.is_none() && seen.writes.count(&program) == kill.after {
                    find(operators, kill.program)?.kill()?;
                    seen.killed = Some(Instant::now());
                }
                // The log is a moment behind; nobody comes back within half a second.
                if seen
                    .killed
                    .is_some_and(|killed| killed.elapsed() < Duration::from_millis(500))
                {
                    seen.written = seen.writes.count(&program);
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

/// What is still to come before the upgrade is done.
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

/// Ready and not on its way out.
fn is_settled(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    ready && pod["metadata"].get("deletionTimestamp").is_none()
}

/// Every kind that a namespace can hold, for one `kubectl get`.
fn listable(lab: &Lab) -> anyhow::Result<String> {
    let names = lab.kubectl().run(&[
        "api-resources",
        "--verbs=list",
        "--namespaced",
        "--output=name",
        "--cached=false",
    ])?;
    // The run makes and removes its own kind; nobody makes an object of it.
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
