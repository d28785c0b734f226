//! Reasons of the Events that are the runtime's own, for objects of any kind.

/// A key is held back because it writes on and on.
pub const SLOWED_DOWN: &str = "ReconcileSlowedDown";
/// The round of a key panicked, or what was to hear of an object's change.
pub const PANICKED: &str = "ReconcilePanicked";
/// A process was elected, as client-go names it; on the Lease.
pub const LEADER_ELECTION: &str = "LeaderElection";
/// An object does not fit its type.
pub const UNREADABLE: &str = "ObjectUnreadable";
