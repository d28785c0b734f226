//! The text of the metrics, made once for all who ask within a second.
//!
//! It is made on the thread that serves everything else, of everything the stores hold, and whoever reaches the process may ask for
//! it as often as they like.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Metrics;

/// How old a text may be that is handed out. Prometheus asks every few seconds at most.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The last text that was made, and when.
#[derive(Debug, Default)]
pub struct Page(Mutex<Option<(Instant, Arc<str>)>>);

impl Page {
    /// All metrics in Prometheus' text format, at most a second old.
    ///
    /// # Errors
    /// When a figure cannot be told as text: a bug.
    pub fn text(&self, metrics: &Metrics) -> prometheus::Result<Arc<str>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, text)) = &*last
            && made.elapsed() < MAX_AGE
        {
            return Ok(Arc::clone(text));
        }
        let text: Arc<str> = metrics.text()?.into();
        *last = Some((Instant::now(), Arc::clone(&text)));
        Ok(text)
    }
}
