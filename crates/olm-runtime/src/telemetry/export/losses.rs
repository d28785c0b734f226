//! Spans that do not reach the collector, because the queue was full or the collector refused them. The library reports only the former,
//! once, when the process ends. Here both are logged, at most once a minute.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use opentelemetry::Context;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor},
};

/// Minimum time between two log lines.
const PAUSE: Duration = Duration::from_secs(60);

/// Number of waiting spans, and of spans lost since the last log line.
#[derive(Debug)]
pub(super) struct Losses {
    /// Maximum number of waiting spans.
    room: usize,
    waiting: AtomicUsize,
    beyond: AtomicUsize,
    refused: AtomicUsize,
    /// Spans of the current batch that the collector refused.
    left_out: AtomicUsize,
    told: Mutex<Option<Instant>>,
}

/// Number of spans lost since the last log line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// Spans dropped because the queue was full.
    beyond: usize,
    /// Spans that the collector refused, as whole batches or parts of them.
    pub(super) refused: usize,
}

impl Losses {
    /// Creates the counters for a queue of `room` spans.
    pub(super) fn new(room: usize) -> Arc<Self> {
        Arc::new(Self {
            room,
            waiting: AtomicUsize::new(0),
            beyond: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            left_out: AtomicUsize::new(0),
            told: Mutex::new(None),
        })
    }

    /// Returns true and counts a waiting span if there is room; otherwise the span counts as lost.
    fn enter(&self) -> bool {
        let more = |waiting| (waiting < self.room).then_some(waiting + 1);
        let entered = self
            .waiting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .is_ok();
        if !entered {
            self.beyond.fetch_add(1, Ordering::Relaxed);
        }
        entered
    }

    /// Records the number of refused spans of the current batch.
    pub(super) fn left_out(&self, spans: usize) {
        self.left_out.store(spans, Ordering::Relaxed);
    }

    /// Returns the losses to log at `now`: spans were lost and the last line is a minute old. With `is_last` the age does not matter.
    pub(super) fn due(&self, now: Instant, is_last: bool) -> Option<Lost> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = told.is_some_and(|told| now.saturating_duration_since(told) < PAUSE);
        if is_early && !is_last {
            return None;
        }
        let lost = Lost {
            beyond: self.beyond.swap(0, Ordering::Relaxed),
            refused: self.refused.swap(0, Ordering::Relaxed),
        };
        if lost.beyond == 0 && lost.refused == 0 {
            return None;
        }
        *told = Some(now);
        Some(lost)
    }

    fn tell(&self, now: Instant, is_last: bool) {
        if let Some(Lost { beyond, refused }) = self.due(now, is_last) {
            let room = self.room;
            tracing::warn!(
                beyond,
                refused,
                "spans were lost: `beyond` exceeded the queue of {room} (OTEL_BSP_MAX_QUEUE_SIZE), `refused` were rejected by the collector"
            );
        }
    }
}

/// Bounded queue of spans in front of a batch processor with its own thread.
#[derive(Debug)]
pub(super) struct Queue {
    batches: BatchSpanProcessor,
    losses: Arc<Losses>,
}

