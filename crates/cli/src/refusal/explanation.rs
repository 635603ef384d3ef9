//! What the parser refuses, in the form of all refusals. An argument that is repeated may hold anything.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{BadUsage, Line, Nearest, in_usage, named, nearest};
use crate::terminal::{self, shown};

/// Most names in a list.
const MOST: usize = 4;

/// Says what is wrong with a command line that the parser of `root` does not take.
pub(crate) fn say(refused: &clap::Error, root: clap::Command) {
    let bad = explain(refused, &Line::new(root, words()));
    terminal::complain(&format!("error: {bad}"));
}

/// Refuses a number as the name of a program, after an option whose value follows an equals sign: `--min-frequency 2GHz program`.
pub(crate) fn check_program(program: &str, root: clap::Command) -> Result<(), BadUsage> {
    let is_number = program.starts_with(|first: char| first.is_ascii_digit());
    let bad = is_number.then(|| without_equals(program, &Line::new(root, words()))).flatten();
    bad.map_or(Ok(()), Err)
}

fn words() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// What is wrong, and what would be accepted.
fn explain(refused: &clap::Error, line: &Line) -> BadUsage {
    let said = match refused.kind() {
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => value(refused, line),
        ErrorKind::UnknownArgument => unknown(refused, line),
        ErrorKind::InvalidSubcommand => command(refused, line),
        ErrorKind::NoEquals => about_argument(refused, line, "its value follows an equals sign"),
        ErrorKind::TooManyValues => too_many(refused, line),
        ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => wrong_number(refused, line),
        ErrorKind::ArgumentConflict => conflict(refused, line),
        ErrorKind::MissingRequiredArgument => missing(refused, line),
        ErrorKind::InvalidUtf8 => Some(BadUsage("invalid argument: expected UTF-8 (example: run.json)".to_owned())),
        _ => None,
    };
    said.unwrap_or_else(|| BadUsage(format!("invalid arguments: {} ({} --help lists all)", refused.kind(), line.path)))
}

fn text(refused: &clap::Error, kind: ContextKind) -> Option<&str> {
    match refused.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    }
}

fn texts(refused: &clap::Error, kind: ContextKind) -> Vec<&str> {
    match refused.get(kind) {
        Some(ContextValue::Strings(all)) => all.iter().map(String::as_str).collect(),
        Some(ContextValue::String(one)) => vec![one],
        _ => Vec::new(),
    }
}

/// A value that its option does not take, or none.
fn value(refused: &clap::Error, line: &Line) -> Option<BadUsage> {
    let argument = text(refused, ContextKind::InvalidArg)?;
    let what = line.name(argument);
    let value = text(refused, ContextKind::InvalidValue)?;
    if let Some(bad) = without_equals(value, line).filter(|_| !argument.starts_with('-')) {
        return Some(bad);
    }
    let constraint = match (refused.kind(), refused.get(ContextKind::ValidValue)) {
        (ErrorKind::ValueValidation, _) => std::error::Error::source(refused)?.to_string(),
        // The parser gives the same error for an empty value and for a missing one.
        (ErrorKind::InvalidValue, Some(ContextValue::Strings(accepted))) if value.is_empty() || accepted.is_empty() => {
            return about_argument(refused, line, "a value is missing");
        }
        (ErrorKind::InvalidValue, Some(ContextValue::Strings(accepted))) => {
            let example = line.example_of(argument);
            format!("{} (example: {example})", one_of(value, accepted))
        }
        _ => return None,
    };
    Some(BadUsage::invalid(what, value, constraint))
}

/// A value that stands behind its option without an equals sign: `--verify always`.
fn without_equals(value: &str, line: &Line) -> Option<BadUsage> {
    let option = line.option_before(value)?;
    let typed = option.get_long().map(|long| format!("--{long}={value}")).filter(|typed| line.accepts(typed));
    let example = typed.map_or_else(|| line.example(option), shown);
    let constraint = format!("its value follows an equals sign (example: {example})");
    Some(BadUsage::invalid(named(&option.to_string()), value, constraint))
}

