//! Follows one Subscription from its creation to the expected result.
//!
//! A journey gets the objects of its namespace repeatedly and returns the plans to approve. It performs no action itself.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use xtask::kubectl::text;

use super::expectation::Expectation;
use crate::lab::condition;

/// Objects of a namespace at one moment.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// ClusterServiceVersions.
    pub csvs: Vec<Value>,
    /// Subscriptions.
    pub subscriptions: Vec<Value>,
    /// InstallPlans.
    pub plans: Vec<Value>,
}

impl Look {
    /// Adds an object under its kind.
    pub fn add(&mut self, object: Value) {
        match object["kind"].as_str() {
            Some("ClusterServiceVersion") => self.csvs.push(object),
            Some("Subscription") => self.subscriptions.push(object),
            Some("InstallPlan") => self.plans.push(object),
            _ => {}
        }
    }

    fn csv(&self, name: &str) -> Option<&Value> {
        self.csvs.iter().find(|csv| csv["metadata"]["name"] == name)
    }

    fn plan(&self, csv: &str, phase: &str) -> Option<&Value> {
        self.plans.iter().find(|plan| {
            let names = plan["spec"]["clusterServiceVersionNames"].as_array();
            names.is_some_and(|names| names.iter().any(|name| name == csv))
                && text(plan, "/status/phase") == phase
        })
    }
}

/// One bundle of the journey.
#[derive(Debug, Clone, PartialEq)]
pub struct Leg {
    /// Name of its ClusterServiceVersion.
    pub csv: String,
    /// Expected result of the bundle.
    pub expectation: Expectation,
}

/// A Subscription and its progress.
#[derive(Debug, Clone)]
pub struct Journey {
    /// Name of the Subscription.
    pub subscription: String,
    /// True if each InstallPlan waits for an approval.
    pub manual: bool,
    /// Bundles it passes through.
    pub legs: Vec<Leg>,
    at: usize,
    /// Completed InstallPlans by ClusterServiceVersion.
    plans: BTreeMap<String, String>,
    seen: String,
    fault: Option<String>,
    arrived: Option<Duration>,
}

impl Journey {
    /// Creates the journey of a Subscription named `subscription` that has just been created.
    pub fn new(subscription: &str, manual: bool, legs: Vec<Leg>) -> Self {
        Self {
            subscription: subscription.to_owned(),
            manual,
            legs,
            at: 0,
            plans: BTreeMap::new(),
            seen: "nothing".to_owned(),
            fault: None,
            arrived: None,
        }
    }

    /// Processes the current objects. Returns the InstallPlan that a user would approve now.
    pub fn follow(&mut self, look: &Look, elapsed: Duration) -> Option<String> {
        for leg in &self.legs {
            if let Some(plan) = look.plan(&leg.csv, "Complete") {
                self.plans
                    .insert(leg.csv.clone(), text(plan, "/metadata/name").to_owned());
            }
        }
        while self.arrived.is_none() && self.fault.is_none() {
            let approval = self.approval(look);
            if approval.is_some() {
                return approval;
            }
            if !self.leg_is_done(look) {
                return None;
            }
            if self.at + 1 == self.legs.len() {
                self.arrived = Some(elapsed);
            } else {
                self.at += 1;
            }
        }
        None
    }

    /// Returns true if the journey has ended: the expected result was reached, or cannot be reached.
    pub fn is_over(&self) -> bool {
        self.arrived.is_some() || self.fault.is_some()
    }

    /// Returns the time until the expected result was reached.
    pub fn arrived(&self) -> Option<Duration> {
        self.arrived
    }

    /// Returns the last observed state, in one line.
    pub fn seen(&self) -> &str {
        self.fault.as_deref().unwrap_or(&self.seen)
    }

    /// Returns the last bundle with its expectation.
    pub fn goal(&self) -> Option<&Leg> {
        self.legs.last()
    }

