//! Tests with two processes of each operator, one of which is a standby.

use std::sync::{Arc, Mutex};

use olm_testing::cluster::LEASE;
use olm_testing::stage::Stage;
use olm_testing::stage::normal::{assert_same, normalised};
use olm_testing::stage::story::{Interruption, StoryEnv, assert_rests, every_interruption, tell};

use super::test_env::{Step, TestEnv};
use super::{stories, whole_life};

/// A [`TestEnv`] with standbys.
struct Standbys(TestEnv);

impl StoryEnv for Standbys {
    type Step = Step;

    fn begin() -> Self {
        Self(TestEnv::with_standbys())
    }

    fn stage(&mut self) -> &mut Stage {
        self.0.stage()
    }

    fn take(&mut self, step: &Step) {
        self.0.take(step);
    }

    fn rest(&mut self) {
        self.0.rest();
    }

    fn go_on(&mut self, seconds: u64) {
        self.0.go_on(seconds);
    }

    fn writes(&self) -> &[String] {
        self.0.writes()
    }
}

fn sorted(writes: &[String]) -> Vec<&str> {
    let mut kinds: Vec<&str> = writes
        .iter()
        .map(|write| write.split(" {").next().unwrap())
        .collect();
    kinds.sort_unstable();
    kinds
}

/// Two processes of each operator write the same as one: a standby writes nothing, and no event is sent twice.
#[test]
fn with_standbys_the_same_is_written_as_without() {
    for (name, story) in stories() {
        let (mut alone, mut both) = (TestEnv::begin(), Standbys::begin());
        tell(&mut alone, &story);
        tell(&mut both, &story);
        let objects = |stage: &Stage| normalised(&stage.cluster.objects());
        assert_same(&objects(both.stage()), &objects(alone.stage()), name);
        // Names with hashes of uids differ between runs.
        let (alone_wrote, both_wrote) = (sorted(alone.writes()), sorted(both.writes()));
        assert_eq!(
            both_wrote.len(),
            alone_wrote.len(),
            "{name}: {both_wrote:#?}\n{alone_wrote:#?}"
        );
        let became = |event: &&String| event.starts_with("LeaderElection: ");
        assert_eq!(
            both.0.events.iter().filter(became).count(),
            2,
            "{:#?}",
            both.0.events
        );
        assert_eq!(alone.events.iter().filter(became).count(), 0);
    }
}

/// The one of four processes that makes the write is killed, and a standby takes over.
#[test]
fn a_leader_killed_after_any_write_is_followed_and_nothing_is_different_in_the_end() {
    let what = "interruptions of operators with standbys";
    every_interruption::<Standbys>(what, vec![("whole life", whole_life())], Interruption::Kill);
}

#[test]
fn leaders_and_standbys_write_nothing_at_rest_but_their_leases() {
    let mut env = Standbys::begin();
    tell(&mut env, &whole_life());
    env.go_on(11 * 60);
    // New processes have to wait for the Leases of the killed ones.
    assert_rests(
        &mut env,
        "standbys",
        600,
        Some("patch CatalogSource ns/cat status"),
    );
}

/// Each operator's Lease is written by one process at a time: a write based on an outdated read is refused.
#[test]
fn leases_are_renewed_every_two_seconds_by_one_process_each() {
    let mut env = Standbys::begin();
    env.go_on(30);
    let holders = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&holders);
    env.stage().cluster.on_request(move |request| {
        if request.kind.kind == LEASE && request.verb.writes() {
            let holder = request.body["spec"]["holderIdentity"]
                .as_str()
                .unwrap_or_default();
            seen.lock().unwrap().push(holder.to_owned());
        }
        None
    });
    env.go_on(60);
    let mut holders = holders.lock().unwrap().clone();
    assert!((58..=62).contains(&holders.len()), "{holders:?}");
    holders.sort_unstable();
    holders.dedup();
    assert_eq!(holders.len(), 2, "{holders:?}");
}
