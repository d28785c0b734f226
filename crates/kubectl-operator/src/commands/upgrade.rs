//! `kubectl operator upgrade`: approves the upgrade that waits, as `approve` does.

use kube::ResourceExt as _;

use super::{approve, status};
use crate::args::change::UpgradeArgs;
use crate::cluster::Cluster;
use crate::operators::{Gathered, State};
use crate::terminal::plain;
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
    let (client, namespace) = (&cluster.client, cluster.namespace.as_str());
    let name = args.approve.name.as_str();
    let gathered = gather::operators(client, Some(namespace)).await?;
    match step(&gathered, namespace, name) {
        Step::Approve => match Box::pin(approve::run(&args.approve)).await? {
            Verdict::Fine if args.watch => {}
            verdict => return Ok(verdict),
        },
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
    status::follow(client, namespace, name, &args.wait).await
}

fn step(gathered: &Gathered, namespace: &str, name: &str) -> Step {
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
    let message = plain(&verdict.message);
    let name = plain(name);
    match verdict.state {
        State::RequiresApproval => Step::Approve,
        State::Ready => Step::Nothing(format!(
            "{name} has {}, and its channel offers nothing newer for it; `kubectl operator explain {name} -n {namespace}` tells why",
            plain(&row.installed_csv)
        )),
        State::Installing | State::Upgrading | State::Pending => Step::Nothing(format!(
            "{name} is on its way already and needs no approval: {message}"
        )),
        State::Unresolved | State::Failed => Step::Stuck(format!(
            "{name} cannot be upgraded as it is: {message}; `kubectl operator explain {name} -n {namespace}` tells more"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::operators::tests::{csv, gathered, gathered_of, subscription};

    #[test]
    fn only_what_waits_for_approval_is_approved() {
        let gathered = gathered();
        assert_eq!(step(&gathered, "shop", "waits"), Step::Approve);
        for name in ["ready", "new"] {
            assert!(
                matches!(step(&gathered, "shop", name), Step::Nothing(_)),
                "{name}"
            );
        }
        let Step::Stuck(text) = step(&gathered, "shop", "wrong") else {
            panic!("it does not resolve");
        };
        assert!(
            text.contains("explain wrong -n shop") && text.contains(r"\u{1b}"),
            "{text}"
        );
        // A plan by its name, and what is not there.
        for name in ["install-1", "installplan/install-1", "nope"] {
            assert_eq!(step(&gathered, "shop", name), Step::Approve, "{name}");
        }
    }

    #[test]
    fn an_upgrade_on_its_way_is_not_approved_again() {
        let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0"});
        let objects = [
            subscription("db", &status),
            csv("1.0.0", "Replacing", ""),
            csv("2.0.0", "Installing", "waiting"),
        ];
        let Step::Nothing(text) = step(&gathered_of(objects), "shop", "db") else {
            panic!("nothing is to be approved");
        };
        assert!(text.contains("on its way already"), "{text}");
    }
}
