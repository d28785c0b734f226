//! The manifest by which krew, the plugin manager of kubectl, installs the plugin.

use super::source::Source;

/// Program that krew installs. Its archive is one of the release.
pub(super) const PLUGIN: &str = "kubectl-operator";

/// Returns the manifest of the archive of [`PLUGIN`], with its SHA-256 in hexadecimal digits. `download_url` is the folder of the
/// archive on a server. Without it `uri` is the bare file name, and krew needs the archive as a file (`--archive`).
pub(super) fn manifest(source: &Source, download_url: Option<&str>, archive: &str, sha256: &str) -> String {
    let uri = download_url.map_or_else(
        || archive.to_owned(),
        |url| format!("{}/{archive}", url.trim_end_matches('/')),
    );
    let mut text = include_str!("krew.yaml").to_owned();
    for (place, value) in [
        ("{VERSION}", format!("v{}", source.version).as_str()),
        ("{ARCHITECTURE}", go_compat::platform::architecture()),
        ("{URI}", &uri),
        ("{SHA256}", sha256),
    ] {
        // A JSON string is also a YAML string.
        text = text.replace(place, &serde_json::Value::from(value).to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn arch_002_krew_gets_the_archive_of_the_plugin() {
        let source = Source {
            commit: "abc".into(),
            files: "abc".into(),
            time: 17,
            version: "0.1.0-rc.1".into(),
        };
        let parsed = |download_url| -> Value {
            let text = manifest(&source, download_url, "a.tar.gz", "00");
            assert!(!text.contains(['{', '}']), "{text}");
            serde_saphyr::from_str(&text).unwrap()
        };
        let near = parsed(None);
        assert_eq!(
            (&near["apiVersion"], &near["kind"]),
            (
                &"krew.googlecontainertools.github.com/v1alpha2".into(),
                &"Plugin".into()
            ),
            "krew reads no other"
        );
        assert_eq!(near["metadata"]["name"], "operator", "`kubectl operator`");
        assert_eq!(near["spec"]["version"], "v0.1.0-rc.1");
        let short = near["spec"]["shortDescription"].as_str().unwrap();
        assert!(short.len() <= 50, "krew's index allows no longer ones: {short}");
        assert!(!short.contains(['\r', '\n']), "krew reads one line: {short}");
        let platform = &near["spec"]["platforms"][0];
        let labels = &platform["selector"]["matchLabels"];
        assert_eq!(labels["os"], "linux");
        assert_eq!(labels["arch"], go_compat::platform::architecture());
        assert_eq!(platform["uri"], "a.tar.gz");
        assert_eq!(platform["bin"], PLUGIN);
        // A sum of digits alone is a text, too.
        assert_eq!(platform["sha256"], "00");
        let far = parsed(Some("https://example.com/0.1.0/"));
        let uri = &far["spec"]["platforms"][0]["uri"];
        assert_eq!(uri, "https://example.com/0.1.0/a.tar.gz");
    }
}
