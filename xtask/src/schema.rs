//! The JSON Schema of the record, as a file.

use anyhow::{Context as _, bail};

use crate::tools;

/// Writes the schema, or checks that the file is what would be written.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let path = tools::root().join("docs/punctual.run-1.schema.json");
    let text = serde_json::to_string_pretty(&punctual_record::json_schema())? + "\n";
    if !check {
        return std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()));
    }
    let found = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    if found != text {
        bail!("{} is out of date: run `cargo xtask schema`", path.display());
    }
    Ok(())
}
