//! `opm alpha render-template` and `convert-template`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum, ValueHint};

use super::Format;
use super::offered::migration_levels;

/// `opm alpha render-template`
#[derive(Debug, ClapArgs)]
pub(crate) struct RenderTemplateArgs {
    /// Type of the template: basic, semver or substitutes
    #[arg(value_name = "TYPE", value_hint = ValueHint::FilePath)]
    pub kind: Option<String>,
    /// The template
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<String>,
    /// Name of the last migration to run, after all that stand before it [default: none]
    #[arg(long, value_name = "LEVEL", value_parser = migration_levels())]
    pub migrate_level: Option<String>,
    /// Image of each bundle that comes from a directory. Variables: {{.Package}}, {{.Name}} and {{.Version}}
    #[arg(long, value_name = "TEMPLATE")]
    pub alpha_image_ref_template: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: TemplateFormat,
    /// Of the composite template, which is no longer supported: the message says what to do instead
    #[arg(short = 'f', long, hide = true)]
    pub catalog_config: Option<String>,
    /// As `catalog_config`
    #[arg(short = 'c', long, hide = true)]
    pub composite_config: Option<String>,
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
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<String>,
    /// Output format
    #[arg(short = 'o', long, default_value = "json")]
    pub output: Format,
}