/// `invalid --for: a value is missing (example: --for 100us)`.
fn about_argument(refused: &clap::Error, line: &Line, constraint: &str) -> Option<BadUsage> {
    let shown = text(refused, ContextKind::InvalidArg)?;
    let example = line.example_of(shown);
    Some(BadUsage(format!("invalid {}: {constraint} (example: {example})", line.name(shown))))
}

fn too_many(refused: &clap::Error, line: &Line) -> Option<BadUsage> {
    let argument = text(refused, ContextKind::InvalidArg)?;
    let value = text(refused, ContextKind::InvalidValue)?;
    if !argument.starts_with('-') {
        return Some(one_more(value, line));
    }
    let example = line.example_of(argument);
    Some(BadUsage::invalid(named(argument), value, format!("it takes no value (example: {example})")))
}

fn wrong_number(refused: &clap::Error, line: &Line) -> Option<BadUsage> {
    let number = |kind| match refused.get(kind) {
        Some(ContextValue::Number(number)) => Some(*number),
        _ => None,
    };
    let needed = number(ContextKind::ExpectedNumValues).or_else(|| number(ContextKind::MinValues))?;
    let given = number(ContextKind::ActualNumValues)?;
    about_argument(refused, line, &format!("it takes {needed} values, not {given}"))
}

/// An option or argument that the command does not have.
fn unknown(refused: &clap::Error, line: &Line) -> Option<BadUsage> {
    let argument = text(refused, ContextKind::InvalidArg)?;
    let path = &line.path;
    if !argument.starts_with('-') {
        return Some(one_more(argument, line));
    }
    let option = argument.trim_start_matches('-');
    let near: Vec<String> = nearest(option, line.options()).into_iter().map(|name| format!("--{name}")).collect();
    let hint = match (line.instead_of(option), line.owners(option), near.as_slice()) {
        (Some(instead), ..) => format!("; nearest: {instead}"),
        (_, owners, _) if !owners.is_empty() => format!("; it belongs to {}", listed(&owners)),
        (_, _, []) => String::new(),
        (_, _, near) => format!("; nearest: {}", near.join(", ")),
    };
    Some(BadUsage(format!("invalid {}: {path} has no such option{hint} ({path} --help lists all)", shown(argument))))
}

/// A word behind the last that the command takes.
fn one_more(word: &str, line: &Line) -> BadUsage {
    let constraint = format!("{} has no further argument (example: {})", line.path, line.usual());
    BadUsage::invalid("argument", word, constraint)
}

fn command(refused: &clap::Error, line: &Line) -> Option<BadUsage> {
    let typed = text(refused, ContextKind::InvalidSubcommand)?;
    let names: Vec<String> = line.command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    if names.is_empty() {
        return Some(one_more(typed, line));
    }
    let path = line.path.trim_end_matches(" help");
    let constraint = format!("{} ({path} --help lists all)", one_of(typed, &names));
    Some(BadUsage::invalid("command", typed, constraint))
}

/// Two that exclude each other, or one twice.
fn conflict(refused: &clap::Error, line: &Line) -> Option<BadUsage> {
    let others = texts(refused, ContextKind::PriorArg);
    let Some(argument) = text(refused, ContextKind::InvalidArg) else {
        let command = text(refused, ContextKind::InvalidSubcommand)?;
        let what = others.first().map_or("options".to_owned(), |other| named(other));
        let (path, command) = (&line.path, shown(command));
        let constraint = format!("it cannot be used with the command {command}");
        return Some(BadUsage(format!("invalid {what}: {constraint} (example: {path} {command})")));
    };
    if others == [argument] {
        return about_argument(refused, line, "it is given twice");
    }
    let typed = line.example_of(argument);
    let example = line.with(&typed).unwrap_or(typed);
    let others: Vec<String> = others.into_iter().map(in_usage).collect();
    let with = if others.is_empty() { "another option".to_owned() } else { listed(&others) };
    Some(BadUsage(format!("invalid {}: it cannot be used with {with} (example: {example})", named(argument))))
}

