//! Images from a template with the version of the cluster.

use super::*;
use crate::catalog_source::image_template::{needs_version, resolve_template};

const TEMPLATE: &str = "quay.io/example-org/example-catalog:v{kube_major_version}.{kube_minor_version}";

fn templated(template: &str, image: Option<&str>) -> CatalogSource {
    let mut source = source(json!({"sourceType": "grpc", "image": image}));
    source.metadata.resource_version = Some("7".to_owned());
    source.metadata.annotations = Some([("olm.catalogImageTemplate".to_owned(), template.to_owned())].into());
    source
}

fn observed(source: CatalogSource, version: Option<&str>) -> Observed {
    let template = resolve_template(&source, version);
    let parsed = source::parse_with_image(&source, template.image(&source));
    Observed {
        template,
        parsed,
        ..fresh(source)
    }
}

fn conditions(status: &CatalogSourceStatus) -> Vec<String> {
    let conditions = status.conditions.iter();
    let lines = conditions.map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message));
    lines.collect()
}

fn patches(observed: &Observed) -> Vec<Action> {
    let mut actions = decide::decide(observed, now()).0.actions;
    actions.retain(|action| matches!(action, Action::Patch { .. }));
    actions
}

#[test]
fn tpl_002_tpl_003_tpl_004_a_template_has_the_version_of_kubernetes_filled_in() {
    let resolved = |image: &str| ImageTemplate::Resolved(image.to_owned());
    for (template, version, expected) in [
        (TEMPLATE, "v1.25.3", "quay.io/example-org/example-catalog:v1.25"),
        ("foo/v{kube_major_version}", "v1.20.1+bd9e442", "foo/v1"),
        ("foo:{kube_patch_version}", "v1.20.1+bd9e442", "foo:1"),
        (
            "foo:{kube_minor_version}-{kube_minor_version}",
            "v1.33.0-gke.100+build",
            "foo:33-33",
        ),
        ("foo:fixed", "v1.20.1", "foo:fixed"),
    ] {
        let source = templated(template, None);
        assert_eq!(resolve_template(&source, Some(version)), resolved(expected));
    }
    // No other variables are known, not even that of OpenShift.
    for template in ["foo:{ocp_major_version}", "foo:{foobar}", "Foo//x"] {
        let ImageTemplate::Unresolved { text, message, .. } =
            resolve_template(&templated(template, None), Some("v1.20.1"))
        else {
            panic!("{template} is an image");
        };
        assert_eq!(text, template);
        assert_eq!(
            message,
            "cannot construct catalog image reference, because one or more template(s) has improper syntax"
        );
    }
}

#[test]
fn tpl_002_without_a_version_its_numbers_are_missing() {
    for (template, text, why) in [
        (
            "foo/v{kube_patch_version}.{kube_major_version}",
            "foo/vmissing.missing",
            "variable(s) \"{kube_major_version}\", \"{kube_patch_version}\" could not be resolved",
        ),
        (
            "foo:{kube_minor_version}{x}",
            "foo:missing{x}",
            "variable(s) \"{kube_minor_version}\" could not be resolved and one or more template(s) has improper syntax",
        ),
    ] {
        for version in [None, Some("no version")] {
            let expected = ImageTemplate::Unresolved {
                text: text.to_owned(),
                message: format!("cannot construct catalog image reference, because {why}"),
                version_unknown: true,
            };
            assert_eq!(resolve_template(&templated(template, None), version), expected);
        }
    }
}

#[test]
fn cat_006_tpl_001_tpl_005_what_a_template_says_becomes_the_image() {
    for image in [None, Some("quay.io/x/other:1")] {
        let observed = observed(templated(TEMPLATE, image), Some("v1.25.3"));
        let plan = plan_text(&observed);
        // The patch is first, and the created pod already has the new image.
        let patch =
            r#"patch CatalogSource ns/cat.a {"spec":{"image":"quay.io/example-org/example-catalog:v1.25"}}"#;
        assert!(plan.starts_with(patch), "{plan}");
        // Concurrent changes of its author are not overwritten.
        let Some(Action::Patch { guard, .. }) = patches(&observed).pop() else {
            panic!("{plan}");
        };
        let guarded = (guard.uid.as_deref(), guard.resource_version.as_deref());
        assert_eq!(guarded, (Some("u1"), Some("7")));
        let source::Source::Image { image, .. } = &observed.parsed else {
            panic!("{:?}", observed.parsed);
        };
        assert_eq!(image, "quay.io/example-org/example-catalog:v1.25");
        let status = status_of(&observed);
        assert_eq!(status.reason, None);
        assert_eq!(
            conditions(&status),
            [
                "TemplatesHaveResolved=True AllTemplatesResolved: catalog image reference was successfully resolved",
                "ResolvedImage=True AllTemplatesResolved: quay.io/example-org/example-catalog:v1.25",
            ]
        );
    }
    let resolved = templated(TEMPLATE, Some("quay.io/example-org/example-catalog:v1.25"));
    assert_eq!(patches(&observed(resolved, Some("v1.25.3"))), []);
}

