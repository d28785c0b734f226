//! Routes of the pages: reads the data for each page and renders it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::StreamExt as _;
use hyper::StatusCode;
use olm_authoring::graph::{PackageGraph, STYLE};
use olm_resolver::plan::Plan;
use olm_resolver::{CatalogKey, Snapshot};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::gate::{Asked, FORGED, Gate, LOGIN, Refusal};
use super::health;
use super::pages::{self, Frame};
use super::reads::{CATALOG_FRESH, FRESH, Reads};
use super::request::{Fields, href};
use crate::args::ClusterArgs;
use crate::args::look::UiArgs;
use crate::catalogs::{self, Contents};
use crate::cluster::Cluster;
use crate::commands::approve::{self, Shown};
use crate::commands::catalog::Row;
use crate::commands::explain::{self, Cause};
use crate::commands::graph::{Versions, of_snapshot};
use crate::commands::plan::unexplained;
use crate::gather;
use crate::operators::{Gathered, Key, Position};
use crate::packages::{self, Package};
use crate::preview;

/// Maximum number of versions and of channels in an upgrade graph.
const MAX_DRAWN: (usize, usize) = (100, 40);

/// The script of all pages.
pub(super) const SCRIPT: &str = include_str!("assets/script.js");

/// Returns the style of all pages and of drawings.
pub(super) fn style() -> String {
    format!("{}{STYLE}", include_str!("assets/style.css"))
}

/// A response to the browser. There is no `Debug`, which would print the cookie.
#[derive(Default)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub media_type: &'static str,
    pub body: String,
    pub cookie: Option<String>,
    pub location: Option<String>,
}

impl Answer {
    pub(super) fn html(body: String) -> Self {
        Self {
            media_type: "text/html; charset=utf-8",
            body,
            ..Self::default()
        }
    }

    fn asset(media_type: &'static str, body: &str) -> Self {
        Self {
            media_type,
            body: body.to_owned(),
            ..Self::default()
        }
    }

    fn elsewhere(location: String) -> Self {
        Self {
            status: StatusCode::SEE_OTHER,
            location: Some(location),
            ..Self::html(String::new())
        }
    }

    fn with(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Returns an error page without any data.
    pub(super) fn refused(status: StatusCode, text: &str) -> Self {
        Self::html(pages::bare(text)).with(status)
    }

    fn message(frame: &Frame<'_>, text: &str, status: StatusCode) -> Self {
        Self::html(pages::message(frame, text)).with(status)
    }

    /// Returns the page for data that cannot be read.
    fn unread(frame: &Frame<'_>, cause: &str) -> Self {
        Self::message(frame, cause, StatusCode::BAD_GATEWAY)
    }
}

/// State of the server.
pub(super) struct App {
    cluster: Cluster,
    args: ClusterArgs,
    /// Default namespace of pages; `None` for all.
    namespace: Option<String>,
    gate: Gate,
    seal: String,
    /// Time of the last permitted request.
    used: Cell<Instant>,
    /// Operators, with a note if the namespace does not exist.
    operators: Reads<Option<String>, (Gathered, Option<String>)>,
    operator: Reads<Key, Gathered>,
    packages: Reads<Option<String>, Vec<Package>>,
    /// Catalogs, with notes on those that could not be read.
    health: Reads<Option<String>, (Vec<Row>, Vec<String>)>,
    /// Catalog contents, shared by all namespaces.
    contents: Reads<CatalogKey, Arc<Snapshot>>,
    outlook: Reads<String, Outlook>,
}

/// Input and result of a namespace's resolution.
struct Outlook {
    read: explain::Read,
    /// The plan, or the error if the namespace cannot be resolved.
    plan: Result<Plan, String>,
}

impl App {
    pub(super) fn new(cluster: Cluster, args: &UiArgs, gate: Gate) -> Self {
        Self {
            namespace: (!args.all_namespaces).then(|| cluster.namespace.clone()),
            args: args.cluster.clone(),
            cluster,
            seal: gate.seal(),
            gate,
            used: Cell::new(Instant::now()),
            operators: Reads::new(FRESH),
            operator: Reads::new(FRESH),
            packages: Reads::new(CATALOG_FRESH),
            health: Reads::new(FRESH),
            contents: Reads::new(CATALOG_FRESH),
            outlook: Reads::new(FRESH),
        }
    }