fn missing(refused: &clap::Error, line: &Line) -> Option<BadUsage> {
    let missing = texts(refused, ContextKind::InvalidArg);
    let first = missing.first()?;
    if let Some(needing) = line.in_need_of(first) {
        let what = needing.get_long().map(|long| format!("--{long}"))?;
        let needed = line.example_of(first);
        let text = format!("it needs {} (example: {needed} {})", named(first), line.example(needing));
        return Some(BadUsage(format!("invalid {what}: {text}")));
    }
    let path = line.path.split_once(' ').map_or(line.path.as_str(), |(_, path)| path);
    let names: Vec<String> = missing.iter().map(|name| alternatives(name)).collect();
    let is = if names.len() > 1 { "are" } else { "is" };
    let example = line.usual();
    Some(BadUsage(format!("invalid {path}: {} {is} missing (example: {example})", listed(&names))))
}

/// `one of --to, --tick-only` of `<--to <ADDR:PORT>|--tick-only>`.
fn alternatives(shown: &str) -> String {
    let Some(group) = shown.strip_prefix('<').filter(|group| group.starts_with("--")) else { return in_usage(shown) };
    let names: Vec<String> = group.split('|').map(in_usage).collect();
    format!("one of {}", names.join(", "))
}

fn one_of(value: &str, accepted: &[String]) -> String {
    format!("expected one of {}{}", accepted.join(", "), Nearest::to(value, accepted.iter().cloned()))
}

fn listed(names: &[String]) -> String {
    match names {
        [one] => one.clone(),
        [first @ .., last] if names.len() <= MOST => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {} more", names[..MOST].join(", "), names.len() - MOST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_few_names_all_are_said_and_the_nearest() {
        let accepted = ["auto", "always", "never"].map(String::from);
        assert_eq!(one_of("alwas", &accepted), "expected one of auto, always, never; nearest: always");
        assert_eq!(one_of("blue", &accepted), "expected one of auto, always, never");
    }

    /// What is said of a line of words.
    fn said(typed: &str) -> String {
        let words: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
        let refused = crate::command().try_get_matches_from([&["punctual".to_owned()][..], &words].concat());
        explain(&refused.unwrap_err(), &Line::new(crate::command(), words)).to_string()
    }

    #[test]
    fn every_kind_of_refusal_has_the_one_form() {
        let cases = [
            "why --pid 5 -- true",
            "why --thread x",
            "why --pid 5 --samples 10",
            "wait --samples 5 --duration 1s",
            "wait --json a --json b",
            "ipc pipe --all",
            "yield --sender-cpu 0",
            "compare --old a.json",
            "compare a.json b.json --allow-unjudged",
            "report run.json --csv --html",
            "pace --rate 1k --sweep 1k..2k --tick-only",
            "pace",
            "run",
            "merge",
            "governor set",
            "wait --sampels 5",
            "wait -x",
            "wait --min-frequency 1",
            "ipc --verify sometimes",
            "compare a.json b.json c.json",
            "help weit",
            "help wait nanosleep",
            "run --cpu 0",
            "run --polls 5",
            "wait nanosleep,usleep",
            "wait --size 64",
            "wait --format json",
            "ipc --format=csv",
            "--cpu 0",
            "merge a.json",
            "merge a.json b.json --json c.json",
            "compare a.json b.json --json",
            "report a.json b.json",
            "weit",
            "governor sett",
            "--quick wait",
            "wait --for",
            "wait --color",
            "why --path",
            "run --no-such-option true",
            "ipc --verify always",
            "wait --quiet=yes",
            "governor switch powersave",
            "wait --warmup -1",
            "wait --duration -1s",
        ];
        let lines: Vec<String> = cases.iter().map(|case| format!("$ punctual {case}\n{}\n", said(case))).collect();
        for line in &lines {
            let said = line.lines().nth(1).unwrap();
            assert!(said.starts_with("invalid ") && said.contains(": ") && said.contains('('), "{line}");
        }
        insta::assert_snapshot!(lines.concat());
    }
}
