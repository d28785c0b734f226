//! A cluster with OLM deployed, as the start of a benchmark.

use crate::cluster::{Cluster, UpOptions};
use crate::deploy;
use crate::images::Built;
use crate::kubectl::Destination;
use crate::progress::Progress;

/// The embedded cluster with OLM's programs.
pub(super) struct Deployed {
    pub(super) cluster: Cluster,
    /// kubectl for the cluster.
    pub(super) destination: Destination,
    /// The deployed images.
    pub(super) built: Built,
}

impl Deployed {
    /// Starts the cluster `name` if necessary and deploys the `images`.
    ///
    /// # Errors
    /// The cluster cannot be started, or the images or the deployment fail.
    pub(super) fn on(
        name: &str,
        images: fn(&Progress) -> anyhow::Result<Built>,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let cluster = Cluster::up(name, UpOptions::default(), progress)?;
        let built = images(progress)?;
        built.load(&cluster, progress)?;
        let destination = Destination::Embedded(cluster.clone());
        deploy::deploy(&destination, &built, None, progress)?;
        Ok(Self {
            cluster,
            destination,
            built,
        })
    }

    /// Replaces the operators' pods, so that their processes start with fresh memory.
    ///
    /// # Errors
    /// The operators do not become ready again.
    pub(super) fn restart(&self, progress: &Progress) -> anyhow::Result<()> {
        self.destination
            .run(&["delete", "pods", "-n", "olm", "--all", "--wait=true"])?;
        deploy::deploy(&self.destination, &self.built, None, progress)
    }
}
