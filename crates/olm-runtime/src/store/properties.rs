//! Guarantees of stores as properties, tested by a random walk against a model of the API server and its watch.
//!
//! The walk uses stores only through [`WatchedStore`], so every store must keep the same guarantees, whatever it stores of its objects.
//! The seed is that of `olm_testing::properties`, and it is printed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;

use super::contents::Contents;
use super::projection::Item;
use super::*;

/// Uid and version of an object.
type State = (String, u64);
type View = BTreeMap<String, State>;
type Teller = Box<dyn Fn(&str, Option<State>) + Send + Sync>;

/// Interface of a store to its watch and to the executor. Objects have a name, a uid and a version.
trait WatchedStore {
    fn relist_begins(&self);
    fn listed(&self, name: &str, state: &State);
    fn relist_ends(&self);
    fn watching_from(&self, version: u64);
    fn on_applied(&self, name: &str, state: &State);
    fn on_deleted(&self, name: &str, state: &State);
    /// Applies the answer to a create or an update of ours.
    fn absorb(&self, name: &str, state: &State);
    /// Applies the answer to a deletion of ours that names the uid.
    fn absorb_deleted_uid(&self, name: &str, uid: &str);
    /// Applies the answer to a write of ours after which the object is no longer selected.
    fn absorb_deselected(&self, name: &str, state: &State);
    /// Returns the objects of the store.
    fn view(&self) -> View;
    /// Number of remembered deletions that the watch has reported.
    fn remembered(&self) -> usize;
    fn on_change(&self, teller: Teller);
}

fn config_map(name: &str, (uid, version): &State) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.namespace = Some("ns".to_owned());
    object.metadata.uid = Some(uid.clone());
    object.metadata.resource_version = Some(version.to_string());
    object
}

fn state_of(object: &impl Object) -> State {
    let revision = stamp_of(object);
    (revision.uid.unwrap().to_string(), revision.version.unwrap())
}

/// Form in which a store can keep a ConfigMap.
trait Kept: Object + Sized + Send + Sync + 'static {
    fn of(object: ConfigMap) -> Self;

    fn at(name: &str, state: &State) -> Self {
        Self::of(config_map(name, state))
    }
}

impl Kept for ConfigMap {
    fn of(object: ConfigMap) -> Self {
        object
    }
}

/// Smallest possible projection.
#[derive(Debug, Clone)]
struct Nothing;

impl Projection for Nothing {
    type Object = ConfigMap;

    fn of(_: ConfigMap) -> Self {
        Self
    }
}

impl Kept for Projected<Nothing> {
    fn of(object: ConfigMap) -> Self {
        let value = serde_json::to_value(object).unwrap();
        let item: Item<Nothing> = serde_json::from_value(value).unwrap();
        item.projected().unwrap()
    }
}

impl<T: Kept> WatchedStore for Store<T> {
    fn relist_begins(&self) {
        Self::relist_begins(self);
    }
    fn listed(&self, name: &str, state: &State) {
        Self::listed(self, T::at(name, state));
    }
    fn relist_ends(&self) {
        Self::relist_ends(self);
    }
    fn watching_from(&self, version: u64) {
        Self::watching_from(self, version);
    }
    fn on_applied(&self, name: &str, state: &State) {
        Self::on_applied(self, T::at(name, state));
    }
    fn on_deleted(&self, name: &str, state: &State) {
        Self::on_deleted(self, &stamp_of(&T::at(name, state)));
    }
    fn absorb(&self, name: &str, state: &State) {
        self.put(T::at(name, state));
    }
    fn absorb_deleted_uid(&self, name: &str, uid: &str) {
        self.delete_uid(&NamespacedName::new("ns", name), uid);
    }
    fn absorb_deselected(&self, name: &str, state: &State) {
        self.put_deleted(&T::at(name, state));
    }
    fn view(&self) -> View {
        let objects = self.list();
        objects
            .iter()
            .map(|object| (object.state().name.to_owned(), state_of(object.as_ref())))
            .collect()
    }
    fn remembered(&self) -> usize {
        self.read(Contents::remembered)
    }
    fn on_change(&self, teller: Teller) {
        Self::on_change(self, move |change| match change {
            Change::Applied { new, .. } => teller(new.state().name, Some(state_of(new.as_ref()))),
            Change::Deleted { old } => teller(old.state().name, None),
        });
    }
}

