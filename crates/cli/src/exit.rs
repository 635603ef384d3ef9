//! How the command ends.

use std::process::ExitCode;

use punctual_record::plain;

use crate::terminal;

/// An exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All was done.
    Done,
    /// Something failed while running.
    Failed,
    /// The command line asks for something that makes no sense; nothing was touched.
    Usage,
    /// A threshold was exceeded, or could not be judged.
    Exceeded,
    /// Ended by this signal.
    Signal(u8),
    /// What the program that was run returned.
    Program(u8),
}

impl Exit {
    /// This, or a failure if an output could not be written and nothing says otherwise.
    #[must_use]
    pub(crate) fn unless_lost(self, all_written: bool) -> Self {
        if self == Self::Done && !all_written { Self::Failed } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Exceeded => 3,
            Exit::Signal(number) => 128 + number,
            Exit::Program(status) => status,
        })
    }
}

/// The command line asks for something that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadUsage(pub(crate) String);

/// Says what went wrong, on stderr, and which exit status that is.
pub(crate) fn explain(error: &anyhow::Error) -> Exit {
    terminal::complain(&format!("error: {}", with_causes(error)));
    if error.is::<BadUsage>() { Exit::Usage } else { Exit::Failed }
}

/// Says what is wrong with a command line that the parser does not take. An argument that the parser repeats may hold anything.
pub(crate) fn refuse(refused: &clap::Error) -> Exit {
    let text = refused.render();
    let harmless = |c: char| c == '\n' || plain::is_harmless(c);
    let plain_text = text.to_string();
    if plain_text.chars().all(harmless) && plain_text.len() <= terminal::LONGEST_MESSAGE {
        terminal::say_drawn(&text);
    } else {
        terminal::say(&format!("{}\n", plain::lines(plain_text.trim_end(), terminal::LONGEST_MESSAGE)));
    }
    Exit::Usage
}

/// The error and its causes, each told once: some errors tell theirs in their own words already.
pub(crate) fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        _ if told.contains(&cause) => told,
        _ => format!("{told}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("listening: {source}; do this")]
    struct Listen {
        source: std::io::Error,
    }

    #[test]
    fn a_cause_is_told_once() {
        let listen = || anyhow::Error::new(Listen { source: std::io::Error::other("no such address") });
        assert_eq!(with_causes(&listen()), "listening: no such address; do this");
        assert_eq!(with_causes(&listen().context("receiving")), "receiving: listening: no such address; do this");
        let quiet = anyhow::anyhow!("no such file").context("reading a.json");
        assert_eq!(with_causes(&quiet), "reading a.json: no such file");
    }
}
