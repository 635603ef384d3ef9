//! Bad input, in one form: `invalid --nice '30': expected an integer from -20 to 19 (example: -5)`. Nothing was touched, and the status is 2.

use crate::terminal;

mod bad_usage;
mod example;
mod line;
mod parsed;

pub(crate) use bad_usage::BadUsage;

/// Says what is wrong with a command line that the parser of `root` does not take.
pub(crate) fn say(refused: &clap::Error, root: clap::Command) {
    let bad = parsed::explain(refused, &line::Line::of(root, words()));
    terminal::complain(&format!("error: {bad}"));
}

/// Refuses a number as the name of a program, after an option whose value follows an equals sign: `--min-frequency 2GHz program`.
pub(crate) fn check_program(program: &str, root: clap::Command) -> Result<(), BadUsage> {
    let is_number = program.starts_with(|first: char| first.is_ascii_digit());
    let bad = is_number.then(|| parsed::without_equals(program, &line::Line::of(root, words()))).flatten();
    bad.map_or(Ok(()), Err)
}

fn words() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}
