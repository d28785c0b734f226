//! Tests of the pages over a loopback socket, with an in-memory cluster.

mod catalogs;
mod ending;
mod looks;
mod written;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser as _;
use olm_testing::cluster::{FakeCluster, Fault, Refusal};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::args::{Args, Command};
use crate::operators::tests::{csv, deployment, plan, pod, subscription};

/// A browser that is not logged in yet.
struct Browser {
    port: u16,
    link: String,
    base: String,
    cookie: String,
}

/// A response.
struct Seen {
    status: u16,
    head: String,
    body: String,
}

impl Browser {
    /// Sends raw bytes and reads the response.
    async fn send(&self, request: &[u8]) -> Seen {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        // The server may reject a request before it is sent completely.
        let _ = stream.write_all(request).await;
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text).await;
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Seen {
            status: status.unwrap_or_default(),
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    async fn open(&self, path: &str) -> Seen {
        let (host, cookie) = (self.host(), &self.cookie);
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nsec-fetch-site: none\r\ncookie: {cookie}\r\n\r\n"
        );
        self.send(request.as_bytes()).await
    }

    async fn page(&self, page: &str) -> Seen {
        self.open(&format!("{}{page}", self.base)).await
    }

    async fn post(&self, page: &str, form: &str, more: &str) -> Seen {
        let (host, base, cookie) = (self.host(), &self.base, &self.cookie);
        let length = form.len();
        let request = format!(
            "POST {base}{page} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {length}\r\n{more}\r\n{form}"
        );
        self.send(request.as_bytes()).await
    }

    /// Sends a form as our own pages do.
    async fn submit(&self, page: &str, form: &str) -> Seen {
        self.post(page, form, "sec-fetch-site: same-origin\r\norigin: null\r\n")
            .await
    }

    async fn log_in(&mut self) {
        let path = self
            .link
            .split_once("1:")
            .unwrap()
            .1
            .split_once('/')
            .unwrap()
            .1
            .to_owned();
        let seen = self.open(&format!("/{path}")).await;
        assert_eq!(seen.status, 200, "{}", seen.body);
        let cookie = seen.head.split_once("set-cookie: ").unwrap().1;
        self.cookie = cookie.split(';').next().unwrap().to_owned();
        let target = format!("url={}operators", self.base);
        assert!(seen.body.contains(&target), "{}", seen.body);
    }
}

/// Runs a test with a browser and a served cluster.
async fn served(cluster: &FakeCluster, flags: &[&str], test: impl AsyncFnOnce(Browser)) {
    let (client, _link) = cluster.connect();
    let args = Args::try_parse_from(["operator", "ui"].iter().chain(flags)).unwrap();
    let Command::Ui(args) = args.command else {
        panic!("another command");
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let gate = Gate::new(port, [1; 32], [2; 32], [3; 32], [4; 32]);
    let browser = Browser {
        port,
        link: gate.link(),
        base: gate.base(),
        cookie: String::new(),
    };
    let app = Rc::new(App::new(Cluster::of(client, "shop"), &args, gate));
    let (done, stop) = tokio::sync::oneshot::channel::<()>();
    let serve = server::serve(listener, app, async {
        let _ = stop.await;
    });
    let test = async {
        test(browser).await;
        drop(done);
    };
    LocalSet::new()
        .run_until(async { tokio::join!(serve, test) })
        .await;
}

/// Runs a test with a logged-in browser.
async fn logged_in(cluster: &FakeCluster, test: impl AsyncFnOnce(Browser)) {
    served(cluster, &[], async |mut browser| {
        browser.log_in().await;
        test(browser).await;
    })
    .await;
}

/// Returns a cluster with a running operator whose next version waits for approval.
fn cluster() -> FakeCluster {
    let cluster = FakeCluster::new();
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "state": "UpgradePending",
        "installPlanRef": {"name": "install-1"},
        "conditions": [{"type": "InstallPlanPending", "status": "True", "reason": "RequiresApproval"}]});
    cluster.put(subscription("db", &status));
    cluster.put(waiting("{}"));
    cluster.put(csv("1.0.0", "Succeeded", ""));
    cluster.put(deployment(2));
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    cluster.put(pod("etcd-1", &ready));
    cluster.put(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "etcds.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Etcd", "plural": "etcds"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}));
    cluster
}

