//! Pulling from hosts that refuse, lie, stop or send too much. Real HTTP on loopback, the server scripted.

mod support;

use bytes::Bytes;
use olm_oci::{
    Credentials, Digest, ImageArchive, Limits, PullError, PullErrorClass, Puller, Reference, RegistryConfig,
};
use support::{Answer, MANIFESTS, Seen, Server, Tail, image};

const FILES: [&str; 2] = ["manifests/crd.yaml", "manifests/csv.yaml"];

async fn pull(puller: &Puller, reference: &Reference) -> Result<Vec<String>, PullError> {
    let content = puller
        .content(reference, &Credentials::anonymous(), MANIFESTS)
        .await?;
    assert_eq!(content.labels["package"], "demo");
    Ok(content.files.into_keys().collect())
}

/// Pulls the image as an anonymous user, which must fail.
async fn refused(server: &Server) -> PullError {
    let pulled = pull(&Puller::default(), &server.reference("demo/bundle:v1")).await;
    pulled.expect_err("refused")
}

/// Pulls the image with these credentials, which must succeed. Returns its digest.
async fn pulled_with(server: &Server, credentials: &Credentials) -> Digest {
    let reference = server.reference("demo/bundle:v1");
    let content = Puller::default()
        .content(&reference, credentials, MANIFESTS)
        .await;
    let content = content.expect("pulled");
    assert_eq!(content.files.len(), FILES.len());
    content.digest
}

