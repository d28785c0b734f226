use super::*;

fn plain() -> Admin {
    Admin::new(StoreSetHandle::empty(), Leadership::default(), false)
}

#[test]
fn readiness_names_what_is_missing() {
    let of = |request_line: &str, missing: &[&str]| {
        let readiness = readiness(missing, &[], Ok(None));
        let told = content(request_line, readiness, &Metrics::default(), &Page::default());
        (told.code, told.body)
    };
    assert_eq!(of("GET /healthz HTTP/1.1", &["pods."]).0, "200 OK");
    assert_eq!(of("GET /readyz HTTP/1.1", &[]).0, "200 OK");
    let (code, body) = of(
        "GET /readyz?verbose HTTP/1.1",
        &["pods.", "subscriptions.operators.coreos.com"],
    );
    assert_eq!(code, "503 Service Unavailable");
    assert!(body.contains("subscriptions.operators.coreos.com"));
    assert_eq!(of("GET / HTTP/1.1", &[]).0, "404 Not Found");
    for path in ["/debug/pprof", "/debug/pprof/", "/debug/pprof/heap?debug=1"] {
        let (code, body) = of(&format!("GET {path} HTTP/1.1"), &[]);
        assert_eq!((code, &*body), ("404 Not Found", NO_PROFILES), "{path}");
    }
    assert_ne!(&*of("GET /debug/pprofs HTTP/1.1", &[]).1, NO_PROFILES);
    assert_eq!(of("POST /healthz HTTP/1.1", &[]).0, "405 Method Not Allowed");
}

#[test]
fn a_standby_is_ready_and_says_who_leads() {
    let of = |missing: &[&str], election| {
        let readiness = readiness(missing, &[], election);
        let line = "GET /readyz HTTP/1.1";
        let told = content(line, readiness, &Metrics::default(), &Page::default());
        (told.code, told.body.to_string())
    };
    let standby = || Ok(Some("standby: a holds lease olm/lease".to_owned()));
    let ready = ("200 OK", "ok, standby: a holds lease olm/lease\n".to_owned());
    assert_eq!(of(&[], standby()), ready);
    assert!(of(&["pods."], standby()).1.contains("pods."));
    let unseen = Err("waiting to read lease olm/lease".to_owned());
    let not_ready = (
        "503 Service Unavailable",
        "waiting to read lease olm/lease\n".to_owned(),
    );
    assert_eq!(of(&[], unseen), not_ready);
}

#[test]
fn met_001_metrics_are_served_as_prometheus_reads_them() {
    let metrics = Metrics::registered().unwrap();
    metrics.requested("200", "GET");
    let ready = Ok("ok\n".to_owned());
    let line = "GET /metrics HTTP/1.1";
    let (head, body) = content(line, ready, &metrics, &Page::default()).parts(line);
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert_eq!(*body, *metrics.text().unwrap());
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
}

#[test]
fn who_asks_for_the_head_gets_no_body() {
    for path in ["/healthz", "/readyz", "/metrics", "/nowhere"] {
        let of = |method: &str| {
            let line = format!("{method} {path} HTTP/1.1");
            let readiness = readiness(&["pods."], &[], Ok(None));
            content(&line, readiness, &Metrics::default(), &Page::default()).parts(&line)
        };
        assert_eq!(of("HEAD"), (of("GET").0, "".into()), "{path}");
    }
}

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use olm_testing::cluster::{FakeCluster, Fault, Refusal, Verb};
use tokio::{io::DuplexStream, task::JoinSet};

use crate::store::{StoreSet, Watch};

type Accepted = futures::future::BoxFuture<'static, io::Result<(DuplexStream, SocketAddr)>>;

/// Listener that first fails with `failures`, as under load, then returns `count` connections, and then blocks.
fn listener(
    failures: &[io::ErrorKind],
    count: usize,
) -> (impl Fn() -> Accepted, Arc<Mutex<Vec<DuplexStream>>>) {
    listener_from(failures, vec![1; count])
}