/// Small, reproducible random number generator (SplitMix64).
pub(super) struct Random(u64);

impl Random {
    /// Creates a generator and prints its seed, which `OLM_PROPERTY_SEED` sets.
    pub(super) fn new(what: &str) -> Self {
        let seed = olm_testing::properties::seed();
        println!("{what}, OLM_PROPERTY_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// Change of an object on the server, at a version.
#[derive(Debug, Clone)]
struct Event {
    version: u64,
    name: String,
    uid: String,
    /// True if the object exists and is selected afterwards.
    is_there: bool,
}

/// Answer to a write of ours that has not reached the store yet.
#[derive(Debug, Clone)]
enum Answer {
    Written(Event),
    DeletedUid(Event),
    Deselected(Event),
}

/// API server with its objects and its history.
#[derive(Default)]
struct Server {
    version: u64,
    uids: u64,
    /// Uid, version and whether the watch selects the object, by name.
    objects: BTreeMap<String, (String, u64, bool)>,
    history: Vec<Event>,
}

impl Server {
    fn view(&self) -> View {
        let selected = self.objects.iter().filter(|(_, (.., selected))| *selected);
        selected
            .map(|(name, (uid, version, _))| (name.clone(), (uid.clone(), *version)))
            .collect()
    }

    fn happened(&mut self, name: &str, uid: &str, is_there: bool) -> Event {
        let event = Event {
            version: self.version,
            name: name.to_owned(),
            uid: uid.to_owned(),
            is_there,
        };
        self.history.push(event.clone());
        event
    }

    /// Performs a random write to `name` and returns the answer to its writer.
    fn write(&mut self, name: &str, random: &mut Random) -> Option<Answer> {
        // Versions belong to the whole cluster, so other objects use some of them.
        self.version += 1 + random.below(3) as u64;
        let Some((uid, _, selected)) = self.objects.get(name).cloned() else {
            self.uids += 1;
            let uid = self.uids.to_string();
            self.objects
                .insert(name.to_owned(), (uid.clone(), self.version, true));
            return Some(Answer::Written(self.happened(name, &uid, true)));
        };
        match (random.below(8), selected) {
            (0..3, _) => {
                self.objects.remove(name);
                // A watch with a selector gets no event for an object that was not selected.
                selected.then(|| Answer::DeletedUid(self.happened(name, &uid, false)))
            }
            (3, true) => {
                self.objects
                    .insert(name.to_owned(), (uid.clone(), self.version, false));
                Some(Answer::Deselected(self.happened(name, &uid, false)))
            }
            (_, true) | (3..6, false) => {
                self.objects
                    .insert(name.to_owned(), (uid.clone(), self.version, true));
                Some(Answer::Written(self.happened(name, &uid, true)))
            }
            (_, false) => {
                self.objects.insert(name.to_owned(), (uid, self.version, false));
                None
            }
        }
    }
}

/// State of the watch.
enum Watching {
    /// Nothing is requested: the start, or after 410.
    Nothing,
    /// The list was announced, but not requested.
    Begun,
    /// The list was made at this version; these objects have not been delivered.
    Listing(u64, Vec<(String, State)>),
    /// The list is complete; the watch from this version has not started.
    Listed(u64),
    /// Index of the next event in the history.
    At(usize),
}

struct Walk<'a, S> {
    store: &'a S,
    random: Random,
    names: Vec<String>,
    server: Server,
    watching: Watching,
    answers: Vec<Answer>,
    /// Newest absorbed write of ours per object, and whether the object existed after it.
    own: BTreeMap<String, Event>,
    shadow: Arc<Mutex<View>>,
    /// Objects reported as deleted that were never reported to exist.
    unknown: Arc<Mutex<Vec<String>>>,
    most_remembered: usize,
}

impl<S: WatchedStore> Walk<'_, S> {
    fn step(&mut self) {
        match self.random.below(10) {
            0..3 => self.write(),
            3..5 if !self.answers.is_empty() => {
                let index = self.random.below(self.answers.len());
                let answer = self.answers.swap_remove(index);
                self.absorb(&answer);
            }
            _ => self.watch(true),
        }
        self.check();
        if self.random.one_in(100) {
            self.come_to_rest();
        }
    }

    fn write(&mut self) {
        let index = self.random.below(self.names.len());
        let name = self.names[index].clone();
        let answer = self.server.write(&name, &mut self.random);
        // Half of the writes are ours. We delete only what we have seen.
        if let Some(answer) = answer
            && self.random.one_in(2)
            && self.has_seen(&answer)
        {
            self.answers.push(answer);
        }
    }

    fn has_seen(&self, answer: &Answer) -> bool {
        let Answer::DeletedUid(event) = answer else {
            return true;
        };
        self.store
            .view()
            .get(&event.name)
            .is_some_and(|(uid, _)| *uid == event.uid)
    }

    fn absorb(&mut self, answer: &Answer) {
        let event = match answer {
            Answer::Written(event) => {
                self.store
                    .absorb(&event.name, &(event.uid.clone(), event.version));
                event
            }
            Answer::DeletedUid(event) => {
                self.store.absorb_deleted_uid(&event.name, &event.uid);
                event
            }
            Answer::Deselected(event) => {
                self.store
                    .absorb_deselected(&event.name, &(event.uid.clone(), event.version));
                event
            }
        };
        let known = self
            .own
            .entry(event.name.clone())
            .or_insert_with(|| event.clone());
        if known.version < event.version {
            *known = event.clone();
        }
    }

    /// Performs one step of the watch; with `upset` it may lose its connection, its position, or everything.
    fn watch(&mut self, upset: bool) {
        self.watching = match std::mem::replace(&mut self.watching, Watching::Nothing) {
            Watching::Nothing => {
                self.store.relist_begins();
                Watching::Begun
            }
            Watching::Begun => {
                Watching::Listing(self.server.version, self.server.view().into_iter().collect())
            }
            // The continue token has expired.
            Watching::Listing(..) if upset && self.random.one_in(30) => Watching::Nothing,
            Watching::Listing(version, mut items) => match items.pop() {
                Some((name, state)) => {
                    self.store.listed(&name, &state);
                    Watching::Listing(version, items)
                }
                None => {
                    self.store.relist_ends();
                    Watching::Listed(version)
                }
            },
            Watching::Listed(version) => {
                self.store.watching_from(version);
                Watching::At(
                    self.server
                        .history
                        .partition_point(|event| event.version <= version),
                )
            }
            Watching::At(_) if upset && self.random.one_in(60) => Watching::Nothing,
            Watching::At(index) if upset && self.random.one_in(30) => self.reconnect(index),
            Watching::At(index) => self.deliver(index),
        };
    }

    /// Reconnects: the new watch starts where the old one was, or slightly before.
    fn reconnect(&mut self, index: usize) -> Watching {
        let back = if self.random.one_in(2) {
            self.random.below(6)
        } else {
            0
        };
        let index = index.saturating_sub(back);
        let version = index
            .checked_sub(1)
            .map_or(0, |last| self.server.history[last].version);
        self.store.watching_from(version);
        Watching::At(index)
    }

    fn deliver(&mut self, index: usize) -> Watching {
        let Some(event) = self.server.history.get(index).cloned() else {
            return Watching::At(index);
        };
        let other = self
            .server
            .history
            .get(index + 1)
            .filter(|next| next.name != event.name);
        // Delivers two events of two objects in the wrong order.
        if let Some(other) = other.cloned()
            && self.random.one_in(20)
        {
            self.tell(&other);
            self.tell(&event);
            return Watching::At(index + 2);
        }
        self.tell(&event);
        Watching::At(index + 1)
    }

    fn tell(&self, event: &Event) {
        let state = (event.uid.clone(), event.version);
        if event.is_there {
            self.store.on_applied(&event.name, &state);
        } else {
            self.store.on_deleted(&event.name, &state);
        }
    }

    fn check(&self) {
        let view = self.store.view();
        assert_eq!(
            *self.shadow.lock().unwrap(),
            view,
            "what is told gives what is shown"
        );
        assert_eq!(*self.unknown.lock().unwrap(), Vec::<String>::new());
        assert!(self.store.remembered() <= self.most_remembered);
        if self.most_remembered < self.names.len() {
            return;
        }
        for (name, own) in &self.own {
            let Some((_, shown)) = view.get(name) else {
                let is_gone = |event: &&Event| event.name == *name && event.version >= own.version;
                let gone = self
                    .server
                    .history
                    .iter()
                    .rev()
                    .filter(is_gone)
                    .any(|event| !event.is_there);
                assert!(
                    gone,
                    "{name} is hidden, though it was there since our write {own:?}"
                );
                continue;
            };
            assert!(
                *shown > own.version || (own.is_there && *shown == own.version),
                "{name} is shown at {shown}, before our write {own:?}"
            );
        }
    }

    /// Absorbs and delivers everything; then the store must equal the server.
    fn come_to_rest(&mut self) {
        while let Some(answer) = self.answers.pop() {
            self.absorb(&answer);
        }
        while !matches!(self.watching, Watching::At(index) if index == self.server.history.len()) {
            self.watch(false);
            self.check();
        }
        assert_eq!(self.store.view(), self.server.view());
        // Settled events need no history. Half of the time the watch also loses its position.
        if self.random.one_in(2) {
            self.server.history.clear();
            self.own.clear();
            self.watching = Watching::Nothing;
        }
    }
}

/// Walks with `names` objects. The guarantee about our last write needs a memory of all of them at once.
fn keeps_its_promises(store: &impl WatchedStore, names: usize, most_remembered: usize, steps: usize) {
    let steps = olm_testing::long::count("steps of a store beside its server", steps);
    let random = Random::new(&format!("{steps} steps"));
    let shadow: Arc<Mutex<View>> = Arc::default();
    let unknown: Arc<Mutex<Vec<String>>> = Arc::default();
    let (told, gone) = (Arc::clone(&shadow), Arc::clone(&unknown));
    store.on_change(Box::new(move |name, state| {
        let mut shadow = told.lock().unwrap();
        // There is no assertion here, because a panic of a listener would be caught.
        match state {
            Some(state) => {
                shadow.insert(name.to_owned(), state);
            }
            None if shadow.remove(name).is_some() => {}
            None => gone.lock().unwrap().push(name.to_owned()),
        }
    }));
    let mut walk = Walk {
        store,
        random,
        names: (0..names).map(|index| format!("object-{index}")).collect(),
        server: Server::default(),
        watching: Watching::Nothing,
        answers: Vec::new(),
        own: BTreeMap::new(),
        shadow,
        unknown,
        most_remembered,
    };
    for _ in 0..steps {
        walk.step();
    }
    walk.come_to_rest();
}

#[test]
fn a_store_keeps_its_promises_whatever_the_watch_and_our_own_answers_do() {
    keeps_its_promises(&Store::<ConfigMap>::new(), 5, 512, 1_000_000);
}

#[test]
fn a_store_of_what_a_reader_keeps_makes_the_same_promises() {
    keeps_its_promises(&Store::<Projected<Nothing>>::default(), 5, 512, 100_000);
}

/// More deletions at a time than are remembered: the store may miss our own writes for a while, but equals the server in the end.
#[test]
fn a_store_that_remembers_little_agrees_with_the_server_in_the_end() {
    let store = Store::<ConfigMap>::with_contents(kind_of::<ConfigMap>(), Contents::remembering(3));
    keeps_its_promises(&store, 12, 3, 100_000);
}
