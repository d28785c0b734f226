//! Figures that are read at collection, so that no copy has to be kept up to date.

use std::collections::BTreeMap;

use prometheus::core::{Collector, Desc, Describer as _};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts};

use crate::sync::Mutex;

/// Figures of one gauge with one label, which exist as long as their sources.
#[derive(Default)]
pub(super) struct Samples(Mutex<Vec<Sample>>);

struct Sample {
    label: String,
    /// Reads the figure. `None` if the source is gone; the sample is then removed.
    read: Box<dyn Fn() -> Option<usize> + Send>,
}

impl Samples {
    pub(super) fn add(&self, label: &str, read: impl Fn() -> Option<usize> + Send + 'static) {
        let mut all = self.0.lock();
        // Removes ended samples here, since the metrics may never be collected while watches are created and removed.
        all.retain(|earlier| (earlier.read)().is_some());
        all.push(Sample {
            label: label.to_owned(),
            read: Box::new(read),
        });
    }

    /// Returns the figures. Several with the same label, as of two stores of one kind, are added up.
    pub(super) fn read(&self) -> Vec<([String; 1], i64)> {
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        self.0.lock().retain(|sample| {
            let Some(figure) = (sample.read)() else {
                return false;
            };
            let sum = sums.entry(sample.label.clone()).or_default();
            *sum = sum.saturating_add(i64::try_from(figure).unwrap_or(i64::MAX));
            true
        });
        sums.into_iter().map(|(label, sum)| ([label], sum)).collect()
    }
}

/// Type of the metric.
#[derive(Debug, Clone, Copy)]
pub(super) enum Figure {
    Gauge,
    Counter,
}

/// Figures whose series are built at each collection.
pub(super) struct ReadFigures<R> {
    figure: Figure,
    options: Opts,
    desc: Desc,
    read: R,
}

impl<R> ReadFigures<R> {
    pub(super) fn new<const N: usize>(
        figure: Figure,
        name: &str,
        help: &str,
        labels: [&str; N],
        read: R,
    ) -> prometheus::Result<Self> {
        let options = Opts::new(name, help).variable_labels(labels.map(str::to_owned).to_vec());
        let desc = options.describe()?;
        Ok(Self {
            figure,
            options,
            desc,
            read,
        })
    }
}

impl<R, const N: usize> Collector for ReadFigures<R>
where
    R: Fn() -> Vec<([String; N], i64)> + Send + Sync,
{
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let labels: Vec<&str> = self.desc.variable_labels.iter().map(String::as_str).collect();
        let figures = (self.read)();
        let figures = figures
            .iter()
            .map(|(values, figure)| (values.each_ref().map(String::as_str), *figure));
        match self.figure {
            Figure::Gauge => {
                let Ok(gauges) = IntGaugeVec::new(self.options.clone(), &labels) else {
                    return Vec::new();
                };
                figures.for_each(|(values, figure)| gauges.with_label_values(&values).set(figure));
                gauges.collect()
            }
            Figure::Counter => {
                let Ok(counters) = IntCounterVec::new(self.options.clone(), &labels) else {
                    return Vec::new();
                };
                figures.for_each(|(values, figure)| {
                    let figure = u64::try_from(figure).unwrap_or_default();
                    counters.with_label_values(&values).inc_by(figure);
                });
                counters.collect()
            }
        }
    }
}