/// Returns credentials for a server, from its entry in a Docker configuration.
fn credentials(server: &Server, entry: &str) -> Credentials {
    let text = format!(r#"{{"auths":{{"{}":{entry}}}}}"#, server.address);
    Credentials::from_docker_config(text.as_bytes(), "test").expect("credentials")
}

/// Replaces an answer of a good server; `None` keeps it.
type Fault = Box<dyn Fn(&Seen) -> Option<Answer> + Send + Sync>;

/// Serves a good image, except for the answers that `fault` replaces.
async fn faulty(
    image: &ImageArchive,
    fault: impl Fn(&Seen) -> Option<Answer> + Send + Sync + 'static,
) -> Server {
    let good = Server::registry_script("demo/bundle", image);
    Server::start(move |seen| fault(seen).unwrap_or_else(|| good(seen))).await
}

/// Returns whether a path is of the largest blob, the image's large layer.
fn is_large_layer(image: &ImageArchive, path: &str) -> bool {
    let largest = image
        .blobs()
        .iter()
        .max_by_key(|(_, blob)| blob.len())
        .map(|(digest, _)| digest.to_string());
    largest.is_some_and(|digest| path.ends_with(&digest))
}

#[tokio::test]
async fn a_good_image_is_pulled_by_tag_and_by_digest() {
    let image = image();
    let server = faulty(&image, |_| None).await;
    let puller = Puller::default();
    let by_tag = server.reference("demo/bundle:v1");
    assert_eq!(pull(&puller, &by_tag).await.expect("pulled"), FILES);
    let pinned = puller
        .resolve(&by_tag, &Credentials::anonymous())
        .await
        .expect("resolved");
    assert_eq!(pinned.digest(), Some(image.digest()));
    assert_eq!(pull(&puller, &pinned).await.expect("pulled"), FILES);
}

#[tokio::test]
async fn each_failure_has_its_class_and_names_image_and_host() {
    use PullErrorClass::{DigestMismatch, Malformed, NotFound, TooLarge, Unauthorized, Unreachable};
    let image = image();
    let at_manifest = |answer: Answer| -> Fault {
        Box::new(move |seen| seen.path.contains("/manifests/").then(|| answer.clone()))
    };
    let at_layer = |answer: Answer| -> Fault {
        let image = image.clone();
        Box::new(move |seen| is_large_layer(&image, &seen.path).then(|| answer.clone()))
    };
    let refusal = r#"{"errors":[{"code":"DENIED","message":"requested access to the resource is denied"}]}"#;
    let changed = {
        let largest = image.blobs().iter().max_by_key(|(_, blob)| blob.len());
        let mut bytes = largest.map(|(_, blob)| blob.to_vec()).expect("layer");
        *bytes.last_mut().expect("bytes") ^= 1;
        bytes
    };
    let half = Answer {
        cut: Some(100),
        ..Answer::ok(vec![1u8; 300])
    };
    let huge = Answer::ok(vec![b' '; 5 << 20]);
    let statuses = [
        (404, NotFound, "not found (HTTP 404)"),
        (401, Unauthorized, "unauthorised (HTTP 401)"),
        (500, Unreachable, "server error (HTTP 500)"),
        (429, Unreachable, "too many requests (HTTP 429)"),
        (418, Malformed, "unexpected response (HTTP 418)"),
    ];
    let mut cases: Vec<(Fault, PullErrorClass, &str)> = vec![
        (
            at_manifest(Answer {
                body: refusal.into(),
                ..Answer::status(403)
            }),
            Unauthorized,
            "access denied (HTTP 403): requested access to the resource is denied",
        ),
        (
            at_manifest(Answer::ok("<html>")),
            Malformed,
            "cannot read the manifest",
        ),
        (
            at_manifest(huge),
            TooLarge,
            "larger than the limit of 4194304 bytes",
        ),
        (at_layer(Answer::status(404)), NotFound, "not found (HTTP 404)"),
        (at_layer(half), Unreachable, "error decoding response body"),
        (
            at_layer(Answer::ok("other")),
            DigestMismatch,
            "has digest sha256:",
        ),
        (
            at_layer(Answer::ok(changed)),
            DigestMismatch,
            "has digest sha256:",
        ),
    ];
    for (status, class, text) in statuses {
        cases.push((at_manifest(Answer::status(status)), class, text));
    }
    for (fault, class, text) in cases {
        let server = faulty(&image, fault).await;
        let reference = server.reference("demo/bundle:v1");
        let error = pull(&Puller::default(), &reference).await.expect_err(text);
        assert_eq!(error.class(), class, "{text}: {error}");
        let message = error.to_string();
        for part in [
            text,
            &reference.to_string(),
            &format!("http://{}", server.address),
        ] {
            assert!(
                message.contains(part),
                "{text}: `{part}` is missing in: {message}"
            );
        }
    }
}

#[tokio::test]
async fn a_manifest_that_is_not_the_one_asked_for_is_refused() {
    let image = image();
    let server = faulty(&image, |_| None).await;
    let other = Digest::sha256(b"something else");
    let manifest = image.manifest().clone();
    let path = format!("/v2/demo/bundle/manifests/{other}");
    let liar = faulty(&image, move |seen| {
        (seen.path == path).then(|| Answer::ok(manifest.clone()))
    })
    .await;
    let wrong = liar.reference("demo/bundle").pinned(other.clone());
    let error = pull(&Puller::default(), &wrong).await.expect_err("wrong digest");
    assert_eq!(error.class(), PullErrorClass::DigestMismatch);
    let unknown = server.reference("demo/bundle").pinned(other);
    let error = pull(&Puller::default(), &unknown)
        .await
        .expect_err("unknown digest");
    assert_eq!(error.class(), PullErrorClass::NotFound);
}

#[tokio::test]
async fn a_manifest_damaged_on_the_way_is_noticed_by_tag_too() {
    let image = image();
    let digest = image.digest().to_string();
    let damaged = Bytes::from(String::from_utf8_lossy(image.manifest()).replace("size\":", "size\": "));
    let server = faulty(&image, move |seen| {
        let answer = Answer::ok(damaged.clone()).header("docker-content-digest", &digest);
        seen.path.contains("/manifests/").then_some(answer)
    })
    .await;
    let error = refused(&server).await;
    assert_eq!(error.class(), PullErrorClass::DigestMismatch);
}

/// Limits are checked with these sizes before anything is requested.
#[tokio::test]
async fn a_layer_has_the_size_that_its_manifest_names() {
    let image = image();
    let mut manifest: serde_json::Value = serde_json::from_slice(image.manifest()).expect("manifest");
    let size = manifest["layers"][0]["size"].as_u64().expect("size");
    for (told, text) in [
        (size + 1, format!("has {size} bytes, expected {}", size + 1)),
        (size - 1, format!("exceeds the {} bytes", size - 1)),
    ] {
        manifest["layers"][0]["size"] = told.into();
        let body = manifest.to_string();
        let server = faulty(&image, move |seen| {
            seen.path.ends_with("/v1").then(|| Answer::ok(body.clone()))
        })
        .await;
        let error = refused(&server).await;
        assert_eq!(error.class(), PullErrorClass::DigestMismatch, "{error}");
        assert!(error.to_string().contains(&text), "{error}");
    }
}

#[tokio::test]
async fn an_address_without_a_listener_is_reported_as_unreachable() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("port")
        .port();
    let reference: Reference = format!("127.0.0.1:{port}/a/b:v1").parse().expect("reference");
    let error = pull(&Puller::default(), &reference).await.expect_err("nobody");
    assert_eq!(error.class(), PullErrorClass::Unreachable);
    assert!(
        error.to_string().to_lowercase().contains("connection refused"),
        "{error}"
    );
}

