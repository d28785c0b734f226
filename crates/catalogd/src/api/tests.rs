//! Responses as recorded from upstream (`golden/catalogd/http.txt`), and those that upstream has not.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use http::Request;
use olm_oci::Digest;
use tempfile::TempDir;

use super::*;

/// Longer than two chunks of a body.
const LONG: usize = 300 << 10;

struct Server {
    api: Api,
    store: ContentStore,
    _root: TempDir,
}

#[derive(Debug)]
struct Answer {
    code: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

fn put(store: &ContentStore, source: &Path, number: u8) {
    let digest = Digest::sha256(&[number]);
    let time = "2026-11-20T21:57:19Z".parse().unwrap();
    let staged = store.stage(&digest, source, time).unwrap();
    store.install("community", staged).unwrap();
}

fn catalog(text: &str) -> TempDir {
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("catalog.yaml"), text).unwrap();
    source
}

/// A catalog with small documents and one that is longer than two chunks.
fn server() -> Server {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let mut text = String::from("---\nschema: olm.package\nname: prometheus\ndefaultChannel: beta\n");
    for number in 0..3 {
        writeln!(
            text,
            "---\nschema: olm.channel\npackage: prometheus\nname: c{number}\nentries: []"
        )
        .unwrap();
    }
    let long = "x".repeat(LONG);
    writeln!(
        text,
        "---\nschema: olm.bundle\npackage: prometheus\nname: v1\nimage: {long}"
    )
    .unwrap();
    text.push_str("---\nschema: olm.package\nname: other\n");
    put(&store, catalog(&text).path(), 1);
    Server {
        api: Api::new(store.clone(), &Metrics::default()),
        store,
        _root: root,
    }
}

impl Server {
    async fn ask(&self, method: &str, uri: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let answer = self.api.answer(&head.method, &head.uri, &head.headers);
        let (head, body) = answer.into_parts();
        Answer {
            code: head.status.as_u16(),
            headers: head.headers,
            body: body.collect().await.unwrap().to_bytes().to_vec(),
        }
    }

    async fn get(&self, uri: &str) -> Answer {
        self.ask("GET", uri, &[]).await
    }

    fn whole(&self) -> Vec<u8> {
        let content = self.store.get("community").unwrap();
        let mut bytes = vec![0; usize::try_from(content.about.size).unwrap()];
        content.read(&mut bytes, 0).unwrap();
        bytes
    }
}

const ALL: &str = "/catalogs/community/api/v1/all";
const METAS: &str = "/catalogs/community/api/v1/metas";
const MODIFIED: &str = "Fri, 20 Nov 2026 21:57:19 GMT";

#[tokio::test]
async fn everything_is_served_as_recorded() {
    let server = server();
    let whole = server.whole();
    for uri in [ALL, METAS, "/catalogs/community/api/v1/metas?schema=&package="] {
        let answer = server.get(uri).await;
        assert_eq!(answer.code, 200);
        assert!(answer.body == whole, "{uri}: {} bytes", answer.body.len());
        assert_eq!(answer.header("content-type"), "application/jsonl");
        assert_eq!(answer.header("last-modified"), MODIFIED);
        assert_eq!(answer.header("vary"), "Accept-Encoding");
        assert_eq!(answer.header("content-length"), whole.len().to_string());
        let ranges = if uri == ALL { "bytes" } else { "" };
        assert_eq!(answer.header("accept-ranges"), ranges, "{uri}");
    }
    let head = server.ask("HEAD", ALL, &[("accept-encoding", "gzip")]).await;
    assert_eq!((head.code, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), whole.len().to_string());
    assert_eq!(head.header("accept-ranges"), "bytes");
    assert_eq!(head.header("content-encoding"), "");
}

#[tokio::test]
async fn documents_are_found_by_their_fields() {
    let server = server();
    let channel = |name: &str| {
        format!(
            "{{\"entries\":[],\"name\":\"{name}\",\"package\":\"prometheus\",\"schema\":\"olm.channel\"}}\n"
        )
    };
    for (query, expected) in [
        (
            "schema=olm.package&name=prometheus",
            "{\"defaultChannel\":\"beta\",\"name\":\"prometheus\",\"schema\":\"olm.package\"}\n".to_owned(),
        ),
        (
            "package=prometheus&schema=olm.channel",
            ["c0", "c1", "c2"].map(channel).concat(),
        ),
        ("name=c1&name=c2", channel("c1")),
        ("schema=nope", String::new()),
        ("package=other", String::new()),
        (
            "name=%6fther",
            "{\"name\":\"other\",\"schema\":\"olm.package\"}\n".to_owned(),
        ),
    ] {
        let answer = server.get(&format!("{METAS}?{query}")).await;
        assert_eq!((answer.code, answer.text()), (200, expected.as_str()), "{query}");
        assert_eq!(answer.header("content-length"), expected.len().to_string());
        assert_eq!(answer.header("last-modified"), MODIFIED);
        assert_eq!(answer.header("content-type"), "application/jsonl");
    }
}

