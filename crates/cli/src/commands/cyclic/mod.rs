//! `punctual cyclic`: cyclictest's job. In the form of cyclictest, its command lines do here what they do there. In the native form, it
//! measures every CPU and keeps a run.
//!
//! Under the name `cyclictest`, and after `punctual cyclictest`, every line has the form of cyclictest. After `punctual cyclic`, a line has
//! it as soon as one option is cyclictest's alone: a letter other than `-q` (`-p`), a long name that the native form does not have (`--smp`,
//! `--thr=2`), or a value that the native form does not take (`--duration=60`, `--policy=fifo`).

mod beside;
mod dropin;
mod form;
mod names;
mod native;
mod options;

use std::ffi::OsString;
use std::path::Path;

use clap::Args as _;

use crate::args::getopt::find_long;
use crate::exit::Exit;
pub(crate) use native::CyclicArgs;

/// The name of a link to this program that always has the form of cyclictest.
const LINK: &str = "cyclictest";
/// Both forms have it, so it decides nothing.
const QUIET: &str = "-q";

/// Does what a command line of cyclictest asks for. `None`: the line has the native form, or another command.
pub(crate) fn as_cyclictest(words: impl IntoIterator<Item = OsString>) -> Option<anyhow::Result<Exit>> {
    let words: Vec<String> = words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (program, arguments) = words.split_first()?;
    if Path::new(program).file_name().is_some_and(|name| name == LINK) {
        return Some(dropin::perform(&words, arguments));
    }
    match arguments.split_first() {
        Some((command, _)) if command == LINK => Some(dropin::perform(arguments, &arguments[1..])),
        Some((command, arguments)) if command == "cyclic" && is_cyclictest(arguments) => {
            Some(dropin::perform(&words, arguments))
        }
        _ => None,
    }
}

/// Whether an option of the line is cyclictest's alone.
fn is_cyclictest(arguments: &[String]) -> bool {
    // Alone, these ask for the help and the version of the native form.
    if matches!(arguments, [only] if only == "-h" || only == "-V") {
        return false;
    }
    let mut native = CyclicArgs::augment_args(clap::Command::new(LINK));
    native.build();
    let has = |name: &str| native.get_arguments().any(|arg| arg.get_long() == Some(name));
    let mut words = arguments.iter().take_while(|word| *word != "--").peekable();
    while let Some(word) = words.next() {
        let Some(long) = word.strip_prefix("--") else {
            if word.len() > 1 && word.starts_with('-') && word != QUIET {
                return true;
            }
            continue;
        };
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let value = value.or_else(|| words.peek().map(|next| next.as_str())).unwrap_or_default();
        let theirs = match name {
            // A bare number, or days, which the native form does not have.
            "duration" | "break" => value.ends_with(|c: char| c.is_ascii_digit() || c == 'd'),
            "policy" => ["fifo", "rr", "normal"].contains(&value),
            name => !has(name) && find_long(&[names::TODAY, names::OLD], name).is_ok(),
        };
        if theirs {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_cyclictest_alone_decides_the_form() {
        let form = |line: &str| is_cyclictest(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for line in [
            "-p80",
            "-q -l 100",
            "-qS",
            "--smp",
            "--thr=2",
            "--duration=60",
            "--duration 60",
            "--break 100",
            "--policy fifo",
            "--notrace",
            "--ver",
        ] {
            assert!(form(line), "{line}");
        }
        for line in [
            "",
            "--duration 8h",
            "--break 100us",
            "--every 200us --load cpu",
            "--policy fifo:80",
            "--json -",
            "--quiet",
            "-q",
            "--every 1ms -q",
            "-h",
            "--help",
            "--nonsense",
        ] {
            assert!(!form(line), "{line}");
        }
        assert!(is_cyclictest(&["-h 3500".to_owned()]), "one word, from a script that quotes its options");
    }
}