#[tokio::test]
async fn an_image_that_is_a_bomb_is_too_large() {
    let mut layer = olm_oci::LayerSpec::new();
    layer
        .file("elsewhere/zeros", vec![0u8; 8 << 20], 0o644, 0)
        .expect("file");
    let bomb = olm_oci::ImageSpec {
        layers: vec![layer],
        ..Default::default()
    }
    .build()
    .expect("image");
    let server = faulty(&bomb, |_| None).await;
    let puller = Puller::default().with_limits(Limits {
        unpacked: 1 << 20,
        ..Limits::BUNDLE
    });
    let error = pull(&puller, &server.reference("demo/bundle:v1"))
        .await
        .expect_err("bomb");
    assert_eq!(error.class(), PullErrorClass::TooLarge);
    let puller = Puller::default().with_limits(Limits {
        layer: 100,
        ..Limits::BUNDLE
    });
    let error = pull(&puller, &server.reference("demo/bundle:v1"))
        .await
        .expect_err("large layer");
    assert!(
        error.to_string().contains("larger than the limit of 100 bytes"),
        "{error}"
    );
}

fn config_with_mirrors(dir: &tempfile::TempDir, mirrors: &[&Server]) -> RegistryConfig {
    let folder = dir.path().join("_default");
    std::fs::create_dir_all(&folder).expect("folder");
    let mut text = String::new();
    for mirror in mirrors {
        text.push_str(&format!(
            "[host.\"http://{}\"]\ncapabilities = [\"pull\", \"resolve\"]\n",
            mirror.address
        ));
    }
    std::fs::write(folder.join("hosts.toml"), text).expect("file");
    RegistryConfig::from_dir(dir.path())
}

/// Pulls an image of quay.io, which only these mirrors serve.
async fn pulled_by_mirrors(mirrors: &[&Server]) {
    let dir = tempfile::tempdir().expect("folder");
    let puller = Puller::new(config_with_mirrors(&dir, mirrors));
    let reference: Reference = "quay.io/demo/bundle:v1".parse().expect("reference");
    assert_eq!(pull(&puller, &reference).await.expect("pulled"), FILES);
}

#[tokio::test]
async fn mirrors_are_tried_in_order_and_get_the_name_of_their_registry() {
    let image = image();
    let empty = Server::start(|_| Answer::status(404)).await;
    let full = faulty(&image, |_| None).await;
    pulled_by_mirrors(&[&empty, &full]).await;
    assert_eq!(
        empty.seen().len(),
        1,
        "whoever has answered is asked first from then on"
    );
    assert!(full.seen().iter().all(|seen| seen.query == "ns=quay.io"));
}

