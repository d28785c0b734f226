//! What holds wherever a plan is interrupted, and once it is carried out.

use super::*;

/// Law: deciding on the converged state gives an empty plan, and carrying out everything once more as well.
#[test]
fn converged_plan_is_at_rest() {
    let mut cluster = Cluster::with_plan(&[rich()]);
    cluster.converge(PLAN);
    let writes = cluster.writes.len();
    assert!(decide::decide(&cluster.observed(PLAN)).0.is_empty());
    assert_eq!(cluster.round(PLAN), (false, Requeue::AwaitChange));
    // The same plan again, as after a restore: everything is found as it should be.
    let status = &mut cluster.plan_mut(PLAN)["status"];
    status["phase"] = "Installing".into();
    status["plan"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|step| step["status"] = "Unknown".into());
    cluster.writes.clear();
    cluster.converge(PLAN);
    let repeated: Vec<_> = cluster
        .writes
        .iter()
        .filter(|write| !write.starts_with("apply") && !write.contains("InstallPlan"))
        .collect();
    assert!(repeated.is_empty(), "{repeated:?} of {writes}");
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}

/// Law: killed after any write and started again, the plan ends in the same state.
#[test]
fn plan_killed_after_any_write_converges() {
    let upgrade = |cluster: &mut Cluster| {
        let mut new = bundle(
            "demo.v2",
            vec![
                core("ConfigMap", "config", json!({"data": {"b": "2"}})),
                crd("demos.example.com"),
            ],
        );
        new.objects[1].object["spec"]["versions"][0]["schema"] =
            json!({"openAPIV3Schema": {"type": "object"}});
        cluster.add_plan("install-2", &[new]);
    };
    let mut reference = Cluster::with_plan(&[rich()]);
    reference.converge(PLAN);
    upgrade(&mut reference);
    reference.converge("install-2");
    let total = reference.writes.len();
    assert!(reference.summary("install-2").starts_with("Complete"));
    for killed_after in 0..total {
        let mut cluster = Cluster::with_plan(&[rich()]);
        cluster.budget = Some(killed_after);
        for name in [PLAN, "install-2"] {
            if name != PLAN {
                upgrade(&mut cluster);
            }
            for _ in 0..20 {
                cluster.round(name);
                if cluster.budget == Some(0) {
                    cluster.budget = None;
                }
            }
        }
        assert_eq!(
            cluster.state(),
            reference.state(),
            "killed after write {killed_after}"
        );
        // A write whose status was lost is found, not repeated; only applies are sent again.
        let creates = |cluster: &Cluster| {
            cluster
                .writes
                .iter()
                .filter(|write| write.starts_with("create"))
                .count()
        };
        assert_eq!(
            creates(&cluster),
            creates(&reference),
            "killed after write {killed_after}"
        );
    }
}
