//! Whether existing custom resources fit the schema that a CustomResourceDefinition is about to get.
//!
//! # Expected flow
//! A reconcile asks ([`CustomResources::check`]) and is answered at once. The first time the resources are read beside the reconciles, page
//! by page, and the plan is woken when that is over.
//!
//! # Guarantees
//! - Nothing of a resource is kept: of a page one object at a time is looked at, and what is told are names and fields, no values.
//!   Nothing of a schema is kept beyond its check.
//! - A check is bounded in time, in the bytes of a page, in the work for one object and in how often it begins anew. Namespaces take
//!   turns, and half of the checks at most are of one namespace: an API that does not answer holds up nobody else.
//! - Who was told to wait is woken, also where a check ends without an answer.
//! - What was in the way is read first when a check is made again, so that a plan that is tried again costs one small read.

mod pages;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use kube::Client;
use olm_runtime::NamespacedName;
use olm_runtime::isolation::{self, isolated};
use olm_runtime::sync::Mutex;
use serde_json::Value;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use self::pages::{ReadError, Resources};
use super::structural_schema::StructuralSchema;
use crate::fair_permits::FairPermits;
use crate::timing::debounce_left;

/// Checks at a time.
const PARALLEL: usize = 4;
/// Longest time for one check, waiting for its turn left out.
const CHECK_TIME: Duration = Duration::from_secs(600);
/// How long it counts that everything fits; what takes longer to find out counts as long as it took.
const FITS_FOR: Duration = Duration::from_secs(30);
/// How long a refusal counts. Less than the pause between two tries of a plan.
const REFUSED_FOR: Duration = Duration::from_secs(4);
/// How long it counts that the resources could not be read.
const UNREAD_FOR: Duration = Duration::from_secs(30);
/// An answer nobody has asked for so long is forgotten.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// What is to be checked.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckRequest {
    /// The plan that asks, and is woken.
    pub plan: NamespacedName,
    /// Name of the CustomResourceDefinition.
    pub crd: String,
    /// Its API group.
    pub group: String,
    /// The name of its kind in paths.
    pub plural: String,
    /// The versions whose schema changes, with the new schema of each.
    pub versions: Vec<(String, Value)>,
    /// Uid and generation of the definition as it is.
    pub of: String,
}

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckState {
    /// All that there is fits.
    Fits,
    /// The resources are being read; the plan is woken when that ends.
    Checking {
        /// How long this is not worth a status yet.
        debounce: Option<Duration>,
    },
    /// A resource does not fit.
    Misfit(Misfit),
    /// The resources could not be read.
    Unread(String),
}

/// A resource that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Version of the API it was read in.
    pub version: String,
    /// Its namespace; empty for none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The fields, and what is wrong with them.
    pub fields: String,
    /// The next ones that do not fit, of those read with it; they have none.
    pub others: Vec<Misfit>,
}

type Wake = Arc<dyn Fn(&NamespacedName) + Send + Sync>;

/// Checks for whoever asks; a clone is another handle to the same.
#[derive(Clone)]
pub(crate) struct CustomResources {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    permits: FairPermits,
    wake: Wake,
    entries: Mutex<BTreeMap<Key, Entry>>,
}

/// Plan, CustomResourceDefinition, and a hash of what is asked of it: two steps may ask for different things.
type Key = (NamespacedName, String, u64);

struct Entry {
    /// [`CheckRequest::of`].
    of: String,
    last: Option<Last>,
    /// The check that runs, and since when.
    running: Option<(AbortOnDrop, Instant)>,
    /// When it was last asked for, or answered.
    asked: Instant,
}

/// What the last check came to.
#[derive(Clone)]
struct Last {
    answer: CheckState,
    at: Instant,
    took: Duration,
}

impl Last {
    fn is_fresh(&self) -> bool {
        let lasts = match &self.answer {
            CheckState::Misfit(_) => REFUSED_FOR,
            CheckState::Unread(_) => UNREAD_FOR,
            _ => FITS_FOR.max(self.took),
        };
        self.at.elapsed() < lasts
    }
}

/// Wakes a plan when its check is over, however it ends.
struct WakeOnDrop {
    wake: Wake,
    plan: NamespacedName,
    is_needed: bool,
}

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        if self.is_needed {
            (self.wake)(&self.plan);
        }
    }
}

