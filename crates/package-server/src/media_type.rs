//! Content negotiation by the `Accept` header.

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

/// One entry of an `Accept` header.
#[derive(Debug, Default)]
struct Range<'a> {
    media_type: &'a str,
    form: Option<&'a str>,
    group: Option<&'a str>,
    version: Option<&'a str>,
}

/// Returns the media type and form of objects for this header; `None` if the caller accepts no available form.
pub fn of_objects(accept: Option<&str>) -> Option<(&'static str, Shape)> {
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

/// Returns the media type of plain documents for this header; `None` if the caller accepts no available one.
pub fn of_documents(accept: Option<&str>) -> Option<&'static str> {
    choose(accept, |range| {
        syntax(range.media_type).filter(|_| range.form.is_none())
    })
}

/// Returns whether a version is known. The versions of tables and of metadata differ in nothing but their
/// name.
fn is_known(version: &str) -> bool {
    matches!(version.strip_prefix("v1"), Some("" | "beta1"))
}

/// Returns the media type of a response. JSON is also YAML, so both have the same bytes.
fn syntax(accepted: &str) -> Option<&'static str> {
    match accepted {
        "application/json" | "application/*" | "*/*" => Some("application/json"),
        "application/yaml" => Some("application/yaml"),
        _ => None,
    }
}

/// Returns the first available form, in the order of the caller's preference.
fn choose<T>(accept: Option<&str>, give: impl Fn(&Range<'_>) -> Option<T>) -> Option<T> {
    let accept = accept.filter(|accept| !accept.trim().is_empty()).unwrap_or("*/*");
    let mut ranges: Vec<(u32, Range<'_>)> = accept
        .split(',')
        .map(range)
        .filter(|(rank, _)| *rank > 0)
        .collect();
    ranges.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    ranges.iter().find_map(|(_, range)| give(range))
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

    const JSON: &str = "application/json";
    const YAML: &str = "application/yaml";

    #[test]
    fn objects_come_in_the_form_that_is_wanted_most() {
        const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let rows = [
            (None, Some((JSON, Shape::Object))),
            (Some(""), Some((JSON, Shape::Object))),
            (Some("*/*"), Some((JSON, Shape::Object))),
            (Some("application/json"), Some((JSON, Shape::Object))),
            (Some("application/yaml"), Some((YAML, Shape::Object))),
            (Some(TABLE), Some((JSON, Shape::Table))),
            (
                Some("application/json; as=Table; g=meta.k8s.io; v=v2, application/json"),
                Some((JSON, Shape::Object)),
            ),
            (
                Some(
                    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                ),
                Some((JSON, Shape::Metadata)),
            ),
            (
                Some("application/json;q=0.1,application/yaml;q=0.25"),
                Some((YAML, Shape::Object)),
            ),
            (Some("application/json;q=0"), None),
            (Some("application/vnd.kubernetes.protobuf"), None),
            (Some("text/html"), None),
        ];
        for (accept, expected) in rows {
            assert_eq!(of_objects(accept), expected, "{accept:?}");
        }
    }

    /// The API server then asks for the documents.
    #[test]
    fn aggregated_discovery_is_not_had() {
        const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(of_documents(Some(AGGREGATED)), None);
        let both = format!("{AGGREGATED},application/json");
        assert_eq!(of_documents(Some(&both)), Some(JSON));
        assert_eq!(of_documents(None), Some(JSON));
    }
}