/// Returns the waiting plan, with a step of this manifest.
fn waiting(manifest: &str) -> Value {
    let preview = json!({"version": 1, "operators": [{"name": "etcd.v2.0.0", "replaces": "etcd.v1.0.0"}],
        "objects": [{"verb": "create", "kind": "ServiceAccount", "name": "etcd", "namespace": "shop"}],
        "definitions": [{"name": "etcds.example.com", "versionsAdded": ["v2"], "fieldsRemoved": ["v1: spec.size"]}],
        "permissions": [{"subject": "ServiceAccount etcd", "namespace": "shop",
            "gained": [{"resource": "pods", "verbs": ["get", "list"]}], "lost": [{"group": "apps", "resource": "deployments", "verbs": ["get"]}]}]});
    let mut waiting = plan("install-1", "RequiresApproval", false);
    waiting["metadata"]["annotations"] = json!({olm_api::labels::PLAN_PREVIEW: preview.to_string()});
    waiting["metadata"]["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
    waiting["metadata"]["ownerReferences"] = json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": "db", "uid": "u"}]);
    waiting["status"]["plan"] = json!([{"resolving": "etcd.v2.0.0", "status": "Unknown", "resource": {"sourceName": "", "sourceNamespace": "",
        "group": "", "version": "v1", "kind": "ServiceAccount", "name": "etcd", "manifest": manifest}}]);
    waiting
}

fn is_approved(cluster: &FakeCluster) -> bool {
    cluster.get("InstallPlan", "shop", "install-1").unwrap()["spec"]["approved"] == true
}

/// Returns the form of a plan's page, as the button sends it.
fn form(page: &Seen) -> String {
    let fields = page.body.split("<input type=\"hidden\" ").skip(1);
    let fields = fields.map(|field| {
        let value = |name: &str| {
            field
                .split_once(name)
                .unwrap()
                .1
                .split('"')
                .next()
                .unwrap()
                .to_owned()
        };
        (value("name=\""), value("value=\""))
    });
    form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish()
}

/// Returns the text between the tags, line by line, for readable snapshots.
fn text_of(page: &Seen) -> String {
    let main = page
        .body
        .split_once("<main")
        .unwrap()
        .1
        .split_once("</main>")
        .unwrap()
        .0;
    let mut text = String::new();
    for part in main.split_once('>').unwrap().1.split('<') {
        let (tag, words) = part.split_once('>').unwrap_or(("", part));
        let is_line = ["h", "p", "li", "tr", "dt", "section", "form", "div", "details"];
        if is_line.contains(&tag.split(['.', ' ', '1', '2']).next().unwrap_or_default()) {
            text.push('\n');
        }
        if !words.trim().is_empty() {
            text.push_str(words);
            text.push(' ');
        }
    }
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn only_users_with_the_link_are_admitted() {
    let cluster = cluster();
    served(&cluster, &[], async |mut browser| {
        let before = browser.page("operators").await;
        assert_eq!(before.status, 403);
        assert!(before.body.contains("Open the link"), "{}", before.body);
        assert!(!before.body.contains("etcd"), "{}", before.body);
        browser.log_in().await;
        assert_eq!(browser.page("operators").await.status, 200);
        let path = browser
            .link
            .split_once("1:")
            .unwrap()
            .1
            .split_once('/')
            .unwrap()
            .1
            .to_owned();
        let again = browser.open(&format!("/{path}")).await;
        assert_eq!(again.status, 403, "it can be used once");
        assert!(!again.head.contains("set-cookie"), "{}", again.head);
        for cookie in ["", "kubectl-operator-ui=0", "other=1"] {
            browser.cookie = cookie.to_owned();
            assert_eq!(browser.page("operators").await.status, 403, "{cookie}");
            assert_eq!(browser.page("script.js").await.status, 403, "{cookie}");
        }
    })
    .await;
}

#[tokio::test]
async fn another_name_for_the_loopback_address_is_not_answered() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        let (base, cookie, port) = (&browser.base, &browser.cookie, browser.port);
        for (host, expected) in [
            (format!("localhost:{port}"), 200),
            (format!("evil.example:{port}"), 421),
            ("127.0.0.1".to_owned(), 421),
        ] {
            let request = format!("GET {base}operators HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n\r\n");
            let seen = browser.send(request.as_bytes()).await;
            assert_eq!(seen.status, expected, "{host}");
            assert_eq!(seen.body.contains("etcd"), expected == 200, "{host}");
        }
    })
    .await;
}

#[tokio::test]
async fn every_answer_forbids_scripts_of_others_frames_and_keeping() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        for page in ["operators", "script.js", "style.css", "nothing", "plan?name=none"] {
            let seen = browser.page(page).await;
            for header in [
                "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; \
                 base-uri 'none'; frame-ancestors 'none'",
                "x-frame-options: deny",
                "x-content-type-options: nosniff",
                "referrer-policy: no-referrer",
                "cache-control: no-store",
                "cross-origin-resource-policy: same-origin",
            ] {
                assert!(seen.head.contains(header), "{page}: {header}: {}", seen.head);
            }
            assert!(!seen.head.contains("unsafe"), "{page}");
            // Pages contain nothing inline that the policy would block.
            for inline in ["<script>", "<style>", " style=", " onclick="] {
                assert!(!seen.body.contains(inline), "{page}: {inline}");
            }
            assert!(!seen.body.contains("//") || page.ends_with(".js"), "{page}: nothing is loaded from elsewhere");
        }
    })
    .await;
}

