//! Leaders that are killed, and answers that are lost, at any write of an installation, an upgrade, a rollback and a deletion.

use olm_testing::stage::Stage;
use olm_testing::stage::story::{Interruption, Story, StoryEnv, every_interruption, tell};
use serde_json::{Value, json};

use super::{REACHED, accounts, names};
use crate::cluster_extension::test_env::TestEnv;

/// Longer than the delays between attempts of a revision and of its deletion.
const REST_SECONDS: u64 = 60;

/// A step of a user or of a catalog.
#[derive(Debug, Clone)]
enum Step {
    /// Serves these versions.
    Catalog(&'static [&'static str]),
    /// Creates the extension `e` with these fields of `spec.source.catalog`.
    Extension(Value),
    /// Creates the extension `e` with version 1.0.0 and a ServiceAccount that does not exist.
    WithAccount,
    /// Removes the ServiceAccount from it.
    WithoutAccount,
    /// Sets the wanted version.
    AskFor(&'static str),
    /// Deletes the extension.
    Delete,
}

/// The cluster of a story, with its writes so far.
struct StoryOfExtension {
    env: TestEnv,
    writes: Vec<String>,
}

impl StoryEnv for StoryOfExtension {
    type Step = Step;

    fn begin() -> Self {
        Self {
            // As upstream's. Only one story has an account.
            env: TestEnv::of_process(true),
            writes: Vec::new(),
        }
    }

    fn stage(&mut self) -> &mut Stage {
        &mut self.env.stage
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Catalog(versions) => self.env.catalog("c", versions),
            Step::Extension(catalog) => self.env.extension(catalog),
            Step::WithAccount => accounts::extension(&mut self.env),
            Step::WithoutAccount => {
                let patch = json!({"spec": {"serviceAccount": null}});
                self.env.edit("ClusterExtension", "e", &patch);
            }
            Step::AskFor(version) => self.env.ask_for(version),
            Step::Delete => self.env.delete("ClusterExtension", "e"),
        }
    }

    fn rest(&mut self) {
        self.go_on(REST_SECONDS);
    }

    fn go_on(&mut self, seconds: u64) {
        self.env.settle_for(seconds);
        self.writes.extend(self.env.stage.cluster.take_log().writes);
    }

    fn writes(&self) -> &[String] {
        &self.writes
    }
}

fn stories() -> Vec<Story<Step>> {
    vec![
        (
            "installed, upgraded, deleted",
            vec![
                Step::Catalog(&["1.0.0"]),
                Step::Extension(json!({})),
                Step::Catalog(&["1.0.0", "1.1.0"]),
                Step::Delete,
            ],
        ),
        (
            "rolled back",
            vec![
                Step::Extension(json!({"version": "1.1.0", "upgradeConstraintPolicy": "SelfCertified"})),
                Step::AskFor("1.0.0"),
            ],
        ),
        (
            "an ignored account, removed",
            vec![Step::WithAccount, Step::WithoutAccount],
        ),
    ]
}

#[test]
fn v1_the_stories_end_as_their_users_want() {
    let mut ended = stories().into_iter().map(|(_, story)| {
        let mut env = StoryOfExtension::begin();
        tell(&mut env, &story);
        env.env
    });
    let deleted = ended.next().unwrap();
    for (kind, name) in [
        ("ClusterExtension", "e"),
        ("ClusterObjectSet", "e-2"),
        ("ConfigMap", "a"),
        ("Deployment", "demo"),
    ] {
        assert_eq!(deleted.get(kind, name), Value::Null, "{kind} {name}");
    }
    let rolled_back = ended.next().unwrap();
    assert_eq!(rolled_back.installed(), ("1.0.0".to_owned(), names(&["e-2"])));
    assert_eq!(rolled_back.condition("Progressing"), REACHED);
    accounts::assert_is_installed(&ended.next().unwrap());
}

/// Case 20 for extensions.
#[test]
fn v1_a_leader_killed_at_any_write_leaves_the_same_end() {
    every_interruption::<StoryOfExtension>("kills of extensions", stories(), Interruption::Kill);
}

#[test]
fn v1_an_answer_lost_at_any_write_leaves_the_same_end() {
    every_interruption::<StoryOfExtension>("lost answers of extensions", stories(), Interruption::LoseAnswer);
}
