//! Certificates of the cluster, created once and kept with its state.

use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use serde_json::{Value, json};

use super::address::{API_SERVICE, NODE};

/// File that is written last; without it, everything is created again.
const COMPLETE: &str = "complete";

/// A certificate to create: file name without extension, and its subject.
struct Identity {
    file: &'static str,
    common_name: String,
    organisation: Option<&'static str>,
    /// Names and addresses of a server certificate; empty for a client certificate.
    serves: Vec<SanType>,
}

impl Identity {
    fn client(file: &'static str, common_name: &str, organisation: Option<&'static str>) -> Self {
        Self {
            file,
            common_name: common_name.to_owned(),
            organisation,
            serves: Vec::new(),
        }
    }
}

/// Creates all certificates and keys in `folder` unless they exist.
///
/// # Errors
/// A file cannot be written.
pub(super) fn create(folder: &Path, node: &str) -> anyhow::Result<()> {
    if folder.join(COMPLETE).exists() {
        return Ok(());
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let authority = create_authority(folder, "ca", "kubernetes")?;
    for identity in identities(node)? {
        issue(folder, &identity, &authority)?;
    }
    // Aggregated API servers trust this authority for user names in headers, so it must differ from that of clients.
    let front_proxy = create_authority(folder, "front-proxy-ca", "front-proxy-ca")?;
    issue(
        folder,
        &Identity::client("front-proxy-client", "front-proxy-client", None),
        &front_proxy,
    )?;

    let service_accounts = KeyPair::generate()?;
    write_key(
        &folder.join("service-accounts.key"),
        &service_accounts.serialize_pem(),
    )?;
    fs::write(
        folder.join("service-accounts.pub"),
        service_accounts.public_key_pem(),
    )?;
    fs::write(folder.join(COMPLETE), "")?;
    Ok(())
}

fn identities(node: &str) -> anyhow::Result<Vec<Identity>> {
    let names = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
    ];
    let masters = Some("system:masters");
    let nodes = Some("system:nodes");
    let node_user = format!("system:node:{node}");
    Ok(vec![
        Identity {
            serves: serves(&names, &[NODE, Ipv4Addr::LOCALHOST, API_SERVICE])?,
            ..Identity::client("apiserver", "kube-apiserver", None)
        },
        Identity {
            serves: serves(&[node], &[NODE, Ipv4Addr::LOCALHOST])?,
            ..Identity::client("kubelet-server", &node_user, nodes)
        },
        Identity::client(
            "apiserver-kubelet-client",
            "kube-apiserver-kubelet-client",
            masters,
        ),
        Identity::client("admin", "kubernetes-admin", masters),
        Identity::client("controller-manager", "system:kube-controller-manager", None),
        Identity::client("scheduler", "system:kube-scheduler", None),
        Identity::client("proxy", "system:kube-proxy", None),
        Identity::client("kubelet", &node_user, nodes),
    ])
}

/// Returns the names and addresses of a server.
fn serves(names: &[&str], addresses: &[Ipv4Addr]) -> anyhow::Result<Vec<SanType>> {
    let mut serves = Vec::new();
    for name in names {
        serves.push(SanType::DnsName((*name).try_into()?));
    }
    serves.extend(
        addresses
            .iter()
            .map(|address| SanType::IpAddress((*address).into())),
    );
    Ok(serves)
}

fn create_authority(
    folder: &Path,
    file: &str,
    common_name: &str,
) -> anyhow::Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = params(common_name, None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    fs::write(folder.join(format!("{file}.crt")), authority.pem())?;
    write_key(
        &folder.join(format!("{file}.key")),
        &authority.key().serialize_pem(),
    )?;
    Ok(authority)
}

fn issue(
    folder: &Path,
    identity: &Identity,
    authority: &CertifiedIssuer<'static, KeyPair>,
) -> anyhow::Result<()> {
    let mut params = params(&identity.common_name, identity.organisation);
    params.subject_alt_names.clone_from(&identity.serves);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![if identity.serves.is_empty() {
        ExtendedKeyUsagePurpose::ClientAuth
    } else {
        ExtendedKeyUsagePurpose::ServerAuth
    }];
    let key = KeyPair::generate()?;
    let certificate = params
        .signed_by(&key, authority)
        .with_context(|| format!("cannot sign the certificate {}", identity.file))?;
    fs::write(folder.join(format!("{}.crt", identity.file)), certificate.pem())?;
    write_key(
        &folder.join(format!("{}.key", identity.file)),
        &key.serialize_pem(),
    )
}

fn params(common_name: &str, organisation: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    if let Some(organisation) = organisation {
        params
            .distinguished_name
            .push(DnType::OrganizationName, organisation);
    }
    // A long validity, so that the machine's clock does not matter for a test cluster.
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2120, 1, 1);
    params
}

fn write_key(path: &Path, pem: &str) -> anyhow::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    file.write_all(pem.as_bytes())?;
    Ok(())
}

/// Returns a kubeconfig with the paths of a client certificate in `pki`, as JSON, which YAML parsers accept.
pub(super) fn kubeconfig(pki: &Path, cluster: &str, identity: &str, server: &str) -> Value {
    let user = json!({
        "client-certificate": pki.join(format!("{identity}.crt")),
        "client-key": pki.join(format!("{identity}.key")),
    });
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority": pki.join("ca.crt")}}],
        "users": [{"name": identity, "user": user}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": identity}}],
        "current-context": cluster,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_made_once_and_keys_are_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        create(folder.path(), "node").unwrap();
        let first = fs::read(folder.path().join("ca.crt")).unwrap();
        create(folder.path(), "node").unwrap();
        assert_eq!(first, fs::read(folder.path().join("ca.crt")).unwrap());
        for entry in fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "key") {
                assert_eq!(
                    fs::metadata(&path).unwrap().permissions().mode() & 0o077,
                    0,
                    "{}",
                    path.display()
                );
            }
        }
    }

    #[test]
    fn a_kubeconfig_names_files_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        create(folder.path(), "node").unwrap();
        for identity in ["admin", "controller-manager", "scheduler", "proxy", "kubelet"] {
            let config = kubeconfig(folder.path(), "default", identity, "https://192.168.77.1:6443");
            assert_eq!(config["current-context"], "default");
            for place in [
                "/clusters/0/cluster/certificate-authority",
                "/users/0/user/client-certificate",
                "/users/0/user/client-key",
            ] {
                let file = config.pointer(place).unwrap().as_str().unwrap();
                assert!(Path::new(file).is_file(), "{file}");
            }
        }
    }
}
