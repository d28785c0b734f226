//! One request at a time, to its last byte: redirects, headers, bytes and time are bounded here and nowhere
//! else.
//!
//! # Guarantees
//! - Credentials and the headers configured for a host are sent to its own origin only, redirects or not.
//! - An answer ends: it is read to a limit of bytes within a limit of time, whatever the other side does.
//! - Nothing is decompressed in transit, so byte counts are exact. The HTTP library bounds headers (100, 400
//!   KiB).

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use reqwest::Url;
use tokio::time::{Instant, timeout_at};

use super::client::{build_client, configured_headers};
use super::failure::{Failure, malformed, too_large, too_slow, transport_failure};
use crate::error::PullErrorClass;
use crate::host::Host;
use crate::limits::{self, Limits, REDIRECTS};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) accept: Option<&'static str>,
    /// Body and its type.
    pub(crate) body: Option<(Bytes, HeaderValue)>,
    /// True if the answer is verified against a digest, so that an insecure redirect is acceptable.
    pub(crate) is_verified: bool,
}

impl Request {
    pub(crate) fn get(url: Url) -> Self {
        Self {
            method: Method::GET,
            url,
            accept: None,
            body: None,
            is_verified: false,
        }
    }

    pub(crate) fn sending(method: Method, url: Url, body: Bytes, kind: HeaderValue) -> Self {
        Self {
            method,
            body: Some((body, kind)),
            ..Self::get(url)
        }
    }
}

/// The connection to one host, and to the targets of its redirects.
#[derive(Debug)]
pub(crate) struct Wire {
    client: reqwest::Client,
    origin: String,
    headers: HeaderMap,
    limits: Limits,
}

impl Wire {
    pub(crate) fn new(host: &Host, limits: Limits) -> Result<Self, Failure> {
        Ok(Self {
            client: build_client(host, &limits)?,
            origin: parse_url(&host.origin())?.origin().ascii_serialization(),
            headers: configured_headers(host)?,
            limits,
        })
    }

    /// Returns whether an address is of the host itself. Only such addresses get credentials and configured
    /// headers.
    pub(crate) fn is_home(&self, url: &Url) -> bool {
        url.origin().ascii_serialization() == self.origin
    }

    /// Returns the head of the answer, redirects followed.
    pub(crate) async fn send(
        &self,
        request: &Request,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, Failure> {
        let body_length = request.body.as_ref().map_or(0, |(body, _)| body.len() as u64);
        let asked = Instant::now();
        let time = match body_length {
            0 => self.limits.answer,
            sent => self.limits.answer.saturating_add(self.limits.at_floor(sent)),
        };
        let end = limits::end(asked, time);
        let mut url = request.url.clone();
        let mut authorization = authorization;
        for _ in 0..=REDIRECTS {
            let built = self.build(request, url.clone(), authorization);
            let response = timeout_at(end, built.send())
                .await
                .map_err(|_| too_slow(format!("no answer within {} s", time.as_secs_f32())))?
                .map_err(|error| transport_failure(&error))?;
            let Some(next) = redirect(request, &url, &response)? else {
                return Ok(Response {
                    response,
                    asked,
                    head: Instant::now(),
                    received: 0,
                    limits: self.limits,
                });
            };
            if next.origin() != request.url.origin() {
                authorization = None;
            }
            url = next;
        }
        Err(malformed(format!("more than {REDIRECTS} redirects")))
    }

    fn build(
        &self,
        request: &Request,
        mut url: Url,
        authorization: Option<&HeaderValue>,
    ) -> reqwest::RequestBuilder {
        let mut headers = HeaderMap::new();
        if self.is_home(&url) {
            headers = self.headers.clone();
        }
        if let Some(accept) = request.accept {
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
        }
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        // Credentials in an address from a redirect would replace ours.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let mut builder = self.client.request(request.method.clone(), url);
        if let Some((body, kind)) = &request.body {
            headers.insert(CONTENT_TYPE, kind.clone());
            builder = builder.body(body.clone());
        }
        builder.headers(headers)
    }
}

/// Returns the target of a redirect; `None` if the answer is not one.
fn redirect(request: &Request, from: &Url, response: &reqwest::Response) -> Result<Option<Url>, Failure> {
    let is_redirect = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let Some(location) = response.headers().get(LOCATION).filter(|_| is_redirect) else {
        return Ok(None);
    };
    if request.method != Method::GET && request.method != Method::HEAD {
        return Err(malformed(
            "the response redirects an upload, which is not supported".to_owned(),
        ));
    }
    let next = join(from, location)?;
    if from.scheme() == "https" && next.scheme() != "https" && !request.is_verified {
        return Err(malformed("the response redirects from https to http".to_owned()));
    }
    Ok(Some(next))
}

/// Returns the address in a `Location` header.
pub(crate) fn join(from: &Url, location: &HeaderValue) -> Result<Url, Failure> {
    location
        .to_str()
        .ok()
        .and_then(|location| from.join(location).ok())
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or_else(|| malformed("the response redirects to a URL that is not http or https".to_owned()))
}

pub(crate) fn parse_url(text: &str) -> Result<Url, Failure> {
    Url::parse(text).map_err(|error| {
        Failure::new(
            PullErrorClass::Malformed,
            format!("invalid URL `{text}`: {error}"),
        )
    })
}

/// An answer without its body, which is read later.
#[derive(Debug)]
pub(crate) struct Response {
    response: reqwest::Response,
    /// Start of the request.
    asked: Instant,
    /// Arrival of the head of the answer.
    head: Instant,
    received: u64,
    limits: Limits,
}

impl Response {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    pub(crate) fn url(&self) -> &Url {
        self.response.url()
    }

