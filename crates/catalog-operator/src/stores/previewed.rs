//! Objects that the previews of waiting plans are about, each watched by its name as long as the plan waits.
//!
//! Nothing is kept of them but hashes: who is to approve a plan is told that its preview is not so any more, never what stands there.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use kube::Client;
use olm_runtime::NamespacedName;
use olm_runtime::store::{OnDemand, Scope, StoreSet, WatchUser};
use tokio::task::AbortHandle;

use crate::previewed::{Look, Looks, PreviewedObject, Sketch};

/// Objects that are watched for the plans of one namespace at a time, those included that nobody has needed for less than a minute.
pub(crate) const MAX_OF_NAMESPACE: usize = 40;
/// Objects that are watched at a time.
pub(crate) const MAX_IN_ALL: usize = 200;

/// The watched objects; a clone is another handle to the same.
#[derive(Clone)]
pub(crate) struct Previewed {
    watches: OnDemand<Sketch>,
    state: Arc<Mutex<State>>,
    listeners: Arc<RwLock<Vec<Listener>>>,
}

type Listener = Arc<dyn Fn(&NamespacedName) + Send + Sync>;

#[derive(Default)]
struct State {
    /// By waiting plan.
    waiting: BTreeMap<NamespacedName, Followed>,
    /// The namespace that each running watch was started for.
    started_for: HashMap<Scope, String>,
}

/// The objects of one plan that are watched.
struct Followed {
    /// Of the plan: another one of its name looks for the first time.
    uid: String,
    objects: BTreeMap<PreviewedObject, Watched>,
}

struct Watched {
    user: Arc<WatchUser<Sketch>>,
    scope: Scope,
    /// The object once it was first looked at; none inside where it was not there.
    first: Arc<OnceLock<Option<Sketch>>>,
    _first_look: FirstLook,
}

/// A task that ends with whoever waits for it.
struct FirstLook(AbortHandle);

impl Drop for FirstLook {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Previewed {
    /// No watch begins before a plan waits.
    pub(crate) fn register(set: &StoreSet, client: &Client) -> Self {
        Self {
            watches: set.on_demand(client),
            state: Arc::default(),
            listeners: Arc::default(),
        }
    }

    /// Calls `listener` with each waiting plan one of whose objects changed, or was looked at for the first time.
    pub(crate) fn on_change(&self, listener: impl Fn(&NamespacedName) + Send + Sync + 'static) {
        let listener: Listener = Arc::new(listener);
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Arc::clone(&listener));
        let state = Arc::clone(&self.state);
        self.watches.on_change(move |scope, _| {
            let concerned: Vec<NamespacedName> = {
                let state = lock(&state);
                let waiting = state.waiting.iter();
                let has =
                    |followed: &Followed| followed.objects.values().any(|object| object.scope == *scope);
                waiting
                    .filter(|(_, followed)| has(followed))
                    .map(|(plan, _)| plan.clone())
                    .collect()
            };
            concerned.iter().for_each(|plan| listener(plan));
        });
    }

    /// What is known of the objects that the preview of this plan is about, which are watched from now on. Those of which there is no
    /// first look yet are left out, and those for which there are too many watches already: the latter are tried again each time, and
    /// that there are some is said.
    ///
    /// Nothing is waited for: listeners hear when a first look is over.
    pub(crate) fn follow(&self, plan: &NamespacedName, uid: &str, wanted: &[PreviewedObject]) -> Looks {
        if wanted.is_empty() {
            self.forget(plan);
            return Looks::default();
        }
        let mut state = lock(&self.state);
        let known = state.waiting.remove(plan).filter(|known| known.uid == uid);
        let mut followed = known.unwrap_or_else(|| Followed {
            uid: uid.to_owned(),
            objects: BTreeMap::new(),
        });
        followed.objects.retain(|object, _| wanted.contains(object));
        let mut known = Looks::default();
        for object in wanted {
            if !followed.objects.contains_key(object)
                && let Some(watched) = self.watch(&mut state, plan, object)
            {
                followed.objects.insert(object.clone(), watched);
            }
            match followed.objects.get(object) {
                Some(watched) => known.looks.extend(watched.look(object)),
                None => known.lacks_room = true,
            }
        }
        state.waiting.insert(plan.clone(), followed);
        known
    }

    /// The plan waits no more, or is gone.
    pub(crate) fn forget(&self, plan: &NamespacedName) {
        lock(&self.state).waiting.remove(plan);
    }

    /// A watch of the object, unless there are too many.
    fn watch(&self, state: &mut State, plan: &NamespacedName, object: &PreviewedObject) -> Option<Watched> {
        let scope = scope(&plan.namespace, object)?;
        // Those that nobody needs any more go on for a minute, and are connections, too.
        let running = self.watches.scopes();
        state.started_for.retain(|scope, _| running.contains(scope));
        if !running.contains(&scope) {
            let own = state
                .started_for
                .values()
                .filter(|namespace| **namespace == plan.namespace);
            if own.count() >= MAX_OF_NAMESPACE || running.len() >= MAX_IN_ALL {
                return None;
            }
            state.started_for.insert(scope.clone(), plan.namespace.clone());
        }
        let user = Arc::new(self.watches.user(&scope));
        let first = Arc::<OnceLock<_>>::default();
        let task = self.first_look(plan.clone(), Arc::clone(&user), Arc::clone(&first), scope.clone());
        Some(Watched {
            user,
            scope,
            first,
            _first_look: task,
        })
    }

    fn first_look(
        &self,
        plan: NamespacedName,
        user: Arc<WatchUser<Sketch>>,
        first: Arc<OnceLock<Option<Sketch>>>,
        scope: Scope,
    ) -> FirstLook {
        let listeners = Arc::clone(&self.listeners);
        let task = tokio::spawn(async move {
            user.ready().await;
            first.get_or_init(|| find(&user, &scope));
            let listeners = listeners.read().unwrap_or_else(PoisonError::into_inner).clone();
            listeners.iter().for_each(|listener| listener(&plan));
        });
        FirstLook(task.abort_handle())
    }
}

impl Watched {
    fn look(&self, object: &PreviewedObject) -> Option<Look> {
        Some(Look {
            object: object.clone(),
            first: self.first.get()?.clone(),
            now: find(&self.user, &self.scope),
        })
    }
}

fn find(user: &WatchUser<Sketch>, scope: &Scope) -> Option<Sketch> {
    let namespace = scope.namespace.as_deref().unwrap_or_default();
    let name = scope.name.as_deref().unwrap_or_default();
    let found = user.store().get_key(&NamespacedName::new(namespace, name))?;
    Some(Sketch::clone(&found))
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scope(namespace: &str, object: &PreviewedObject) -> Option<Scope> {
    let is_namespaced = !object.kind.is_cluster_scoped()?;
    Some(Scope {
        api: object.kind.api_resource()?,
        namespace: is_namespaced.then(|| namespace.to_owned()),
        name: Some(object.name.clone()),
    })
}

#[cfg(test)]
mod tests;
