//! Properties of a plan that hold after any interruption, and after its execution.

use olm_testing::stage::Stage;
use olm_testing::stage::normal::assert_same;
use olm_testing::stage::story::{Interruption, StoryEnv, interrupted, tell};

use super::*;

/// A plan that comes, and its bundles.
type Step = (&'static str, Vec<UnpackedBundle>);

impl StoryEnv for TestEnv {
    type Step = Step;

    fn begin() -> Self {
        Self::new()
    }

    fn stage(&mut self) -> &mut Stage {
        &mut self.stage
    }

    fn take(&mut self, (name, bundles): &Step) {
        self.add_plan(name, bundles);
    }

    fn rest(&mut self) {
        self.settle_for(60);
    }

    fn go_on(&mut self, seconds: u64) {
        self.settle_for(seconds);
    }

    fn writes(&self) -> &[String] {
        &self.writes
    }
}

/// Law: at rest nothing is written, not even by a new process, and carrying out everything once more changes nothing.
#[test]
fn converged_plan_is_at_rest() {
    let mut env = TestEnv::with_plan(&[rich()]);
    env.converge();
    let writes = env.writes.len();
    env.settle_for(3600);
    assert_eq!(env.writes.len(), writes);
    env.stage.kill();
    env.settle_for(3600);
    assert_eq!((env.writes.len(), env.refused.len()), (writes, 0));
    // The same plan again, as after a restore: everything is found as it should be.
    env.change_plan(PLAN, |plan| {
        let status = &mut plan["status"];
        status["phase"] = "Installing".into();
        for step in status["plan"].as_array_mut().unwrap() {
            step["status"] = "Unknown".into();
        }
    });
    env.writes.clear();
    env.converge();
    let repeated: Vec<_> = env
        .writes
        .iter()
        .filter(|write| !write.contains("InstallPlan"))
        .collect();
    assert!(repeated.is_empty(), "{repeated:?} of {writes}");
    env.assert_summary(PLAN, "Complete");
}

/// Law: killed after any write and started again, or with the answer lost, the plan ends in the same state.
#[test]
fn a_plan_interrupted_at_any_write_converges() {
    let mut new = bundle(
        "demo.v2",
        vec![
            core("ConfigMap", "config", json!({"data": {"b": "2"}})),
            crd("demos.example.com"),
        ],
    );
    new.objects[1].object["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": {"type": "object"}});
    let story = [(PLAN, vec![rich()]), ("install-2", vec![new])];
    let mut reference = TestEnv::begin();
    tell(&mut reference, &story);
    reference.assert_summary("install-2", "Complete");
    let end = reference.normalised();
    for how in [Interruption::Kill, Interruption::LoseAnswer] {
        for at in 1..=reference.writes.len() {
            let context = format!("{how:?} at write {at}");
            let env: TestEnv = interrupted(&story, how, at);
            assert_same(&env.normalised(), &end, &context);
            // A write whose status was lost is found, not repeated.
            assert_eq!(env.count("create"), reference.count("create"), "{context}");
        }
    }
}
