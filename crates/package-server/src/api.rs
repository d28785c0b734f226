//! Request handling: authorization, routing and responses.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use jiff::Timestamp;
use olm_runtime::admin::NO_PROFILES;
use olm_runtime::clock;
use olm_runtime::isolation::{self, Panicked, catch, isolated};
use olm_runtime::metrics::{Counters, Metrics};
use olm_runtime::review::{Attributes, Caller, Refusal, Reviews, User, bearer_token};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::api_status::ApiStatus;
use crate::front_proxy;
use crate::index::Index;
use crate::limits::{ANSWER_TIME, PARALLEL_LISTS};
use crate::media_type::{self, Shape};
use crate::package_manifest::PackageIcon;
use crate::readiness::Readiness;
use crate::rendering::{Include, Rendering};
use crate::request::{Access, RequestInfo, Route};
use crate::{discovery, openapi};

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, Panicked>;

/// Icon of packages that have none.
const PLACEHOLDER: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" viewBox="0 0 40 40"><rect x="6" y="6" width="28" height="28" rx="6" fill="#a8a8a8"/></svg>"##;
/// Media type of the placeholder.
const SVG: &str = "image/svg+xml";
/// Policy for browsers that show icons: catalogs are untrusted, so an icon may only be displayed.
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// Log text for reviews that the API server does not answer.
const UNANSWERED: &str = "cannot authorize requests";

/// The other end of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peer {
    /// Common name of its certificate, if an authority of the API server's signed it.
    pub common_name: Option<String>,
}

/// State behind all responses.
pub struct Api {
    index: watch::Receiver<Arc<Index>>,
    front_proxy: watch::Receiver<front_proxy::FrontProxyConfig>,
    reviews: Reviews,
    readiness: Readiness,
    openapi_v2: Tagged,
    openapi_v3: Tagged,
    metrics: Metrics,
    requests: Counters<2>,
    /// Slots for lists that are assembled.
    lists: Arc<Semaphore>,
}

/// A document that never changes, and its hash.
struct Tagged {
    text: Bytes,
    tag: String,
}

impl Tagged {
    fn new(document: &Value) -> Self {
        let text: Bytes = document.to_string().into();
        let tag = hex::encode_upper(Sha256::digest(&text));
        Self { text, tag }
    }
}

impl Api {
    /// Returns an API that serves `index`. `front_proxy` and `reviews` authenticate and authorize callers.
    pub fn new(
        index: watch::Receiver<Arc<Index>>,
        front_proxy: watch::Receiver<front_proxy::FrontProxyConfig>,
        reviews: Reviews,
        readiness: Readiness,
        metrics: &Metrics,
    ) -> Self {
        Self {
            index,
            front_proxy,
            reviews,
            readiness,
            openapi_v2: Tagged::new(&openapi::v2()),
            openapi_v3: Tagged::new(&openapi::v3()),
            requests: metrics.counters(
                "olm_package_server_requests_total",
                "Requests, by resource and status code",
                ["resource", "code"],
            ),
            metrics: metrics.clone(),
            lists: Arc::new(Semaphore::new(PARALLEL_LISTS)),
        }
    }

    /// Returns whether `peer` is the API server.
    pub(crate) fn is_front_proxy(&self, peer: &Peer) -> bool {
        let known = self.front_proxy.borrow().clone();
        let name = peer.common_name.as_deref();
        known.zip(name).is_some_and(|(known, name)| known.is_proxy(name))
    }

