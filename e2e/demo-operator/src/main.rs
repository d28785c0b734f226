//! The operator that demo and tests install.

fn main() {}
