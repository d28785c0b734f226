//! Rounds of a namespace.