    /// Returns the time since the last permitted request.
    pub(super) fn idle(&self) -> Duration {
        self.used.get().elapsed()
    }

    /// Returns the number of kept catalogs and derived values.
    #[cfg(test)]
    pub(super) fn kept(&self) -> [usize; 2] {
        [self.contents.count(), self.outlook.count()]
    }

    /// Drops expired values, which include whole catalogs.
    pub(super) fn sweep(&self) {
        self.packages.sweep();
        self.contents.sweep();
        self.outlook.sweep();
    }

    /// Returns the requested page, or the response to a login or to a request that is not allowed.
    pub(super) fn admit<'a>(&self, asked: &Asked<'a>, query: &str) -> Result<&'a str, Answer> {
        let refused = |refusal: Refusal| Answer::refused(refusal.status, refusal.text);
        if asked.path != LOGIN {
            let page = self.gate.admit(asked).map_err(refused)?;
            self.used.set(Instant::now());
            return Ok(page);
        }
        let token = Fields::of(query.as_bytes());
        let cookie = self.gate.log_in(asked, token.text("token"));
        let cookie = cookie.map_err(refused)?;
        self.used.set(Instant::now());
        // A redirect would count as coming from the page with the link, and browsers would send no cookie with it.
        Err(Answer {
            cookie: Some(cookie),
            ..Answer::html(pages::welcome(&format!("{}operators", self.gate.base())))
        })
    }

    /// Renders a page.
    pub(super) async fn show(&self, page: &str, query: &str) -> Answer {
        match self.page(page, &Fields::of(query.as_bytes())).await {
            Ok(answer) | Err(answer) => answer,
        }
    }

    /// Renders a page.
    ///
    /// # Errors
    /// The page does not exist, or its data cannot be read. The answer says so.
    async fn page(&self, page: &str, fields: &Fields) -> Result<Answer, Answer> {
        let Some(namespace) = fields.namespace(self.namespace.as_deref()) else {
            let frame = self.frame("Namespace", self.namespace.as_deref());
            let text = "Invalid namespace name.";
            return Err(Answer::message(&frame, text, StatusCode::BAD_REQUEST));
        };
        match page {
            "style.css" => Ok(Answer::asset("text/css; charset=utf-8", &style())),
            "script.js" => Ok(Answer::asset("text/javascript; charset=utf-8", SCRIPT)),
            "" => Ok(Answer::elsewhere(format!("{}operators", self.gate.base()))),
            "operators" => self.show_operators(namespace.as_deref(), fields.word()).await,
            "catalogs" => self.show_catalogs(namespace.as_deref()).await,
            "operator" | "plan" => match (&namespace, fields.name("name")) {
                (Some(namespace), Some(name)) if page == "plan" => self.show_plan(namespace, name).await,
                (Some(namespace), Some(name)) => self.show_operator(namespace, name).await,
                _ => Err(self.nothing()),
            },
            "explain" => {
                let namespace = namespace.as_deref().ok_or_else(|| self.nothing())?;
                let name = Some(fields.text("name")).filter(|name| !name.is_empty());
                self.show_explanation(namespace, name).await
            }
            "catalog" => self.show_catalog(namespace.as_deref(), fields.word()).await,
            "package" => {
                let (catalog, name) = (fields.text("catalog"), fields.text("name"));
                self.show_package(namespace.as_deref(), catalog, name).await
            }
            "graph" => {
                // It needs one namespace.
                let namespace = namespace.as_deref().unwrap_or(&self.cluster.namespace);
                let (catalog, name) = (fields.text("catalog"), fields.text("name"));
                self.show_graph(namespace, catalog, name).await
            }
            _ => Err(self.nothing()),
        }
    }

    /// Runs the action of a form.
    pub(super) async fn write(&self, page: &str, form: &[u8]) -> Answer {
        let form = Fields::of(form);
        let (Some(Some(namespace)), Some(name)) = (form.namespace(None), form.name("name")) else {
            return Answer::refused(FORGED.status, FORGED.text);
        };
        match page {
            "approve" => self.approve(&namespace, name, form.text("shown")).await,
            _ => self.nothing(),
        }
    }

    fn frame<'a>(&'a self, title: &'a str, namespace: Option<&'a str>) -> Frame<'a> {
        Frame {
            title,
            namespace,
            commands: &self.cluster.commands,
            seal: &self.seal,
            notes: Vec::new(),
        }
    }

    fn nothing(&self) -> Answer {
        let frame = self.frame("Not found", self.namespace.as_deref());
        Answer::message(&frame, "This page does not exist.", StatusCode::NOT_FOUND)
    }

    async fn show_operators(&self, namespace: Option<&str>, word: &str) -> Result<Answer, Answer> {
        let mut frame = self.frame("Operators", namespace);
        let client = &self.cluster.client;
        let read = async || {
            let gathered = gather::operators(client, namespace).await?;
            let missing = gather::require(client, namespace, &gathered).await.err();
            anyhow::Ok((gathered, missing.map(|error| error.to_string())))
        };
        let found = shared(&self.operators, &namespace.map(str::to_owned), &frame, read).await?;
        let (gathered, missing) = &*found;
        frame.notes.extend(missing.clone());
        frame.notes.extend(gathered.notes());
        Ok(Answer::html(pages::operators(&frame, gathered, word)))
    }

    async fn show_operator(&self, namespace: &str, name: &str) -> Result<Answer, Answer> {
        let mut frame = self.frame(name, Some(namespace));
        let key = (namespace.to_owned(), name.to_owned());
        let client = &self.cluster.client;
        let read = async || {
            gather::with_workloads(client, Some(namespace), |operator| operator.name() == name).await
        };
        let gathered = shared(&self.operator, &key, &frame, read).await?;
        frame.notes.extend(gathered.notes());
        let page = pages::operator(&frame, &gathered, name).map(Answer::html);
        page.ok_or_else(|| {
            // The operator may be an object that cannot be read.
            let text = format!("Namespace {namespace} has no operator {name}.");
            Answer::message(&frame, &text, StatusCode::NOT_FOUND)
        })
    }

    async fn show_plan(&self, namespace: &str, name: &str) -> Result<Answer, Answer> {
        // It is not kept: the page has the button only as long as no hold excludes the plan.
        let shown = self.look(namespace, name).await;
        let unread =
            |error: anyhow::Error| Answer::unread(&self.frame(name, Some(namespace)), &format!("{error:#}"));
        let shown = shown.map_err(unread)?;
        let title = preview::title(&shown.operators, shown.preview.as_ref());
        let frame = self.frame(title.as_deref().unwrap_or(name), Some(namespace));
        Ok(Answer::html(pages::plan(&frame, &shown, &digest(&shown))))
    }

    /// Returns the plan as `approve` shows it, without approving.
    async fn look(&self, namespace: &str, name: &str) -> anyhow::Result<Shown> {
        let name = format!("{}{name}", approve::PLAN_PREFIX);
        let cluster = self.cluster.in_namespace(namespace);
        approve::approve(&cluster, &name, &mut |_| Ok(false)).await
    }

    async fn show_catalogs(&self, namespace: Option<&str>) -> Result<Answer, Answer> {
        let mut frame = self.frame("Catalogs", namespace);
        let global = self.args.global_catalog_namespace.as_deref();
        let read = async || Box::pin(health::read(&self.cluster.client, namespace, global)).await;
        let health = shared(&self.health, &namespace.map(str::to_owned), &frame, read).await?;
        let (catalogs, notes) = &*health;
        frame.notes.extend_from_slice(notes);
        Ok(Answer::html(pages::catalogs(&frame, catalogs)))
    }

    async fn show_catalog(&self, namespace: Option<&str>, word: &str) -> Result<Answer, Answer> {
        let frame = self.frame("Packages", namespace);
        let packages = self.packages(namespace, &frame).await?;
        Ok(Answer::html(pages::catalog(&frame, &packages, word)))
    }

    async fn show_package(
        &self,
        namespace: Option<&str>,
        catalog: &str,
        name: &str,
    ) -> Result<Answer, Answer> {
        let frame = self.frame(name, namespace);
        let packages = self.packages(namespace, &frame).await?;
        let is_it = |package: &&Package| package.name == name && packages::is_catalog(package, catalog);
        let package = packages.iter().find(is_it).ok_or_else(|| self.nothing())?;
        // Its commands need one namespace.
        let namespace = namespace.unwrap_or(&self.cluster.namespace);
        let needs_group = packages::needs_group(&self.cluster.client, namespace).await;
        let page = pages::package(&frame, namespace, package, needs_group);
        Ok(Answer::html(page))
    }

    /// Returns the packages that a namespace can use, or those of all catalogs.
    ///
    /// # Errors
    /// They cannot be read. The answer says so in this frame.
    async fn packages(
        &self,
        namespace: Option<&str>,
        frame: &Frame<'_>,
    ) -> Result<Arc<Vec<Package>>, Answer> {
        let (client, commands) = (&self.cluster.client, &self.cluster.commands);
        let read = async || packages::all(client, namespace, commands).await;
        shared(&self.packages, &namespace.map(str::to_owned), frame, read).await
    }

    async fn show_explanation(&self, namespace: &str, name: Option<&str>) -> Result<Answer, Answer> {
        let title = name.map_or_else(|| format!("Why in {namespace}"), |name| format!("Why: {name}"));
        let mut frame = self.frame(&title, Some(namespace));
        let outlook = self.outlook(namespace, &frame).await?;
        frame.notes.extend_from_slice(&outlook.read.notes);
        let (of, asked) = (Arc::clone(&outlook), name.map(str::to_owned));
        let explained = computed(move || {
            let explained = explain::explain(&of.read.question, asked.as_deref())?;
            let explained = explain::with_causes(explained, &of.read.causes, asked.as_deref());
            Ok(explain::for_people(explained, &of.read.causes, asked.as_deref()))
        });
        let explained = explained.await;
        let explained = explained.map_err(|error| Answer::unread(&frame, &format!("{error:#}")))?;
        let page = pages::explain(&frame, &explained, &outlook.plan, name);
        Ok(Answer::html(page))
    }

    async fn show_graph(&self, namespace: &str, catalog: &str, name: &str) -> Result<Answer, Answer> {
        let title = format!("Upgrade graph of {name}");
        let mut frame = self.frame(&title, Some(namespace));
        let outlook = self.outlook(namespace, &frame).await?;
        frame.notes.extend_from_slice(&outlook.read.notes);
        let (of, of_catalog, package) = (Arc::clone(&outlook), catalog.to_owned(), name.to_owned());
        let graph = computed(move || graph(&of, &of_catalog, &package).map_err(|cause| anyhow!(cause)));
        let graph = graph.await;
        let graph = graph.map_err(|error| Answer::unread(&frame, &format!("{error:#}")))?;
        let page = pages::graph(&frame, namespace, &graph, name, catalog);
        Ok(Answer::html(page))
    }

    async fn outlook(&self, namespace: &str, frame: &Frame<'_>) -> Result<Arc<Outlook>, Answer> {
        let read = async || {
            let cluster = self.cluster.in_namespace(namespace);
            let contents = async |keys: &BTreeSet<CatalogKey>| self.contents(keys).await;
            let read = Box::pin(explain::question_with(&cluster, &self.args, contents)).await?;
            computed(move || {
                let plan = olm_resolver::plan::plan(&read.question);
                let mut plan = plan.map_err(|error| error.to_string());
                if let Ok(plan) = &mut plan {
                    let failures = unexplained(plan, read.failures.clone());
                    plan.notes.extend(failures.into_values());
                }
                Ok(Outlook { plan, read })
            })
            .await
        };
        shared(&self.outlook, &namespace.to_owned(), frame, read).await
    }

    async fn contents(&self, keys: &BTreeSet<CatalogKey>) -> Contents {
        let reads = futures::stream::iter(keys).map(async |key| (key.clone(), self.content(key).await));
        let read: BTreeMap<_, _> = reads.buffer_unordered(catalogs::AT_ONCE).collect().await;
        read
    }

    async fn content(&self, key: &CatalogKey) -> Result<Arc<Snapshot>, String> {
        let client = &self.cluster.client;
        let read = async || {
            let keys = BTreeSet::from([key.clone()]);
            let mut read = Box::pin(catalogs::read(client, &keys)).await;
            let content = read.contents.remove(key).context("it was not read")?;
            content.map_err(|cause| anyhow!(cause))
        };
        let content = self.contents.get(key, read).await?;
        Ok((*content).clone())
    }

    /// Approves a plan if it is unchanged since it was shown.
    async fn approve(&self, namespace: &str, name: &str, shown: &str) -> Answer {
        let plan = format!("{}{name}", approve::PLAN_PREFIX);
        let mut answer = |now: &Shown| Ok(digest(now) == shown);
        let cluster = self.cluster.in_namespace(namespace);
        let result = approve::approve(&cluster, &plan, &mut answer).await;
        self.operators.forget();
        self.operator.forget();
        self.outlook.forget();
        let frame = self.frame(name, Some(namespace));
        let text = match result {
            Ok(now) if now.approved => {
                let page = href("plan", &[("namespace", namespace), ("name", name)]);
                return Answer::elsewhere(format!("{}{page}", self.gate.base()));
            }
            Ok(_) => format!(
                "InstallPlan {name} changed since it was shown, so it was not approved. Review it again."
            ),
            Err(error) => format!("{error:#}"),
        };
        Answer::html(pages::not_approved(&frame, name, &text)).with(StatusCode::CONFLICT)
    }
}

