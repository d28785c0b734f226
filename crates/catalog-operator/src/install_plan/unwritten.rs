//! The status of a plan whose next reconcile follows at once: it is written with the results of that one.

use std::sync::Arc;

use kube::ResourceExt;
use olm_api::v1alpha1::{InstallPlan, InstallPlanStatus};

/// A status that is not written yet. A process that ends loses it; the next one finds the objects of its steps.
#[derive(Debug)]
pub struct Unwritten {
    /// The plan in the cluster.
    pub stored: Arc<InstallPlan>,
    /// Its new status.
    pub status: InstallPlanStatus,
}

impl Unwritten {
    /// Returns `stored` with the new status; `None` if it is another plan or its status has changed.
    pub(crate) fn applied_to(&self, stored: &Arc<InstallPlan>) -> Option<Arc<InstallPlan>> {
        let is_same = self.stored.uid() == stored.uid() && self.stored.status == stored.status;
        is_same.then(|| {
            let mut plan = InstallPlan::clone(stored);
            plan.status = Some(self.status.clone());
            Arc::new(plan)
        })
    }
}
