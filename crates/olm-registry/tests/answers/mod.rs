//! Asks a registry every known question and records the answers in one agreed form.
//!
//! Questions are derived from the server's own lists, plus some whose answer is an error. Answers are
//! messages, not bytes: lists without a defined order are sorted, and JSON strings that a program wrote are
//! compared as JSON.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use olm_registry::client::{Client, Messages};
use olm_registry::proto;
use olm_registry::server::ACKNOWLEDGE_EXPERIMENTAL;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[path = "../contract/mod.rs"]
mod contract;
mod message;

use contract::Registry;

/// A name that no catalog has.
const ABSENT: &str = "absent";

/// A question and its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Method, without its service.
    pub method: &'static str,
    /// The question, on one line.
    pub question: String,
    /// `{"messages": […]}` or `{"code": …, "message": …}`.
    pub answer: Value,
}

impl Call {
    /// Returns a short digest of the answer.
    pub fn digest(&self) -> String {
        let text = go_compat::json::to_string(&self.answer, go_compat::json::Html::Plain);
        hex::encode(&Sha256::digest(text)[..4])
    }
}

/// Returns the digests of all answers, in sections. A section is a line `# METHOD...` and a line for each
/// question that was asked with just these methods, with a digest for each. A word equal to that of the line
/// before is a dot.
pub fn compact(calls: &[Call]) -> String {
    let mut questions: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for call in calls {
        questions
            .entry(&call.question)
            .or_default()
            .insert(call.method, call.digest());
    }
    let mut sections: BTreeMap<Vec<&str>, Vec<String>> = BTreeMap::new();
    for (question, methods) in &questions {
        let mut words: Vec<String> = question.split(' ').map(str::to_owned).collect();
        words.extend(methods.values().cloned());
        sections
            .entry(methods.keys().copied().collect())
            .or_default()
            .push(words.join(" "));
    }
    let mut out = String::new();
    for (methods, lines) in sections {
        out += &format!("# {}\n", methods.join(" "));
        let mut before: Vec<&str> = Vec::new();
        for line in &lines {
            let words: Vec<&str> = line.split(' ').collect();
            let same = words
                .iter()
                .zip(&before)
                .take_while(|(word, earlier)| word == earlier)
                .count();
            let shown = std::iter::repeat_n(".", same).chain(words[same..].iter().copied());
            out += &(shown.collect::<Vec<_>>().join(" ") + "\n");
            before = words;
        }
    }
    out
}

/// Returns questions and whole answers by method.
pub fn readable(calls: &[Call]) -> BTreeMap<&'static str, Value> {
    let mut methods: BTreeMap<&'static str, Map<String, Value>> = BTreeMap::new();
    for call in calls {
        let answers = methods.entry(call.method).or_default();
        let earlier = answers.insert(call.question.clone(), call.answer.clone());
        assert!(
            earlier.is_none(),
            "{} {} was asked twice",
            call.method,
            call.question
        );
    }
    methods
        .into_iter()
        .map(|(method, answers)| (method, Value::Object(answers)))
        .collect()
}

/// Asks the server at `host:port` every question. `schemas` are custom schemas to ask for, as a catalog's
/// cannot be listed.
pub async fn ask(address: &str, schemas: &[String]) -> Result<Vec<Call>, Box<dyn std::error::Error>> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.http2_adaptive_window(true);
    let channel = endpoint.connect().await?;
    let mut asker = Asker {
        registry: Registry(Client::new(channel.clone())),
        channel,
        calls: Vec::new(),
        asked: HashSet::new(),
        listed: Vec::new(),
        packages: Vec::new(),
    };
    asker.packages().await;
    asker.list_bundles().await;
    asker.bundles().await;
    asker.replacements().await;
    asker.providers().await;
    asker.custom_schemas(schemas).await;
    asker.health().await;
    Ok(asker.calls)
}

struct Asker {
    channel: Channel,
    registry: Registry,
    calls: Vec<Call>,
    asked: HashSet<(&'static str, String)>,
    /// The answer to `ListBundles`.
    listed: Vec<proto::Bundle>,
    packages: Vec<proto::Package>,
}

/// Returns all messages of a stream, or the error that ended it.
async fn collect<T>(stream: Result<Messages<T>, Status>) -> Result<Vec<T>, Status> {
    stream?.collect().await
}

fn error(status: &Status) -> Value {
    json!({"code": format!("{:?}", status.code()), "message": status.message()})
}

fn answer<T>(result: Result<Vec<T>, Status>, to_json: impl Fn(&T) -> Value) -> Value {
    match result {
        Ok(messages) => json!({"messages": messages.iter().map(to_json).collect::<Vec<_>>()}),
        Err(status) => error(&status),
    }
}

/// Same as [`answer`], for results without a defined order.
fn sorted<T>(result: Result<Vec<T>, Status>, to_json: impl Fn(&T) -> Value) -> Value {
    let mut answer = answer(result, to_json);
    if let Some(Value::Array(messages)) = answer.get_mut("messages") {
        messages.sort_by_cached_key(Value::to_string);
    }
    answer
}

fn one<T>(result: Result<T, Status>) -> Result<Vec<T>, Status> {
    Ok(vec![result?])
}

/// Returns names on one line. Empty ones are shown, to distinguish them from absent ones.
fn question(names: &[&str]) -> String {
    let shown = |name: &&str| {
        if name.is_empty() {
            "-".to_owned()
        } else {
            (*name).to_owned()
        }
    };
    names.iter().map(shown).collect::<Vec<_>>().join(" ")
}

impl Asker {
    /// Records an answer, once per question.
    fn note(&mut self, method: &'static str, question: String, answer: Value) {
        if !self.asked.insert((method, question.clone())) {
            return;
        }
        self.calls.push(Call {
            method,
            question,
            answer,
        });
    }

