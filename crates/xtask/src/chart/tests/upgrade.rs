//! Tests of `helm upgrade` with earlier values, and of steps without helm.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;

use super::*;

const GUIDE: &str = "docs/guides/upgrade-olm.md";
const RELEASES: &str = "docs/reference/releases.md";

fn page(path: &str) -> String {
    fs::read_to_string(workspace::root().join(path)).unwrap()
}

/// Starts the part of an API server that helm needs if it keeps releases itself. Returns its address.
fn api_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(&stream).lines().map(Result::unwrap_or_default);
            let request = lines.next().unwrap_or_default();
            lines.find(String::is_empty);
            let body = match request.split([' ', '?']).nth(1) {
                Some("/version") => json!({"major": "1", "minor": "34", "gitVersion": "v1.34.0"}),
                Some("/apis") => json!({"kind": "APIGroupList", "groups": []}),
                _ => json!({"kind": "APIVersions", "versions": []}),
            }
            .to_string();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
            // The client may have disconnected.
            let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    format!("http://{address}")
}

/// Helm, with a folder for its releases.
struct Installed {
    helm: &'static Path,
    api_server: String,
    folder: tempfile::TempDir,
}

impl Installed {
    fn new() -> Option<Self> {
        let helm = helm()?;
        let folder = tempfile::tempdir().unwrap();
        let api_server = api_server();
        Some(Self {
            helm,
            api_server,
            folder,
        })
    }

    /// Returns the chart of a release, which pins its images by `digest`.
    fn pinned(&self, digest: &str) -> PathBuf {
        let chart = self.folder.path().join("olm");
        let mut copy = Command::new("cp");
        copy.arg("-r").args([&folder(), &chart]);
        process::run(&mut copy).unwrap();
        let values = chart.join("values.yaml");
        let text = fs::read_to_string(&values).unwrap();
        let pinned = text.replace("    digest: \"\"\n", &format!("    digest: {digest}\n"));
        assert_eq!(pinned.matches(digest).count(), 2);
        fs::write(values, pinned).unwrap();
        chart
    }

    /// Returns the images of the operators and of catalogs after an upgrade from the values `said` to `chart`.
    fn images(&self, said: &Value, chart: &Path, arguments: &[&str]) -> [String; 2] {
        let releases = self.folder.path().join("releases.yaml");
        let release = json!([{
            "name": RELEASE,
            "namespace": "default",
            "version": 1,
            "info": {"status": "deployed"},
            "chart": {"metadata": {"name": "olm", "version": "0.0.1", "apiVersion": "v2"}},
            "config": said,
        }]);
        fs::write(&releases, release.to_string()).unwrap();
        let mut command = Command::new(self.helm);
        command
            .env("HELM_DRIVER", "memory")
            .env("HELM_MEMORY_DRIVER_DATA", releases)
            .env("KUBECONFIG", "/dev/null")
            .args(["--kube-apiserver", &self.api_server, "--namespace", "default"])
            .args(["upgrade", RELEASE])
            .arg(chart)
            .args(["--dry-run=client", "-o", "json"])
            .args(arguments)
            .stdin(Stdio::null());
        let told = process::run(&mut command).unwrap();
        let upgraded: Value = serde_json::from_str(&told).unwrap();
        let objects = serde_saphyr::from_multiple::<Value>(upgraded["manifest"].as_str().unwrap()).unwrap();
        let objects: Vec<Value> = objects.into_iter().filter(|it| !it.is_null()).collect();
        let container = &pod(&objects, CATALOG)["spec"]["containers"][0];
        ["/image", "/args/1"].map(|place| {
            let text = container.pointer(place).and_then(Value::as_str).unwrap();
            text.trim_start_matches("--opmImage=").to_owned()
        })
    }
}

