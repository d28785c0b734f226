//! The documents' promises about Subscriptions, each by its id. Tests of complete flows are in `flows`.

use olm_api::v1alpha1::{InstallPlan, Subscription};
use serde_json::{Value, json};

use super::test_env::{BundleRow, GLOBAL, NAMESPACE};
use super::{TestEnv, bundle};

/// A cluster in which these packages are subscribed to and installed at their first version.
fn with_installed(packages: &[&str], spec: &Value) -> TestEnv {
    let mut env = TestEnv::with_catalog(packages.iter().map(|package| bundle(&format!("{package}.v1"))));
    for package in packages {
        env.subscribe(package, spec);
    }
    env.settle();
    env.carry_out_plans();
    env.settle();
    for package in packages {
        assert_eq!(
            installed(&env, package),
            format!("{package}.v1"),
            "{}",
            env.describe()
        );
    }
    env
}

fn first_and_second(packages: &[&str]) -> Vec<BundleRow> {
    let rows = packages.iter().flat_map(|package| {
        let first = format!("{package}.v1");
        [bundle(&first), bundle(&format!("{package}.v2")).replaces(&first)]
    });
    rows.collect()
}

fn status_text(env: &TestEnv, package: &str, read: impl Fn(&Subscription) -> Option<String>) -> String {
    read(&env.subscription(&format!("{package}-sub"))).unwrap_or_default()
}

fn installed(env: &TestEnv, package: &str) -> String {
    status_text(env, package, |s| s.status.as_ref()?.installed_csv.clone())
}

fn current(env: &TestEnv, package: &str) -> String {
    status_text(env, package, |s| s.status.as_ref()?.current_csv.clone())
}

fn last_plan(env: &TestEnv) -> InstallPlan {
    env.plans().pop().unwrap()
}

fn csvs(plan: &InstallPlan) -> Vec<&str> {
    let names = plan.spec.cluster_service_version_names.iter();
    names.map(String::as_str).collect()
}

#[test]
fn sub_001_the_spec_names_package_channel_and_catalog() {
    let rows = [
        bundle("demo.v1"),
        bundle("demo.v2").channel("alpha", false),
        bundle("other.v3").channel("alpha", true),
    ];
    let mut env = TestEnv::with_catalog(rows.clone());
    env.serve(GLOBAL, "global", rows);
    env.subscribe(
        "demo",
        &json!({"channel": "alpha", "source": "global", "sourceNamespace": GLOBAL}),
    );
    env.settle();
    let plan = last_plan(&env);
    assert_eq!(csvs(&plan), ["demo.v2"]);
    let catalog = &plan.status.as_ref().unwrap().bundle_lookups[0].catalog_source_ref;
    assert_eq!(
        (catalog.name.as_deref(), catalog.namespace.as_deref()),
        (Some("global"), Some(GLOBAL))
    );
}

#[test]
fn sub_002_the_operator_is_installed_in_the_namespace_of_the_subscription() {
    let mut env = TestEnv::new();
    env.add_group("og", &json!({}), &json!({}));
    env.serve(GLOBAL, "global", [bundle("demo.v1")]);
    env.subscribe("demo", &json!({"source": "global", "sourceNamespace": GLOBAL}));
    env.settle();
    let plan = last_plan(&env);
    assert_eq!(plan.metadata.namespace.as_deref(), Some(NAMESPACE));
    let step = &plan.status.unwrap().plan[0];
    assert_eq!(step.resource.kind, "ClusterServiceVersion");
}

#[test]
fn sub_003_names_of_channels_are_free_text() {
    for channel in ["alpha", "beta", "stable", "fast", "1.2", "1.3"] {
        let rows = [
            bundle("demo.v1").channel("first", true),
            bundle("demo.v2").channel(channel, false),
        ];
        let mut env = TestEnv::with_catalog(rows);
        env.subscribe("demo", &json!({"channel": channel}));
        env.settle();
        assert_eq!(current(&env, "demo"), "demo.v2", "{channel}");
    }
}

