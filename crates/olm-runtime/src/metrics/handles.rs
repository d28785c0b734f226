//! Handles of the metrics of a program. The default of each counts nothing.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounter, IntCounterVec};

/// Counter of a program. Clones share the same figure.
#[derive(Debug, Clone, Default)]
pub struct Counter(pub(super) Option<IntCounter>);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        if let Some(counter) = &self.0 {
            counter.inc();
        }
    }
}

/// Like [`Counter`], with labels.
#[derive(Debug, Clone, Default)]
pub struct Counters<const N: usize>(pub(super) Option<IntCounterVec>);

impl<const N: usize> Counters<N> {
    /// Adds one to the series with these label values.
    pub fn increment(&self, values: [&str; N]) {
        if let Some(counters) = &self.0 {
            counters.with_label_values(&values).inc();
        }
    }
}

/// Histogram of durations with labels. Clones share the same figures.
#[derive(Debug, Clone, Default)]
pub struct Durations<const N: usize>(pub(super) Option<HistogramVec>);

impl<const N: usize> Durations<N> {
    /// Adds a duration to the series with these label values.
    pub fn observe(&self, values: [&str; N], duration: Duration) {
        if let Some(histograms) = &self.0 {
            histograms
                .with_label_values(&values)
                .observe(duration.as_secs_f64());
        }
    }
}
