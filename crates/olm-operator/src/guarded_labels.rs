//! Logs once whether an admission policy restricts the labels by which Roles are replicated to other
//! namespaces (decision record 0044).

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::{Api, Client};
use olm_api::labels::GUARD_POLICY;
use olm_runtime::discovery::deadline;

/// Warns if the admission policy is missing: before Kubernetes 1.30, or if the chart disables it.
pub(crate) async fn report(client: Client) {
    let api: Api<ValidatingAdmissionPolicyBinding> = Api::all(client);
    match deadline(
        "the admission policy of OLM's labels",
        api.get_metadata_opt(GUARD_POLICY),
    )
    .await
    {
        Ok(Some(_)) => {}
        Ok(None) => tracing::warn!(
            policy = GUARD_POLICY,
            "admission policy for labels on Roles is missing: users who can write Roles in one namespace can make OLM copy them to others"
        ),
        Err(error) => tracing::info!(%error, "cannot check the admission policy for labels on Roles"),
    }
}
