//! Prometheus metrics of driver, executor, client and stores.
//!
//! Metrics that controller-runtime and client-go also have use their names, so that dashboards of other operators work. Names of other
//! metrics start with `olm_`. `docs/reference/metrics.md` lists them all.

mod handles;
mod read;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus::core::Collector;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry, TEXT_FORMAT, TextEncoder,
};
use tokio::time::Instant;

pub use self::handles::{Counter, Counters, Durations};
use self::read::{Figure, ReadFigures, Samples};
pub use self::summary::Summary;

use crate::args::COMMIT;
use crate::outcome::Outcome;
use crate::plan::Action;
use crate::sync::Mutex;

/// Bucket bounds of the reconcile histogram, in seconds. A reconcile without reads and writes takes less than the first bound. One that
/// waits for a server ends with [`REQUEST_DEADLINE`](crate::client::REQUEST_DEADLINE) at the latest.
const ROUND_SECONDS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];

/// Maximum age of [`Metrics::page`]. Prometheus scrapes every few seconds at most.
const PAGE_AGE: Duration = Duration::from_secs(1);

/// Metrics of a process. Clones share the same registry. The default counts nothing, for tests and models.
///
/// Counting is a lookup by labels and an addition; it allocates only for a new combination of labels. Values that are available at any
/// time (queue depths, objects in stores) are read when the metrics are collected.
#[derive(Clone, Default)]
pub struct Metrics {
    registry: Option<Registry>,
    own: Arc<Own>,
}

/// Metrics that every process has.
#[derive(Default)]
struct Own {
    rounds: Counters<2>,
    errors: Counters<1>,
    panics: Counters<1>,
    failures: Counters<2>,
    round_seconds: Durations<1>,
    pauses: Counters<1>,
    queue_depth: Arc<Samples>,
    requests: Counters<2>,
    writes: Counters<2>,
    watch_restarts: Counters<1>,
    objects: Arc<Samples>,
    /// Counters of events, by reason.
    events: Mutex<BTreeMap<&'static str, Counter>>,
    /// Last page, and the time when it was encoded.
    page: Mutex<Option<(Instant, Bytes)>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Media type of [`Metrics::text`].
    pub const MEDIA_TYPE: &'static str = TEXT_FORMAT;

    /// Creates metrics with their own registry.
    pub fn registered() -> Self {
        let metrics = Self {
            registry: Some(Registry::new()),
            own: Arc::default(),
        };
        let own = Own {
            rounds: metrics.counters(
                "controller_runtime_reconcile_total",
                "Finished reconciles, by controller and result",
                ["controller", "result"],
            ),
            errors: metrics.counters(
                "controller_runtime_reconcile_errors_total",
                "Reconciles in which a read or write failed or that panicked, by controller",
                ["controller"],
            ),
            panics: metrics.counters(
                "controller_runtime_reconcile_panics_total",
                "Reconciles that panicked, by controller",
                ["controller"],
            ),
            failures: metrics.counters(
                "olm_reconcile_failures_total",
                "Failed reconciles, by controller and first cause",
                ["controller", "reason"],
            ),
            round_seconds: metrics.durations(
                "controller_runtime_reconcile_time_seconds",
                "Duration of reconciles, by controller",
                ["controller"],
                &ROUND_SECONDS,
            ),
            pauses: metrics.counters(
                "olm_reconcile_pauses_total",
                "Reconciles after which the key was rate limited because of repeated writes, by controller",
                ["controller"],
            ),
            queue_depth: metrics.samples(
                "workqueue_depth",
                "Keys waiting for a worker, without delayed ones, by queue",
                "name",
            ),
            requests: metrics.counters(
                "rest_client_requests_total",
                "Requests to the API server, by status code and method",
                ["code", "method"],
            ),
            writes: metrics.counters(
                "olm_writes_total",
                "Writes of the executor, by verb and outcome",
                ["verb", "outcome"],
            ),
            watch_restarts: metrics.counters(
                "olm_watch_restarts_total",
                "Watches that were interrupted and restarted, by resource",
                ["resource"],
            ),
            objects: metrics.samples("olm_store_objects", "Objects in stores, by resource", "resource"),
            ..Own::default()
        };
        Self {
            own: Arc::new(own),
            ..metrics
        }
    }

