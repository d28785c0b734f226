//! Hashes that clusters already carry in labels and object names.
//!
//! They are SHA-224 over JSON in the form Go's encoder writes it, read as one big number and printed in base 62. Names of RBAC
//! objects contain such a hash and are recomputed when a plan is executed. So the result has to equal, bit by bit, the hash that
//! an older lifecycle manager computed. Fields are written in the order of the struct. The struct must leave out optional fields,
//! as Go's `omitempty` does.

use go_compat::json::{self, Html};
use serde::Serialize;
use sha2::{Digest, Sha224};

const ALPHABET: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Maximum length [`generate_name`] aims at.
const MAX_NAME_LENGTH: usize = 63;

/// Returns the hash of spec-hash labels and generated names: JSON with a trailing newline.
///
/// # Errors
/// The errors of [`json::encode`].
pub fn hash_with_newline<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    Ok(sha224_base62(
        (json::encode(value, Html::Escaped)? + "\n").as_bytes(),
    ))
}

/// Returns the hash of the permissions label and of copied ClusterServiceVersions: JSON without a newline.
///
/// # Errors
/// The errors of [`json::encode`].
pub fn hash_without_newline<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    Ok(sha224_base62(json::encode(value, Html::Escaped)?.as_bytes()))
}

/// Returns SHA-224 of bytes in base 62.
pub fn sha224_base62(bytes: &[u8]) -> String {
    base62(&Sha224::digest(bytes))
}

/// Prints bytes, read as one big-endian number, in base 62 with the digits `0-9a-zA-Z`, without padding.
pub fn base62(bytes: &[u8]) -> String {
    in_base(62, bytes)
}

/// Prints bytes, read as one big-endian number, in base 36 with the digits `0-9a-z`, without padding.
pub fn base36(bytes: &[u8]) -> String {
    in_base(36, bytes)
}

fn in_base(base: u16, bytes: &[u8]) -> String {
    let mut number = bytes.to_vec();
    let mut digits = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut remainder = 0_u16;
        for byte in &mut number {
            let current = (remainder << 8) | u16::from(*byte);
            // The quotient of a number below base * 256 by the base fits a byte.
            *byte = (current / base) as u8;
            remainder = current % base;
        }
        digits.push(ALPHABET[usize::from(remainder)]);
    }
    if digits.is_empty() {
        digits.push(ALPHABET[0]);
    }
    digits.reverse();
    digits.into_iter().map(char::from).collect()
}

/// Returns the name `<base>-<hash of object>` with a base cut to keep it within 63 characters.
///
/// A base that fits exactly without the hyphen gives 64 characters: existing names have that quirk, so it is kept.
///
/// # Errors
/// The errors of [`json::encode`].
pub fn generate_name<T: Serialize>(base: &str, object: &T) -> Result<String, serde_json::Error> {
    let hash = hash_with_newline(object)?;
    let mut end = base.len();
    if end + hash.len() > MAX_NAME_LENGTH {
        end = MAX_NAME_LENGTH.saturating_sub(hash.len() + 1);
        while !base.is_char_boundary(end) {
            end -= 1;
        }
    }
    Ok(format!("{}-{hash}", &base[..end]))
}

/// Returns the FNV-1a hash of 64 bits.
pub fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn generated_names_agree_with_known_ones() {
        assert_eq!(
            generate_name("myname", &["something"]).unwrap(),
            "myname-5L9sNXi3Y6mcOevFzYY3WOLIukKOeZwz1pfUlT"
        );
        assert_eq!(
            generate_name(&"name".repeat(100), &["something", "else"]).unwrap(),
            "namenamenamenamenamename-6XtefCelEzfYlFOD1fARIK5vhWVfWfGHja7H3q"
        );
    }

    #[test]
    fn operator_group_role_hashes_agree_with_known_ones() {
        for (level, expected) in [
            ("admin", "8rdAjL0E35JMMAkOqYmoorzjpIIihfnj3DcgDU"),
            ("edit", "9lBEUxqAYE7CX7wZfFEPYutTfQTo43WarB08od"),
            ("view", "1l6ymczPK5SceF4d0DCtAnWZuvmKn6s8oBUxHr"),
        ] {
            assert_eq!(
                sha224_base62(format!("operator-ns/operator-group-1/{level}").as_bytes()),
                expected
            );
        }
    }

    #[test]
    fn base_that_fits_without_the_hyphen_is_not_cut() {
        let hash = hash_with_newline(&["x"]).unwrap();
        let base = "b".repeat(MAX_NAME_LENGTH - hash.len());
        assert_eq!(generate_name(&base, &["x"]).unwrap().len(), MAX_NAME_LENGTH + 1);
        assert_eq!(
            generate_name(&(base + "b"), &["x"]).unwrap().len(),
            MAX_NAME_LENGTH
        );
    }

    #[test]
    fn small_numbers_in_base_62() {
        for (bytes, expected) in [
            (&[][..], "0"),
            (&[0, 0], "0"),
            (&[61], "Z"),
            (&[62], "10"),
            (&[1, 0], "48"),
            (&[0, 35], "z"),
        ] {
            assert_eq!(base62(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn small_numbers_in_base_36() {
        for (bytes, expected) in [
            (&[][..], "0"),
            (&[0, 0], "0"),
            (&[35], "z"),
            (&[36], "10"),
            (&[1, 0], "74"),
            (&[255, 255], "1ekf"),
        ] {
            assert_eq!(base36(bytes), expected, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn base_62_keeps_the_number(number in any::<u64>()) {
            let back = base62(&number.to_be_bytes()).bytes().fold(0_u64, |sum, digit| {
                sum * 62 + ALPHABET.iter().position(|known| *known == digit).unwrap() as u64
            });
            prop_assert_eq!(back, number);
        }

        #[test]
        fn generated_names_fit(base in "[a-zé.-]{0,90}") {
            prop_assert!(generate_name(&base, &base).unwrap().len() <= MAX_NAME_LENGTH + 1);
        }
    }
}
