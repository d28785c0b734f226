//! Identity and permissions of callers, as reported by the API server: requested when needed and cached briefly.
//!
//! An answer is cached for [`REVIEW_AGE`], positive or negative; a missing answer never counts as one. At most [`KEPT_REVIEWS`] answers
//! of each kind are cached, each with only a hash of its question. At most [`PARALLEL_REVIEWS`] questions of each kind are in progress at
//! a time, each for at most [`REVIEW_TIME`].

mod admission;
mod attributes;
mod kube_reviewer;
pub mod limits;
mod user;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use http::HeaderValue;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

pub use self::admission::{Caller, Question, Refusal};
pub use self::attributes::Attributes;
pub use self::kube_reviewer::KubeReviewer;
pub use self::user::User;

use crate::sync::Mutex;

use self::limits::{KEPT_REVIEWS, PARALLEL_REVIEWS, REVIEW_AGE, REVIEW_TIME, TOKEN_BYTES};

/// Maximum characters of a reason that is passed on.
const REASON_CHARACTERS: usize = 1024;

/// Answer to an access review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// True if the user is allowed.
    pub is_allowed: bool,
    /// Reason given by the API server.
    pub reason: String,
}

/// Reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReviewError(pub String);

/// Source of the answers.
#[async_trait]
pub trait Reviewer: Send + Sync + 'static {
    /// Returns the owner of the token; `None` if it is not valid.
    async fn identify(&self, token: &str) -> Result<Option<User>, ReviewError>;

    /// Returns whether `user` is allowed to perform the request.
    async fn decide(&self, user: &User, attributes: &Attributes) -> Result<Decision, ReviewError>;
}

/// Cached answers of a reviewer.
pub struct Reviews {
    reviewer: Arc<dyn Reviewer>,
    users: ReviewCache<Option<User>>,
    decisions: ReviewCache<Decision>,
    /// True if the API server failed to answer since a user was last admitted.
    is_unanswered: AtomicBool,
}

impl Reviews {
    /// Creates an empty cache.
    pub fn new(reviewer: Arc<dyn Reviewer>) -> Self {
        Self {
            reviewer,
            users: ReviewCache::default(),
            decisions: ReviewCache::default(),
            is_unanswered: AtomicBool::new(false),
        }
    }

    /// Returns the owner of the token; `None` if it is not valid.
    ///
    /// # Errors
    /// If there is no answer in time.
    async fn identify(&self, token: &str) -> Result<Option<User>, ReviewError> {
        self.users
            .answer(digest(&token), self.reviewer.identify(token))
            .await
    }

    /// Logs `text` with the error, once until a user is admitted; otherwise clients could flood the log.
    fn tell_unanswered(&self, text: &str, error: &ReviewError) {
        if !self.is_unanswered.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "{text}");
        }
    }

    /// Returns whether `user` is allowed to perform the request.
    ///
    /// # Errors
    /// If there is no answer in time.
    async fn decide(&self, user: &User, attributes: &Attributes) -> Result<Decision, ReviewError> {
        let key = digest(&(user, attributes));
        let decide = async {
            let mut decision = self.reviewer.decide(user, attributes).await?;
            decision.reason = decision.reason.chars().take(REASON_CHARACTERS).collect();
            Ok(decision)
        };
        self.decisions.answer(key, decide).await
    }
}

/// Returns the token of the header `Authorization`, if it has a usable one.
pub fn bearer_token(authorization: Option<&HeaderValue>) -> Option<&str> {
    let (scheme, token) = authorization?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let is_usable = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= TOKEN_BYTES;
    is_usable.then_some(token)
}

/// Returns those of the questions, by key, that the user is not allowed. Nothing is cached; [`PARALLEL_REVIEWS`] are in progress at a
/// time.
///
/// # Errors
/// If there is no answer in time.
pub async fn denied<K: Ord + Send + 'static>(
    reviewer: &Arc<dyn Reviewer>,
    user: User,
    questions: impl IntoIterator<Item = (K, Attributes)>,
) -> Result<BTreeSet<K>, ReviewError> {
    let user = Arc::new(user);
    let questions: Vec<(K, Attributes)> = questions.into_iter().collect();
    let mut waiting = questions.into_iter();
    let mut asked = JoinSet::new();
    let mut denied = BTreeSet::new();
    loop {
        while asked.len() < PARALLEL_REVIEWS
            && let Some((key, attributes)) = waiting.next()
        {
            let (reviewer, user) = (Arc::clone(reviewer), Arc::clone(&user));
            asked.spawn(async move {
                let decision = in_time(reviewer.decide(&user, &attributes)).await?;
                Ok::<_, ReviewError>((!decision.is_allowed).then_some(key))
            });
        }
        let Some(answer) = asked.join_next().await else {
            return Ok(denied);
        };
        denied.extend(answer.map_err(|error| ReviewError(error.to_string()))??);
    }
}

async fn in_time<T>(asked: impl Future<Output = Result<T, ReviewError>>) -> Result<T, ReviewError> {
    let late = |_| ReviewError("the API server did not answer in time".to_owned());
    timeout(REVIEW_TIME, asked).await.map_err(late)?
}

type Key = [u8; 32];

fn digest<T: Serialize>(question: &T) -> Key {
    // The maps in questions have string keys, so this always serializes to JSON.
    Sha256::digest(serde_json::to_vec(question).unwrap_or_default()).into()
}

/// Cached answers to questions of one kind.
struct ReviewCache<T> {
    answers: Mutex<HashMap<Key, (Instant, T)>>,
    /// Limits the questions in progress.
    slots: Semaphore,
}

impl<T> Default for ReviewCache<T> {
    fn default() -> Self {
        Self {
            answers: Mutex::default(),
            slots: Semaphore::new(PARALLEL_REVIEWS),
        }
    }
}

