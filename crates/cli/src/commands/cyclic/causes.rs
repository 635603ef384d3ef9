//! The causes of late wake-ups in the form of cyclictest: in a file of their own, which the environment names.
//!
//! `PUNCTUAL_CAUSES=FILE` is set around a script that calls cyclictest itself. The file is a run, which `punctual report` shows, and stderr
//! says what the latest wake-up was lost to. Nothing of it is on stdout or in the JSON of cyclictest. Without the variable, the kernel's
//! events stay closed: watching takes time of its own.

use std::time::Duration;

use punctual::conditions::Conditions;
use punctual_lab::cyclic::{Aside, Crew, Unit};
use punctual_record::{Run, Usage};
use punctual_report::Document;
use punctual_report::document::Block;

use super::told::say;
use crate::exit::with_causes;
use crate::output::{Output, Target};
use crate::terminal;

/// The environment variable that names the file.
const VARIABLE: &str = "PUNCTUAL_CAUSES";

/// The file, and the run that goes there.
pub(super) struct Causes {
    output: Output,
    aside: Aside,
    held: Conditions,
}

impl Causes {
    /// Opens the file and the kernel's events; `None`: no file is wanted. `words`: the command line. `held`: conditions of the process.
    ///
    /// # Errors
    /// If the file cannot be written, or is stdout.
    pub(super) fn open(words: &[String], unit: Unit, held: Conditions) -> anyhow::Result<Option<Self>> {
        let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return Ok(None) };
        anyhow::ensure!(name != "-", "invalid {VARIABLE}: stdout has the figures; name a file (example: causes.json)");
        let output = Output::open(VARIABLE, &Target::File(name.into()))?;
        Ok(Some(Self { output, aside: Aside::open(words.to_vec(), unit), held }))
    }

    /// Watches the threads from now on.
    pub(super) fn begin(&mut self, crew: &Crew) {
        self.aside.begin(crew);
    }

    /// Takes in events for this long.
    pub(super) fn look(&mut self, lasts: Duration) {
        self.aside.look(lasts);
    }

    /// Writes the file, and says on stderr what the latest wake-up was lost to. Returns whether the file is written.
    pub(super) fn end(self, crew: &Crew, usage: &[Option<Usage>]) -> bool {
        let run = self.aside.end(crew, usage, &self.held);
        sentences(&run).iter().for_each(|sentence| say(sentence));
        let name = self.output.target.to_string();
        match self.output.write(|out| Ok(run.to_json(out)?)) {
            Ok(()) => say(&format!("punctual report {name}")),
            Err(error) => {
                terminal::complain(&format!("error: {}", with_causes(&error)));
                return false;
            }
        }
        true
    }
}

/// The answer of the run.
fn sentences(run: &Run) -> Vec<String> {
    let document = Document::from_run(run);
    let blocks = document.head.iter().flat_map(|section| &section.blocks);
    blocks.filter_map(|block| if let Block::Line(text) = block { Some(text.clone()) } else { None }).collect()
}
