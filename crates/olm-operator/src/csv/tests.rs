//! The phases as users see them: a model cluster, what is put into it, and where it comes to rest.

mod any_csv;
mod changeover;
mod decisions;
mod false_copies;
mod gates;
mod install;
mod properties;
mod refusals;
mod requirements;
mod rights;
mod status;
mod transitions;
mod triggers;
mod unproven;
mod upgrades;

use serde_json::Value;

use crate::world::{World, crd, csv, group};

/// A namespace with an OperatorGroup of its own and the demo's CustomResourceDefinition; nothing installed.
fn prepared() -> World {
    prepared_for(&["ns"])
}

/// The same with an OperatorGroup for these namespaces; for all if there are none.
fn prepared_for(targets: &[&str]) -> World {
    World::new()
        .with(group("ns", "og", targets))
        .with(crd("demos.example.com"))
}

/// The demo `a`, installed and running.
#[track_caller]
fn installed() -> World {
    let mut world = prepared().with(csv("a", ""));
    world.settle_for(5);
    assert_eq!(
        world.status("a"),
        "Succeeded InstallSucceeded: install strategy completed with no errors"
    );
    world
}

/// It is installed, whatever is said of it.
#[track_caller]
fn succeeded(world: &World, name: &str) {
    let status = world.status(name);
    assert!(status.starts_with("Succeeded"), "{status}");
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
