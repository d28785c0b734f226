//! Readiness of this process for requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The preconditions of readiness. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    knows_front_proxy: Arc<AtomicBool>,
    has_read_catalogs: Arc<AtomicBool>,
    is_stopping: Arc<AtomicBool>,
}

impl Readiness {
    /// Records that the settings for recognising the API server are known.
    pub fn knows_front_proxy(&self) {
        self.knows_front_proxy.store(true, Ordering::SeqCst);
    }

    /// Records that all readable catalogs have been read, or that the time for it is up.
    pub fn has_read_catalogs(&self) {
        self.has_read_catalogs.store(true, Ordering::SeqCst);
    }

    /// Records that the process is about to end. It serves requests until clients are sent elsewhere.
    pub fn stops(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
    }

    /// Returns the missing precondition; `None` when ready.
    pub fn missing(&self) -> Option<&'static str> {
        let is = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
        if is(&self.is_stopping) {
            Some("stopping")
        } else if !is(&self.knows_front_proxy) {
            Some("waiting for the front proxy settings of the API server")
        } else if !is(&self.has_read_catalogs) {
            Some("waiting for catalogs to be read")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_who_has_everything_and_is_not_stopping() {
        let readiness = Readiness::default();
        assert!(readiness.missing().unwrap().contains("API server"));
        readiness.knows_front_proxy();
        assert!(readiness.missing().unwrap().contains("catalogs"));
        readiness.has_read_catalogs();
        assert_eq!(readiness.missing(), None);
        readiness.clone().stops();
        assert_eq!(readiness.missing(), Some("stopping"));
    }
}
