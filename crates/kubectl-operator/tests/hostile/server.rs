//! An API server with given objects that rejects all other requests, and a catalog server with one response for all calls.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

/// Handles each connection in a thread of its own until the tests end. Returns the port.
fn serve(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = Arc::clone(&handle);
            thread::spawn(move || handle(stream));
        }
    });
    port
}

/// Starts an API server with these objects. `text` is used in its error messages and its version. Returns the port.
pub fn cluster(objects: Vec<Value>, text: &'static str) -> u16 {
    serve(move |mut stream| {
        let Some((method, path)) = request(&mut stream) else {
            return;
        };
        let (code, answer) = answer(&objects, text, &method, &path);
        let body = answer.to_string();
        let _ = write!(
            stream,
            "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
    })
}

fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    let mut words = head.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let path = target.split('?').next()?;
    Some((method.to_owned(), path.to_owned()))
}

fn answer(objects: &[Value], text: &str, method: &str, path: &str) -> (u16, Value) {
    let refused = |code: u16| {
        let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code,
            "message": format!("refused{text}"), "reason": "Nope"});
        (code, status)
    };
    let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let of_kind = |plural: &str| {
        let is_kind =
            |object: &&Value| format!("{}s", object["kind"].as_str().unwrap().to_lowercase()) == plural;
        objects.iter().filter(is_kind).collect::<Vec<_>>()
    };
    match (method, words.as_slice()) {
        ("get", ["version"]) => {
            let version = json!({"major": "1", "minor": "34", "gitVersion": text, "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
            (200, version)
        }
        ("get", ["apis", _, _, "namespaces", _, plural] | ["apis", _, _, plural])
            if !of_kind(plural).is_empty() =>
        {
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": of_kind(plural)});
            (200, list)
        }
        ("get", ["apis", _, _, "namespaces", _, plural, name]) if !of_kind(plural).is_empty() => {
            let found = of_kind(plural);
            let found = found.iter().find(|object| object["metadata"]["name"] == *name);
            match found {
                Some(object) => (200, Value::clone(object)),
                None => {
                    let (code, mut status) = refused(404);
                    status["message"] = json!(format!("{plural} \"{name}\" not found"));
                    (code, status)
                }
            }
        }
        _ => refused(403),
    }
}

/// Starts a gRPC server that responds to every call with only these headers. Returns its address.
pub fn catalog(headers: &'static [(&'static str, &'static str)]) -> String {
    let port = serve(move |mut stream| {
        let mut preface = [0; 24];
        if stream.read_exact(&mut preface).is_ok() {
            let _ = frame(&mut stream, 4, 0, 0, &[]);
            while answer_frame(&mut stream, headers).is_ok() {}
        }
    });
    format!("127.0.0.1:{port}")
}

/// Reads an HTTP/2 frame and responds if required.
fn answer_frame(stream: &mut TcpStream, headers: &[(&str, &str)]) -> std::io::Result<()> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let [a, b, c, kind, flags, id @ ..] = head;
    let mut body = vec![0; usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)];
    stream.read_exact(&mut body)?;
    match (kind, flags & 1) {
        // SETTINGS and PING frames of the client.
        (4, 0) => frame(stream, 4, 1, 0, &[]),
        (6, 0) => frame(stream, 6, 1, 0, &body),
        // HEADERS frame of a call. The response has the flags END_HEADERS and END_STREAM.
        (1, _) => {
            // :status 200.
            let mut block = vec![0x88];
            for (name, value) in [("content-type", "application/grpc")].iter().chain(headers) {
                // A literal header without indexing or compression.
                block.push(0);
                for text in [name, value] {
                    block.push(u8::try_from(text.len()).unwrap());
                    block.extend(text.bytes());
                }
            }
            frame(stream, 1, 5, u32::from_be_bytes(id), &block)
        }
        _ => Ok(()),
    }
}

fn frame(stream: &mut TcpStream, kind: u8, flags: u8, id: u32, body: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(id.to_be_bytes());
    frame.extend(body);
    stream.write_all(&frame)
}
