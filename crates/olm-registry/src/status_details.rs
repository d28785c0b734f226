//! Answers without the status details that make tonic panic.
//!
//! tonic decodes `grpc-status-details-bin` of every answer and panics at invalid base64, in the task that
//! waits for the answer. Nothing here reads the details, so they are removed before tonic sees them. Remove
//! this module when tonic returns an error instead.

use std::task::{Context, Poll};

use futures::TryFutureExt as _;
use futures::future::MapOk;
use http_body_util::BodyExt as _;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{HeaderMap, HeaderName, Request, Response};
use tonic::transport::{Channel, Error};

const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// A channel whose answers have no details of their status.
#[derive(Debug, Clone)]
pub(crate) struct WithoutDetails(pub(crate) Channel);

impl Service<Request<Body>> for WithoutDetails {
    type Response = Response<Body>;
    type Error = Error;
    type Future = MapOk<<Channel as Service<Request<Body>>>::Future, fn(Response<Body>) -> Response<Body>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.call(request).map_ok(without_details)
    }
}

/// Removes the details. They are in the headers of an answer that is only a status, else in its trailers.
fn without_details(mut answer: Response<Body>) -> Response<Body> {
    remove(answer.headers_mut());
    answer.map(|body| {
        Body::new(body.map_frame(|mut frame| {
            if let Some(trailers) = frame.trailers_mut() {
                remove(trailers);
            }
            frame
        }))
    })
}

fn remove(headers: &mut HeaderMap) {
    headers.remove(DETAILS);
}
