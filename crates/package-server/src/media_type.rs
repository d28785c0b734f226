//! Content negotiation by the `Accept` header.

/// The caller accepts none of the available forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAcceptable;

/// The syntax of a response. JSON is also YAML, so both have the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

impl Syntax {
    /// Returns its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// The form of objects in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Whole objects.
    Object,
    /// Their metadata only.
    Metadata,
    /// A table for people.
    Table,
}

/// The form of discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discovery {
    /// One document each for groups, versions and resources.
    Legacy,
    /// One document for everything, in this version.
    Aggregated(&'static str),
}

/// One entry of an `Accept` header.
#[derive(Debug, Default)]
struct Range<'a> {
    media_type: &'a str,
    form: Option<&'a str>,
    group: Option<&'a str>,
    version: Option<&'a str>,
}

/// Returns the form of objects for this header.
///
/// # Errors
/// The caller accepts no available form.
pub fn of_objects(accept: Option<&str>) -> Result<(Syntax, Shape), NotAcceptable> {
    choose(accept, |range| {
        let syntax = syntax(range.media_type)?;
        let shape = match (range.form, range.group, range.version) {
            (None, ..) => Shape::Object,
            (Some("Table"), Some("meta.k8s.io"), Some(version)) if is_known(version) => Shape::Table,
            (
                Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
                Some("meta.k8s.io"),
                Some(version),
            ) if is_known(version) => Shape::Metadata,
            _ => return None,
        };
        Some((syntax, shape))
    })
}

/// Returns the form of discovery for this header.
///
/// # Errors
/// The caller accepts no available form.
pub fn of_discovery(accept: Option<&str>) -> Result<(Syntax, Discovery), NotAcceptable> {
    choose(accept, |range| {
        let syntax = syntax(range.media_type)?;
        let form = match (range.form, range.group, range.version) {
            (None, ..) => Discovery::Legacy,
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => {
                Discovery::Aggregated("v2")
            }
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2beta1")) => {
                Discovery::Aggregated("v2beta1")
            }
            _ => return None,
        };
        Some((syntax, form))
    })
}

/// Returns the syntax of plain documents for this header.
///
/// # Errors
/// The caller accepts no available form.
pub fn of_documents(accept: Option<&str>) -> Result<Syntax, NotAcceptable> {
    choose(accept, |range| syntax(range.media_type))
}

/// Returns whether a version is known. The versions of tables and of metadata differ in nothing but their
/// name.
fn is_known(version: &str) -> bool {
    matches!(version.strip_prefix("v1"), Some("" | "beta1"))
}

fn syntax(media_type: &str) -> Option<Syntax> {
    match media_type {
        "application/json" | "application/*" | "*/*" => Some(Syntax::Json),
        "application/yaml" => Some(Syntax::Yaml),
        _ => None,
    }
}

/// Returns the first available form, in the order of the caller's preference.
fn choose<T>(accept: Option<&str>, give: impl Fn(&Range<'_>) -> Option<T>) -> Result<T, NotAcceptable> {
    let accept = accept.filter(|accept| !accept.trim().is_empty()).unwrap_or("*/*");
    let mut ranges: Vec<(u32, Range<'_>)> = accept
        .split(',')
        .map(range)
        .filter(|(rank, _)| *rank > 0)
        .collect();
    ranges.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    ranges
        .iter()
        .find_map(|(_, range)| give(range))
        .ok_or(NotAcceptable)
}

/// Parses an entry and its quality value in thousandths.
fn range(text: &str) -> (u32, Range<'_>) {
    let mut parts = text.split(';').map(str::trim);
    let mut range = Range {
        media_type: parts.next().unwrap_or_default(),
        ..Range::default()
    };
    let mut rank = 1000;
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key.trim() {
            "as" => range.form = Some(value.trim()),
            "g" => range.group = Some(value.trim()),
            "v" => range.version = Some(value.trim()),
            "q" => rank = thousandths(value.trim()),
            _ => {}
        }
    }
    (rank, range)
}

fn thousandths(text: &str) -> u32 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole == "1" {
        return 1000;
    }
    let digits: String = part.chars().chain("000".chars()).take(3).collect();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_in_the_form_that_is_wanted_most() {
        const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let rows = [
            (None, Ok((Syntax::Json, Shape::Object))),
            (Some(""), Ok((Syntax::Json, Shape::Object))),
            (Some("*/*"), Ok((Syntax::Json, Shape::Object))),
            (Some("application/json"), Ok((Syntax::Json, Shape::Object))),
            (Some("application/yaml"), Ok((Syntax::Yaml, Shape::Object))),
            (Some(TABLE), Ok((Syntax::Json, Shape::Table))),
            (
                Some("application/json; as=Table; g=meta.k8s.io; v=v2, application/json"),
                Ok((Syntax::Json, Shape::Object)),
            ),
            (
                Some(
                    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                ),
                Ok((Syntax::Json, Shape::Metadata)),
            ),
            (
                Some("application/json;q=0.1,application/yaml;q=0.25"),
                Ok((Syntax::Yaml, Shape::Object)),
            ),
            (Some("application/json;q=0"), Err(NotAcceptable)),
            (Some("application/vnd.kubernetes.protobuf"), Err(NotAcceptable)),
            (Some("text/html"), Err(NotAcceptable)),
        ];
        for (accept, expected) in rows {
            assert_eq!(of_objects(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn discovery_is_told_in_one_document_to_whoever_takes_it() {
        const BOTH: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        let of = |accept| of_discovery(accept).map(|(_, form)| form);
        assert_eq!(of(Some(BOTH)), Ok(Discovery::Aggregated("v2")));
        assert_eq!(of(Some(old)), Ok(Discovery::Aggregated("v2beta1")));
        assert_eq!(of(Some("application/json")), Ok(Discovery::Legacy));
        assert_eq!(of(None), Ok(Discovery::Legacy));
        assert_eq!(
            of(Some("application/vnd.kubernetes.protobuf")),
            Err(NotAcceptable)
        );
    }
}
