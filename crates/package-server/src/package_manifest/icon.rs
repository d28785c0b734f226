//! Icons of packages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use olm_api::v1alpha1;

use crate::limits::ICON_BYTES;

/// A decoded icon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Icon {
    /// Media type, as its author wrote it.
    pub media_type: String,
    /// The image data.
    pub data: Bytes,
}

impl Icon {
    /// Returns the icon of a ClusterServiceVersion; `None` if it is too large.
    pub(super) fn new(icon: &v1alpha1::Icon) -> Option<Self> {
        let data = decode(&icon.base64data);
        (data.len() <= ICON_BYTES).then(|| Self {
            media_type: icon.mediatype.clone(),
            data: data.into_boxed_slice().into(),
        })
    }
}

/// Decodes up to the first fault and drops the rest, as upstream does.
fn decode(text: &str) -> Vec<u8> {
    // Authors wrap lines, so line ends are ignored.
    let text: Vec<u8> = text
        .bytes()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    match STANDARD.decode(&text) {
        Ok(data) => data,
        Err(error) => {
            use base64::DecodeError::{InvalidByte, InvalidLastSymbol, InvalidLength, InvalidPadding};
            let fault = match error {
                InvalidByte(at, _) | InvalidLastSymbol(at, _) => at,
                InvalidLength(length) => length,
                InvalidPadding => text.len().saturating_sub(1),
            };
            let whole = fault.min(text.len()) / 4 * 4;
            STANDARD
                .decode(text.get(..whole).unwrap_or_default())
                .unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_base64_is_cut_off() {
        let rows: [(&str, &[u8]); 6] = [
            ("aGVsbG8=", b"hello"),
            ("aGVs\r\nbG8=\n", b"hello"),
            ("aGVsbG8", b"hel"),
            ("aGVs bG8=", b"hel"),
            ("!", b""),
            ("", b""),
        ];
        for (text, expected) in rows {
            assert_eq!(decode(text), expected, "{text}");
        }
    }

    #[test]
    fn a_picture_that_is_too_large_is_left_out() {
        let icon = |length: usize| v1alpha1::Icon {
            base64data: STANDARD.encode(vec![0; length]),
            mediatype: "image/png".to_owned(),
            ..v1alpha1::Icon::default()
        };
        assert!(Icon::new(&icon(ICON_BYTES)).is_some());
        assert!(Icon::new(&icon(ICON_BYTES + 1)).is_none());
    }
}