#[test]
fn sub_004_automatic_plans_approve_themselves_and_follow_the_channel() {
    for approval in [json!({"installPlanApproval": "Automatic"}), json!({})] {
        let mut env = with_installed(&["demo"], &approval);
        env.serve(NAMESPACE, "cat", first_and_second(&["demo"]));
        env.settle();
        assert!(last_plan(&env).spec.approved);
        env.carry_out_plans();
        env.settle();
        assert_eq!(installed(&env, "demo"), "demo.v2");
    }
}

#[test]
fn sub_005_manual_plans_wait_until_a_user_approves() {
    let mut env = TestEnv::with_catalog([bundle("demo.v1")]);
    env.subscribe("demo", &json!({"installPlanApproval": "Manual"}));
    env.advance(std::time::Duration::from_secs(3600));
    let plan = last_plan(&env);
    assert!(!plan.spec.approved);
    assert_eq!(plan.phase().as_str(), "RequiresApproval");
    env.set_phase(plan.metadata.name.as_deref().unwrap(), "Installing");
    env.carry_out_plans();
    env.settle();
    assert_eq!(installed(&env, "demo"), "demo.v1");
}

#[test]
fn sub_006_current_is_the_newest_known_and_installed_what_runs() {
    let mut env = with_installed(&["demo"], &json!({"installPlanApproval": "Automatic"}));
    assert_eq!(current(&env, "demo"), "demo.v1");
    env.edit(
        "Subscription",
        "demo-sub",
        &json!({"spec": {"installPlanApproval": "Manual"}}),
    );
    env.serve(NAMESPACE, "cat", first_and_second(&["demo"]));
    env.settle();
    assert_eq!(
        (current(&env, "demo"), installed(&env, "demo")),
        ("demo.v2".to_owned(), "demo.v1".to_owned())
    );
}

#[test]
fn sub_007_they_differ_while_a_newer_version_is_available() {
    let mut env = with_installed(&["demo"], &json!({}));
    assert_eq!(current(&env, "demo"), installed(&env, "demo"));
    env.serve(NAMESPACE, "cat", first_and_second(&["demo"]));
    env.settle();
    assert_ne!(current(&env, "demo"), installed(&env, "demo"));
    env.carry_out_plans();
    env.settle();
    assert_eq!(current(&env, "demo"), installed(&env, "demo"));
}

#[test]
fn sub_008_a_subscription_leads_to_a_plan_in_its_namespace() {
    let mut env = TestEnv::with_catalog([bundle("demo.v1")]);
    env.settle();
    assert!(env.plans().is_empty());
    env.subscribe("demo", &json!({}));
    env.settle();
    let plan = last_plan(&env);
    assert_eq!(plan.metadata.namespace.as_deref(), Some(NAMESPACE));
    let name = env
        .subscription("demo-sub")
        .status
        .unwrap()
        .install_plan_ref
        .unwrap()
        .name;
    assert_eq!(name, plan.metadata.name);
}

#[test]
fn sub_009_what_is_new_is_installed_at_the_head_of_the_channel() {
    let mut rows = first_and_second(&["demo"]);
    rows.push(bundle("demo.v9").channel("beta", false));
    let mut env = TestEnv::with_catalog(rows);
    env.subscribe("demo", &json!({}));
    env.settle();
    assert_eq!(csvs(&last_plan(&env)), ["demo.v2"]);
}

