//! Answers without the status details that make tonic panic.
//!
//! tonic decodes `grpc-status-details-bin` of every answer and panics at invalid base64, in the task that
//! waits for the answer. Nothing here reads the details, so they are removed before tonic sees them. Remove
//! this module when tonic returns an error instead.

use http_body_util::BodyExt as _;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderName, Response};
use tonic::transport::Channel;
use tower::util::MapResponse;

const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// A channel whose answers have no details of their status.
pub(crate) type WithoutDetails = MapResponse<Channel, fn(Response<Body>) -> Response<Body>>;

/// Returns the channel without the details of its answers.
pub(crate) fn without(channel: Channel) -> WithoutDetails {
    MapResponse::new(channel, without_details)
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