#[tokio::test]
async fn operators_are_shown_with_what_they_wait_for() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        let seen = browser.page("operators").await;
        insta::assert_snapshot!(text_of(&seen), @r"
        Operators
        Plans waiting for approval
        etcd 1.0.0 → 2.0.0  of db in namespace shop
        Search Search
        1 of 1 operators in namespace shop  1 waiting
        Operator State Installed Current Package Waiting for
        db RequiresApproval 1.0.0 2.0.0 etcd, stable InstallPlan install-1: waiting for approval
        The same in a terminal kubectl operator list -n shop
        ");
        let seen = browser.page("operator?namespace=shop&name=db").await;
        insta::assert_snapshot!(text_of(&seen), @r"
        db
        RequiresApproval  InstallPlan install-1: waiting for approval
        Review the pending plan
        Or kubectl operator approve db -n shop
        Namespace shop
        Installed etcd.v1.0.0
        Current etcd.v2.0.0
        Package etcd  of catalog olm/cat
        Channel stable
        Approval Automatic
        Objects
        Subscription  db  RequiresApproval (1.0.0 installed)
        InstallPlan install-1 RequiresApproval  waiting for approval, see kubectl operator approve install-1 -n shop
        ClusterServiceVersion  etcd.v1.0.0  Succeeded
        Deployment  etcd  2 of 2 available
        Pod  etcd-1  Ready
        The same in a terminal kubectl operator status db -n shop
        Why is it stuck?
        Explain  asks the catalogs, which can take a while.
        Or kubectl operator explain db -n shop
        Conditions
        Condition Status Reason Message
        InstallPlanPending True RequiresApproval none
        ");
        for (page, expected) in [
            ("operator?namespace=shop&name=other", 404),
            ("operator?namespace=&name=db", 404),
            ("operators?namespace=../../x", 400),
            ("operators?namespace=other&q=db", 200),
            ("nothing", 404),
        ] {
            assert_eq!(browser.page(page).await.status, expected, "{page}");
        }
        // A search also applies to the plans.
        for (word, is_shown) in [("db", true), ("vault", false)] {
            let text = text_of(&browser.page(&format!("operators?q={word}")).await);
            assert_eq!(text.contains("Plans waiting for approval"), is_shown, "{text}");
        }
        let missing = text_of(&browser.page("operators?namespace=missing").await);
        assert!(missing.contains("namespace missing does not exist"), "{missing}");
        assert!(cluster.log().writes.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_plan_is_shown_and_approved_as_it_was_shown() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        let page = browser.page("plan?namespace=shop&name=install-1").await;
        insta::assert_snapshot!(text_of(&page), @r"
        etcd 1.0.0 → 2.0.0
        This plan is waiting for approval. The following was recorded when it was created.
        Namespace shop
        InstallPlan install-1
        Made 2026-01-02T03:04:05Z
        For
        db
        Installs
        etcd.v2.0.0, replaces etcd.v1.0.0
        Permissions gained (1)
        ServiceAccount etcd in namespace shop: get, list pods
        Permissions lost (1)
        ServiceAccount etcd in namespace shop: get deployments.apps
        Changes of custom resource definitions (1)
        etcds.example.com: serves v2; loses v1: spec.size
        Objects it creates (1)
        ServiceAccount shop/etcd
        Approve this plan
        OLM executes only these steps. If the plan changes, it needs a new approval.
        Or kubectl operator approve installplan/install-1 -n shop
        ");
        assert!(cluster.log().writes.is_empty(), "it was only looked at");
        let seen = browser.submit("approve", &form(&page)).await;
        assert_eq!(seen.status, 303, "{}", seen.body);
        let place = format!("location: {}plan?namespace=shop&name=install-1", browser.base);
        assert!(seen.head.contains(&place), "{}", seen.head);
        let found = cluster.get("InstallPlan", "shop", "install-1").unwrap();
        assert_eq!(found["spec"]["approved"], true);
        let found = serde_json::from_value(found).unwrap();
        let hash = olm_api::approval::plan_hash(&found);
        assert_eq!(
            olm_api::approval::approved_hash(found.metadata.annotations.as_ref().unwrap()),
            Some(hash.as_str())
        );
        let page = browser.page("plan?namespace=shop&name=install-1").await;
        assert!(page.body.contains("This plan is approved."), "{}", page.body);
        assert!(!page.body.contains("<form class=\"ask\""), "{}", page.body);
    })
    .await;
}

/// Another user changes the plan between display and click.
#[tokio::test]
async fn a_plan_that_changed_after_it_was_shown_is_not_approved() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        let page = browser.page("plan?namespace=shop&name=install-1").await;
        cluster.put(waiting("{\"kind\": \"ClusterRole\"}"));
        let seen = browser.submit("approve", &form(&page)).await;
        assert_eq!(seen.status, 409);
        assert!(seen.body.contains("changed since it was shown"), "{}", seen.body);
        assert!(!is_approved(&cluster));
        // The same applies if the steps are unchanged but their summary differs.
        let page = browser.page("plan?namespace=shop&name=install-1").await;
        let mut told = waiting("{\"kind\": \"ClusterRole\"}");
        told["metadata"]["annotations"] = json!({});
        cluster.put(told);
        let seen = browser.submit("approve", &form(&page)).await;
        assert_eq!(seen.status, 409);
        assert!(!is_approved(&cluster));
    })
    .await;
}

