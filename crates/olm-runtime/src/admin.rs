//! Health and metrics, over plain HTTP/1.1.
//!
//! `/healthz` answers 200 as long as the process schedules work; `/readyz` answers 503 and names the
//! stores whose initial list is missing until all are there (upstream's `/healthz` answers 200 even
//! when nothing ever started). A standby that waits to be elected is ready, and says who leads. `/metrics` tells what the process counted, see [`crate::metrics`]; the text is at most a second old.

use std::{collections::VecDeque, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    task::AbortHandle,
};

use crate::{
    leader::Leadership,
    metrics::{Metrics, Page},
    store::StoreSetHandle,
};

/// The request line and headers of a probe or a scrape fit in this.
const REQUEST_LIMIT: usize = 4096;
/// How long a client may take to send its request and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at a time; beyond it the oldest is closed, since a probe is over in milliseconds and whoever holds a
/// connection is none.
const CONNECTIONS: usize = 64;
/// Pause after a connection could not be taken, for example because no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves health, where an election stands, and what `stores` count in, on `address` until the task is dropped.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(address: SocketAddr, stores: StoreSetHandle, leadership: Leadership) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let accept = || async { listener.accept().await.map(|(stream, _)| stream) };
    answer_all(accept, &stores, &leadership).await;
    Ok(())
}

