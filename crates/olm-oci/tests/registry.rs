//! Push and pull against a real registry.

mod support;

use olm_oci::{ContainerTools, Credentials, PullErrorClass, Puller, Pusher, Reference, RegistryConfig};
use support::{MANIFESTS, Registry, image};

#[tokio::test]
async fn what_is_pushed_is_pulled_with_the_same_digest() {
    let Some(registry) = Registry::start(None) else {
        return;
    };
    let image = image();
    let name: Reference = format!("{}/demo/bundle:v1", registry.address)
        .parse()
        .expect("reference");
    let anonymous = Credentials::anonymous();
    let pinned = Pusher::default()
        .push(&image, &name, &anonymous)
        .await
        .expect("pushed");
    assert_eq!(pinned.digest(), Some(image.digest()));
    let again = Pusher::default()
        .push(&image, &name, &anonymous)
        .await
        .expect("pushed again");
    assert_eq!(again, pinned);

    let puller = Puller::default();
    assert_eq!(puller.resolve(&name, &anonymous).await.expect("resolved"), pinned);
    for reference in [&name, &pinned] {
        let content = puller
            .content(reference, &anonymous, MANIFESTS)
            .await
            .expect("pulled");
        assert_eq!(
            content.files.keys().collect::<Vec<_>>(),
            ["manifests/crd.yaml", "manifests/csv.yaml"]
        );
        assert_eq!(&content.digest, image.digest());
        let folder = tempfile::tempdir().expect("folder");
        let mut opened = puller.open(reference, &anonymous).await.expect("opened");
        let count = opened
            .write_below("/manifests", folder.path())
            .await
            .expect("written");
        assert_eq!(count, 2);
        for (name, bytes) in content.below("manifests") {
            let written = std::fs::read(folder.path().join(name)).expect("file");
            assert_eq!(written, *bytes, "{name}");
        }
    }
    let missing = format!("{}/demo/bundle:v2", registry.address);
    let missing = missing.parse().expect("reference");
    let error = puller.resolve(&missing, &anonymous).await.expect_err("missing");
    assert_eq!(error.class(), PullErrorClass::NotFound, "{error}");
    assert!(error.to_string().contains("manifest unknown"), "{error}");
}

#[tokio::test]
async fn one_registry_stands_for_all_through_the_default_folder() {
    let Some(registry) = Registry::start(None) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    std::fs::create_dir(dir.path().join("_default")).expect("folder");
    let text = format!(
        "[host.\"http://{}\"]\ncapabilities = [\"pull\", \"resolve\", \"push\"]\n",
        registry.address
    );
    std::fs::write(dir.path().join("_default/hosts.toml"), text).expect("file");
    let config = RegistryConfig::from_dir(dir.path());
    let image = image();
    let name: Reference = "quay.io/demo/bundle:v1".parse().expect("reference");
    let anonymous = Credentials::anonymous();
    Pusher::new(config.clone())
        .push(&image, &name, &anonymous)
        .await
        .expect("pushed");
    let content = Puller::new(config)
        .content(&name, &anonymous, MANIFESTS)
        .await
        .expect("pulled");
    assert_eq!(&content.digest, image.digest());
}

#[tokio::test]
async fn passwords_are_needed_where_the_registry_wants_them() {
    // user:secret
    let htpasswd = "user:$2b$04$xyPcTkWSMxQaSWT72MbsYuaXjL3nC7j8hO66yhccgTJUQ5gDZyf0S\n";
    let Some(registry) = Registry::start(Some(htpasswd)) else {
        return;
    };
    let name: Reference = format!("{}/demo/bundle:v1", registry.address)
        .parse()
        .expect("reference");
    let error = Puller::default()
        .resolve(&name, &Credentials::anonymous())
        .await
        .expect_err("anonymous");
    assert_eq!(error.class(), PullErrorClass::Unauthorized, "{error}");
    let wrong = credentials(&registry, "wrong");
    let error = Pusher::default()
        .push(&image(), &name, &wrong)
        .await
        .expect_err("wrong password");
    assert_eq!(error.class(), PullErrorClass::Unauthorized, "{error}");
    assert!(error.to_string().starts_with("cannot push image"), "{error}");
    let right = credentials(&registry, "secret");
    Pusher::default()
        .push(&image(), &name, &right)
        .await
        .expect("pushed");
    assert!(Puller::default().content(&name, &right, MANIFESTS).await.is_ok());
    assert!(Puller::default().content(&name, &wrong, MANIFESTS).await.is_err());
}

