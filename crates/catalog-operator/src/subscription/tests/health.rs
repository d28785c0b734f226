//! A Subscription is healthy for Argo CD and Flux exactly while the requested version runs, and degraded only
//! by its own fault. The table covers states of catalogs, resolution, InstallPlan and ClusterServiceVersion.

use olm_runtime::outcome::{Outcome, outcomes_for_tests};
use tonic::transport::Endpoint;

use super::*;
use crate::catalog_source::connection::{ConnectionState, LiveConnection};
use crate::catalog_source::decide::decide;
use crate::catalog_source::image_template::ImageTemplate;
use crate::catalog_source::observed::Observed;
use crate::catalog_source::pod::PodSettings;
use crate::catalog_source::{source, status as catalog_status};
use crate::stores::config_maps::ConfigMapState;
use crate::test_env::health_rules::{ArgoCd, kstatus};

/// A catalog with a status composed by our own code.
fn catalog_in(namespace: &str, name: &str, spec: Value, connection: ConnectionState) -> CatalogFact {
    let mut object: CatalogSource = serde_json::from_value(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}")}, "spec": spec,
    }))
    .unwrap();
    let observed = Observed {
        template: ImageTemplate::Absent,
        parsed: source::parse_source(&object),
        source: Arc::new(object.clone()),
        settings: PodSettings {
            opm_image: String::new(),
            util_image: String::new(),
            user_id: None,
            namespace_restricted: false,
        },
        service_account: None,
        service: None,
        server_policy: None,
        unpack_policy: None,
        pods: Vec::new(),
        update_pods: Vec::new(),
        poll: None,
        connection,
        config_map: ConfigMapState::NotNamed,
    };
    let (plan, verdict) = decide(&observed, now());
    let done = plan.actions.iter().map(|_| Outcome::Done(Arc::new(Value::Null)));
    let outcomes = outcomes_for_tests(done.collect());
    object.status = Some(catalog_status::compose(&observed, &verdict, &outcomes, now()));
    CatalogFact::of(&object)
}

fn failing() -> ConnectionState {
    ConnectionState::Failing {
        since: now(),
        error: "refused".to_owned(),
    }
}

fn image() -> Value {
    json!({"sourceType": "grpc", "image": "reg/cat:v1"})
}

/// The catalog that the Subscription names.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Target {
    Ready,
    Starting,
    New,
    Failing,
    Invalid,
    Missing,
}

impl Target {
    const ALL: [Self; 6] = [
        Self::Ready,
        Self::Starting,
        Self::New,
        Self::Failing,
        Self::Invalid,
        Self::Missing,
    ];

    fn is_usable(self) -> bool {
        matches!(self, Self::Ready | Self::Starting | Self::New)
    }

    fn fact(self) -> Option<CatalogFact> {
        let ready = ConnectionState::Ready(LiveConnection {
            since: now(),
            generation: 1,
            may_change: false,
            channel: Endpoint::from_static("http://127.0.0.1:1").connect_lazy(),
        });
        match self {
            Self::Ready => Some(catalog_in("ns", "cat", image(), ready)),
            Self::Starting => Some(catalog_in("ns", "cat", image(), ConnectionState::Waiting)),
            Self::New => Some(catalog("ns", "cat", Value::Null)),
            Self::Failing => Some(catalog_in("ns", "cat", image(), failing())),
            Self::Invalid => {
                let spec = json!({"sourceType": "goose"});
                Some(catalog_in("ns", "cat", spec, ConnectionState::Waiting))
            }
            Self::Missing => None,
        }
    }
}

