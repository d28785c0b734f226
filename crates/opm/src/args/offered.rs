//! Values that help and completion offer. Other values are accepted here, and the command rejects them with its own error
//! (upstream's where it has the flag).

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command, ValueEnum as _};
use olm_authoring::lint::Rule;
use olm_authoring::migrate::Level;
use std::ffi::OsStr;

/// A text with suggested values.
#[derive(Debug, Clone)]
pub(crate) struct Offered(Vec<PossibleValue>);

/// Returns the levels of `--migrate-level`.
pub(crate) fn migration_levels() -> Offered {
    let offered = Level::NAMES.map(|(name, _, summary)| PossibleValue::new(name).help(summary));
    Offered(offered.into())
}

/// Returns the rules of `lint --allow`.
pub(crate) fn lint_rules() -> Offered {
    let rules = Rule::value_variants().iter();
    Offered(rules.filter_map(Rule::to_possible_value).collect())
}

/// Returns the formats of `validate`, whose flag may be empty.
pub(crate) fn validation_formats() -> Offered {
    Offered(["json", "yaml"].map(PossibleValue::new).into())
}

impl TypedValueParser for Offered {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().cloned()))
    }
}