#[tokio::test]
async fn a_mirror_with_damaged_layers_does_not_hide_a_good_one() {
    let image = image();
    let layers = image.clone();
    let bad = faulty(&image, move |seen| {
        is_large_layer(&layers, &seen.path).then(|| Answer::ok("bad"))
    })
    .await;
    let good = faulty(&image, |_| None).await;
    pulled_by_mirrors(&[&bad, &good]).await;
}

#[tokio::test]
async fn a_mirror_that_answers_with_a_web_page_does_not_hide_a_good_one() {
    let image = image();
    let portal = Server::start(|_| Answer::ok("<html>log in here</html>")).await;
    let good = faulty(&image, |_| None).await;
    pulled_by_mirrors(&[&portal, &good]).await;
}

#[tokio::test]
async fn every_host_that_failed_is_named() {
    let [one, two] = [
        Server::start(|_| Answer::status(404)).await,
        Server::start(|_| Answer::status(401)).await,
    ];
    let dir = tempfile::tempdir().expect("folder");
    let config = config_with_mirrors(&dir, &[&one, &two]);
    let reference = one.reference("demo/bundle:v1");
    let error = pull(&Puller::new(config), &reference)
        .await
        .expect_err("nobody has it");
    assert_eq!(error.class(), PullErrorClass::Unauthorized);
    assert_eq!(error.attempts().len(), 3);
    assert!(error.to_string().contains(&two.address.to_string()), "{error}");
}

#[tokio::test]
async fn broken_registry_configuration_is_reported_with_the_image() {
    let dir = tempfile::tempdir().expect("folder");
    std::fs::create_dir(dir.path().join("_default")).expect("folder");
    std::fs::write(dir.path().join("_default/hosts.toml"), "server = 1").expect("file");
    let reference: Reference = "quay.io/a/b:v1".parse().expect("reference");
    let error = pull(&Puller::new(RegistryConfig::from_dir(dir.path())), &reference)
        .await
        .expect_err("broken");
    assert_eq!(error.class(), PullErrorClass::Malformed);
    assert!(
        error.to_string().contains("quay.io/a/b:v1") && error.to_string().contains("hosts.toml"),
        "{error}"
    );
}

/// Returns the challenge that names a token service.
fn realm(tokens: &Server) -> String {
    format!(
        "Bearer realm=\"http://{}/token\",service=\"test\"",
        tokens.address
    )
}

/// Starts a registry with the image that wants the token `ticket`.
async fn behind(tokens: &Server) -> Server {
    let good = Server::registry_script("demo/bundle", &image());
    let realm = realm(tokens);
    Server::start(move |seen| match seen.authorization.as_str() {
        "Bearer ticket" if seen.path != "/v2/" => good(seen),
        _ => Answer::status(401).header("www-authenticate", &realm),
    })
    .await
}

