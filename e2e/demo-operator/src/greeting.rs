//! The custom resource, and the greetings of each release.

use std::{fmt, str::FromStr};

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whom to greet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "demo.example.com",
    version = "v1",
    kind = "Greeting",
    namespaced,
    status = "GreetingStatus"
)]
pub struct GreetingSpec {
    /// Name of the greeted.
    pub name: String,
    /// Language of the greeting, known since release 1.1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GreetingStatus {
    /// The greeting, as it stands in the ConfigMap.
    pub message: String,
    /// Release of the operator that wrote it.
    pub operator_release: String,
}

/// A release of this operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Greets in English.
    V1_0,
    /// Greets in the requested language.
    V1_1,
}

impl FromStr for Release {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "1.0.0" => Ok(Self::V1_0),
            "1.1.0" => Ok(Self::V1_1),
            other => anyhow::bail!("there is no release `{other}`; known are 1.0.0 and 1.1.0"),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_0 => "1.0.0",
            Self::V1_1 => "1.1.0",
        })
    }
}

impl Release {
    /// Returns the greeting of this release for `spec`.
    pub fn greet(self, spec: &GreetingSpec) -> String {
        let language = match self {
            Self::V1_0 => None,
            Self::V1_1 => spec.language.as_deref(),
        };
        let hello = match language {
            Some("de") => "Guten Tag",
            Some("es") => "Buenos días",
            Some("fr") => "Bonjour",
            _ => "Hello",
        };
        format!("{hello}, {}!", spec.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upgrade_is_visible_in_the_greeting() {
        let spec = GreetingSpec {
            name: "Ada".into(),
            language: Some("fr".into()),
        };
        assert_eq!(Release::V1_0.greet(&spec), "Hello, Ada!");
        assert_eq!(Release::V1_1.greet(&spec), "Bonjour, Ada!");
    }

    #[test]
    fn releases_read_and_print_alike() {
        for text in ["1.0.0", "1.1.0"] {
            assert_eq!(text.parse::<Release>().unwrap().to_string(), text);
        }
        assert!("2.0.0".parse::<Release>().is_err());
    }
}
