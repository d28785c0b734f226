//! A Subscription on its way as Argo CD and Flux see it, beside an unused catalog that serves nothing.

use super::*;
use crate::test_env::health_rules::{ArgoCd, kstatus};

struct Watcher {
    argo: ArgoCd,
    env: TestEnv,
}

impl Watcher {
    fn look(&self) -> String {
        let object = self.env.get("Subscription", "demo").unwrap();
        format!("{} {}", self.argo.judge(&object), kstatus(&object))
    }

    /// Gives the operator some time, in which no ClusterServiceVersion changes its phase.
    #[track_caller]
    fn expect(&mut self, expected: &str) {
        self.env.settle_for(30);
        let object = self.env.get("Subscription", "demo").unwrap();
        assert_eq!(self.look(), expected, "{:#}", object["status"]);
        let written = self.env.own_writes();
        self.env.settle_for(30);
        assert_eq!(self.env.own_writes(), written, "at rest");
    }

    fn set_phase(&self, csv: &str, phase: &str) {
        let status = json!({"status": {"phase": phase}});
        self.env.edit("ClusterServiceVersion", csv, &status);
    }
}

#[test]
fn a_subscription_is_healthy_while_its_operator_runs_whatever_catalogs_of_others_are_broken() {
    let mut watcher = Watcher {
        argo: ArgoCd::new(),
        env: TestEnv::new(),
    };
    watcher.env.put(
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"namespace": "olm", "name": "vendor-nobody-uses"}, "spec": {"sourceType": "goose"}}),
    );
    watcher.env.outside.serve(first());
    watcher.env.put(catalog());
    watcher.env.put(subscription("Automatic"));
    watcher.expect("Progressing InProgress");
    for (phase, expected) in [
        ("Pending", "Progressing InProgress"),
        ("Installing", "Progressing InProgress"),
        ("Succeeded", "Healthy Current"),
        ("Failed", "Degraded InProgress"),
        ("Succeeded", "Healthy Current"),
    ] {
        watcher.set_phase("demo.v1", phase);
        watcher.expect(expected);
    }
    // The next version cannot be unpacked at first.
    watcher.env.outside.break_image("reg/demo:v2");
    watcher.env.outside.serve(second());
    watcher.env.settle_for(600);
    assert_eq!(watcher.look(), "Progressing InProgress");
    watcher.env.outside.mend_images();
    watcher.env.settle_for(600);
    watcher.expect("Progressing InProgress");
    watcher.env.take_over();
    watcher.expect("Healthy Current");
    assert_eq!(
        watcher.env.get("Subscription", "demo").unwrap()["status"]["installedCSV"],
        "demo.v2"
    );
}
