//! Server version and kinds that the cluster serves.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::{Client, core::ApiResource};
use tokio::{sync::Mutex, time::Instant};

use crate::{client::REQUEST_DEADLINE, error::ObserveError, key::is_path_segment};

/// Lifetime of cached kinds of a group and version.
const FRESH: Duration = Duration::from_secs(60);
/// Lifetime of the cached server version.
const VERSION_LASTS: Duration = Duration::from_secs(300);
/// Time for which [`Discovery::find_served`] does not retry a group and version that could not be read.
const TROUBLE_LASTS: Duration = Duration::from_secs(30);
/// Time that kinds are kept after the last request for them, in case they cannot be read again.
const KEPT: Duration = Duration::from_secs(600);
/// Timeout of [`Discovery::find_served`]: an aggregated API server of any user may serve the group.
const LOOK_DEADLINE: Duration = Duration::from_secs(5);

/// A kind the cluster serves.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedKind {
    /// Group, version, kind and plural.
    pub api: ApiResource,
    /// True for namespaced kinds.
    pub namespaced: bool,
}

/// Result of a lookup of kinds of one group and version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Served {
    /// Kinds that are served.
    pub kinds: BTreeSet<String>,
    /// Reason why nothing is known of the other kinds, with a text that is the same for each attempt; `None` if they are not served.
    pub trouble: Option<String>,
}

/// Kinds of a group and version by name.
type Kinds = Arc<BTreeMap<String, ServedKind>>;

/// Cache entry of a group and version.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Its kinds, and when they were last read.
    kinds: Option<(Instant, Kinds)>,
    /// Time and reason of the failure, if the last attempt failed.
    trouble: Option<(Instant, String)>,
    /// Time of the last request.
    asked: Option<Instant>,
}

impl Known {
    fn is_wanted(&self, now: Instant) -> bool {
        let within = |at: Instant, lasts: Duration| now.saturating_duration_since(at) < lasts;
        self.trouble
            .as_ref()
            .is_some_and(|(at, _)| within(*at, TROUBLE_LASTS))
            || self.kinds.is_some() && self.asked.is_some_and(|at| within(at, KEPT))
    }
}

/// Cached discovery that reads only what is needed.
#[derive(Clone)]
pub struct Discovery {
    client: Client,
    known: Arc<Mutex<BTreeMap<String, Known>>>,
    /// Server version, and until when it is valid.
    version: Arc<Mutex<Option<(Instant, String)>>>,
}

