//! Properties of plans and their approvers: components with and without policies, Manual or not, in one plan or apart.

use std::collections::BTreeSet;

use olm_api::labels;
use olm_api::v1alpha1::Approval;
use olm_runtime::plan::Action;
use olm_testing::properties::config;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::decide::decide;
use super::super::observed::Observed;
use super::decisions::{observed, ready, subscription};

/// How a Subscription says who approves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Automatic,
    /// It has no effect.
    AutomaticWithPolicy,
    Manual,
    ManualWithHold,
    ManualWithPolicy,
}

use Word::{Automatic, AutomaticWithPolicy, Manual, ManualWithHold, ManualWithPolicy};

impl Word {
    fn annotation(self) -> Option<&'static str> {
        match self {
            Automatic | Manual => None,
            AutomaticWithPolicy | ManualWithPolicy => Some(labels::UPGRADE_WINDOW),
            ManualWithHold => Some(labels::UPGRADE_HOLD),
        }
    }

    fn needs_user(self) -> bool {
        matches!(self, Manual | ManualWithHold)
    }
}

/// One component for each word, all of which move.
fn namespace(drawn: &[Word], separate: bool) -> Observed {
    let (mut subscriptions, mut components) = (Vec::new(), Vec::new());
    for (index, &word) in drawn.iter().enumerate() {
        let name = format!("s{index}");
        let mut object = (*subscription(&name, None)).clone();
        let is_manual = !matches!(word, Automatic | AutomaticWithPolicy);
        object.spec.install_plan_approval = is_manual.then_some(Approval::Manual);
        let annotation = word
            .annotation()
            .map(|key| (key.to_owned(), "Sat 02:00 4h".to_owned()));
        object.metadata.annotations = Some(annotation.into_iter().collect());
        subscriptions.push(object.into());
        components.push(ready(&name, &format!("{name}.v2")));
    }
    Observed {
        separate_approval: separate,
        ..observed(subscriptions, &[], components)
    }
}

/// Returns the plans that a reconcile creates.
fn created(observed: &Observed) -> Vec<Value> {
    let (plan, _) = decide(observed, None);
    let created = plan.actions.into_iter().filter_map(|action| match action {
        Action::Create { object, .. } => Some(object),
        _ => None,
    });
    created.collect()
}

fn any_word() -> impl Strategy<Value = Word> {
    prop::sample::select(vec![
        Automatic,
        Automatic,
        AutomaticWithPolicy,
        Manual,
        ManualWithHold,
        ManualWithPolicy,
        ManualWithPolicy,
    ])
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn without_a_policy_there_is_one_plan_of_all_as_upstream(manual in vec(any::<bool>(), 1..6)) {
        let drawn: Vec<Word> = manual.iter().map(|&manual| if manual { Manual } else { Automatic }).collect();
        let plans = created(&namespace(&drawn, false));
        prop_assert_eq!(plans.len(), 1);
        let plan = &plans[0];
        let names: Vec<String> = (0..drawn.len()).map(|index| format!("s{index}.v2")).collect();
        let waits = manual.contains(&true);
        prop_assert_eq!(&plan["spec"], &json!({
            "clusterServiceVersionNames": names, "generation": 1,
            "approval": if waits { "Manual" } else { "Automatic" }, "approved": !waits,
        }));
    }

    #[test]
    fn a_plan_waits_for_nobody_or_for_a_user_or_for_the_policies_of_one_component(
        drawn in vec(any_word(), 1..8),
        separate in any::<bool>(),
    ) {
        let any_user = drawn.iter().any(|word| word.needs_user());
        // The reasons for a component to wait, written another way.
        let approver = |word: Word| match word {
            _ if any_user && (word.needs_user() || !separate) => "user",
            ManualWithPolicy => "policy",
            _ => "",
        };
        let plans = created(&namespace(&drawn, separate));
        let (mut planned, mut generations) = (0, BTreeSet::new());
        for plan in &plans {
            let names: BTreeSet<&str> =
                plan["spec"]["clusterServiceVersionNames"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
            let of = |index: usize| names.contains(format!("s{index}.v2").as_str());
            let first = (0..drawn.len()).find(|&index| of(index)).unwrap();
            let found = approver(drawn[first]);
            for (index, &word) in drawn.iter().enumerate() {
                let expected = if found == "policy" { index == first } else { approver(word) == found };
                prop_assert_eq!(of(index), expected, "{:?} {}", drawn, plan);
            }
            let open = found.is_empty();
            prop_assert_eq!(&plan["spec"]["approved"], &json!(open));
            // A plan that can start at once is created first, and alone.
            prop_assert_eq!(open, drawn.iter().any(|&word| approver(word).is_empty()));
            prop_assert!(!open || plans.len() == 1);
            planned += names.len();
            generations.insert(plan["spec"]["generation"].as_i64());
        }
        prop_assert_eq!(generations.len(), plans.len());
        let open = drawn.iter().filter(|&&word| approver(word).is_empty()).count();
        prop_assert_eq!(planned, if open > 0 { open } else { drawn.len() });
    }
}
