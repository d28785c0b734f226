//! Catalogs in ConfigMaps.

use super::*;

/// Writes the keys of a ConfigMap as a node mounts them: links into a folder that is replaced as a whole.
fn mounted(root: &Path, texts: &[(&str, &str)]) {
    let hidden = root.join("..2026_11_22");
    std::fs::create_dir_all(&hidden).expect("folder");
    std::os::unix::fs::symlink("..2026_11_22", root.join("..data")).expect("link");
    for (key, content) in texts {
        std::fs::write(hidden.join(key), content).expect("file");
        std::os::unix::fs::symlink(Path::new("..data").join(key), root.join(key)).expect("link");
    }
}

const DEMO_CRDS: &str = "
- apiVersion: apiextensions.k8s.io/v1
  kind: CustomResourceDefinition
  metadata: {name: demos.example.com}
  spec:
    group: example.com
    names: {kind: Demo, plural: demos}
    versions: [{name: v1, served: true, storage: true}]
";

const DEMO_CSVS: &str = r#"
- apiVersion: operators.coreos.com/v1alpha1
  kind: ClusterServiceVersion
  metadata: {name: demo.v1.0.0}
  spec:
    version: 1.0.0
    customresourcedefinitions: {owned: [{name: demos.example.com, version: v1, kind: Demo}]}
- apiVersion: operators.coreos.com/v1alpha1
  kind: ClusterServiceVersion
  metadata: {name: demo.v1.1.0, annotations: {olm.skipRange: "<1.1.0"}}
  spec:
    version: 1.1.0
    replaces: demo.v1.0.0
    customresourcedefinitions: {owned: [{name: demos.example.com, version: v1, kind: Demo}]}
"#;

const DEMO_PACKAGES: &str = "
- packageName: demo
  channels: [{name: stable, currentCSV: demo.v1.1.0}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cat_009_the_catalog_of_a_mounted_config_map_is_served() {
    use tokio_stream::StreamExt as _;
    let dir = tempfile::tempdir().expect("folder");
    mounted(
        dir.path(),
        &[
            ("customResourceDefinitions", DEMO_CRDS),
            ("clusterServiceVersions", DEMO_CSVS),
            ("packages", DEMO_PACKAGES),
            ("other", "{{ nobody reads this"),
        ],
    );
    let serving = Serving::start_command(program(), "serve-configmap", &[text(dir.path())]);
    let client = serving.client();
    let package = client.get_package("demo").await.expect("answered");
    assert_eq!(package.default_channel_name, "stable");
    assert_eq!(package.channels[0].csv_name, "demo.v1.1.0");
    let listed: Vec<_> = client.list_bundles().await.expect("answered").collect().await;
    let listed: Vec<_> = listed.into_iter().map(|bundle| bundle.expect("bundle")).collect();
    let [first, second] = &listed[..] else {
        panic!("two bundles: {listed:?}")
    };
    assert_eq!(first.csv_name, "demo.v1.0.0");
    assert_eq!(second.replaces, "demo.v1.0.0");
    assert_eq!(second.skip_range, "<1.1.0");
    assert_eq!(second.bundle_path, "");
    assert_eq!(second.version, "1.1.0");
    assert_eq!(second.provided_apis[0].kind, "Demo");
    // The manifests are inline, because there is no image.
    assert!(second.csv_json.contains("demo.v1.1.0"));
    assert_eq!(second.object.len(), 2);
    assert_eq!(serving.stop(), 0);
}

#[test]
fn cat_009_a_config_map_that_is_no_catalog_is_reported_in_the_termination_log() {
    let dir = tempfile::tempdir().expect("folder");
    mounted(
        dir.path(),
        &[
            ("customResourceDefinitions", ""),
            ("clusterServiceVersions", DEMO_CSVS),
        ],
    );
    let log = dir.path().join("log");
    let serve = || opm(&["serve-configmap", text(dir.path()), "-t", text(&log)]).fails();
    assert!(serve().contains("couldn't find expected key packages in configmap"));
    std::fs::write(dir.path().join("packages"), DEMO_PACKAGES).expect("file");
    let error = serve();
    let cause = "couldn't find owned CRD in crd list: demo.v1.0.0 owns demos.example.com/v1 (Demo)";
    assert!(error.contains(cause), "{error}");
    let logged = std::fs::read_to_string(&log).expect("log");
    assert!(
        logged.trim().ends_with(cause) && logged.lines().count() == 1,
        "{logged}"
    );
    let error = opm(&["serve-configmap", "/nonexistent", "-t", text(&log)]).fails();
    assert!(error.contains("/nonexistent is not a directory"), "{error}");
}
