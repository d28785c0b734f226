//! Records the answers of a registry for later comparison.
//!
//! `record_answers ADDRESS compact [SCHEMA...]` prints one line for each question with a digest of its
//! answer. `record_answers ADDRESS readable FOLDER [SCHEMA...]` writes whole answers, a JSON file for each
//! method. SCHEMA are names of custom schemas to ask for. `tests/recorded.rs` lists the records in the
//! repository.

#[path = "../tests/answers/mod.rs"]
mod answers;

use std::error::Error;
use std::path::Path;

const USAGE: &str = "usage: record_answers ADDRESS compact [SCHEMA...] | ADDRESS readable FOLDER [SCHEMA...]";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (address, form, rest) = match arguments.as_slice() {
        [address, form, rest @ ..] => (address, form.as_str(), rest),
        _ => return Err(USAGE.into()),
    };
    match (form, rest) {
        ("compact", schemas) => print!("{}", answers::compact(&answers::ask(address, schemas).await?)),
        ("readable", [folder, schemas @ ..]) => {
            std::fs::create_dir_all(folder)?;
            for (method, recorded) in answers::readable(&answers::ask(address, schemas).await?) {
                let text = serde_json::to_string_pretty(&recorded)? + "\n";
                std::fs::write(Path::new(folder).join(format!("{method}.json")), text)?;
            }
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}
