use clap::Parser as _;
use serde_json::json;

use super::super::tests::{cluster, condition, object};
use super::*;
use crate::args::olmv1::{Olmv1Command, SearchCommand};
use crate::args::{Args, Command};

/// Lines of a catalog with the packages `etcd` and `web`, and a channel of a package that the catalog does not have.
const CONTENT: &str = r#"
{"schema":"olm.package","name":"web","defaultChannel":"main"}
{"schema":"olm.channel","package":"web","name":"main","entries":[{"name":"web.v1"}]}
{"schema":"olm.package","name":"etcd","defaultChannel":"stable"}
{"schema":"olm.channel","package":"etcd","name":"stable","entries":[]}
{"schema":"olm.channel","package":"etcd","name":"beta","entries":[]}
{"schema":"olm.bundle","package":"etcd","name":"etcd.v1.2.0","properties":[{"type":"olm.package","value":{"packageName":"etcd","version":"1.2.0"}},{"type":"olm.csv.metadata","value":{"provider":{"name":"Shop"}}}]}
{"schema":"olm.bundle","package":"etcd","name":"etcd.v1.10.0","properties":[{"type":"olm.package","value":{"packageName":"etcd","version":"1.10.0"}}]}
{"schema":"olm.bundle","package":"etcd","name":"etcd.odd","properties":[{"type":"olm.package","value":{"version":"one"}}]}
{"schema":"olm.deprecations","package":"etcd","entries":[]}
{"schema":"olm.channel","package":"ghost","name":"main"}
"#;

fn args(more: &[&str]) -> SearchArgs {
    let words = ["kubectl-operator", "olmv1", "search", "catalog"];
    match Args::try_parse_from(words.iter().chain(more)).unwrap().command {
        Command::Olmv1(Olmv1Command::Search(SearchCommand::Catalog(args))) => args,
        other => panic!("{other:?}"),
    }
}

async fn read(content: &str, package: Option<&str>) -> anyhow::Result<(Packages, usize)> {
    let (mut packages, mut count) = (Packages::default(), 0);
    let mut take = |document: Value| {
        packages.add(&document);
        count += 1;
        Ok(())
    };
    documents(content.as_bytes(), package, &mut take).await?;
    Ok((packages, count))
}

#[tokio::test]
async fn packages_are_listed_with_channels_or_versions() {
    let (packages, count) = read(CONTENT, None).await.unwrap();
    assert_eq!(count, 10);
    let (only, count) = read(CONTENT, Some("etcd")).await.unwrap();
    assert_eq!(count, 7);
    let found = [("a".to_owned(), packages), ("b".to_owned(), only)];
    insta::assert_snapshot!(table(&found, false), @r"
    PACKAGE   CATALOG   PROVIDER   CHANNELS
    etcd      a         Shop       beta,stable
    web       a         <none>     main
    etcd      b         Shop       beta,stable
    ");
    insta::assert_snapshot!(table(&found, true), @r"
    PACKAGE   CATALOG   PROVIDER   VERSION
    etcd      a         Shop       1.10.0
    etcd      a         Shop       1.2.0
    etcd      b         Shop       1.10.0
    etcd      b         Shop       1.2.0
    ");
    let (none, count) = read(CONTENT, Some("gone")).await.unwrap();
    assert!(count == 0 && !none.has_packages());
    let (ghost, _) = read(CONTENT, Some("ghost")).await.unwrap();
    assert!(!ghost.has_packages());
}

#[tokio::test]
async fn a_content_that_is_cut_off_is_an_error() {
    let error = read("{}\n{\"schema\":", None).await.unwrap_err();
    assert_eq!(error.to_string(), "it has a line that is not a JSON document");
}

#[test]
fn the_address_of_a_catalog_is_one_of_a_service() {
    let path = |service: &str| format!("/api/v1/namespaces/{service}/proxy/catalogs/demo/api/v1");
    for (base, namespace, expected) in [
        (
            "https://catalogd-service.olm.svc/catalogs/demo",
            None,
            Some("olm/services/https:catalogd-service:443"),
        ),
        (
            "https://catalogd-service.olm.svc.cluster.local:8443/catalogs/demo/",
            None,
            Some("olm/services/https:catalogd-service:8443"),
        ),
        (
            "http://catalogd-service/catalogs/demo",
            Some("other"),
            Some("other/services/http:catalogd-service:80"),
        ),
        ("https://catalogd-service/catalogs/demo", None, None),
        ("ftp://a.b/catalogs/demo", None, None),
        ("https://a.b/catalogs/../../secrets", None, None),
        ("https://a.b/catalogs/demo", Some("../secrets"), None),
        ("", None, None),
        ("not an address", None, None),
    ] {
        assert_eq!(service_path(base, namespace), expected.map(path), "{base}");
    }
}

#[test]
fn one_package_is_asked_for_by_its_name() {
    assert_eq!(query("/a", &[("package", "etcd")]), "/a/metas?package=etcd");
    assert_eq!(
        query("/a", &[("schema", PACKAGE), ("name", "a&b=c")]),
        "/a/metas?schema=olm.package&name=a%26b%3Dc"
    );
}

#[tokio::test(start_paused = true)]
async fn catalogs_that_are_not_served_are_left_out() {
    let cluster = cluster();
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "default");
    let names = async |more: &[&str]| {
        let found = served(&here, &args(more)).await;
        found.map(|found| found.iter().map(|catalog| catalog.name_any()).collect::<Vec<_>>())
    };
    let error = names(&[]).await.unwrap_err().to_string();
    assert!(
        error.contains("create one with `kubectl operator olmv1 create catalog"),
        "{error}"
    );
    let spec = json!({"source": {"type": "Image", "image": {"ref": "quay.io/a/b:v1"}}});
    let retrying = condition("Progressing", "True", "Retrying", "no such host");
    cluster.put(object(
        "ClusterCatalog",
        "a",
        &spec,
        &json!({"conditions": [retrying]}),
    ));
    let error = names(&[]).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "no ClusterCatalog can be searched: not served: ClusterCatalog a: Retrying, no such host"
    );
    let status = json!({"conditions": [condition("Serving", "True", "Available", "")],
        "resolvedSource": {"type": "Image", "image": {"ref": "quay.io/a/b@sha256:00"}},
        "urls": {"base": "https://catalogd-service.olmv1-system.svc/catalogs/b"}});
    cluster.put(object("ClusterCatalog", "b", &spec, &status));
    assert_eq!(names(&[]).await.unwrap(), ["b"]);
    assert_eq!(names(&["--catalog", "b"]).await.unwrap(), ["b"]);
    names(&["--catalog", "a"]).await.unwrap_err();
    let error = names(&["-l", "team=shop"]).await.unwrap_err().to_string();
    assert!(error.contains("none has labels team=shop"), "{error}");
}
