//! Reasons of Events that the runtime itself sends, for objects of any kind.

/// A key is slowed down because it keeps writing.
pub const SLOWED_DOWN: &str = "ReconcileSlowedDown";
/// The reconcile of a key, or a listener of an object's change, panicked.
pub const PANICKED: &str = "ReconcilePanicked";
/// A process became leader, with client-go's name; sent on the Lease.
pub const LEADER_ELECTION: &str = "LeaderElection";
/// An object cannot be parsed as its type.
pub const UNREADABLE: &str = "ObjectUnreadable";
