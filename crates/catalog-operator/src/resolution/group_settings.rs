//! What the OperatorGroup of a namespace says about resolution (`docs/reference/resolution.md`).

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use olm_api::labels;
use olm_api::v1::OperatorGroup;
use olm_resolver::cluster_fit::GroupTargets;
use olm_resolver::explain::{EVENT_LIMIT, cut};

use crate::annotation::read_duration;

/// Upstream's Jobs have no shorter deadline than a second.
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);
/// Upstream retries failed unpacks every five seconds, whatever the annotation requests.
const LEAST_RETRY: Duration = Duration::from_secs(5);

/// Settings of the one OperatorGroup of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupSettings {
    /// Upgrades out of failure are allowed.
    pub fail_forward: bool,
    /// Global catalogs are not to be used.
    pub exclude_global: bool,
    /// `Manual` Subscriptions make only their own plans wait.
    pub separate_approval: bool,
    /// Deadline of an unpack; zero means none.
    pub unpack_deadline: Option<Duration>,
    /// Least time to another try of a failed unpack.
    pub unpack_retry: Option<Duration>,
    /// The namespaces that the group selects, once olm-operator has reported them.
    pub targets: Option<GroupTargets>,
}

/// Reads the settings.
///
/// # Errors
/// There is not exactly one OperatorGroup, or an annotation is no duration; the text is for the Subscriptions' condition.
pub fn read(namespace: &str, groups: &[Arc<OperatorGroup>]) -> Result<GroupSettings, String> {
    let group = match groups {
        [group] => group,
        [] => {
            return Err(format!(
                "found 0 operatorGroups, expected 1: create an OperatorGroup in namespace {namespace}"
            ));
        }
        several => {
            let names: Vec<String> = several.iter().map(|group| group.name_any()).collect();
            let text = format!(
                "found {} operatorGroups, expected 1: keep one of {} in namespace {namespace}",
                several.len(),
                names.join(", ")
            );
            // A namespace may have thousands, and each of its Subscriptions repeats this message.
            return Err(cut(&text, EVENT_LIMIT));
        }
    };
    let annotations = group.annotations();
    Ok(GroupSettings {
        fail_forward: group.spec.allows_fail_forward(),
        exclude_global: labels::is_true(annotations, labels::EXCLUDE_GLOBAL_NAMESPACE_RESOLUTION),
        separate_approval: labels::is_true(annotations, labels::SEPARATE_APPROVAL),
        unpack_deadline: read_duration(
            annotations,
            (labels::BUNDLE_UNPACK_TIMEOUT, "timeout"),
            LEAST_TIMEOUT,
        )?,
        unpack_retry: read_duration(
            annotations,
            (labels::BUNDLE_UNPACK_MIN_RETRY_INTERVAL, "retry"),
            LEAST_RETRY,
        )?,
        targets: group.status.as_ref().and_then(|status| {
            (!status.namespaces.is_empty()).then(|| GroupTargets {
                group: group.name_any(),
                namespaces: status.namespaces.to_vec(),
            })
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, annotations: &[(&str, &str)]) -> Arc<OperatorGroup> {
        let mut group = OperatorGroup::new(name, olm_api::v1::OperatorGroupSpec::default());
        let annotations = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        group.metadata.annotations = Some(annotations.collect());
        Arc::new(group)
    }

    #[test]
    fn none_or_several_groups_are_reported_with_their_number_and_a_way_out() {
        insta::assert_snapshot!(read("ns", &[]).unwrap_err(), @"found 0 operatorGroups, expected 1: create an OperatorGroup in namespace ns");
        let two = [group("a", &[]), group("b", &[])];
        insta::assert_snapshot!(read("ns", &two).unwrap_err(), @"found 2 operatorGroups, expected 1: keep one of a, b in namespace ns");
    }

    #[test]
    fn annotations_are_read_and_errors_name_key_and_value() {
        let timeout = labels::BUNDLE_UNPACK_TIMEOUT;
        let retry = labels::BUNDLE_UNPACK_MIN_RETRY_INTERVAL;
        let settings = read("ns", &[group("a", &[(timeout, "2m"), (retry, "1s")])]).unwrap();
        assert_eq!(settings.unpack_deadline, Some(Duration::from_secs(120)));
        assert_eq!(settings.unpack_retry, Some(Duration::from_secs(5)), "the least");
        let settings = read("ns", &[group("a", &[(timeout, "-1m")])]).unwrap();
        assert_eq!(settings.unpack_deadline, None);
        let error = read("ns", &[group("a", &[(timeout, "soon")])]).unwrap_err();
        insta::assert_snapshot!(error, @r#"failed to parse unpack timeout annotation(operatorframework.io/bundle-unpack-timeout: soon): time: invalid duration "soon""#);
        let error = read("ns", &[group("a", &[(retry, "3x")])]).unwrap_err();
        insta::assert_snapshot!(error, @r#"failed to parse unpack retry annotation(operatorframework.io/bundle-unpack-min-retry-interval: 3x): time: unknown unit "x" in duration "3x""#);
    }

    #[test]
    fn global_catalogs_are_excluded_by_the_exact_value_only() {
        let key = labels::EXCLUDE_GLOBAL_NAMESPACE_RESOLUTION;
        assert!(
            read("ns", &[group("a", &[(key, "true")])])
                .unwrap()
                .exclude_global
        );
        assert!(
            !read("ns", &[group("a", &[(key, "True")])])
                .unwrap()
                .exclude_global
        );
    }
}
