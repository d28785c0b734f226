//! A real server on a loopback port and our client.

#![allow(clippy::panic)]

mod checklist;
mod content;
#[path = "../contract/mod.rs"]
mod contract;
mod health;
mod queries;
mod server;
