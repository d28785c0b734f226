//! Health endpoints, over plain HTTP/1.1.
//!
//! `/healthz` answers 200 as long as the process schedules work; `/readyz` answers 503 and names the
//! stores whose initial list is missing until all are there (upstream's `/healthz` answers 200 even
//! when nothing ever started).

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::store::Readiness;

/// A probe's request line and headers fit in this.
const REQUEST_LIMIT: usize = 4096;
/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves health on `address` until the task is dropped.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(address: SocketAddr, stores: Readiness) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let stores = stores.clone();
        tokio::spawn(async move {
            let answered = tokio::time::timeout(PATIENCE, answer(stream, &stores)).await;
            tracing::trace!(?answered, "health request");
        });
    }
}

async fn answer(mut stream: TcpStream, stores: &Readiness) -> io::Result<()> {
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
    let (code, body) = respond(&String::from_utf8_lossy(line), &stores.missing());
    let response = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

/// Status line and body for a request line.
fn respond(request_line: &str, missing: &[&str]) -> (&'static str, String) {
    let mut words = request_line.split(' ');
    let method = words.next().unwrap_or_default();
    let path = words
        .next()
        .unwrap_or_default()
        .split('?')
        .next()
        .unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/healthz" | "/livez") => ("200 OK", "ok\n".to_owned()),
        ("GET" | "HEAD", "/readyz") if missing.is_empty() => ("200 OK", "ok\n".to_owned()),
        ("GET" | "HEAD", "/readyz") => (
            "503 Service Unavailable",
            format!("waiting for the first list of: {}\n", missing.join(", ")),
        ),
        ("GET" | "HEAD", _) => ("404 Not Found", "try /healthz or /readyz\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_names_what_is_missing() {
        assert_eq!(respond("GET /healthz HTTP/1.1", &["pods."]).0, "200 OK");
        assert_eq!(respond("GET /readyz HTTP/1.1", &[]).0, "200 OK");
        let (code, body) = respond(
            "GET /readyz?verbose HTTP/1.1",
            &["pods.", "subscriptions.operators.coreos.com"],
        );
        assert_eq!(code, "503 Service Unavailable");
        assert!(body.contains("subscriptions.operators.coreos.com"));
        assert_eq!(respond("GET / HTTP/1.1", &[]).0, "404 Not Found");
        assert_eq!(respond("POST /healthz HTTP/1.1", &[]).0, "405 Method Not Allowed");
    }
}