/// Returns something that pages share.
///
/// # Errors
/// It cannot be read. The answer says so in this frame.
async fn shared<K: Ord + Clone, V>(
    reads: &Reads<K, V>,
    key: &K,
    frame: &Frame<'_>,
    read: impl AsyncFnOnce() -> anyhow::Result<V>,
) -> Result<Arc<V>, Answer> {
    let found = reads.get(key, read).await;
    found.map_err(|text| Answer::unread(frame, &text))
}

/// Runs work that takes CPU time in another thread, so that other pages are served meanwhile.
///
/// # Errors
/// The work fails.
async fn computed<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    spawn_blocking(work).await.context("it did not finish")?
}

/// Returns the upgrade graph of a package with the resolver's path.
///
/// # Errors
/// The namespace cannot use the catalog, or it cannot be read.
fn graph(outlook: &Outlook, catalog: &str, name: &str) -> Result<PackageGraph, String> {
    let catalogs = &outlook.read.question.problem.catalogs;
    let found = catalogs.iter().find(|found| found.key.to_string() == catalog);
    let content = found.map(|found| found.content.clone());
    let content = content.ok_or_else(|| {
        format!("Catalog {catalog} does not exist or cannot be used from this namespace.")
    })??;
    let (versions, way) = way(outlook, catalog, name);
    Ok(graph_of(&content, catalog, name, &versions, way))
}