#[tokio::test]
async fn refusals_are_as_recorded() {
    let server = server();
    let not_dns = "invalid catalog name: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
        and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let long = format!("/catalogs/{}/api/v1/all", "a".repeat(254));
    for (method, uri, code, text) in [
        ("GET", "/catalogs/unknown/api/v1/all", 404, "404 Not Found"),
        ("GET", "/catalogs/unknown/api/v1/metas", 404, "404 Not Found"),
        (
            "GET",
            "/catalogs/community/api/v1/nope",
            404,
            "404 page not found",
        ),
        (
            "GET",
            "/catalogs/community/api/v1/all/",
            404,
            "404 page not found",
        ),
        ("GET", "/catalogs//api/v1/all", 404, "404 page not found"),
        ("POST", "/", 404, "404 page not found"),
        ("POST", ALL, 405, "Method Not Allowed"),
        ("DELETE", METAS, 405, "Method Not Allowed"),
        (
            "GET",
            "/catalogs/community/api/v1/metas?zzz=1",
            400,
            "400 Bad Request",
        ),
        (
            "GET",
            "/catalogs/unknown/api/v1/metas?schema=a&Schema=b",
            400,
            "400 Bad Request",
        ),
        ("GET", "/catalogs/../api/v1/all", 400, not_dns),
        ("GET", "/catalogs/%2e%2e/api/v1/all", 400, not_dns),
        ("GET", "/catalogs/a%2fb/api/v1/metas", 400, not_dns),
        (
            "GET",
            &long,
            400,
            "invalid catalog name: must be no more than 253 characters",
        ),
    ] {
        let answer = server.ask(method, uri, &[]).await;
        let text = format!("{text}\n");
        assert_eq!(
            (answer.code, answer.text()),
            (code, text.as_str()),
            "{method} {uri}"
        );
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("vary"), "Accept-Encoding");
        assert_eq!(answer.header("content-length"), text.len().to_string());
    }
    assert_eq!(server.ask("PUT", ALL, &[]).await.header("allow"), "GET, HEAD");
    let head = server.ask("HEAD", "/catalogs/unknown/api/v1/all", &[]).await;
    assert_eq!((head.code, head.body.len()), (404, 0));
}

#[tokio::test]
async fn what_a_client_has_is_not_sent_again() {
    let server = server();
    let tag = server.get(ALL).await.header("etag").to_owned();
    for uri in [ALL, METAS, "/catalogs/community/api/v1/metas?schema=nope"] {
        for method in ["GET", "HEAD"] {
            for header in [
                ("if-modified-since", MODIFIED),
                ("if-none-match", tag.as_str()),
                ("if-none-match", "*"),
            ] {
                let answer = server.ask(method, uri, &[header]).await;
                assert_eq!((answer.code, answer.body.len()), (304, 0), "{uri} {header:?}");
                assert_eq!(answer.header("last-modified"), MODIFIED);
                assert_eq!(answer.header("etag"), tag);
                assert_eq!(answer.header("content-type"), "");
            }
        }
        let answer = server.ask("GET", uri, &[("if-match", "\"x\"")]).await;
        assert_eq!(answer.code, 412, "{uri}");
    }
    // Another content at the same second is another one.
    put(&server.store, catalog("schema: new\n").path(), 2);
    let answer = server.ask("GET", ALL, &[("if-none-match", &tag)]).await;
    assert_eq!((answer.code, answer.text()), (200, "{\"schema\":\"new\"}\n"));
    assert_ne!(answer.header("etag"), tag);
    // The same documents of another image are the same content.
    let tag = answer.header("etag").to_owned();
    put(&server.store, catalog("{schema: new}\n").path(), 3);
    assert_eq!(server.get(ALL).await.header("etag"), tag);
}

#[tokio::test]
async fn a_part_is_sent_of_everything() {
    let server = server();
    let whole = server.whole();
    let size = whole.len();
    for (range, part) in [
        ("bytes=0-9", 0..10),
        ("bytes=-5", size - 5..size),
        ("bytes=1-", 1..size),
    ] {
        let headers = [("range", range), ("accept-encoding", "gzip")];
        let answer = server.ask("GET", ALL, &headers).await;
        assert_eq!(answer.code, 206, "{range}");
        assert!(answer.body == whole[part.clone()], "{range}");
        let expected = format!("bytes {}-{}/{size}", part.start, part.end - 1);
        assert_eq!(answer.header("content-range"), expected);
        assert_eq!(answer.header("content-length"), part.len().to_string());
        assert_eq!(answer.header("content-encoding"), "");
    }
    let answer = server.ask("GET", ALL, &[("range", "bytes=9999999-")]).await;
    assert_eq!(
        (answer.code, answer.text()),
        (416, "invalid range: failed to overlap\n")
    );
    assert_eq!(answer.header("content-range"), format!("bytes */{size}"));
    let headers = [("range", "bytes=0-9"), ("if-range", "\"old\"")];
    assert_eq!(server.ask("GET", ALL, &headers).await.code, 200);
    assert_eq!(
        server.ask("GET", METAS, &[("range", "bytes=0-9")]).await.code,
        200
    );
}

#[tokio::test]
async fn long_answers_are_compressed_for_clients_that_accept_it() {
    let server = server();
    let bundle = format!("{METAS}?schema=olm.bundle");
    for uri in [ALL, METAS, &bundle] {
        let plain = server.get(uri).await;
        let answer = server.ask("GET", uri, &[("accept-encoding", "gzip, br")]).await;
        assert_eq!(answer.code, 200);
        assert_eq!(answer.header("content-encoding"), "gzip");
        assert_eq!(answer.header("content-length"), "");
        assert_eq!(answer.header("accept-ranges"), "");
        assert!(answer.body.len() < plain.body.len() / 10);
        let mut unpacked = Vec::new();
        GzDecoder::new(answer.body.as_slice())
            .read_to_end(&mut unpacked)
            .unwrap();
        assert!(unpacked == plain.body, "{uri}");
        let tag = answer.header("etag");
        assert_eq!(tag, format!("W/{}", plain.header("etag")));
        let headers = [("accept-encoding", "gzip"), ("if-none-match", tag)];
        assert_eq!(server.ask("GET", uri, &headers).await.code, 304);
    }
    let uri = format!("{METAS}?schema=olm.channel");
    let short = server.ask("GET", &uri, &[("accept-encoding", "gzip")]).await;
    assert_eq!(short.header("content-encoding"), "");
    assert!(short.text().starts_with('{'));
}
