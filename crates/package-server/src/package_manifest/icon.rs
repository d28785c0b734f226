//! Icons of packages.

use bytes::Bytes;
use olm_api::v1alpha1;
use olm_fbc::base64;

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
    /// Returns the icon of a ClusterServiceVersion; `None` if it is too large. Bad base64 is cut off, as upstream does.
    pub(super) fn new(icon: &v1alpha1::Icon) -> Option<Self> {
        let data = base64::decode_until_fault(&icon.base64data);
        (data.len() <= ICON_BYTES).then(|| Self {
            media_type: icon.mediatype.clone(),
            data: data.into_boxed_slice().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_that_is_too_large_is_left_out() {
        let icon = |length: usize| v1alpha1::Icon {
            base64data: base64::encode(vec![0; length]),
            mediatype: "image/png".to_owned(),
            ..v1alpha1::Icon::default()
        };
        assert!(Icon::new(&icon(ICON_BYTES)).is_some());
        assert!(Icon::new(&icon(ICON_BYTES + 1)).is_none());
    }
}
