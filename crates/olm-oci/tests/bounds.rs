//! The most that a registry or token service can cost its client: bytes, time, disk, and secrets.

#![allow(clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use olm_oci::{Credentials, ImageArchive, Limits, PullError, PullErrorClass, Puller, RegistryConfig, Spool};
use support::{Answer, MANIFESTS, Seen, Server, Tail, image, large_image};

/// Limits of time that are met soon, but not by a steady drip, however busy the machine.
const SHORT: Limits = Limits {
    idle: Duration::from_secs(1),
    answer: Duration::from_secs(2),
    grace: Duration::from_secs(2),
    floor: 1 << 20,
    ..Limits::BUNDLE
};
/// None of these pulls takes as long, however busy the machine.
const SOON: Duration = Duration::from_secs(20);

async fn pull(puller: &Puller, server: &Server, credentials: &Credentials) -> Result<usize, PullError> {
    let began = Instant::now();
    let content = puller
        .content(&server.reference("demo/bundle:v1"), credentials, MANIFESTS)
        .await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    content.map(|content| content.files.len())
}

async fn refused(puller: &Puller, server: &Server) -> PullError {
    pull(puller, server, &Credentials::anonymous())
        .await
        .expect_err("refused")
}

/// Starts a registry with an image, except for the answers that `fault` replaces.
async fn faulty(
    image: &ImageArchive,
    fault: impl Fn(&Seen) -> Option<Answer> + Send + Sync + 'static,
) -> Server {
    let good = Server::registry_script("demo/bundle", image);
    Server::start(move |seen| fault(seen).unwrap_or_else(|| good(seen))).await
}