    /// Checks that the expected result still holds, and that every edge had exactly one InstallPlan.
    ///
    /// # Errors
    /// Description of the difference.
    pub fn check(&mut self, look: &Look) -> Result<(), String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if self.arrived.is_none() {
            return Err(format!("still on its way: {}", self.seen));
        }
        if !self.leg_is_done(look) {
            return Err(format!("it did not stay so: {}", self.seen));
        }
        if self.legs.len() > 1 {
            let plans: std::collections::BTreeSet<&String> = self.plans.values().collect();
            if self.plans.len() != self.legs.len() || plans.len() != self.legs.len() {
                return Err(format!("completed InstallPlans: {:?}", self.plans));
            }
        }
        Ok(())
    }

    fn approval(&mut self, look: &Look) -> Option<String> {
        let leg = &self.legs[self.at];
        let plan = look
            .plan(&leg.csv, "RequiresApproval")
            .filter(|plan| plan["spec"]["approved"] != true)?;
        if !self.manual {
            self.fault = Some("an InstallPlan asks for an approval that was not asked for".to_owned());
            return None;
        }
        if look.csv(&leg.csv).is_some() {
            self.fault = Some(format!("{} is there before its InstallPlan is approved", leg.csv));
            return None;
        }
        Some(text(plan, "/metadata/name").to_owned())
    }

    fn leg_is_done(&mut self, look: &Look) -> bool {
        let leg = &self.legs[self.at];
        match &leg.expectation {
            Expectation::Csv { phase, reason, says } => {
                if self.has_passed(look) {
                    return true;
                }
                let Some(csv) = look.csv(&leg.csv) else {
                    self.seen = missing(&self.subscription, look);
                    return false;
                };
                let status = |field: &str| text(csv, &format!("/status/{field}"));
                let message = status("message");
                self.seen = format!("{}/{}: {message}", status("phase"), status("reason"));
                let gone = self.legs[..self.at]
                    .iter()
                    .all(|earlier| look.csv(&earlier.csv).is_none());
                status("phase") == *phase
                    && status("reason") == *reason
                    && says.iter().all(|part| message.contains(part))
                    && (gone || self.at + 1 < self.legs.len() || !leg.expectation.is_success())
            }
            Expectation::Subscription {
                condition: kind,
                reason,
                says,
            } => {
                let subscription = look
                    .subscriptions
                    .iter()
                    .find(|object| object["metadata"]["name"] == *self.subscription);
                let Some(found) = subscription.and_then(|subscription| condition(subscription, kind)) else {
                    self.seen = missing(&self.subscription, look);
                    return false;
                };
                let message = text(found, "/message");
                self.seen = format!("Subscription {kind}/{}: {message}", text(found, "/reason"));
                if look.csv(&leg.csv).is_some() || look.plan_of(&leg.csv).is_some() {
                    self.fault = Some(format!(
                        "{} was planned or applied although it is refused",
                        leg.csv
                    ));
                }
                found["status"] == "True"
                    && found["reason"] == *reason
                    && says.iter().all(|part| message.contains(part))
            }
            Expectation::PlanFailed { says_one_of } => {
                let Some(plan) = look.plan_of(&leg.csv) else {
                    self.seen = missing(&self.subscription, look);
                    return false;
                };
                let message =
                    condition(plan, "Installed").map_or("", |installed| text(installed, "/message"));
                self.seen = format!("InstallPlan {}: {message}", text(plan, "/status/phase"));
                text(plan, "/status/phase") == "Failed"
                    && says_one_of.iter().any(|part| message.contains(part))
            }
        }
    }

    /// Returns true for a ClusterServiceVersion that an automatic upgrade has passed, perhaps between two observations. Its plan
    /// is complete, and it is being replaced or deleted, or its successor exists.
    fn has_passed(&self, look: &Look) -> bool {
        let (leg, next) = (&self.legs[self.at], self.legs.get(self.at + 1));
        let Some(next) = next.filter(|_| !self.manual && self.plans.contains_key(&leg.csv)) else {
            return false;
        };
        match look.csv(&leg.csv) {
            Some(csv) => matches!(text(csv, "/status/phase"), "Replacing" | "Deleting"),
            None => look.csv(&next.csv).is_some() || self.plans.contains_key(&next.csv),
        }
    }
}

impl Look {
    fn plan_of(&self, csv: &str) -> Option<&Value> {
        self.plans.iter().find(|plan| {
            let names = plan["spec"]["clusterServiceVersionNames"].as_array();
            names.is_some_and(|names| names.iter().any(|name| name == csv))
        })
    }
}