    /// Checks that the headers announce at most `limit` bytes.
    pub(crate) fn check_length(&self, limit: u64) -> Result<(), Failure> {
        match self.response.content_length() {
            Some(length) if length > limit => Err(too_large(limit)),
            _ => Ok(()),
        }
    }

    /// Returns the next bytes, which must arrive within the idle time and before `end`.
    async fn next(
        &mut self,
        end: Instant,
        slow: impl FnOnce(u64) -> String,
    ) -> Result<Option<Bytes>, Failure> {
        let idle = limits::end(Instant::now(), self.limits.idle);
        let chunk = timeout_at(idle.min(end), self.response.chunk()).await;
        let chunk = chunk
            .map_err(|_| {
                too_slow(if idle < end {
                    format!("no data received for {} s", self.limits.idle.as_secs_f32())
                } else {
                    slow(self.received)
                })
            })?
            .map_err(|error| transport_failure(&error))?;
        if let Some(chunk) = &chunk {
            self.received = self.received.saturating_add(chunk.len() as u64);
        }
        Ok(chunk)
    }

    /// Returns a body of at most `limit` bytes, within the time for an answer.
    pub(crate) async fn whole(mut self, limit: u64) -> Result<Vec<u8>, Failure> {
        self.check_length(limit)?;
        let mut body = Vec::new();
        let time = self.limits.answer;
        let end = limits::end(self.asked, time);
        while let Some(chunk) = self
            .next(end, |_| {
                format!("the response took longer than {} s", time.as_secs_f32())
            })
            .await?
        {
            if self.received > limit {
                return Err(too_large(limit));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Returns the beginning of a body within the time for an answer. Failures end it early.
    pub(crate) async fn beginning(mut self, bytes: usize) -> Vec<u8> {
        let mut body = Vec::new();
        let end = limits::end(self.asked, self.limits.answer);
        while body.len() < bytes
            && let Ok(Some(chunk)) = self.next(end, |_| String::new()).await
        {
            body.extend_from_slice(&chunk);
        }
        body.truncate(bytes);
        body
    }

    /// Returns the next bytes of a long body, which must arrive at the floor rate on average. The rate counts
    /// from the head of the answer, which has its own time: a proxy may fetch a layer whole before it
    /// answers.
    pub(crate) async fn chunk(&mut self, limit: u64) -> Result<Option<Bytes>, Failure> {
        let time = self.limits.at_floor(self.received);
        let floor = self.limits.floor;
        let slow = |received| {
            format!(
                "too slow: {received} bytes in {} s, the minimum is {floor} bytes per second",
                Duration::as_secs_f32(&time)
            )
        };
        let chunk = self.next(limits::end(self.head, time), slow).await?;
        if self.received > limit {
            return Err(too_large(limit));
        }
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests;
