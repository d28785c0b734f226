use std::fs;
use std::path::Path;

use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, ClientConnection, NamedGroup, ServerConnection};
use tempfile::TempDir;
use tokio::sync::watch;

use super::authority::Authority;
use super::*;
use crate::written::Written;

const PROTOCOLS: &[&[u8]] = &[b"http/1.1"];

fn served(folder: &Path, authority: &Authority) -> (watch::Receiver<Arc<ServerConfig>>, TlsFiles) {
    let files = authority.files(folder, None);
    let (config, keeping) = files.clone().serve(PROTOCOLS).unwrap();
    tokio::spawn(keeping);
    (config, files)
}

#[tokio::test(start_paused = true)]
async fn files_that_change_are_served_with_and_broken_ones_are_not() {
    let folder = TempDir::new().unwrap();
    let (mut config, files) = served(folder.path(), &Authority::new("one"));
    let first = Arc::clone(&config.borrow_and_update());
    // The new key does not match the old certificate until the new certificate is written.
    let (certificate, key) = Authority::new("two").sign("server", &[]);
    fs::write(&files.key, key).unwrap();
    tokio::time::sleep(2 * LOOK_EVERY).await;
    assert!(!config.has_changed().unwrap());
    fs::remove_file(&files.certificate).unwrap();
    tokio::time::sleep(2 * LOOK_EVERY).await;
    assert!(!config.has_changed().unwrap());
    fs::write(&files.certificate, certificate).unwrap();
    tokio::time::sleep(2 * LOOK_EVERY).await;
    assert!(config.has_changed().unwrap());
    assert!(!Arc::ptr_eq(&first, &config.borrow_and_update()));
    tokio::time::sleep(5 * LOOK_EVERY).await;
    assert!(!config.has_changed().unwrap(), "the same files are the same");
}

/// A Secret that breaks again, perhaps weeks later, is logged again.
#[tokio::test(start_paused = true)]
async fn a_fault_of_the_files_is_reported_once_each_time_it_comes() {
    let (written, _here) = Written::of_this_thread();
    let folder = TempDir::new().unwrap();
    let (_config, files) = served(folder.path(), &Authority::new("one"));
    let key = fs::read(&files.key).unwrap();
    for times in 1..3 {
        fs::write(&files.key, "nothing").unwrap();
        tokio::time::sleep(5 * LOOK_EVERY).await;
        let told = written.count("cannot reload certificate files, keeping the previous certificate");
        assert_eq!(told, times, "{}", written.text());
        fs::write(&files.key, &key).unwrap();
        tokio::time::sleep(2 * LOOK_EVERY).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_authority_of_clients_that_changes_is_taken_up() {
    let folder = TempDir::new().unwrap();
    let files = Authority::new("one").files(folder.path(), Some(&Authority::new("clients")));
    let (mut config, keeping) = files.clone().serve(PROTOCOLS).unwrap();
    tokio::spawn(keeping);
    config.mark_unchanged();
    fs::write(files.client_ca.unwrap(), Authority::new("others").pem).unwrap();
    tokio::time::sleep(2 * LOOK_EVERY).await;
    assert!(config.has_changed().unwrap());
}

#[test]
fn what_cannot_be_served_with_is_reported_by_its_file() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("one");
    let begin = |files: &TlsFiles| {
        files
            .clone()
            .serve(PROTOCOLS)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let mut files = authority.files(folder.path(), Some(&authority));
    assert!(files.clone().serve(PROTOCOLS).is_ok());
    fs::write(files.client_ca.clone().unwrap(), "nothing").unwrap();
    let ca = folder.path().join("ca.crt");
    assert_eq!(
        begin(&files),
        format!("{} has no certificate in PEM form", ca.display())
    );
    files.client_ca = None;
    fs::write(&files.key, "nothing").unwrap();
    assert_eq!(
        begin(&files),
        format!("{} has no key in PEM form", files.key.display())
    );
    fs::write(&files.certificate, vec![b' '; 2 << 20]).unwrap();
    assert!(begin(&files).contains("larger than 1 MiB"), "{}", begin(&files));
    fs::remove_file(&files.certificate).unwrap();
    assert!(begin(&files).starts_with(&format!("cannot read {}", files.certificate.display())));
}

#[test]
fn no_text_of_a_key_pair_has_the_key() {
    let folder = TempDir::new().unwrap();
    let files = Authority::new("one").files(folder.path(), None);
    let pair = KeyPair::read(&files.certificate, &files.key).unwrap();
    let first = format!("{}, {}, {}", pair.key[0], pair.key[1], pair.key[2]);
    let text = format!("{pair:?}");
    assert!(text.contains("tls.key") && !text.contains(&first), "{text}");
}

/// A resumed session would not verify the client's certificate again, although it may have expired.
#[test]
fn client_certificates_disable_session_resumption() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("one");
    let files = authority.files(folder.path(), None);
    let pair = KeyPair::read(&files.certificate, &files.key).unwrap();
    let clients: Vec<_> = CertificateDer::pem_slice_iter(authority.pem.as_bytes())
        .map(Result::unwrap)
        .collect();
    for (authorities, resumes) in [(&[][..], true), (&clients[..], false)] {
        let config = pair.config(authorities, &VERSIONS, PROTOCOLS).unwrap();
        assert_eq!(config.session_storage.can_cache(), resumes);
        assert_eq!(config.send_tls13_tickets > 0, resumes);
    }
}

/// Go, and so the API server, uses the last one.
#[test]
fn the_last_of_several_common_names_counts() {
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "system:admin");
    params
        .distinguished_name
        .push(rcgen::DnType::CustomDnType(vec![2, 5, 4, 3]), "eve");
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    assert_eq!(Subject::of(certificate.der()).common_name, "eve");
}

