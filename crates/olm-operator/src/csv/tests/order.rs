//! With two reasons the one that is checked first is reported, as upstream does.

use std::sync::Arc;

use olm_api::condition::csv as reason;

use super::decisions::{at_rest, put_in};
use crate::{
    csv::{decide::decide, observed::Observed, serving::certificate::Unfit},
    test_env::{csv, decode},
};

#[test]
fn a_certificate_that_ends_is_reported_before_a_requirement_that_is_not_met() {
    let (mut observed, now) = at_rest();
    observed.cluster.crds.clear();
    let told = |observed: &Observed| decide(observed, now).1.transitions[0].reason;
    assert_eq!(told(&observed), reason::REQUIREMENTS_NOT_MET);
    let due = Unfit::Due("soon".to_owned());
    observed.serving.unfit.insert("demo".into(), due);
    assert_eq!(told(&observed), reason::NEEDS_CERT_ROTATION);
}

#[test]
fn a_definition_of_another_is_reported_before_an_api_service_of_another() {
    let (mut observed, now) = at_rest();
    put_in(&mut observed, "Pending", reason::REQUIREMENTS_UNKNOWN, "", now);
    let told = |observed: &Observed| decide(observed, now).1.transitions[0].message.clone();
    let apis = &mut observed.serving.foreign_apis;
    apis.insert("v1.things.example.com".into(), "it is taken".into());
    let text = "unable to adopt APIService: pre-existing APIService v1.things.example.com is not adoptable: it is taken";
    assert_eq!(told(&observed), text);
    observed.siblings = vec![Arc::new(decode(csv("x", "")))];
    let text = "conflicting CRD owner in namespace: demos.example.com is owned by x";
    assert_eq!(told(&observed), text);
}
