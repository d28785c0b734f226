//! Permits for work that takes long and is caused by tenants: fetching bundles, reading catalogs.
//!
//! # Guarantees
//! - Namespaces take turns: whoever waits for a permit waits for at most one piece of work of each other namespace, and for
//!   the work of its own namespace that was asked for before.
//! - A namespace holds at most half of the permits, so that servers of one tenant that answer in drips leave the other half
//!   to everybody else.
//! - Whoever stops waiting leaves the line, and a permit that is dropped is free at once.
//! - A permit that becomes free wakes the one whose turn it is and nobody else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A number of permits; a clone is a handle to the same ones.
#[derive(Clone)]
pub(crate) struct FairPermits {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// How many permits a namespace may hold.
    share: usize,
}

struct State {
    free: usize,
    /// The tickets that wait, by number, and what wakes each.
    tickets: BTreeMap<u64, Arc<Notify>>,
    /// Permits held, by namespace; a namespace that holds none is not there.
    held: BTreeMap<String, usize>,
    /// Numbers of the tickets that wait, by namespace; a namespace without any is not there.
    lines: BTreeMap<String, VecDeque<u64>>,
    /// The namespaces of `lines`, the one whose turn it is first.
    turns: VecDeque<String>,
    next_ticket: u64,
}

impl FairPermits {
    /// So many permits, at least one.
    pub(crate) fn new(permits: usize) -> Self {
        Self::with_share(permits, permits / 2)
    }

    /// So many permits, of which a namespace holds at most `share`; at least one of each.
    pub(crate) fn with_share(permits: usize, share: usize) -> Self {
        let permits = permits.max(1);
        let state = State {
            free: permits,
            tickets: BTreeMap::new(),
            held: BTreeMap::new(),
            lines: BTreeMap::new(),
            turns: VecDeque::new(),
            next_ticket: 0,
        };
        let shared = Shared {
            state: Mutex::new(state),
            share: share.max(1),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// A place in the line of each of these namespaces.
    pub(crate) fn ticket<'a>(&self, namespaces: impl IntoIterator<Item = &'a str>) -> Ticket {
        let mut state = self.shared.lock();
        let number = state.next_ticket;
        state.next_ticket = state.next_ticket.wrapping_add(1);
        let turn = Arc::new(Notify::new());
        state.tickets.insert(number, Arc::clone(&turn));
        drop(state);
        let place = Place {
            shared: Arc::clone(&self.shared),
            number,
        };
        for namespace in namespaces {
            place.join(namespace);
        }
        Ticket { place, turn }
    }

    /// A permit in the name of a namespace, if it can have one without anybody waiting.
    pub(crate) fn try_acquire(&self, namespace: &str) -> Option<Permit> {
        self.ticket([namespace]).place.take()
    }

    /// A permit in the name of a namespace; waits for its turn.
    pub(crate) async fn acquire(&self, namespace: &str) -> Permit {
        self.ticket([namespace]).permit().await
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every critical section leaves the state consistent, so a panic elsewhere cannot spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whose turn it is, if there is a permit for anybody. One that is woken before it waits does not wait.
    fn wake_next(&self) {
        let state = self.lock();
        if let Some((_, number)) = state.next(self.share)
            && let Some(turn) = state.tickets.get(&number)
        {
            turn.notify_one();
        }
    }
}

impl State {
    /// Who is next: the first in line of the first namespace in turn that may hold one more.
    fn next(&self, share: usize) -> Option<(usize, u64)> {
        if self.free == 0 {
            return None;
        }
        self.turns.iter().enumerate().find_map(|(turn, namespace)| {
            let held = self.held.get(namespace).copied().unwrap_or(0);
            let first = self.lines.get(namespace)?.front()?;
            (held < share).then_some((turn, *first))
        })
    }

    /// Takes a ticket out of every line.
    fn leave(&mut self, number: u64) {
        self.tickets.remove(&number);
        self.lines.retain(|_, line| {
            line.retain(|waiting| *waiting != number);
            !line.is_empty()
        });
        let lines = &self.lines;
        self.turns.retain(|namespace| lines.contains_key(namespace));
    }
}

/// Where a ticket waits, for others who want the same work.
#[derive(Clone)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    number: u64,
}

impl Place {
    /// Waits in the line of this namespace, too: the work is wanted there as well, and begins when the turn of either has
    /// come. Nothing happens when the ticket waits in that line already, or does not wait any more.
    pub(crate) fn join(&self, namespace: &str) {
        let mut state = self.shared.lock();
        if !state.tickets.contains_key(&self.number) {
            return;
        }
        match state.lines.get_mut(namespace) {
            Some(line) if line.contains(&self.number) => return,
            Some(line) => line.push_back(self.number),
            None => {
                let line = VecDeque::from([self.number]);
                state.lines.insert(namespace.to_owned(), line);
                state.turns.push_back(namespace.to_owned());
            }
        }
        drop(state);
        self.shared.wake_next();
    }