    async fn packages(&mut self) {
        let names = collect(self.registry.list_packages(proto::ListPackageRequest {}).await).await;
        let mut asked: BTreeSet<String> = [String::new(), ABSENT.to_owned()].into();
        if let Ok(names) = &names {
            asked.extend(names.iter().map(|package| package.name.clone()));
        }
        let names = sorted(names, |package| Value::from(package.name.clone()));
        self.note("ListPackages", question(&[]), names);
        for name in asked {
            let package = one(self.registry.0.get_package(&name).await);
            if let Ok([package]) = package.as_deref() {
                self.packages.push(package.clone());
            }
            self.note(
                "GetPackage",
                question(&[&name]),
                answer(package, message::package),
            );
        }
    }

    async fn list_bundles(&mut self) {
        let bundles = collect(self.registry.0.list_bundles().await).await;
        match bundles {
            Ok(bundles) => {
                let mut order = Vec::new();
                for bundle in &bundles {
                    let name = question(&[&bundle.package_name, &bundle.channel_name, &bundle.csv_name]);
                    order.push(Value::from(name.clone()));
                    self.note(
                        "ListBundles",
                        name,
                        json!({"messages": [message::bundle(bundle)]}),
                    );
                }
                self.note("ListBundles", "in order".to_owned(), Value::Array(order));
                self.listed = bundles;
            }
            Err(status) => self.note("ListBundles", "in order".to_owned(), error(&status)),
        }
    }

    /// Returns packages and their channels, with one absent of each.
    fn places(&self) -> Vec<(String, String)> {
        let mut places = vec![
            (String::new(), String::new()),
            (ABSENT.to_owned(), "stable".to_owned()),
        ];
        for package in &self.packages {
            places.push((package.name.clone(), ABSENT.to_owned()));
            places.extend(
                package
                    .channels
                    .iter()
                    .map(|channel| (package.name.clone(), channel.name.clone())),
            );
        }
        places
    }

    async fn bundles(&mut self) {
        for (package, channel) in self.places() {
            let request = proto::GetBundleInChannelRequest {
                pkg_name: package.clone(),
                channel_name: channel.clone(),
            };
            let head = one(self.registry.get_bundle_for_channel(request).await);
            let place = question(&[&package, &channel]);
            self.note("GetBundleForChannel", place, answer(head, message::bundle));
            let names = self
                .listed
                .iter()
                .filter(|bundle| bundle.package_name == package && bundle.channel_name == channel);
            let mut names: Vec<String> = names.map(|bundle| bundle.csv_name.clone()).collect();
            names.push(ABSENT.to_owned());
            for name in names {
                let bundle = one(self.registry.0.get_bundle(&package, &channel, &name).await);
                let asked = question(&[&package, &channel, &name]);
                self.note("GetBundle", asked, answer(bundle, message::bundle));
            }
        }
    }

    async fn replacements(&mut self) {
        let mut names: BTreeSet<String> = [String::new(), ABSENT.to_owned()].into();
        for bundle in &self.listed {
            names.insert(bundle.csv_name.clone());
            names.insert(bundle.replaces.clone());
            names.extend(bundle.skips.iter().cloned());
        }
        for name in names {
            let request = proto::GetAllReplacementsRequest {
                csv_name: name.clone(),
            };
            let entries = collect(self.registry.get_channel_entries_that_replace(request).await).await;
            let entries = sorted(entries, message::entry);
            self.note("GetChannelEntriesThatReplace", question(&[&name]), entries);
        }
        for (package, channel) in self.places() {
            let mut names: BTreeSet<String> = [String::new(), ABSENT.to_owned()].into();
            for bundle in &self.listed {
                if bundle.package_name == package && bundle.channel_name == channel {
                    names.insert(bundle.replaces.clone());
                    names.extend(bundle.skips.iter().cloned());
                }
            }
            for name in names {
                let found = self.replacement(&package, &channel, &name).await;
                self.note(
                    "GetBundleThatReplaces",
                    question(&[&package, &channel, &name]),
                    found,
                );
            }
        }
    }