/// OLM's manifests give the right to write Subscriptions to the built-in roles `admin` and `edit`, and not to `view`; other
/// users have none but those that an administrator gives them.
#[test]
fn sub_010_read_only_users_cannot_create_subscriptions() {
    let manifest = include_bytes!("../../../../../manifests/install.yaml");
    let objects = olm_fbc::yaml::parse_all(manifest).unwrap();
    let names = |rule: &Value, field: &str, one: &str| {
        let mut all = rule[field].as_array().into_iter().flatten();
        all.any(|name| name == one || name == "*")
    };
    let may = |role: &Value, verb: &str| {
        let mut rules = role["rules"].as_array().into_iter().flatten();
        rules.any(|rule| {
            names(rule, "apiGroups", "operators.coreos.com")
                && names(rule, "resources", "subscriptions")
                && names(rule, "verbs", verb)
        })
    };
    // Of users' roles and of OLM's own, by name.
    let with = |verb: &str| {
        let roles = objects.iter().filter(|object| may(object, verb));
        roles
            .map(|role| role["metadata"]["name"].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    for verb in ["create", "update", "patch"] {
        let writing = with(verb);
        let of_users = writing.iter().filter(|name| !name.starts_with("olm:"));
        assert_eq!(of_users.collect::<Vec<_>>(), [&"aggregate-olm-edit"], "{verb}");
    }
    let role = |name: &str| {
        objects
            .iter()
            .find(|object| object["metadata"]["name"] == name)
            .unwrap()
    };
    let to = |role: &str| format!("rbac.authorization.k8s.io/aggregate-to-{role}");
    assert_eq!(
        role("aggregate-olm-edit")["metadata"]["labels"],
        json!({to("admin"): "true", to("edit"): "true"})
    );
    assert!(may(role("aggregate-olm-view"), "get"), "who may look sees them");
    // Only OLM's programs are bound to roles, each to its own.
    let mut bound = 0;
    for binding in objects.iter().filter(|object| {
        let kind = object["kind"].as_str().unwrap_or_default();
        kind.ends_with("RoleBinding")
    }) {
        bound += 1;
        for subject in binding["subjects"].as_array().unwrap() {
            assert_eq!(subject["kind"], "ServiceAccount", "{binding}");
            assert_eq!(subject["namespace"], "olm", "{binding}");
            let program = subject["name"].as_str().unwrap();
            let to = binding["roleRef"]["name"].as_str().unwrap();
            assert!(to.contains(program), "{binding}");
        }
    }
    assert!(bound >= 3, "{bound}");
}

/// The catalog publishes a release, without any action of a user.
#[test]
fn arch_011_an_update_is_planned_and_installed_without_a_user() {
    let mut env = with_installed(&["demo"], &json!({}));
    env.serve(NAMESPACE, "cat", first_and_second(&["demo"]));
    env.settle();
    let plan = last_plan(&env);
    assert_eq!(
        (csvs(&plan), plan.metadata.namespace.as_deref()),
        (vec!["demo.v2"], Some(NAMESPACE))
    );
    env.carry_out_plans();
    env.settle();
    assert_eq!(installed(&env, "demo"), "demo.v2");
}

#[test]
fn upg_006_at_the_head_no_further_plan_appears() {
    let mut env = TestEnv::with_catalog(first_and_second(&["demo"]));
    env.subscribe("demo", &json!({"startingCSV": "demo.v1"}));
    for _ in 0..4 {
        env.settle();
        env.carry_out_plans();
    }
    env.advance(std::time::Duration::from_secs(3600));
    assert_eq!(
        (installed(&env, "demo").as_str(), env.plans().len()),
        ("demo.v2", 2)
    );
    assert_eq!(current(&env, "demo"), "demo.v2");
}

#[test]
fn upg_026_a_new_release_is_found_and_reached_without_a_restart() {
    let mut env = with_installed(&["demo"], &json!({}));
    for release in 2..5 {
        let rows = (1..=release).map(|number| {
            let row = bundle(&format!("demo.v{number}"));
            match number {
                1 => row,
                _ => row.replaces(&format!("demo.v{}", number - 1)),
            }
        });
        env.serve(NAMESPACE, "cat", rows.collect::<Vec<_>>());
        env.settle();
        env.carry_out_plans();
        env.settle();
        assert_eq!(installed(&env, "demo"), format!("demo.v{release}"));
    }
}

#[test]
fn mt_005_operators_of_a_namespace_are_updated_together() {
    let mut env = with_installed(&["demo", "other"], &json!({}));
    env.serve(NAMESPACE, "cat", first_and_second(&["demo", "other"]));
    env.settle();
    assert_eq!(env.plans().len(), 2, "one for the installs, one for the updates");
    assert_eq!(csvs(&last_plan(&env)), ["demo.v2", "other.v2"]);
}

/// Of all operators that move. As upstream, those that stay where they are have no step and are not named.
#[test]
fn mt_006_the_plan_lists_the_csvs_of_all_operators_that_move() {
    let mut env = with_installed(&["demo", "other", "third"], &json!({}));
    let mut rows = first_and_second(&["demo", "other"]);
    rows.push(bundle("third.v1"));
    env.serve(NAMESPACE, "cat", rows);
    env.settle();
    assert_eq!(csvs(&last_plan(&env)), ["demo.v2", "other.v2"]);
}

/// Whether it moves itself or not.
#[test]
fn mt_007_one_manual_subscription_makes_all_updates_manual() {
    for moves in [true, false] {
        let mut env = with_installed(&["demo", "other"], &json!({}));
        env.edit(
            "Subscription",
            "other-sub",
            &json!({"spec": {"installPlanApproval": "Manual"}}),
        );
        let mut rows = first_and_second(if moves { &["demo", "other"] } else { &["demo"] });
        rows.extend((!moves).then(|| bundle("other.v1")));
        env.serve(NAMESPACE, "cat", rows);
        env.settle();
        let plan = last_plan(&env);
        assert!(csvs(&plan).contains(&"demo.v2") && !plan.spec.approved, "{moves}");
    }
}

#[test]
fn mt_009_dependencies_share_namespace_strategy_and_plan() {
    for (approval, approved) in [("Manual", false), ("Automatic", true)] {
        let rows = [
            bundle("upper.v1").requires("Ofdemo"),
            bundle("demo.v1").provides("Ofdemo"),
        ];
        let mut env = TestEnv::with_catalog(rows);
        env.subscribe("upper", &json!({"installPlanApproval": approval}));
        env.settle();
        assert_eq!(env.plans().len(), 1, "{}", env.describe());
        let plan = last_plan(&env);
        assert_eq!(
            (csvs(&plan), plan.spec.approved),
            (vec!["demo.v1", "upper.v1"], approved)
        );
        let status = plan.status.unwrap();
        let generated = status
            .plan
            .iter()
            .find(|step| step.resource.kind == "Subscription");
        let manifest = generated.unwrap().resource.manifest.clone().unwrap();
        assert!(manifest.contains(r#""namespace":"ns""#), "{manifest}");
    }
}

/// A catalog is for all namespaces, or for the one that it is in, as an administrator puts it; and a namespace may do without those for all.
#[test]
fn arch_016_a_namespace_sees_its_own_catalogs_and_the_global_ones_unless_its_group_excludes_them() {
    let plans = |catalogs: &str, annotations: &Value| {
        let mut env = TestEnv::new();
        env.add_group("og", annotations, &json!({}));
        env.serve(catalogs, "team", [bundle("demo.v1")]);
        env.subscribe("demo", &json!({"source": "team", "sourceNamespace": catalogs}));
        env.settle();
        env.plans().len()
    };
    let says = |value: &str| json!({"olm.operatorframework.io/exclude-global-namespace-resolution": value});
    let excluded = says("true");
    let rows = [
        (NAMESPACE, json!({}), 1),
        (GLOBAL, json!({}), 1),
        ("elsewhere", json!({}), 0),
        (NAMESPACE, excluded.clone(), 1),
        (GLOBAL, excluded, 0),
        (GLOBAL, says("false"), 1),
        (GLOBAL, says(""), 1),
    ];
    for (catalogs, annotations, wanted) in rows {
        assert_eq!(plans(catalogs, &annotations), wanted, "{catalogs} {annotations}");
    }
}

/// Namespaces with different versions take the definition from the one bundle that has it.
#[test]
fn mt_003_versions_that_ship_no_definition_take_it_from_a_bundle_of_its_own() {
    for version in ["demo.v1", "demo.v2"] {
        let second = bundle("demo.v2").replaces("demo.v1").requires("Shared");
        let mut env = TestEnv::with_catalog([
            bundle("apis.v1").provides("Shared"),
            bundle("demo.v1").requires("Shared"),
            second,
        ]);
        env.subscribe("demo", &json!({"startingCSV": version}));
        env.settle();
        assert_eq!(csvs(&last_plan(&env)), ["apis.v1", version], "{}", env.describe());
    }
}

/// The content behind an installed name changes.
#[test]
fn opm_008_an_installed_bundle_that_changes_in_the_catalog_is_not_installed_again() {
    let mut env = with_installed(&["demo"], &json!({}));
    let written = env.writes.len();
    env.serve(
        NAMESPACE,
        "cat",
        [bundle("demo.v1").provides("Ofother").requires("Ofother")],
    );
    env.settle();
    env.restart();
    env.settle();
    assert_eq!(
        (env.plans().len(), env.writes.len()),
        (1, written),
        "{:#?}",
        env.writes
    );
}

const REFUSED: &str = "couldn't connect to registry - refused";

/// A catalog whose server refuses connections.
fn put_unhealthy(env: &mut TestEnv, namespace: &str, name: &str) {
    env.put_source(
        namespace,
        name,
        &json!({"sourceType": "grpc", "address": "h:1", "priority": 100}),
        &json!({"reason": "RegistryServerError", "message": REFUSED,
            "registryService": {}, "connectionState": {"lastObservedState": "TRANSIENT_FAILURE"}}),
    );
}

/// Every Subscription that can see the catalog reports it. Subscriptions that the catalog might have served wait; others, unlike
/// upstream, do not.
#[test]
fn hlt_002_an_unhealthy_global_catalog_is_reported_and_holds_what_may_need_it() {
    let mut env = TestEnv::with_catalog([bundle("upper.v1").requires("Ofdemo"), bundle("plain.v1")]);
    put_unhealthy(&mut env, GLOBAL, "global");
    env.subscribe("upper", &json!({}));
    env.subscribe("plain", &json!({}));
    env.settle();
    let told = env.describe();
    assert_eq!(told.matches("; unavailable: olm/global").count(), 2, "{told}");
    assert!(told.contains(REFUSED), "{told}");
    assert_eq!(
        (current(&env, "upper").as_str(), env.plans().len()),
        ("", 1),
        "{told}"
    );
    assert_eq!(csvs(&last_plan(&env)), ["plain.v1"]);
}

/// Which namespace is the global one is a flag of the operator.
#[test]
fn hlt_003_the_rule_holds_for_any_global_namespace() {
    for global in [GLOBAL, "catalogs"] {
        let mut env = TestEnv::with_global(global);
        env.add_group("og", &json!({}), &json!({}));
        put_unhealthy(&mut env, global, "global");
        env.subscribe("demo", &json!({"source": "global", "sourceNamespace": global}));
        env.settle();
        let told = env.describe();
        let text = format!("targeted catalogsource {global}/global unhealthy\n");
        assert!(told.contains(&text), "{told}");
        // Catalogs of a namespace that is not the global one are not visible.
        let other = if global == GLOBAL { "catalogs" } else { GLOBAL };
        put_unhealthy(&mut env, other, "elsewhere");
        env.settle();
        assert!(!env.describe().contains("elsewhere"), "{}", env.describe());
    }
}

#[test]
fn hlt_004_no_dependency_is_taken_from_another_catalog_meanwhile() {
    let mut env = TestEnv::with_catalog([
        bundle("upper.v1").requires("Ofdemo"),
        bundle("demo.v1").provides("Ofdemo"),
    ]);
    put_unhealthy(&mut env, NAMESPACE, "first");
    env.subscribe("upper", &json!({"source": "first"}));
    env.settle();
    let told = env.describe();
    assert!(
        told.contains("ResolutionFailed=True/ErrorPreventedResolution"),
        "{told}"
    );
    assert!(env.plans().is_empty(), "{told}");
}

#[test]
fn hlt_005_without_the_unhealthy_catalog_everything_goes_on() {
    let mut env = TestEnv::with_catalog([bundle("upper.v1").requires("Ofdemo"), bundle("demo.v1")]);
    put_unhealthy(&mut env, NAMESPACE, "first");
    env.subscribe("demo", &json!({}));
    env.settle();
    assert!(
        env.describe().contains("; unavailable: ns/first"),
        "{}",
        env.describe()
    );
    env.delete("CatalogSource", "first");
    env.settle();
    env.carry_out_plans();
    env.settle();
    let told = env.describe();
    assert!(
        told.contains("CatalogSourcesUnhealthy=False/") && !told.contains("unavailable"),
        "{told}"
    );
    assert_eq!(installed(&env, "demo"), "demo.v1");
}
