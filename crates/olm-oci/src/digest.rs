//! Content digests as the OCI image specification writes them: `algorithm:hex`.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256, Sha512};

/// A well-formed digest of a known algorithm (`sha256` or `sha512`) in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

/// A text is not a digest. The error says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DigestError(String);

impl Digest {
    /// Returns the sha256 digest of some bytes.
    pub fn sha256(bytes: &[u8]) -> Self {
        Self(format!("sha256:{}", hex::encode(Sha256::digest(bytes))))
    }

    /// Returns the whole text, `algorithm:hex`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part before the colon.
    pub fn algorithm(&self) -> &str {
        self.0.split_once(':').map_or("", |(algorithm, _)| algorithm)
    }

    /// Returns the part after the colon.
    pub fn hex(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, hex)| hex)
    }

    /// Returns a hasher of this digest's algorithm, to be compared with [`Hasher::finish`].
    pub fn hasher(&self) -> Hasher {
        match self.algorithm() {
            "sha512" => Hasher::Sha512(Sha512::new()),
            _ => Hasher::Sha256(Sha256::new()),
        }
    }

    /// Returns whether these bytes have this digest.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        hasher.finish() == *self
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let (algorithm, hex) = text
            .split_once(':')
            .ok_or_else(|| DigestError(format!("digest `{text}` is not of the form algorithm:hex")))?;
        let expected = match algorithm {
            "sha256" => 64,
            "sha512" => 128,
            _ => {
                return Err(DigestError(format!(
                    "digest `{text}` uses an algorithm other than sha256 and sha512"
                )));
            }
        };
        let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if hex.len() != expected || !hex.bytes().all(lower_hex) {
            return Err(DigestError(format!(
                "digest `{text}` needs {expected} lower-case hexadecimal digits"
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A running hash of one of the algorithms that [`Digest`] supports.
#[derive(Debug, Clone)]
pub enum Hasher {
    /// SHA-256.
    Sha256(Sha256),
    /// SHA-512.
    Sha512(Sha512),
}

impl Hasher {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    /// Returns the digest of everything added.
    pub fn finish(self) -> Digest {
        Digest(match self {
            Self::Sha256(hasher) => format!("sha256:{}", hex::encode(hasher.finalize())),
            Self::Sha512(hasher) => format!("sha512:{}", hex::encode(hasher.finalize())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_nothing_is_the_well_known_one() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::sha256(b"").as_str(), empty);
        assert!(empty.parse::<Digest>().expect("digest").matches(b""));
        assert!(!empty.parse::<Digest>().expect("digest").matches(b"x"));
    }

    #[test]
    fn sha512_is_verified_too() {
        let mut hasher = Hasher::Sha512(Sha512::new());
        hasher.update(b"abc");
        let digest = hasher.finish();
        assert_eq!(digest.algorithm(), "sha512");
        assert!(digest.matches(b"abc"));
    }

    #[test]
    fn malformed_digests_name_themselves() {
        for (text, expected) in [
            ("abc", "digest `abc` is not of the form algorithm:hex"),
            (
                "md5:00",
                "digest `md5:00` uses an algorithm other than sha256 and sha512",
            ),
            (
                "sha256:00",
                "digest `sha256:00` needs 64 lower-case hexadecimal digits",
            ),
        ] {
            assert_eq!(text.parse::<Digest>().expect_err(text).to_string(), expected);
        }
        let upper = format!("sha256:{}", "A".repeat(64));
        assert!(upper.parse::<Digest>().is_err());
    }
}
