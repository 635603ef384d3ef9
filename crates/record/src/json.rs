//! A [`Run`] as JSON, and back.
//!
//! Written is one indented JSON document that ends in a newline, or a dense one for the inside of a page. What is read may have fields that this version does not know: they
//! are passed over. Refused are other schemas, what was cut short, and what is no JSON, each with its own words. Numbers that are
//! not finite have no place in JSON: where a figure may be absent it is, elsewhere writing is refused.

use std::io::{self, BufWriter, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::Serializer;
use serde_json::error::Category;
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::contradiction;
use crate::model::{Notice, Param, Run, SCHEMA};
use crate::plain::{self, NAME};

/// The name (`$id`) of the format's JSON Schema.
pub const SCHEMA_ID: &str = "urn:punctual:run:1";

/// Why a run could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The reader failed.
    #[error("cannot read it: {0}")]
    Io(#[source] io::Error),
    /// Nothing there.
    #[error("it is empty: the command that should have written it failed, or has not finished")]
    Empty,
    /// The JSON ends before its end.
    #[error("it ends in the middle (line {line}): it was cut short, or is still being written")]
    Truncated {
        /// Where it ends.
        line: usize,
    },
    /// Something else than JSON.
    #[error("it is not JSON: {why}; expected a file written with --json")]
    NotJson {
        /// What the parser said, cut.
        why: String,
    },
    /// JSON, but without a schema that begins with `punctual.run/`.
    #[error("it is JSON, but not a run of punctual: its schema is {found}; expected a file written with --json")]
    NotARun {
        /// What stands under `schema`.
        found: String,
    },
    /// Another version of the format.
    #[error(
        "its format is {found}, and this version of punctual reads {SCHEMA} only; use the version that wrote it, or a newer one"
    )]
    OtherVersion {
        /// What stands under `schema`.
        found: String,
    },
    /// The right schema, but a field is missing or of the wrong kind.
    #[error("it says {SCHEMA}, but does not keep to it: {why}")]
    Malformed {
        /// What the parser said, cut.
        why: String,
    },
    /// Figures that cannot all be true.
    #[error("its figures contradict each other: {why}; the file was altered or is damaged")]
    Contradictory {
        /// The first contradiction.
        why: String,
    },
}

/// Why a run could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The writer failed (full disk, closed pipe).
    #[error("cannot write the run: {0}")]
    Io(#[source] io::Error),
    /// A number that has to be there is infinite or not a number.
    #[error("cannot write the run: {field} is not a finite number")]
    NotFinite {
        /// Which.
        field: &'static str,
    },
}

/// As much of a file as tells what it is.
#[derive(Deserialize)]
struct Heading {
    #[serde(default)]
    schema: Option<serde_json::Value>,
}

impl Run {
    /// Writes it as JSON.
    ///
    /// # Errors
    /// When the writer fails, or a number that cannot be absent is not finite.
    pub fn to_json(&self, mut writer: impl Write) -> Result<(), WriteError> {
        self.check_finite()?;
        self.serialized(&mut writer, PrettyFormatter::new())?;
        writer.write_all(b"\n").and_then(|()| writer.flush()).map_err(WriteError::Io)
    }

    /// Writes it as JSON without white space in which no name can be taken for HTML: `<`, `>` and `&` are spelled as JSON's escapes.
    ///
    /// # Errors
    /// Those of [`Run::to_json`].
    pub fn to_json_in_page(&self, mut writer: impl Write) -> Result<(), WriteError> {
        self.check_finite()?;
        self.serialized(&mut writer, InPage)?;
        writer.flush().map_err(WriteError::Io)
    }

    fn serialized(&self, writer: &mut impl Write, formatter: impl Formatter) -> Result<(), WriteError> {
        // A document is some ten thousand small pieces to a megabyte: they are gathered before the writer sees them.
        let mut gathered = BufWriter::with_capacity(1 << 16, writer);
        let mut serializer = Serializer::with_formatter(&mut gathered, formatter);
        let result = if self.has_infinite_parameter() {
            let mut run = self.clone();
            run.drop_infinite_parameters();
            run.serialize(&mut serializer)
        } else {
            self.serialize(&mut serializer)
        };
        result.map_err(|error| WriteError::Io(error.into()))?;
        gathered.flush().map_err(WriteError::Io)
    }