impl Discovery {
    /// Creates a discovery that reads with `client`.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Arc::default(),
            version: Arc::default(),
        }
    }

    /// Returns the server's `gitVersion`, for example `v1.34.4`. The cached version is returned if the server does not answer.
    ///
    /// # Errors
    /// If the server does not answer in time and has never answered before.
    pub async fn server_version(&self) -> Result<String, ObserveError> {
        let mut known = self.version.lock().await;
        if let Some((until, version)) = known.as_ref()
            && Instant::now() < *until
        {
            return Ok(version.clone());
        }
        let answer = deadline("the server version", self.client.apiserver_version()).await;
        let (lasts, version) = match (answer, known.take()) {
            (Ok(info), _) => (VERSION_LASTS, info.git_version),
            (Err(_), Some((_, version))) => (FRESH, version),
            (Err(error), None) => return Err(error),
        };
        *known = Some((Instant::now() + lasts, version.clone()));
        Ok(version)
    }

    /// Returns the kind for group, version and kind; `None` if the cluster does not serve it.
    ///
    /// A kind that is not cached is requested at once, since it may be new.
    ///
    /// # Errors
    /// If the server does not answer in time.
    pub async fn find_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<Option<ServedKind>, ObserveError> {
        let Some(api_version) = api_version(group, version) else {
            return Ok(None);
        };
        if let Some(found) = self
            .fresh(&api_version)
            .await
            .and_then(|kinds| kinds.get(kind).cloned())
        {
            return Ok(Some(found));
        }
        let kinds = self
            .read_kinds(group, version, api_version, REQUEST_DEADLINE)
            .await?;
        Ok(kinds.get(kind).cloned())
    }

    /// Returns which of `kinds` of a group and version the cluster serves. It never fails, because one unavailable aggregated API server
    /// must not block everything else. The reason is part of the result, and the last known kinds still count.
    pub async fn find_served(&self, group: &str, version: &str, kinds: &BTreeSet<&str>) -> Served {
        let Some(api_version) = api_version(group, version) else {
            return Served::default();
        };
        if let Some(fresh) = self.fresh(&api_version).await
            && kinds.iter().all(|kind| fresh.contains_key(*kind))
        {
            return answer(&fresh, kinds, None);
        }
        let before = {
            let mut known = self.known.lock().await;
            let known = known.get_mut(&api_version);
            known.map_or_else(Known::default, |known| {
                known.asked = Some(Instant::now());
                known.clone()
            })
        };
        let last = before.kinds.map(|(_, kinds)| kinds).unwrap_or_default();
        if let Some((at, text)) = before.trouble
            && at.elapsed() < TROUBLE_LASTS
        {
            return answer(&last, kinds, Some(text));
        }
        let read = self.read_kinds(group, version, api_version.clone(), LOOK_DEADLINE);
        match read.await {
            Ok(found) => answer(&found, kinds, None),
            Err(error) => {
                tracing::debug!(%error, "discovery");
                let text = lasting_words(&error);
                self.remember_trouble(api_version, text.clone()).await;
                answer(&last, kinds, Some(text))
            }
        }
    }

    async fn fresh(&self, api_version: &str) -> Option<Kinds> {
        let known = self.known.lock().await;
        let (at, kinds) = known.get(api_version)?.kinds.as_ref()?;
        (at.elapsed() < FRESH).then(|| Arc::clone(kinds))
    }

    /// Caches the kinds that the cluster serves. Missing kinds are not cached, because a user can name any number of them.
    async fn remember(&self, api_version: String, kinds: Kinds) {
        let now = Instant::now();
        let mut known = self.known.lock().await;
        known.retain(|_, known| known.is_wanted(now));
        if kinds.is_empty() {
            known.remove(&api_version);
        } else {
            let found = Known {
                kinds: Some((now, kinds)),
                trouble: None,
                asked: Some(now),
            };
            known.insert(api_version, found);
        }
    }

    async fn remember_trouble(&self, api_version: String, text: String) {
        let now = Instant::now();
        let mut known = self.known.lock().await;
        known.retain(|_, known| known.is_wanted(now));
        known.entry(api_version).or_default().trouble = Some((now, text));
    }

    /// Reads the kinds of a group and version, and caches them.
    async fn read_kinds(
        &self,
        group: &str,
        version: &str,
        api_version: String,
        limit: Duration,
    ) -> Result<Kinds, ObserveError> {
        let read = async {
            let answer = if group.is_empty() {
                self.client.list_core_api_resources(version).await
            } else {
                self.client.list_api_group_resources(&api_version).await
            };
            match answer {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
                answer => answer.map(|list| list.resources),
            }
        };
        let resources = within(limit, &format!("the kinds of {api_version}"), read).await?;
        let served = resources
            .into_iter()
            .filter(|resource| !resource.name.contains('/'));
        let kinds = served.map(|resource| {
            let api = ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version: api_version.clone(),
                kind: resource.kind.clone(),
                plural: resource.name,
            };
            let namespaced = resource.namespaced;
            (resource.kind, ServedKind { api, namespaced })
        });
        let kinds = Kinds::new(kinds.collect());
        self.remember(api_version, Arc::clone(&kinds)).await;
        Ok(kinds)
    }
}

/// Returns a stable text for the error. Transport errors contain addresses, ports and times, which differ between attempts.
fn lasting_words(error: &ObserveError) -> String {
    let source = match error {
        ObserveError::Deadline { seconds, .. } => return format!("no answer within {seconds} s"),
        ObserveError::Read { source, .. } => source.downcast_ref::<kube::Error>(),
    };
    match source {
        Some(kube::Error::Api(status)) => format!("the API server answers {}", status.code),
        Some(kube::Error::SerdeError(_)) => "the answer is not a list of kinds".to_owned(),
        _ => "the API server cannot be reached".to_owned(),
    }
}

fn answer(found: &Kinds, kinds: &BTreeSet<&str>, trouble: Option<String>) -> Served {
    let known = kinds.iter().filter(|kind| found.contains_key(**kind));
    let kinds_served: BTreeSet<String> = known.map(|kind| (*kind).to_owned()).collect();
    Served {
        trouble: trouble.filter(|_| kinds_served.len() < kinds.len()),
        kinds: kinds_served,
    }
}

/// Returns group and version as one text; `None` if no API can have them.
fn api_version(group: &str, version: &str) -> Option<String> {
    match group {
        _ if !is_path_segment(version) => None,
        "" => Some(version.to_owned()),
        _ if !is_path_segment(group) => None,
        _ => Some(format!("{group}/{version}")),
    }
}