#[test]
fn a_subject_has_a_name_and_its_organization() {
    let (pem, _) = Authority::new("one").sign("prometheus", &["scrapers"]);
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let subject = Subject {
        common_name: "prometheus".to_owned(),
        organizations: vec!["scrapers".to_owned()],
    };
    assert_eq!(Subject::of(&certificate), subject);
    assert_eq!(
        Subject::of(&CertificateDer::from(vec![1, 2, 3])),
        Subject::default()
    );
}

/// Performs a handshake in memory.
fn shake_hands(server: Arc<ServerConfig>, client: ClientConfig) -> Result<(), rustls::Error> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).unwrap();
        }
        let mut unread = sent.as_slice();
        while !unread.is_empty() {
            server.read_tls(&mut unread).unwrap();
            server.process_new_packets()?;
        }
        sent.clear();
        while server.wants_write() {
            server.write_tls(&mut sent).unwrap();
        }
        let mut unread = sent.as_slice();
        while !unread.is_empty() {
            client.read_tls(&mut unread).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(())
}

#[test]
fn a_profile_restricts_versions_cipher_suites_and_curves() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("one");
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(authority.pem.as_bytes()).flatten());
    let aes128 = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    let aes256 = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;
    let (tls13, tls12) = VERSIONS.split_at(1);
    let all = TlsProfile::default();
    let modern = TlsProfile {
        only_tls13: true,
        ..TlsProfile::default()
    };
    let of = |ciphers: &[CipherSuite], curves: &[NamedGroup]| TlsProfile {
        only_tls13: false,
        ciphers: Some(ciphers.to_vec()),
        curves: curves.to_vec(),
    };
    let (p256, x25519) = (NamedGroup::secp256r1, NamedGroup::X25519);
    let custom = of(&[aes128], &[p256]);
    for (served, versions, offered, succeeds) in [
        (&all, tls12, of(&[aes256], &[x25519]), true),
        (&modern, tls13, all.clone(), true),
        (&modern, tls12, all.clone(), false),
        (&custom, tls12, of(&[aes128], &[]), true),
        (&custom, tls12, of(&[aes256], &[]), false),
        (&custom, tls12, of(&[aes128], &[p256]), true),
        (&custom, tls12, of(&[aes128], &[x25519]), false),
        // Suites of TLS 1.3 are not restricted, curves are.
        (&custom, tls13, all.clone(), true),
        (&custom, tls13, of(&[], &[x25519]), false),
        // No suite of TLS 1.2 is supported.
        (&of(&[], &[]), tls12, all.clone(), false),
        (&of(&[], &[]), tls13, all.clone(), true),
    ] {
        let mut files = authority.files(folder.path(), None);
        files.profile = served.clone();
        let (config, _keeping) = files.serve(PROTOCOLS).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(offered.provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        let server = Arc::clone(&config.borrow());
        let shaken = shake_hands(server, client);
        assert_eq!(
            shaken.is_ok(),
            succeeds,
            "{served:?}, {versions:?}, {offered:?}: {shaken:?}"
        );
    }
}
