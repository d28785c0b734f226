//! Stories that happen to operators in a test, and the properties that hold wherever one is interrupted.

use std::sync::Arc;

use super::{Stage, normal};
use crate::cluster::Fault;
use crate::long;

/// Writes that a process may repeat because the one before it did not live to see them answered.
const REPEATED: usize = 12;
/// Longer than every wait of a controller that has nothing to do.
const QUIET_SECONDS: u64 = 120;

/// What a story happens to: operators on a [`Stage`], and whatever else takes part.
pub trait StoryEnv: Sized {
    /// Something that happens.
    type Step;

    /// One in which nothing of a story has happened yet.
    fn begin() -> Self;
    /// Where it happens.
    fn stage(&mut self) -> &mut Stage;
    /// Makes it happen.
    fn take(&mut self, step: &Self::Step);
    /// Runs until nothing is left to do, every wait included; operators that were killed are started anew.
    fn rest(&mut self);
    /// Runs for so many seconds and until nothing is left to do.
    fn go_on(&mut self, seconds: u64);
    /// All writes so far, as [`crate::cluster::Log::writes`] tells them.
    fn writes(&self) -> &[String];
    /// How many of them were the operators'.
    fn own_writes(&self) -> usize {
        let own = self.writes().iter();
        own.filter(|write| !write.starts_with("kubernetes")).count()
    }
}

/// A name for those who read a failure, and what happens.
pub type Story<S> = (&'static str, Vec<S>);

/// How a write is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// The process is killed once the write is carried out and before it is answered.
    Kill,
    /// The answer alone is lost.
    LoseAnswer,
}

/// Tells a story, with time to come to rest after each step.
pub fn tell<E: StoryEnv>(env: &mut E, story: &[E::Step]) {
    for step in story {
        env.take(step);
        env.rest();
    }
}

/// What is over rests: nothing is written for so many seconds, nor after that by new processes, which look at everything, but
/// `greeting`, and that only once.
///
/// # Panics
/// When something is written.
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

/// One that a story happened to with its write number `at`, from one on, interrupted.
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

/// Every story with each of its writes interrupted: the end is the one without, it costs few writes more, and at rest
/// nothing is written. The short form takes a fifth of `what`, these interruptions.
///
/// # Panics
/// When a property does not hold.
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
