use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use http::Uri;
use olm_runtime::NamespacedName;
use olm_runtime::review::limits::TOKEN_BYTES;
use serde_json::{Value, json};

use super::*;
use crate::index::{Catalog, CatalogFacts};
use crate::package_manifest::{Icon, Package, PackageIcon};
use crate::test_env::{ByName, front_proxy};

const BASE: &str = "/apis/packages.operators.coreos.com/v1";

struct Lab {
    api: Api,
    reviewer: Arc<ByName>,
    known: watch::Sender<front_proxy::FrontProxyConfig>,
    readiness: Readiness,
    _index: watch::Sender<Arc<Index>>,
}

impl Lab {
    /// Returns an API with the packages `demo`, which has an icon, and `plain`, in the global catalog
    /// `olm/cat`.
    fn new() -> Self {
        Self::with_metrics(&Metrics::default())
    }

    fn with_metrics(metrics: &Metrics) -> Self {
        let package = |name: &str, icon| Package {
            name: name.into(),
            labels: BTreeMap::new(),
            icon,
            content: vec![Bytes::from(format!("\"packageName\":\"{name}\""))],
        };
        let icon = PackageIcon {
            tag: "demo.stable.demo.v1".to_owned(),
            icon: Icon {
                media_type: "image/png".to_owned(),
                data: Bytes::from_static(b"hello"),
            },
        };
        let packages = [package("demo", Some(icon)), package("plain", None)];
        let key = NamespacedName::new("olm", "cat");
        let catalog = Catalog {
            facts: CatalogFacts {
                key: key.clone(),
                ..CatalogFacts::default()
            },
            packages: Arc::new(
                packages
                    .map(|package| (package.name.clone(), Arc::new(package)))
                    .into(),
            ),
        };
        let index = Index {
            global_namespace: "olm".into(),
            catalogs: BTreeMap::from([(key, Arc::new(catalog))]),
        };
        let (sender, index) = watch::channel(Arc::new(index));
        let (known, receiver) = watch::channel(Some(Arc::new(front_proxy(""))));
        let reviewer = ByName::new();
        let readiness = Readiness::default();
        let reviews = Reviews::new(Arc::clone(&reviewer) as _);
        Self {
            api: Api::new(index, receiver, reviews, readiness.clone(), metrics),
            reviewer,
            known,
            readiness,
            _index: sender,
        }
    }