    fn take(&self) -> Option<Permit> {
        let mut state = self.shared.lock();
        let (turn, number) = state.next(self.shared.share)?;
        if number != self.number {
            return None;
        }
        let namespace = state.turns.remove(turn)?;
        state.turns.push_back(namespace.clone());
        state.leave(number);
        state.free = state.free.saturating_sub(1);
        let held = state.held.entry(namespace.clone()).or_insert(0);
        *held = held.saturating_add(1);
        drop(state);
        // There may be another one free, and somebody else is next now.
        self.shared.wake_next();
        Some(Permit {
            shared: Arc::clone(&self.shared),
            namespace,
        })
    }
}

/// The right to a permit in turn; who drops it waits no longer.
pub(crate) struct Ticket {
    place: Place,
    turn: Arc<Notify>,
}

impl Ticket {
    /// Where it waits.
    pub(crate) fn place(&self) -> Place {
        self.place.clone()
    }

    /// The permit, when the turn has come.
    pub(crate) async fn permit(self) -> Permit {
        loop {
            if let Some(permit) = self.place.take() {
                return permit;
            }
            self.turn.notified().await;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.place.shared.lock().leave(self.place.number);
        self.place.shared.wake_next();
    }
}

/// The right to do one piece of work; it ends when this is dropped.
pub(crate) struct Permit {
    shared: Arc<Shared>,
    namespace: String,
}

impl Permit {
    /// Whose share it counts against.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether a namespace waits that could have this permit, and cannot have another.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.shared.lock();
        let mut waiting = state
            .turns
            .iter()
            .filter(|namespace| **namespace != self.namespace);
        let held = |namespace: &String| state.held.get(namespace).copied().unwrap_or(0);
        state.free == 0 && waiting.any(|namespace| held(namespace) < self.shared.share)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.free = state.free.saturating_add(1);
        if let Some(held) = state.held.get_mut(&self.namespace) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                state.held.remove(&self.namespace);
            }
        }
        drop(state);
        self.shared.wake_next();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;

    /// Runs a piece of work of a second for each name and returns them in the order in which they began.
    async fn order(permits: usize, names: &[&str]) -> Vec<String> {
        let pool = FairPermits::new(permits);
        let begun: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut work = tokio::task::JoinSet::new();
        for name in names {
            let (ticket, begun) = (pool.ticket([*name]), Arc::clone(&begun));
            let name = (*name).to_owned();
            work.spawn(async move {
                let _permit = ticket.permit().await;
                begun.lock().unwrap().push(name);
                sleep(Duration::from_secs(1)).await;
            });
        }
        work.join_all().await;
        let begun = begun.lock().unwrap();
        begun.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_waits_for_one_piece_of_work_of_each_other_namespace() {
        let mut names = vec!["noisy"; 200];
        names.extend(["a", "b", "a", "c"]);
        let begun = order(1, &names).await;
        assert_eq!(begun.len(), 204);
        assert_eq!(begun[..6], ["noisy", "a", "b", "c", "noisy", "a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_never_holds_more_than_half() {
        let pool = FairPermits::new(4);
        let _dripping = [pool.acquire("noisy").await, pool.acquire("noisy").await];
        let soon = Duration::from_secs(3600);
        assert!(timeout(soon, pool.acquire("noisy")).await.is_err());
        let quiet = timeout(Duration::ZERO, pool.acquire("quiet")).await;
        assert!(quiet.is_ok(), "the other half is free");
        drop(quiet);
        // Whoever gave up waiting takes nothing along.
        let _others = [pool.acquire("a").await, pool.acquire("b").await];
        assert_eq!(pool.shared.lock().free, 0);
        assert!(pool.shared.lock().lines.is_empty());
    }

    /// Hundreds wait, and each is asked once in vain and once when its turn has come.
    #[tokio::test(start_paused = true)]
    async fn a_free_permit_wakes_one_waiter() {
        let pool = FairPermits::new(2);
        let polls = Arc::new(Mutex::new(0));
        let mut work = tokio::task::JoinSet::new();
        for number in 0..200 {
            let ticket = pool.ticket([["a", "b", "c"][number % 3]]);
            let polls = Arc::clone(&polls);
            work.spawn(async move {
                let mut permit = Box::pin(ticket.permit());
                let counted = std::future::poll_fn(|context| {
                    *polls.lock().unwrap() += 1;
                    permit.as_mut().poll(context)
                });
                let _permit = counted.await;
                sleep(Duration::from_secs(1)).await;
            });
        }
        work.join_all().await;
        let polls = *polls.lock().unwrap();
        assert!(polls <= 2 * 200 + 10, "{polls}");
    }

    /// What two namespaces want begins with the turn of the first of them.
    #[tokio::test(start_paused = true)]
    async fn a_ticket_waits_in_several_lines_and_is_served_once() {
        let pool = FairPermits::new(1);
        let held = pool.acquire("noisy").await;
        let before = pool.ticket(["noisy"]);
        let shared = pool.ticket(["noisy"]);
        let place = shared.place();
        place.join("quiet");
        place.join("quiet");
        drop(held);
        let first = timeout(Duration::ZERO, before.permit()).await.ok();
        let (done, wait) = (Arc::new(Mutex::new(false)), shared.permit());
        let told = Arc::clone(&done);
        let task = tokio::spawn(async move {
            let permit = wait.await;
            *told.lock().unwrap() = true;
            permit.namespace.clone()
        });
        tokio::task::yield_now().await;
        assert!(first.is_some() && !*done.lock().unwrap());
        drop(first);
        assert_eq!(task.await.unwrap(), "quiet");
        place.join("late");
        let state = pool.shared.lock();
        assert!(state.held.is_empty() && state.turns.is_empty() && state.lines.is_empty());
    }
}
