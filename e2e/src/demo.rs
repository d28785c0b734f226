//! The demo operator, installed and used as by a user.

use serde_json::{Value, json};
use xtask::demo::PACKAGE;
use xtask::kubectl::text;

use crate::lab::{Lab, Namespace, catalog_source, operator_group, subscription};

/// ClusterServiceVersion of its first release.
pub const FIRST: &str = "demo-operator.v1.0.0";
/// ClusterServiceVersion of its second release, the head of its channel.
pub const SECOND: &str = "demo-operator.v1.1.0";

/// Writes catalog, group with these `targets` (none: all namespaces) and Subscription into `namespace`, the Subscription after
/// `change`.
///
/// # Errors
/// If the API server rejects an object.
pub fn install(
    namespace: &Namespace<'_>,
    targets: &[&str],
    change: impl Fn(&mut Value),
) -> anyhow::Result<()> {
    let image = Lab::shared()?.demo_catalog()?;
    let mut wanted = subscription("demo", PACKAGE, "stable", "catalog", namespace.name());
    change(&mut wanted);
    namespace.apply(&[
        catalog_source("catalog", image),
        operator_group("group", targets),
        wanted,
    ])
}

/// Returns a Greeting.
pub fn greeting() -> Value {
    json!({"apiVersion": "demo.example.com/v1", "kind": "Greeting", "metadata": {"name": "ada"}, "spec": {"name": "Ada"}})
}

/// Creates a Greeting in `namespace` and waits for the answer of the operator's release `release`.
///
/// # Errors
/// If there is no answer, or one of another release.
pub fn greet(namespace: &Namespace<'_>, release: &str) -> anyhow::Result<()> {
    namespace.apply(&[greeting()])?;
    // The full resource name, because operators of other tests have a kind of the same name.
    namespace.wait_for(
        "greetings.demo.example.com",
        "ada",
        "an answer of the operator",
        |greeting| {
            text(greeting, "/status/operatorRelease") == release
                && text(greeting, "/status/message") == "Hello, Ada!"
        },
    )?;
    Ok(())
}
