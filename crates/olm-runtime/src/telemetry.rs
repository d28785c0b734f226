//! Logs on stderr, one line per event, as text or as JSON. Each line of a reconcile names its controller and its object. If the
//! environment names a collector, spans of reconciles and of their requests are exported to it.

mod export;

use std::{
    fmt::{self, Write as _},
    io::IsTerminal,
};

use tokio::runtime::Handle;
use tracing::{Subscriber, field::Field};
use tracing_subscriber::{
    Layer,
    field::MakeExt as _,
    filter::{LevelFilter, Targets},
    fmt::{
        MakeWriter,
        format::{Writer, debug_fn},
        layer,
    },
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use self::export::{Export, Settings};

/// Log target at which the kube client logs the whole of an undecodable answer as a warning, including Secrets.
const ANSWERS: &str = "kube_client::client";

/// Starts logging. `debug` logs the work of each reconcile. The environment variable `OLM_LOG` takes a filter such as
/// `info,olm_runtime=debug` and takes precedence. `OLM_LOG_FORMAT` is `text` or `json`. Colours are used only on a terminal. Answers of
/// the API server are never logged, whatever the filter is.
///
/// Spans of `program` are exported as OpenTelemetry's variables configure, with connections that run on `runtime`.
///
/// Returns the export of spans, if there is one, and the errors in these variables, for the caller to report.
pub(crate) fn start(debug: bool, program: &'static str, runtime: &Handle) -> (Option<Export>, Vec<String>) {
    let variable = |name: &str| std::env::var(name).ok();
    let (filter, unusable) = filter(debug, variable("OLM_LOG").as_deref());
    let (format, unknown) = format(variable("OLM_LOG_FORMAT").as_deref());
    let is_terminal = std::io::stderr().is_terminal();
    let settings = Settings::of(variable).and_then(|settings| {
        settings
            .map(|settings| Export::start(&settings, program, runtime))
            .transpose()
    });
    let (export, refused) = match settings {
        Ok(export) => (export, None),
        Err(error) => (None, Some(format!("{error}; spans are not exported"))),
    };
    // A second start, as in tests, keeps the first subscriber.
    let lines = lines(format, std::io::stderr, is_terminal).with_filter(filter);
    let lines = tracing_subscriber::registry().with(lines);
    let _ = lines.with(export.as_ref().map(Export::layer)).try_init();
    let errors = [unusable, unknown, refused].into_iter().flatten().collect();
    (export, errors)
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    /// One object per line, with `timestamp`, `level`, `target`, `fields`, `span` and `spans`.
    Json,
}

/// Returns the format, and the error of an unusable `wanted`.
fn format(wanted: Option<&str>) -> (Format, Option<String>) {
    match wanted {
        None | Some("" | "text") => (Format::Text, None),
        Some("json") => (Format::Json, None),
        Some(other) => {
            let text = format!("invalid OLM_LOG_FORMAT {other:?}: expected text or json; using text");
            (Format::Text, Some(text))
        }
    }
}

/// Returns the layer that writes the lines to `writer`.
fn lines<S, W>(format: Format, writer: W, with_colours: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    match format {
        Format::Text => layer()
            .with_writer(writer)
            .with_ansi(with_colours)
            .fmt_fields(debug_fn(write_field).delimited(" "))
            .boxed(),
        Format::Json => layer().json().with_writer(writer).boxed(),
    }
}

/// Writes a field of a text line. External text in it can neither end the line nor control the terminal.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let mut escaped = Escaped(writer);
    match field.name() {
        "message" => write!(escaped, "{value:?}"),
        name => write!(escaped, "{}={value:?}", name.trim_start_matches("r#")),
    }
}

/// Returns external text as it is shown: on one line, without terminal control characters.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    // Writing to a `String` never fails.
    let _ = Escaped(&mut shown).write_str(text);
    shown
}

/// Writes text with control characters and bidirectional formatting characters escaped.
struct Escaped<'a, W>(&'a mut W);

