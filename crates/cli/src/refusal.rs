//! Bad input, in one form: `invalid --nice '30': expected an integer from -20 to 19 (example: -5)`. Nothing was touched, and the status is 2.

use crate::terminal;

mod bad_usage;
mod example;
mod line;
mod parsed;

pub(crate) use bad_usage::BadUsage;

/// Says what is wrong with a command line that the parser of `root` does not take.
pub(crate) fn say(refused: &clap::Error, root: clap::Command) {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let bad = parsed::explain(refused, &line::Line::of(root, words));
    terminal::complain(&format!("error: {bad}"));
}
