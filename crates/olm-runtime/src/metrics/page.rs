//! Cached text of the metrics, built at most once per second.
//!
//! It is built from all stores, on the thread that serves everything else. Any client that reaches the process may request it without
//! limit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::Metrics;

/// Maximum age of the cached text. Prometheus scrapes every few seconds at most.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Last text, and when it was built.
#[derive(Debug, Default)]
pub struct Page(Mutex<Option<(Instant, Bytes)>>);

impl Page {
    /// Returns all metrics in Prometheus' text format, at most a second old.
    ///
    /// # Errors
    /// If a figure cannot be encoded: a bug.
    pub fn text(&self, metrics: &Metrics) -> prometheus::Result<Bytes> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, text)) = &*last
            && made.elapsed() < MAX_AGE
        {
            return Ok(text.clone());
        }
        let text: Bytes = metrics.text()?.into();
        *last = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}
