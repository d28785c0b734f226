//! Stories that are told to a world, and the laws that hold wherever one is interrupted.

use std::sync::Arc;

use super::{Stage, normal};
use crate::cluster::Fault;
use crate::long;

/// Writes that a process may repeat because the one before it did not live to see them answered.
const REPEATED: usize = 12;
/// Longer than every wait of a controller that has nothing to do.
const QUIET_SECONDS: u64 = 120;

/// A world that stories can be told to: operators on a [`Stage`], and whatever else takes part.
pub trait Told: Sized {
    /// Something that happens.
    type Step;

    /// A world in which nothing of a story has happened yet.
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
pub fn tell<W: Told>(world: &mut W, story: &[W::Step]) {
    for step in story {
        world.take(step);
        world.rest();
    }
}

/// What is over rests: nothing is written for so many seconds, nor after that by new processes, which look at everything, but
/// `greeting`, and that only once.
///
/// # Panics
/// When something is written.
#[track_caller]
pub fn assert_rests<W: Told>(world: &mut W, name: &str, seconds: u64, greeting: Option<&str>) {
    let before = world.writes().len();
    let fresh = |world: &W| world.writes().get(before..).unwrap_or_default().to_vec();
    world.go_on(seconds);
    let found = fresh(world);
    assert!(found.is_empty(), "{name} does not rest: {found:#?}");
    world.stage().kill();
    world.go_on(seconds);
    let found = fresh(world);
    let is_greeting = |write: &String| greeting == Some(write.as_str());
    assert!(
        found.len() <= 1 && found.iter().all(is_greeting),
        "{name}, new processes: {found:#?}"
    );
}

/// A world that was told a story with its write number `at`, from one on, interrupted.
pub fn interrupted<W: Told>(story: &[W::Step], how: Interruption, at: usize) -> W {
    let mut world = W::begin();
    match how {
        Interruption::Kill => world.stage().start_doomed(at),
        Interruption::LoseAnswer => {
            let mut left = at;
            world.stage().cluster.on_request(move |request| {
                if !request.verb.writes() {
                    return None;
                }
                left = left.checked_sub(1)?;
                (left == 0).then_some(Fault::LoseAnswer)
            });
        }
    }
    for step in story {
        world.take(step);
        world.rest();
        if world.stage().is_killed() {
            world.rest();
        }
    }
    world
}

/// Every story with each of its writes interrupted: the end is the one without, it costs few writes more, and at rest
/// nothing is written. The short form takes a fifth of `what`, these interruptions.
///
/// # Panics
/// When a law does not hold.
#[track_caller]
pub fn every_interruption<W: Told>(what: &str, stories: Vec<Story<W::Step>>, how: Interruption) {
    let mut cases = Vec::new();
    for (name, story) in stories {
        let mut reference = W::begin();
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
        let mut world: W = interrupted(story, how, at);
        normal::assert_same(
            &normal::normalised(&world.stage().cluster.objects()),
            end,
            &context,
        );
        let writes = world.own_writes();
        assert!(
            writes <= most + REPEATED,
            "{context}: {writes} writes, {most} without"
        );
        world.go_on(QUIET_SECONDS);
        assert_eq!(world.own_writes(), writes, "{context}: no rest");
    }
}
