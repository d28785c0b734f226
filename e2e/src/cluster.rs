//! Clusters for tests: one shared by all, and scratch clusters for destructive tests.

use std::ops::Deref;

use xtask::cluster::{CLUSTER_VARIABLE, Cluster, UpOptions};
use xtask::progress::Progress;

/// Returns the cluster all tests share, started if needed and kept running: the one `cargo xtask test` names, else `test`.
///
/// # Errors
/// The errors of starting it.
pub fn shared() -> anyhow::Result<Cluster> {
    let name = std::env::var(CLUSTER_VARIABLE).unwrap_or_else(|_| "test".to_owned());
    Cluster::up(&name, UpOptions::default(), &Progress::start())
}

/// A cluster for one test; stopped and deleted when dropped.
#[derive(Debug)]
pub struct Scratch {
    cluster: Cluster,
}

impl Scratch {
    /// Starts a new cluster; one of that name from an earlier run is removed first.
    ///
    /// # Errors
    /// The errors of removing and starting it.
    pub fn start(name: &str, options: UpOptions) -> anyhow::Result<Self> {
        Cluster::down(name, false)?;
        let cluster = Cluster::up(name, options, &Progress::start())?;
        Ok(Self { cluster })
    }
}

impl Deref for Scratch {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = Cluster::down(self.cluster.name(), false) {
            eprintln!("cannot take down {}: {error:#}", self.cluster.name());
        }
    }
}
