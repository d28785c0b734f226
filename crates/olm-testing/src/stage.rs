//! Operators on a fake cluster, with a clock that the test controls.
//!
//! Tests are plain functions: each call here runs the paused clock as far as needed and returns. An operator is started when needed, can
//! be killed at any write, and is restarted afterwards. Most tests have one. Several operators are separate processes, so one can be
//! killed while the others continue.

pub mod normal;
pub mod story;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use kube::Client;
use olm_runtime::condition::whole_seconds;
use olm_runtime::{Timestamp, clock};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cluster::{Doom, FakeCluster, Link};

/// Time without requests and changes that counts as rest. It is shorter than any wait of the controllers.
pub const REST: Duration = Duration::from_millis(300);

/// Returns a future that runs an operator until it is dropped. It is called inside a runtime.
pub type Operator = Box<dyn Fn(Client) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A cluster, operators, and their shared clock.
pub struct Stage {
    runtime: Runtime,
    /// The cluster; its own controllers run whenever the clock runs.
    pub cluster: FakeCluster,
    operators: Vec<(Operator, Option<Process>)>,
    /// Writes left until the process that makes the last one is killed.
    doom: Doom,
    began: (Timestamp, Instant),
}

struct Process {
    running: JoinHandle<()>,
    link: Link,
}

impl Process {
    fn is_alive(&self) -> bool {
        self.link.is_alive()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.link.kill();
        self.running.abort();
    }
}

impl Stage {
    /// Creates an empty cluster at the start of 2026, with an operator that is not started yet.
    ///
    /// # Panics
    /// If no runtime can be created.
    pub fn new(operator: Operator) -> Self {
        Self::of(vec![operator])
    }

    /// Like [`Stage::new`], with several operators.
    ///
    /// # Panics
    /// If no runtime can be created.
    #[allow(clippy::unwrap_used)] // For tests only.
    pub fn of(operators: Vec<Operator>) -> Self {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        let cluster = FakeCluster::new();
        runtime.spawn(cluster.clone().run_controllers());
        let entered = runtime.enter();
        let began = ("2026-01-01T00:00:00Z".parse().unwrap(), Instant::now());
        drop(entered);
        Self {
            runtime,
            cluster,
            operators: operators.into_iter().map(|operator| (operator, None)).collect(),
            doom: Doom::default(),
            began,
        }
    }

    /// Returns the current time of the stage, in whole seconds.
    pub fn now(&self) -> Timestamp {
        self.set_clock();
        let _entered = self.runtime.enter();
        whole_seconds(clock::now())
    }

    /// Changes the cluster while the clock is paused.
    pub fn as_user<T>(&self, change: impl FnOnce(&FakeCluster) -> T) -> T {
        self.set_clock();
        let _entered = self.runtime.enter();
        change(&self.cluster)
    }

    /// Edits every object of a kind.
    pub fn edit_all(&self, kind: &str, patch: &Value) {
        self.as_user(|cluster| {
            for key in cluster.objects().keys().filter(|key| key.kind == kind) {
                cluster.edit(kind, &key.namespace, &key.name, patch);
            }
        });
    }

    /// Deletes every object of a kind.
    pub fn delete_all(&self, kind: &str) {
        self.as_user(|cluster| {
            for key in cluster.objects().keys().filter(|key| key.kind == kind) {
                cluster.delete(kind, &key.namespace, &key.name);
            }
        });
    }

    /// Runs `work` to its end, together with all other tasks.
    pub fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.set_clock();
        self.runtime.block_on(work)
    }

    /// Runs the operators until they are at rest; timers of a second and more are not awaited.
    ///
    /// # Panics
    /// If they do not come to rest.
    #[track_caller]
    pub fn settle(&mut self) {
        self.start();
        let rest = self.run(self.cluster.settle(REST));
        assert_eq!(rest, Ok(()));
    }

    /// Advances the time; running operators continue.
    pub fn advance(&self, time: Duration) {
        self.run(async move { tokio::time::sleep(time).await });
    }

    /// Moves the wall clock by `seconds`, forward or back. Timers are not affected, like those of a real process.
    pub fn put_clock(&mut self, seconds: i64) {
        let put = Timestamp::from_second(self.began.0.as_second().saturating_add(seconds));
        self.began.0 = put.unwrap_or(Timestamp::MAX);
    }

    /// Starts the operators that are not running.
    pub fn start(&mut self) {
        if !self.is_killed() {
            return;
        }
        self.set_clock();
        let _entered = self.runtime.enter();
        for (operator, process) in &mut self.operators {
            if process.as_ref().is_some_and(Process::is_alive) {
                continue;
            }
            // The remains of the previous process are dropped first.
            *process = None;
            let (client, link) = self.cluster.connect_doomed(&self.doom);
            let running = self.runtime.spawn(operator(client));
            *process = Some(Process { running, link });
        }
    }

    /// Starts the operators; the one that makes write number `writes` is killed by it.
    pub fn start_doomed(&mut self, writes: usize) {
        self.start();
        if writes == 0 {
            self.kill();
        } else {
            self.doom.after(writes);
        }
    }

    /// Kills the operators.
    pub fn kill(&mut self) {
        for (_, process) in &mut self.operators {
            *process = None;
        }
        self.doom.never();
    }

    /// True if an operator is not running.
    pub fn is_killed(&self) -> bool {
        self.operators
            .iter()
            .any(|(_, process)| !process.as_ref().is_some_and(Process::is_alive))
    }

    /// Sets the thread's clock to this stage's, since several stages of one test have a clock each.
    fn set_clock(&self) {
        let _entered = self.runtime.enter();
        let passed = Instant::now().duration_since(self.began.1);
        let now = self.began.0.checked_add(passed);
        clock::start_at(now.unwrap_or(Timestamp::MAX));
    }
}