    /// Returns the replacement of a bundle. If there are several, upstream returns any of them, so all of
    /// them are recorded.
    async fn replacement(&mut self, package: &str, channel: &str, name: &str) -> Value {
        let request = proto::GetReplacementRequest {
            csv_name: name.to_owned(),
            pkg_name: package.to_owned(),
            channel_name: channel.to_owned(),
        };
        let found = one(self.registry.get_bundle_that_replaces(request).await);
        let candidates: BTreeSet<&str> = self
            .listed
            .iter()
            .filter(|bundle| bundle.package_name == package && bundle.channel_name == channel)
            .filter(|bundle| bundle.replaces == name || bundle.skips.iter().any(|skip| skip == name))
            .map(|bundle| bundle.csv_name.as_str())
            .collect();
        match found.as_deref() {
            Ok([bundle]) if candidates.len() > 1 && candidates.contains(bundle.csv_name.as_str()) => {
                json!({"one of": candidates})
            }
            _ => answer(found, message::bundle),
        }
    }

    async fn providers(&mut self) {
        let mut apis: BTreeSet<(String, String, String)> = BTreeSet::new();
        for bundle in &self.listed {
            for api in &bundle.provided_apis {
                let (group, version, kind) = (api.group.clone(), api.version.clone(), api.kind.clone());
                apis.insert((group.clone(), version.clone(), ABSENT.to_owned()));
                apis.insert((group, version, kind));
            }
        }
        apis.insert(Default::default());
        apis.insert((
            "quotes\"and\\more\n\u{e9}\u{200b}".to_owned(),
            "v1".to_owned(),
            ABSENT.to_owned(),
        ));
        for (group, version, kind) in apis {
            let asked = question(&[&group, &version, &kind]).escape_debug().to_string();
            let request = proto::GetAllProvidersRequest {
                group: group.clone(),
                version: version.clone(),
                kind: kind.clone(),
                plural: "ignored".to_owned(),
            };
            let entries = collect(self.registry.get_channel_entries_that_provide(request).await).await;
            let entries = sorted(entries, message::entry);
            self.note("GetChannelEntriesThatProvide", asked.clone(), entries);
            let request = proto::GetLatestProvidersRequest {
                group: group.clone(),
                version: version.clone(),
                kind: kind.clone(),
                plural: String::new(),
            };
            let entries = collect(
                self.registry
                    .get_latest_channel_entries_that_provide(request)
                    .await,
            )
            .await;
            let entries = sorted(entries, message::entry);
            self.note("GetLatestChannelEntriesThatProvide", asked.clone(), entries);
            let request = proto::GetDefaultProviderRequest {
                group,
                version,
                kind,
                plural: String::new(),
            };
            let bundle = one(self.registry.get_default_bundle_that_provides(request).await);
            self.note(
                "GetDefaultBundleThatProvides",
                asked,
                answer(bundle, message::bundle),
            );
        }
    }

    async fn custom_schemas(&mut self, schemas: &[String]) {
        let fixed = [
            "",
            ABSENT,
            "olm.package",
            "olm.bundle",
            "not/plain",
            ".hidden",
            "-",
            "sch\u{e9}ma",
            "new\nline",
        ];
        let mut packages: Vec<String> = self.packages.iter().map(|package| package.name.clone()).collect();
        packages.extend(["", ABSENT, "not/plain", "..", "two words"].map(str::to_owned));
        for schema in schemas.iter().map(String::as_str).chain(fixed) {
            let known = schemas.iter().any(|known| known == schema);
            // An unknown schema has no blobs in any package, so one package of each kind is enough.
            let skip = if known {
                0
            } else {
                self.packages.len().saturating_sub(1)
            };
            for package in packages.iter().skip(skip) {
                self.custom_schema(schema, package, &["true"]).await;
            }
        }
        let schema = schemas.first().map_or(ABSENT, String::as_str);
        for headers in [
            &[][..],
            &["false"],
            &["TRUE"],
            &["1"],
            &[""],
            &["true", "false"],
            &["false", "true"],
        ] {
            self.custom_schema(schema, "", headers).await;
            self.custom_schema("", "", headers).await;
        }
    }

    async fn custom_schema(&mut self, schema: &str, package: &str, headers: &[&'static str]) {
        let mut request = Request::new(proto::ExperimentalListPackageCustomSchemasRequest {
            schema: schema.to_owned(),
            package_name: package.to_owned(),
        });
        for value in headers {
            let value = tonic::metadata::MetadataValue::from_static(value);
            request.metadata_mut().append(ACKNOWLEDGE_EXPERIMENTAL, value);
        }
        let called = self.registry.experimental_list_package_custom_schemas(request);
        let structs = collect(called.await).await;
        let asked = question(&[schema, package]).escape_debug().to_string();
        let asked = format!("{asked} {}", headers.join(","));
        let structs = sorted(structs, message::structure);
        self.note("ExperimentalListPackageCustomSchemas", asked, structs);
    }

    async fn health(&mut self) {
        for service in ["", "Registry", "api.Registry", ABSENT] {
            let request = HealthCheckRequest {
                service: service.to_owned(),
            };
            let state = HealthClient::new(self.channel.clone()).check(request).await;
            let state = one(state.map(Response::into_inner));
            let state = answer(state, |state| Value::from(state.status().as_str_name()));
            self.note("Check", question(&[service]), state);
        }
    }
}
