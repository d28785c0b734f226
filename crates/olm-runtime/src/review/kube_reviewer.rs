//! Reviewer that uses the API server.

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use super::{Attributes, Decision, ReviewError, Reviewer, User};

/// Sends reviews, which the API server answers and does not store.
pub struct KubeReviewer {
    tokens: Api<TokenReview>,
    accesses: Api<SubjectAccessReview>,
}

impl KubeReviewer {
    /// Creates a reviewer that uses the API server behind `client`.
    pub fn new(client: &Client) -> Self {
        Self {
            tokens: Api::all(client.clone()),
            accesses: Api::all(client.clone()),
        }
    }
}

#[async_trait]
impl Reviewer for KubeReviewer {
    async fn identify(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        #[expect(clippy::disallowed_methods, reason = "a question, of which nothing is stored")]
        let answer = self.tokens.create(&PostParams::default(), &review).await;
        let status = answer
            .map_err(|error| unanswered(&error))?
            .status
            .unwrap_or_default();
        if status.authenticated != Some(true) {
            return Ok(None);
        }
        let user = status.user.unwrap_or_default();
        Ok(Some(User {
            name: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }))
    }

    async fn decide(&self, user: &User, attributes: &Attributes) -> Result<Decision, ReviewError> {
        let review = SubjectAccessReview {
            spec: spec(user, attributes),
            ..SubjectAccessReview::default()
        };
        #[expect(clippy::disallowed_methods, reason = "a question, of which nothing is stored")]
        let answer = self.accesses.create(&PostParams::default(), &review).await;
        let status = answer
            .map_err(|error| unanswered(&error))?
            .status
            .unwrap_or_default();
        Ok(Decision {
            is_allowed: status.allowed && status.denied != Some(true),
            reason: status.reason.unwrap_or_default(),
        })
    }
}

fn unanswered(error: &kube::Error) -> ReviewError {
    ReviewError(error.to_string())
}

fn spec(user: &User, attributes: &Attributes) -> SubjectAccessReviewSpec {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let extra: BTreeMap<_, _> = user.extra.clone();
    let mut spec = SubjectAccessReviewSpec {
        user: given(&user.name),
        uid: given(&user.uid),
        groups: Some(user.groups.clone()),
        extra: (!extra.is_empty()).then_some(extra),
        ..SubjectAccessReviewSpec::default()
    };
    match attributes {
        Attributes::Resource {
            verb,
            group,
            version,
            namespace,
            resource,
            subresource,
            name,
        } => {
            spec.resource_attributes = Some(ResourceAttributes {
                verb: given(verb),
                group: given(group),
                version: given(version),
                resource: given(resource),
                subresource: given(subresource),
                namespace: given(namespace),
                name: given(name),
                ..ResourceAttributes::default()
            });
        }
        Attributes::Path { verb, path } => {
            spec.non_resource_attributes = Some(NonResourceAttributes {
                verb: given(verb),
                path: given(path),
            });
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_what_was_requested() {
        let user = User {
            name: "ada".to_owned(),
            groups: vec!["a".to_owned()],
            ..User::default()
        };
        let icon = Attributes::Resource {
            verb: "get".into(),
            group: "packages.operators.coreos.com".into(),
            version: "v1",
            namespace: "ns".to_owned(),
            resource: "packagemanifests".to_owned(),
            subresource: "icon".to_owned(),
            name: "demo".to_owned(),
        };
        let asked = serde_json::to_value(spec(&user, &icon)).unwrap();
        assert_eq!(
            asked,
            serde_json::json!({"user": "ada", "groups": ["a"], "resourceAttributes": {
                "verb": "get", "group": "packages.operators.coreos.com", "version": "v1", "namespace": "ns",
                "resource": "packagemanifests", "subresource": "icon", "name": "demo"}})
        );
        let path = Attributes::Path {
            verb: "get".to_owned(),
            path: "/metrics".to_owned(),
        };
        let asked = serde_json::to_value(spec(&user, &path)).unwrap();
        assert_eq!(
            asked["nonResourceAttributes"],
            serde_json::json!({"verb": "get", "path": "/metrics"})
        );
    }
}