#[test]
fn tpl_006_a_template_that_does_not_resolve_leaves_the_image_of_the_spec() {
    let observed = observed(templated("foo:{foobar}", Some(IMAGE)), Some("v1.25.3"));
    assert_eq!(patches(&observed), []);
    assert!(plan_text(&observed).contains("create Pod"));
    let status = status_of(&observed);
    assert_eq!(status.reason, None);
    assert_eq!(
        conditions(&status),
        [
            "TemplatesHaveResolved=False UnableToResolve: cannot construct catalog image reference, because one or more template(s) has improper syntax",
            "ResolvedImage=False UnableToResolve: foo:{foobar}",
        ]
    );
}

#[test]
fn tpl_007_without_an_image_a_template_that_does_not_resolve_is_an_error() {
    let observed = observed(templated("foo:{foobar}", None), Some("v1.25.3"));
    assert_eq!(decide::decide(&observed, now()).0.actions, []);
    let status = status_of(&observed);
    assert_eq!(status.reason.as_deref(), Some("SpecInvalidError"));
    assert_eq!(
        status.message.as_deref(),
        Some("image and address unset: at least one must be set for sourcetype: grpc")
    );
    assert_eq!(conditions(&status).len(), 2);
}

/// The API server would refuse a condition with a longer text, and with it the whole status.
#[test]
fn the_text_of_a_template_in_a_condition_is_bounded() {
    let long = format!("{}{{x}}", "a".repeat(100_000));
    let status = status_of(&observed(templated(&long, Some(IMAGE)), Some("v1.25.3")));
    assert_eq!(status.conditions[1].message.len(), 1024);
}

#[test]
fn the_conditions_go_with_the_template() {
    let mut source = templated("foo:{foobar}", Some(IMAGE));
    source.status = Some(status_of(&observed(source.clone(), None)));
    source.metadata.annotations = Some([("olm.catalogImageTemplate".to_owned(), String::new())].into());
    assert!(!needs_version(&source), "an empty one is none");
    assert_eq!(conditions(&status_of(&observed(source, None))), [""; 0]);
}

/// No watch reports an upgrade of the cluster.
#[test]
fn tpl_008_the_version_of_the_cluster_is_looked_at_again() {
    let requeue = |template: &str, version| {
        let mut observed = converged(templated(template, Some(IMAGE)));
        observed.template = resolve_template(&observed.source, version);
        match decide::decide(&observed, now()).0.requeue {
            Requeue::After { delay, .. } => Some(delay.as_secs()),
            Requeue::AwaitChange => None,
        }
    };
    assert_eq!(requeue(TEMPLATE, Some("v1.25.3")), Some(300));
    assert_eq!(requeue(TEMPLATE, None), Some(60));
    assert_eq!(requeue("", None), None);
}

/// If the cluster is upgraded before the image is pushed, the old catalog is kept, and this is reported.
#[test]
fn tpl_009_an_image_that_is_not_there_when_the_cluster_is_upgraded_is_reported_and_the_old_one_serves() {
    let before = converge(observed(templated(TEMPLATE, None), Some("v1.25.3")));
    let mut after = converge(observed(templated(TEMPLATE, None), Some("v1.26.0")));
    let new = named(Pod::clone(&after.pods[0]), "cat-2");
    let image = "quay.io/example-org/example-catalog:v1.26";
    let made = |pods: Vec<Arc<Pod>>, observed: &mut Observed| {
        observed.pods = pods;
        let actions = decide::decide(observed, now()).0.actions.into_iter();
        let briefs = actions.map(|action| action.brief());
        briefs.filter(|brief| brief.contains(" Pod ")).collect::<Vec<_>>()
    };
    let old = Arc::clone(&before.pods[0]);
    assert_eq!(made(vec![Arc::clone(&old)], &mut after), ["create Pod ns/cat.a-"]);
    let missing = Arc::new(with_status(
        new.clone(),
        json!({"phase": "Pending", "containerStatuses": [{
            "name": "registry-server", "image": image, "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}}}]}),
    ));
    assert_eq!(made(vec![Arc::clone(&old), missing], &mut after), [""; 0]);
    let message = status_of(&after).message.unwrap_or_default();
    assert!(
        message.contains(image) && message.contains("manifest unknown"),
        "{message}"
    );
    let arrived = Arc::new(ready(new));
    assert_eq!(made(vec![old, arrived], &mut after), ["delete Pod ns/cat-1"]);
}
