//! Base64 as Go's standard decoder accepts it.

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
    let lines: String;
    let mut text = text;
    if text.contains(['\n', '\r']) {
        lines = text.replace(['\n', '\r'], "");
        text = &lines;
    }
    GO.decode(text).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
        };
        format!("illegal base64 data at input byte {at}")
    })
}

/// Encodes bytes, without line breaks.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    GO.encode(bytes)
}
