//! Requests for contents, and the responses to them.
//!
//! `/catalogs/<name>/api/v1/all` is everything, `/catalogs/<name>/api/v1/metas` the documents with the requested `schema`, `package` and
//! `name`. Both are JSON lines. Texts and codes of refusals are upstream's. Upstream has no `ETag`.

mod body;
mod conditional;
mod range;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName,
    HeaderValue, LAST_MODIFIED, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use olm_api::names::dns1123_subdomain_faults;
use olm_runtime::metrics::{Durations, Metrics};
use percent_encoding::percent_decode_str;
use tokio::time::Instant;

use self::conditional::Validators;
use self::range::Wanted;
use crate::store::{Content, ContentStore, Query};

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Media type of contents.
const JSON_LINES: &str = "application/jsonl";
/// Shortest content in bytes that is compressed, as upstream's.
const SHORTEST_COMPRESSED: u64 = 1024;
/// Bounds of the durations in seconds, from small selections to whole catalogs.
const DURATIONS: [f64; 7] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// Answers requests from the contents in a store. Clones share their metrics.
#[derive(Clone)]
pub struct Api {
    store: ContentStore,
    durations: Durations<1>,
}

/// A refusal: status code and text, without the line break.
type Refused = (StatusCode, String);

/// The two resources of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    All,
    Metas,
}

impl Api {
    /// Returns an API that serves `store`, and measures in `metrics`.
    pub fn new(store: ContentStore, metrics: &Metrics) -> Self {
        let durations = metrics.durations(
            "catalogd_http_request_duration_seconds",
            "Time until the head of a response, by status code",
            ["code"],
            &DURATIONS,
        );
        Self { store, durations }
    }

    /// Returns the response to a request.
    pub fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<Body> {
        let began = Instant::now();
        let answered = self.respond(method, uri, headers);
        let mut response = answered.unwrap_or_else(|(code, text)| refusal(code, &text));
        response
            .headers_mut()
            .insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        if *method == Method::HEAD {
            *response.body_mut() = empty();
        }
        self.durations
            .observe([response.status().as_str()], began.elapsed());
        response
    }

