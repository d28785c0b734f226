//! The grammar of image references, as Go's container libraries read it: `[host[:port]/]path[:tag][@algorithm:hex]`.

/// The parts of a reference, unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// Host and path.
    pub name: &'a str,
    /// The text after the colon of the tag.
    pub tag: Option<&'a str>,
    /// The text after the first `@`.
    pub digest: Option<&'a str>,
}

/// Splits a reference.
pub fn split(reference: &str) -> Parts<'_> {
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    // A colon after the last slash starts the tag, one before it the port.
    let last = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[last..].find(':') {
        Some(colon) => (&rest[..last + colon], Some(&rest[last + colon + 1..])),
        None => (rest, None),
    };
    Parts { name, tag, digest }
}

/// Returns true for a host name or IPv4 address, without a port.
pub fn is_host(host: &str) -> bool {
    host.split('.').all(|label| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    })
}

/// Returns true for components of lower-case letters and digits, separated by single dots, one or two underscores or any number
/// of hyphens.
pub fn is_path(path: &str) -> bool {
    let alnum = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    path.split('/').all(|part| {
        part.starts_with(alnum)
            && part.ends_with(alnum)
            && part.split(alnum).all(|between| {
                matches!(between, "" | "." | "_" | "__") || between.bytes().all(|byte| byte == b'-')
            })
    })
}

/// Returns true for up to 128 letters, digits, `_`, `.` and `-` that do not begin with `.` or `-`.
pub fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}
