//! Adds to an observation what only a reconcile that installs needs: new certificates, and whether a Secret, Role or RoleBinding of a name
//! that the install uses exists without a ClusterServiceVersion as owner (`find_strangers`). Such an object is used, but stays when the
//! ClusterServiceVersion is deleted.
//!
//! Both cost too much for a ClusterServiceVersion that waits for hours with many reconciles: keys more than the rest of a reconcile, and
//! names a read each. So this runs at the end of `Csv::observe`, only if the stores lack one of the objects or a certificate is unfit, and
//! asks `decide` once whether this reconcile installs.

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::{Api, Client, core::DynamicObject};
use olm_runtime::{discovery::deadline, error::ObserveError, plan::Target};

use crate::{
    csv::{
        decide,
        observed::Observed,
        serving::{certificate::CertificateMaker, found::Serving},
    },
    owner,
    stores::ServingSecret,
};

/// Completes `observed` if this reconcile installs.
///
/// # Errors
/// When a read fails, or a certificate cannot be issued.
pub(crate) async fn for_install(
    observed: &mut Observed,
    client: &Client,
    now: Timestamp,
) -> Result<(), ObserveError> {
    let unknown = unknown(observed);
    let is_complete = unknown.is_empty() && observed.serving.unfit.is_empty();
    if is_complete || !decide::installs(observed, now) {
        return Ok(());
    }
    find_strangers(observed, client, unknown).await?;
    issue(observed, now)
}

/// Returns the Secrets, Roles and RoleBindings that an install creates because the stores do not have them.
fn unknown(observed: &Observed) -> Vec<Target> {
    // What remains of a deleted ClusterServiceVersion is not created again.
    if observed.csv.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let (namespace, serving) = (observed.namespace(), &observed.serving);
    let mut unknown = Vec::new();
    for endpoint in &serving.endpoints {
        let name = endpoint.secret();
        let wanted = [
            Target::of::<ServingSecret>(namespace, &name),
            Target::of::<Role>(namespace, &name),
            Target::of::<RoleBinding>(namespace, &name),
        ];
        unknown.extend(wanted.into_iter().filter(|target| serving.live(target).is_none()));
    }
    unknown
}

/// Looks up existing objects with these names. The stores only have OLM's objects, and objects of others must
/// not be deleted with the ClusterServiceVersion.
async fn find_strangers(
    observed: &mut Observed,
    client: &Client,
    unknown: Vec<Target>,
) -> Result<(), ObserveError> {
    let namespace = observed.namespace().to_owned();
    for target in unknown {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &target.api);
        let found = deadline(&target.to_string(), api.get_metadata_opt(&target.name)).await?;
        if found.is_some_and(|found| owner::references(&found.metadata).next().is_none()) {
            observed.serving.strangers.insert(target.to_string());
        }
    }
    Ok(())
}

/// Issues a certificate for each endpoint without a usable one.
fn issue(observed: &mut Observed, now: Timestamp) -> Result<(), ObserveError> {
    let namespace = observed.namespace().to_owned();
    let Serving {
        endpoints,
        unfit,
        issued,
        ..
    } = &mut observed.serving;
    for endpoint in endpoints.iter().filter(|one| unfit.contains_key(&one.deployment)) {
        let made = CertificateMaker
            .issue(&endpoint.hosts(&namespace), now)
            .map_err(|error| {
                ObserveError::read(format!("a new certificate for {}", endpoint.service()), error)
            })?;
        issued.insert(endpoint.deployment.clone(), made);
    }
    Ok(())
}