impl Queue {
    /// Puts the queue in front of `batches`. Its capacity must equal that of `losses`, and its exporter must be a [`Counted`] with the
    /// same.
    pub(super) fn new(batches: BatchSpanProcessor, losses: Arc<Losses>) -> Self {
        Self { batches, losses }
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.losses.enter() {
            self.batches.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        let ended = self.batches.shutdown_with_timeout(timeout);
        self.losses.tell(Instant::now(), true);
        ended
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// Exporter that counts its batches.
#[derive(Debug)]
pub(super) struct Counted<E> {
    /// Exporter that sends the batches.
    pub(super) exporter: E,
    /// Counters of the queue.
    pub(super) losses: Arc<Losses>,
}

impl<E: SpanExporter> SpanExporter for Counted<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let fewer = |waiting: usize| Some(waiting.saturating_sub(spans));
        let _ = self
            .losses
            .waiting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
        self.losses.left_out(0);
        let sent = self.exporter.export(batch).await;
        let left_out = self.losses.left_out.load(Ordering::Relaxed);
        // The reported number is limited to the spans that were sent.
        let refused = if sent.is_err() { spans } else { left_out.min(spans) };
        self.losses.refused.fetch_add(refused, Ordering::Relaxed);
        self.losses.tell(Instant::now(), false);
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use opentelemetry::trace::{Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::{
        error::OTelSdkError,
        trace::{BatchConfigBuilder, SdkTracerProvider},
    };

    use super::*;
    use crate::written::Written;

    /// Exporter that accepts or refuses batches and blocks while it is locked.
    #[derive(Debug, Clone)]
    struct Gate {
        takes: bool,
        is_open: Arc<Mutex<()>>,
        got: Arc<AtomicUsize>,
    }

    impl Gate {
        fn new(takes: bool) -> Self {
            Self {
                takes,
                is_open: Arc::default(),
                got: Arc::default(),
            }
        }
    }

    impl SpanExporter for Gate {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            drop(self.is_open.lock().unwrap());
            self.got.fetch_add(batch.len(), Ordering::Relaxed);
            if self.takes {
                Ok(())
            } else {
                Err(OTelSdkError::InternalFailure("503".to_owned()))
            }
        }
    }

    fn provider(gate: &Gate, losses: &Arc<Losses>) -> SdkTracerProvider {
        let exporter = Counted {
            exporter: gate.clone(),
            losses: Arc::clone(losses),
        };
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(losses.room)
            .build();
        let batches = BatchSpanProcessor::builder(exporter)
            .with_batch_config(config)
            .build();
        SdkTracerProvider::builder()
            .with_span_processor(Queue::new(batches, Arc::clone(losses)))
            .build()
    }

    /// Each span either reaches the exporter or is counted, with any number of threads.
    #[test]
    fn spans_beyond_the_queue_are_counted_each() {
        let (gate, losses) = (Gate::new(true), Losses::new(100));
        let provider = provider(&gate, &losses);
        let closed = gate.is_open.lock().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..500).for_each(|_| drop(provider.tracer("t").start("s"))));
            }
        });
        let beyond = losses.beyond.load(Ordering::Relaxed);
        // The queue and one batch in progress are not lost.
        assert!((1_800..=1_900).contains(&beyond), "{beyond}");
        drop(closed);
        provider.force_flush().unwrap();
        assert_eq!(gate.got.load(Ordering::Relaxed) + beyond, 2_000);
        assert_eq!(losses.waiting.load(Ordering::Relaxed), 0);
        drop(provider.tracer("t").start("s"));
        provider.force_flush().unwrap();
        assert_eq!(gate.got.load(Ordering::Relaxed) + beyond, 2_001);
    }

    #[test]
    fn what_was_lost_is_told_once_a_minute_and_in_the_end() {
        let losses = Losses::new(1);
        let start = Instant::now();
        assert_eq!(losses.due(start, false), None);
        assert!(losses.enter());
        assert!(!losses.enter());
        losses.refused.fetch_add(2, Ordering::Relaxed);
        let lost = |beyond, refused| Some(Lost { beyond, refused });
        assert_eq!(losses.due(start, false), lost(1, 2));
        losses.refused.fetch_add(3, Ordering::Relaxed);
        assert_eq!(losses.due(start + PAUSE / 2, false), None);
        assert!(!losses.enter());
        assert_eq!(losses.due(start + PAUSE, false), lost(1, 3));
        assert_eq!(losses.due(start + 3 * PAUSE, false), None);
        losses.refused.fetch_add(4, Ordering::Relaxed);
        assert_eq!(losses.due(start + PAUSE + PAUSE / 2, true), lost(0, 4));
    }

    /// The sending thread logs, so that no reconcile waits for the log.
    #[test]
    fn batches_that_are_not_taken_are_told_with_their_spans() {
        for (takes, lines) in [(true, 0), (false, 1)] {
            let (written, _here) = Written::of_this_thread();
            let exporter = Counted {
                exporter: Gate::new(takes),
                losses: Losses::new(7),
            };
            // This provider sends on the thread that ends a span, so its log can be read here.
            let provider = SdkTracerProvider::builder()
                .with_simple_exporter(exporter)
                .build();
            for _ in 0..3 {
                drop(provider.tracer("t").start("s"));
            }
            let text = written.text();
            assert_eq!(written.count("spans were lost"), lines, "{text}");
            assert_eq!(written.count("beyond=0 refused=1"), lines, "{text}");
        }
    }
}