    /// Returns the response to a request, also after an error or a panic. A panic affects this request alone.
    pub async fn answer(
        &self,
        peer: &Peer,
        method: &Method,
        uri: &http::Uri,
        headers: &HeaderMap,
    ) -> Response<Body> {
        let asked = RequestInfo::parse(method.as_str(), uri.path(), uri.query());
        let resource = asked.as_ref().map_or("other", |asked| resource(&asked.route));
        let answered = async {
            let asked = asked?;
            self.admit(peer, headers, &asked).await?;
            self.respond(asked, headers).await
        };
        let answered: Result<Result<Response<Body>, ApiStatus>, ApiStatus> = bounded(answered).await;
        let mut response = answered
            .and_then(|answered| answered)
            .unwrap_or_else(|failure| failed(&failure));
        if *method == Method::HEAD {
            *response.body_mut() = empty();
        }
        self.requests.increment([resource, response.status().as_str()]);
        response
    }

    /// Checks that the caller may have the response.
    async fn admit(&self, peer: &Peer, headers: &HeaderMap, asked: &RequestInfo) -> Result<(), ApiStatus> {
        if asked.access == Access::Everybody {
            return Ok(());
        }
        let needs = |user: &User| match &asked.access {
            Access::Allowed(attributes) if !user.may_everything() => Some(attributes),
            _ => None,
        };
        let caller = self.caller(peer, headers);
        let admitted = self.reviews.admit(caller, needs, UNANSWERED).await;
        admitted.map_err(|refusal| match (refusal, &asked.access) {
            (Refusal::Forbidden { user, reason }, Access::Allowed(attributes)) => {
                ApiStatus::forbidden(&user, attributes, &reason)
            }
            (Refusal::Unanswered(question), _) => ApiStatus::unavailable(format!(
                "cannot determine {question}: the API server does not answer"
            )),
            (Refusal::Unauthenticated | Refusal::Forbidden { .. }, _) => ApiStatus::unauthorized(),
        })
    }

    /// Returns the caller: the user that the API server names, else the owner of the bearer token. The API
    /// server's headers are ignored from any other peer.
    fn caller<'a>(&self, peer: &Peer, headers: &'a HeaderMap) -> Option<Caller<'a>> {
        if self.is_front_proxy(peer) {
            let known = self.front_proxy.borrow().clone();
            if let Some(user) = known.and_then(|known| known.user(headers)) {
                return Some(Caller::Known(user));
            }
        }
        bearer_token(headers.get(AUTHORIZATION)).map(Caller::Token)
    }

    async fn respond(&self, asked: RequestInfo, headers: &HeaderMap) -> Result<Response<Body>, ApiStatus> {
        let asked = &asked;
        if !asked.is_read {
            return Err(not_read(&asked.access));
        }
        let accept = accept(headers);
        let accept = accept.as_deref();
        match &asked.route {
            Route::Health => Ok(plain(StatusCode::OK, "ok")),
            Route::Readiness => Ok(match self.readiness.missing() {
                None => plain(StatusCode::OK, "ok"),
                Some(missing) => plain(StatusCode::SERVICE_UNAVAILABLE, missing),
            }),
            Route::Metrics => match self.metrics.page() {
                Ok(text) => Ok(response(StatusCode::OK, Metrics::MEDIA_TYPE, text)),
                Err(_) => Err(ApiStatus::internal()),
            },
            Route::Version => document(accept, &version()),
            Route::Groups => document(accept, &discovery::groups()),
            Route::Group => document(accept, &discovery::group()),
            Route::Resources => document(accept, &discovery::resources()),
            Route::OpenApiV2 => tagged(accept, headers, &self.openapi_v2),
            Route::OpenApiV3 => tagged(accept, headers, &self.openapi_v3),
            Route::OpenApiV3Paths => document(accept, &openapi::v3_paths(&self.openapi_v3.tag)),
            Route::List(namespace) => self.list(asked, accept, namespace.clone()).await,
            Route::Get { namespace, name } => self.get(asked, accept, namespace, name),
            Route::Icon { namespace, name } => Ok(self.icon(headers, namespace, name)),
            Route::Profiles => Ok(plain(StatusCode::NOT_FOUND, NO_PROFILES)),
            Route::Nothing => Err(ApiStatus::no_path()),
        }
    }

    async fn list(
        &self,
        asked: &RequestInfo,
        accept: Option<&str>,
        namespace: Option<String>,
    ) -> Result<Response<Body>, ApiStatus> {
        if asked.is_watch {
            // Clients fall back to this list and repeat it for news.
            return Err(ApiStatus::read_only("watch"));
        }
        let (labels, fields) = asked.selectors()?;
        let (rendering, media_type) = rendering(asked, accept)?;
        let permit = Arc::clone(&self.lists).acquire_owned().await;
        let index = self.index.borrow().clone();
        let listed = isolation::blocking(move || {
            // The permit is held until the work ends, even after the caller has gone.
            let _permit = permit;
            index.list(namespace.as_deref(), &labels, &fields)
        });
        let items = listed.await.map_err(|_| ApiStatus::internal())?;
        Ok(streamed(media_type, rendering.list(items)))
    }

    fn get(
        &self,
        asked: &RequestInfo,
        accept: Option<&str>,
        namespace: &str,
        name: &str,
    ) -> Result<Response<Body>, ApiStatus> {
        let (rendering, media_type) = rendering(asked, accept)?;
        let item = self.index.borrow().get(namespace, name);
        let item = item.ok_or_else(|| ApiStatus::no_package(name))?;
        Ok(streamed(media_type, rendering.single(item)))
    }

    fn icon(&self, headers: &HeaderMap, namespace: &str, name: &str) -> Response<Body> {
        let index = self.index.borrow().clone();
        let Some(item) = index.get(namespace, name) else {
            return without_body(StatusCode::NOT_FOUND);
        };
        let mut answer = match &item.package.icon {
            Some(PackageIcon { tag, icon }) => {
                let tag = format!("{tag:?}");
                unless_known(headers, &tag, &icon.media_type, icon.data.clone())
            }
            None => response(StatusCode::OK, SVG, Bytes::from_static(PLACEHOLDER.as_bytes())),
        };
        let out = answer.headers_mut();
        set(out, HeaderName::from_static("x-content-type-options"), "nosniff");
        set(
            out,
            HeaderName::from_static("content-security-policy"),
            PICTURE_POLICY,
        );
        answer
    }
}

