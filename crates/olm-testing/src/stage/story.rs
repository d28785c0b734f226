//! Stories, that is sequences of steps in a test, and properties that hold wherever one is interrupted.

use std::sync::Arc;

use super::{Stage, normal};
use crate::cluster::Fault;
use crate::long;

/// Maximum number of writes that a process may repeat because its predecessor was killed before the answer.
const REPEATED: usize = 12;
/// Longer than every timer of an idle controller.
const QUIET_SECONDS: u64 = 120;

/// Environment of a story: operators on a [`Stage`], and everything else that takes part.
pub trait StoryEnv: Sized {
    /// Type of a step.
    type Step;

    /// Creates an environment before any step.
    fn begin() -> Self;
    /// Returns the stage.
    fn stage(&mut self) -> &mut Stage;
    /// Performs a step.
    fn take(&mut self, step: &Self::Step);
    /// Runs until nothing is left to do, timers included; killed operators are restarted.
    fn rest(&mut self);
    /// Runs for this many seconds and until nothing is left to do.
    fn go_on(&mut self, seconds: u64);
    /// Returns all writes so far, in the form of [`crate::cluster::Log::writes`].
    fn writes(&self) -> &[String];
    /// Number of writes by the operators.
    fn own_writes(&self) -> usize {
        let own = self.writes().iter();
        own.filter(|write| !write.starts_with("kubernetes")).count()
    }
}

/// Name of a story, for failure messages, and its steps.
pub type Story<S> = (&'static str, Vec<S>);

/// Kind of interruption of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// The process is killed after the write is executed and before it is answered.
    Kill,
    /// Only the answer is lost.
    LoseAnswer,
}

/// Runs a story, and waits for rest after each step.
pub fn tell<E: StoryEnv>(env: &mut E, story: &[E::Step]) {
    for step in story {
        env.take(step);
        env.rest();
    }
}

/// Asserts that a finished story is at rest. Nothing is written for this many seconds. New processes, which reconcile everything, then
/// write at most `greeting`, once.
///
/// # Panics
/// If anything else is written.
#[track_caller]
pub fn assert_rests<E: StoryEnv>(env: &mut E, name: &str, seconds: u64, greeting: Option<&str>) {
    let before = env.writes().len();
    let fresh = |env: &E| env.writes().get(before..).unwrap_or_default().to_vec();
    env.go_on(seconds);
    let found = fresh(env);
    assert!(found.is_empty(), "{name} does not rest: {found:#?}");
    env.stage().kill();
    env.go_on(seconds);
    let found = fresh(env);
    let is_greeting = |write: &String| greeting == Some(write.as_str());
    assert!(
        found.len() <= 1 && found.iter().all(is_greeting),
        "{name}, new processes: {found:#?}"
    );
}

/// Runs a story with its write number `at`, starting at one, interrupted. Returns its environment.
pub fn interrupted<E: StoryEnv>(story: &[E::Step], how: Interruption, at: usize) -> E {
    let mut env = E::begin();
    match how {
        Interruption::Kill => env.stage().start_doomed(at),
        Interruption::LoseAnswer => {
            let mut left = at;
            env.stage().cluster.on_request(move |request| {
                if !request.verb.writes() {
                    return None;
                }
                left = left.checked_sub(1)?;
                (left == 0).then_some(Fault::LoseAnswer)
            });
        }
    }
    for step in story {
        env.take(step);
        env.rest();
        if env.stage().is_killed() {
            env.rest();
        }
    }
    env
}

/// Runs every story with each of its writes interrupted. The end must be the same as without, with few more writes, and nothing is
/// written at rest. The short form runs a fifth of these interruptions, which are called `what`.
///
/// # Panics
/// If a property does not hold.
#[track_caller]
pub fn every_interruption<E: StoryEnv>(what: &str, stories: Vec<Story<E::Step>>, how: Interruption) {
    let mut cases = Vec::new();
    for (name, story) in stories {
        let mut reference = E::begin();
        tell(&mut reference, &story);
        let most = reference.own_writes();
        assert!(most > 0, "{name} writes nothing");
        let end = normal::normalised(&reference.stage().cluster.objects());
        let told = Arc::new((name, story, most, end));
        cases.extend((1..=most).map(|at| (at, Arc::clone(&told))));
    }
    for (at, told) in long::pick(what, cases) {
        let (name, story, most, end) = told.as_ref();
        let context = format!("{name}, {how:?} at write {at}");
        let mut env: E = interrupted(story, how, at);
        normal::assert_same(&normal::normalised(&env.stage().cluster.objects()), end, &context);
        let writes = env.own_writes();
        assert!(
            writes <= most + REPEATED,
            "{context}: {writes} writes, {most} without:\n{}",
            env.writes().join("\n")
        );
        env.go_on(QUIET_SECONDS);
        assert_eq!(env.own_writes(), writes, "{context}: no rest");
    }
}
