//! Operator package manager: serve, render, validate and make catalogs.

fn main() {}
