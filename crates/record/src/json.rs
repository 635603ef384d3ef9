//! A [`Run`] as JSON, and back.
//!
//! Writes one indented JSON document that ends in a newline, or a compact one to embed in a page. Both write characters that
//! a terminal obeys as escapes ([`JsonEscapes`]). Reading ignores unknown fields. It
//! refuses other schemas, truncated files and text that is not JSON, each with its own error. JSON
//! has no non-finite numbers: an optional figure becomes absent, any other fails to write.

use std::io::{self, BufWriter, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::Serializer;
use serde_json::error::Category;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use crate::contradiction::{contradiction, required};
use crate::model::{Run, SCHEMA};
use crate::sanitize::{self, JsonEscapes, NAME};

/// The name (`$id`) of the format's JSON Schema.
pub const SCHEMA_ID: &str = "urn:punctual:run:2";

/// Why a run could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The reader failed.
    #[error("cannot read it: {0}")]
    Io(#[source] io::Error),
    /// The input is empty.
    #[error("it is empty: the command that should have written it failed, or has not finished")]
    Empty,
    /// The JSON is truncated: the line where it ends.
    #[error("it ends in the middle (line {0}): it was cut short, or is still being written")]
    Truncated(usize),
    /// The input is not JSON: the parser's message, truncated.
    #[error("it is not JSON: {0}")]
    NotJson(String),
    /// JSON without a schema that begins with `punctual.run/`: the value of `schema`.
    #[error("it is JSON, but not a run of punctual: its schema is {0}")]
    NotARun(String),
    /// Another version of the format.
    #[error(
        "its format is {found}, and this version of punctual reads {SCHEMA}; use the version that wrote it, or a newer one"
    )]
    OtherVersion {
        /// The value of `schema`.
        found: String,
    },
    /// The right schema, but a field is missing or has the wrong type: the parser's message, truncated.
    #[error("it does not keep to the format that it names: {0}")]
    Malformed(String),
    /// Figures that cannot all be true: the first contradiction.
    #[error("its figures contradict each other: {0}; the file was altered or is damaged")]
    Contradictory(String),
}

/// Why a run could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The writer failed (full disk, closed pipe).
    #[error("cannot write the run: {0}")]
    Io(#[source] io::Error),
    /// A required number is infinite or not a number.
    #[error("cannot write the run: {field} is not a finite number")]
    NotFinite {
        /// Name of the number.
        field: &'static str,
    },
}

/// `also`: what becomes an escape beside the characters that a terminal obeys.
fn write_json(
    value: &impl Serialize,
    writer: impl Write,
    formatter: impl Formatter,
    also: &'static [char],
) -> io::Result<()> {
    // A document has some ten thousand small writes to a megabyte; buffer them.
    let mut gathered = JsonEscapes::new(BufWriter::with_capacity(1 << 16, writer), also);
    value.serialize(&mut Serializer::with_formatter(&mut gathered, formatter))?;
    gathered.flush()
}

/// Writes any value as [`Run::to_json`] writes a run.
///
/// # Errors
/// If the writer fails.
pub fn to_json(value: &impl Serialize, mut writer: impl Write) -> io::Result<()> {
    write_json(value, &mut writer, PrettyFormatter::new(), &[])?;
    writer.write_all(b"\n")?;
    writer.flush()
}

/// The part of a file that identifies it.
#[derive(Deserialize)]
struct Heading {
    #[serde(default)]
    schema: Option<serde_json::Value>,
}

impl Run {
    /// Writes the run as JSON.
    ///
    /// # Errors
    /// If the writer fails, or if a required number is not finite.
    pub fn to_json(&self, writer: impl Write) -> Result<(), WriteError> {
        self.check_finite()?;
        to_json(self, writer).map_err(WriteError::Io)
    }

