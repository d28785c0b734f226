//! A real server on a loopback port and our client.

#![allow(clippy::panic)]

mod checklist;
mod content;
mod health;
mod queries;
mod server;
