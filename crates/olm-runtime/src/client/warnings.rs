//! Collects the warnings that the API server sends with its answers, per request.
//!
//! The layer sees answers but not actions, and the executor sees actions but not headers. Both run in one task, so they share a
//! task-local variable.

use std::cell::RefCell;

use http::{HeaderMap, Response};
use tower::util::MapResponseLayer;

/// Maximum number of warnings kept per request. The API server sends at most 4 KiB.
const KEPT: usize = 16;
const LENGTH: usize = 1024;

tokio::task_local! {
    static COLLECTED: RefCell<Vec<String>>;
}

/// Runs `asking` and returns the warnings that came with the answers to its requests, without duplicates, in order.
pub(crate) async fn with_warnings<T>(asking: impl Future<Output = T>) -> (T, Vec<String>) {
    let collecting = async {
        let answer = asking.await;
        let warnings = COLLECTED.with(RefCell::take);
        (answer, warnings)
    };
    COLLECTED.scope(RefCell::default(), collecting).await
}

/// Returns the client layer that collects warnings, so that the executor can add them to its outcomes.
pub fn collect_warnings<B>() -> MapResponseLayer<fn(Response<B>) -> Response<B>> {
    MapResponseLayer::new(|answer: Response<B>| {
        collect(answer.headers());
        answer
    })
}

fn collect(headers: &HeaderMap) {
    let mut found = headers.get_all(http::header::WARNING).iter().peekable();
    if found.peek().is_none() {
        return;
    }
    // Without a collector the warnings are dropped.
    let _ = COLLECTED.try_with(|collected| {
        let mut collected = collected.borrow_mut();
        for text in found.filter_map(|value| value.to_str().ok()).filter_map(text_of) {
            if collected.len() < KEPT && !collected.contains(&text) {
                collected.push(text);
            }
        }
    });
}

/// Returns the text of a header `299 - "text"`. `None` for other codes, which are about caches.
fn text_of(value: &str) -> Option<String> {
    let rest = value.trim().strip_prefix("299 ")?;
    let (_, rest) = rest.split_once(' ')?;
    let mut text = String::new();
    let mut characters = rest.strip_prefix('"')?.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => text.extend(characters.next()),
            _ => text.push(character),
        }
        if text.chars().count() == LENGTH {
            break;
        }
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use http::Request;
    use kube::client::{Body, ClientBuilder};
    use tower::BoxError;

    use super::*;

    #[test]
    fn the_text_of_a_warning_is_read_out_of_its_quotes() {
        for (value, text) in [
            (r#"299 - "a is deprecated""#, Some("a is deprecated")),
            (
                r#"299 - "unknown field \"spec.x\"""#,
                Some(r#"unknown field "spec.x""#),
            ),
            (r#"299 - "text" "Sat, 01 Jan 2000 00:00:00 GMT""#, Some("text")),
            (r#"110 - "stale""#, None),
            ("299", None),
            ("299 - bare", None),
            (r#"299 - """#, None),
        ] {
            assert_eq!(text_of(value).as_deref(), text, "{value}");
        }
        let long = format!(r#"299 - "{}""#, "x".repeat(9000));
        assert_eq!(text_of(&long).unwrap().len(), LENGTH);
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "what is answered is collected")]
    async fn warnings_reach_only_the_requester() {
        let server = tower::service_fn(|request: Request<Body>| async move {
            let mut answer = Response::builder();
            for number in 0..request.uri().path().len() - 1 {
                answer = answer.header("warning", format!(r#"299 - "{} {number}""#, request.uri().path()));
                answer = answer.header("warning", format!(r#"299 - "{} {number}""#, request.uri().path()));
            }
            Ok::<_, BoxError>(answer.body(Body::empty()).unwrap())
        });
        let client = ClientBuilder::new(server, "default")
            .with_layer(&collect_warnings())
            .build();
        let ask = |path: String| {
            let client = client.clone();
            async move {
                let request = Request::get(path).body(Body::empty()).unwrap();
                client.send(request).await.is_ok()
            }
        };
        let (left, right) = tokio::join!(
            with_warnings(ask("/ab".to_owned())),
            with_warnings(ask("/".to_owned()))
        );
        assert_eq!(left, (true, vec!["/ab 0".to_owned(), "/ab 1".to_owned()]));
        assert_eq!(right, (true, Vec::new()));
        assert!(ask("/ab".to_owned()).await);
        let (_, many) = with_warnings(ask(format!("/{}", "x".repeat(99)))).await;
        assert_eq!(many.len(), KEPT);
    }
}
