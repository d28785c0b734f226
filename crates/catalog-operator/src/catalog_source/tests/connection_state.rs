//! The connection state of a catalog in its status.

use super::*;

#[test]
fn cat_008_cat_018_nothing_is_dialled_before_a_pod_is_ready() {
    let mut observed = converged(image_source());
    let mut service = Service::clone(observed.service.as_ref().unwrap());
    service.spec.as_mut().unwrap().cluster_ip = Some("10.96.0.7".to_owned());
    let find = |observed: &Observed| {
        address::find_endpoint(&observed.source, &observed.parsed, Some(&service), &observed.pods)
    };
    let endpoint = find(&observed).unwrap();
    assert_eq!(
        (endpoint.address.as_str(), endpoint.dial.as_str()),
        ("cat-a.ns.svc:50051", "10.96.0.7:50051")
    );
    assert_eq!(endpoint.epoch, "uid-cat-1");
    observed.pods = vec![Arc::new(starting(Pod::clone(&observed.pods[0])))];
    assert_eq!(find(&observed), None);
    // An address is connected to at once, also when a pod runs beside it.
    for spec in [
        json!({"sourceType": "grpc", "address": "h:1"}),
        json!({"sourceType": "grpc", "image": IMAGE, "address": "h:1"}),
    ] {
        let endpoint = find(&fresh(source(spec))).unwrap();
        assert_eq!(
            (endpoint.address.as_str(), endpoint.dial.as_str()),
            ("h:1", "h:1")
        );
    }
}

/// The existing endpoint is kept as long as its pod exists; the connection shows whether it responds.
#[test]
fn what_serves_is_not_left_for_a_moment_that_it_is_not_ready() {
    let observed = converged(image_source());
    let known = |epoch: &str, may_change: bool| {
        Some(Endpoint {
            address: "a:1".to_owned(),
            dial: "a:1".to_owned(),
            epoch: epoch.to_owned(),
            may_change,
        })
    };
    let image = &observed.parsed;
    let invalid = &source::Source::Invalid("typo".to_owned());
    let address = &source::Source::Address("b:1".to_owned());
    let unready = vec![Arc::new(starting(Pod::clone(&observed.pods[0])))];
    let mut going = Pod::clone(&observed.pods[0]);
    going.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    let going = vec![Arc::new(going)];
    let dead = vec![Arc::new(with_status(
        Pod::clone(&observed.pods[0]),
        json!({"phase": "Failed"}),
    ))];
    for (endpoint, parsed, pods, stays) in [
        (known("uid-cat-1", false), image, &unready, true),
        (known("uid-cat-0,uid-cat-1", false), image, &unready, true),
        (known("uid-cat-0", false), image, &unready, false),
        (known("uid-cat-1", false), image, &going, false),
        (known("uid-cat-1", false), image, &dead, false),
        (known("uid-cat-1", false), image, &vec![], false),
        // It was an address source before.
        (known("uid-cat-1", true), image, &unready, false),
        (known("uid-cat-1", false), address, &unready, false),
        (known("uid-cat-1", false), invalid, &observed.pods, true),
        (known("u1", true), invalid, &vec![], true),
        (known("uid-cat-1", false), invalid, &vec![], false),
        (None, invalid, &observed.pods, false),
    ] {
        let expected = if stays { endpoint.clone() } else { None };
        let found = address::still_good(endpoint.clone(), parsed, pods);
        assert_eq!(found, expected, "{endpoint:?} {parsed:?} {}", pods.len());
    }
}

#[tokio::test]
async fn cat_018_cat_019_cat_020_ready_is_the_second_and_last_write_of_a_start() {
    let mut observed = converged(image_source());
    let first = status_of(&fresh(image_source()));
    let state = first.connection_state.as_ref().unwrap();
    assert_eq!(state.last_observed_state, "CONNECTING");
    assert_eq!(state.address.as_deref(), Some("cat-a.ns.svc:50051"));
    let mut source = CatalogSource::clone(&observed.source);
    source.status = Some(first.clone());
    observed.source = Arc::new(source);
    observed.connection = ConnectionState::Connecting;
    assert_eq!(status_of(&observed), first, "connecting is no news");
    observed.connection = link();
    let second = status_of(&observed);
    assert_eq!(
        second.connection_state.as_ref().unwrap().last_observed_state,
        "READY"
    );
    assert_eq!(second.registry_service, first.registry_service);
    assert_eq!((second.reason.clone(), second.message.clone()), (None, None));
    let mut source = CatalogSource::clone(&observed.source);
    source.status = Some(second.clone());
    observed.source = Arc::new(source);
    assert_eq!(status_of(&observed), second, "at rest nothing changes");
}

#[test]
fn an_address_of_another_version_is_corrected() {
    let mut source = image_source();
    source.status = serde_json::from_value(
        json!({"connectionState": {"address": "..svc:", "lastObservedState": "READY"}}),
    )
    .unwrap();
    let mut observed = converged(source);
    observed.connection = ConnectionState::Connecting;
    let state = status_of(&observed).connection_state.unwrap();
    assert_eq!(state.address.as_deref(), Some("cat-a.ns.svc:50051"));
    assert_eq!(state.last_observed_state, "CONNECTING");
}

#[test]
fn cat_021_an_unreachable_address_is_a_transient_failure_with_its_error_and_first_time() {
    let mut source = source(json!({"sourceType": "grpc", "address": "h:1"}));
    let failing = |seconds| ConnectionState::Failing {
        since: earlier(seconds),
        error: "cannot connect to h:1: refused".to_owned(),
    };
    let mut observed = fresh(source.clone());
    observed.connection = failing(9);
    let first = status_of(&observed);
    insta::assert_json_snapshot!(first, @r#"
    {
      "reason": "RegistryServerError",
      "message": "couldn't connect to registry - cannot connect to h:1: refused",
      "registryService": {
        "protocol": "grpc",
        "createdAt": "2026-11-20T21:28:52Z"
      },
      "connectionState": {
        "address": "h:1",
        "lastObservedState": "TRANSIENT_FAILURE",
        "lastConnect": "2026-11-20T21:28:43Z"
      }
    }
    "#);
    source.status = Some(first.clone());
    let mut again = fresh(source);
    again.connection = failing(1);
    assert_eq!(status_of(&again), first, "trying again in vain writes nothing");
}

#[test]
fn a_registry_service_with_holes_is_overwritten() {
    let mut source = image_source();
    source.status = serde_json::from_value(
        json!({"registryService": {"protocol": "grpc", "createdAt": "2020-01-01T00:00:00Z"}}),
    )
    .unwrap();
    let service = status_of(&converged(source)).registry_service.unwrap();
    assert_eq!(service.service_name.as_deref(), Some("cat-a"));
    assert_eq!(service.created_at, Some(Time(now())));
}