    async fn send(&self, peer: &Peer, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            sent.append(
                HeaderName::try_from(*name).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        let uri: Uri = path.parse().unwrap();
        let method: Method = method.parse().unwrap();
        let response = self.api.answer(peer, &method, &uri, &sent).await;
        let (head, body) = response.into_parts();
        Answer {
            code: head.status.as_u16(),
            headers: head.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    /// Sends a request of `ada`, as the API server names her.
    async fn get(&self, path: &str) -> Answer {
        self.send(&proxy(), "GET", path, &[("x-remote-user", "ada")])
            .await
    }

    async fn get_with(&self, path: &str, header: (&str, &str)) -> Answer {
        self.send(&proxy(), "GET", path, &[("x-remote-user", "ada"), header])
            .await
    }
}

struct Answer {
    code: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// Returns the API server as a peer.
fn proxy() -> Peer {
    Peer {
        common_name: Some("front-proxy".to_owned()),
    }
}

fn stranger() -> Peer {
    Peer::default()
}

/// Health and single packages are served while lists are assembled. Lists wait for a free slot.
#[tokio::test(start_paused = true)]
async fn lists_wait_for_each_other_and_nobody_else_for_them() {
    let env = Lab::new();
    let places = Arc::clone(&env.api.lists);
    let taken = places.acquire_many_owned(PARALLEL_LISTS as u32).await.unwrap();
    assert_eq!(env.get("/healthz").await.code, 200);
    let of_ns = "/apis/packages.operators.coreos.com/v1/namespaces/ns/packagemanifests";
    assert_eq!(env.get(&format!("{of_ns}/demo")).await.code, 200);
    let listed = tokio::time::timeout(ANSWER_TIME / 2, env.get(of_ns)).await;
    assert!(listed.is_err(), "it had no place");
    drop(taken);
    assert_eq!(env.get(of_ns).await.code, 200);
}

#[tokio::test]
async fn pkg_001_packages_are_listed_and_got() {
    let lab = Lab::new();
    let list = lab.get(&format!("{BASE}/namespaces/ns/packagemanifests")).await;
    assert_eq!(
        (list.code, list.header("content-type")),
        (200, "application/json")
    );
    let items = list.json()["items"].clone();
    let names: Vec<&Value> = items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["metadata"]["name"])
        .collect();
    assert_eq!(names, ["demo", "plain"]);
    assert_eq!(items[0]["metadata"]["namespace"], "ns");
    // As upstream, a list is sent whole.
    let all = lab.get(&format!("{BASE}/packagemanifests?limit=1")).await.json();
    assert_eq!(all["items"][0]["metadata"]["namespace"], "olm");
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    assert_eq!(all["metadata"], json!({}));
    let one = lab
        .get(&format!("{BASE}/namespaces/ns/packagemanifests/demo"))
        .await;
    assert_eq!(one.json()["status"]["packageName"], "demo");
    let missing = lab
        .get(&format!("{BASE}/namespaces/ns/packagemanifests/absent"))
        .await;
    assert_eq!(missing.code, 404);
    assert_eq!(missing.json()["details"]["name"], "absent");
}

#[tokio::test]
async fn answers_have_the_form_that_is_asked_for() {
    let lab = Lab::new();
    let path = format!("{BASE}/packagemanifests");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    assert_eq!(
        lab.get_with(&path, ("accept", table)).await.json()["kind"],
        "Table"
    );
    let yaml = lab.get_with(&path, ("accept", "application/yaml")).await;
    assert_eq!(yaml.header("content-type"), "application/yaml");
    assert_eq!(yaml.json()["kind"], "PackageManifestList");
    let protobuf = lab
        .get_with(&path, ("accept", "application/vnd.kubernetes.protobuf"))
        .await;
    assert_eq!(
        (protobuf.code, &protobuf.json()["reason"]),
        (406, &json!("NotAcceptable"))
    );
    let odd = lab
        .get_with(&format!("{path}?includeObject=All"), ("accept", table))
        .await;
    assert_eq!(odd.code, 400);
    let head = lab
        .send(&proxy(), "HEAD", &path, &[("x-remote-user", "ada")])
        .await;
    assert_eq!((head.code, head.body.len()), (200, 0));
}

#[tokio::test]
async fn watching_and_writing_are_refused_as_what_is_not_there() {
    let lab = Lab::new();
    let watch = lab.get(&format!("{BASE}/packagemanifests?watch=true")).await;
    assert_eq!(
        (watch.code, &watch.json()["reason"]),
        (405, &json!("MethodNotAllowed"))
    );
    assert_eq!(watch.header("allow"), "GET, HEAD");
    for (method, path) in [
        ("POST", "/namespaces/ns/packagemanifests"),
        ("PUT", "/namespaces/ns/packagemanifests/demo"),
        ("PATCH", "/namespaces/ns/packagemanifests/demo"),
        ("DELETE", "/namespaces/ns/packagemanifests/demo"),
        ("DELETE", "/namespaces/ns/packagemanifests"),
    ] {
        let answer = lab
            .send(
                &proxy(),
                method,
                &format!("{BASE}{path}"),
                &[("x-remote-user", "ada")],
            )
            .await;
        assert_eq!(answer.code, 405, "{method} {path}");
        assert_eq!(answer.json()["kind"], "Status");
    }
    assert_eq!(lab.get(&format!("{BASE}/namespaces/ns/secrets")).await.code, 404);
}

/// A permitted caller gets a message that names the alternative.
#[tokio::test]
async fn there_are_no_profiles() {
    let lab = Lab::new();
    let answer = lab.get("/debug/pprof/heap").await;
    assert_eq!(answer.code, 404);
    assert_eq!(answer.body, NO_PROFILES.as_bytes());
    let eve = [("x-remote-user", "eve")];
    assert_eq!(
        lab.send(&proxy(), "GET", "/debug/pprof/heap", &eve).await.code,
        403
    );
}

#[tokio::test]
async fn forbidden_requests_are_reported() {
    let lab = Lab::new();
    let eve = [("x-remote-user", "eve"), ("x-remote-group", "tenants")];
    let path = format!("{BASE}/namespaces/ns/packagemanifests");
    let refused = lab.send(&proxy(), "GET", &path, &eve).await;
    assert_eq!(refused.code, 403);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("User \"eve\" cannot list resource \"packagemanifests\""),
        "{message}"
    );
    let (user, _) = lab.reviewer.asked.lock().unwrap()[0].clone();
    assert_eq!(user.groups, ["tenants", "system:authenticated"]);
    let picture = lab
        .send(&proxy(), "GET", &format!("{path}/demo/icon"), &eve)
        .await;
    assert_eq!(picture.code, 403);
    assert_eq!(lab.send(&proxy(), "GET", "/metrics", &eve).await.code, 403);
    // The existence of a path is not revealed either.
    assert_eq!(lab.send(&proxy(), "GET", "/nothing", &eve).await.code, 403);
    let admin = [("x-remote-user", "root"), ("x-remote-group", "system:masters")];
    assert_eq!(lab.send(&proxy(), "GET", &path, &admin).await.code, 200);
}

/// Prometheus authenticates with the token of its ServiceAccount.
#[tokio::test]
async fn met_001_metrics_are_served_as_prometheus_reads_them_to_whom_the_api_server_allows_it() {
    let lab = Lab::with_metrics(&Metrics::registered());
    let told = async |token: &str| {
        let token = [("authorization", token)];
        lab.send(&stranger(), "GET", "/metrics", &token).await
    };
    assert_eq!(told("Bearer eve-token").await.code, 403);
    assert_eq!(told("Bearer unknown").await.code, 401);
    assert_eq!(lab.send(&stranger(), "GET", "/metrics", &[]).await.code, 401);
    let page = told("Bearer ada-token").await;
    assert_eq!(
        (page.code, page.header("content-type")),
        (200, "text/plain; version=0.0.4")
    );
    let text = std::str::from_utf8(&page.body).unwrap();
    for line in [
        "# TYPE olm_package_server_requests_total counter\n",
        "olm_package_server_requests_total{code=\"403\",resource=\"metrics\"} 1\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}

/// Permitted callers may ask as often as they like.
#[tokio::test(start_paused = true)]
async fn met_001_the_metrics_are_made_once_a_second() {
    let lab = Lab::with_metrics(&Metrics::registered());
    let admin = [("x-remote-user", "root"), ("x-remote-group", "system:masters")];
    let told = async || lab.send(&proxy(), "GET", "/metrics", &admin).await.body;
    let first = told().await;
    assert_eq!(told().await, first);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let second = String::from_utf8(told().await.to_vec()).unwrap();
    let counted = r#"olm_package_server_requests_total{code="200",resource="metrics"} 2"#;
    assert!(second.contains(counted), "{second}");
}

#[tokio::test]
async fn headers_of_the_api_server_count_only_from_the_api_server() {
    let lab = Lab::new();
    let forged = [("x-remote-user", "ada"), ("x-remote-group", "system:masters")];
    let path = format!("{BASE}/packagemanifests");
    let other = Peer {
        common_name: Some("somebody-else".to_owned()),
    };
    for peer in [stranger(), other] {
        for path in [path.as_str(), BASE, "/apis", "/metrics", "/openapi/v2"] {
            assert_eq!(
                lab.send(&peer, "GET", path, &forged).await.code,
                401,
                "{peer:?} {path}"
            );
        }
        let with_token = [forged[0], forged[1], ("authorization", "Bearer eve-token")];
        assert_eq!(lab.send(&peer, "GET", &path, &with_token).await.code, 403);
    }
    assert!(
        lab.reviewer
            .asked
            .lock()
            .unwrap()
            .iter()
            .all(|(user, _)| user.name == "eve")
    );
    lab.known.send_replace(None);
    assert_eq!(lab.send(&proxy(), "GET", &path, &forged).await.code, 401);
}

#[tokio::test]
async fn tokens_identify_users() {
    let lab = Lab::new();
    let path = format!("{BASE}/packagemanifests");
    let with = async |value: &str| {
        lab.send(&stranger(), "GET", &path, &[("authorization", value)])
            .await
            .code
    };
    assert_eq!(with("Bearer ada-token").await, 200);
    assert_eq!(with("bearer ada-token").await, 200);
    assert_eq!(with("Bearer unknown").await, 401);
    assert_eq!(with("Basic ada-token").await, 401);
    assert_eq!(with("Bearer ").await, 401);
    assert_eq!(
        with(&format!("Bearer {}-token", "a".repeat(TOKEN_BYTES))).await,
        401
    );
    let refused = lab.send(&stranger(), "GET", &path, &[]).await;
    assert_eq!(
        (refused.code, refused.header("www-authenticate")),
        (401, "Bearer")
    );
}

#[tokio::test]
async fn while_the_api_server_cannot_be_asked_discovery_is_answered_and_nothing_is_allowed() {
    let lab = Lab::new();
    lab.reviewer.is_away.store(true, Ordering::SeqCst);
    for path in ["/apis", BASE, "/openapi/v2", "/openapi/v3", "/healthz"] {
        assert_eq!(lab.get(path).await.code, 200, "{path}");
    }
    let list = lab.get(&format!("{BASE}/packagemanifests")).await;
    assert_eq!((list.code, list.header("retry-after")), (503, "1"));
    let token = [("authorization", "Bearer ada-token")];
    let stranger = lab.send(&stranger(), "GET", BASE, &token).await;
    assert_eq!(stranger.code, 503);
    for (answer, what) in [
        (list, "whether the request is allowed"),
        (stranger, "the identity of the client"),
    ] {
        let told = format!("cannot determine {what}: the API server does not answer");
        assert_eq!(
            answer.json()["message"],
            told,
            "what the API server said is for the log"
        );
    }
    lab.reviewer.is_away.store(false, Ordering::SeqCst);
    assert_eq!(lab.get(&format!("{BASE}/packagemanifests")).await.code, 200);
}

#[tokio::test]
async fn discovery_is_described_in_documents_and_schemas_not_twice() {
    let lab = Lab::new();
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    assert_eq!(lab.get_with("/apis", ("accept", aggregated)).await.code, 406);
    assert_eq!(lab.get("/apis").await.json()["kind"], "APIGroupList");
    assert_eq!(lab.get(BASE).await.json()["kind"], "APIResourceList");
    let paths = lab.get("/openapi/v3").await.json();
    let url = paths["paths"]["apis/packages.operators.coreos.com/v1"]["serverRelativeURL"].clone();
    let document = lab.get(url.as_str().unwrap()).await;
    assert_eq!(document.json()["openapi"], "3.0.0");
    assert!(
        url.as_str()
            .unwrap()
            .ends_with(document.header("etag").trim_matches('"'))
    );
    let known = ("if-none-match", document.header("etag"));
    let again = lab.get_with(url.as_str().unwrap(), known).await;
    assert_eq!((again.code, again.body.len()), (304, 0));
    assert_eq!(
        lab.get("/version").await.json()["gitVersion"],
        format!("v{}", env!("CARGO_PKG_VERSION"))
    );
}

#[tokio::test]
async fn pkg_003_pictures_are_sent_once() {
    let lab = Lab::new();
    let path = format!("{BASE}/namespaces/ns/packagemanifests/demo/icon");
    let first = lab.get(&path).await;
    assert_eq!((first.code, &first.body[..]), (200, &b"hello"[..]));
    assert_eq!(first.header("content-type"), "image/png");
    assert_eq!(first.header("etag"), "\"demo.stable.demo.v1\"");
    assert_eq!(first.header("x-content-type-options"), "nosniff");
    let known = lab
        .get_with(&path, ("if-none-match", "\"demo.stable.demo.v1\""))
        .await;
    assert_eq!((known.code, known.body.len()), (304, 0));
    let other = lab
        .get_with(
            &format!("{path}?resourceVersion=1"),
            ("if-none-match", "\"demo.stable.demo.v0\""),
        )
        .await;
    assert_eq!(other.code, 200);
    let plain = lab
        .get(&format!("{BASE}/namespaces/ns/packagemanifests/plain/icon"))
        .await;
    assert_eq!((plain.code, plain.header("content-type")), (200, "image/svg+xml"));
    assert!(plain.headers.get("etag").is_none());
    let absent = lab
        .get(&format!("{BASE}/namespaces/ns/packagemanifests/absent/icon"))
        .await;
    assert_eq!((absent.code, absent.body.len()), (404, 0));
}

#[tokio::test]
async fn probes_need_not_say_who_they_are() {
    let lab = Lab::new();
    let probe = async |path: &str| lab.send(&stranger(), "GET", path, &[]).await.code;
    assert_eq!(probe("/healthz").await, 200);
    assert_eq!(probe("/livez").await, 200);
    assert_eq!(probe("/readyz").await, 503);
    lab.readiness.knows_front_proxy();
    lab.readiness.has_read_catalogs();
    assert_eq!(probe("/readyz").await, 200);
    lab.readiness.stops();
    assert_eq!((probe("/readyz").await, probe("/healthz").await), (503, 200));
    assert_eq!(lab.send(&stranger(), "POST", "/healthz", &[]).await.code, 405);
}

#[tokio::test(start_paused = true)]
async fn a_fault_or_a_late_answer_is_that_requests_alone() {
    assert_eq!(bounded(async { 7 }).await, Ok(7));
    assert_eq!(
        bounded(async { panic!("a fault") }).await,
        Err::<(), _>(ApiStatus::internal())
    );
    assert_eq!(
        bounded(std::future::pending::<()>()).await,
        Err(ApiStatus::timeout())
    );
}

/// Lists are written outside of the request's handler.
#[tokio::test]
async fn a_fault_in_writing_an_answer_is_that_answers_alone() {
    let pieces = ["a", "b"].into_iter().map(|piece| {
        assert_ne!(piece, "b");
        Bytes::from_static(piece.as_bytes())
    });
    let mut body = streamed("application/json", pieces).into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "a");
    assert!(body.frame().await.unwrap().is_err());
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn several_headers_say_together_what_a_caller_takes() {
    let lab = Lab::new();
    let headers = [
        ("x-remote-user", "ada"),
        ("accept", "text/html"),
        ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    ];
    let path = format!("{BASE}/namespaces/ns/packagemanifests");
    let answer = lab.send(&proxy(), "GET", &path, &headers).await;
    assert_eq!(
        (answer.code, answer.json()["kind"].clone()),
        (200, json!("Table"))
    );
}