impl<W: fmt::Write> fmt::Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, found)) = rest.char_indices().find(|(_, found)| is_escaped(*found)) {
            self.0.write_str(&rest[..at])?;
            write!(self.0, "{}", found.escape_default())?;
            rest = &rest[at + found.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

fn is_escaped(found: char) -> bool {
    found.is_control() || matches!(found, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Crates whose lines are logged from the level of the program on; of others only warnings.
const OURS: [&str; 7] = [
    "catalog_operator",
    "catalogd",
    "olm_operator",
    "olm_registry",
    "olm_runtime",
    "operator_controller",
    "package_server",
];

/// Returns the log filter, and the error of an unusable `wanted`.
fn filter(debug: bool, wanted: Option<&str>) -> (Targets, Option<String>) {
    let level = if debug { "debug" } else { "info" };
    let default = || {
        let ours = OURS.map(|name| format!(",{name}={level}")).concat();
        format!("warn{ours}").parse().unwrap_or_default()
    };
    let (filter, unusable): (Targets, _) = match wanted.map(str::parse) {
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (
            default(),
            Some(format!("invalid OLM_LOG: {error}; using the default")),
        ),
        None => (default(), None),
    };
    // No filter can name a more specific target, so this setting always applies.
    (filter.with_target(ANSWERS, LevelFilter::ERROR), unusable)
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Secret;
    use kube::{Api, Client, client::Body};
    use tracing_subscriber::Registry;

    use super::*;
    use crate::written::Written;

    /// Returns the log of a Secret that cannot be decoded.
    fn logged(filter: Targets) -> String {
        let written = Written::default();
        let lines = layer().with_writer(written.clone()).with_ansi(false);
        let subscriber = Registry::default().with(filter).with(lines);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tracing::subscriber::with_default(subscriber, || {
            runtime.block_on(async {
                let answer = tower::service_fn(|_: Request<Body>| async {
                    let secret = r#"{"metadata": {"name": 1}, "data": {"tls.key": "c2VjcmV0"}}"#;
                    Ok::<_, kube::Error>(Response::new(Body::from(secret.as_bytes().to_vec())))
                });
                let secrets: Api<Secret> = Api::namespaced(Client::new(answer, "ns"), "ns");
                let error = secrets.get("s").await.unwrap_err();
                tracing::error!(%error, "a Secret cannot be read");
            });
        });
        written.text()
    }

    #[test]
    fn no_log_shows_what_a_secret_holds() {
        let unfiltered = logged("trace".parse().unwrap());
        assert!(
            unfiltered.contains("c2VjcmV0"),
            "the library logs no answers: {unfiltered}"
        );
        let wanted = [
            None,
            Some("trace"),
            Some("error,kube_client=trace"),
            Some("error,kube_client::client=trace"),
            Some("nonsense=nonsense"),
        ];
        for wanted in wanted {
            let log = logged(filter(true, wanted).0);
            assert!(log.contains("a Secret cannot be read"), "{wanted:?}: {log}");
            assert!(!log.contains("c2VjcmV0"), "{wanted:?}: {log}");
        }
    }

    #[test]
    fn lines_are_text_or_json() {
        assert_eq!(format(None), (Format::Text, None));
        assert_eq!(format(Some("json")), (Format::Json, None));
        let (taken, unknown) = format(Some("xml"));
        assert_eq!(taken, Format::Text);
        assert!(unknown.unwrap().starts_with("invalid OLM_LOG_FORMAT \"xml\""));
        let of = |format| {
            let written = Written::default();
            let lines = lines(format, written.clone(), false);
            tracing::subscriber::with_default(Registry::default().with(lines), || {
                let span = tracing::info_span!("round", controller = "csv", key = %"ns/a.v1");
                let _entered = span.enter();
                tracing::info!(count = 2, "done");
            });
            written.text()
        };
        let line: serde_json::Value = serde_json::from_str(&of(Format::Json)).unwrap();
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["fields"], serde_json::json!({"message": "done", "count": 2}));
        let round = serde_json::json!({"name": "round", "controller": "csv", "key": "ns/a.v1"});
        assert_eq!(line["span"], round);
        let text = of(Format::Text);
        assert!(text.contains("round{controller=\"csv\" key=ns/a.v1}"), "{text}");
    }

    /// External text may come from a registry, for example.
    #[test]
    fn what_others_said_ends_no_line_and_moves_no_cursor() {
        let written = Written::default();
        let lines = lines(Format::Text, written.clone(), false);
        tracing::subscriber::with_default(Registry::default().with(lines), || {
            let said = "x\n2026-01-01T00:00:00Z ERROR forged\u{1b}[2J\u{202e}\u{7}";
            let span = tracing::info_span!("round", key = %said);
            let _entered = span.enter();
            tracing::warn!(error = %said, text = said, "left out: {said}");
        });
        let log = written.text();
        assert_eq!(log.lines().count(), 1, "{log:?}");
        let controls: Vec<char> = log
            .trim_end()
            .chars()
            .filter(|found| is_escaped(*found))
            .collect();
        assert_eq!(controls, [], "{log:?}");
        let shown = r"x\n2026-01-01T00:00:00Z ERROR forged\u{1b}[2J\u{202e}\u{7}";
        assert!(
            log.contains(&format!("left out: {shown} error={shown} text=\"x\\n2026")),
            "{log}"
        );
        assert!(log.contains(&format!("round{{key={shown}}}")), "{log}");
    }

    #[test]
    fn an_unusable_filter_is_reported_and_the_default_used() {
        let (filter, unusable) = filter(false, Some("nonsense=nonsense"));
        assert!(unusable.unwrap().starts_with("invalid OLM_LOG: "));
        assert!(filter.would_enable("olm_runtime", &tracing::Level::INFO));
        assert!(!filter.would_enable("olm_runtime", &tracing::Level::DEBUG));
    }

    #[test]
    fn each_program_logs_its_own_lines() {
        let (usual, debug) = (filter(false, None).0, filter(true, None).0);
        for program in [
            "catalog_operator",
            "catalogd",
            "olm_operator",
            "operator_controller",
            "package_server",
        ] {
            assert!(usual.would_enable(program, &tracing::Level::INFO), "{program}");
            assert!(!usual.would_enable(program, &tracing::Level::DEBUG), "{program}");
            assert!(debug.would_enable(program, &tracing::Level::DEBUG), "{program}");
        }
        assert!(!debug.would_enable("hyper", &tracing::Level::INFO));
    }
}
