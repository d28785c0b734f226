//! HTTP service that answers requests.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};

use super::FakeCluster;
use super::faults::{Fault, Link, lock};
use super::kinds::{LEASE, SELF_REVIEW};
use super::request::{PatchType, Request, Route, Verb, route};
use super::status::Refusal;
use super::watch::Watch;

/// Virtual time that an answer takes.
const LATENCY: Duration = Duration::from_millis(1);

type Answer = http::Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Error of a broken connection.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the fake API server broke")]
pub(super) struct Broken;

/// Service behind a `kube::Client`.
pub(super) struct Endpoint {
    cluster: FakeCluster,
    link: Link,
}

impl Endpoint {
    pub fn new(cluster: FakeCluster, link: Link) -> Self {
        Self { cluster, link }
    }
}

impl tower::Service<http::Request<Body>> for Endpoint {
    type Response = Answer;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Broken>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (cluster, link) = (self.cluster.clone(), self.link.clone());
        Box::pin(async move { cluster.answer(&link, request).await })
    }
}

impl FakeCluster {
    async fn answer(&self, link: &Link, request: http::Request<Body>) -> Result<Answer, Broken> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
        tokio::time::sleep(LATENCY).await;
        link.while_alive().await;
        let routed = route(&self.lock(), &parts, &body);
        let answer = match routed {
            Err(refusal) => Err(refusal),
            Ok(Route::Version) => Ok((
                200,
                json!({"major": "1", "minor": "34", "gitVersion": self.lock().server_version,
                "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
            )),
            Ok(Route::Discovery(path)) => self.lock().discover(&path).map(|found| (200, found)),
            Ok(Route::Objects(request)) if request.kind.kind == "Event" && request.verb.writes() => {
                Ok(self.take_event(&request))
            }
            Ok(Route::Objects(request)) if request.kind.kind == SELF_REVIEW => Ok(self.review(&request)),
            Ok(Route::Objects(request)) => return self.objects_answer(link, *request).await,
        };
        Ok(response(answer))
    }

    async fn objects_answer(&self, link: &Link, request: Request) -> Result<Answer, Broken> {
        let fault = lock(&self.shared.hooks)
            .iter_mut()
            .find_map(|hook| hook(&request));
        match &fault {
            Some(Fault::LoseRequest) => return Err(Broken),
            Some(Fault::Hang) => std::future::pending::<()>().await,
            Some(Fault::Delay(while_)) => tokio::time::sleep(*while_).await,
            _ => {}
        }
        link.while_alive().await;
        *lock(&self.shared.log)
            .counts
            .entry((request.verb.text(), request.kind.kind.clone()))
            .or_insert(0) += 1;
        if request.verb == Verb::Watch {
            return Ok(match Watch::open(self, link, request) {
                Ok(watch) => stream(watch),
                Err(refusal) => response(Err(refusal)),
            });
        }
        let answer = match &fault {
            Some(Fault::Refuse(refusal)) => Err(refusal.clone()),
            _ => self.mutate(|state| {
                if state.dead_groups.contains(&request.kind.group) {
                    return Err(Refusal::unavailable("service unavailable"));
                }
                match request.verb {
                    Verb::Get => state.get(&request).map(|found| (200, found)),
                    Verb::List => state.list(&request).map(|found| (200, found)),
                    Verb::Create => state.create(&request),
                    Verb::Update => state.update(&request),
                    Verb::Patch(how) => state.patch(&request, how),
                    Verb::Delete => state.delete_one(&request),
                    Verb::DeleteCollection => state.delete_many(&request),
                    Verb::Watch => Err(Refusal::unavailable("watches are answered elsewhere")),
                }
            }),
        };
        self.lock().activity += 1;
        if request.verb.writes() {
            self.note(&request, &answer);
            // A renewal happens regularly, not because the process has work.
            if answer.is_ok() && request.kind.kind != LEASE {
                link.wrote();
            }
        }
        if matches!(fault, Some(Fault::LoseAnswer)) {
            return Err(Broken);
        }
        link.while_alive().await;
        let mut answer = response(answer);
        if let Some(Fault::Warn(text)) = fault
            && let Ok(value) = http::HeaderValue::from_str(&format!("299 - \"{text}\""))
        {
            answer.headers_mut().insert(http::header::WARNING, value);
        }
        Ok(answer)
    }

    fn note(&self, request: &Request, answer: &Result<(u16, Value), Refusal>) {
        let text = request.text();
        self.note_writes([match answer {
            Ok(_) => text,
            Err(refusal) => format!("{text} REFUSED {}", refusal.reason),
        }]);
    }

    /// Answers a SelfSubjectAccessReview: a request that a hook forbids is not allowed.
    fn review(&self, request: &Request) -> (u16, Value) {
        const VERBS: [Verb; 4] = [
            Verb::Create,
            Verb::Update,
            Verb::Patch(PatchType::Merge),
            Verb::Delete,
        ];
        let mut review = request.body.clone();
        let asked = &request.body["spec"]["resourceAttributes"];
        let text = |field: &str| asked[field].as_str().unwrap_or_default().to_owned();
        let verb = VERBS.into_iter().find(|verb| verb.text() == text("verb"));
        let mut kinds = self.lock().kinds().into_iter();
        let kind = kinds.find(|kind| kind.group == text("group") && kind.plural == text("resource"));
        let fault = verb.zip(kind).and_then(|(verb, kind)| {
            let asked = Request {
                verb,
                kind,
                namespace: text("namespace"),
                name: text("name"),
                ..request.clone()
            };
            lock(&self.shared.hooks).iter_mut().find_map(|hook| hook(&asked))
        });
        let is_forbidden = matches!(fault, Some(Fault::Refuse(refusal)) if refusal.code == 403);
        review["status"] = json!({"allowed": !is_forbidden});
        (201, review)
    }

    /// Sent Events are logged, not stored; a test that reads Events has to `put` them.
    fn take_event(&self, request: &Request) -> (u16, Value) {
        let text = |field: &str| request.body[field].as_str().unwrap_or_default().to_owned();
        let mut log = lock(&self.shared.log);
        log.events.push(format!("{}: {}", text("reason"), text("note")));
        log.sent_events.push(request.body.clone());
        drop(log);
        let mut event = request.body.clone();
        event["apiVersion"] = json!(request.api_version());
        event["kind"] = json!("Event");
        event["metadata"]["resourceVersion"] = json!("1");
        (201, event)
    }
}

fn response(answer: Result<(u16, Value), Refusal>) -> Answer {
    let (code, body) = answer.unwrap_or_else(|refusal| (refusal.code, refusal.body()));
    built(code, Full::new(Bytes::from(body.to_string())).boxed_unsync())
}

fn stream(watch: Watch) -> Answer {
    let frames = watch.lines().map(|line| Ok(Frame::data(line)));
    built(200, StreamBody::new(frames).boxed_unsync())
}

fn built(code: u16, body: UnsyncBoxBody<Bytes, Infallible>) -> Answer {
    let mut answer = http::Response::new(body);
    *answer.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    answer
}
