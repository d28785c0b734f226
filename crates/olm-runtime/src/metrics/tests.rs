use super::*;
use crate::outcome::{Failure, FailureClass};
use crate::plan::Target;

fn delete() -> Action {
    Action::delete(
        Target::of::<k8s_openapi::api::core::v1::ConfigMap>("ns", "name"),
        None,
    )
}

fn refused(class: FailureClass) -> Outcome {
    Outcome::Failed(Failure {
        class,
        code: 0,
        message: String::new(),
        action: String::new(),
    })
}

/// Dashboards for controller-runtime use these names and labels.
#[test]
fn what_was_counted_is_reported_under_the_names_of_the_field() {
    let metrics = Metrics::registered();
    metrics.round_ended("csv", "success", Duration::from_millis(3));
    metrics.round_ended("csv", "error", Duration::from_secs(2));
    metrics.round_failed("csv", "observe");
    metrics.round_ended("csv", "requeue_after", Duration::ZERO);
    metrics.round_panicked("csv");
    metrics.key_paused("csv");
    metrics.requested("200", "GET");
    metrics.requested("200", "GET");
    metrics.requested("<error>", "PATCH");
    metrics.wrote(&delete(), &Outcome::Gone);
    metrics.wrote(&delete(), &refused(FailureClass::Conflict));
    metrics.wrote(&delete(), &Outcome::NotAttempted);
    metrics.held_back("event");
    metrics.watch_restarted("pods.");
    let text = metrics.text().unwrap();
    for line in [
        r#"controller_runtime_reconcile_total{controller="csv",result="success"} 1"#,
        r#"controller_runtime_reconcile_total{controller="csv",result="error"} 1"#,
        r#"controller_runtime_reconcile_total{controller="csv",result="requeue_after"} 1"#,
        r#"controller_runtime_reconcile_errors_total{controller="csv"} 1"#,
        r#"controller_runtime_reconcile_panics_total{controller="csv"} 1"#,
        r#"controller_runtime_reconcile_time_seconds_bucket{controller="csv",le="0.005"} 2"#,
        r#"controller_runtime_reconcile_time_seconds_count{controller="csv"} 3"#,
        r#"olm_reconcile_pauses_total{controller="csv"} 1"#,
        r#"rest_client_requests_total{code="200",method="GET"} 2"#,
        r#"rest_client_requests_total{code="<error>",method="PATCH"} 1"#,
        r#"olm_writes_total{outcome="gone",verb="delete"} 1"#,
        r#"olm_writes_total{outcome="conflict",verb="delete"} 1"#,
        r#"olm_writes_total{outcome="held_back",verb="event"} 1"#,
        r#"olm_watch_restarts_total{resource="pods."} 1"#,
    ] {
        assert!(text.lines().any(|told| told == line), "{line}\n{text}");
    }
    assert_eq!(metrics.total("controller_runtime_reconcile_total"), 3.0);
    assert_eq!(metrics.total("olm_writes_total"), 3.0);
}

#[test]
fn current_values_are_read_when_the_metrics_are_read() {
    let metrics = Metrics::registered();
    let waiting = Arc::new(Mutex::new(Some(7)));
    let asked = Arc::clone(&waiting);
    metrics.sample_queue("csv", move || *asked.lock());
    metrics.sample_store("pods.", || Some(2));
    metrics.sample_store("pods.", || Some(3));
    let has = |line: &str| metrics.text().unwrap().lines().any(|told| told == line);
    assert!(has(r#"workqueue_depth{name="csv"} 7"#));
    assert!(has(r#"olm_store_objects{resource="pods."} 5"#));
    *waiting.lock() = Some(1);
    assert!(has(r#"workqueue_depth{name="csv"} 1"#));
    *waiting.lock() = None;
    assert!(!metrics.text().unwrap().contains(r#"workqueue_depth{name="csv"}"#));
    *waiting.lock() = Some(1);
    assert!(
        !metrics.text().unwrap().contains(r#"workqueue_depth{name="csv"}"#),
        "forgotten"
    );
}

#[test]
fn by_default_nothing_is_counted() {
    let metrics = Metrics::default();
    metrics.requested("200", "GET");
    metrics.sample_queue("csv", || Some(7));
    assert_eq!(metrics.text().unwrap(), "");
    assert_eq!(metrics.total("rest_client_requests_total"), 0.0);
}

/// The reference page must list every metric.
#[test]
fn the_page_lists_every_metric() {
    let page = include_str!("../../../../docs/reference/metrics.md");
    let metrics = Metrics::registered();
    metrics.round_ended("csv", "error", Duration::ZERO);
    metrics.round_failed("csv", "observe");
    metrics.round_panicked("csv");
    metrics.key_paused("csv");
    metrics.requested("200", "GET");
    metrics.held_back("event");
    metrics.watch_restarted("pods.");
    metrics.sample_queue("csv", || Some(7));
    metrics.sample_store("pods.", || Some(2));
    let text = metrics.text().unwrap();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names.len(), 11, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
}

#[test]
fn gauges_of_a_program_show_the_state_when_they_are_read() {
    let metrics = Metrics::registered();
    let known = Arc::new(Mutex::new(vec![("one", 1), ("two", 0)]));
    let read = Arc::clone(&known);
    metrics.gauges("ready", "Which are ready", ["name"], move || {
        let known = read.lock();
        known
            .iter()
            .map(|(name, figure)| ([(*name).to_owned()], *figure))
            .collect()
    });
    metrics.gauges("all", "How many", [], || vec![([], 7)]);
    let of_program = || {
        let text = metrics.text().unwrap();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("ready") || line.starts_with("all"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        of_program(),
        ["all 7", r#"ready{name="one"} 1"#, r#"ready{name="two"} 0"#]
    );
    known.lock().remove(0);
    assert_eq!(of_program(), ["all 7", r#"ready{name="two"} 0"#]);
}

#[test]
fn counters_of_a_program_begin_with_nothing() {
    let metrics = Metrics::registered();
    let counter = metrics.counter("upgrades", "How many");
    assert!(metrics.text().unwrap().contains("\nupgrades 0\n"));
    counter.increment();
    assert_eq!(metrics.total("upgrades"), 1.0);
    // Handles that count nothing can be used as well.
    Metrics::default().counter("upgrades", "How many").increment();
}

#[cfg(target_os = "linux")]
#[test]
fn the_process_reports_about_itself_as_all_exporters_do() {
    let metrics = Metrics::registered();
    metrics.of_the_process();
    let text = metrics.text().unwrap();
    for name in [
        "resident_memory_bytes",
        "virtual_memory_bytes",
        "open_fds",
        "max_fds",
        "start_time_seconds",
    ] {
        let name = format!("process_{name} ");
        let line = text.lines().find(|line| line.starts_with(&name));
        let value = line.and_then(|line| line[name.len()..].parse::<f64>().ok());
        assert!(value.is_some_and(|value| value > 0.0), "{name}: {line:?}");
    }
    assert!(text.contains("\nprocess_cpu_seconds_total "));
    let version = format!("version=\"{}\"}} 1\n", env!("CARGO_PKG_VERSION"));
    let build = text
        .lines()
        .find(|line| line.starts_with("olm_build_info{commit=\""));
    assert!(
        build.is_some_and(|line| format!("{line}\n").ends_with(&version)),
        "{build:?}"
    );
}
