use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;

/// Returns the status code, the media type and the body of an answer.
async fn told(answer: Answer) -> (u16, String, String) {
    let (head, body) = answer.into_parts();
    let media_type = head.headers[CONTENT_TYPE].to_str().unwrap().to_owned();
    let body = body.collect().await.unwrap().to_bytes();
    (
        head.status.as_u16(),
        media_type,
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

fn plain() -> Admin {
    Admin::new(StoreSetHandle::default(), Leadership::default(), false)
}

#[tokio::test]
async fn readiness_names_what_is_missing() {
    let of = async |method: Method, path: &str, missing: &[&str]| {
        let readiness = readiness(missing, Ok(None));
        let metrics = Metrics::default();
        let (code, _, body) = told(content(&method, path, readiness, &metrics)).await;
        (code, body)
    };
    assert_eq!(of(Method::GET, "/healthz", &["pods."]).await.0, 200);
    assert_eq!(of(Method::GET, "/readyz", &[]).await.0, 200);
    let missing = ["pods.", "subscriptions.operators.coreos.com"];
    let (code, body) = of(Method::GET, "/readyz", &missing).await;
    assert_eq!(code, 503);
    assert!(body.contains("subscriptions.operators.coreos.com"));
    assert_eq!(of(Method::GET, "/", &[]).await.0, 404);
    for path in ["/debug/pprof", "/debug/pprof/", "/debug/pprof/heap"] {
        let told = of(Method::GET, path, &[]).await;
        assert_eq!(told, (404, NO_PROFILES.to_owned()), "{path}");
    }
    assert_ne!(of(Method::GET, "/debug/pprofs", &[]).await.1, NO_PROFILES);
    assert_eq!(of(Method::POST, "/healthz", &[]).await.0, 405);
}

#[tokio::test]
async fn a_standby_is_ready_and_says_who_leads() {
    let of = async |missing: &[&str], election| {
        let readiness = readiness(missing, election);
        let metrics = Metrics::default();
        let (code, _, body) = told(content(&Method::GET, "/readyz", readiness, &metrics)).await;
        (code, body)
    };
    let standby = || Ok(Some("standby: a holds lease olm/lease".to_owned()));
    let ready = (200, "ok, standby: a holds lease olm/lease\n".to_owned());
    assert_eq!(of(&[], standby()).await, ready);
    assert!(of(&["pods."], standby()).await.1.contains("pods."));
    let unseen = Err("waiting to read lease olm/lease".to_owned());
    let not_ready = (503, "waiting to read lease olm/lease\n".to_owned());
    assert_eq!(of(&[], unseen).await, not_ready);
}

#[tokio::test]
async fn met_001_metrics_are_served_as_prometheus_reads_them() {
    let metrics = Metrics::registered();
    metrics.requested("200", "GET");
    let ready = Ok("ok\n".to_owned());
    let answer = content(&Method::GET, "/metrics", ready, &metrics);
    let (code, media_type, body) = told(answer).await;
    assert_eq!(code, 200);
    assert!(
        media_type.starts_with("text/plain; version=0.0.4"),
        "{media_type}"
    );
    assert_eq!(body, metrics.text().unwrap());
}

#[tokio::test(start_paused = true)]
async fn met_001_the_metrics_are_made_once_a_second_however_many_ask() {
    let metrics = Metrics::registered();
    let made = Arc::new(AtomicUsize::new(0));
    let making = Arc::clone(&made);
    metrics.gauges("made", "How often", [], move || {
        let times = making.fetch_add(1, Ordering::SeqCst) + 1;
        vec![([], i64::try_from(times).unwrap())]
    });
    let page = async || {
        let ready = Ok("ok\n".to_owned());
        told(content(&Method::GET, "/metrics", ready, &metrics)).await.2
    };
    for _ in 0..100 {
        assert!(page().await.contains("\nmade 1\n"));
    }
    assert_eq!(made.load(Ordering::SeqCst), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(page().await.contains("\nmade 2\n"));
}

#[tokio::test(start_paused = true)]
async fn a_head_request_gets_no_body() {
    for path in ["/healthz", "/readyz?verbose", "/debug/pprof", "/nowhere"] {
        let of = async |method: &str| {
            let answer = send(method, path, &mut client(plain())).await;
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            (head.to_owned(), body.len())
        };
        let ((get, length), (head, none)) = (of("GET").await, of("HEAD").await);
        let without_date = |head: &str| {
            let lines = head.lines().filter(|line| !line.starts_with("date: "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!((without_date(&head), none), (without_date(&get), 0), "{path}");
        assert!(head.contains(&format!("content-length: {length}")), "{head}");
    }
}

/// Returns a connection that `admin` answers.
fn client(admin: Admin) -> DuplexStream {
    let (client, server) = tokio::io::duplex(1024);
    tokio::spawn(admin.answer(server));
    client
}

async fn ask_for(path: &str, client: &mut DuplexStream) -> String {
    send("GET", path, client).await
}

async fn send(method: &str, path: &str, client: &mut DuplexStream) -> String {
    let request = format!("{method} {path} HTTP/1.1\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test(start_paused = true)]
async fn a_request_without_end_is_cut_off() {
    let mut client = client(plain());
    let mut sent = 0;
    while client.write_all(&[b'a'; 512]).await.is_ok() {
        sent += 512;
    }
    assert!(sent <= 2 * HEAD_BYTES, "{sent}");
}

/// With a TLS endpoint, only that one serves metrics.
#[tokio::test(start_paused = true)]
async fn metrics_are_served_over_tls_alone_where_there_is_that() {
    let secured = Admin::new(StoreSetHandle::default(), Leadership::default(), true);
    for (path, code) in [("/metrics", "404"), ("/metrics?x", "404"), ("/healthz", "200")] {
        let answer = ask_for(path, &mut client(secured.clone())).await;
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
