//! The phases as users see them: a model cluster, what is put into it, and where it comes to rest.

mod gates;
mod install;
mod laws;
mod requirements;
mod status;
mod transitions;
mod triggers;
mod upgrades;

use serde_json::Value;

use crate::world::{World, crd, csv, group};

/// A namespace with an OperatorGroup of its own and the demo's CustomResourceDefinition; nothing installed.
fn prepared() -> World {
    let mut world = World::new();
    world.put(group("ns", "og", &["ns"]));
    world.put(crd("demos.example.com"));
    world
}

/// The demo `a`, installed and running.
#[track_caller]
fn installed() -> World {
    let mut world = prepared();
    world.put(csv("a", ""));
    world.settle_for(5);
    assert_eq!(
        world.status("a"),
        "Succeeded InstallSucceeded: install strategy completed with no errors"
    );
    world
}

/// The demo with changes.
fn changed(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut csv = csv(name, "");
    change(&mut csv["spec"]);
    csv
}

/// The demo with these changes comes to rest like this.
#[track_caller]
fn rests(world: &mut World, csv: Value, expected: &str) {
    let name = csv["metadata"]["name"].as_str().unwrap().to_owned();
    world.put(csv);
    world.settle_for(5);
    assert_eq!(world.status(&name), expected);
}
