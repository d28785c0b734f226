//! Times of polls for newer content.

use super::update_pods::writes;
use super::*;
use crate::catalog_source::polling::{Poll, interval_error, schedule};

pub(super) fn polled(interval: Option<&str>) -> CatalogSource {
    let mut source = source(json!({"sourceType": "grpc", "image": IMAGE,
        "updateStrategy": {"registryPoll": {"interval": interval}}}));
    source.metadata.creation_timestamp = Some(Time(earlier(3600)));
    let connected =
        json!({"connectionState": {"address": "cat-a.ns.svc:50051", "lastObservedState": "READY"}});
    source.status = Some(serde_json::from_value(connected).unwrap());
    source
}

pub(super) fn scheduled(source: &CatalogSource) -> Option<Poll> {
    schedule(source, &source::parse_source(source), earlier(86_400), now())
}

/// Returns the seconds until the next poll of a catalog that was just polled.
fn pause(interval: Option<&str>) -> i64 {
    let mut source = polled(interval);
    source.status =
        Some(serde_json::from_value(json!({"latestImageRegistryPoll": now().to_string()})).unwrap());
    scheduled(&source).unwrap().due.as_second() - now().as_second()
}

#[test]
fn cat_017_the_interval_of_polls_is_the_specs_within_bounds() {
    for (interval, seconds) in [
        (Some("45s"), 45),
        (Some("30m0s"), 1800),
        (Some("10h"), 36_000),
        // An invalid interval counts as 15 minutes, and short ones are raised.
        (None, 900),
        (Some(""), 900),
        (Some("45mError.code"), 900),
        (Some("0s"), 30),
        (Some("-5m"), 30),
        (Some("1ns"), 30),
        (Some("2000000h"), 100 * 365 * 86_400),
    ] {
        let spread = pause(interval) - seconds;
        assert!(
            (0..=(seconds / 10).min(300)).contains(&spread),
            "{interval:?}: {spread}"
        );
    }
}

#[test]
fn an_interval_that_cannot_be_read_is_reported_in_upstreams_words_and_the_catalog_serves() {
    let source = polled(Some("45mError.code"));
    let mut observed = converged(source);
    observed.connection = ConnectionState::Connecting;
    let status = status_of(&observed);
    assert_eq!(status.reason.as_deref(), Some("InvalidIntervalError"));
    assert_eq!(
        status.message.as_deref(),
        Some(
            "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. \
             Error: time: unknown unit \"mError\" in duration \"45mError.code\""
        )
    );
    assert_eq!(status.connection_state.unwrap().last_observed_state, "READY");
    assert_eq!(writes(&observed), "");
    assert!(
        interval_error(&polled(None))
            .unwrap()
            .ends_with("time: invalid duration \"\"")
    );
    // Once the spec is corrected, the error is removed.
    let mut observed = converged(polled(Some("45m")));
    observed.connection = ConnectionState::Connecting;
    assert_eq!(status_of(&observed).reason, None);
}

#[test]
fn only_images_behind_a_tag_are_polled() {
    let poll = json!({"registryPoll": {"interval": "45s"}});
    let digest = format!("quay.io/x/cat@sha256:{}", "0".repeat(64));
    for (spec, expected) in [
        (
            json!({"sourceType": "grpc", "image": IMAGE, "updateStrategy": poll}),
            true,
        ),
        (
            json!({"sourceType": "grpc", "image": IMAGE, "address": "a:1", "updateStrategy": poll}),
            true,
        ),
        (
            json!({"sourceType": "grpc", "image": IMAGE, "updateStrategy": {}}),
            false,
        ),
        (
            json!({"sourceType": "grpc", "image": IMAGE, "updateStrategy": {"registryPoll": null}}),
            false,
        ),
        (json!({"sourceType": "grpc", "image": IMAGE}), false),
        (
            json!({"sourceType": "grpc", "image": digest, "updateStrategy": poll}),
            false,
        ),
        (
            json!({"sourceType": "grpc", "image": "No Image", "updateStrategy": poll}),
            false,
        ),
        (
            json!({"sourceType": "grpc", "address": "a:1", "updateStrategy": poll}),
            false,
        ),
        (
            json!({"sourceType": "configmap", "configMap": "content", "updateStrategy": poll}),
            false,
        ),
        (json!({"sourceType": "grpc", "updateStrategy": poll}), false),
    ] {
        assert_eq!(scheduled(&source(spec.clone())).is_some(), expected, "{spec}");
    }
}

/// Catalogs that were created together, or were overdue when this process started, are not polled together.
#[test]
fn polls_of_many_catalogs_are_spread() {
    let due = |uid: usize, interval: &str, started| {
        let mut source = polled(Some(interval));
        source.metadata.uid = Some(uid.to_string());
        let poll = schedule(&source, &source::parse_source(&source), started, now());
        poll.unwrap().due.as_second()
    };
    let spread = |interval: &str, started: Timestamp, from: i64, longest: i64| {
        let all: Vec<i64> = (0..1000).map(|uid| due(uid, interval, started)).collect();
        assert_eq!(
            all,
            (0..1000)
                .map(|uid| due(uid, interval, started))
                .collect::<Vec<_>>()
        );
        let (first, last) = (*all.iter().min().unwrap(), *all.iter().max().unwrap());
        assert_eq!((first - from, last - from), (0, longest), "{interval}");
    };
    let created = earlier(3600).as_second();
    spread("10m", earlier(86_400), created + 600, 60);
    spread("10h", earlier(86_400), created + 36_000, 300);
    spread("10m", now(), now().as_second(), 60);
}

/// A clock that was wrong once does not end polling.
#[test]
fn a_poll_in_the_far_future_does_not_count() {
    let mut source = polled(Some("10m"));
    source.status =
        Some(serde_json::from_value(json!({"latestImageRegistryPoll": "2099-01-01T00:00:00Z"})).unwrap());
    assert!(scheduled(&source).unwrap().is_due(now()));
}