/// Like [`listener`], with connections from addresses that end in `peers`.
fn listener_from(
    failures: &[io::ErrorKind],
    peers: Vec<u8>,
) -> (impl Fn() -> Accepted, Arc<Mutex<Vec<DuplexStream>>>) {
    let failures: Vec<io::ErrorKind> = failures.to_vec();
    let clients = Arc::new(Mutex::new(Vec::new()));
    let (ends, calls) = (Arc::clone(&clients), AtomicUsize::new(0));
    let accept = move || -> Accepted {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        if let Some(kind) = failures.get(call) {
            return Box::pin(std::future::ready(Err(io::Error::from(*kind))));
        }
        let Some(peer) = peers.get(call - failures.len()) else {
            return Box::pin(std::future::pending());
        };
        let (client, server) = tokio::io::duplex(1024);
        ends.lock().unwrap().push(client);
        Box::pin(std::future::ready(Ok((server, ([10, 0, 0, *peer], 1).into()))))
    };
    (accept, clients)
}

async fn ask(client: &mut DuplexStream) -> String {
    ask_for("/healthz", client).await
}

async fn ask_for(path: &str, client: &mut DuplexStream) -> String {
    let request = format!("GET {path} HTTP/1.1\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_cannot_be_taken_does_not_end_the_process() {
    let (accept, clients) = listener(&[io::ErrorKind::ConnectionAborted, io::ErrorKind::Other], 1);
    let serving = tokio::spawn(async move {
        plain().answer_all(accept).await;
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut client = clients.lock().unwrap().pop().unwrap();
    assert!(ask(&mut client).await.starts_with("HTTP/1.1 200 OK"));
    assert!(!serving.is_finished());
}

#[tokio::test(start_paused = true)]
async fn met_001_the_metrics_are_made_once_a_second_however_many_ask() {
    let metrics = Metrics::registered().unwrap();
    let made = Arc::new(AtomicUsize::new(0));
    let making = Arc::clone(&made);
    metrics.gauges("made", "How often", [], move || {
        let times = making.fetch_add(1, Ordering::SeqCst) + 1;
        vec![([], i64::try_from(times).unwrap())]
    });
    let stores = StoreSet::new().with_metrics(metrics).start(&mut JoinSet::new());
    let (accept, clients) = listener(&[], CONNECTIONS);
    tokio::spawn(async move {
        Admin::new(stores, Leadership::default(), false)
            .answer_all(accept)
            .await;
    });
    tokio::task::yield_now().await;
    let mut all = std::mem::take(&mut *clients.lock().unwrap());
    let mut late = all.split_off(CONNECTIONS - 1);
    let answers = futures::future::join_all(all.iter_mut().map(|client| ask_for("/metrics", client))).await;
    assert!(answers.iter().all(|answer| answer.contains("\nmade 1\n")));
    assert_eq!((answers.len(), made.load(Ordering::SeqCst)), (CONNECTIONS - 1, 1));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(ask_for("/metrics", &mut late[0]).await.contains("\nmade 2\n"));
}

#[tokio::test(start_paused = true)]
async fn who_leads_and_cannot_list_is_not_ready() {
    let cluster = FakeCluster::new();
    let (client, _) = cluster.connect();
    let mut set = StoreSet::new();
    let _store = set.add(Watch::<ConfigMap>::new(&client));
    let mut watches = JoinSet::new();
    let mut stores = set.start(&mut watches);
    stores.wait().await;
    let admin = Admin::new(stores.clone(), Leadership::default(), false);
    let told = || {
        let answer = admin.content("GET /readyz HTTP/1.1");
        (answer.code, answer.body.to_string())
    };
    assert_eq!(told(), ("200 OK", "ok\n".to_owned()));
    cluster.on_request(|request| {
        let refusal = || Fault::Refuse(Refusal::new(500, "InternalError", "no"));
        (request.verb == Verb::List).then(refusal)
    });
    let listing = tokio::spawn(async move { stores.list_again(Duration::from_secs(120)).await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    let waiting = "leader, waiting for a new list of: configmaps.\n";
    assert_eq!(told(), ("503 Service Unavailable", waiting.to_owned()));
    cluster.clear_hooks();
    assert!(listing.await.unwrap());
    assert_eq!(told().0, "200 OK");
}

#[tokio::test(start_paused = true)]
async fn clients_that_hold_their_connections_keep_no_probe_waiting() {
    let (accept, clients) = listener(&[], CONNECTIONS + 10);
    tokio::spawn(async move { plain().answer_all(accept).await });
    tokio::task::yield_now().await;
    let start = tokio::time::Instant::now();
    let mut all = std::mem::take(&mut *clients.lock().unwrap());
    let mut probe = all.pop().unwrap();
    assert!(ask(&mut probe).await.starts_with("HTTP/1.1 200 OK"));
    assert_eq!(start.elapsed(), Duration::ZERO);
    // The oldest connections were closed for the newest, the others at their deadline.
    let mut nothing = String::new();
    all[0].read_to_string(&mut nothing).await.unwrap();
    assert_eq!((nothing.as_str(), start.elapsed()), ("", Duration::ZERO));
    all[CONNECTIONS].read_to_string(&mut nothing).await.unwrap();
    assert_eq!(
        (nothing.as_str(), start.elapsed().as_secs()),
        ("", PATIENCE.as_secs())
    );
}

/// Connections of other clients never make a probe fail, even if the probe connected first and waits to be read.
#[tokio::test(start_paused = true)]
async fn a_flood_from_one_address_closes_its_own_connections() {
    let flood = std::iter::repeat_n(2, 3 * CONNECTIONS);
    let (accept, clients) = listener_from(&[], std::iter::once(1).chain(flood).collect());
    tokio::spawn(async move { plain().answer_all(accept).await });
    tokio::task::yield_now().await;
    let mut all = std::mem::take(&mut *clients.lock().unwrap());
    assert_eq!(all.len(), 3 * CONNECTIONS + 1);
    assert!(ask(&mut all[0]).await.starts_with("HTTP/1.1 200 OK"));
    let mut nothing = String::new();
    let began = tokio::time::Instant::now();
    all[1].read_to_string(&mut nothing).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO, "the flood's oldest is open");
}

#[tokio::test(start_paused = true)]
async fn a_request_without_end_is_cut_off() {
    let (accept, clients) = listener(&[], 1);
    tokio::spawn(async move { plain().answer_all(accept).await });
    tokio::task::yield_now().await;
    let mut client = clients.lock().unwrap().pop().unwrap();
    let mut sent = 0;
    while client.write_all(&[b'a'; 512]).await.is_ok() {
        sent += 512;
    }
    assert!(sent <= 2 * REQUEST_LIMIT, "{sent}");
}

/// With a TLS endpoint, only that one serves metrics.
#[tokio::test(start_paused = true)]
async fn metrics_are_served_over_tls_alone_where_there_is_that() {
    let (accept, clients) = listener(&[], 3);
    let secured = Admin::new(StoreSetHandle::empty(), Leadership::default(), true);
    tokio::spawn(async move { secured.answer_all(accept).await });
    tokio::task::yield_now().await;
    let mut all = std::mem::take(&mut *clients.lock().unwrap());
    for (path, code) in [("/metrics", "404"), ("/metrics?x", "404"), ("/healthz", "200")] {
        let answer = ask_for(path, &mut all.pop().unwrap()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
    }
}

/// Probes are answered in either address family, since pods may have IPv4 or IPv6 addresses.
#[tokio::test]
async fn probes_over_ipv6_are_answered_as_well() {
    let every: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let families: &[&str] = match std::net::TcpListener::bind("[::1]:0") {
        Ok(_) => &["127.0.0.1", "::1"],
        Err(_) => {
            eprintln!("LEFT OUT: this machine has no IPv6");
            &["127.0.0.1"]
        }
    };
    // Another program may take the port before the server binds it.
    loop {
        let free = listener::bind(every).await.unwrap().local_addr().unwrap();
        let serving = plain().serve(SocketAddr::new(every.ip(), free.port()));
        let asking = async {
            for family in families {
                let connected = tokio::net::TcpStream::connect((*family, free.port())).await;
                let mut stream = connected.unwrap_or_else(|error| panic!("{family}: {error}"));
                stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 200 OK"), "{family}: {answer}");
            }
        };
        tokio::select! {
            biased;
            Err(error) = serving => assert_eq!(error.kind(), io::ErrorKind::AddrInUse),
            () = asking => break,
        }
    }
}
