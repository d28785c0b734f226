//! Writes on behalf of the user of the plugin: single requests for one object each, with the user's permissions.

#![expect(
    clippy::disallowed_methods,
    reason = "no operator: what somebody wants is written, once"
)]

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{anyhow, bail};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use olm_api::GROUP;
use serde_json::{Value, json};

use crate::reader::{Kind, answer, of_kind};

/// Returns true if the user may do this with an object of OLM in a namespace, or with all objects of the kind if the name is empty.
/// `plural` is the name of the kind in requests.
///
/// # Errors
/// The request to the API server fails.
pub(crate) async fn is_allowed(
    client: &Client,
    namespace: &str,
    [verb, plural, name]: [&str; 3],
) -> anyhow::Result<bool> {
    let asked = ResourceAttributes {
        group: Some(GROUP.to_owned()),
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        resource: Some(plural.to_owned()),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(asked),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let params = PostParams::default();
    let what = || format!("check the permission to {verb} {plural} in namespace {namespace}");
    let answered = answer(what, reviews.create(&params, &review)).await?;
    Ok(answered.status.is_some_and(|status| status.allowed))
}

/// Creates an object. Returns `None` if one of its name exists.
///
/// # Errors
/// The request to the API server fails.
pub(crate) async fn create<K: Kind + Serialize>(api: &Api<K>, object: &K) -> anyhow::Result<Option<K>> {
    create_in(false, api, object).await
}

/// Does the same as [`create`], also as a dry run.
///
/// # Errors
/// The request to the API server fails.
pub(crate) async fn create_in<K: Kind + Serialize>(
    dry_run: bool,
    api: &Api<K>,
    object: &K,
) -> anyhow::Result<Option<K>> {
    let what = || format!("create {}", subject(object));
    let params = post_params(dry_run);
    let created = answer(what, async {
        match api.create(&params, object).await {
            Err(error) if is_there(&error) => Ok(None),
            created => created.map(Some),
        }
    });
    of_kind::<K, _>(created.await)
}

fn post_params(dry_run: bool) -> PostParams {
    PostParams {
        dry_run,
        ..PostParams::default()
    }
}

/// Replaces an object that was read before.
///
/// # Errors
/// The request to the API server fails, or another user has changed the object since it was read.
pub(crate) async fn replace<K: Kind + Serialize>(
    dry_run: bool,
    api: &Api<K>,
    object: &K,
) -> anyhow::Result<K> {
    let (what, params) = (|| format!("update {}", subject(object)), post_params(dry_run));
    let replaced = answer(what, async {
        match api.replace(&object.name_any(), &params, object).await {
            Err(error) if is_there(&error) => Ok(None),
            replaced => replaced.map(Some),
        }
    })
    .await?;
    replaced.ok_or_else(|| {
        anyhow!(
            "{} was changed since it was read, so it was not updated; run the command again",
            subject(object)
        )
    })
}

/// Applies a merge patch to an object, with its UID as precondition.
///
/// # Errors
/// The request to the API server fails.
pub(crate) async fn merge<K: Kind>(api: &Api<K>, object: &K, mut change: Value) -> anyhow::Result<()> {
    change["metadata"]["uid"] = json!(object.uid());
    let (name, params) = (object.name_any(), PatchParams::default());
    let what = || format!("change {}", subject(object));
    answer(what, api.patch(&name, &params, &Patch::Merge(&change))).await?;
    Ok(())
}

/// Applies a merge patch to an object of this name. Returns false if the object does not have the UID and version in the patch. `what`
/// is the change, for errors.
///
/// # Errors
/// The request to the API server fails.
pub(crate) async fn merge_if_same<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    change: &Value,
) -> anyhow::Result<bool>
where
    K: Clone + Debug + DeserializeOwned,
{
    let params = PatchParams::default();
    let changed = answer(|| what.to_owned(), async {
        match api.patch(name, &params, &Patch::Merge(change)).await {
            Err(error) if is_there(&error) => Ok(false),
            changed => changed.map(|_| true),
        }
    });
    changed.await
}

/// Returns an object as it would be after a server-side apply with this field manager, which wins conflicts. Nothing is written.
///
/// # Errors
/// The request to the API server fails.
pub(crate) async fn apply_dry(
    api: &Api<DynamicObject>,
    object: &Value,
    manager: &str,
) -> anyhow::Result<DynamicObject> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::apply(manager).force()
    };
    let kind = object["kind"].as_str().unwrap_or_default();
    let what = || format!("check a change of {kind} {name}");
    answer(what, api.patch(name, &params, &Patch::Apply(object))).await
}

fn is_there(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Deletes an object of any kind, with its UID as precondition. A missing object counts as deleted.
///
/// # Errors
/// The request to the API server fails.
pub(crate) async fn delete_dynamic(api: &Api<DynamicObject>, object: &DynamicObject) -> anyhow::Result<()> {
    let kind = object
        .types
        .as_ref()
        .map_or("object", |types| types.kind.as_str());
    delete_named(false, api, object, &format!("{kind} {}", object.name_any())).await
}

/// Deletes an object, with its UID as precondition. A missing object counts as deleted; a new object of the same name is kept.
///
/// # Errors
/// The request to the API server fails.
pub(crate) async fn delete<K: Kind>(api: &Api<K>, object: &K) -> anyhow::Result<()> {
    delete_named(false, api, object, &subject(object)).await
}

/// Deletes an object that did not become ready, as upstream's plugin does, within a time limit. Returns the error to report: the
/// cause, what became of the object, and the remedy. `remove` is the command that deletes it.
pub(crate) async fn clean_up<K: Kind>(
    api: &Api<K>,
    object: &K,
    limit: Duration,
    [cause, remedy, remove]: [&str; 3],
) -> anyhow::Error {
    let subject = subject(object);
    match tokio::time::timeout(limit, delete(api, object)).await {
        Ok(Ok(())) => anyhow!("{cause}; {subject} was deleted again; {remedy}"),
        Ok(Err(error)) => anyhow!("{cause}; cannot delete {subject}, delete it with `{remove}`: {error:#}"),
        Err(_) => anyhow!("{cause}; deleting {subject} timed out, delete it with `{remove}`"),
    }
}

/// Does the same as [`delete`] for an object with this name for users, also as a dry run.
///
/// # Errors
/// The request to the API server fails.
pub(crate) async fn delete_named<K>(
    dry_run: bool,
    api: &Api<K>,
    object: &K,
    subject: &str,
) -> anyhow::Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let mut params = DeleteParams::background().preconditions(Preconditions {
        uid: object.uid(),
        resource_version: None,
    });
    params.dry_run = dry_run;
    let what = || format!("delete {subject}");
    let is_other = answer(what, async {
        match api.delete(&object.name_any(), &params).await {
            Ok(_) => Ok(false),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) if is_there(&error) => Ok(true),
            Err(error) => Err(error),
        }
    })
    .await?;
    if is_other {
        bail!("{subject} was recreated since it was shown, so it was not deleted; review it again");
    }
    Ok(())
}

/// Returns kind, name and namespace as text.
pub(crate) fn subject<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let (kind, name) = (K::kind(&()), object.name_any());
    match object.namespace() {
        Some(namespace) => format!("{kind} {name} in namespace {namespace}"),
        None => format!("{kind} {name}"),
    }
}