/// Awaits `read` with the usual deadline.
///
/// # Errors
/// If the read fails or takes too long; the text names `what`.
pub async fn deadline<T>(what: &str, read: impl Future<Output = kube::Result<T>>) -> Result<T, ObserveError> {
    within(REQUEST_DEADLINE, what, read).await
}

async fn within<T>(
    limit: Duration,
    what: &str,
    read: impl Future<Output = kube::Result<T>>,
) -> Result<T, ObserveError> {
    match tokio::time::timeout(limit, read).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(ObserveError::read(what, error)),
        Err(_) => Err(ObserveError::Deadline {
            what: what.to_owned(),
            seconds: limit.as_secs(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The version is requested once in five minutes; if the server does not answer, the last one is used.
    #[tokio::test(start_paused = true)]
    async fn the_version_is_remembered_for_a_while_and_outlives_an_outage() {
        use std::sync::Mutex;

        let answer: Arc<Mutex<Option<&str>>> = Arc::default();
        let of_server = Arc::clone(&answer);
        let server = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let version = *of_server.lock().unwrap();
            async move {
                let text = version.map(|version| {
                    format!(
                        r#"{{"major": "", "minor": "", "gitVersion": "{version}", "gitCommit": "", "gitTreeState": "",
                        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}}"#
                    )
                });
                let status = if text.is_some() { 200 } else { 503 };
                let body = kube::client::Body::from(text.unwrap_or_default().into_bytes());
                let response = http::Response::builder().status(status).body(body);
                Ok::<_, std::io::Error>(response.unwrap())
            }
        });
        let discovery = Discovery::new(Client::new(server, "default"));
        let becomes = |version| *answer.lock().unwrap() = version;
        assert!(discovery.server_version().await.is_err(), "it was never known");
        becomes(Some("v1.1.0"));
        assert_eq!(discovery.server_version().await.unwrap(), "v1.1.0");
        becomes(Some("v1.2.0"));
        tokio::time::advance(VERSION_LASTS - Duration::from_secs(1)).await;
        assert_eq!(discovery.server_version().await.unwrap(), "v1.1.0");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(discovery.server_version().await.unwrap(), "v1.2.0");
        becomes(None);
        tokio::time::advance(VERSION_LASTS).await;
        assert_eq!(discovery.server_version().await.unwrap(), "v1.2.0");
        becomes(Some("v1.3.0"));
        tokio::time::advance(FRESH).await;
        assert_eq!(discovery.server_version().await.unwrap(), "v1.3.0");
    }

    #[test]
    fn kinds_nobody_asks_for_are_forgotten() {
        let began = Instant::now();
        let known = |trouble: Option<u64>, asked: u64| Known {
            kinds: Some((began, Kinds::default())),
            trouble: trouble.map(|seconds| (began + Duration::from_secs(seconds), "503".to_owned())),
            asked: Some(began + Duration::from_secs(asked)),
        };
        for (found, after, wanted) in [
            (known(None, 0), 599, true),
            (known(None, 0), 600, false),
            // An API whose server is unavailable is kept as long as it is requested.
            (known(Some(0), 5000), 5599, true),
            (known(Some(590), 0), 610, true),
            (known(Some(590), 0), 630, false),
            (Known::default(), 0, false),
        ] {
            assert_eq!(
                found.is_wanted(began + Duration::from_secs(after)),
                wanted,
                "{found:?} {after}"
            );
        }
    }

    #[test]
    fn an_impossible_api_is_not_requested() {
        assert_eq!(api_version("", "v1").as_deref(), Some("v1"));
        assert_eq!(api_version("apps", "v1").as_deref(), Some("apps/v1"));
        for (group, version) in [
            ("", ""),
            ("a b", "v1"),
            ("apps", "v1/../v2"),
            ("..", "v1"),
            ("g", "v1?x"),
        ] {
            assert_eq!(api_version(group, version), None, "{group} {version}");
        }
    }

    #[test]
    fn problems_are_reported_only_for_unknown_kinds() {
        let kind = ServedKind {
            api: ApiResource {
                group: "g".into(),
                version: "v1".into(),
                api_version: "g/v1".into(),
                kind: "K".into(),
                plural: "ks".into(),
            },
            namespaced: true,
        };
        let known: Kinds = Arc::new(BTreeMap::from([("K".to_owned(), kind)]));
        let trouble = || Some("the API server answers 503".to_owned());
        assert_eq!(answer(&known, &BTreeSet::from(["K"]), trouble()).trouble, None);
        let both = answer(&known, &BTreeSet::from(["K", "L"]), trouble());
        assert_eq!((both.kinds.len(), both.trouble), (1, trouble()));
    }
}
