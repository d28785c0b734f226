//! What a program counts with. Each is a handle; its default counts nothing.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounter, IntCounterVec};

/// Counts what a program wants to be known; a clone is another handle to the same figure.
#[derive(Debug, Clone, Default)]
pub struct Counter(pub(super) Option<IntCounter>);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        if let Some(counter) = &self.0 {
            counter.inc();
        }
    }
}

/// As [`Counter`], with labels.
#[derive(Debug, Clone, Default)]
pub struct Counters<const N: usize>(pub(super) Option<IntCounterVec>);

impl<const N: usize> Counters<N> {
    /// One more of the series with these values of the labels.
    pub fn increment(&self, values: [&str; N]) {
        if let Some(counters) = &self.0 {
            counters.with_label_values(&values).inc();
        }
    }
}

/// Durations by how long they were, with labels; a clone is another handle to the same figures.
#[derive(Debug, Clone, Default)]
pub struct Durations<const N: usize>(pub(super) Option<HistogramVec>);

impl<const N: usize> Durations<N> {
    /// One more of the series with these values of the labels.
    pub fn observe(&self, values: [&str; N], duration: Duration) {
        if let Some(histograms) = &self.0 {
            histograms
                .with_label_values(&values)
                .observe(duration.as_secs_f64());
        }
    }
}