/// Returns the status of the Subscription while the expected object does not exist.
fn missing(subscription: &str, look: &Look) -> String {
    let Some(found) = look
        .subscriptions
        .iter()
        .find(|object| object["metadata"]["name"] == *subscription)
    else {
        return "no Subscription".to_owned();
    };
    let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    let told: Vec<String> = conditions
        .filter(|condition| condition["status"] == "True")
        .map(|condition| format!("{}: {}", text(condition, "/type"), text(condition, "/message")))
        .collect();
    format!(
        "Subscription `{}` {}",
        text(found, "/status/state"),
        told.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn csv(name: &str, phase: &str) -> Value {
        let reason = if phase == "Succeeded" {
            "InstallSucceeded"
        } else {
            "Other"
        };
        json!({"kind": "ClusterServiceVersion", "metadata": {"name": name}, "status": {
            "phase": phase, "reason": reason, "message": "install strategy completed with no errors"}})
    }

    fn plan(name: &str, csv: &str, phase: &str) -> Value {
        json!({"kind": "InstallPlan", "metadata": {"name": name}, "spec": {"clusterServiceVersionNames": [csv]},
               "status": {"phase": phase}})
    }

    fn look(objects: &[Value]) -> Look {
        let mut look = Look::default();
        objects.iter().cloned().for_each(|object| look.add(object));
        look
    }

    fn journey(manual: bool, csvs: &[&str]) -> Journey {
        let leg = |csv: &&str| Leg {
            csv: (*csv).to_owned(),
            expectation: Expectation::succeeded(),
        };
        Journey::new("s", manual, csvs.iter().map(leg).collect())
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_leg_of_a_manual_journey_is_approved_after_the_one_before() {
        let mut journey = journey(true, &["a", "b"]);
        let mut step = |objects: &[Value]| journey.follow(&look(objects), SECOND);
        assert_eq!(step(&[]), None);
        assert_eq!(step(&[plan("p", "a", "RequiresApproval")]).as_deref(), Some("p"));
        let first = [
            plan("p", "a", "Complete"),
            csv("a", "Installing"),
            plan("q", "b", "RequiresApproval"),
        ];
        assert_eq!(step(&first), None, "the first is not there yet");
        let second = [
            plan("p", "a", "Complete"),
            csv("a", "Succeeded"),
            plan("q", "b", "RequiresApproval"),
        ];
        assert_eq!(step(&second).as_deref(), Some("q"));
        let both = [
            plan("q", "b", "Complete"),
            csv("a", "Deleting"),
            csv("b", "Succeeded"),
        ];
        assert_eq!(step(&both), None);
        assert!(!journey.is_over(), "the old one is still there");
        let last = look(&[plan("q", "b", "Complete"), csv("b", "Succeeded")]);
        journey.follow(&last, SECOND * 9);
        assert_eq!(journey.arrived(), Some(SECOND * 9));
        assert_eq!(journey.check(&last), Ok(()));
        assert!(journey.check(&look(&[csv("b", "Failed")])).is_err());
    }

    #[test]
    fn an_install_before_the_approval_is_a_fault() {
        let mut journey = journey(true, &["a"]);
        journey.follow(
            &look(&[plan("p", "a", "RequiresApproval"), csv("a", "Pending")]),
            SECOND,
        );
        assert!(journey.is_over());
        assert_eq!(journey.seen(), "a is there before its InstallPlan is approved");
    }

    #[test]
    fn an_automatic_journey_may_pass_a_leg_between_two_looks_but_not_leave_it_out() {
        let mut passed = journey(false, &["a", "b"]);
        let objects = look(&[
            plan("p", "a", "Complete"),
            plan("q", "b", "Complete"),
            csv("b", "Succeeded"),
        ]);
        passed.follow(&objects, SECOND);
        assert_eq!(passed.check(&objects), Ok(()));
        let mut left_out = journey(false, &["a", "b"]);
        left_out.follow(
            &look(&[plan("q", "b", "Complete"), csv("b", "Succeeded")]),
            SECOND,
        );
        assert!(!left_out.is_over());
    }

    #[test]
    fn a_refused_bundle_must_leave_nothing() {
        let expectation = Expectation::Subscription {
            condition: "C",
            reason: "R",
            says: vec!["one".to_owned(), "two".to_owned()],
        };
        let refused = || {
            Journey::new(
                "s",
                false,
                vec![Leg {
                    csv: "a".to_owned(),
                    expectation: expectation.clone(),
                }],
            )
        };
        let subscription = |message: &str| {
            json!({"kind": "Subscription", "metadata": {"name": "s"}, "status": {"conditions": [
                {"type": "C", "status": "True", "reason": "R", "message": message}]}})
        };
        let mut journey = refused();
        journey.follow(&look(&[subscription("one")]), SECOND);
        assert!(!journey.is_over());
        journey.follow(&look(&[subscription("one and two")]), SECOND);
        assert!(journey.arrived().is_some());
        let mut journey = refused();
        journey.follow(
            &look(&[subscription("one and two"), plan("p", "a", "Installing")]),
            SECOND,
        );
        assert!(journey.check(&look(&[])).is_err());
    }

    #[test]
    fn a_failed_plan_must_say_why() {
        let expectation = Expectation::PlanFailed {
            says_one_of: vec!["this".to_owned(), "that".to_owned()],
        };
        let mut journey = Journey::new(
            "s",
            false,
            vec![Leg {
                csv: "a".to_owned(),
                expectation,
            }],
        );
        let mut failed = plan("p", "a", "Failed");
        journey.follow(&look(&[failed.clone()]), SECOND);
        assert!(!journey.is_over());
        failed["status"]["conditions"] =
            json!([{"type": "Installed", "status": "False", "message": "because of that"}]);
        journey.follow(&look(&[failed]), SECOND);
        assert!(journey.arrived().is_some());
    }
}
