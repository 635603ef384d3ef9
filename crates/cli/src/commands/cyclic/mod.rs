//! `punctual cyclic`: cyclictest's job. In the form of cyclictest, its command lines do here what they do there. In the native form, it
//! measures every CPU and keeps a run.
//!
//! Under the name `cyclictest`, and after `punctual cyclictest`, every line has the form of cyclictest. After `punctual cyclic`, a line has
//! it if an option is cyclictest's alone: a letter other than `-q` (`-p`), a long name that the native form does not have (`--smp`,
//! `--thr=2`), or a value that the native form does not take (`--duration=60`, `--policy=fifo`). A long name that only the native form has
//! (`--every`) decides against it.

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
use crate::refusal::BadUsage;
pub(crate) use native::CyclicArgs;

/// The name of a link to this program that always has the form of cyclictest.
const LINK: &str = "cyclictest";
/// Both forms have it, so it decides nothing.
const QUIET: &str = "-q";

/// Does what a command line of cyclictest asks for. `None`: the line has the native form, or another command.
pub(crate) fn as_cyclictest(words: impl IntoIterator<Item = OsString>) -> Option<anyhow::Result<Exit>> {
    let typed: Vec<OsString> = words.into_iter().collect();
    let words: Vec<String> = typed.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (program, arguments) = words.split_first()?;
    let is_link = Path::new(program).file_name().is_some_and(|name| name == LINK);
    let (arguments, because) = match arguments.split_first() {
        _ if is_link => (arguments, None),
        Some((command, arguments)) if command == LINK => (arguments, None),
        Some((command, arguments)) if command == "cyclic" => (arguments, Some(deciding(arguments)?)),
        _ => return None,
    };
    if let Some(word) = typed.iter().find(|word| word.to_str().is_none()) {
        let refused = BadUsage::invalid("word", word.to_string_lossy(), "it is not UTF-8".to_owned());
        return Some(Err(refused.into()));
    }
    let done = dropin::perform(&words, arguments);
    Some(done.map_err(|error| match (because, error.downcast::<BadUsage>()) {
        (Some(word), Ok(BadUsage(why))) => {
            BadUsage(format!("{why}; '{word}' gives the line the form of cyclictest")).into()
        }
        (None, Ok(refused)) => refused.into(),
        (_, Err(error)) => error,
    }))
}

/// The first option of the line that is cyclictest's alone, with its value if that decides; `None`: the line has the native form.
fn deciding(arguments: &[String]) -> Option<String> {
    // Alone, these ask for the help and the version of the native form.
    if matches!(arguments, [only] if only == "-h" || only == "-V") {
        return None;
    }
    let mut native = CyclicArgs::augment_args(clap::Command::new(LINK));
    native.build();
    let has = |name: &str| native.get_arguments().any(|arg| arg.get_long() == Some(name));
    let mut words = arguments.iter().take_while(|word| *word != "--").peekable();
    let mut first = None;
    while let Some(word) = words.next() {
        let Some(long) = word.strip_prefix("--") else {
            if word.len() > 1 && word.starts_with('-') && word != QUIET {
                first.get_or_insert_with(|| word.clone());
            }
            continue;
        };
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let value = value.or_else(|| words.peek().map(|next| next.as_str())).unwrap_or_default();
        let is_value_theirs = match name {
            // A bare number, or days, which the native form does not have.
            "duration" | "break" => value.ends_with(|c: char| c.is_ascii_digit() || c == 'd'),
            "policy" => ["fifo", "rr", "normal"].contains(&value),
            _ => false,
        };
        if is_value_theirs {
            first.get_or_insert_with(|| format!("--{name} {value}"));
        } else if has(name) {
            let is_shared = names::TODAY.iter().any(|opt| opt.long == Some(name)) || name == "break";
            if !is_shared {
                return None;
            }
        } else if find_long(&[names::TODAY, names::OLD], name).is_ok() {
            first.get_or_insert_with(|| word.clone());
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_cyclictest_alone_decides_the_form() {
        let form = |line: &str| deciding(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).is_some();
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
            "--every 1ms --nice -5",
            "--every -5us",
            "--duration 60 --every 1ms",
            "--policy fifo --load cpu",
            "-h",
            "--help",
            "--nonsense",
        ] {
            assert!(!form(line), "{line}");
        }
        let quoted = "-h 3500".to_owned();
        assert_eq!(
            deciding(std::slice::from_ref(&quoted)),
            Some(quoted.clone()),
            "one word of a script that quotes options"
        );
    }
}