    /// Reads it from JSON.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn from_json(mut reader: impl Read) -> Result<Self, ReadError> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(ReadError::Io)?;
        Self::from_slice(&bytes)
    }

    /// Reads it from JSON that is in memory.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn from_slice(bytes: &[u8]) -> Result<Self, ReadError> {
        let text = bytes.trim_ascii();
        if text.is_empty() {
            return Err(ReadError::Empty);
        }
        // What is right is read once; only what is not is looked at again, for the reason.
        if text.first() == Some(&b'{')
            && let Ok(run) = serde_json::from_slice::<Self>(text)
            && run.schema == SCHEMA
        {
            return match contradiction::find(&run) {
                Some(why) => Err(ReadError::Contradictory { why }),
                None => Ok(run),
            };
        }
        let syntax = |error: serde_json::Error| match error.classify() {
            Category::Eof => ReadError::Truncated { line: error.line() },
            _ => ReadError::NotJson { why: said(&error) },
        };
        let _: serde::de::IgnoredAny = serde_json::from_slice(text).map_err(syntax)?;
        if text.first() != Some(&b'{') {
            return Err(ReadError::NotARun { found: "missing".into() });
        }
        // serde's structs may also be read from arrays, which is why the brace is looked for above.
        let heading: Heading =
            serde_json::from_slice(text).map_err(|error| ReadError::NotJson { why: said(&error) })?;
        match heading.schema {
            Some(serde_json::Value::String(found)) if found == SCHEMA => {}
            Some(serde_json::Value::String(found)) if found.starts_with("punctual.run/") => {
                return Err(ReadError::OtherVersion { found: plain::line(&found, NAME) });
            }
            found => {
                let found = match found {
                    None => "missing".into(),
                    Some(serde_json::Value::String(found)) => format!("\"{}\"", plain::line(&found, NAME)),
                    Some(other) => plain::line(&other.to_string(), NAME),
                };
                return Err(ReadError::NotARun { found });
            }
        }
        serde_json::from_slice(text).map_err(|error| ReadError::Malformed { why: said(&error) })
    }

    /// Refuses what would become a `null` that nobody could read back.
    fn check_finite(&self) -> Result<(), WriteError> {
        if !self.clock.read_ns.is_finite() {
            return Err(WriteError::NotFinite { field: "clock.read_ns" });
        }
        let shares = self.notices.iter().filter_map(|notice| match notice {
            Notice::Steal { share } | Notice::BusyMachine { share } => Some(share),
            _ => None,
        });
        match shares.into_iter().all(|share| share.is_finite()) {
            true => Ok(()),
            false => Err(WriteError::NotFinite { field: "the share of a notice" }),
        }
    }

    fn has_infinite_parameter(&self) -> bool {
        let of_series = self.series.iter().flat_map(|series| series.parameters.values());
        let of_rest = self.not_measured.iter().flat_map(|subject| subject.parameters.values());
        of_series.chain(of_rest).any(|parameter| !is_finite(parameter))
    }

    fn drop_infinite_parameters(&mut self) {
        let of_series = self.series.iter_mut().map(|series| &mut series.parameters);
        let of_rest = self.not_measured.iter_mut().map(|subject| &mut subject.parameters);
        of_series.chain(of_rest).for_each(|parameters| parameters.retain(|_, parameter| is_finite(parameter)));
    }
}

/// What the parser said, which may hold any string of the file: its beginning, and the place at its end.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.chars().nth(MOST_SAID).is_none() {
        return plain::line(&text, MOST_SAID);
    }
    format!("{} at line {} column {}", plain::line(&text, MOST_SAID), error.line(), error.column())
}

/// Characters of a parser's message.
const MOST_SAID: usize = 300;

fn is_finite(parameter: &Param) -> bool {
    !matches!(parameter, Param::Real(number) if !number.is_finite())
}

/// JSON without white space for the inside of a page.
struct InPage;

impl Formatter for InPage {
    /// Only strings hold these characters, so that an escape is always allowed.
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment.as_bytes();
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'<' | b'>' | b'&')) {
            writer.write_all(&rest[..at])?;
            writer.write_all(match rest[at] {
                b'<' => b"\\u003c",
                b'>' => b"\\u003e",
                _ => b"\\u0026",
            })?;
            rest = &rest[at + 1..];
        }
        writer.write_all(rest)
    }
}

/// The JSON Schema of `punctual.run/1`, made from the types themselves.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Run);
    schema.insert("$id".into(), SCHEMA_ID.into());
    schema.insert("title".into(), SCHEMA.into());
    if let Some(field) = schema.pointer_mut("/properties/schema").and_then(serde_json::Value::as_object_mut) {
        field.insert("const".into(), SCHEMA.into());
    }
    schema.to_value()
}
