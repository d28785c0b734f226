//! Logs: one line an event, on stderr.

use std::io::IsTerminal;

use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// Where the kube client logs, as a warning, the whole of an answer that it cannot decode: of Secrets, too.
const ANSWERS: &str = "kube_client::client";

/// Starts logging. `debug` shows what each round does; the environment variable `OLM_LOG` takes a
/// filter such as `info,olm_runtime=debug` and wins. Colours only on a terminal. What the API server answered is
/// never logged, whatever the filter says.
///
/// Returns the text of an unusable `OLM_LOG`, for the caller to report.
pub fn start(debug: bool) -> Option<String> {
    let (filter, unusable) = filter(debug, std::env::var("OLM_LOG").ok().as_deref());
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // A second start, as in tests, keeps the first subscriber.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    unusable
}

/// What is logged, and the text of an unusable `wanted`.
fn filter(debug: bool, wanted: Option<&str>) -> (Targets, Option<String>) {
    let level = if debug { "debug" } else { "info" };
    let default = || {
        let default = format!(
            "warn,olm_runtime={level},olm_operator={level},catalog_operator={level},package_server={level},olm_registry={level}"
        );
        default.parse().unwrap_or_default()
    };
    let (filter, unusable): (Targets, _) = match wanted.map(str::parse) {
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (
            default(),
            Some(format!("OLM_LOG is not a filter ({error}), using the default")),
        ),
        None => (default(), None),
    };
    // No filter can name this target more closely, so that this is the last word about it.
    (filter.with_target(ANSWERS, LevelFilter::ERROR), unusable)
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Secret;
    use kube::{Api, Client, client::Body};
    use tracing_subscriber::Registry;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged when a Secret cannot be decoded.
    fn logged(filter: Targets) -> String {
        let written = Written::default();
        let writer = written.clone();
        let lines = fmt::layer().with_writer(move || writer.clone()).with_ansi(false);
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
        let log = written.0.lock().unwrap().clone();
        String::from_utf8(log).unwrap()
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
    fn an_unusable_filter_is_told_and_the_default_taken() {
        let (filter, unusable) = filter(false, Some("nonsense=nonsense"));
        assert!(unusable.unwrap().starts_with("OLM_LOG is not a filter"));
        assert!(filter.would_enable("olm_runtime", &tracing::Level::INFO));
        assert!(!filter.would_enable("olm_runtime", &tracing::Level::DEBUG));
    }
}
