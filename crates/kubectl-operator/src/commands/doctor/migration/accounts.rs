//! ServiceAccounts of OperatorGroups that lack permissions for this OLM, which sends patches in place of upstream's updates.

use std::collections::BTreeSet;

use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, ResourceAttributes, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use olm_api::names::{service_account_groups, service_account_user};
use olm_api::permission::API_GROUP;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::ClusterServiceVersion;

use super::super::finding::{Finding, Severity, is_name, object, word};
use super::super::observed::Read;
use super::super::read::Reader;
use super::Found;
use crate::operators::Key;
use crate::reader::answer;
use crate::terminal::plain;

/// Maximum number of accounts to check, with up to two requests for each kind.
const MAX_ASKED: usize = 100;
/// Group and plural of the kinds that OLM patches as the account. Other kinds in bundles are not checked.
const PATCHED: [(&str, &str); 7] = [
    ("apps", "deployments"),
    ("", "services"),
    ("", "serviceaccounts"),
    ("", "configmaps"),
    ("", "secrets"),
    (API_GROUP, "roles"),
    (API_GROUP, "rolebindings"),
];

/// A ServiceAccount that is used to install operators.
#[derive(Debug)]
pub(super) struct Account {
    /// The OperatorGroup that names it.
    pub(super) group: Key,
    pub(super) name: String,
    /// Kinds that it may update but not patch, as `plural.group`.
    pub(super) lacks: Read<Vec<String>>,
}

/// Checks the ServiceAccounts of groups that have a ClusterServiceVersion.
pub(super) async fn observe(reader: &Reader<'_>, csvs: &[ClusterServiceVersion]) -> Read<Vec<Account>> {
    let used: BTreeSet<String> = csvs.iter().filter_map(ClusterServiceVersion::namespace).collect();
    let groups: Vec<OperatorGroup> = reader.all(None, "").await?;
    let mut accounts = Vec::new();
    for group in groups {
        let (namespace, name) = (group.namespace().unwrap_or_default(), group.name_any());
        let Some(account) = group.spec.service_account().filter(|_| used.contains(&namespace)) else {
            continue;
        };
        let lacks = match accounts.len() {
            MAX_ASKED.. => Err(format!("at most {MAX_ASKED} are checked")),
            // An account with an invalid name cannot exist and has no permissions.
            _ if !is_name(account) => Ok(Vec::new()),
            _ => lacks(reader, &namespace, account).await,
        };
        accounts.push(Account {
            name: account.to_owned(),
            group: (namespace, name),
            lacks,
        });
    }
    Ok(accounts)
}

/// Returns the kinds that the account may update but not patch. Kinds that it may not update are no effect of the move.
async fn lacks(reader: &Reader<'_>, namespace: &str, account: &str) -> Read<Vec<String>> {
    let mut lacks = Vec::new();
    for (group, plural) in PATCHED {
        let may = async |verb| {
            may(
                reader,
                namespace,
                question(namespace, account, (group, plural), verb),
            )
            .await
        };
        if !may("patch").await? && may("update").await? {
            let dot = if group.is_empty() { "" } else { "." };
            lacks.push(format!("{plural}{dot}{group}"));
        }
    }
    Ok(lacks)
}

#[expect(clippy::disallowed_methods, reason = "a question, of which nothing is stored")]
async fn may(reader: &Reader<'_>, namespace: &str, spec: SubjectAccessReviewSpec) -> Read<bool> {
    let api: Api<LocalSubjectAccessReview> = Api::namespaced(reader.client().clone(), namespace);
    let user = spec.user.clone().unwrap_or_default();
    let mut review = LocalSubjectAccessReview {
        spec,
        ..LocalSubjectAccessReview::default()
    };
    review.metadata.namespace = Some(namespace.to_owned());
    let what = || format!("read the permissions of {user}");
    let asked = answer(what, async { api.create(&PostParams::default(), &review).await });
    let status = reader.within(asked).await?.status.unwrap_or_default();
    Ok(status.allowed && status.denied != Some(true))
}

fn question(
    namespace: &str,
    account: &str,
    (group, plural): (&str, &str),
    verb: &str,
) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: Some(service_account_user(namespace, account)),
        groups: Some(service_account_groups(namespace).into()),
        resource_attributes: Some(ResourceAttributes {
            namespace: Some(namespace.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(plural.to_owned()),
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        }),
        ..SubjectAccessReviewSpec::default()
    }
}

pub(super) fn findings(accounts: &Read<Vec<Account>>) -> Found<'_> {
    let findings = accounts.as_ref()?.iter().filter_map(|account| {
        let (namespace, group) = &account.group;
        let whose = object("OperatorGroup", namespace, group);
        let name = plain(&account.name);
        match &account.lacks {
            Ok(lacks) if lacks.is_empty() => None,
            Ok(lacks) => Some(Finding::warning(
                whose,
                format!(
                    "its ServiceAccount {name} can update but not patch {}, and this OLM patches where upstream's updates; running operators are unaffected, but the next version would fail to install",
                    lacks.join(", ")
                ),
                format!(
                    "add the verb patch next to update in its Role: kubectl edit role -n {}",
                    word(namespace)
                ),
            )),
            Err(cause) => Some(Finding::new(
                Severity::NotChecked,
                format!("whether ServiceAccount {name} of {whose} can patch what it can update"),
                cause,
                format!(
                    "let a user with permission check: kubectl auth can-i patch deployments.apps -n {0} --as system:serviceaccount:{0}:{1}",
                    word(namespace),
                    word(&account.name)
                ),
            )),
        }
    });
    Ok(findings.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_about_the_account_with_all_its_groups() {
        let asked = question("shop", "installer", PATCHED[0], "patch");
        assert_eq!(
            asked.user.as_deref(),
            Some("system:serviceaccount:shop:installer")
        );
        let groups = asked.groups.unwrap_or_default();
        assert!(
            groups.contains(&"system:serviceaccounts:shop".to_owned()),
            "{groups:?}"
        );
        assert!(groups.contains(&"system:authenticated".to_owned()), "{groups:?}");
    }
}
