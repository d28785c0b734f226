//! `opm alpha render-template` and `convert-template`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::Format;

/// `opm alpha render-template`
#[derive(Debug, ClapArgs)]
pub(crate) struct RenderTemplateArgs {
    /// Type of the template
    #[arg(value_name = "TYPE")]
    pub kind: Option<String>,
    /// The template
    pub file: Option<String>,
    /// Name of the last migration to run (default: none)
    #[arg(long, value_name = "LEVEL")]
    pub migrate_level: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: TemplateFormat,
}

/// How a rendered template is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TemplateFormat {
    /// JSON documents, one after the other
    Json,
    /// YAML documents, each after `---`
    Yaml,
    /// The upgrade graph
    Mermaid,
}

/// `opm alpha convert-template`
#[derive(Debug, Subcommand)]
pub(crate) enum ConvertTemplateCommand {
    /// Generate a basic template from existing FBC
    Basic(ConvertTemplateArgs),
    /// Generate a substitutes template from existing FBC
    Substitutes(ConvertTemplateArgs),
}

/// `opm alpha convert-template basic|substitutes`
#[derive(Debug, ClapArgs)]
pub(crate) struct ConvertTemplateArgs {
    /// The catalog file; standard input without it or with '-'
    pub file: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: Format,
}
