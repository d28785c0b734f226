//! Has somebody who may granted a permission to this operator? Only then are its rights carried to other namespaces.
//!
//! Upstream carries every Role with the owner labels of a ClusterServiceVersion, which whoever may write Roles in one namespace
//! can put on any (decision record 0016). What counts here:
//!
//! - a step of a Complete InstallPlan that made Role and binding for this ClusterServiceVersion, with these very rules;
//! - a note of ours that such a step was there, in the status of the ClusterServiceVersion, where only who may write the status of
//!   InstallPlans as well can put it. It goes with the ClusterServiceVersion, and when it asks for other rules;
//! - ClusterRoles of this ClusterServiceVersion that give its account these rights everywhere: no tenant of a namespace can make
//!   them. These may be upstream's.
//!
//! A counterpart in another namespace proves nothing beyond it, whoever the OperatorGroup lets write: its tenants can have made it,
//! and what they made would outlive a change of the group's ServiceAccount.

use olm_api::{
    condition::requirement,
    permission,
    v1alpha1::{DependentStatus, RequirementStatus},
};

use crate::csv::{
    coverage::{self, Granted},
    observed::Observed,
    rbac::{objects, promotion},
    strategy::{Scope, WantedRole},
};

/// Start of the note's text; the name of the role follows.
const NOTE: &str = "made by an InstallPlan: ";

/// That a permission was granted to this operator by somebody who may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proof {
    /// Uid of the InstallPlan, if it was one.
    pub(crate) plan_uid: Option<String>,
}

/// The first proof there is for a namespaced permission.
pub(crate) fn find(observed: &Observed, role: &WantedRole) -> Option<Proof> {
    by_plan(observed, role)
        .or_else(|| by_note(observed, role))
        .or_else(|| by_promoted(observed, role))
}

/// Role and binding were made by one Complete plan, and say what the ClusterServiceVersion asks for. A step that only refers to
/// where its object is, as upstream's do, is believed by its name, which is a hash of account and rules.
fn by_plan(observed: &Observed, role: &WantedRole) -> Option<Proof> {
    let role_ref = permission::role_ref("Role", &role.name);
    let subjects = [permission::service_account_subject(
        observed.namespace(),
        &role.service_account,
    )];
    let binding = objects::binding_hash(&role_ref, &subjects);
    let made = |plan: &str, kind: &str, content: &str| {
        observed.planned.iter().any(|step| {
            step.plan_uid == plan
                && step.kind == kind
                && step.name == role.name
                && step.content.as_deref().is_none_or(|found| found == content)
        })
    };
    let found = observed.planned.iter().find(|step| {
        made(&step.plan_uid, "Role", &role.rules_hash) && made(&step.plan_uid, "RoleBinding", &binding)
    })?;
    Some(Proof {
        plan_uid: Some(found.plan_uid.clone()),
    })
}

/// The grant that the status notes.
pub(crate) fn by_note(observed: &Observed, role: &WantedRole) -> Option<Proof> {
    let status = observed.csv.status.as_ref()?;
    let text = format!("{NOTE}{}", role.name);
    let accounts = status
        .requirement_status
        .iter()
        .filter(|row| is_account(row, &role.service_account));
    let mut dependents = accounts.flat_map(|row| &row.dependents);
    let note =
        dependents.find(|dependent| is_note(dependent) && dependent.message.as_ref() == Some(&text))?;
    Some(Proof {
        plan_uid: note.uuid.clone(),
    })
}

fn is_account(row: &RequirementStatus, name: &str) -> bool {
    row.group.is_empty() && row.kind == "ServiceAccount" && row.name == name
}

/// True for a note of a grant.
pub(crate) fn is_note(dependent: &DependentStatus) -> bool {
    dependent.group == permission::API_GROUP
        && dependent.kind == "Role"
        && dependent.status == requirement::SATISFIED
}

/// The note for the status.
pub(crate) fn note(role: &WantedRole, proof: Proof) -> DependentStatus {
    DependentStatus {
        group: permission::API_GROUP.to_owned(),
        version: "v1".to_owned(),
        kind: "Role".to_owned(),
        status: requirement::SATISFIED.to_owned(),
        uuid: proof.plan_uid,
        message: Some(format!("{NOTE}{}", role.name)),
        ..DependentStatus::default()
    }
}

fn by_promoted(observed: &Observed, role: &WantedRole) -> Option<Proof> {
    let promoted = promotion::is_held_by(observed, role, &observed.rbac.cluster_roles);
    promoted.then_some(Proof { plan_uid: None })
}

/// True when RBAC that was read from the API server allows it all to the account: in a namespace, else everywhere.
pub(crate) fn is_granted_by_others(
    observed: &Observed,
    wanted: &WantedRole,
    namespace: Option<&str>,
) -> bool {
    granted(observed, namespace, &wanted.service_account)
        .is_some_and(|granted| wanted.rules.iter().all(|rule| granted.covers(rule)))
}

/// What RBAC that was read from the API server gives the account in the scope of a permission; `None` when none was read.
pub(crate) fn granted_by_others<'a>(
    observed: &'a Observed,
    scope: Scope,
    account: &'a str,
) -> Option<Granted<'a>> {
    let namespace = (scope == Scope::Namespace).then(|| observed.namespace());
    granted(observed, namespace, account)
}

fn granted<'a>(observed: &'a Observed, namespace: Option<&'a str>, account: &'a str) -> Option<Granted<'a>> {
    let grants = observed.rbac.granted_by_others.as_ref()?;
    let account = coverage::AccountName {
        namespace: observed.namespace(),
        name: account,
    };
    Some(coverage::granted(
        account,
        namespace,
        &grants.bindings,
        &grants.roles,
    ))
}