    fn respond(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Response<Body>, Refused> {
        let Some((catalog, resource)) = route(uri.path()) else {
            return Err((StatusCode::NOT_FOUND, "404 page not found".to_owned()));
        };
        if !matches!(*method, Method::GET | Method::HEAD) {
            let text = "Method Not Allowed".to_owned();
            return Err((StatusCode::METHOD_NOT_ALLOWED, text));
        }
        let catalog = name(catalog)?;
        let query = match resource {
            Resource::All => Query::default(),
            Resource::Metas => query(uri.query().unwrap_or_default())?,
        };
        let content = self.store.get(&catalog);
        let content = content.ok_or_else(|| coded(StatusCode::NOT_FOUND))?;
        let validators = Validators::of(&content);
        let Some(code) = conditional::check(headers, validators) else {
            return Ok(self::content(method, headers, resource, &query, &content));
        };
        let mut response = Response::new(empty());
        *response.status_mut() = code;
        validate(&mut response, validators);
        Ok(response)
    }
}

/// Returns catalog and resource of a path; `None` if nothing is served there.
fn route(path: &str) -> Option<(&str, Resource)> {
    let (catalog, rest) = path.strip_prefix("/catalogs/")?.split_once('/')?;
    let resource = match rest {
        "api/v1/all" => Resource::All,
        "api/v1/metas" => Resource::Metas,
        _ => return None,
    };
    (!catalog.is_empty()).then_some((catalog, resource))
}

/// Returns the name of a catalog in a path.
fn name(segment: &str) -> Result<String, Refused> {
    let name = percent_decode_str(segment).decode_utf8_lossy();
    let faults = dns1123_subdomain_faults(&name);
    if faults.is_empty() {
        return Ok(name.into_owned());
    }
    let text = format!("invalid catalog name: {}", faults.join("; "));
    Err((StatusCode::BAD_REQUEST, text))
}

/// Returns the requested documents. Of repeated parameters the first counts.
fn query(text: &str) -> Result<Query, Refused> {
    let mut query = Query::default();
    let mut seen = Vec::new();
    for (parameter, value) in form_urlencoded::parse(text.as_bytes()) {
        let field = match &*parameter {
            "schema" => &mut query.schema,
            "package" => &mut query.package,
            "name" => &mut query.name,
            _ => return Err(coded(StatusCode::BAD_REQUEST)),
        };
        if !seen.contains(&parameter) {
            *field = value.into_owned();
            seen.push(parameter);
        }
    }
    Ok(query)
}

/// Returns the response with the documents.
fn content(
    method: &Method,
    headers: &HeaderMap,
    resource: Resource,
    query: &Query,
    content: &Arc<Content>,
) -> Response<Body> {
    let validators = Validators::of(content);
    let size = content.about.size;
    let mut response = Response::new(empty());
    let mut ranges: Vec<Range<u64>> = if query.is_everything() {
        let whole = 0..size;
        vec![whole]
    } else {
        content.index.find(query)
    };
    if resource == Resource::All {
        match range::wanted(headers, validators, size) {
            Wanted::Whole => {}
            Wanted::Part(part) => {
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                let text = format!("bytes {}-{}/{size}", part.start, part.end.saturating_sub(1));
                set(&mut response, CONTENT_RANGE, &text);
                ranges = vec![part];
            }
            Wanted::Unsatisfiable(text) => {
                let mut refused = refusal(StatusCode::RANGE_NOT_SATISFIABLE, text);
                set(&mut refused, CONTENT_RANGE, &format!("bytes */{size}"));
                return refused;
            }
        }
    }
    let length: u64 = ranges
        .iter()
        .map(|range| range.end.saturating_sub(range.start))
        .sum();
    // A response to HEAD describes the plain form, as upstream's.
    let is_compressed = *method == Method::GET
        && response.status() == StatusCode::OK
        && length >= SHORTEST_COMPRESSED
        && body::takes_gzip(headers);
    validate(&mut response, validators);
    set(&mut response, CONTENT_TYPE, JSON_LINES);
    if is_compressed {
        set(&mut response, CONTENT_ENCODING, "gzip");
        // Another form of the same documents is another representation, which no range can be combined with.
        set(&mut response, ETAG, &format!("W/\"{}\"", validators.tag));
    } else {
        set(&mut response, CONTENT_LENGTH, &length.to_string());
        if resource == Resource::All {
            set(&mut response, ACCEPT_RANGES, "bytes");
        }
    }
    if *method == Method::GET {
        *response.body_mut() = body::of(Arc::clone(content), ranges, is_compressed);
    }
    response
}

fn validate(response: &mut Response<Body>, validators: Validators<'_>) {
    set(response, ETAG, &format!("\"{}\"", validators.tag));
    set(response, LAST_MODIFIED, &conditional::date(validators.modified));
}

fn set(response: &mut Response<Body>, header: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(header, value);
    }
}

/// Returns the refusal with a code's own text.
fn coded(code: StatusCode) -> Refused {
    let reason = code.canonical_reason().unwrap_or_default();
    (code, format!("{} {reason}", code.as_u16()))
}

fn refusal(code: StatusCode, text: &str) -> Response<Body> {
    let text = Bytes::from(format!("{text}\n"));
    let length = text.len();
    let mut response = Response::new(Full::new(text).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = code;
    set(&mut response, CONTENT_TYPE, "text/plain; charset=utf-8");
    set(&mut response, X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(&mut response, CONTENT_LENGTH, &length.to_string());
    if code == StatusCode::METHOD_NOT_ALLOWED {
        set(&mut response, ALLOW, "GET, HEAD");
    }
    response
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}
