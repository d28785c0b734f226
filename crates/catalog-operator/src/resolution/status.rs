//! What follows from the writes of a round. Pure, and called last.

use std::time::Duration;

use olm_runtime::driver::StatusUpdate;
use olm_runtime::outcome::{FailureClass, Outcome, Outcomes};
use olm_runtime::plan::Requeue;

use super::decide::Verdict;
use super::memory::Memory;
use super::observed::Observed;

/// When to look again, and what the next round has to know. Statuses of Subscriptions are actions of the plan.
pub fn status(observed: &Observed, verdict: Verdict, outcomes: &Outcomes) -> StatusUpdate<Memory> {
    let failure = outcomes
        .failure()
        .filter(|(index, _)| verdict.making.contains(index));
    let refusal = match failure {
        // Those pass by themselves, and the next try comes soon.
        Some((_, failure)) if matches!(failure.class, FailureClass::Retry | FailureClass::Conflict) => {
            verdict.refusal
        }
        Some((_, failure)) => Some(failure.message.clone()),
        None => None,
    };
    let created = verdict
        .making
        .iter()
        .any(|index| matches!(outcomes.get(*index), Outcome::Done(_)));
    let requeue = if created {
        Requeue::After {
            delay: Duration::ZERO,
            reason: "adoption of the new InstallPlan",
        }
    } else {
        Requeue::AwaitChange
    };
    let warnings = observed.warnings.iter();
    let memory = Memory {
        refusal,
        told: warnings.map(|warning| warning.message.clone()).collect(),
    };
    StatusUpdate {
        requeue,
        memory: Some(memory).filter(|memory| *memory != Memory::default()),
        ..StatusUpdate::default()
    }
}

#[cfg(test)]
mod tests {
    use olm_runtime::outcome::{Failure, outcomes_for_tests};

    use super::*;

    fn after(class: Option<FailureClass>, known: Option<&str>) -> Option<String> {
        let outcome = match class {
            None => Outcome::Kept,
            Some(class) => Outcome::Failed(Failure {
                class,
                code: 0,
                message: "no".to_owned(),
                action: String::new(),
            }),
        };
        let verdict = Verdict {
            making: vec![0],
            refusal: known.map(str::to_owned),
        };
        let update = status(&Observed::default(), verdict, &outcomes_for_tests(vec![outcome]));
        update.memory.and_then(|memory| memory.refusal)
    }

    #[test]
    fn a_refusal_stays_until_the_plan_is_made_and_what_passes_is_none() {
        let known = Some("before");
        assert_eq!(after(Some(FailureClass::Forbidden), None).as_deref(), Some("no"));
        assert_eq!(after(Some(FailureClass::Retry), None), None);
        assert_eq!(after(Some(FailureClass::Conflict), known).as_deref(), known);
        assert_eq!(after(None, known), None);
    }
}
