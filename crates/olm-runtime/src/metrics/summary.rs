//! Summary of durations with count, sum and quantiles, which the library lacks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use prometheus::Opts;
use prometheus::core::{Collector, Desc, Describer as _};
use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType, Quantile, Summary as Told};
use tokio::time::Instant;

use crate::sync::Mutex;

/// Reported quantiles, the same as upstream's.
const QUANTILES: [f64; 3] = [0.9, 0.95, 0.99];
/// Time window of the quantiles, as in Prometheus' Go library.
const WINDOW: Duration = Duration::from_secs(600);
/// Maximum number of durations per series used for quantiles; the latest are kept.
const KEPT: usize = 1000;

/// Quantiles of the last minutes, and count and sum of all durations. Clones share the same figures. The default is not exported.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    series: Arc<Mutex<BTreeMap<&'static str, Series>>>,
}

#[derive(Debug, Default)]
struct Series {
    count: u64,
    sum: f64,
    latest: VecDeque<(Instant, f64)>,
}

impl Summary {
    /// Adds a duration to the series with this label value.
    pub fn observe(&self, value: &'static str, duration: Duration) {
        let mut series = self.series.lock();
        let series = series.entry(value).or_default();
        let seconds = duration.as_secs_f64();
        series.count = series.count.saturating_add(1);
        series.sum += seconds;
        if series.latest.len() == KEPT {
            series.latest.pop_front();
        }
        series.latest.push_back((Instant::now(), seconds));
    }

    /// Returns a collector that exports the summary under `name`.
    pub(super) fn collector(
        &self,
        name: &str,
        help: &str,
        label: &'static str,
    ) -> prometheus::Result<impl Collector + use<>> {
        let options = Opts::new(name, help).variable_label(label);
        Ok(ToldSummary {
            desc: options.describe()?,
            summary: self.clone(),
        })
    }
}

impl Series {
    fn told(&mut self) -> Told {
        let now = Instant::now();
        self.latest
            .retain(|(at, _)| now.saturating_duration_since(*at) < WINDOW);
        let mut sorted: Vec<f64> = self.latest.iter().map(|(_, seconds)| *seconds).collect();
        sorted.sort_by(f64::total_cmp);
        let quantile = |of: f64| {
            let mut quantile = Quantile::default();
            quantile.set_quantile(of);
            quantile.set_value(at_quantile(&sorted, of));
            quantile
        };
        let mut told = Told::default();
        told.set_sample_count(self.count);
        told.set_sample_sum(self.sum);
        told.set_quantile(QUANTILES.map(quantile).to_vec());
        told
    }
}

/// Returns the smallest value of `sorted` with at least the share `of` at or below it. NaN if there are none, as upstream reports.
fn at_quantile(sorted: &[f64], of: f64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not more than KEPT, and not below 0"
    )]
    let rank = (of * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

struct ToldSummary {
    desc: Desc,
    summary: Summary,
}

impl Collector for ToldSummary {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let label = self.desc.variable_labels.first().cloned().unwrap_or_default();
        let mut series = self.summary.series.lock();
        let told = series.iter_mut().map(|(value, series)| {
            let mut pair = LabelPair::default();
            pair.set_name(label.clone());
            pair.set_value((*value).to_owned());
            let mut metric = Metric::from_label(vec![pair]);
            metric.set_summary(series.told());
            metric
        });
        let mut family = MetricFamily::default();
        family.set_metric(told.collect());
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(MetricType::SUMMARY);
        vec![family]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn met_011_a_quantile_is_a_value_that_was_there() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        let told = QUANTILES.map(|of| at_quantile(&sorted, of));
        assert_eq!(told, [90.0, 95.0, 99.0]);
        assert_eq!(at_quantile(&[7.0], 0.9), 7.0);
        assert!(at_quantile(&[], 0.9).is_nan());
    }

    #[tokio::test(start_paused = true)]
    async fn met_011_quantiles_look_back_ten_minutes_and_no_longer() {
        let summary = Summary::default();
        summary.observe("failed", Duration::from_secs(9));
        let told = || {
            let mut series = summary.series.lock();
            series.get_mut("failed").unwrap().told().get_quantile()[0].value()
        };
        tokio::time::advance(Duration::from_secs(599)).await;
        assert_eq!(told(), 9.0);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(told().is_nan());
    }

    /// After ten minutes a duration no longer affects the quantiles, but still count and sum. The number of kept durations is bounded.
    #[tokio::test(start_paused = true)]
    async fn met_011_quantiles_are_of_the_last_minutes_and_bounded() {
        let summary = Summary::default();
        summary.observe("failed", Duration::from_secs(9));
        tokio::time::advance(WINDOW).await;
        for _ in 0..KEPT + 5 {
            summary.observe("failed", Duration::from_secs(1));
        }
        let told = |summary: &Summary| summary.series.lock().get_mut("failed").unwrap().told();
        let now = told(&summary);
        assert_eq!(now.sample_count(), 1006);
        assert_eq!(now.sample_sum(), 1014.0);
        assert_eq!(now.get_quantile()[2].value(), 1.0);
        assert_eq!(summary.series.lock()["failed"].latest.len(), KEPT);
        tokio::time::advance(WINDOW).await;
        assert!(told(&summary).get_quantile()[0].value().is_nan());
    }
}
