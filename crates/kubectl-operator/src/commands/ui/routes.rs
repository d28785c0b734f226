//! Routes of the pages: reads the data for each page and renders it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use hyper::StatusCode;
use olm_authoring::graph::{PackageGraph, STYLE};
use olm_resolver::plan::{Explained, Plan, Question};
use olm_resolver::{CatalogKey, Snapshot};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::gate::{Asked, FORGED, Gate, LOGIN, Refusal};
use super::health::{self, Health};
use super::pages::{self, Frame};
use super::reads::{CATALOG_FRESH, FRESH, Read, Reads};
use super::request::{Fields, href};
use super::works::{PLACES, Works};
use crate::args::ClusterArgs;
use crate::args::ui::UiArgs;
use crate::catalogs::{self, Contents};
use crate::cluster::Cluster;
use crate::commands::approve::{self, Shown};
use crate::commands::explain::{self, Cause};
use crate::commands::graph::of_snapshot;
use crate::gather;
use crate::operators::{Gathered, Key};
use crate::packages::{self, Package};
use crate::preview;

/// Maximum number of concurrent catalog reads.
const CATALOGS_AT_ONCE: usize = 4;
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
    operators: Reads<Option<String>, Gathered>,
    operator: Reads<Key, Gathered>,
    plan: Reads<Key, Shown>,
    packages: Reads<String, Vec<Package>>,
    health: Reads<Option<String>, Health>,
    reading: Semaphore,
    /// Catalog contents, shared by all namespaces.
    contents: Reads<CatalogKey, Content>,
    outlook: Works<String, Outlook>,
    explained: Works<(Of, Option<String>), Explained>,
    graph: Works<(Of, String, String), PackageGraph>,
}

/// The content of a catalog, or the error of its read.
type Content = Result<Arc<Snapshot>, String>;

/// Key of derived values: the namespace, and the time of the outlook they are based on.
type Of = (String, Instant);

/// Input and result of a namespace's resolution.
struct Outlook {
    question: Arc<Question>,
    /// Operators that are not ready.
    causes: Arc<Vec<Cause>>,
    /// The plan, or the error if the namespace cannot be resolved.
    plan: Result<Plan, String>,
    /// Notes on objects that are excluded.
    notes: Vec<String>,
    at: Instant,
}

impl App {
    pub(super) fn new(cluster: Cluster, args: &UiArgs, gate: Gate) -> Self {
        let places = Arc::new(Semaphore::new(PLACES));
        Self {
            namespace: (!args.all_namespaces).then(|| cluster.namespace.clone()),
            args: args.cluster.clone(),
            cluster,
            seal: gate.seal(),
            gate,
            used: Cell::new(Instant::now()),
            operators: Reads::new(FRESH),
            operator: Reads::new(FRESH),
            plan: Reads::new(FRESH),
            packages: Reads::new(CATALOG_FRESH),
            health: Reads::new(FRESH),
            reading: Semaphore::new(CATALOGS_AT_ONCE),
            contents: Reads::new(CATALOG_FRESH),
            outlook: Works::new(&places),
            explained: Works::new(&places),
            graph: Works::new(&places),
        }
    }

    /// Returns the time since the last permitted request.
    pub(super) fn idle(&self) -> Duration {
        self.used.get().elapsed()
    }

    /// Returns the number of kept catalogs and derived values.
    #[cfg(test)]
    pub(super) fn kept(&self) -> [usize; 3] {
        [
            self.contents.count(),
            self.outlook.count(),
            self.explained.count(),
        ]
    }

