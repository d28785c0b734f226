//! What the API server says about who somebody is and what they may do: asked when needed, and believed for a moment.
//!
//! # Guarantees
//! - An answer is believed for [`REVIEW_AGE`], yes and no alike; no answer is never taken for one.
//! - No more than [`KEPT_REVIEWS`] answers are kept of each kind, none of them with more than a hash of the question.
//! - No more than [`PARALLEL_REVIEWS`] questions of each kind are asked at a time, each for [`REVIEW_TIME`] at most: a caller who
//!   makes up tokens cannot keep those who are known from being answered.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::attributes::Attributes;
use crate::limits::{KEPT_REVIEWS, PARALLEL_REVIEWS, REVIEW_AGE, REVIEW_TIME};
use crate::user::User;

/// Characters of a reason that are repeated.
const REASON_CHARACTERS: usize = 1024;

/// Whether somebody may do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether they may.
    pub is_allowed: bool,
    /// Why, as the API server said it.
    pub reason: String,
}

/// There is no answer; why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReviewError(pub String);

/// Whoever answers.
#[async_trait]
pub trait Reviewer: Send + Sync + 'static {
    /// Whose token this is; `None` when it is nobody's.
    async fn identify(&self, token: &str) -> Result<Option<User>, ReviewError>;

    /// Whether `user` may do it.
    async fn decide(&self, user: &User, attributes: &Attributes) -> Result<Decision, ReviewError>;
}

/// The answers of a reviewer, believed for a moment.
pub struct Reviews {
    reviewer: Arc<dyn Reviewer>,
    users: ReviewCache<Option<User>>,
    decisions: ReviewCache<Decision>,
}

impl Reviews {
    /// No answers yet.
    pub fn new(reviewer: Arc<dyn Reviewer>) -> Self {
        Self {
            reviewer,
            users: ReviewCache::default(),
            decisions: ReviewCache::default(),
        }
    }

    /// Whose token this is; `None` when it is nobody's.
    ///
    /// # Errors
    /// There is no answer in time.
    pub async fn identify(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let key = digest(&token);
        self.users.answer(key, || self.reviewer.identify(token)).await
    }

    /// Whether `user` may do it.
    ///
    /// # Errors
    /// There is no answer in time.
    pub async fn decide(&self, user: &User, attributes: &Attributes) -> Result<Decision, ReviewError> {
        let key = digest(&(user, attributes));
        let decide = || async {
            let mut decision = self.reviewer.decide(user, attributes).await?;
            decision.reason = decision.reason.chars().take(REASON_CHARACTERS).collect();
            Ok(decision)
        };
        self.decisions.answer(key, decide).await
    }
}

type Key = [u8; 32];

fn digest<T: Serialize>(question: &T) -> Key {
    // Maps of questions have texts for keys, so that this is always JSON.
    Sha256::digest(serde_json::to_vec(question).unwrap_or_default()).into()
}

/// Answers to questions of one kind.
struct ReviewCache<T> {
    kept: Mutex<Kept<T>>,
    permits: Semaphore,
}

struct Kept<T> {
    answers: HashMap<Key, (Instant, T)>,
    /// In the order in which they were given.
    order: VecDeque<(Instant, Key)>,
}

impl<T> Default for ReviewCache<T> {
    fn default() -> Self {
        Self {
            kept: Mutex::new(Kept {
                answers: HashMap::new(),
                order: VecDeque::new(),
            }),
            permits: Semaphore::new(PARALLEL_REVIEWS),
        }
    }
}

impl<T: Clone> ReviewCache<T> {
    async fn answer<F>(&self, key: Key, ask: impl FnOnce() -> F) -> Result<T, ReviewError>
    where
        F: Future<Output = Result<T, ReviewError>>,
    {
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let late = |_| ReviewError("the API server did not answer in time".to_owned());
        let asked = async {
            let _permit = self.permits.acquire().await;
            // Whoever asked the same before may have the answer by now.
            if let Some(known) = self.known(&key) {
                return Ok(known);
            }
            let answer = ask().await?;
            self.keep(key, answer.clone());
            Ok(answer)
        };
        timeout(REVIEW_TIME, asked).await.map_err(late)?
    }

    fn known(&self, key: &Key) -> Option<T> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, answer) = kept.answers.get(key)?;
        (since.elapsed() < REVIEW_AGE).then(|| answer.clone())
    }

    fn keep(&self, key: Key, answer: T) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        while let Some((since, oldest)) = kept.order.front().copied()
            && (now.duration_since(since) >= REVIEW_AGE || kept.order.len() >= KEPT_REVIEWS)
        {
            kept.order.pop_front();
            // The same question may have been answered again since then.
            if kept
                .answers
                .get(&oldest)
                .is_some_and(|(known, _)| *known == since)
            {
                kept.answers.remove(&oldest);
            }
        }
        kept.order.push_back((now, key));
        kept.answers.insert(key, (now, answer));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// Answers as told, and counts how often it was asked.
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
            verb: "list",
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
            reviews.identify(&format!("token-{number}")).await.unwrap();
        }
        let kept = reviews.users.kept.lock().unwrap();
        assert!(kept.answers.len() <= KEPT_REVIEWS);
        assert!(kept.order.len() <= KEPT_REVIEWS);
    }
}
