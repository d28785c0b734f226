//! Base64 as Go's standard decoder accepts it.

use std::borrow::Cow;

use ::base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ::base64::{DecodeError, Engine as _, alphabet};

/// Padded; trailing bits that encode nothing may have any value.
const GO: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Decodes text; line breaks in it are ignored.
///
/// # Errors
/// The text of Go's decoder.
pub fn decode(text: &str) -> Result<Vec<u8>, String> {
    let text = without_line_breaks(text);
    decode_line(&text).map_err(|at| format!("illegal base64 data at input byte {at}"))
}

/// Decodes text up to the group of four letters with the first fault; line breaks in it are ignored.
pub fn decode_until_fault(text: &str) -> Vec<u8> {
    let text = without_line_breaks(text);
    decode_line(&text).unwrap_or_else(|at| {
        let whole = at.min(text.len().saturating_sub(1)) / 4 * 4;
        GO.decode(&text.as_bytes()[..whole]).unwrap_or_default()
    })
}

fn without_line_breaks(text: &str) -> Cow<'_, str> {
    match text.contains(['\n', '\r']) {
        true => text.replace(['\n', '\r'], "").into(),
        false => text.into(),
    }
}

/// Returns the bytes, or the position of the first fault.
fn decode_line(text: &str) -> Result<Vec<u8>, usize> {
    GO.decode(text).map_err(|error| match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
        DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
    })
}

/// Encodes bytes, without line breaks.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    GO.encode(bytes)
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
            assert_eq!(decode_until_fault(text), expected, "{text}");
        }
    }
}
