//! What kind of image some bytes are, by their first bytes.

/// Marks of image formats: where, which bytes, what it is.
const MARKS: [(usize, &[u8], &str); 9] = [
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"BM", "image/bmp"),
    (0, b"\0\0\x01\0", "image/vnd.microsoft.icon"),
    (0, b"II*\0", "image/tiff"),
    (0, b"MM\0*", "image/tiff"),
    (4, b"ftypavif", "image/avif"),
];

/// The media type of an image; `None` for everything else.
///
/// SVG is text, so it is recognised by its root element; upstream knows it not at all and refuses it.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    let has = |at: usize, mark: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(mark));
    if let Some((_, _, kind)) = MARKS.iter().find(|(at, mark, _)| has(*at, mark)) {
        return Some(kind);
    }
    is_svg(bytes).then_some("image/svg+xml")
}

fn is_svg(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    // What may stand before the root element: declaration, comments, document type.
    while let Some(after) = rest.strip_prefix("<?").or_else(|| rest.strip_prefix("<!")) {
        let end = if after.starts_with("--") { "-->" } else { ">" };
        match after.split_once(end) {
            Some((_, tail)) => rest = tail.trim_start(),
            None => return false,
        }
    }
    rest.strip_prefix("<svg")
        .is_some_and(|tail| tail.starts_with([' ', '>', '\n', '\r', '\t', '/']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_recognised_by_their_first_bytes() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF....WEBPVP8", Some("image/webp")),
            (b"<svg xmlns=''/>", Some("image/svg+xml")),
            (
                b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- <svg> -->\n<!DOCTYPE svg>\n<svg>",
                Some("image/svg+xml"),
            ),
            (b"<html><svg></svg></html>", None),
            (b"<svgx>", None),
            (b"<!-- <svg>", None),
            (b"hello", None),
            (b"", None),
        ] {
            assert_eq!(media_type(bytes), expected, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
