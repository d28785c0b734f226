//! Identity and permissions of callers, as reported by the API server: requested when needed and cached briefly.
//!
//! # Guarantees
//! - An answer is cached for [`REVIEW_AGE`], positive or negative; a missing answer never counts as one.
//! - At most [`KEPT_REVIEWS`] answers of each kind are cached, each with only a hash of its question.
//! - At most [`PARALLEL_REVIEWS`] questions of each kind are in progress at a time, each for at most [`REVIEW_TIME`].
//! - Unknown tokens, whose owners were not admitted lately, wait for one of [`PARALLEL_STRANGERS`] slots. Each slot is occupied for at
//!   least [`STRANGER_TIME`]. So a client that sends random tokens cannot block known clients, and costs the API server at most 20
//!   requests a second.

mod admission;
mod attributes;
mod kube_reviewer;
pub mod limits;
mod user;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderValue;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

pub use self::admission::{Caller, Question, Refusal};
pub use self::attributes::Attributes;
pub use self::kube_reviewer::KubeReviewer;
pub use self::user::User;

use self::limits::{
    KEPT_REVIEWS, KNOWN_TIME, KNOWN_TOKENS, KNOWN_TOKENS_EACH, PARALLEL_REVIEWS, PARALLEL_STRANGERS,
    REVIEW_AGE, REVIEW_TIME, STRANGER_TIME, TOKEN_BYTES,
};

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
    /// Slots for questions about unknown tokens.
    strangers: Arc<Semaphore>,
    /// Slots for questions about known tokens.
    acquaintances: Arc<Semaphore>,
    /// Slots for questions about permissions.
    deciding: Arc<Semaphore>,
    known: Mutex<KnownTokens>,
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
            strangers: Arc::new(Semaphore::new(PARALLEL_STRANGERS)),
            acquaintances: Arc::new(Semaphore::new(PARALLEL_REVIEWS)),
            deciding: Arc::new(Semaphore::new(PARALLEL_REVIEWS)),
            known: Mutex::default(),
            is_unanswered: AtomicBool::new(false),
        }
    }

    /// Returns the owner of the token; `None` if it is not valid.
    ///
    /// # Errors
    /// If there is no answer in time.
    async fn identify(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let key = digest(&token);
        let places = if self.known().has(&key) {
            Places {
                of: &self.acquaintances,
                each_for: Duration::ZERO,
            }
        } else {
            Places {
                of: &self.strangers,
                each_for: STRANGER_TIME,
            }
        };
        let ask = || self.reviewer.identify(token);
        self.users.answer(key, &places, ask).await
    }

    /// Records that `user` was admitted, with `token` if they used one. For [`KNOWN_TIME`] the token then does not wait behind unknown
    /// ones. At most [`KNOWN_TOKENS_EACH`] tokens per owner are known; all ServiceAccounts of a namespace are one owner.
    fn let_in(&self, user: &User, token: Option<&str>) {
        self.is_unanswered.store(false, Ordering::Relaxed);
        if let Some(token) = token {
            self.known().add(digest(&owner(&user.name)), digest(&token));
        }
    }

    /// Logs `text` with the error, once until a user is admitted; otherwise clients could flood the log.
    fn tell_unanswered(&self, text: &str, error: &ReviewError) {
        if !self.is_unanswered.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "{text}");
        }
    }

    fn known(&self) -> MutexGuard<'_, KnownTokens> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether `user` is allowed to perform the request.
    ///
    /// # Errors
    /// If there is no answer in time.
    async fn decide(&self, user: &User, attributes: &Attributes) -> Result<Decision, ReviewError> {
        let key = digest(&(user, attributes));
        let decide = || async {
            let mut decision = self.reviewer.decide(user, attributes).await?;
            decision.reason = decision.reason.chars().take(REASON_CHARACTERS).collect();
            Ok(decision)
        };
        let places = Places {
            of: &self.deciding,
            each_for: Duration::ZERO,
        };
        self.decisions.answer(key, &places, decide).await
    }
}

/// Returns the token of the header `Authorization`, if it has a usable one.
pub fn bearer_token(authorization: Option<&HeaderValue>) -> Option<&str> {
    let (scheme, token) = authorization?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let is_usable = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= TOKEN_BYTES;
    is_usable.then_some(token)
}

/// Returns the owner that a user's tokens count for. A user who may create ServiceAccounts in a namespace can create any number of them.
fn owner(user: &str) -> &str {
    let account = user.strip_prefix("system:serviceaccount:");
    account
        .and_then(|account| account.split(':').next())
        .unwrap_or(user)
}

/// Hashes of tokens whose owners were admitted lately, oldest admission first.
#[derive(Default)]
struct KnownTokens(VecDeque<KnownToken>);

struct KnownToken {
    since: Instant,
    owner: Key,
    token: Key,
}

impl KnownTokens {
    fn has(&self, token: &Key) -> bool {
        let mut known = self.0.iter();
        known.any(|known| known.token == *token && known.since.elapsed() < KNOWN_TIME)
    }

