//! Examples: a value of each option, and a line of each command.

use clap::{Arg, ArgAction};
use punctual::Condition;

/// Values of options that have neither a default nor a list. The key is command and name, the option, or the name in the help. Of other
/// conditions, the table of conditions has them.
const VALUES: [(&str, &str); 22] = [
    ("compare LIMIT", "p99+10%"),
    ("--thread", "worker"),
    ("ADDR:PORT", "127.0.0.1:9999"),
    ("CPU", "0"),
    ("DUR", "100us"),
    ("FILE", "run.json"),
    ("FREQ", "2.2GHz"),
    ("FROM", "powersave performance"),
    ("FROM..TO", "1k..1M"),
    ("GOVERNOR", "performance"),
    ("LATENESS|CPU%", "5us"),
    ("LIMIT", "p99>200us"),
    ("LIST", "0"),
    ("METHOD", "sched_yield"),
    ("N", "10"),
    ("N,N,..", "0,100"),
    ("PID", "1234"),
    ("POLICY", "fifo:40"),
    ("RUN", "last"),
    ("RUN.json", "a.json"),
    ("SIZE", "64"),
    ("SUBJECT", "nanosleep"),
];

/// Lines of the commands that need more than their name.
const LINES: [(&str, &str); 6] = [
    ("punctual pace", "punctual pace --tick-only"),
    ("punctual run", "punctual run -- PROGRAM"),
    ("punctual report", "punctual report run.json"),
    ("punctual compare", "punctual compare OLD.json NEW.json"),
    ("punctual merge", "punctual merge --output all.json a.json b.json"),
    ("punctual governor set", "punctual governor set performance"),
];

/// A line of this command that is accepted.
pub(super) fn line(path: &str) -> String {
    LINES.iter().find(|(of, _)| *of == path).map_or(path, |(_, line)| line).to_owned()
}

/// `--for 100us`, `--full`, `nanosleep`.
pub(super) fn of(path: &str, arg: &Arg) -> String {
    let value = value(path, arg);
    match arg.get_long() {
        None => value,
        Some(long) if !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) => format!("--{long}"),
        Some(long) if arg.is_require_equals_set() => format!("--{long}={value}"),
        Some(long) => format!("--{long} {value}"),
    }
}

/// The default, the first of a list, or one by its name.
fn value(path: &str, arg: &Arg) -> String {
    let default = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    let first = || arg.get_possible_values().first().map(|value| value.get_name().to_owned());
    let name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    let command = path.rsplit(' ').next().unwrap_or_default();
    let keys = [format!("{command} {name}"), format!("--{}", arg.get_long().unwrap_or_default()), name.to_owned()];
    let known = |key: &String| VALUES.iter().find(|(its, _)| its == key).map(|(_, value)| (*value).to_owned());
    let known = || keys.iter().find_map(known);
    default.or_else(first).or_else(known).or_else(|| of_condition(arg)).unwrap_or_else(|| name.to_owned())
}

/// The example in what a condition says of no value.
fn of_condition(arg: &Arg) -> Option<String> {
    let refused = Condition::named(arg.get_long()?)?.parse("").err()?;
    refused.split_once("(example: ")?.1.split(')').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;
    use clap::error::ErrorKind;

    /// Each command with its path.
    fn commands(command: &Command, path: &str, all: &mut Vec<(String, Command)>) {
        all.push((path.to_owned(), command.clone()));
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            commands(sub, &format!("{path} {}", sub.get_name()), all);
        }
    }

    fn all() -> Vec<(String, Command)> {
        let (mut root, mut all) = (crate::command(), Vec::new());
        root.build();
        commands(&root, "punctual", &mut all);
        all
    }

    fn refused(line: &str) -> Option<ErrorKind> {
        crate::command().try_get_matches_from(line.split(' ')).err().map(|refused| refused.kind())
    }

    #[test]
    fn the_line_of_each_command_is_accepted() {
        for (path, _) in all() {
            assert_eq!(refused(&line(&path)), None, "{path}");
        }
    }

    #[test]
    fn each_option_takes_the_value_of_its_example() {
        for (path, command) in all() {
            for arg in command.get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version")) {
                let with = format!("{} {}", line(&path), of(&path, arg));
                let kind = refused(&with);
                let about_others =
                    [None, Some(ErrorKind::ArgumentConflict), Some(ErrorKind::MissingRequiredArgument)].contains(&kind);
                // Positional arguments of the line are there already.
                assert!(about_others || arg.is_positional(), "{with}: {kind:?}");
            }
        }
    }
}
