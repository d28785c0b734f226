//! Clusters for tests: one shared by all, and scratch ones for tests that break things.

use std::ops::Deref;

use xtask::cluster::{CLUSTER_VARIABLE, Cluster, UpOptions};
use xtask::progress::Progress;

/// The cluster all tests share, started if need be and left running: the one `cargo xtask test` names, else `test`.
///
/// # Errors
/// Those of starting it.
pub fn shared() -> anyhow::Result<Cluster> {
    let name = std::env::var(CLUSTER_VARIABLE).unwrap_or_else(|_| "test".to_owned());
    Cluster::up(&name, UpOptions::default(), &Progress::start())
}

/// A cluster of a test's own; taken down and forgotten when dropped.
#[derive(Debug)]
pub struct Scratch {
    cluster: Cluster,
}

impl Scratch {
    /// Starts a new cluster; one of that name left over from an earlier run is removed first.
    ///
    /// # Errors
    /// Those of removing and starting it.
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
