//! A minimal client that reads and writes one object of a cluster over plain HTTP. `bundle extract` needs nothing else (decision
//! 0027).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use reqwest::{Certificate, Client, Identity, RequestBuilder};
use serde_json::Value;

/// Folder in which Kubernetes mounts a pod's credentials for its cluster.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// An API server and the credentials for it.
pub(crate) struct Cluster {
    client: Client,
    server: String,
    token: Option<String>,
}

/// Connection settings.
#[derive(Debug, Default, PartialEq, Eq)]
struct Settings {
    server: String,
    ca: Option<Vec<u8>>,
    token: Option<String>,
    /// Certificate and key in PEM.
    identity: Option<Vec<u8>>,
    insecure: bool,
}

impl Cluster {
    /// Connects to the cluster of a kubeconfig file, else of `KUBECONFIG`, else the one this program runs in.
    ///
    /// # Errors
    /// No cluster is configured, or its files cannot be used.
    pub(crate) fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Self> {
        let named = kubeconfig.map(Path::to_owned).or_else(|| {
            std::env::var_os("KUBECONFIG")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from)
        });
        let settings = match named {
            Some(path) => {
                Settings::from_kubeconfig(&path).with_context(|| format!("kubeconfig {}", path.display()))?
            }
            None => Settings::in_cluster()?,
        };
        olm_oci::install_tls_provider();
        let mut builder = Client::builder().tls_danger_accept_invalid_certs(settings.insecure);
        if let Some(ca) = &settings.ca {
            builder =
                builder.tls_certs_only(Certificate::from_pem_bundle(ca).context("certificate authority")?);
        }
        if let Some(identity) = &settings.identity {
            builder = builder.identity(Identity::from_pem(identity).context("client certificate")?);
        }
        Ok(Self {
            client: builder.build().context("cluster config failed")?,
            server: settings.server.trim_end_matches('/').to_owned(),
            token: settings.token,
        })
    }

    /// Reads an object.
    ///
    /// # Errors
    /// The server does not respond, or rejects the request; the error contains its message.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.server);
        self.send(self.client.get(&url), &format!("get {path}")).await
    }

    /// Writes an object that was read before; the server rejects it if it changed in between.
    ///
    /// # Errors
    /// The errors of [`Cluster::get`].
    pub(crate) async fn replace(&self, path: &str, object: &Value) -> anyhow::Result<()> {
        let url = format!("{}{path}", self.server);
        let request = self
            .client
            .put(&url)
            .header("content-type", "application/json")
            .body(object.to_string());
        self.send(request, &format!("update {path}")).await.map(|_| ())
    }

    async fn send(&self, request: RequestBuilder, doing: &str) -> anyhow::Result<Value> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = request.send().await.with_context(|| doing.to_owned())?;
        let status = response.status();
        let body = response.bytes().await.with_context(|| doing.to_owned())?;
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        if !status.is_success() {
            let message = value["message"].as_str().unwrap_or("no message");
            bail!("{doing}: {status}: {message}");
        }
        Ok(value)
    }
}

impl Settings {
    fn in_cluster() -> anyhow::Result<Self> {
        let variable = |name| {
            std::env::var(name)
                .ok()
                .filter(|value: &String| !value.is_empty())
        };
        let (Some(host), Some(port)) = (
            variable("KUBERNETES_SERVICE_HOST"),
            variable("KUBERNETES_SERVICE_PORT"),
        ) else {
            bail!("cluster config failed: not in a cluster; use --kubeconfig");
        };
        let read = |name: &str| {
            let path = Path::new(SERVICE_ACCOUNT).join(name);
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        // IPv6 addresses need brackets.
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        Ok(Self {
            server: format!("https://{host}:{port}"),
            ca: Some(read("ca.crt")?),
            token: Some(String::from_utf8_lossy(&read("token")?).trim().to_owned()),
            ..Self::default()
        })
    }

    fn from_kubeconfig(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path).context("cannot be read")?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::from_document(&olm_fbc::yaml::parse(&bytes)?, folder)
    }

    /// Returns the settings of the current context. Relative paths are relative to the file's folder.
    fn from_document(config: &Value, folder: &Path) -> anyhow::Result<Self> {
        let find = |list: &str, kind: &str, name: &str| -> anyhow::Result<Value> {
            let items = config[list].as_array().map_or(&[][..], Vec::as_slice);
            let found = items.iter().find(|item| item["name"] == name);
            found
                .map(|item| item[kind].clone())
                .with_context(|| format!("{list} has no {name:?}"))
        };
        let current = config["current-context"].as_str().unwrap_or_default();
        let context = find("contexts", "context", current)?;
        let cluster = find(
            "clusters",
            "cluster",
            context["cluster"].as_str().unwrap_or_default(),
        )?;
        let user = find("users", "user", context["user"].as_str().unwrap_or_default())?;
        for unsupported in ["exec", "auth-provider"] {
            if user.get(unsupported).is_some() {
                bail!(
                    "user {}: {unsupported} is not supported here; use a token or a client certificate",
                    context["user"]
                );
            }
        }
        let content = |object: &Value, key: &str| -> anyhow::Result<Option<Vec<u8>>> {
            if let Some(data) = object[format!("{key}-data")].as_str() {
                let bytes = olm_fbc::base64::decode(data).map_err(anyhow::Error::msg);
                return bytes
                    .map(Some)
                    .with_context(|| format!("{key}-data is not base64"));
            }
            let Some(file) = object[key].as_str() else {
                return Ok(None);
            };
            let file = folder.join(file);
            std::fs::read(&file)
                .map(Some)
                .with_context(|| format!("cannot read {}", file.display()))
        };
        let identity = match (
            content(&user, "client-certificate")?,
            content(&user, "client-key")?,
        ) {
            (Some(mut certificate), Some(key)) => {
                certificate.push(b'\n');
                certificate.extend(key);
                Some(certificate)
            }
            _ => None,
        };
        let token = match user["token"].as_str() {
            Some(token) => Some(token.to_owned()),
            None => {
                content(&user, "tokenFile")?.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
            }
        };
        Ok(Self {
            server: cluster["server"]
                .as_str()
                .context("the cluster has no server")?
                .to_owned(),
            ca: content(&cluster, "certificate-authority")?,
            token,
            identity,
            insecure: cluster["insecure-skip-tls-verify"] == true,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(user: &Value) -> Value {
        json!({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://h:6443", "certificate-authority-data": "Y2E="}}],
            "users": [{"name": "u", "user": user}],
        })
    }

    #[test]
    fn the_current_context_is_taken() {
        let read = |user: Value| Settings::from_document(&config(&user), Path::new("/"));
        let found = read(json!({"token": "t"})).expect("settings");
        assert_eq!(found.server, "https://h:6443");
        assert_eq!(
            (found.ca.as_deref(), found.token.as_deref()),
            (Some(&b"ca"[..]), Some("t"))
        );
        let found =
            read(json!({"client-certificate-data": "Yw==", "client-key-data": "aw=="})).expect("settings");
        assert_eq!(found.identity.as_deref(), Some(&b"c\nk"[..]));
        let error = read(json!({"exec": {}})).expect_err("plugin").to_string();
        assert!(error.contains("exec is not supported here"), "{error}");
        let error = read(json!({"client-certificate": "/nonexistent"}))
            .expect_err("file")
            .to_string();
        assert!(error.contains("cannot read /nonexistent"), "{error}");
        let mut other = config(&json!({}));
        other["current-context"] = json!("x");
        let error = Settings::from_document(&other, Path::new("/"))
            .expect_err("context")
            .to_string();
        assert_eq!(error, "contexts has no \"x\"");
    }
}