/// Returns the upgrade graph of a package, cut for a page.
pub(super) fn graph_of(
    snapshot: &Snapshot,
    catalog: &str,
    package: &str,
    versions: &Versions,
    way: Way,
) -> PackageGraph {
    let entries = of_snapshot(snapshot, package);
    let mut graph = PackageGraph::new(package, catalog, entries, &versions.installed);
    graph.mark_upgrades(&versions.upgrading);
    graph.way = way;
    graph.cut(MAX_DRAWN.0, MAX_DRAWN.1);
    graph
}

/// Channels and versions in the order in which OLM installs them.
type Way = Vec<(String, String)>;

/// Returns the versions of a package's operators, and the steps that the resolver takes from there.
fn way(outlook: &Outlook, catalog: &str, package: &str) -> (Versions, Way) {
    let problem = &outlook.read.question.problem;
    let mut versions = Versions::default();
    let mut start = BTreeSet::new();
    for own in &problem.subscriptions {
        let is_of_it = own.package == package && own.catalog.to_string() == catalog;
        if is_of_it {
            // Those that are ready have no cause.
            let settled = || Position {
                installed: own.installed_csv.clone(),
                ..Position::default()
            };
            let position = Cause::position(&outlook.read.causes, &own.name).unwrap_or_else(settled);
            versions.add(&format!("{}/{}", problem.namespace, own.name), position);
            start.insert(own.installed_csv.as_str());
        }
    }
    let steps = outlook.plan.iter().flat_map(Plan::install);
    let steps = steps.filter(|install| install.package == package && install.catalog.to_string() == catalog);
    let steps = steps.map(|install| (install.channel.clone(), install.name.clone()));
    let start = start.into_iter().filter(|csv| !csv.is_empty());
    let start = start.map(|csv| (String::new(), csv.to_owned()));
    let way = start.chain(steps).collect();
    (versions, way)
}

/// Returns a hash of everything shown of a plan. An approval is for this hash.
fn digest(shown: &Shown) -> String {
    // Serialization cannot fail for texts and numbers.
    let text = serde_json::to_vec(&shown.seen()).unwrap_or_default();
    blake3::hash(&text).to_hex().to_string()
}
