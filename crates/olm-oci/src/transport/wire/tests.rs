use std::convert::Infallible;

use futures::{Stream, stream};

use super::*;

const LIMITS: Limits = Limits::BUNDLE;
const SECOND: Duration = Duration::from_secs(1);

/// Returns an answer that begins now.
fn answer(parts: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let now = Instant::now();
    Response {
        response: http::Response::new(reqwest::Body::wrap_stream(parts)).into(),
        asked: now,
        head: now,
        received: 0,
        limits: LIMITS,
    }
}

/// Endless single bytes with a pause before each.
fn drip(pause: Duration) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((), move |()| async move {
        tokio::time::sleep(pause).await;
        Some((Ok(Bytes::from_static(b"0")), ()))
    })
}

/// Returns the error that ends the body of an answer, and the time it took.
async fn end_of(work: impl Future<Output = Failure>) -> (String, Duration) {
    let began = Instant::now();
    let failure = work.await;
    assert_eq!(failure.class, PullErrorClass::Unreachable, "{failure:?}");
    (failure.detail, began.elapsed())
}

async fn whole(answer: Response) -> Failure {
    answer.whole(1000).await.expect_err("endless")
}

async fn chunks(mut answer: Response) -> Failure {
    loop {
        if let Err(failure) = answer.chunk(1000).await {
            return failure;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn silence_has_an_end() {
    let limits = Limits {
        grace: LIMITS.idle * 10,
        ..LIMITS
    };
    let silent = || Response {
        limits,
        ..answer(stream::pending())
    };
    for (detail, time) in [end_of(whole(silent())).await, end_of(chunks(silent())).await] {
        assert_eq!(detail, "no data received for 30 s");
        assert!(time >= LIMITS.idle && time < LIMITS.idle + SECOND, "{time:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_drop_by_drop_has_an_end() {
    let (detail, time) = end_of(whole(answer(drip(SECOND * 7)))).await;
    assert_eq!(detail, "the response took longer than 60 s");
    assert!(time >= LIMITS.answer && time < LIMITS.answer + SECOND, "{time:?}");
    let (detail, time) = end_of(chunks(answer(drip(SECOND * 7)))).await;
    assert_eq!(
        detail,
        "too slow: 4 bytes in 30 s, the minimum is 16384 bytes per second"
    );
    assert!(time >= LIMITS.grace && time < LIMITS.grace + SECOND, "{time:?}");
}

/// Returns the result of a redirect from one address to another.
fn redirected(from: &str, to: &str, is_verified: bool) -> Result<String, String> {
    let from = parse_url(from).expect("URL");
    let request = Request {
        is_verified,
        ..Request::get(from.clone())
    };
    let response = http::Response::builder()
        .status(StatusCode::TEMPORARY_REDIRECT)
        .header(LOCATION, to)
        .body("")
        .expect("response");
    match redirect(&request, &from, &response.into()) {
        Ok(next) => Ok(next.expect("a redirect").to_string()),
        Err(failure) => {
            assert_eq!(failure.class, PullErrorClass::Malformed, "{failure:?}");
            Err(failure.detail)
        }
    }
}

#[test]
fn what_is_not_verified_does_not_go_from_https_to_http() {
    let refused = Err("the response redirects from https to http".to_owned());
    assert_eq!(redirected("https://a.io/x", "http://a.io/y", false), refused);
    for (from, to, is_verified) in [
        ("https://a.io/x", "http://b.io/y", true),
        ("https://a.io/x", "https://b.io/y", false),
        ("http://a.io/x", "http://b.io/y", false),
        ("http://a.io/x", "https://b.io/y", false),
    ] {
        assert_eq!(redirected(from, to, is_verified), Ok(to.to_owned()), "{from}");
    }
    // A relative address keeps the host.
    assert_eq!(
        redirected("https://a.io/x/", "y", false),
        Ok("https://a.io/x/y".to_owned())
    );
}

#[test]
fn redirects_lead_to_http_only() {
    for to in ["file:///etc/passwd", "ftp://a.io/x", "data:,x", "http://"] {
        assert_eq!(
            redirected("http://a.io/x", to, true),
            Err("the response redirects to a URL that is not http or https".to_owned()),
            "{to}"
        );
    }
}