/// Returns the result of `work`, or an error after [`ANSWER_TIME`] or a panic.
async fn bounded<T>(work: impl Future<Output = T>) -> Result<T, ApiStatus> {
    match timeout(ANSWER_TIME, isolated(work)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(panicked)) => {
            tracing::error!(%panicked, "request handler panicked");
            Err(ApiStatus::internal())
        }
        Err(_) => Err(ApiStatus::timeout()),
    }
}

/// Returns the label under which the metrics count a request.
fn resource(route: &Route) -> &'static str {
    match route {
        Route::Health | Route::Readiness => "health",
        Route::Metrics => "metrics",
        Route::Version | Route::Groups | Route::Group | Route::Resources => "discovery",
        Route::OpenApiV2 | Route::OpenApiV3 | Route::OpenApiV3Paths => "openapi",
        Route::List(_) => "list",
        Route::Get { .. } => "get",
        Route::Icon { .. } => "icon",
        Route::Profiles | Route::Nothing => "other",
    }
}

/// Returns the `Accept` header. Several headers of that name are one list.
fn accept(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(ACCEPT).iter();
    let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

fn not_read(access: &Access) -> ApiStatus {
    match access {
        Access::Allowed(Attributes::Resource { verb, .. }) => ApiStatus::read_only(verb),
        _ => ApiStatus::read_only("this method"),
    }
}

fn rendering(asked: &RequestInfo, accept: Option<&str>) -> Result<(Rendering, &'static str), ApiStatus> {
    let (media_type, shape) = media_type::of_objects(accept).ok_or_else(ApiStatus::not_acceptable)?;
    let include = asked.parameter("includeObject").unwrap_or_default();
    let include = match shape {
        Shape::Table => Include::parse(include).ok_or_else(|| {
            ApiStatus::bad_request("invalid includeObject: expected None, Metadata or Object")
        })?,
        Shape::Object | Shape::Metadata => Include::None,
    };
    let now: Timestamp = clock::now();
    Ok((Rendering { shape, include, now }, media_type))
}

/// Returns the version document of an API server; clients read `gitVersion`.
fn version() -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let mut parts = version.split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    json!({"major": major, "minor": minor, "gitVersion": format!("v{version}")})
}