impl<T: Clone> ReviewCache<T> {
    /// Returns the cached answer to the question with this key, or that of `ask`.
    async fn answer(
        &self,
        key: Key,
        ask: impl Future<Output = Result<T, ReviewError>>,
    ) -> Result<T, ReviewError> {
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let asked = async {
            let _slot = self.slots.acquire().await;
            // A request with the same question may have got the answer meanwhile.
            if let Some(known) = self.known(&key) {
                return Ok(known);
            }
            let answer = ask.await?;
            self.keep(key, answer.clone());
            Ok(answer)
        };
        in_time(asked).await
    }

    fn known(&self, key: &Key) -> Option<T> {
        let answers = self.answers.lock();
        let (since, answer) = answers.get(key)?;
        (since.elapsed() < REVIEW_AGE).then(|| answer.clone())
    }

    fn keep(&self, key: Key, answer: T) {
        let mut answers = self.answers.lock();
        if answers.len() >= KEPT_REVIEWS {
            answers.retain(|_, (since, _)| since.elapsed() < REVIEW_AGE);
        }
        if answers.len() >= KEPT_REVIEWS {
            answers.clear();
        }
        answers.insert(key, (Instant::now(), answer));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// Reviewer that follows a script and counts the questions.
    #[derive(Default)]
    struct Scripted {
        asked: AtomicUsize,
        is_away: std::sync::atomic::AtomicBool,
        is_silent: std::sync::atomic::AtomicBool,
    }

    #[async_trait]
    impl Reviewer for Scripted {
        async fn identify(&self, token: &str) -> Result<Option<User>, ReviewError> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            Ok((token == "good").then(User::default))
        }

        async fn decide(&self, user: &User, _: &Attributes) -> Result<Decision, ReviewError> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if self.is_silent.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            if self.is_away.load(Ordering::SeqCst) {
                return Err(ReviewError("away".to_owned()));
            }
            Ok(Decision {
                is_allowed: user.name == "ada",
                reason: "r".repeat(5000),
            })
        }
    }

    fn user(name: &str) -> User {
        User {
            name: name.to_owned(),
            ..User::default()
        }
    }

    fn list(namespace: &str) -> Attributes {
        Attributes::Resource {
            verb: "list".into(),
            group: "packages.operators.coreos.com".into(),
            version: "v1",
            namespace: namespace.to_owned(),
            resource: "packagemanifests".to_owned(),
            subresource: String::new(),
            name: String::new(),
        }
    }

    fn reviews() -> (Arc<Scripted>, Reviews) {
        let scripted = Arc::<Scripted>::default();
        let reviewer: Arc<dyn Reviewer> = Arc::clone(&scripted) as _;
        (scripted, Reviews::new(reviewer))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_believed_for_a_moment_yes_and_no_alike() {
        let (scripted, reviews) = reviews();
        for name in ["ada", "eve"] {
            let before = scripted.asked.load(Ordering::SeqCst);
            for _ in 0..3 {
                let decision = reviews.decide(&user(name), &list("ns")).await.unwrap();
                assert_eq!(decision.is_allowed, name == "ada");
                assert_eq!(decision.reason.len(), REASON_CHARACTERS);
            }
            assert_eq!(scripted.asked.load(Ordering::SeqCst), before + 1);
            tokio::time::advance(REVIEW_AGE).await;
            reviews.decide(&user(name), &list("ns")).await.unwrap();
            assert_eq!(scripted.asked.load(Ordering::SeqCst), before + 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_that_to_the_question() {
        let (scripted, reviews) = reviews();
        reviews.decide(&user("ada"), &list("ns")).await.unwrap();
        reviews.decide(&user("ada"), &list("other")).await.unwrap();
        let mut in_group = user("ada");
        in_group.groups.push("system:masters".to_owned());
        reviews.decide(&in_group, &list("ns")).await.unwrap();
        assert_eq!(scripted.asked.load(Ordering::SeqCst), 3);
        assert_eq!(reviews.identify("good").await, Ok(Some(User::default())));
        assert_eq!(reviews.identify("bad").await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_is_no_yes_and_is_asked_for_again() {
        let (scripted, reviews) = reviews();
        scripted.is_away.store(true, Ordering::SeqCst);
        assert!(reviews.decide(&user("ada"), &list("ns")).await.is_err());
        scripted.is_away.store(false, Ordering::SeqCst);
        assert!(
            reviews
                .decide(&user("ada"), &list("ns"))
                .await
                .unwrap()
                .is_allowed
        );
        scripted.is_silent.store(true, Ordering::SeqCst);
        let began = Instant::now();
        assert!(reviews.decide(&user("ada"), &list("silent")).await.is_err());
        assert!(began.elapsed() <= REVIEW_TIME + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_kept_are_bounded() {
        let (_, reviews) = reviews();
        for number in 0..KEPT_REVIEWS + 10 {
            let user = user(&format!("user-{number}"));
            reviews.decide(&user, &list("ns")).await.unwrap();
        }
        assert!(reviews.decisions.answers.lock().len() <= KEPT_REVIEWS);
    }

    #[test]
    fn a_token_is_the_part_after_bearer() {
        let token = |value: &str| {
            let value = HeaderValue::from_str(value).unwrap();
            bearer_token(Some(&value)).map(str::to_owned)
        };
        assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token("bearer  abc ").as_deref(), Some("abc"));
        assert_eq!(token("Basic abc"), None);
        assert_eq!(token("Bearer "), None);
        assert!(token(&format!("Bearer {}", "a".repeat(TOKEN_BYTES))).is_some());
        assert_eq!(token(&format!("Bearer {}", "a".repeat(TOKEN_BYTES + 1))), None);
        assert_eq!(bearer_token(None), None);
    }
}