fn files_in(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

/// Counts the open files of this process below a folder, with or without a name.
fn open_in(folder: &std::path::Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("open files");
    open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
        .filter(|target| target.starts_with(folder))
        .count()
}

fn password(server: &Server) -> Credentials {
    let text = format!(
        r#"{{"auths":{{"{}":{{"username":"user","password":"secret"}}}}}}"#,
        server.address
    );
    Credentials::from_docker_config(text.as_bytes(), "test").expect("credentials")
}

/// A pod with a read-only root has only the folder that was named.
#[tokio::test]
async fn a_layer_too_large_for_memory_goes_through_the_folder_that_was_named() {
    let server = faulty(&large_image(20 << 20), |_| None).await;
    let dir = tempfile::tempdir().expect("folder");
    let folder = dir.path().join("spool");
    let puller = Puller::default().with_spool(Spool::new(&folder, 64 << 20));
    let files = pull(&puller, &server, &Credentials::anonymous()).await;
    assert_eq!(files.expect("pulled"), 1);
    assert!(folder.is_dir() && files_in(&folder) == 0);
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_reported_and_no_registry_is_blamed() {
    let image = large_image(2 << 20);
    let server = faulty(&image, |_| None).await;
    // A folder below a file cannot be made, not even by root.
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("read-only");
    std::fs::write(&file, "").expect("file");
    let spool = file.join("spool");
    let puller = Puller::default().with_spool(Spool::new(&spool, 64 << 20));
    let error = refused(&puller, &server).await;
    assert_eq!(error.class(), PullErrorClass::Storage, "{error}");
    let message = error.to_string();
    assert!(message.contains(&spool.display().to_string()), "{message}");
    assert!(message.contains("cannot store a layer larger than"), "{message}");
    assert!(
        !message.contains(&format!("http://{}", server.address)),
        "{message}"
    );
    let large: Vec<&str> = image
        .blobs()
        .iter()
        .filter(|(_, blob)| blob.len() > 1 << 20)
        .map(|(digest, _)| digest.as_str())
        .collect();
    let asked = server.seen();
    assert!(
        !asked
            .iter()
            .any(|seen| large.iter().any(|digest| seen.path.ends_with(digest))),
        "the layer was asked for although it cannot be kept"
    );
    let small = faulty(&support::image(), |_| None).await;
    let files = pull(&puller, &small, &Credentials::anonymous()).await;
    assert_eq!(files.expect("small layers need no folder"), 2);
}

#[tokio::test]
async fn a_pull_that_is_dropped_leaves_no_file_and_gives_its_room_back() {
    let image = large_image(3 << 20);
    let large = |seen: &Seen| seen.path.contains("/blobs/");
    let stuck = image.clone();
    let server = faulty(&image, move |seen| {
        let blob = stuck
            .blobs()
            .iter()
            .find(|(digest, _)| seen.path.ends_with(digest.as_str()));
        let (_, blob) = blob.filter(|(_, blob)| large(seen) && blob.len() > 1 << 20)?;
        Some(Answer::ok(blob.slice(..2 << 20)).tail(Tail::Drip(Duration::from_millis(20))))
    })
    .await;
    let dir = tempfile::tempdir().expect("folder");
    let puller = Puller::default().with_spool(Spool::new(dir.path(), 4 << 20));
    let reference = server.reference("demo/bundle:v1");
    let anonymous = Credentials::anonymous();
    {
        let stuck = puller.content(&reference, &anonymous, MANIFESTS);
        let is_open = async {
            while open_in(dir.path()) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = stuck => panic!("it is stuck"),
            opened = tokio::time::timeout(SOON, is_open) => opened.expect("the layer is in the folder"),
        }
    }
    assert_eq!((open_in(dir.path()), files_in(dir.path())), (0, 0));
    // The spool has room for one such layer only.
    let good = faulty(&image, |_| None).await;
    assert!(pull(&puller, &good, &Credentials::anonymous()).await.is_ok());
}

#[tokio::test]
async fn a_layer_that_comes_too_slowly_is_given_up() {
    let image = image();
    let server = faulty(&image, |seen| {
        seen.path
            .contains("/blobs/")
            .then(|| Answer::ok("").tail(Tail::Drip(Duration::from_millis(10))))
    })
    .await;
    let error = refused(&Puller::default().with_limits(SHORT), &server).await;
    assert_eq!(error.class(), PullErrorClass::Unreachable, "{error}");
    assert!(error.to_string().contains("took longer than 2 s"), "{error}");

    let large = large_image(1 << 17);
    let layers: Vec<String> = large
        .blobs()
        .iter()
        .filter(|(_, blob)| blob.len() > 1 << 16)
        .map(|(digest, _)| digest.to_string())
        .collect();
    let server = faulty(&large, move |seen| {
        let is_layer = layers.iter().any(|digest| seen.path.ends_with(digest));
        is_layer.then(|| Answer::ok("").tail(Tail::Drip(Duration::from_millis(10))))
    })
    .await;
    let error = refused(&Puller::default().with_limits(SHORT), &server).await;
    assert_eq!(error.class(), PullErrorClass::Unreachable, "{error}");
    assert!(
        error
            .to_string()
            .contains("the minimum is 1048576 bytes per second"),
        "{error}"
    );
}

/// A proxy that fetches a layer before it answers sends nothing for long and then all at once.
#[tokio::test]
async fn a_layer_whose_answer_begins_late_has_its_time_from_there() {
    let image = large_image(1 << 17);
    let good = Server::registry_script("demo/bundle", &image);
    let server = Server::start(move |seen| match seen.path.contains("/blobs/") {
        true => good(seen).late(Duration::from_millis(1500)),
        false => good(seen),
    })
    .await;
    let limits = Limits {
        grace: Duration::from_secs(1),
        floor: 1 << 20,
        ..Limits::BUNDLE
    };
    let puller = Puller::default().with_limits(limits);
    let files = pull(&puller, &server, &Credentials::anonymous()).await;
    assert_eq!(files.expect("pulled"), 1);
    // The wait is bounded: the answer itself has a limit.
    let limits = Limits {
        answer: Duration::from_secs(1),
        ..limits
    };
    let error = refused(&Puller::default().with_limits(limits), &server).await;
    assert!(error.to_string().contains("no answer within 1 s"), "{error}");
}

#[tokio::test]
async fn silence_in_the_middle_of_an_answer_is_given_up() {
    let server = faulty(&image(), |seen| {
        seen.path
            .contains("/manifests/")
            .then(|| Answer::ok("{").tail(Tail::Drip(Duration::from_secs(60))))
    })
    .await;
    let error = refused(&Puller::default().with_limits(SHORT), &server).await;
    assert_eq!(error.class(), PullErrorClass::Unreachable, "{error}");
    assert!(error.to_string().contains("no data received for 1 s"), "{error}");
}

#[tokio::test]
async fn endless_answers_are_read_to_their_limit() {
    for (name, part, status, class, text) in [
        (
            "manifest",
            "/manifests/",
            200,
            PullErrorClass::TooLarge,
            "larger than the limit of 4194304 bytes",
        ),
        (
            "configuration",
            "/blobs/",
            200,
            PullErrorClass::TooLarge,
            "larger than the limit",
        ),
        (
            "error",
            "/manifests/",
            404,
            PullErrorClass::NotFound,
            "not found (HTTP 404)",
        ),
    ] {
        let server = faulty(&image(), move |seen| {
            let endless = Answer::status(status).tail(Tail::Endless);
            seen.path.contains(part).then_some(endless)
        })
        .await;
        let error = refused(&Puller::default(), &server).await;
        assert_eq!(error.class(), class, "{name}: {error}");
        assert!(error.to_string().contains(text), "{name}: {error}");
    }
}

/// A refusal whose reason drips in is still a refusal, and is reported in time.
#[tokio::test]
async fn the_reason_of_a_refusal_has_a_limit_of_time() {
    let server = Server::start(|_| Answer::status(404).tail(Tail::Drip(Duration::from_millis(10)))).await;
    let error = refused(&Puller::default().with_limits(SHORT), &server).await;
    assert_eq!(error.class(), PullErrorClass::NotFound, "{error}");
}

/// Starts a registry that refuses everything and names `tokens` as its token service.
async fn behind(tokens: &Server) -> Server {
    let realm = format!(
        "Bearer realm=\"http://{}/token\",service=\"test\"",
        tokens.address
    );
    Server::start(move |_| Answer::status(401).header("www-authenticate", &realm)).await
}

#[tokio::test]
async fn tokens_are_bounded_in_bytes_and_time() {
    for (tail, class, text) in [
        (
            Tail::Endless,
            PullErrorClass::TooLarge,
            "token service: larger than the limit of 262144 bytes",
        ),
        (
            Tail::Drip(Duration::from_millis(10)),
            PullErrorClass::Unreachable,
            "token service: the response took longer than 2 s",
        ),
        (
            Tail::Drip(Duration::from_secs(60)),
            PullErrorClass::Unreachable,
            "token service: no data received for 1 s",
        ),
    ] {
        let tokens = Server::start(move |_| Answer::ok("{\"token\": \"").tail(tail)).await;
        let server = behind(&tokens).await;
        // Bytes are slow on a busy machine: the endless answer gets the time it needs.
        let limits = match tail {
            Tail::Endless => Limits::BUNDLE,
            Tail::Drip(_) => SHORT,
        };
        let error = refused(&Puller::default().with_limits(limits), &server).await;
        assert_eq!(error.class(), class, "{error}");
        assert!(error.to_string().contains(text), "{text}: {error}");
    }
}

/// Decompressed, this token service's answer would be a gigabyte; as bytes it is not JSON.
#[tokio::test]
async fn compressed_tokens_are_not_unpacked() {
    use std::io::Write as _;
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..64 {
        bomb.write_all(&[b' '; 1 << 16]).expect("compressed");
    }
    let bomb = bomb.finish().expect("compressed");
    let tokens = Server::start(move |_| Answer::ok(bomb.clone()).header("content-encoding", "gzip")).await;
    let error = refused(&Puller::default(), &behind(&tokens).await).await;
    assert_eq!(error.class(), PullErrorClass::Malformed, "{error}");
    assert!(
        error
            .to_string()
            .contains("response of the token service is not JSON"),
        "{error}"
    );
}

#[tokio::test]
async fn redirects_end() {
    let server = Server::start(|seen| {
        let next = format!("{}0", seen.path);
        Answer::status(307).header("location", &next)
    })
    .await;
    let error = refused(&Puller::default(), &server).await;
    assert_eq!(error.class(), PullErrorClass::Malformed, "{error}");
    assert!(error.to_string().contains("more than 5 redirects"), "{error}");
    assert_eq!(server.seen().len(), 6);
}

/// Storage behind a registry gets neither the registry's credentials nor its configured headers.
#[tokio::test]
async fn a_redirect_to_another_host_takes_no_credentials_along() {
    let image = image();
    let storage = faulty(&image, |_| None).await;
    let (origin, good) = (storage.address, Server::registry_script("demo/bundle", &image));
    let server = Server::start(move |seen| match seen.authorization.as_str() {
        "Basic dXNlcjpzZWNyZXQ=" if seen.path.contains("/blobs/") => {
            let there = format!("http://{origin}{}", seen.path);
            Answer::status(307).header("location", &there)
        }
        "Basic dXNlcjpzZWNyZXQ=" => good(seen),
        _ => Answer::status(401).header("www-authenticate", "Basic realm=\"x\""),
    })
    .await;
    let dir = tempfile::tempdir().expect("folder");
    let folder = dir.path().join(server.address.to_string());
    std::fs::create_dir(&folder).expect("folder");
    let hosts = format!(
        "server = \"http://{}\"\n[header]\nx-key = \"hush\"\n",
        server.address
    );
    std::fs::write(folder.join("hosts.toml"), hosts).expect("file");
    let puller = Puller::new(RegistryConfig::from_dir(dir.path()));
    let files = pull(&puller, &server, &password(&server)).await;
    assert_eq!(files.expect("pulled"), 2);
    assert!(
        server.seen().iter().all(|seen| seen.key == "hush"),
        "{:?}",
        server.seen()
    );
    assert!(!storage.seen().is_empty());
    for seen in storage.seen() {
        assert_eq!(
            (seen.authorization.as_str(), seen.key.as_str()),
            ("", ""),
            "{seen:?}"
        );
    }
}

/// A name and a password in a redirect's address are not sent on.
#[tokio::test]
async fn addresses_bring_no_credentials() {
    for user in ["name@", ":word@", "name:word@"] {
        let image = image();
        let storage = faulty(&image, |_| None).await;
        let (origin, good) = (storage.address, Server::registry_script("demo/bundle", &image));
        let server = Server::start(move |seen| match seen.path.contains("/blobs/") {
            true => {
                let there = format!("http://{user}{origin}{}", seen.path);
                Answer::status(307).header("location", &there)
            }
            false => good(seen),
        })
        .await;
        let files = pull(&Puller::default(), &server, &Credentials::anonymous()).await;
        assert_eq!(files.expect("pulled"), 2);
        let seen = storage.seen();
        assert!(!seen.is_empty());
        assert!(
            seen.iter().all(|seen| seen.authorization.is_empty()),
            "{user}: {seen:?}"
        );
    }
}

/// Storage behind a registry cannot name a token service of its own either, which would get the registry's
/// password.
#[tokio::test]
async fn the_target_of_a_redirect_cannot_request_credentials() {
    let thief = Server::start(|_| Answer::ok(r#"{"token":"ticket"}"#)).await;
    let storage = behind(&thief).await;
    let there = format!("http://{}/", storage.address);
    let server = Server::start(move |_| Answer::status(307).header("location", &there)).await;
    let error = pull(&Puller::default(), &server, &password(&server)).await;
    assert_eq!(error.expect_err("refused").class(), PullErrorClass::Unauthorized);
    assert_eq!(thief.seen(), []);
}

#[tokio::test]
async fn a_token_service_cannot_send_credentials_elsewhere() {
    let elsewhere = Server::start(|_| Answer::ok(r#"{"token":"ticket"}"#)).await;
    let there = format!("http://{}/token", elsewhere.address);
    let tokens = Server::start(move |_| Answer::status(307).header("location", &there)).await;
    let server = behind(&tokens).await;
    for kind in [
        r#""username":"user","password":"secret""#,
        r#""auth":"MDA6","identitytoken":"secret""#,
    ] {
        let text = format!(r#"{{"auths":{{"{}":{{{kind}}}}}}}"#, server.address);
        let credentials = Credentials::from_docker_config(text.as_bytes(), "test").expect("credentials");
        assert!(pull(&Puller::default(), &server, &credentials).await.is_err());
    }
    for seen in elsewhere.seen() {
        let message = format!("{seen:?}");
        assert!(
            !message.contains("secret") && seen.authorization.is_empty(),
            "{message}"
        );
    }
}

/// Manifests have the size of each layer; bytes beyond it are not read.
#[tokio::test]
async fn a_layer_longer_than_its_manifest_says_is_refused() {
    let image = image();
    let layers = image.clone();
    let server = faulty(&image, move |seen| {
        let found = layers
            .blobs()
            .iter()
            .find(|(digest, _)| seen.path.ends_with(digest.as_str()));
        let (_, blob) = found.filter(|(_, blob)| blob.starts_with(&[0x1f, 0x8b]))?;
        Some(Answer::ok(blob.clone()).tail(Tail::Endless))
    })
    .await;
    let error = refused(&Puller::default(), &server).await;
    assert_eq!(error.class(), PullErrorClass::DigestMismatch, "{error}");
    assert!(error.to_string().contains("exceeds the"), "{error}");
}

/// An answer that announces too much is rejected before it is sent.
#[tokio::test]
async fn content_announced_as_too_long_is_refused_before_it_is_read() {
    let image = image();
    let layer = image
        .blobs()
        .iter()
        .find(|(_, blob)| blob.starts_with(&[0x1f, 0x8b]));
    let (layer, blob) = layer.expect("layer");
    let announced = |bytes: usize| Answer {
        cut: Some(0),
        ..Answer::ok(vec![b' '; bytes])
    };
    for (part, answer, class, text) in [
        (
            "/manifests/".to_owned(),
            announced(5 << 20),
            PullErrorClass::TooLarge,
            "larger than the limit of 4194304 bytes",
        ),
        (
            format!("/blobs/{layer}"),
            announced(blob.len() + 1),
            PullErrorClass::DigestMismatch,
            "exceeds the",
        ),
    ] {
        let server = faulty(&image, move |seen| {
            seen.path.contains(&part).then(|| answer.clone())
        })
        .await;
        let error = refused(&Puller::default(), &server).await;
        assert_eq!(error.class(), class, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn an_image_has_so_many_layers_at_most() {
    let server = faulty(&image(), |_| None).await;
    let with = |layers| {
        Puller::default().with_limits(Limits {
            layers,
            ..Limits::BUNDLE
        })
    };
    let error = refused(&with(1), &server).await;
    assert_eq!(error.class(), PullErrorClass::TooLarge, "{error}");
    assert!(
        error.to_string().contains("2 layers exceed the limit of 1"),
        "{error}"
    );
    let asked = server.seen();
    assert!(
        !asked.iter().any(|seen| seen.path.contains("/blobs/")),
        "{asked:?}"
    );
    let files = pull(&with(2), &server, &Credentials::anonymous()).await;
    assert_eq!(files.expect("pulled"), 2);
}

#[tokio::test]
async fn a_pull_as_a_whole_has_a_limit_of_time() {
    let server = Server::start(|_| Answer::ok("{").tail(Tail::Drip(Duration::from_millis(10)))).await;
    let limits = Limits {
        time: Duration::from_millis(500),
        ..Limits::BUNDLE
    };
    let error = refused(&Puller::default().with_limits(limits), &server).await;
    assert_eq!(error.class(), PullErrorClass::Unreachable, "{error}");
    assert!(error.to_string().contains("timed out after 0.5 s"), "{error}");
}

#[tokio::test]
async fn all_layers_together_have_a_limit() {
    let server = faulty(&image(), |_| None).await;
    let limits = Limits {
        transfer: 300,
        ..Limits::BUNDLE
    };
    let error = refused(&Puller::default().with_limits(limits), &server).await;
    assert_eq!(error.class(), PullErrorClass::TooLarge, "{error}");
    assert!(error.to_string().contains("all layers together"), "{error}");
}