fn document(accept: Option<&str>, document: &Value) -> Result<Response<Body>, ApiStatus> {
    let media_type = media_type::of_documents(accept).ok_or_else(ApiStatus::not_acceptable)?;
    Ok(response(StatusCode::OK, media_type, document.to_string().into()))
}

/// Returns the document, or 304 if the caller has it already.
fn tagged(accept: Option<&str>, headers: &HeaderMap, document: &Tagged) -> Result<Response<Body>, ApiStatus> {
    let media_type = media_type::of_documents(accept).ok_or_else(ApiStatus::not_acceptable)?;
    let tag = format!("{:?}", document.tag);
    let mut answer = unless_known(headers, &tag, media_type, document.text.clone());
    set(answer.headers_mut(), CACHE_CONTROL, "no-cache, private");
    Ok(answer)
}

/// Returns a body with its tag, or 304 if the caller has it already.
fn unless_known(headers: &HeaderMap, tag: &str, media_type: &str, body: Bytes) -> Response<Body> {
    let mut answer = if knows(headers, tag) {
        without_body(StatusCode::NOT_MODIFIED)
    } else {
        response(StatusCode::OK, media_type, body)
    };
    set(answer.headers_mut(), ETAG, tag);
    answer
}

/// Returns whether the caller announces that it has the document of `tag`.
fn knows(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok());
    known
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

fn failed(failure: &ApiStatus) -> Response<Body> {
    let code = StatusCode::from_u16(failure.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = response(code, "application/json", failure.body().into());
    let headers = answer.headers_mut();
    if let Some(seconds) = failure.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    match code {
        StatusCode::UNAUTHORIZED => set(headers, WWW_AUTHENTICATE, "Bearer"),
        StatusCode::METHOD_NOT_ALLOWED => set(headers, ALLOW, "GET, HEAD"),
        _ => {}
    }
    answer
}

fn plain(code: StatusCode, text: &'static str) -> Response<Body> {
    response(
        code,
        "text/plain; charset=utf-8",
        Bytes::from_static(text.as_bytes()),
    )
}

fn response(code: StatusCode, media_type: &str, body: Bytes) -> Response<Body> {
    let mut answer = Response::new(full(body));
    *answer.status_mut() = code;
    set(answer.headers_mut(), CONTENT_TYPE, media_type);
    answer
}

fn without_body(code: StatusCode) -> Response<Body> {
    let mut answer = Response::new(empty());
    *answer.status_mut() = code;
    answer
}

fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

fn empty() -> Body {
    full(Bytes::new())
}

/// Returns a response that is written while it is sent. A panic in that ends this response in the middle, and
/// nothing else.
fn streamed(media_type: &str, pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Response<Body> {
    let mut pieces = Some(pieces);
    let frames = std::iter::from_fn(move || match catch(|| pieces.as_mut()?.next()) {
        Ok(piece) => Some(Ok(Frame::data(piece?))),
        Err(panicked) => {
            pieces = None;
            tracing::error!(%panicked, "cannot encode the response");
            Some(Err(panicked))
        }
    });
    let mut answer = Response::new(StreamBody::new(stream::iter(frames)).boxed_unsync());
    set(answer.headers_mut(), CONTENT_TYPE, media_type);
    set(answer.headers_mut(), CACHE_CONTROL, "no-cache, private");
    answer
}

/// Sets a header. Invalid values are skipped: media types come from catalogs.
fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests;