#[tokio::test]
async fn no_other_site_and_no_forged_form_approves() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        let page = browser.page("plan?namespace=shop&name=install-1").await;
        let form = form(&page);
        for head in [
            "sec-fetch-site: cross-site\r\norigin: https://evil.example\r\n",
            "sec-fetch-site: same-site\r\norigin: http://127.0.0.1:1\r\n",
            "origin: http://127.0.0.1:1\r\n",
            "origin: null\r\n",
            "",
        ] {
            assert_eq!(browser.post("approve", &form, head).await.status, 403, "{head}");
        }
        for (forged, expected) in [
            (form.replace("install-1", "install-2"), 409),
            (form.replace("namespace=shop", "namespace=ops"), 409),
            (form.replace("shown=", "shown=0"), 409),
            (form.split_once("&shown").unwrap().0.to_owned(), 409),
            (String::new(), 403),
        ] {
            assert_eq!(
                browser.submit("approve", &forged).await.status,
                expected,
                "{forged}"
            );
        }
        let big = format!("{form}&x={}", "x".repeat(server::BODY_BYTES));
        assert_eq!(browser.submit("approve", &big).await.status, 413);
        // A read request never writes.
        let read = browser.page(&format!("approve?{form}")).await;
        assert_eq!(read.status, 404);
        assert!(!is_approved(&cluster));
        assert!(cluster.log().writes.is_empty());
        let own = format!("origin: http://{}\r\n", browser.host());
        assert_eq!(
            browser.post("approve", &form, &own).await.status,
            303,
            "a browser of old"
        );
    })
    .await;
}

#[tokio::test]
async fn a_request_without_an_end_is_left() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        let head = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(64 << 10));
        let seen = browser.send(head.as_bytes()).await;
        assert_eq!(seen.status, 431, "{}", seen.head);
        assert!(!seen.body.contains("etcd"));
    })
    .await;
}

#[tokio::test]
async fn neither_a_slow_browser_nor_a_silent_cluster_is_waited_for_without_end() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        tokio::time::pause();
        let mut slow = TcpStream::connect(("127.0.0.1", browser.port)).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
        let mut answer = Vec::new();
        let ends = tokio::time::timeout(Duration::from_secs(60), slow.read_to_end(&mut answer)).await;
        assert!(ends.is_ok(), "the connection is open after a minute");
        // Each single read is within its timeout, but the page needs several.
        cluster.on_request(|_| Some(Fault::Delay(Duration::from_secs(50))));
        let page = tokio::time::timeout(Duration::from_secs(3600), browser.page("explain?name=db")).await;
        let page = page.expect("there is no answer after an hour");
        assert_eq!(page.status, 504, "{}", page.body);
    })
    .await;
}

#[tokio::test]
async fn unreadable_objects_are_reported_on_the_page() {
    let cluster = cluster();
    cluster.on_request(|request| {
        let forbidden = Refusal::forbidden("it is <b>forbidden</b>");
        (request.kind.kind == "Subscription").then_some(Fault::Refuse(forbidden))
    });
    logged_in(&cluster, async |browser| {
        for page in ["operators", "operator?name=db", "plan?name=install-1"] {
            let seen = browser.page(page).await;
            assert_eq!(seen.status, 502, "{page}");
            assert!(
                seen.body.contains("it is &lt;b&gt;forbidden"),
                "{page}: {}",
                seen.body
            );
        }
    })
    .await;
}

#[tokio::test]
async fn many_viewers_share_one_request_to_the_cluster() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        cluster.on_request(move |request| {
            if request.kind.kind == "Subscription" {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            None
        });
        let look = || browser.page("operators");
        let seen = tokio::join!(look(), look(), look(), look());
        for seen in [seen.0, seen.1, seen.2, seen.3] {
            assert_eq!(seen.status, 200);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    })
    .await;
}
