//! One credential, and the errors of reading credentials.

use std::fmt;

/// A credential for a registry.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Credential {
    /// User name and password.
    Basic {
        /// User name.
        username: String,
        /// Password or token.
        password: String,
    },
    /// A bearer token, sent unchanged.
    Bearer(String),
    /// An identity token, which the registry's token service exchanges for bearer tokens.
    Identity(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic(…)",
            Self::Bearer(_) => "Bearer(…)",
            Self::Identity(_) => "Identity(…)",
        })
    }
}

/// Credentials cannot be used. The text never has the credentials themselves.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// Not JSON of the expected shape. The position is reported without the text, which may hold a password.
    #[error("credentials in {origin} are not a valid docker config.json: line {line}, column {column}")]
    Parse {
        /// File or object the text came from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// An `auth` value is not base64 of `user:password`.
    #[error("credentials in {origin}: `auth` of `{key}` is not base64 of user:password")]
    Auth {
        /// File or object the text came from.
        origin: String,
        /// The registry's key.
        key: String,
    },
}