    /// Writes the run as JSON, followed by the fields of `more` in the same object.
    ///
    /// # Errors
    /// Those of [`Run::to_json`].
    pub fn to_json_with(&self, more: &impl Serialize, writer: impl Write) -> Result<(), WriteError> {
        #[derive(Serialize)]
        struct Both<'a, M> {
            #[serde(flatten)]
            run: &'a Run,
            #[serde(flatten)]
            more: &'a M,
        }
        self.check_finite()?;
        to_json(&Both { run: self, more }, writer).map_err(WriteError::Io)
    }

    /// Writes the run as compact JSON that is safe inside HTML: `<`, `>` and `&` are written as JSON escapes.
    ///
    /// # Errors
    /// Those of [`Run::to_json`].
    pub fn to_json_in_page(&self, writer: impl Write) -> Result<(), WriteError> {
        self.check_finite()?;
        // Only strings contain these characters, so an escape is always valid.
        write_json(self, writer, CompactFormatter, &['<', '>', '&']).map_err(WriteError::Io)
    }

    /// Reads a run from JSON.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn from_json(mut reader: impl Read) -> Result<Self, ReadError> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(ReadError::Io)?;
        Self::from_slice(&bytes)
    }

    /// Reads a run from JSON in memory.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn from_slice(bytes: &[u8]) -> Result<Self, ReadError> {
        let text = bytes.trim_ascii();
        if text.is_empty() {
            return Err(ReadError::Empty);
        }
        // A valid file is read once. An invalid one is read again to find the reason.
        if text.first() == Some(&b'{')
            && let Ok(run) = serde_json::from_slice::<Self>(text)
            && run.schema == SCHEMA
        {
            return consistent(run);
        }
        let syntax = |error: serde_json::Error| match error.classify() {
            Category::Eof => ReadError::Truncated(error.line()),
            // The parser reports a number with missing last digits as a wrong number.
            Category::Syntax if text[0] == b'{' && text.last().is_some_and(|last| b"-+.eE".contains(last)) => {
                ReadError::Truncated(error.line())
            }
            _ => ReadError::NotJson(said(&error)),
        };
        let _: serde::de::IgnoredAny = serde_json::from_slice(text).map_err(syntax)?;
        if text.first() != Some(&b'{') {
            return Err(ReadError::NotARun("missing".into()));
        }
        // serde also reads structs from arrays, so the brace is checked above.
        let heading: Heading = serde_json::from_slice(text).map_err(|error| ReadError::NotJson(said(&error)))?;
        match heading.schema {
            Some(serde_json::Value::String(found)) if found == SCHEMA => {}
            Some(serde_json::Value::String(found)) if found.starts_with("punctual.run/") => {
                return Err(ReadError::OtherVersion { found: sanitize::line(&found, NAME) });
            }
            Some(serde_json::Value::String(found)) => {
                return Err(ReadError::NotARun(format!("\"{}\"", sanitize::line(&found, NAME))));
            }
            Some(other) => return Err(ReadError::NotARun(sanitize::line(&other.to_string(), NAME))),
            None => return Err(ReadError::NotARun("missing".into())),
        }
        let run = serde_json::from_slice(text).map_err(|error| ReadError::Malformed(said(&error)));
        run.and_then(consistent)
    }

    /// Refuses numbers that would be written as an unreadable `null`.
    fn check_finite(&self) -> Result<(), WriteError> {
        match required(self).find(|(_, figure)| !figure.is_finite()) {
            Some((field, _)) => Err(WriteError::NotFinite { field }),
            None => Ok(()),
        }
    }
}

fn consistent(run: Run) -> Result<Run, ReadError> {
    contradiction(&run).map_or(Ok(run), |why| Err(ReadError::Contradictory(why)))
}

/// The parser's message. It may contain any string of the file, so of a long one only the beginning is kept, and the position.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.chars().nth(LONGEST_MESSAGE).is_none() {
        return sanitize::line(&text, LONGEST_MESSAGE);
    }
    format!("{} at line {} column {}", sanitize::line(&text, LONGEST_MESSAGE), error.line(), error.column())
}

/// Most characters kept of a parser's message.
const LONGEST_MESSAGE: usize = 300;

/// The JSON Schema of `punctual.run/2`, made from the types themselves, with the fields of `M`, which a writer adds by
/// [`Run::to_json_with`].
#[cfg(feature = "schema")]
#[must_use]
pub fn json_schema<M: schemars::JsonSchema>() -> serde_json::Value {
    /// A run and what is added to it.
    #[derive(schemars::JsonSchema)]
    #[allow(dead_code, reason = "only its schema is used")]
    struct File<M> {
        #[serde(flatten)]
        run: Run,
        #[serde(flatten)]
        more: M,
    }
    let mut schema = schemars::schema_for!(File<M>);
    schema.insert("$id".into(), SCHEMA_ID.into());
    schema.insert("title".into(), SCHEMA.into());
    if let Some(field) = schema.pointer_mut("/properties/schema").and_then(serde_json::Value::as_object_mut) {
        field.insert("const".into(), SCHEMA.into());
    }
    schema.to_value()
}