/// Values of the user are kept by an upgrade. The command in the guide restores those of the released chart.
#[test]
fn digests_of_a_released_chart_come_back_by_the_line_of_the_guide() {
    let Some(installed) = Installed::new() else { return };
    let [theirs, old] = ["1", "2"].map(|digit| format!("sha256:{}", digit.repeat(64)));
    let chart = installed.pinned(&theirs);
    let image = |tag: &str, digest: Option<&String>| {
        let at = digest.map(|digest| format!("@{digest}")).unwrap_or_default();
        ["olm", "opm"].map(|name| format!("reg.example.com/{name}:{tag}{at}"))
    };
    let said = json!({"image": {"registry": "reg.example.com", "tag": "old", "olm": {"digest": old}, "opm": {"digest": old}}});
    let kept = ["--reset-then-reuse-values"];
    assert_eq!(installed.images(&said, &chart, &kept), image("old", Some(&old)));

    let guide = page(GUIDE);
    let lines = guide.lines();
    let mut lines = lines.filter_map(|line| line.strip_prefix("helm upgrade olm charts/olm "));
    let line = lines.find(|line| line.contains("--set ")).unwrap();
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let now = image(images::VERSION, Some(&theirs));
    assert_eq!(installed.images(&said, &chart, &arguments), now, "{line}");
    // This also works after an upgrade that left them empty.
    let empty =
        json!({"image": {"registry": "reg.example.com", "olm": {"digest": ""}, "opm": {"digest": ""}}});
    assert_eq!(installed.images(&empty, &chart, &arguments), now, "{line}");

    // The guide warns of this: no digest is left.
    let none = image(images::VERSION, None);
    let registry = json!({"image": {"registry": "reg.example.com"}});
    assert_eq!(installed.images(&registry, &chart, &kept), now);
    assert_eq!(installed.images(&registry, &chart, &arguments), none);
    let emptied = [kept[0], "--set", "image.olm.digest=,image.opm.digest=,image.tag="];
    assert_eq!(installed.images(&said, &chart, &emptied), none);
    assert_eq!(installed.images(&empty, &chart, &kept), none);
}

/// The commands that uninstall name files of the repository, which are parts of a release's single file.
#[test]
fn the_file_of_a_release_is_taken_apart_into_the_files_that_an_uninstall_names() {
    let Some(helm) = helm() else { return };
    let folder = tempfile::tempdir().unwrap();
    let text = page(RELEASES);
    let mut lines = text.lines().skip_while(|line| *line != "mkdir -p manifests/olm");
    let lines = [lines.next().unwrap(), lines.next().unwrap()].join("\n");
    let name = lines.split_whitespace().last().unwrap();
    // The file of a release: the definitions, then helm's output.
    let mut all = "# Definitions.\n".to_owned();
    for text in yaml(&workspace::root().join(DEFINITIONS)).unwrap().values() {
        all.push_str(&format!("---\n{}\n", text.trim_end()));
    }
    all.push_str(render(helm, &[]).unwrap().trim_start());
    fs::write(folder.path().join(name), all).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-euc", &lines]).current_dir(folder.path());
    process::run(&mut shell).unwrap();

    let parts = yaml(&folder.path().join(OBJECTS)).unwrap();
    let files = yaml(&workspace::root().join(OBJECTS)).unwrap();
    let objects = |text: &String| -> Vec<Value> {
        let objects = serde_saphyr::from_multiple::<Value>(text).unwrap();
        objects.into_iter().filter(|object| !object.is_null()).collect()
    };
    assert_eq!(
        parts.keys().collect::<Vec<_>>(),
        files.keys().collect::<Vec<_>>(),
        "{lines}"
    );
    for (name, text) in &parts {
        assert_eq!(objects(text), objects(&files[name]), "{name}");
    }
    let guide = page("docs/guides/install-olm.md");
    let named = guide.lines().filter(|line| line.starts_with("kubectl delete "));
    let named = named.flat_map(str::split_whitespace);
    let named: Vec<&str> = named
        .filter_map(|word| word.strip_prefix("manifests/olm/"))
        .collect();
    assert!(named.len() > 5, "{named:?}");
    for name in named {
        assert!(parts.contains_key(name), "{name}");
    }
}

/// `kubectl` rejects fields that the cluster does not know.
#[test]
fn a_field_that_is_newer_than_the_cluster_is_left_out() {
    for (version, is_known) in [("1.25.0", false), ("1.27.0", true)] {
        let Some(objects) = try_render("{}", &["--kube-version", version]) else {
            return;
        };
        let objects = objects.unwrap();
        let budget = &find(&objects, "PodDisruptionBudget/packageserver")["spec"];
        assert_eq!(
            budget["unhealthyPodEvictionPolicy"].is_string(),
            is_known,
            "{version}"
        );
    }
}