    fn add(&mut self, owner: Key, token: Key) {
        self.0.retain(|known| known.token != token);
        let of_owner = self.0.iter().filter(|known| known.owner == owner).count();
        if of_owner >= KNOWN_TOKENS_EACH
            && let Some(oldest) = self.0.iter().position(|known| known.owner == owner)
        {
            self.0.remove(oldest);
        }
        if self.0.len() >= KNOWN_TOKENS {
            self.0.pop_front();
        }
        self.0.push_back(KnownToken {
            since: Instant::now(),
            owner,
            token,
        });
    }
}

/// Slots for parallel questions, and the minimum time that each slot is occupied.
struct Places<'a> {
    of: &'a Arc<Semaphore>,
    each_for: Duration,
}

/// An occupied slot; it is freed on drop, but not before its minimum time.
struct Place {
    permit: Option<OwnedSemaphorePermit>,
    until: Instant,
}

impl Drop for Place {
    fn drop(&mut self) {
        let (permit, until) = (self.permit.take(), self.until);
        // At shutdown no one waits for the slot.
        if until > Instant::now()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move {
                tokio::time::sleep_until(until).await;
                drop(permit);
            });
        }
    }
}

type Key = [u8; 32];

fn digest<T: Serialize>(question: &T) -> Key {
    // The maps in questions have string keys, so this always serializes to JSON.
    Sha256::digest(serde_json::to_vec(question).unwrap_or_default()).into()
}

/// Cached answers to questions of one kind.
struct ReviewCache<T> {
    kept: Mutex<Kept<T>>,
}

struct Kept<T> {
    answers: HashMap<Key, (Instant, T)>,
    /// Keys in the order of the answers.
    order: VecDeque<(Instant, Key)>,
}

impl<T> Default for ReviewCache<T> {
    fn default() -> Self {
        Self {
            kept: Mutex::new(Kept {
                answers: HashMap::new(),
                order: VecDeque::new(),
            }),
        }
    }
}

impl<T: Clone> ReviewCache<T> {
    async fn answer<F>(
        &self,
        key: Key,
        places: &Places<'_>,
        ask: impl FnOnce() -> F,
    ) -> Result<T, ReviewError>
    where
        F: Future<Output = Result<T, ReviewError>>,
    {
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let late = |_| ReviewError("the API server did not answer in time".to_owned());
        let asked = async {
            let permit = Arc::clone(places.of).acquire_owned().await.ok();
            let mut place = Place {
                permit,
                until: Instant::now(),
            };
            // A request with the same question may have got the answer meanwhile.
            if let Some(known) = self.known(&key) {
                return Ok(known);
            }
            place.until += places.each_for;
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
            verb: "list",
            group: "packages.operators.coreos.com",
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
        let kept = reviews.decisions.kept.lock().unwrap();
        assert!(kept.answers.len() <= KEPT_REVIEWS);
        assert!(kept.order.len() <= KEPT_REVIEWS);
    }

    /// Questions about unknown tokens are rate-limited, and known tokens do not wait behind them.
    #[tokio::test(start_paused = true)]
    async fn strangers_wait_for_each_other_and_nobody_else_for_them() {
        let (scripted, reviews) = reviews();
        let reviews = Arc::new(reviews);
        reviews.identify("good").await.unwrap();
        reviews.let_in(&user("good"), Some("good"));
        tokio::time::advance(REVIEW_AGE).await;
        let before = scripted.asked.load(Ordering::SeqCst);
        let began = Instant::now();
        for number in 0..1000 {
            let reviews = Arc::clone(&reviews);
            tokio::spawn(async move { reviews.identify(&format!("made-up-{number}")).await });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(reviews.identify("good").await, Ok(Some(User::default())));
        assert!(began.elapsed() < STRANGER_TIME, "{:?}", began.elapsed());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let asked = scripted.asked.load(Ordering::SeqCst) - before;
        assert!((20..=25).contains(&asked), "{asked} in a second");
        // After `KNOWN_TIME` a token is unknown again.
        tokio::time::advance(KNOWN_TIME).await;
        assert!(!reviews.known().has(&digest(&"good")));
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_that_are_known_are_bounded() {
        let (_, reviews) = reviews();
        for number in 0..=KNOWN_TOKENS {
            reviews.let_in(&user(&format!("user-{number}")), Some(&format!("token-{number}")));
            reviews.let_in(&user("ada"), Some("always"));
        }
        let known = reviews.known();
        assert_eq!(known.0.len(), KNOWN_TOKENS);
        assert!(known.has(&digest(&"always")) && !known.has(&digest(&"token-0")));
    }

    /// A user who may create ServiceAccounts and tokens cannot displace the known tokens of others.
    #[tokio::test(start_paused = true)]
    async fn the_tokens_of_one_namespace_push_out_each_other_and_nobody_elses() {
        let (_, reviews) = reviews();
        reviews.let_in(
            &user("system:serviceaccount:monitoring:prometheus"),
            Some("scraper"),
        );
        for number in 0..2 * KNOWN_TOKENS {
            let account = user(&format!("system:serviceaccount:eve:a{number}"));
            reviews.let_in(&account, Some(&format!("token-{number}")));
        }
        let known = reviews.known();
        assert!(known.has(&digest(&"scraper")));
        assert_eq!(known.0.len(), 1 + KNOWN_TOKENS_EACH);
        assert!(known.has(&digest(&format!("token-{}", 2 * KNOWN_TOKENS - 1))));
    }

    #[test]
    fn a_token_is_what_stands_behind_bearer() {
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
