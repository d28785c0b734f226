//! Operator resolution: a problem in, a solution or an explanation out. No clock, no randomness, no IO.

pub mod solver;