    /// Drops expired values, which include whole catalogs.
    pub(super) fn sweep(&self) {
        self.operators.sweep();
        self.operator.sweep();
        self.plan.sweep();
        self.packages.sweep();
        self.health.sweep();
        self.contents.sweep();
        self.outlook.sweep();
        self.explained.sweep();
        self.graph.sweep();
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
    pub(super) async fn show(self: &Rc<Self>, page: &str, query: &str) -> Answer {
        let fields = Fields::of(query.as_bytes());
        let Some(namespace) = fields.namespace(self.namespace.as_deref()) else {
            let frame = self.frame("Namespace", self.namespace.as_deref());
            let text = "Invalid namespace name.";
            return Answer::html(pages::message(&frame, text)).with(StatusCode::BAD_REQUEST);
        };
        match page {
            "style.css" => Answer::asset("text/css; charset=utf-8", &style()),
            "script.js" => Answer::asset("text/javascript; charset=utf-8", SCRIPT),
            "" => Answer::elsewhere(format!("{}operators", self.gate.base())),
            "operators" => self.show_operators(namespace.as_deref(), &fields.word()).await,
            "catalogs" => self.show_catalogs(namespace.as_deref()).await,
            "operator" => match (&namespace, fields.name("name")) {
                (Some(namespace), Some(name)) => self.show_operator(namespace, name).await,
                _ => self.nothing(),
            },
            "plan" => match (&namespace, fields.name("name")) {
                (Some(namespace), Some(name)) => self.show_plan(namespace, name).await,
                _ => self.nothing(),
            },
            "explain" => match (&namespace, fields.text("name")) {
                (Some(namespace), "") => self.show_explanation(namespace, None).await,
                (Some(namespace), name) => self.show_explanation(namespace, Some(name)).await,
                _ => self.nothing(),
            },
            // Pages about catalogs need one namespace.
            _ => {
                let namespace = namespace.as_deref().unwrap_or(&self.cluster.namespace);
                let (catalog, name) = (fields.text("catalog"), fields.text("name"));
                match page {
                    "catalog" => self.show_catalog(namespace, &fields.word()).await,
                    "package" => self.show_package(namespace, catalog, name).await,
                    "graph" => self.show_graph(namespace, catalog, name).await,
                    _ => self.nothing(),
                }
            }
        }
    }

    /// Runs the action of a form.
    pub(super) async fn write(&self, page: &str, form: &[u8]) -> Answer {
        let form = Fields::of(form);
        let (Some(Some(namespace)), Some(name)) = (form.namespace(None), form.name("name")) else {
            return Answer::refused(FORGED.status, FORGED.text);
        };
        match page {
            "approve" => {
                self.approve(&namespace, name, form.text("shown"), form.text("token"))
                    .await
            }
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
        Answer::html(pages::message(&frame, "This page does not exist.")).with(StatusCode::NOT_FOUND)
    }

    /// Renders a page, or an error page if the read failed.
    fn page<V>(
        &self,
        title: &str,
        namespace: Option<&str>,
        read: &Read<V>,
        shown: impl FnOnce(&Frame<'_>, &V) -> String,
    ) -> Answer {
        self.page_with(Vec::new(), title, namespace, read, shown)
    }

    /// Does the same, with additional notes.
    fn page_with<V>(
        &self,
        notes: Vec<String>,
        title: &str,
        namespace: Option<&str>,
        read: &Read<V>,
        shown: impl FnOnce(&Frame<'_>, &V) -> String,
    ) -> Answer {
        let frame = Frame {
            notes,
            ..self.frame(title, namespace)
        };
        match read {
            Ok(value) => Answer::html(shown(&frame, value)),
            Err(text) => Answer::html(pages::message(&frame, text)).with(StatusCode::BAD_GATEWAY),
        }
    }

    async fn show_operators(&self, namespace: Option<&str>, word: &str) -> Answer {
        let key = namespace.map(str::to_owned);
        let client = &self.cluster.client;
        let read = self
            .operators
            .get(&key, async || gather::operators(client, namespace).await);
        let read = read.await;
        self.page_with(notes(&read), "Operators", namespace, &read, |frame, gathered| {
            pages::operators(frame, gathered, word)
        })
    }

    async fn show_operator(&self, namespace: &str, name: &str) -> Answer {
        let key = (namespace.to_owned(), name.to_owned());
        let client = &self.cluster.client;
        let read = self.operator.get(&key, async || {
            gather::with_workloads(client, Some(namespace), |operator| operator.name() == name).await
        });
        let read = read.await;
        let is_there = |gathered: &Rc<Gathered>| {
            gathered
                .operators()
                .iter()
                .any(|operator| operator.name() == name)
        };
        if read.as_ref().is_ok_and(|gathered| !is_there(gathered)) {
            // The operator may be an object that cannot be read.
            let frame = Frame {
                notes: notes(&read),
                ..self.frame(name, Some(namespace))
            };
            let text = format!("Namespace {namespace} has no operator {name}.");
            return Answer::html(pages::message(&frame, &text)).with(StatusCode::NOT_FOUND);
        }
        self.page_with(notes(&read), name, Some(namespace), &read, |frame, gathered| {
            pages::operator(frame, gathered, name)
        })
    }

    async fn show_plan(&self, namespace: &str, name: &str) -> Answer {
        let key = (namespace.to_owned(), name.to_owned());
        let read = self
            .plan
            .get(&key, async || self.look(namespace, name).await)
            .await;
        let title = |shown: &Rc<Shown>| preview::title(&shown.operators, shown.preview.as_ref());
        let title = read.as_ref().ok().and_then(title);
        let title = title.unwrap_or_else(|| name.to_owned());
        self.page(&title, Some(namespace), &read, |frame, shown| {
            let digest = digest(shown);
            let token = self.gate.form_token(&[namespace, name, &digest]);
            pages::plan(frame, shown, &digest, &token)
        })
    }

    /// Returns the plan as `approve` shows it, without approving.
    async fn look(&self, namespace: &str, name: &str) -> anyhow::Result<Shown> {
        let name = format!("{}{name}", approve::PLAN_PREFIX);
        let cluster = self.cluster.in_namespace(namespace);
        approve::approve(&cluster, &name, &mut |_| Ok(false)).await
    }

    async fn show_catalogs(&self, namespace: Option<&str>) -> Answer {
        let key = namespace.map(str::to_owned);
        let global = self.args.global_catalog_namespace.as_deref();
        let read = self.health.get(&key, async || {
            Box::pin(health::read(&self.cluster.client, namespace, global)).await
        });
        let read = read.await;
        let notes = read.iter().flat_map(|health| health.notes.clone()).collect();
        self.page_with(notes, "Catalogs", namespace, &read, pages::catalogs)
    }

    async fn show_catalog(&self, namespace: &str, word: &str) -> Answer {
        let read = self.packages(namespace).await;
        self.page("Packages", Some(namespace), &read, |frame, packages| {
            pages::catalog(frame, namespace, packages, word)
        })
    }

    async fn show_package(&self, namespace: &str, catalog: &str, name: &str) -> Answer {
        let read = self.packages(namespace).await;
        let is_it = |package: &&Package| package.name == name && packages::is_catalog(package, catalog);
        let found = read.as_ref().map(|packages| packages.iter().find(is_it));
        match found {
            Ok(Some(package)) => Answer::html(pages::package(
                &self.frame(name, Some(namespace)),
                namespace,
                package,
                packages::needs_group(&self.cluster.client, namespace).await,
            )),
            Ok(None) => self.nothing(),
            Err(_) => self.page(name, Some(namespace), &read, |_, _| String::new()),
        }
    }

    async fn packages(&self, namespace: &str) -> Read<Vec<Package>> {
        let (client, commands) = (&self.cluster.client, &self.cluster.commands);
        let key = namespace.to_owned();
        self.packages
            .get(&key, async || packages::all(client, namespace, commands).await)
            .await
    }

    async fn show_explanation(self: &Rc<Self>, namespace: &str, name: Option<&str>) -> Answer {
        let title = name.map_or_else(|| format!("Why in {namespace}"), |name| format!("Why: {name}"));
        let outlook = match self.outlook(namespace).await {
            Ok(outlook) => outlook,
            Err(text) => {
                return self.page(&title, Some(namespace), &Err::<Rc<()>, _>(text), |_, ()| {
                    String::new()
                });
            }
        };
        let key = ((namespace.to_owned(), outlook.at), name.map(str::to_owned));
        let (question, asked) = (Arc::clone(&outlook.question), key.1.clone());
        let causes = Arc::clone(&outlook.causes);
        let read = self.explained.get(&key, async { Ok(question) }, move |question| {
            let explained = explain::explain(&question, asked.as_deref())?;
            let explained = explain::with_causes(explained, &causes, asked.as_deref());
            Ok(explain::for_people(explained))
        });
        let (read, notes) = (read.await, outlook.notes.clone());
        self.page_with(notes, &title, Some(namespace), &read, |frame, explained| {
            pages::explain(frame, explained, &outlook.plan, name)
        })
    }

    async fn show_graph(self: &Rc<Self>, namespace: &str, catalog: &str, name: &str) -> Answer {
        let title = format!("Upgrade graph of {name}");
        let (read, notes) = match self.outlook(namespace).await {
            Ok(outlook) => (
                self.graph(namespace, &outlook, catalog, name).await,
                outlook.notes.clone(),
            ),
            Err(text) => (Err(text), Vec::new()),
        };
        self.page_with(notes, &title, Some(namespace), &read, |frame, graph| {
            pages::graph(frame, namespace, graph, name, catalog)
        })
    }

    async fn graph(
        &self,
        namespace: &str,
        outlook: &Outlook,
        catalog: &str,
        name: &str,
    ) -> Read<PackageGraph> {
        let catalogs = &outlook.question.problem.catalogs;
        let found = catalogs.iter().find(|found| found.key.to_string() == catalog);
        let content = found.map(|found| found.content.clone());
        let content = content.ok_or_else(|| {
            format!("Catalog {catalog} does not exist or cannot be used from this namespace.")
        })??;
        let (installed, way) = way(outlook, catalog, name);
        let of = (namespace.to_owned(), outlook.at);
        let (of_catalog, package) = (catalog.to_owned(), name.to_owned());
        let work =
            move |content: Arc<Snapshot>| Ok(graph_of(&content, &of_catalog, &package, &installed, way));
        self.graph
            .get(
                &(of, catalog.to_owned(), name.to_owned()),
                async { Ok(content) },
                work,
            )
            .await
    }

    async fn outlook(self: &Rc<Self>, namespace: &str) -> Read<Outlook> {
        let (app, of) = (Rc::clone(self), namespace.to_owned());
        let prepare = async move {
            let cluster = app.cluster.in_namespace(&of);
            let contents = async |keys: &BTreeSet<CatalogKey>| app.contents(keys).await;
            explain::question_with(&cluster, &app.args, contents).await
        };
        // Resolution takes CPU time, during which other pages must be served.
        let work = |read: explain::Read| {
            let plan = olm_resolver::plan::answer(&read.question, None, &mut |_| {});
            Ok(Outlook {
                plan: plan.map_err(|error| error.to_string()),
                question: Arc::new(read.question),
                causes: Arc::new(read.causes),
                notes: read.notes,
                at: Instant::now(),
            })
        };
        self.outlook.get(&namespace.to_owned(), prepare, work).await
    }

    async fn contents(&self, keys: &BTreeSet<CatalogKey>) -> Contents {
        let reads = futures::stream::iter(keys).map(async |key| (key.clone(), self.content(key).await));
        let read: BTreeMap<_, _> = reads.buffer_unordered(CATALOGS_AT_ONCE).collect().await;
        read
    }

    async fn content(&self, key: &CatalogKey) -> Content {
        let client = &self.cluster.client;
        let read = async || {
            let _place = self.reading.acquire().await?;
            let keys = BTreeSet::from([key.clone()]);
            let mut read = Box::pin(catalogs::read(client, &keys)).await;
            read.contents.remove(key).context("it was not read")
        };
        let read = self.contents.get(key, read).await?;
        (*read).clone()
    }

    /// Approves a plan if it is unchanged since it was shown.
    async fn approve(&self, namespace: &str, name: &str, shown: &str, token: &str) -> Answer {
        if let Err(refusal) = self.gate.check_form(&[namespace, name, shown], token) {
            return Answer::refused(refusal.status, refusal.text);
        }
        let plan = format!("{}{name}", approve::PLAN_PREFIX);
        let mut answer = |now: &Shown| Ok(digest(now) == shown);
        let cluster = self.cluster.in_namespace(namespace);
        let result = approve::approve(&cluster, &plan, &mut answer).await;
        self.operators.forget();
        self.operator.forget();
        self.plan.forget();
        self.outlook.forget();
        self.explained.forget();
        self.graph.forget();
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

/// Returns notes on operators that could not be read.
fn notes(read: &Read<Gathered>) -> Vec<String> {
    read.iter().flat_map(|gathered| gathered.notes()).collect()
}

/// Returns the upgrade graph of a package, cut for a page.
pub(super) fn graph_of(
    snapshot: &Snapshot,
    catalog: &str,
    package: &str,
    installed: &Installed,
    way: Way,
) -> PackageGraph {
    let mut graph = PackageGraph::new(package, catalog, of_snapshot(snapshot, package), installed);
    graph.way = way;
    graph.cut(MAX_DRAWN.0, MAX_DRAWN.1);
    graph
}

/// Subscriptions by installed version.
type Installed = BTreeMap<String, Vec<String>>;
/// Channels and versions in the order in which OLM installs them.
type Way = Vec<(String, String)>;

/// Returns the Subscriptions by installed version of a package, and the steps that the resolver takes from there.
fn way(outlook: &Outlook, catalog: &str, package: &str) -> (Installed, Way) {
    let problem = &outlook.question.problem;
    let mut installed = Installed::new();
    for own in &problem.subscriptions {
        let is_of_it = own.package == package && own.catalog.to_string() == catalog;
        if is_of_it && !own.installed_csv.is_empty() {
            let by = format!("{}/{}", problem.namespace, own.name);
            installed.entry(own.installed_csv.clone()).or_default().push(by);
        }
    }
    let steps = outlook.plan.iter().flat_map(Plan::install);
    let steps = steps.filter(|install| install.package == package && install.catalog.to_string() == catalog);
    let steps = steps.map(|install| (install.channel.clone(), install.name.clone()));
    let start = installed.keys().map(|csv| (String::new(), csv.clone()));
    let way = start.chain(steps).collect();
    (installed, way)
}

/// Returns a hash of everything shown of a plan. An approval is for this hash.
fn digest(shown: &Shown) -> String {
    // Serialization cannot fail for texts and numbers.
    let text = serde_json::to_vec(&shown.seen()).unwrap_or_default();
    blake3::hash(&text).to_hex().to_string()
}
