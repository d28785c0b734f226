//! Answers of upstream's `opm` to every known question, compared with ours.
//!
//! `odd/answers` has whole answers for the catalog of odd cases `odd/catalog`; `corpus-answers.txt` has
//! digests of answers for the corpus catalog. To record them again, serve a catalog and run
//!
//! ```text
//! cargo run -p olm-registry --example record_answers -- ADDRESS readable crates/olm-registry/tests/odd/answers custom.note Custom_Other-1.0 olm.future
//! cargo run -p olm-registry --example record_answers -- ADDRESS compact > crates/olm-registry/tests/corpus-answers.txt
//! ```
//!
//! Recorded with upstream's opm from operator-registry bf58a7de.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use olm_registry::{cache, server};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

mod answers;

use answers::Call;

/// Serves a catalog, asks every question and stops.
async fn asked(catalog: &Path, schemas: &[&str]) -> Vec<Call> {
    let index = cache::open_temporary(catalog, None).expect("index");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
    let address = listener.local_addr().expect("address").to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server::serve(Arc::new(index), listener, async {
        let _ = stopped.await;
    }));
    let schemas: Vec<String> = schemas.iter().map(|schema| (*schema).to_owned()).collect();
    let calls = answers::ask(&address, &schemas).await.expect("asked");
    let _ = stop.send(());
    serving.await.expect("no panic").expect("served");
    calls
}

/// Digests by method and question.
type Digests = BTreeMap<(String, String), String>;

/// Parses the output of [`answers::compact`].
fn parse(text: &str) -> Digests {
    let mut digests = Digests::new();
    let mut methods: Vec<&str> = Vec::new();
    let mut before: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("# ") {
            methods = heading.split(' ').collect();
            before.clear();
            continue;
        }
        let words = line.split(' ').enumerate();
        let words: Vec<&str> = words
            .map(|(at, word)| if word == "." { before[at] } else { word })
            .collect();
        let (question, values) = words.split_at(words.len() - methods.len());
        for (method, digest) in methods.iter().zip(values) {
            digests.insert(((*method).to_owned(), question.join(" ")), (*digest).to_owned());
        }
        before = words;
    }
    digests
}

/// Returns the differences, one line each: questions with another answer, without one, or never recorded.
fn differences(recorded: &Digests, ours: &Digests) -> Vec<String> {
    let keys: std::collections::BTreeSet<_> = recorded.keys().chain(ours.keys()).collect();
    let told = keys.into_iter().filter_map(|key| {
        let what = match (recorded.get(key), ours.get(key)) {
            (Some(recorded), Some(ours)) if recorded == ours => return None,
            (Some(_), Some(_)) => "has another answer",
            (Some(_), None) => "is recorded and was not asked",
            _ => "was asked and is not recorded",
        };
        Some(format!("{} {}: {what}", key.0, key.1))
    });
    told.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_catalogs_are_answered_as_upstream_answers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/odd");
    let calls = asked(
        &folder.join("catalog"),
        &["custom.note", "Custom_Other-1.0", "olm.future"],
    )
    .await;
    let ours = answers::readable(&calls);
    let mut recorded: BTreeMap<String, Value> = BTreeMap::new();
    for file in std::fs::read_dir(folder.join("answers")).expect("answers") {
        let path = file.expect("entry").path();
        let method = path.file_stem().and_then(|name| name.to_str()).expect("method");
        let text = std::fs::read_to_string(&path).expect("file");
        recorded.insert(method.to_owned(), serde_json::from_str(&text).expect("JSON"));
    }
    assert!(ours.keys().copied().eq(recorded.keys()), "{:?}", recorded.keys());
    for (method, recorded) in &recorded {
        let (recorded, ours) = (
            recorded.as_object().expect("object"),
            ours[method.as_str()].as_object().expect("object"),
        );
        assert!(ours.keys().eq(recorded.keys()), "{method}: other questions");
        for (question, answer) in recorded {
            assert_eq!(&ours[question], answer, "{method} {question}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_corpus_catalog_is_answered_as_upstream_answers() {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return;
    };
    let recorded = parse(include_str!("corpus-answers.txt"));
    assert!(recorded.len() > 6000, "{} recorded", recorded.len());
    let ours = parse(&answers::compact(&asked(&corpus.join("fbc"), &[]).await));
    let differences = differences(&recorded, &ours);
    assert!(
        differences.is_empty(),
        "{} of {}:\n{}",
        differences.len(),
        recorded.len(),
        differences.join("\n")
    );
}

#[test]
fn differences_are_reported_with_method_and_question() {
    let call = |method, question: &str, answer: &str| Call {
        method,
        question: question.to_owned(),
        answer: Value::from(answer),
    };
    let recorded = [
        call("A", "x w", "5"),
        call("A", "x y", "1"),
        call("A", "x z", "1"),
        call("B", "x z", "2"),
        call("B", "x", "3"),
    ];
    let text = answers::compact(&recorded);
    let parsed = parse(&text);
    assert_eq!(parsed.len(), 5, "{text}");
    assert!(text.contains("\n. y "), "{text}");
    assert_eq!(parsed[&("B".to_owned(), "x z".to_owned())], recorded[3].digest());
    let ours = [
        call("A", "x w", "5"),
        call("A", "x y", "1"),
        call("A", "x z", "changed"),
        call("B", "x", "3"),
        call("C", "new", "4"),
    ];
    assert_eq!(
        differences(&parsed, &parse(&answers::compact(&ours))),
        [
            "A x z: has another answer",
            "B x z: is recorded and was not asked",
            "C new: was asked and is not recorded",
        ]
    );
}