/// A task that ends with its entry.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl CustomResources {
    /// `wake` is called with a plan whose answer has changed; it must be quick.
    pub(crate) fn new(client: Client, wake: impl Fn(&NamespacedName) + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                permits: FairPermits::new(PARALLEL),
                wake: Arc::new(wake),
                entries: Mutex::default(),
            }),
        }
    }

    /// What is known now; begins to look if it is not known. Never waits. Must be called within a tokio runtime.
    pub(crate) fn check(&self, request: CheckRequest) -> CheckState {
        let key = (request.plan.clone(), request.crd.clone(), hash_of(&request));
        let now = Instant::now();
        let mut entries = self.shared.lock();
        // One that runs ends by itself, and its plan waits for that.
        entries.retain(|_, entry| {
            entry.running.is_some() || now.saturating_duration_since(entry.asked) < KEPT_FOR
        });
        if entries.get(&key).is_some_and(|entry| entry.of != request.of) {
            entries.remove(&key);
        }
        let last = match entries.get_mut(&key) {
            Some(entry) => {
                entry.asked = now;
                if let Some((_, since)) = &entry.running {
                    return entry.answer_meanwhile(since.elapsed());
                }
                if let Some(last) = entry.last.as_ref().filter(|last| last.is_fresh()) {
                    return last.answer.clone();
                }
                entry.last.clone()
            }
            None => None,
        };
        let suspect = match last.as_ref().map(|last| &last.answer) {
            Some(CheckState::Misfit(misfit)) => Some(misfit.clone()),
            _ => None,
        };
        let entry_of = request.of.clone();
        let waker = WakeOnDrop {
            wake: Arc::clone(&self.shared.wake),
            plan: request.plan.clone(),
            is_needed: true,
        };
        let work = Arc::clone(&self.shared).run(key.clone(), request, suspect, waker);
        let entry = Entry {
            of: entry_of,
            last,
            running: Some((AbortOnDrop(tokio::spawn(work).abort_handle()), now)),
            asked: now,
        };
        let answer = entry.answer_meanwhile(Duration::ZERO);
        entries.insert(key, entry);
        answer
    }
}

fn hash_of(request: &CheckRequest) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&request.group, &request.plural, &request.versions).hash(&mut hasher);
    hasher.finish()
}

impl Entry {
    /// While a check runs that did not go well before, that goes on to be said: a plan that has failed for long is not at its
    /// beginning because it tries again.
    fn answer_meanwhile(&self, elapsed: Duration) -> CheckState {
        match self.last.as_ref().map(|last| &last.answer) {
            Some(answer @ (CheckState::Misfit(_) | CheckState::Unread(_))) => answer.clone(),
            _ => CheckState::Checking {
                debounce: debounce_left(elapsed),
            },
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.entries.lock()
    }

    async fn run(
        self: Arc<Self>,
        key: Key,
        request: CheckRequest,
        suspect: Option<Misfit>,
        mut waker: WakeOnDrop,
    ) {
        let permit = self.permits.acquire(&key.0.namespace).await;
        let began = Instant::now();
        let work = isolated(self.check(&key, &request, suspect));
        let answer = match tokio::time::timeout(CHECK_TIME, work).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(panicked)) => {
                tracing::error!(crd = %request.crd, %panicked, "checking custom resources panicked");
                CheckState::Unread("catalog-operator panicked; this is a bug".to_owned())
            }
            Err(_) => CheckState::Unread(format!("timed out after {} s", CHECK_TIME.as_secs())),
        };
        drop(permit);
        let last = Last {
            answer,
            at: Instant::now(),
            took: began.elapsed(),
        };
        if let Some(entry) = self.lock().get_mut(&key) {
            // What was told all along is looked at again in its own time.
            waker.is_needed = entry
                .last
                .as_ref()
                .is_none_or(|before| before.answer != last.answer);
            entry.last = Some(last);
            // Its plan comes for the answer now.
            entry.asked = Instant::now();
            // This very task, which has nothing to wait for any more.
            entry.running = None;
        }
    }

    async fn check(&self, key: &Key, request: &CheckRequest, suspect: Option<Misfit>) -> CheckState {
        let unread = |version: &str, error: &ReadError| {
            let (crd, group) = (&request.crd, &request.group);
            tracing::info!(%crd, version, %error, "cannot list custom resources");
            CheckState::Unread(format!(
                "error listing {group}/{version}, Resource={}: {}",
                request.plural,
                error.message()
            ))
        };
        for (version, schema) in &request.versions {
            let schema = schema.clone();
            let schema = isolation::blocking_in_round(move || StructuralSchema::new(schema)).await;
            let mut resources = Resources {
                client: &self.client,
                group: &request.group,
                version,
                plural: &request.plural,
                schema: Arc::new(schema),
            };
            if let Some(suspect) = suspect.as_ref().filter(|suspect| suspect.version == *version) {
                match resources.check_one(&suspect.namespace, &suspect.name).await {
                    Ok(None) => self.forget_misfit(key),
                    Ok(Some(misfit)) => {
                        // It was read alone this time.
                        let others = suspect.others.clone();
                        return CheckState::Misfit(Misfit { others, ..misfit });
                    }
                    Err(error) => return unread(version, &error),
                }
            }
            match resources.check_all().await {
                Ok(None) => {}
                Ok(Some(misfit)) => {
                    let Misfit {
                        namespace,
                        name,
                        fields,
                        ..
                    } = &misfit;
                    tracing::info!(crd = %request.crd, version, namespace, name, fields, "custom resource does not match the new schema");
                    return CheckState::Misfit(misfit);
                }
                Err(error) => return unread(version, &error),
            }
        }
        CheckState::Fits
    }

    /// What was in the way is no more; whether something else is, is being looked at.
    fn forget_misfit(&self, key: &Key) {
        if let Some(entry) = self.lock().get_mut(key) {
            entry.last = None;
        }
        (self.wake)(&key.0);
    }
}

#[cfg(test)]
mod tests;
