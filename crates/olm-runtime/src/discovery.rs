//! What the cluster serves: its version and its kinds.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::{Client, core::ApiResource};
use tokio::{sync::Mutex, time::Instant};

use crate::{client::REQUEST_DEADLINE, error::ObserveError};

/// How long the kinds of a group and version are believed.
const FRESH: Duration = Duration::from_secs(60);

/// A kind the cluster serves.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedKind {
    /// Group, version, kind and plural.
    pub api: ApiResource,
    /// True for namespaced kinds.
    pub namespaced: bool,
}

type Kinds = Arc<BTreeMap<String, ServedKind>>;

/// Discovery with a memory, asked only for what is needed.
#[derive(Clone)]
pub struct Discovery {
    client: Client,
    kinds: Arc<Mutex<BTreeMap<String, (Instant, Kinds)>>>,
    version: Arc<Mutex<Option<(Instant, String)>>>,
}

impl Discovery {
    /// Discovery through `client`.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            kinds: Arc::default(),
            version: Arc::default(),
        }
    }

    /// The server's `gitVersion`, for example `v1.34.4`.
    ///
    /// # Errors
    /// When the server does not answer in time.
    pub async fn server_version(&self) -> Result<String, ObserveError> {
        let mut known = self.version.lock().await;
        if let Some((at, version)) = known.as_ref()
            && at.elapsed() < FRESH * 10
        {
            return Ok(version.clone());
        }
        let info = deadline("the server version", self.client.apiserver_version()).await?;
        *known = Some((Instant::now(), info.git_version.clone()));
        Ok(info.git_version)
    }

    /// The kind served for group, version and kind; `None` when the cluster does not serve it.
    ///
    /// A kind that is not in memory is asked for again at once: it may have been added since.
    ///
    /// # Errors
    /// When the server does not answer in time.
    pub async fn find_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<Option<ServedKind>, ObserveError> {
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        if let Some((at, kinds)) = self.kinds.lock().await.get(&api_version)
            && at.elapsed() < FRESH
            && let Some(found) = kinds.get(kind)
        {
            return Ok(Some(found.clone()));
        }
        let kinds = Arc::new(self.read_kinds(group, version, &api_version).await?);
        let found = kinds.get(kind).cloned();
        self.kinds
            .lock()
            .await
            .insert(api_version, (Instant::now(), kinds));
        Ok(found)
    }

    async fn read_kinds(
        &self,
        group: &str,
        version: &str,
        api_version: &str,
    ) -> Result<BTreeMap<String, ServedKind>, ObserveError> {
        let what = format!("the kinds of {api_version}");
        let answer = if group.is_empty() {
            tokio::time::timeout(REQUEST_DEADLINE, self.client.list_core_api_resources(version)).await
        } else {
            tokio::time::timeout(
                REQUEST_DEADLINE,
                self.client.list_api_group_resources(api_version),
            )
            .await
        };
        let list = match answer {
            Err(_) => {
                return Err(ObserveError::Deadline {
                    what,
                    seconds: REQUEST_DEADLINE.as_secs(),
                });
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Ok(BTreeMap::new()),
            Ok(Err(error)) => return Err(ObserveError::read(what, error)),
            Ok(Ok(list)) => list,
        };
        let served = list
            .resources
            .into_iter()
            .filter(|resource| !resource.name.contains('/'));
        Ok(served
            .map(|resource| {
                let api = ApiResource {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    api_version: api_version.to_owned(),
                    kind: resource.kind.clone(),
                    plural: resource.name,
                };
                (
                    resource.kind,
                    ServedKind {
                        api,
                        namespaced: resource.namespaced,
                    },
                )
            })
            .collect())
    }
}

/// A live read with the usual deadline.
///
/// # Errors
/// When the read fails or takes too long; the text names `what`.
pub async fn deadline<T>(what: &str, read: impl Future<Output = kube::Result<T>>) -> Result<T, ObserveError> {
    match tokio::time::timeout(REQUEST_DEADLINE, read).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(ObserveError::read(what, error)),
        Err(_) => Err(ObserveError::Deadline {
            what: what.to_owned(),
            seconds: REQUEST_DEADLINE.as_secs(),
        }),
    }
}