    /// Registers a gauge of figures whose sources are added later.
    fn samples(&self, name: &str, help: &str, label: &str) -> Arc<Samples> {
        let samples = Arc::<Samples>::default();
        let asked = Arc::clone(&samples);
        self.gauges(name, help, [label], move || asked.read());
        samples
    }

    /// Registers a gauge of a program. `read` returns its series, label values and figure, at each collection, so no series outlives its
    /// subject. `name` must be valid for Prometheus and unused; otherwise the gauge is missing and the log has the reason.
    pub fn gauges<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
        read: impl Fn() -> Vec<([String; N], i64)> + Send + Sync + 'static,
    ) {
        self.register(name, ReadFigures::new(Figure::Gauge, name, help, labels, read));
    }

    /// Like [`gauges`](Self::gauges), for figures that only increase while they exist.
    pub fn read_counters<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
        read: impl Fn() -> Vec<([String; N], i64)> + Send + Sync + 'static,
    ) {
        self.register(name, ReadFigures::new(Figure::Counter, name, help, labels, read));
    }

    /// Registers a counter of a program without labels, which starts at 0. `name` as for [`gauges`](Self::gauges).
    pub fn counter(&self, name: &str, help: &str) -> Counter {
        let counter = IntCounter::new(name, help);
        let handle = counter.as_ref().ok().cloned();
        self.register(name, counter);
        Counter(handle)
    }

    /// Registers counters of a program, one for each counted combination of `labels`. `name` as for [`gauges`](Self::gauges).
    pub fn counters<const N: usize>(&self, name: &str, help: &str, labels: [&str; N]) -> Counters<N> {
        let counters = IntCounterVec::new(Opts::new(name, help), &labels);
        let handle = counters.as_ref().ok().cloned();
        self.register(name, counters);
        Counters(handle)
    }

    /// Registers a counter of the events that controllers send with `reason`. `name` as for [`gauges`](Self::gauges).
    pub fn counter_of_events(&self, name: &str, help: &str, reason: &'static str) {
        let counter = self.counter(name, help);
        self.own.events.lock().insert(reason, counter);
    }

    /// Registers a histogram of durations with these upper `bounds` in seconds. `name` as for [`gauges`](Self::gauges).
    pub fn durations<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
        bounds: &[f64],
    ) -> Durations<N> {
        let options = HistogramOpts::new(name, help).buckets(bounds.to_vec());
        let histograms = HistogramVec::new(options, &labels);
        let handle = histograms.as_ref().ok().cloned();
        self.register(name, histograms);
        Durations(handle)
    }

    /// Registers a summary of durations with one label. `name` as for [`gauges`](Self::gauges).
    pub fn summary(&self, name: &str, help: &str, label: &'static str) -> Summary {
        let summary = Summary::default();
        self.register(name, summary.collector(name, help, label));
        summary
    }

    /// Registers the version of this build, and CPU time, memory, open files and start time of this process under the names that all
    /// exporters use. Without `/proc` the latter are missing.
    pub fn of_the_process(&self) {
        let build = || {
            let commit = COMMIT.unwrap_or_default();
            vec![([commit.to_owned(), env!("CARGO_PKG_VERSION").to_owned()], 1)]
        };
        self.gauges(
            "olm_build_info",
            "1, with the version and the git commit of this build",
            ["commit", "version"],
            build,
        );
        #[cfg(target_os = "linux")]
        self.register(
            "process",
            Ok(prometheus::process_collector::ProcessCollector::for_self()),
        );
    }

    fn register(&self, name: &str, collector: prometheus::Result<impl Collector + 'static>) {
        let Some(registry) = &self.registry else {
            return;
        };
        let registration = collector.and_then(|collector| registry.register(Box::new(collector)));
        if let Err(error) = registration {
            tracing::error!(name, "a metric is missing, which is a bug: {error}");
        }
    }

    /// Returns all metrics in Prometheus' text format; empty if nothing is counted.
    ///
    /// # Errors
    /// If a figure cannot be encoded: a bug.
    pub fn text(&self) -> prometheus::Result<String> {
        let families = self.registry.as_ref().map(Registry::gather);
        TextEncoder::new().encode_to_string(&families.unwrap_or_default())
    }

    /// Returns the [`text`](Self::text) for clients, at most a second old. Clients may request it without limit, and encoding all series
    /// blocks the thread that runs the controllers.
    ///
    /// # Errors
    /// If a figure cannot be encoded: a bug.
    pub fn page(&self) -> prometheus::Result<Bytes> {
        let mut page = self.own.page.lock();
        if let Some((encoded_at, text)) = &*page
            && encoded_at.elapsed() < PAGE_AGE
        {
            return Ok(text.clone());
        }
        let text = Bytes::from(self.text()?);
        *page = Some((Instant::now(), text.clone()));
        Ok(text)
    }

    /// Returns the sum of all counters called `name`, with any labels; 0 if there are none.
    pub fn total(&self, name: &str) -> f64 {
        let families = self.registry.iter().flat_map(Registry::gather);
        families
            .filter(|family| family.name() == name)
            .flat_map(|family| family.get_metric().to_vec())
            .map(|metric| metric.get_counter().get_value())
            .sum()
    }

    /// Counts a reconcile. `result` is controller-runtime's label: `success`, `requeue_after` or `error`.
    pub(crate) fn round_ended(&self, controller: &str, result: &str, duration: Duration) {
        self.own.round_seconds.observe([controller], duration);
        self.own.rounds.increment([controller, result]);
    }

    /// Counts a failed reconcile. `reason` is `observe`, `panic` or the class of the first refusal.
    pub(crate) fn round_failed(&self, controller: &str, reason: &str) {
        self.own.errors.increment([controller]);
        self.own.failures.increment([controller, reason]);
    }

    pub(crate) fn round_panicked(&self, controller: &str) {
        self.own.panics.increment([controller]);
    }

    pub(crate) fn key_paused(&self, controller: &str) {
        self.own.pauses.increment([controller]);
    }

    /// Counts a request. `code` is that of the answer, or `<error>` without one.
    pub(crate) fn requested(&self, code: &str, method: &str) {
        self.own.requests.increment([code, method]);
    }

    pub(crate) fn wrote(&self, action: &Action, outcome: &Outcome) {
        let outcome = match outcome {
            Outcome::Done(_) => "done",
            Outcome::Kept => "kept",
            Outcome::Gone => "gone",
            Outcome::Failed(failure) => failure.class.label(),
            Outcome::NotAttempted => return,
        };
        self.own.writes.increment([action.verb(), outcome]);
    }

    /// Counts a write or an Event that the gate held back.
    pub(crate) fn held_back(&self, verb: &str) {
        self.own.writes.increment([verb, "held_back"]);
    }

    pub(crate) fn told(&self, reason: &str) {
        if let Some(counter) = self.own.events.lock().get(reason) {
            counter.increment();
        }
    }

    pub(crate) fn watch_restarted(&self, resource: &str) {
        self.own.watch_restarts.increment([resource]);
    }

    /// Registers `depth`, which returns the number of keys that wait in the queue of `controller`.
    pub(crate) fn sample_queue(&self, controller: &str, depth: impl Fn() -> Option<usize> + Send + 'static) {
        self.own.queue_depth.add(controller, depth);
    }

    /// Registers `objects`, which returns the number of objects of `resource` in a store.
    pub(crate) fn sample_store(&self, resource: &str, objects: impl Fn() -> Option<usize> + Send + 'static) {
        self.own.objects.add(resource, objects);
    }
}
