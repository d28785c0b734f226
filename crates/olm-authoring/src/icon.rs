//! Detects the media type of an image from its first bytes.

/// Signatures of image formats: offset, bytes, media type. The first match is used.
const MARKS: [(usize, &[u8], &str); 14] = [
    (0, b"\x89PNG", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"\0\0\0\x0cjP  \r\n\x87\n\0", "image/jp2"),
    (0, b"GIF", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"CR\x02", "image/x-canon-cr2"),
    (0, b"BM", "image/bmp"),
    (0, b"\0\0\x01\0", "image/vnd.microsoft.icon"),
    (0, b"II*\0", "image/tiff"),
    (0, b"MM\0*", "image/tiff"),
    (0, b"II\xbc", "image/vnd.ms-photo"),
    (0, b"8BPS", "image/vnd.adobe.photoshop"),
    (0, b"AC10", "image/vnd.dwg"),
    (4, b"ftypavif", "image/avif"),
];

/// Returns the media type of an image; `None` for everything else.
///
/// SVG is text, so it is recognised by its root element. Upstream does not know it and rejects it.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    let has = |at: usize, mark: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(mark));
    if let Some((_, _, kind)) = MARKS.iter().find(|(at, mark, _)| has(*at, mark)) {
        return Some(kind);
    }
    if is_heif(bytes) {
        return Some("image/heif");
    }
    is_svg(bytes).then_some("image/svg+xml")
}

/// Returns true if the first box names the brand `heic`, or a general brand with `heic` as a compatible one.
fn is_heif(bytes: &[u8]) -> bool {
    let Some((size, content)) = bytes.split_first_chunk() else {
        return false;
    };
    let size = usize::try_from(u32::from_be_bytes(*size)).unwrap_or(usize::MAX);
    let inside = &content[..content.len().min(size.saturating_sub(4))];
    let Some(brands) = inside.strip_prefix(b"ftyp") else {
        return false;
    };
    let mut brands = brands.chunks_exact(4);
    match brands.next() {
        Some(b"heic") => true,
        // The field after the first brand is its version.
        Some(b"mif1" | b"msf1") => brands.skip(1).any(|brand| brand == b"heic"),
        _ => false,
    }
}

fn is_svg(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    // Skips what may precede the root element: declaration, comments, document type.
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
            (b"\x89PNG", Some("image/png")),
            (b"II*\0\x10\0\0\0CR\x02\0", Some("image/x-canon-cr2")),
            (b"II*\0\x10\0\0\0\0\0\0\0", Some("image/tiff")),
            (b"II\xbc\0", Some("image/vnd.ms-photo")),
            (b"8BPS\0", Some("image/vnd.adobe.photoshop")),
            (b"AC1015", Some("image/vnd.dwg")),
            (b"\0\0\0\x0cjP  \r\n\x87\n\0\0", Some("image/jp2")),
            (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", Some("image/heif")),
            (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", Some("image/heif")),
            (b"\0\0\0\x14ftypmif1\0\0\0\0mif1heic", None),
            (b"\0\0\0\x18ftypmp42\0\0\0\0mif1heic", None),
            (b"\0\0\0\x1cftypavif\0\0\0\0avifmif1", Some("image/avif")),
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