/// Answers every connection that `accept` gives, for ever. A connection that could not be taken is the client's loss, or
/// passes with the load that caused it: it is no reason to end.
async fn answer_all<S, F>(accept: impl Fn() -> F, stores: &StoreSetHandle, leadership: &Leadership)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = io::Result<S>>,
{
    let page = Arc::<Page>::default();
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = match accept().await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "a health connection could not be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        open.retain(|task| !task.is_finished());
        if open.len() >= CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let (stores, leadership, page) = (stores.clone(), leadership.clone(), Arc::clone(&page));
        let task = tokio::spawn(async move {
            let answered = answer(stream, &stores, &leadership, &page);
            let answered = tokio::time::timeout(PATIENCE, answered).await;
            tracing::trace!(?answered, "health request");
        });
        open.push_back(task.abort_handle());
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    stores: &StoreSetHandle,
    leadership: &Leadership,
    page: &Page,
) -> io::Result<()> {
    let mut request = Vec::with_capacity(512);
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut chunk = [0; 512];
        let count = stream.read(&mut chunk).await?;
        if count == 0 || request.len() + count > REQUEST_LIMIT {
            return Ok(());
        }
        request.extend_from_slice(&chunk[..count]);
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let readiness = readiness(&stores.missing(), leadership.readiness());
    let (head, body) = respond(&line, readiness, stores.metrics(), page);
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// What is to be said of a process that is ready, or why it is not: these stores are `missing`, or the Lease of an election.
fn readiness(missing: &[&str], election: Result<Option<String>, String>) -> Result<String, String> {
    if !missing.is_empty() {
        return Err(format!("waiting for the first list of: {}\n", missing.join(", ")));
    }
    match election {
        Ok(None) => Ok("ok\n".to_owned()),
        Ok(Some(text)) => Ok(format!("ok, {text}\n")),
        Err(text) => Err(format!("{text}\n")),
    }
}

/// The answer to a request line: its head, and what is behind that.
fn respond(
    request_line: &str,
    readiness: Result<String, String>,
    metrics: &Metrics,
    page: &Page,
) -> (String, Arc<str>) {
    let (code, media_type, mut body) = content(request_line, readiness, metrics, page);
    let length = body.len();
    // Whoever asks for the head gets it as it would be, and nothing behind it.
    if request_line.starts_with("HEAD ") {
        body = "".into();
    }
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    (head, body)
}

/// Status, media type and body for a request line.
fn content(
    request_line: &str,
    readiness: Result<String, String>,
    metrics: &Metrics,
    page: &Page,
) -> (&'static str, &'static str, Arc<str>) {
    const TEXT: &str = "text/plain; charset=utf-8";
    let mut words = request_line.split(' ');
    let method = words.next().unwrap_or_default();
    let path = words
        .next()
        .unwrap_or_default()
        .split('?')
        .next()
        .unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/healthz" | "/livez") => ("200 OK", TEXT, "ok\n".into()),
        ("GET" | "HEAD", "/readyz") => match readiness {
            Ok(text) => ("200 OK", TEXT, text.into()),
            Err(text) => ("503 Service Unavailable", TEXT, text.into()),
        },
        ("GET" | "HEAD", "/metrics") => match page.text(metrics) {
            Ok(text) => ("200 OK", Metrics::MEDIA_TYPE, text),
            Err(error) => ("500 Internal Server Error", TEXT, format!("{error}\n").into()),
        },
        ("GET" | "HEAD", _) => (
            "404 Not Found",
            TEXT,
            "try /healthz, /readyz or /metrics\n".into(),
        ),
        _ => ("405 Method Not Allowed", TEXT, "only GET\n".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_names_what_is_missing() {
        let of = |request_line: &str, missing: &[&str]| {
            let readiness = readiness(missing, Ok(None));
            let (code, _, body) = content(request_line, readiness, &Metrics::default(), &Page::default());
            (code, body)
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
        assert_eq!(of("POST /healthz HTTP/1.1", &[]).0, "405 Method Not Allowed");
    }

    #[test]
    fn a_standby_is_ready_and_says_who_leads() {
        let of = |missing: &[&str], election| {
            let readiness = readiness(missing, election);
            let line = "GET /readyz HTTP/1.1";
            let (code, _, body) = content(line, readiness, &Metrics::default(), &Page::default());
            (code, body.to_string())
        };
        let standby = || Ok(Some("standing by: a has the Lease".to_owned()));
        let ready = ("200 OK", "ok, standing by: a has the Lease\n".to_owned());
        assert_eq!(of(&[], standby()), ready);
        assert!(of(&["pods."], standby()).1.contains("pods."));
        let unseen = Err("waiting for a first look".to_owned());
        let not_ready = ("503 Service Unavailable", "waiting for a first look\n".to_owned());
        assert_eq!(of(&[], unseen), not_ready);
    }

    #[test]
    fn metrics_are_told_as_prometheus_reads_them() {
        let metrics = Metrics::registered().unwrap();
        metrics.requested("200", "GET");
        let ready = Ok("ok\n".to_owned());
        let (head, body) = respond("GET /metrics HTTP/1.1", ready, &metrics, &Page::default());
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
                let readiness = readiness(&["pods."], Ok(None));
                respond(&line, readiness, &Metrics::default(), &Page::default())
            };
            assert_eq!(of("HEAD"), (of("GET").0, "".into()), "{path}");
        }
    }

    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::{io::DuplexStream, task::JoinSet};

    use crate::store::StoreSet;

    type Accepted = futures::future::BoxFuture<'static, io::Result<DuplexStream>>;

    /// A listener that first fails as under load, then gives `count` connections, and never ends.
    fn listener(
        failures: &[io::ErrorKind],
        count: usize,
    ) -> (impl Fn() -> Accepted, Arc<Mutex<Vec<DuplexStream>>>) {
        let failures: Vec<io::ErrorKind> = failures.to_vec();
        let clients = Arc::new(Mutex::new(Vec::new()));
        let (ends, calls) = (Arc::clone(&clients), AtomicUsize::new(0));
        let accept = move || -> futures::future::BoxFuture<'static, io::Result<DuplexStream>> {
            let call = calls.fetch_add(1, Ordering::SeqCst);
            if let Some(kind) = failures.get(call) {
                return Box::pin(std::future::ready(Err(io::Error::from(*kind))));
            }
            if call >= failures.len() + count {
                return Box::pin(std::future::pending());
            }
            let (client, server) = tokio::io::duplex(1024);
            ends.lock().unwrap().push(client);
            Box::pin(std::future::ready(Ok(server)))
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
            answer_all(accept, &StoreSetHandle::empty(), &Leadership::default()).await;
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut client = clients.lock().unwrap().pop().unwrap();
        assert!(ask(&mut client).await.starts_with("HTTP/1.1 200 OK"));
        assert!(!serving.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn the_metrics_are_made_once_a_second_however_many_ask() {
        let metrics = Metrics::registered().unwrap();
        let made = Arc::new(AtomicUsize::new(0));
        let making = Arc::clone(&made);
        metrics.gauges("made", "How often", [], move || {
            let times = making.fetch_add(1, Ordering::SeqCst) + 1;
            vec![([], i64::try_from(times).unwrap())]
        });
        let stores = StoreSet::new().with_metrics(metrics).start(&mut JoinSet::new());
        let (accept, clients) = listener(&[], CONNECTIONS);
        tokio::spawn(async move { answer_all(accept, &stores, &Leadership::default()).await });
        tokio::task::yield_now().await;
        let mut all = std::mem::take(&mut *clients.lock().unwrap());
        let mut late = all.split_off(CONNECTIONS - 1);
        let answers =
            futures::future::join_all(all.iter_mut().map(|client| ask_for("/metrics", client))).await;
        assert!(answers.iter().all(|answer| answer.contains("\nmade 1\n")));
        assert_eq!((answers.len(), made.load(Ordering::SeqCst)), (CONNECTIONS - 1, 1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(ask_for("/metrics", &mut late[0]).await.contains("\nmade 2\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_hold_their_connections_keep_no_probe_waiting() {
        let (accept, clients) = listener(&[], CONNECTIONS + 10);
        tokio::spawn(
            async move { answer_all(accept, &StoreSetHandle::empty(), &Leadership::default()).await },
        );
        tokio::task::yield_now().await;
        let start = tokio::time::Instant::now();
        let mut all = std::mem::take(&mut *clients.lock().unwrap());
        let mut probe = all.pop().unwrap();
        assert!(ask(&mut probe).await.starts_with("HTTP/1.1 200 OK"));
        assert_eq!(start.elapsed(), Duration::ZERO);
        // The oldest were closed for the newest, the others when their time was over.
        let mut nothing = String::new();
        all[0].read_to_string(&mut nothing).await.unwrap();
        assert_eq!((nothing.as_str(), start.elapsed()), ("", Duration::ZERO));
        all[CONNECTIONS].read_to_string(&mut nothing).await.unwrap();
        assert_eq!(
            (nothing.as_str(), start.elapsed().as_secs()),
            ("", PATIENCE.as_secs())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_end_is_cut_off() {
        let (accept, clients) = listener(&[], 1);
        tokio::spawn(
            async move { answer_all(accept, &StoreSetHandle::empty(), &Leadership::default()).await },
        );
        tokio::task::yield_now().await;
        let mut client = clients.lock().unwrap().pop().unwrap();
        let mut sent = 0;
        while client.write_all(&[b'a'; 512]).await.is_ok() {
            sent += 512;
        }
        assert!(sent <= 2 * REQUEST_LIMIT, "{sent}");
    }
}
