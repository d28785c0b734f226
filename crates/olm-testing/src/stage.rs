//! An operator on a cluster in memory, with a clock that a test moves.
//!
//! Tests stay plain functions: each call here runs the paused clock as far as it says and comes back. The operator is started
//! when it is needed, can be killed at any write, and is started anew afterwards.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use kube::Client;
use olm_runtime::condition::whole_seconds;
use olm_runtime::{Timestamp, clock};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cluster::{FakeCluster, Link};

/// Nothing asked for and nothing changed for so long is rest. Shorter than any wait of the controllers.
pub const REST: Duration = Duration::from_millis(300);

/// What runs an operator until it is dropped. It is called inside a runtime.
pub type Operator = Box<dyn Fn(Client) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A cluster, an operator, and the clock they share.
pub struct Stage {
    runtime: Runtime,
    /// The cluster; its own controllers run whenever the clock does.
    pub cluster: FakeCluster,
    operator: Operator,
    process: Option<Process>,
    began: (Timestamp, Instant),
}

struct Process {
    running: JoinHandle<()>,
    link: Link,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.link.kill();
        self.running.abort();
    }
}

impl Stage {
    /// An empty cluster at the beginning of 2026, and an operator that does not run yet.
    ///
    /// # Panics
    /// When there can be no runtime.
    #[allow(clippy::unwrap_used)] // For tests only.
    pub fn new(operator: Operator) -> Self {
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
            operator,
            process: None,
            began,
        }
    }

    /// The time there, in whole seconds.
    pub fn now(&self) -> Timestamp {
        self.set_clock();
        let _entered = self.runtime.enter();
        whole_seconds(clock::now())
    }

    /// Does something to the cluster while the clock stands still.
    pub fn as_user<T>(&self, change: impl FnOnce(&FakeCluster) -> T) -> T {
        self.set_clock();
        let _entered = self.runtime.enter();
        change(&self.cluster)
    }

    /// Runs `work` to its end, and whatever else there is to run meanwhile.
    pub fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.set_clock();
        self.runtime.block_on(work)
    }

    /// Runs the operator until it rests; waits of a second and more are not waited for.
    ///
    /// # Panics
    /// When it does not come to rest.
    #[track_caller]
    pub fn settle(&mut self) {
        self.start();
        let rest = self.run(self.cluster.settle(REST));
        assert_eq!(rest, Ok(()));
    }

    /// Time goes by; an operator that runs goes on.
    pub fn advance(&self, time: Duration) {
        self.run(async move { tokio::time::sleep(time).await });
    }

    /// Starts the operator if it does not run.
    pub fn start(&mut self) {
        if !self.is_killed() {
            return;
        }
        self.process = None;
        self.set_clock();
        let _entered = self.runtime.enter();
        let (client, link) = self.cluster.connect();
        let running = self.runtime.spawn((self.operator)(client));
        self.process = Some(Process { running, link });
    }

    /// Starts the operator so that it is killed after this many writes.
    pub fn start_doomed(&mut self, writes: usize) {
        self.start();
        if let Some(process) = &self.process {
            process.link.kill_after(writes);
        }
    }

    /// Kills the operator.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// True when no operator runs that can still do something.
    pub fn is_killed(&self) -> bool {
        self.process
            .as_ref()
            .is_none_or(|process| !process.link.is_alive())
    }

    /// Several stages of one test have a clock each.
    fn set_clock(&self) {
        let _entered = self.runtime.enter();
        let passed = Instant::now().duration_since(self.began.1);
        let now = self.began.0.checked_add(passed);
        clock::start_at(now.unwrap_or(Timestamp::MAX));
    }
}