/// Progress of the Subscription.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// Nothing was chosen yet.
    New,
    /// Its first plan exists, but no ClusterServiceVersion.
    Installing(&'static str),
    /// The current version exists, with the phase of its plan; "gone" when the plan was deleted.
    Installed(&'static str),
    /// The plan for the next version exists, and the previous version is installed.
    Upgrading(&'static str),
}

const PLAN_PHASES: [&str; 6] = [
    "",
    "Planning",
    "RequiresApproval",
    "Installing",
    "Failed",
    "Complete",
];

fn ways() -> Vec<Way> {
    let mut ways = vec![Way::New, Way::Installed("gone")];
    for phase in PLAN_PHASES {
        ways.extend([
            Way::Installing(phase),
            Way::Installed(phase),
            Way::Upgrading(phase),
        ]);
    }
    ways
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
struct Row<'a> {
    target: Target,
    way: Way,
    /// Phase of the installed version; none when it was deleted.
    phase: Option<&'static str>,
    outcome: &'a ResolutionOutcome,
    is_manual: bool,
    fail_forward: bool,
}

impl Row<'_> {
    fn is_held(&self) -> bool {
        self.is_manual
            && matches!(
                self.way,
                Way::Upgrading("RequiresApproval") | Way::Installed("RequiresApproval")
            )
    }

    /// True when the plan has nothing left to do except what waits for the user.
    fn is_plan_over(&self) -> bool {
        self.is_held() || matches!(self.way, Way::Installed("Complete" | "gone"))
    }

    fn is_resolving(&self) -> bool {
        !matches!(
            self.outcome,
            ResolutionOutcome::Unknown | ResolutionOutcome::Resolved
        )
    }

    /// True when the requested version runs.
    fn runs(&self) -> bool {
        self.phase == Some("Succeeded")
            && self.is_plan_over()
            && !self.is_resolving()
            && self.target.is_usable()
    }

    /// True when something has failed that the user can fix in this Subscription, its catalog or its
    /// operator.
    fn has_failed(&self) -> bool {
        let looks_at_installed = matches!(self.way, Way::Installed(_) | Way::Upgrading("RequiresApproval"));
        !self.target.is_usable()
            || matches!(self.outcome, ResolutionOutcome::ResolutionFailed { .. })
            || matches!(
                self.way,
                Way::Installing("Failed") | Way::Installed("Failed") | Way::Upgrading("Failed")
            )
            || looks_at_installed && self.phase == Some("Failed")
    }

    /// Returns the Subscription as written, and its status composed again.
    fn written(&self, catalogs: &[CatalogFact]) -> (Subscription, SubscriptionStatus) {
        let (names, plan_phase) = match self.way {
            Way::New => (json!({}), None),
            Way::Installing(phase) => (
                json!({"state": "UpgradePending", "currentCSV": "demo.v1"}),
                Some(phase),
            ),
            Way::Installed(phase) => (
                json!({"state": "AtLatestKnown", "currentCSV": "demo.v1", "installedCSV": "demo.v1"}),
                Some(phase),
            ),
            Way::Upgrading(phase) => (
                json!({"state": "UpgradePending", "currentCSV": "demo.v2", "installedCSV": "demo.v1"}),
                Some(phase),
            ),
        };
        let reference = plan_phase.map_or_else(|| json!({}), |_| reference("install-1"));
        let mut object = subscription(merged(&[names, reference]));
        object.spec.install_plan_approval =
            serde_json::from_value(json!(if self.is_manual { "Manual" } else { "Automatic" })).unwrap();
        let plan = plan_phase.filter(|phase| *phase != "gone");
        let plans = plan.map(|phase| plan_named(in_phase(phase)));
        let phase = self
            .phase
            .filter(|_| !matches!(self.way, Way::New | Way::Installing(_)));
        let state = NamespaceState {
            csvs: phase
                .map(|phase| csv_in_phase("demo.v1", phase))
                .into_iter()
                .collect(),
            fail_forward: self.fail_forward,
            ..namespace_state(plans.as_slice(), &[])
        };
        let facts = Facts {
            outcome: self.outcome,
            ..quiet(catalogs)
        };
        let once = composed(&object, &state, &facts);
        let object = with(&object, once);
        let twice = composed(&object, &state, &facts);
        (object, twice)
    }
}

fn plan_named(status: Value) -> Arc<InstallPlan> {
    plan("install-1", status)
}

fn outcomes() -> [ResolutionOutcome; 5] {
    [
        ResolutionOutcome::Unknown,
        ResolutionOutcome::Resolved,
        ResolutionOutcome::ResolutionFailed {
            reason: reasons::CONSTRAINTS_NOT_SATISFIABLE,
            message: "constraints not satisfiable: x\n- y".to_owned(),
        },
        ResolutionOutcome::Unpacking {
            message: String::new(),
        },
        ResolutionOutcome::UnpackFailed {
            reason: reasons::REASON_BUNDLE_UNPACK_FAILED,
            message: "Bundle unpacking failed - x".to_owned(),
        },
    ]
}

#[tokio::test]
async fn argo_cd_and_flux_call_a_subscription_healthy_exactly_while_its_operator_runs() {
    let argo = ArgoCd::new();
    let phases = [
        None,
        Some(""),
        Some("Pending"),
        Some("InstallReady"),
        Some("Installing"),
        Some("Succeeded"),
        Some("Failed"),
        Some("Unknown"),
        Some("Replacing"),
        Some("Deleting"),
    ];
    // No Subscription names these two.
    let others = [
        catalog_in("olm", "vendor", image(), failing()),
        catalog_in(
            "olm",
            "typo",
            json!({"sourceType": "goose"}),
            ConnectionState::Waiting,
        ),
    ];
    let outcomes = outcomes();
    let (mut healthy, mut degraded, mut rows) = (0, 0, 0);
    for target in Target::ALL {
        let own: Vec<CatalogFact> = target.fact().into_iter().chain([healthy_elsewhere()]).collect();
        let broken: Vec<CatalogFact> = own.iter().cloned().chain(others.clone()).collect();
        for (way, phase) in ways()
            .into_iter()
            .flat_map(|way| phases.map(|phase| (way, phase)))
        {
            let needs_csv = matches!(way, Way::Installed(_));
            let has_none = matches!(way, Way::New | Way::Installing(_));
            if needs_csv && phase.is_none() || has_none && phase.is_some() {
                continue;
            }
            for outcome in &outcomes {
                for switches in 0..4 {
                    let (is_manual, fail_forward) = (switches & 1 == 1, switches & 2 == 2);
                    let row = Row {
                        target,
                        way,
                        phase,
                        outcome,
                        is_manual,
                        fail_forward,
                    };
                    for catalogs in [&own, &broken] {
                        let (object, again) = row.written(catalogs);
                        assert!(
                            !is_worth_writing(object.status.as_ref(), &again),
                            "{row:?}: {object:?}"
                        );
                        let json = serde_json::to_value(&object).unwrap();
                        let judged = argo.judge(&json);
                        let context = || format!("{row:?}: {judged}: {:#}", json["status"]);
                        assert_eq!(judged == "Healthy", row.runs(), "{}", context());
                        assert_eq!(judged == "Degraded", row.has_failed(), "{}", context());
                        assert_eq!(kstatus(&json) == "Current", row.runs(), "{}", context());
                        healthy += usize::from(row.runs());
                        degraded += usize::from(row.has_failed());
                        rows += 1;
                    }
                }
            }
        }
    }
    assert!(
        healthy > 100 && degraded > 1000 && rows > 2 * degraded / 3,
        "{healthy} {degraded} {rows}"
    );
}

fn healthy_elsewhere() -> CatalogFact {
    healthy("other")
}

/// `Ready` repeats the other conditions with upstream's exact texts, and contains the cause where they have
/// none.
#[test]
fn ready_names_what_is_in_the_way() {
    let ready = |object: &Subscription, state: &NamespaceState, catalogs: &[CatalogFact]| {
        let status = composed(object, state, &quiet(catalogs));
        let found = status
            .conditions
            .into_iter()
            .find(|condition| condition.type_ == reasons::READY);
        let found = found.unwrap();
        let text = |part: Option<String>| part.unwrap_or_default();
        let line = format!("{}/{}: {}", found.status, text(found.reason), text(found.message));
        line.trim_end().to_owned()
    };
    let none = NamespaceState::default();
    let new = subscription(Value::Null);
    let refused = json!({"reason": "RegistryServerError", "message": "couldn't connect to registry - refused",
        "registryService": {}, "connectionState": {"lastObservedState": "TRANSIENT_FAILURE"}});
    insta::assert_snapshot!(ready(&new, &none, &[healthy("cat")]), @"False/NotInstalled: no version is installed yet");
    insta::assert_snapshot!(ready(&new, &none, &[catalog("ns", "cat", refused)]), @"False/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat unhealthy: couldn't connect to registry - refused");
    let installed =
        subscription(json!({"state": "AtLatestKnown", "currentCSV": "demo.v1", "installedCSV": "demo.v1"}));
    let in_state = |phase: &str| NamespaceState {
        csvs: Csvs::from([csv_in_phase("demo.v1", phase)]),
        ..NamespaceState::default()
    };
    let told = |phase: &str| ready(&installed, &in_state(phase), &[healthy("cat")]);
    insta::assert_snapshot!(told("Installing"), @"False/Installing: waiting for ClusterServiceVersion demo.v1 to succeed");
    insta::assert_snapshot!(told("Failed"), @"False/InstallComponentFailed: ClusterServiceVersion demo.v1: its status names no cause");
    insta::assert_snapshot!(told("Succeeded"), @"True/InstallSucceeded:");
}
