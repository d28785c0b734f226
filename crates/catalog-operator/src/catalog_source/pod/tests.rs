use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::super::source::{Source, parse_source};
use super::*;

fn source(spec: &Value) -> CatalogSource {
    let value = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "img.catalog", "namespace": "ns", "uid": "u1"}, "spec": spec,
    });
    serde_json::from_value(value).unwrap()
}

fn settings() -> PodSettings {
    PodSettings {
        opm_image: "opm:1".to_owned(),
        util_image: "util:1".to_owned(),
        user_id: None,
        namespace_restricted: false,
    }
}

fn build(source: &CatalogSource, settings: &PodSettings) -> Pod {
    let Source::Image { image, config, .. } = parse_source(source) else {
        unreachable!("an image source")
    };
    build_pod(source, &image, &config, settings)
}

fn spec_of(spec: &Value) -> PodSpec {
    build(&source(spec), &settings()).spec.unwrap()
}

/// The golden pod, without defaults of the API server; probes and kubectl's annotation differ deliberately.
#[test]
fn pod_of_a_restricted_source_is_upstreams() {
    let golden = json!({"sourceType": "grpc", "image": "192.168.77.1:5000/cat1:4", "grpcPodConfig": {"securityContextConfig": "restricted"}});
    let mut pod = build(
        &source(&golden),
        &PodSettings {
            user_id: Some(1001),
            ..settings()
        },
    );
    let hash = pod
        .metadata
        .labels
        .as_mut()
        .unwrap()
        .insert(labels::POD_SPEC_HASH.to_owned(), "hash".to_owned());
    assert!(hash.is_some_and(|hash| hash.len() > 30));
    insta::assert_yaml_snapshot!(pod, @r#"
    apiVersion: v1
    kind: Pod
    metadata:
      annotations:
        cluster-autoscaler.kubernetes.io/safe-to-evict: "true"
      generateName: img.catalog-
      labels:
        olm.catalogSource: img.catalog
        olm.managed: "true"
        olm.pod-spec-hash: hash
      namespace: ns
      ownerReferences:
        - apiVersion: operators.coreos.com/v1alpha1
          blockOwnerDeletion: false
          controller: true
          kind: CatalogSource
          name: img.catalog
          uid: u1
    spec:
      automountServiceAccountToken: false
      containers:
        - image: "192.168.77.1:5000/cat1:4"
          imagePullPolicy: Always
          livenessProbe:
            failureThreshold: 3
            grpc:
              port: 50051
            periodSeconds: 10
            timeoutSeconds: 5
          name: registry-server
          ports:
            - containerPort: 50051
              name: grpc
          readinessProbe:
            failureThreshold: 3
            grpc:
              port: 50051
            periodSeconds: 1
            timeoutSeconds: 5
          resources:
            requests:
              cpu: 10m
              memory: 50Mi
          securityContext:
            allowPrivilegeEscalation: false
            capabilities:
              drop:
                - ALL
            readOnlyRootFilesystem: false
          startupProbe:
            failureThreshold: 150
            grpc:
              port: 50051
            periodSeconds: 1
            timeoutSeconds: 5
          terminationMessagePolicy: FallbackToLogsOnError
      nodeSelector:
        kubernetes.io/os: linux
      securityContext:
        runAsNonRoot: true
        runAsUser: 1001
        seccompProfile:
          type: RuntimeDefault
      serviceAccountName: img.catalog
    "#);
}

#[test]
fn a_digest_is_pulled_once_and_a_tag_each_time() {
    let policy = |image: &str| {
        spec_of(&json!({"sourceType": "grpc", "image": image})).containers[0]
            .image_pull_policy
            .clone()
            .unwrap()
    };
    assert_eq!(policy("quay.io/a/b@sha256:00"), "IfNotPresent");
    assert_eq!(policy("quay.io/a/b:v1"), "Always");
    // The opm image serves the extracted content.
    let extract = json!({"sourceType": "grpc", "image": "quay.io/a/b@sha256:00", "grpcPodConfig": {"extractContent": {"catalogDir": "/configs"}}});
    assert_eq!(
        spec_of(&extract).containers[0].image_pull_policy.as_deref(),
        Some("Always")
    );
}

/// The explicit setting precedes the namespace's level; only the restricted mode adds anything.
#[test]
fn cat_011_cat_012_security_follows_the_setting_then_the_namespace() {
    let restricted = |config: Value, namespace_restricted: bool| {
        let source = source(&json!({"sourceType": "grpc", "image": "i", "grpcPodConfig": config}));
        let spec = build(
            &source,
            &PodSettings {
                namespace_restricted,
                ..settings()
            },
        )
        .spec
        .unwrap();
        let drops = spec.containers[0]
            .security_context
            .as_ref()
            .is_some_and(|context| context.capabilities.is_some());
        assert_eq!(spec.security_context.is_some(), drops);
        drops
    };
    for (config, namespace, expected) in [
        (json!({}), false, false),
        (json!({}), true, true),
        (json!({"securityContextConfig": "legacy"}), true, false),
        (json!({"securityContextConfig": "restricted"}), false, true),
    ] {
        assert_eq!(
            restricted(config.clone(), namespace),
            expected,
            "{config} {namespace}"
        );
    }
}

#[test]
fn cat_013_cat_015_cat_016_overrides_appear_literally_and_the_rest_stays() {
    let spec = spec_of(&json!({"sourceType": "grpc", "image": "i", "grpcPodConfig": {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "",
        "memoryTarget": "5Mi",
    }}));
    assert_eq!(
        spec.node_selector.unwrap(),
        BTreeMap::from([("zone".to_owned(), "a".to_owned())])
    );
    assert_eq!(spec.tolerations.unwrap()[0].key.as_deref(), Some("k"));
    assert!(spec.affinity.unwrap().node_affinity.is_some());
    assert_eq!(spec.priority_class_name.as_deref(), Some(""));
    let server = &spec.containers[0];
    assert_eq!(server.env.as_ref().unwrap()[0].value.as_deref(), Some("5MiB"));
    let requests = server.resources.as_ref().unwrap().requests.as_ref().unwrap();
    assert_eq!(
        (requests["cpu"].0.as_str(), requests["memory"].0.as_str()),
        ("10m", "5Mi")
    );
}

#[test]
fn cat_014_a_priority_class_annotation_wins_unless_it_is_empty() {
    let class = |annotation: &str| {
        let mut source = source(
            &json!({"sourceType": "grpc", "image": "i", "grpcPodConfig": {"priorityClassName": "spec"}}),
        );
        source.metadata.annotations = Some(BTreeMap::from([(
            labels::PRIORITY_CLASS.to_owned(),
            annotation.to_owned(),
        )]));
        build(&source, &settings()).spec.unwrap().priority_class_name
    };
    assert_eq!(class("annotated").as_deref(), Some("annotated"));
    assert_eq!(class("").as_deref(), Some("spec"));
}

#[test]
fn annotations_are_copied_but_not_kubectls_own_and_ours() {
    let mut source = source(&json!({"sourceType": "grpc", "image": "i"}));
    let annotations = BTreeMap::from([
        ("team".to_owned(), "a".to_owned()),
        (labels::LAST_APPLIED_CONFIGURATION.to_owned(), "{}".to_owned()),
        (labels::IMAGE_DIGEST.to_owned(), "sha256:00".to_owned()),
    ]);
    source.metadata.annotations = Some(annotations.clone());
    let copied = build(&source, &settings()).metadata.annotations.unwrap();
    assert_eq!(copied.keys().collect::<Vec<_>>(), [labels::SAFE_TO_EVICT, "team"]);
    assert_eq!(
        source.metadata.annotations,
        Some(annotations),
        "the source's own map is left alone"
    );
}

#[test]
fn extracted_content_with_and_without_a_cache() {
    let extract = |content: Value| {
        spec_of(
            &json!({"sourceType": "grpc", "image": "cat:1", "grpcPodConfig": {"extractContent": content}}),
        )
    };
    let summary = |spec: PodSpec| {
        let server = spec.containers[0].clone();
        let init = spec.init_containers.unwrap();
        let mounts: Vec<String> = server
            .volume_mounts
            .unwrap()
            .into_iter()
            .map(|mount| mount.mount_path)
            .collect();
        let volumes: Vec<String> = spec
            .volumes
            .unwrap()
            .into_iter()
            .map(|volume| volume.name)
            .collect();
        assert!(init.iter().chain([&spec.containers[0]]).all(|container| {
            container
                .security_context
                .as_ref()
                .unwrap()
                .read_only_root_filesystem
                == Some(true)
        }));
        let images: Vec<String> = init
            .iter()
            .map(|container| container.image.clone().unwrap())
            .collect();
        format!(
            "{} {:?} {:?}\nfrom {images:?}: {:?} {:?}\n{mounts:?} {volumes:?}",
            server.image.unwrap(),
            server.command.unwrap(),
            server.args.unwrap(),
            init[0].command,
            init[1].args.clone().unwrap(),
        )
    };
    insta::assert_snapshot!(summary(extract(json!({"catalogDir": "/configs", "cacheDir": "/tmp/cache"}))), @r#"
    opm:1 ["/bin/opm"] ["serve", "/extracted-catalog/catalog", "--cache-dir=/extracted-catalog/cache"]
    from ["util:1", "cat:1"]: Some(["cp"]) ["--catalog.from=/configs", "--catalog.to=/extracted-catalog/catalog", "--cache.from=/tmp/cache", "--cache.to=/extracted-catalog/cache"]
    ["/extracted-catalog"] ["utilities", "catalog-content"]
    "#);
    insta::assert_snapshot!(summary(extract(json!({"catalogDir": "/configs"}))), @r#"
    opm:1 ["/bin/opm"] ["serve", "/extracted-catalog/catalog"]
    from ["util:1", "cat:1"]: Some(["cp"]) ["--catalog.from=/configs", "--catalog.to=/extracted-catalog/catalog"]
    ["/extracted-catalog", "/tmp/"] ["utilities", "catalog-content", "tmpdir"]
    "#);
}

#[test]
fn whatever_must_replace_the_pod_changes_its_hash() {
    let hash = |source: &CatalogSource, settings: &PodSettings| {
        build(source, settings).metadata.labels.unwrap()[labels::POD_SPEC_HASH].clone()
    };
    let base = source(&json!({"sourceType": "grpc", "image": "i"}));
    let first = hash(&base, &settings());
    assert_eq!(first, hash(&base, &settings()));
    let mut seen = std::collections::BTreeSet::from([first]);
    for spec in [
        json!({"sourceType": "grpc", "image": "j"}),
        json!({"sourceType": "grpc", "image": "i", "secrets": ["s"]}),
        json!({"sourceType": "grpc", "image": "i", "grpcPodConfig": {"nodeSelector": {"a": "b"}}}),
        json!({"sourceType": "grpc", "image": "i", "grpcPodConfig": {"extractContent": {"catalogDir": "/c"}}}),
    ] {
        assert!(seen.insert(hash(&source(&spec), &settings())), "{spec}");
    }
    assert!(seen.insert(hash(
        &base,
        &PodSettings {
            namespace_restricted: true,
            ..settings()
        }
    )));
    let mut annotated = base.clone();
    annotated.metadata.annotations = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
    assert!(
        !seen.insert(hash(&annotated, &settings())),
        "an annotation is no reason to restart the catalog"
    );
}

#[test]
fn quantities_take_the_form_the_go_runtime_reads() {
    for (text, binary) in [
        ("5Mi", "5Mi"),
        ("1Gi", "1Gi"),
        ("1024Ki", "1Mi"),
        ("100M", "100000000"),
        ("0", "0"),
        ("1.5Gi", "1536Mi"),
        ("1048576", "1Mi"),
        ("10k", "10000"),
        ("odd", "odd"),
    ] {
        assert_eq!(binary_quantity(text), binary, "{text}");
    }
}
