//! Tests of how long pages are served, and of the shutdown.

use std::sync::mpsc::channel;
use std::thread;

use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::{advance, timeout};

use super::gate::Asked;
use super::*;

fn app(cluster: &FakeCluster) -> (Rc<App>, impl Sized) {
    let (client, link) = cluster.connect();
    let Command::Ui(args) = Args::try_parse_from(["operator", "ui"]).unwrap().command else {
        panic!("another command");
    };
    let gate = Gate::new(4000, [1; 32], [2; 32], [3; 32], [4; 32]);
    (Rc::new(App::new(Cluster::of(client, "shop"), &args, gate)), link)
}

/// Sends a request with this cookie.
fn look(app: &App, session: &str) -> bool {
    let (path, cookie) = (
        format!("/{}/operators", "03".repeat(16)),
        format!("kubectl-operator-ui={session}"),
    );
    let asked = Asked {
        path: &path,
        host: Some("127.0.0.1:4000"),
        cookie: Some(&cookie),
        ..Asked::default()
    };
    app.admit(&asked, "").is_ok()
}

#[tokio::test(start_paused = true)]
async fn it_ends_after_hours_without_an_authorized_request() {
    let cluster = FakeCluster::new();
    let (app, _link) = app(&cluster);
    let nearly = IDLE - 2 * TICK;
    assert!(
        timeout(nearly, forgotten(&app)).await.is_err(),
        "the link is not opened yet"
    );
    assert!(look(&app, &"02".repeat(32)));
    assert!(
        timeout(nearly, forgotten(&app)).await.is_err(),
        "somebody has looked"
    );
    assert!(!look(&app, "0"));
    timeout(3 * TICK, forgotten(&app))
        .await
        .expect("whoever may not look keeps it up");
}

#[tokio::test(start_paused = true)]
async fn catalogs_are_asked_once_for_all_namespaces_and_not_kept_when_they_are_old() {
    let cluster = FakeCluster::new();
    let put = |kind: &str, namespace: &str, name: &str, spec: Value| {
        cluster.put(json!({"apiVersion": format!("operators.coreos.com/{kind}").rsplit_once('/').unwrap().0,
            "kind": kind.rsplit_once('/').unwrap().1, "metadata": {"namespace": namespace, "name": name}, "spec": spec}));
    };
    let namespaces = ["shop", "ops", "other"];
    put(
        "v1alpha1/CatalogSource",
        "olm",
        "cat",
        json!({"sourceType": "grpc"}),
    );
    for namespace in namespaces {
        let spec = json!({"name": "etcd", "channel": "stable", "source": "cat", "sourceNamespace": "olm"});
        put("v1alpha1/Subscription", namespace, "db", spec);
        put("v1/OperatorGroup", namespace, "og", json!({}));
    }
    let (app, _link) = app(&cluster);
    let test = async {
        for namespace in namespaces {
            app.show("explain", &format!("namespace={namespace}")).await;
        }
        let asked = cluster.log().counts[&("get", "CatalogSource".to_owned())];
        assert_eq!(asked, 1);
        let [contents, outlooks] = app.kept();
        assert!(contents == 1 && outlooks > 0, "{contents} {outlooks}");
        advance(reads::CATALOG_FRESH).await;
        let _ = timeout(2 * TICK, forgotten(&app)).await;
        assert_eq!(app.kept(), [0; 2]);
    };
    LocalSet::new().run_until(test).await;
}

#[test]
fn the_end_waits_for_no_work() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (release, held) = channel::<()>();
    let (tell, told) = channel();
    thread::spawn(move || {
        let done = ending(runtime, async {
            // Blocks until released, which is only after the shutdown.
            spawn_blocking(move || held.recv());
            1
        });
        let _ = tell.send(done);
    });
    let done = told.recv_timeout(Duration::from_secs(20));
    drop(release);
    assert_eq!(done, Ok(1));
}

/// An open tab keeps sending requests after another program has taken the port.
#[tokio::test]
async fn pages_are_identified_by_a_seal_that_is_never_sent() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        let seal = |page: &Seen| {
            let found = page.body.split_once("data-seal=\"").map(|(_, rest)| rest);
            found.and_then(|rest| rest.split('"').next()).map(str::to_owned)
        };
        let first = seal(&browser.page("operators").await).unwrap();
        assert_eq!(first.len(), 64);
        for page in ["plan?namespace=shop&name=install-1", "nothing", "plan?name=none"] {
            assert_eq!(seal(&browser.page(page).await).as_ref(), Some(&first), "{page}");
        }
        assert!(!browser.base.contains(&first) && !browser.cookie.contains(&first));
        let stranger = Browser {
            cookie: String::new(),
            ..browser
        };
        assert_eq!(seal(&stranger.page("operators").await), None);
    })
    .await;
}

/// A typing error would otherwise show an empty page.
#[tokio::test(start_paused = true)]
async fn it_does_not_start_for_a_namespace_that_does_not_exist() {
    let cluster = FakeCluster::new();
    let (client, _link) = cluster.connect();
    let shop = Cluster::of(client, "shop");
    let error = exists(&shop).await.unwrap_err();
    assert_eq!(error.to_string(), "namespace shop does not exist");
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    exists(&shop).await.unwrap();
    cluster.on_request(|_| Some(Fault::Hang));
    exists(&shop).await.unwrap();
}
