//! Operator resolution: problem in, solution or explanation out.
