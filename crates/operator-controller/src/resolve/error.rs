//! Errors of a resolution, in upstream's words: they are messages of the condition Progressing.

use go_compat::quote;

use super::Request;

/// Error: no bundle can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// A selected catalog cannot be read. Its content could change the choice, so none is made.
    #[error("{0}")]
    Catalog(String),
    /// The extension does not allow any bundle of the catalogs, or several catalogs of the same priority have one.
    #[error("{0}")]
    NoBundle(String),
}

impl ResolveError {
    /// Returns the error of a request for which no bundle fits, or one in each of several catalogs, whose sorted names are `catalogs`. Like
    /// upstream these include catalogs of lower priority.
    pub(super) fn no_bundle(request: &Request<'_>, catalogs: &[String]) -> Self {
        let filter = request.filter;
        let mut text = String::new();
        if let Some(installed) = request.installed {
            let installed = quote(&installed.version);
            text = format!("error upgrading from currently installed version {installed}: ");
        }
        text += match catalogs {
            [] => "no bundles found",
            _ => "found bundles",
        };
        text += &format!(" for package {}", quote(&filter.package_name));
        if let Some(version) = filter.version.as_ref().filter(|version| !version.is_empty()) {
            text += &format!(" matching version {}", quote(version));
        }
        if !filter.channels.is_empty() {
            text += &format!(" in channels [{}]", filter.channels.join(" "));
        }
        if !catalogs.is_empty() {
            let catalogs = catalogs.join(" ");
            text += &format!(" in multiple catalogs with the same priority [{catalogs}]");
        }
        Self::NoBundle(text)
    }
}
