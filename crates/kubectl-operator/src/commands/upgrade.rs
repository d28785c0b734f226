//! `kubectl operator upgrade`: approves the upgrade that waits, as `approve` does.

use kube::ResourceExt as _;

use super::{approve, status};
use crate::args::change::UpgradeArgs;
use crate::cluster::Cluster;
use crate::command_line::CommandLine;
use crate::operators::{Gathered, State};
use crate::terminal::first_line;
use crate::{Verdict, gather, printer};

/// What is to be done about an operator that is to be upgraded.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// A plan waits for approval.
    Approve,
    /// Something is on its way, or there is nothing newer.
    Nothing(String),
    /// It cannot be upgraded as it is.
    Stuck(String),
}

/// Approves what waits, and follows it if that is wanted.
///
/// # Errors
/// There is no such Subscription, or the API server refuses.
pub(crate) async fn run(args: &UpgradeArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.approve.connection).await?;
    let namespace = cluster.namespace.as_str();
    let name = args.approve.name.as_str();
    let gathered = gather::operators(&cluster.client, Some(namespace)).await?;
    match step(&gathered, namespace, name, &cluster.commands) {
        Step::Approve => {
            let (verdict, subscriptions) = Box::pin(approve::approve_one(&args.approve)).await?;
            if verdict != Verdict::Fine || !args.watch {
                return Ok(verdict);
            }
            return follow(&cluster, &subscriptions, args).await;
        }
        Step::Stuck(text) => {
            printer::progress(&text);
            return Ok(Verdict::Unresolved);
        }
        Step::Nothing(text) => {
            printer::progress(&text);
            if !args.watch {
                return Ok(Verdict::Fine);
            }
        }
    }
    status::follow(&cluster, name, &args.wait).await
}

/// Follows those that waited for the plan, one after the other. A plan that nobody waits for is carried out all the same.
async fn follow(cluster: &Cluster, subscriptions: &[String], args: &UpgradeArgs) -> anyhow::Result<Verdict> {
    let mut worst = Verdict::Fine;
    for name in subscriptions {
        let verdict = status::follow(cluster, name, &args.wait).await?;
        if verdict != Verdict::Fine {
            worst = verdict;
        }
    }
    Ok(worst)
}

fn step(gathered: &Gathered, namespace: &str, name: &str, commands: &CommandLine) -> Step {
    let operators = gathered.operators();
    let of_name = |name: &str| {
        operators.iter().find(|operator| {
            operator
                .subscription
                .is_some_and(|found| found.name_any() == name)
        })
    };
    // Plans and what is not there are for approve to tell.
    let Some(operator) = of_name(name) else {
        return Step::Approve;
    };
    let (row, verdict) = (operator.row(), operator.verdict());
    // What explain prints whole.
    let message = first_line(&verdict.message);
    let explain = || commands.told("explain {}", &[name], Some(namespace));
    match verdict.state {
        State::RequiresApproval => Step::Approve,
        State::Ready => match operator.unhealthy_catalog() {
            Some(catalog) => Step::Stuck(format!(
                "{name} has {}, and whether there is anything newer is not known: {catalog}; `{}` shows all catalogs",
                row.installed_csv,
                commands.told("catalog list", &[], None)
            )),
            None => Step::Nothing(format!(
                "{name} has {}, and its channel offers nothing newer for it; `{}` tells why",
                row.installed_csv,
                explain()
            )),
        },
        State::Installing | State::Upgrading | State::Pending => Step::Nothing(format!(
            "{name} is on its way already and needs no approval: {message}"
        )),
        State::Unresolved | State::Failed => Step::Stuck(format!(
            "{name} cannot be upgraded as it is: {message}; `{}` tells more",
            explain()
        )),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use olm_testing::cluster::FakeCluster;
    use serde_json::json;

    use super::*;
    use crate::args::{Args, Command};
    use crate::operators::tests::{csv, deployment, gathered, gathered_of, subscription};

    #[test]
    fn only_what_waits_for_approval_is_approved() {
        let gathered = gathered();
        let step = |name: &str| super::step(&gathered, "shop", name, &CommandLine::default());
        assert_eq!(step("waits"), Step::Approve);
        for name in ["ready", "new"] {
            assert!(matches!(step(name), Step::Nothing(_)), "{name}");
        }
        let Step::Stuck(text) = step("wrong") else {
            panic!("it does not resolve");
        };
        assert!(
            text.contains("explain wrong -n shop") && text.contains("operators found"),
            "{text}"
        );
        // A plan by its name, and what is not there.
        for name in ["install-1", "installplan/install-1", "nope"] {
            assert_eq!(step(name), Step::Approve, "{name}");
        }
    }

    /// With its catalog away, whatever it has is the newest that is known.
    #[test]
    fn where_nobody_knows_nothing_is_told_as_well() {
        let health = |name: &str, healthy: bool| json!({"catalogSourceRef": {"name": name, "namespace": "olm"}, "healthy": healthy, "lastUpdated": null});
        let unhealthy = json!([{"type": "CatalogSourcesUnhealthy", "status": "True", "message": "targeted catalogsource olm/cat missing"}]);
        for (own, other, conditions, is_known) in [
            (true, true, json!([]), true),
            (false, true, json!([]), false),
            (true, false, json!([]), true),
            (true, true, unhealthy, false),
        ] {
            let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "conditions": conditions,
                "catalogHealth": [health("cat", own), health("other", other)]});
            let objects = [subscription("db", &status), csv("1.0.0", "Succeeded", "")];
            match step(&gathered_of(objects), "shop", "db", &CommandLine::default()) {
                Step::Nothing(_) => assert!(is_known, "{status}"),
                Step::Stuck(text) => {
                    assert!(!is_known, "{status}: {text}");
                    // What the condition says is told once.
                    let told = [
                        "catalog olm/cat does not answer",
                        "targeted catalogsource olm/cat missing",
                    ];
                    assert!(
                        told.iter()
                            .any(|told| text.contains(&format!("not known: {told}; "))),
                        "{text}"
                    );
                }
                Step::Approve => panic!("nothing waits"),
            }
        }
    }

    /// A plan's name is none of an operator.
    #[tokio::test(start_paused = true)]
    async fn who_waited_for_a_plan_is_followed() {
        let cluster = FakeCluster::new();
        let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0"});
        cluster.put(subscription("db", &status));
        cluster.put(csv("1.0.0", "Succeeded", ""));
        cluster.put(deployment(2));
        let words = [
            "kubectl-operator",
            "upgrade",
            "install-1",
            "--watch",
            "--timeout",
            "5s",
        ];
        let Command::Upgrade(args) = Args::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        let (client, _link) = cluster.connect();
        let followed = async |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            follow(&Cluster::of(client.clone(), "shop"), &names, &args).await
        };
        assert_eq!(followed(&["db"]).await.unwrap(), Verdict::Fine);
        assert_eq!(followed(&[]).await.unwrap(), Verdict::Fine);
        cluster.put(subscription("late", &json!({})));
        assert_eq!(followed(&["late", "db"]).await.unwrap(), Verdict::Unresolved);
    }

    #[test]
    fn an_upgrade_on_its_way_is_not_approved_again() {
        let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0"});
        let objects = [
            subscription("db", &status),
            csv("1.0.0", "Replacing", ""),
            csv("2.0.0", "Installing", "waiting"),
        ];
        let Step::Nothing(text) = step(&gathered_of(objects), "shop", "db", &CommandLine::default()) else {
            panic!("nothing is to be approved");
        };
        assert!(text.contains("on its way already"), "{text}");
    }
}