fn credentials(registry: &Registry, password: &str) -> Credentials {
    let text = format!(
        r#"{{"auths":{{"{}":{{"username":"user","password":"{password}"}}}}}}"#,
        registry.address
    );
    Credentials::from_docker_config(text.as_bytes(), "test").expect("credentials")
}

#[tokio::test]
async fn tls_is_verified_against_the_configured_authority() {
    let key = rcgen::KeyPair::generate().expect("key");
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let certificate = rcgen::CertificateParams::new(names)
        .expect("names")
        .self_signed(&key)
        .expect("certificate");
    let Some(registry) = Registry::start_tls(&certificate.pem(), &key.serialize_pem()) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    let folder = dir.path().join(registry.address.replace(':', "_") + "_");
    std::fs::create_dir(&folder).expect("folder");
    std::fs::write(folder.join("ca.crt"), certificate.pem()).expect("file");
    let config = |keys: &str| {
        let text = format!("server = \"https://{}\"\n{keys}\n", registry.address);
        std::fs::write(folder.join("hosts.toml"), text).expect("file");
        RegistryConfig::from_dir(dir.path())
    };
    let name: Reference = format!("{}/demo/bundle:v1", registry.address)
        .parse()
        .expect("reference");
    let anonymous = Credentials::anonymous();
    Pusher::new(config("ca = \"ca.crt\""))
        .push(&image(), &name, &anonymous)
        .await
        .expect("pushed");
    for keys in ["ca = \"ca.crt\"", "skip_verify = true"] {
        let content = Puller::new(config(keys))
            .content(&name, &anonymous, MANIFESTS)
            .await
            .expect(keys);
        assert_eq!(content.files.len(), 2);
    }
    let error = Puller::new(config(""))
        .resolve(&name, &anonymous)
        .await
        .expect_err("unknown authority");
    assert_eq!(error.class(), PullErrorClass::Untrusted);
    assert!(error.to_string().contains("certificate"), "{error}");
    let error = Puller::new(config("ca = \"missing.crt\""))
        .resolve(&name, &anonymous)
        .await
        .expect_err("no file");
    assert!(error.to_string().contains("missing.crt"), "{error}");
}

/// A name that does not exist, by RFC 2606. A node may resolve it to another host.
#[tokio::test]
async fn a_host_without_an_address_is_distinguished_from_a_silent_one() {
    let class = |name: &'static str| async move {
        let reference: Reference = name.parse().expect("reference");
        let resolved = Puller::default()
            .resolve(&reference, &Credentials::anonymous())
            .await;
        resolved.expect_err("nobody is there").class()
    };
    assert_eq!(
        class("registry.invalid/demo/bundle:v1").await,
        PullErrorClass::UnknownHost
    );
    assert_eq!(
        class("127.0.0.1:1/demo/bundle:v1").await,
        PullErrorClass::Unreachable
    );
}

