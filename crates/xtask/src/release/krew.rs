//! The manifest by which krew, the plugin manager of kubectl, installs the plugin.

use super::source::Source;

/// Program that krew installs. Its archive is one of the release.
pub(super) const PLUGIN: &str = "kubectl-operator";

/// An archive of [`PLUGIN`] for one platform.
#[derive(Debug)]
pub(super) struct PluginArchive<'a> {
    /// File name.
    pub(super) name: &'a str,
    /// SHA-256 in hexadecimal digits.
    pub(super) sha256: &'a str,
    /// Architecture as Go names it.
    pub(super) architecture: &'a str,
}

/// Returns the manifest with one platform for each archive. `download_url` is the folder of the archives on a server. Without it
/// `uri` is the bare file name, and krew needs the archive as a file (`--archive`).
pub(super) fn manifest(
    source: &Source,
    homepage: Option<&str>,
    download_url: Option<&str>,
    archives: &[PluginArchive<'_>],
) -> String {
    let homepage = homepage.map_or(String::new(), |url| format!("  homepage: {}\n", quoted(url)));
    let mut text = format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2\n\
         kind: Plugin\n\
         metadata:\n\
         \x20 name: operator\n\
         spec:\n\
         \x20 version: {version}\n\
         {homepage}\
         \x20 shortDescription: Install and upgrade operators with OLM\n\
         \x20 description: |\n\
         \x20   Lists, plans, installs, approves, upgrades and uninstalls the operators of a\n\
         \x20   cluster with the Operator Lifecycle Manager (OLM), explains why one is not\n\
         \x20   installed or upgraded, and manages catalogs.\n\
         \x20 caveats: |\n\
         \x20   To complete names after `kubectl operator`, link the program into your PATH:\n\
         \x20     ln -s \"$(command -v {PLUGIN})\" ~/.local/bin/kubectl_complete-operator\n\
         \x20 platforms:\n",
        version = quoted(&format!("v{}", source.version)),
    );
    for archive in archives {
        let uri = download_url.map_or_else(
            || archive.name.to_owned(),
            |url| format!("{}/{}", url.trim_end_matches('/'), archive.name),
        );
        text.push_str(&format!(
            "\x20   - selector:\n\
             \x20       matchLabels:\n\
             \x20         os: linux\n\
             \x20         arch: {architecture}\n\
             \x20     uri: {uri}\n\
             \x20     sha256: {sha256}\n\
             \x20     bin: {PLUGIN}\n",
            architecture = archive.architecture,
            uri = quoted(&uri),
            sha256 = quoted(archive.sha256),
        ));
    }
    text
}

/// Returns a text as a JSON string, which is also a YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn arch_002_krew_gets_one_platform_for_each_archive() {
        let source = Source {
            commit: "abc".into(),
            files: "abc".into(),
            time: 17,
            version: "0.1.0-rc.1".into(),
        };
        let archives = ["amd64", "arm64"].map(|architecture| PluginArchive {
            name: if architecture == "amd64" {
                "a.tar.gz"
            } else {
                "b.tar.gz"
            },
            sha256: "00",
            architecture,
        });
        let parsed = |homepage, download_url| -> Value {
            serde_saphyr::from_str(&manifest(&source, homepage, download_url, &archives)).unwrap()
        };
        let near = parsed(None, None);
        assert_eq!(near["metadata"]["name"], "operator", "`kubectl operator`");
        assert_eq!(near["spec"]["version"], "v0.1.0-rc.1");
        assert!(near["spec"]["homepage"].is_null());
        let short = near["spec"]["shortDescription"].as_str().unwrap();
        assert!(short.len() <= 50, "krew's index allows no longer ones: {short}");
        let far = parsed(
            Some("https://example.com/olm"),
            Some("https://example.com/0.1.0/"),
        );
        assert_eq!(far["spec"]["homepage"], "https://example.com/olm");
        for (index, architecture, near_uri) in [(0, "amd64", "a.tar.gz"), (1, "arm64", "b.tar.gz")] {
            let platform = &near["spec"]["platforms"][index];
            let labels = &platform["selector"]["matchLabels"];
            assert_eq!(
                (&labels["os"], &labels["arch"]),
                (&"linux".into(), &architecture.into())
            );
            assert_eq!(
                (&platform["uri"], &platform["bin"]),
                (&near_uri.into(), &PLUGIN.into())
            );
            // A sum of digits alone is a text, too.
            assert_eq!(platform["sha256"], "00");
            let uri = &far["spec"]["platforms"][index]["uri"];
            assert_eq!(*uri, format!("https://example.com/0.1.0/{near_uri}"));
        }
        assert!(near["spec"]["platforms"][2].is_null());
    }
}