#[tokio::test]
async fn a_challenge_leads_to_the_token_service_and_back() {
    let tokens = Server::start(|seen| match seen.authorization.as_str() {
        "Basic c2Vjb25kOnJpZ2h0" => Answer::ok(r#"{"token":"ticket"}"#),
        _ => Answer::status(401),
    })
    .await;
    let server = behind(&tokens).await;
    let text = format!(
        r#"{{"auths":{{"{0}/demo":{{"username":"first","password":"wrong"}},"{0}":{{"username":"second","password":"right"}}}}}}"#,
        server.address
    );
    let credentials = Credentials::from_docker_config(text.as_bytes(), "test").expect("credentials");
    let reference = server.reference("demo/bundle:v1");
    pulled_with(&server, &credentials).await;
    let asked: Vec<String> = tokens.seen().into_iter().map(|seen| seen.authorization).collect();
    assert_eq!(
        asked.len(),
        2,
        "the more specific credential is tried first, the token is then kept: {asked:?}"
    );
    assert!(
        tokens
            .seen()
            .iter()
            .all(|seen| seen.query.contains("scope=repository%3Ademo%2Fbundle%3Apull"))
    );
    let error = Puller::default()
        .resolve(&reference, &Credentials::anonymous())
        .await
        .expect_err("anonymous");
    assert_eq!(error.class(), PullErrorClass::Unauthorized);
}

/// `docker login` keeps an identity token if users sign in elsewhere. It is not sent to the registry.
#[tokio::test]
async fn an_identity_token_is_exchanged() {
    let tokens = Server::start(|seen| {
        let is_ours = seen.posted.contains("grant_type=refresh_token&service=test&")
            && seen
                .posted
                .ends_with("&scope=repository%3Ademo%2Fbundle%3Apull&refresh_token=who+I%2Bam");
        match is_ours {
            true => Answer::ok(r#"{"access_token":"ticket"}"#),
            false => Answer::status(401),
        }
    })
    .await;
    let server = behind(&tokens).await;
    let identity = |token: &str| {
        credentials(
            &server,
            &format!(r#"{{"auth":"MDA6","identitytoken":"{token}"}}"#),
        )
    };
    let reference = server.reference("demo/bundle:v1");
    pulled_with(&server, &identity("who I+am")).await;
    let shown = server.seen();
    assert!(
        shown.iter().all(|seen| !format!("{seen:?}").contains("who")),
        "{shown:?}"
    );
    let error = Puller::default()
        .resolve(&reference, &identity("revoked"))
        .await
        .expect_err("revoked");
    assert_eq!(error.class(), PullErrorClass::Unauthorized);
    assert!(!error.to_string().contains("revoked"), "{error}");
}

/// A registry that accepts only passwords might write the token to its log.
#[tokio::test]
async fn an_identity_token_is_shown_to_no_registry() {
    let server =
        Server::start(|_| Answer::status(401).header("www-authenticate", "Basic realm=\"test\"")).await;
    let credentials = credentials(&server, r#"{"identitytoken":"who-I-am"}"#);
    let error = Puller::default()
        .resolve(&server.reference("demo/bundle:v1"), &credentials)
        .await
        .expect_err("refused");
    assert_eq!(error.class(), PullErrorClass::Unauthorized, "{error}");
    assert!(error.to_string().contains("has no token service"), "{error}");
    let shown: Vec<String> = server.seen().into_iter().map(|seen| seen.authorization).collect();
    assert!(
        !shown.is_empty() && shown.iter().all(String::is_empty),
        "{shown:?}"
    );
}

#[tokio::test]
async fn an_index_is_followed_to_one_image() {
    let image = image();
    let index = serde_json::to_vec(&serde_json::json!({"schemaVersion": 2, "manifests": [
        {"mediaType": image.media_type(), "digest": Digest::sha256(b"x").as_str(), "size": 1,
         "platform": {"os": "unknown", "architecture": "unknown"}},
        {"mediaType": image.media_type(), "digest": image.digest().as_str(), "size": image.manifest().len(),
         "platform": {"os": "linux", "architecture": "s390x"}}]}))
    .expect("index");
    let digest = Digest::sha256(&index);
    let server = faulty(&image, move |seen| {
        seen.path.ends_with("/v1").then(|| Answer::ok(index.clone()))
    })
    .await;
    let pulled = pulled_with(&server, &Credentials::anonymous()).await;
    assert_eq!(pulled, digest, "the reference means the index");
}

#[tokio::test]
async fn an_index_leads_to_an_image_and_to_no_other_index() {
    let image = image();
    let index = |digest: &Digest| {
        serde_json::json!({"schemaVersion": 2, "manifests": [
            {"mediaType": image.media_type(), "digest": digest.as_str(), "size": 1}]})
        .to_string()
    };
    let inner = index(image.digest());
    let inner_digest = Digest::sha256(inner.as_bytes());
    let outer = index(&inner_digest);
    let inner_path = format!("/v2/demo/bundle/manifests/{inner_digest}");
    let server = faulty(&image, move |seen| match seen.path.as_str() {
        "/v2/demo/bundle/manifests/v1" => Some(Answer::ok(outer.clone())),
        path => (path == inner_path).then(|| Answer::ok(inner.clone())),
    })
    .await;
    let error = refused(&server).await;
    assert_eq!(error.class(), PullErrorClass::Malformed, "{error}");
    assert!(
        error.to_string().contains("the index refers to another index"),
        "{error}"
    );
}

/// Tokens are short-lived: one that expires between manifest and layers is fetched again.
#[tokio::test]
async fn a_token_that_expires_on_the_way_is_refreshed() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let image = image();
    let good = Server::registry_script("demo/bundle", &image);
    let issued = std::sync::Arc::new(AtomicUsize::new(0));
    let count = issued.clone();
    let tokens = Server::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        Answer::ok(format!(r#"{{"token":"ticket-{number}"}}"#))
    })
    .await;
    let realm = realm(&tokens);
    let current = issued.clone();
    let served = AtomicUsize::new(0);
    let server = Server::start(move |seen| {
        let newest = format!("Bearer ticket-{}", current.load(Ordering::SeqCst));
        if seen.authorization == newest && seen.path != "/v2/" {
            // The manifest is served for the first token, the rest for later ones only.
            let is_first = newest.ends_with("-1");
            if !is_first || served.fetch_add(1, Ordering::SeqCst) == 0 {
                return good(seen);
            }
        }
        Answer::status(401).header("www-authenticate", &realm)
    })
    .await;
    pulled_with(&server, &Credentials::anonymous()).await;
    assert_eq!(
        issued.load(Ordering::SeqCst),
        2,
        "one token at first, one when it had expired"
    );
}

/// A check whether a tag has moved needs no manifest, if the registry reports its digest without one.
#[tokio::test]
async fn the_digest_of_a_tag_comes_from_headers_alone_or_else_from_the_manifest() {
    let image = image();
    let anonymous = Credentials::anonymous();
    let head = |seen: &Seen| seen.posted.starts_with("HEAD");
    let without_head = |status| -> Fault { Box::new(move |seen| head(seen).then(|| Answer::status(status))) };
    let faults: [(Fault, &[&str]); 4] = [
        (Box::new(|_| None), &["HEAD "]),
        (
            Box::new(move |seen| head(seen).then(|| Answer::ok(""))),
            &["HEAD ", ""],
        ),
        (without_head(405), &["HEAD ", ""]),
        (without_head(501), &["HEAD ", ""]),
    ];
    for (fault, expected) in faults {
        let server = faulty(&image, fault).await;
        let tag = server.reference("demo/bundle:v1");
        let told = Puller::default().reported_digest(&tag, &anonymous).await;
        assert_eq!(&told.expect("told"), image.digest());
        let seen = server.seen();
        let methods: Vec<&str> = seen.iter().map(|seen| seen.posted.as_str()).collect();
        assert_eq!(methods, expected);
        // A reference with a digest needs no request.
        let pinned = tag.pinned(image.digest().clone());
        let told = Puller::default().reported_digest(&pinned, &anonymous).await;
        assert_eq!(&told.expect("told"), image.digest());
        assert_eq!(server.seen().len(), expected.len());
    }
    for (status, class) in [
        (401, PullErrorClass::Unauthorized),
        (404, PullErrorClass::NotFound),
        (503, PullErrorClass::Unreachable),
    ] {
        let server = faulty(&image, move |_| Some(Answer::status(status))).await;
        let tag = server.reference("demo/bundle:v1");
        let told = Puller::default().reported_digest(&tag, &anonymous).await;
        assert_eq!(told.expect_err("refused").class(), class, "{status}");
    }
}

/// An endless answer is cut off: neither time nor bytes are unbounded.
#[tokio::test]
async fn an_endless_answer_about_a_digest_ends() {
    let image = image();
    let server = faulty(&image, |_| Some(Answer::ok("").tail(Tail::Endless))).await;
    let tag = server.reference("demo/bundle:v1");
    let told = Puller::default()
        .reported_digest(&tag, &Credentials::anonymous())
        .await;
    assert_eq!(told.expect_err("endless").class(), PullErrorClass::TooLarge);
}