/// The listener speaks no TLS. A node may know better: a mirror over plain HTTP, or another authority.
#[tokio::test]
async fn a_host_with_a_failed_tls_handshake_is_distinguished_from_a_silent_one() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("port");
    let address = listener.local_addr().expect("address").to_string();
    std::thread::spawn(move || {
        for connection in listener.incoming().take(8) {
            let mut connection = connection.expect("connection");
            let _ = std::io::Write::write_all(&mut connection, b"HTTP/1.0 400 Bad Request\r\n\r\n");
        }
    });
    let dir = tempfile::tempdir().expect("folder");
    let folder = dir.path().join(address.replace(':', "_") + "_");
    std::fs::create_dir(&folder).expect("folder");
    std::fs::write(
        folder.join("hosts.toml"),
        format!("server = \"https://{address}\"\n"),
    )
    .expect("file");
    let name: Reference = format!("{address}/demo/bundle:v1").parse().expect("reference");
    let resolved = Puller::new(RegistryConfig::from_dir(dir.path()))
        .resolve(&name, &Credentials::anonymous())
        .await;
    let error = resolved.expect_err("no TLS");
    assert_eq!(error.class(), PullErrorClass::Untrusted, "{error}");
    assert!(
        error
            .to_string()
            .contains("give it an http:// address in hosts.toml"),
        "{error}"
    );
}

/// A file of authorities for all registries applies in addition to each registry's own.
#[tokio::test]
async fn an_authority_for_every_registry_is_believed() {
    let key = rcgen::KeyPair::generate().expect("key");
    let certificate = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .expect("names")
        .self_signed(&key)
        .expect("certificate");
    let Some(registry) = Registry::start_tls(&certificate.pem(), &key.serialize_pem()) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    let authorities = dir.path().join("ca.crt");
    std::fs::write(&authorities, certificate.pem()).expect("file");
    let folder = dir.path().join(registry.address.replace(':', "_") + "_");
    std::fs::create_dir(&folder).expect("folder");
    let server = format!("server = \"https://{}\"\n", registry.address);
    std::fs::write(folder.join("hosts.toml"), server).expect("file");
    let name: Reference = format!("{}/demo/bundle:v1", registry.address)
        .parse()
        .expect("reference");
    let anonymous = Credentials::anonymous();
    let config = RegistryConfig::from_dir(dir.path());
    let error = Puller::new(config.clone()).resolve(&name, &anonymous).await;
    assert_eq!(
        error.expect_err("unknown authority").class(),
        PullErrorClass::Untrusted
    );
    let missing = Puller::new(config.with_root_ca(authorities))
        .resolve(&name, &anonymous)
        .await;
    assert_eq!(
        missing.expect_err("an empty registry").class(),
        PullErrorClass::NotFound
    );
}

/// This holds on this machine too, where a registry without TLS needs no flag.
#[tokio::test]
async fn a_registry_that_speaks_https_is_never_asked_in_the_clear() {
    let key = rcgen::KeyPair::generate().expect("key");
    let certificate = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .expect("names")
        .self_signed(&key)
        .expect("certificate");
    let Some(registry) = Registry::start_tls(&certificate.pem(), &key.serialize_pem()) else {
        return;
    };
    let name: Reference = format!("{}/demo/bundle:v1", registry.address)
        .parse()
        .expect("reference");
    let anonymous = Credentials::anonymous();
    let error = Puller::default()
        .resolve(&name, &anonymous)
        .await
        .expect_err("unknown authority");
    assert_eq!(error.class(), PullErrorClass::Untrusted, "{error}");
    assert!(error.to_string().contains("https://"), "{error}");
    assert!(!error.to_string().contains("does not speak TLS"), "{error}");
    let insecure = RegistryConfig::default().with_insecure(true);
    Pusher::new(insecure.clone())
        .push(&image(), &name, &anonymous)
        .await
        .expect("pushed");
    assert!(
        Puller::new(insecure)
            .content(&name, &anonymous, MANIFESTS)
            .await
            .is_ok()
    );
    let root = tempfile::tempdir().expect("folder");
    let folder = root.path().join("etc/docker/certs.d").join(&registry.address);
    std::fs::create_dir_all(&folder).expect("folder");
    std::fs::write(folder.join("ca.crt"), certificate.pem()).expect("file");
    let tools = ContainerTools::new(None).with_root(root.path());
    let trusting = RegistryConfig::default().with_tools(tools);
    assert!(
        Puller::new(trusting)
            .content(&name, &anonymous, MANIFESTS)
            .await
            .is_ok()
    );
}
