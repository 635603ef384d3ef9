//! Bad input, in one form: `invalid --nice '30': expected an integer from -20 to 19 (example: -5)`. Nothing was touched, and the status is 2.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use punctual_record::sanitize;

use crate::nearest::nearest;
use crate::terminal;

/// The command line asks for something that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadUsage(pub(crate) String);

impl BadUsage {
    /// `value` of `what` (a flag, or what an argument is) breaks a constraint, which names what is accepted and an example.
    pub(crate) fn invalid(
        what: impl std::fmt::Display,
        value: impl std::fmt::Display,
        constraint: impl std::fmt::Display,
    ) -> Self {
        Self(format!("invalid {what} '{}': {constraint}", terminal::shown(value.to_string())))
    }
}

/// Says what is wrong with a command line that the parser does not take. An argument that the parser repeats may hold anything.
pub(crate) fn say(refused: &clap::Error) {
    if let Some(bad) = bad_value(refused) {
        return terminal::complain(&format!("error: {bad}"));
    }
    let text = refused.render();
    let harmless = |c: char| c == '\n' || sanitize::is_harmless(c);
    let plain_text = text.to_string();
    if plain_text.chars().all(harmless) && plain_text.len() <= terminal::LONGEST_MESSAGE {
        terminal::say("punctual: ");
        terminal::say_drawn(&text);
    } else {
        terminal::complain(&plain_text);
    }
}

/// A value that its flag does not take.
fn bad_value(refused: &clap::Error) -> Option<BadUsage> {
    let text = |kind| match refused.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let what = named(text(ContextKind::InvalidArg)?);
    let value = text(ContextKind::InvalidValue)?;
    let constraint = match (refused.kind(), refused.get(ContextKind::ValidValue)) {
        (ErrorKind::ValueValidation, _) => match text(ContextKind::Custom) {
            Some(constraint) => constraint.to_owned(),
            None => std::error::Error::source(refused)?.to_string(),
        },
        (ErrorKind::InvalidValue, Some(ContextValue::Strings(accepted))) => one_of(value, accepted),
        _ => return None,
    };
    Some(BadUsage::invalid(what, value, constraint))
}

fn one_of(value: &str, accepted: &[String]) -> String {
    let near = nearest(value, accepted.iter().cloned());
    let near = if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) };
    format!("expected one of {}{near}", accepted.join(", "))
}

/// `--for` of `--for <DUR>`, `--verify` of `--verify[=<WHEN>]`, `method` of `[METHOD]...`.
fn named(argument: &str) -> String {
    if argument.starts_with('-') {
        let end = argument.find([' ', '[', '=']).unwrap_or(argument.len());
        return argument[..end].to_owned();
    }
    argument.trim_matches(['[', ']', '<', '>', '.']).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_named_as_they_are_typed() {
        assert_eq!(named("--for <DUR>"), "--for");
        assert_eq!(named("--verify[=<WHEN>]"), "--verify");
        assert_eq!(named("[METHOD]..."), "method");
        assert_eq!(named("<RUN>"), "run");
    }

    #[test]
    fn of_a_few_names_all_are_told_and_the_nearest() {
        let accepted = ["auto", "always", "never"].map(String::from);
        assert_eq!(one_of("alwas", &accepted), "expected one of auto, always, never; nearest: always");
        assert_eq!(one_of("blue", &accepted), "expected one of auto, always, never");
    }
}
