//! Registries with invalid answers.

use olm_registry::proto;
use prost::Message as _;

use super::*;

/// Encoded messages; `None` breaks the stream.
type Answer = Option<Vec<Vec<u8>>>;

/// Starts a registry of one package with one channel and one version; `change` replaces answers, by method.
async fn registry(change: fn(&str) -> Option<Answer>) -> String {
    let answers = move |method: &str, question: &[u8]| {
        let method = method.rsplit('/').next().unwrap_or_default();
        if let Some(answer) = change(method) {
            return answer;
        }
        Some(match method {
            // Serving.
            "Check" => vec![vec![8, 1]],
            "ListBundles" => vec![bundle().encode_to_vec()],
            "ListPackages" => vec![name("demo")],
            "GetPackage" => {
                let asked = proto::GetPackageRequest::decode(question).unwrap();
                vec![package(&asked.name).encode_to_vec()]
            }
            _ => vec![bundle().encode_to_vec()],
        })
    };
    test_env::rogue(Arc::new(answers)).await
}

fn name(name: &str) -> Vec<u8> {
    let name = name.to_owned();
    proto::PackageName { name }.encode_to_vec()
}

fn package(name: &str) -> proto::Package {
    let stable = proto::Channel {
        name: "stable".to_owned(),
        csv_name: "demo.v1.0.0".to_owned(),
        deprecation: None,
    };
    proto::Package {
        name: name.to_owned(),
        default_channel_name: "stable".to_owned(),
        channels: vec![stable],
        deprecation: None,
    }
}

fn bundle() -> proto::Bundle {
    proto::Bundle {
        csv_name: "demo.v1.0.0".to_owned(),
        package_name: "demo".to_owned(),
        channel_name: "stable".to_owned(),
        version: "1.0.0".to_owned(),
        csv_json: test_env::csv("demo.v1.0.0", "1.0.0").to_string(),
        ..proto::Bundle::default()
    }
}

/// Returns the status of the only package.
fn status(lab: &Lab) -> serde_json::Value {
    let item = lab.catalogs.index().borrow().get("olm", "demo").unwrap();
    let text = [b"{".to_vec(), item.package.content.concat(), b"}".to_vec()].concat();
    serde_json::from_slice(&text).unwrap()
}

#[tokio::test]
async fn what_a_registry_names_twice_is_there_once_with_its_versions() {
    let packages = |method: &str| (method == "ListPackages").then(|| Some(vec![name("demo"), name("demo")]));
    let channels = |method: &str| {
        let mut twice = package("demo");
        twice.channels.extend(package("demo").channels);
        (method == "GetPackage").then(|| Some(vec![twice.encode_to_vec()]))
    };
    for change in [packages as fn(&str) -> _, channels] {
        let lab = Lab::new();
        lab.sources.put(source("olm", "cat", &registry(change).await));
        lab.wait_to_see(&["olm/demo.v1.0.0"]).await;
        let channels = status(&lab)["channels"].clone();
        assert_eq!(channels.as_array().unwrap().len(), 1);
        assert_eq!(
            channels[0]["entries"],
            json!([{"name": "demo.v1.0.0", "version": "1.0.0"}])
        );
    }
}

#[tokio::test]
async fn a_package_that_was_not_asked_for_is_none() {
    let other = |method: &str| (method == "GetPackage").then(|| Some(vec![package("other").encode_to_vec()]));
    let lab = Lab::new();
    lab.sources.put(source("olm", "cat", &registry(other).await));
    let state = || lab.state("olm", "cat").filter(|state| state.read_at.is_some());
    assert_eq!(wait_for("a read", state).await.left_out, 1);
    assert!(lab.seen(None).is_empty());
}

/// A stream that breaks in the middle must not pass for a smaller catalog.
#[tokio::test]
async fn a_call_that_breaks_is_no_answer() {
    for method in ["GetPackage", "GetBundle"] {
        let change: fn(&str) -> _ = match method {
            "GetPackage" => |method| (method == "GetPackage").then_some(None),
            _ => |method| (method == "GetBundle").then_some(None),
        };
        let lab = Lab::new();
        lab.sources.put(source("olm", "cat", &registry(change).await));
        let failure = lab.wait_for_failure("olm", "cat").await;
        assert!(failure.contains("cannot read"), "{failure}");
        assert_eq!(lab.state("olm", "cat").unwrap().read_at, None, "{method}");
    }
}

#[tokio::test]
async fn nothing_that_was_read_when_the_connection_was_lost_is_whole() {
    for _ in 0..64 {
        let (alive, mut lost) = oneshot::channel();
        assert_eq!(unless_lost(&mut lost, std::future::ready(1)).await, Some(1));
        // The connection is lost while the last answer is read.
        let reading = async move { drop(alive) };
        assert_eq!(unless_lost(&mut lost, reading).await, None);
        let (alive, mut lost) = oneshot::channel::<()>();
        drop(alive);
        assert_eq!(unless_lost(&mut lost, std::future::ready(1)).await, None);
    }
}
