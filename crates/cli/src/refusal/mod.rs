//! Bad input, in one form: `invalid --nice '30': expected an integer from -20 to 19 (example: -5)`. Nothing was touched, and the status is 2.

pub(crate) mod explanation;

use std::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

use crate::terminal;

/// A command line that asks for something that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadUsage(pub(crate) String);

impl BadUsage {
    /// `value` of `what` (a flag or an argument) breaks a constraint. The constraint names what is accepted and an example.
    pub(crate) fn invalid(what: impl fmt::Display, value: impl fmt::Display, constraint: impl fmt::Display) -> Self {
        Self(format!("invalid {what} '{}': {constraint}", terminal::shown(value.to_string())))
    }

    /// Refuses a list of `what` in which a value stands twice.
    pub(crate) fn unless_different<T: PartialEq + fmt::Display>(what: &str, list: &[T]) -> Result<(), Self> {
        let twice = list.iter().enumerate().find(|(at, value)| list[..*at].contains(value));
        twice.map_or(Ok(()), |(_, value)| {
            Err(Self(format!("invalid {what}: '{value}' is asked for twice; name each once")))
        })
    }
}

// A refused command line: which command it is of, what would be accepted instead, and examples.

/// Values of options that have neither a default nor a list. The key is command and name, the option, or the name in the help.
const VALUES: [(&str, &str); 26] = [
    ("compare LIMIT", "p99+10%"),
    ("--governor", "performance"),
    ("--thread", "worker"),
    ("--until", "p99+10%"),
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
    ("LOAD", "cpu"),
    ("METHOD", "sched_yield"),
    ("N", "10"),
    ("N,N,..", "0,100"),
    ("PID", "1234"),
    ("POLICY", "fifo:40"),
    ("PREFERENCE", "balance_performance"),
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

/// The command line.
struct Line {
    root: Command,
    command: Command,
    /// `punctual governor set`.
    path: String,
    /// What was typed after the name of the program.
    words: Vec<String>,
}

impl Line {
    /// The line that consists of these words after the name of the program.
    fn new(mut root: Command, words: Vec<String>) -> Self {
        root.build();
        let (mut command, mut path) = (root.clone(), root.get_name().to_owned());
        for word in &words {
            let Some(sub) = command.find_subcommand(word).cloned() else { break };
            path = format!("{path} {}", sub.get_name());
            command = sub;
        }
        Self { root, command, path, words }
    }

    /// The argument that the parser calls so: `--for <DUR>`, `[METHOD]...`.
    fn argument(&self, shown: &str) -> Option<&Arg> {
        self.command.get_arguments().find(|arg| arg.to_string() == shown)
    }

    /// What the argument is called in a refusal. One that stands for several words has its name in the program.
    fn name(&self, shown: &str) -> String {
        let several = |arg: &&Arg| arg.get_value_names().is_some_and(|names| names.len() > 1);
        let positional = self.argument(shown).filter(|arg| arg.is_positional()).filter(several);
        positional.map_or_else(|| named(shown), |arg| arg.get_id().as_str().to_owned())
    }

    /// A line of this command that is accepted.
    fn usual(&self) -> &str {
        LINES.iter().find(|(path, _)| *path == self.path).map_or(&self.path, |(_, line)| line)
    }

    /// The argument with a value: `--for 100us`, `--full`, `nanosleep`.
    fn example(&self, arg: &Arg) -> String {
        let value = self.value(arg);
        match arg.get_long() {
            None => value,
            Some(long) if !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) => format!("--{long}"),
            Some(long) if arg.is_require_equals_set() => format!("--{long}={value}"),
            Some(long) => format!("--{long} {value}"),
        }
    }

    /// The same of the argument that the parser calls so.
    fn example_of(&self, shown: &str) -> String {
        self.argument(shown).map(|arg| self.example(arg)).unwrap_or_default()
    }

    /// The default, the first of a list, or one by its name.
    fn value(&self, arg: &Arg) -> String {
        let default = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
        let first = || arg.get_possible_values().first().map(|value| value.get_name().to_owned());
        let name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
        let keys = [
            format!("{} {name}", self.command.get_name()),
            format!("--{}", arg.get_long().unwrap_or_default()),
            name.to_owned(),
        ];
        let known = |key: &String| VALUES.iter().find(|(name, _)| name == key).map(|(_, value)| (*value).to_owned());
        default.or_else(first).or_else(|| keys.iter().find_map(known)).unwrap_or_else(|| name.to_owned())
    }

    /// The shortest line of this command that holds this text, and is accepted.
    fn with(&self, text: &str) -> Option<String> {
        let (usual, path) = (self.usual().to_owned(), &self.path);
        [format!("{path} {text}"), format!("{usual} {text}"), usual].into_iter().find(|line| self.takes(line))
    }

    /// Whether the command accepts this text.
    fn accepts(&self, text: &str) -> bool {
        self.with(text).is_some_and(|line| line.ends_with(text))
    }

    fn takes(&self, line: &str) -> bool {
        self.root.clone().try_get_matches_from(line.split(' ')).is_ok()
    }

    /// The typed option that cannot be without the missing one.
    fn in_need_of(&self, missing: &str) -> Option<&Arg> {
        let typed = |arg: &&Arg| {
            let long = arg.get_long().map(|long| format!("--{long}"));
            long.is_some_and(|long| self.words.iter().any(|word| word.split('=').next() == Some(&long)))
        };
        let lacks = |line: &str| {
            let refused = self.root.clone().try_get_matches_from(line.split(' ')).err();
            refused.is_some_and(|refused| is_about(&refused, missing))
        };
        let needs =
            |arg: &&Arg| [self.usual(), &self.path].iter().any(|line| lacks(&format!("{line} {}", self.example(arg))));
        self.command.get_arguments().filter(typed).find(needs).filter(|_| !lacks(&self.path))
    }

    /// The option before this word, if its value follows an equals sign.
    fn option_before(&self, word: &str) -> Option<&Arg> {
        let place = self.words.iter().position(|typed| typed == word)?;
        let long = self.words.get(place.checked_sub(1)?)?.strip_prefix("--")?;
        self.command.get_arguments().find(|arg| arg.get_long() == Some(long) && arg.is_require_equals_set())
    }

    /// All long options of the command.
    fn options(&self) -> Vec<String> {
        self.command.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect()
    }

    /// What this command has instead of an option of others: `--format json` of `--json`, or `--output` where that is a file in this form
    /// alone. Also `--json` of `--format json`.
    fn instead_of(&self, option: &str) -> Option<String> {
        let takes = |arg: &&Arg| arg.get_possible_values().iter().any(|value| value.get_name() == option);
        let valued = |arg: &Arg| Some(format!("--{} {option}", arg.get_long()?));
        let form = self.command.get_arguments().find(takes).and_then(valued);
        let options = self.options();
        let has = |wanted: &str| options.iter().any(|option| option == wanted);
        let writes = || (option == "json" && has("output")).then(|| "--output".to_owned());
        let named = || self.value_of(option).filter(|value| has(value)).map(|value| format!("--{value}"));
        form.or_else(writes).or_else(named)
    }

    /// The word that was typed as this option's value, with an equals sign or behind it.
    fn value_of(&self, option: &str) -> Option<&str> {
        let long = format!("--{option}");
        let place = self.words.iter().position(|word| word.split('=').next() == Some(&long))?;
        let assigned = self.words[place].split_once('=').map(|(_, value)| value);
        assigned.or_else(|| self.words.get(place + 1).map(String::as_str))
    }

    /// The commands that have this option.
    fn owners(&self, option: &str) -> Vec<String> {
        let has = |command: &&Command| command.get_arguments().any(|arg| arg.get_long() == Some(option));
        self.root.get_subcommands().filter(has).map(|command| command.get_name().to_owned()).collect()
    }
}

/// `--for` of `--for <DUR>`, `--verify` of `--verify[=<WHEN>]`, `method` of `[METHOD]...`.
fn named(argument: &str) -> String {
    in_usage(argument).to_lowercase()
}

/// As the usage has it: `--for`, `METHOD`.
fn in_usage(argument: &str) -> String {
    if argument.starts_with('-') {
        let end = argument.find([' ', '[', '=', '>']).unwrap_or(argument.len());
        return argument[..end].to_owned();
    }
    argument.trim_matches(['[', ']', '<', '>', '.']).to_owned()
}

fn is_about(refused: &clap::Error, missing: &str) -> bool {
    let lacking = match refused.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(all)) => all.iter().any(|lacking| lacking == missing),
        _ => false,
    };
    refused.kind() == ErrorKind::MissingRequiredArgument && lacking
}

// The names nearest to an unknown one.

/// Names farther than this (Jaro-Winkler, 0 to 1) are no slip of the finger.
const SIMILAR: f64 = 0.75;
/// Parts of names are short, and short words are soon similar.
const SIMILAR_PART: f64 = 0.85;
/// Names offered at most.
const MOST: usize = 3;
/// Shortest part of a name that is taken for one.
const LEAST_PART: usize = 2;

/// The likeliest first. Names of which `name` is a part (`futex` of `memfd-futex`) come before slips in the whole name. Slips in a part of
/// it (`fotex`) come last.
pub(crate) fn nearest(name: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let name = name.to_lowercase();
    let distance = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        if name.len() >= LEAST_PART && candidate.contains(&name) {
            // Parts keep the order of the list, which has the usual ones first.
            return Some((0, 0.0));
        }
        let whole = strsim::jaro_winkler(&name, &candidate);
        if whole >= SIMILAR {
            return Some((1, 1.0 - whole));
        }
        let parts = candidate.split(['-', '_', ':']).map(|part| strsim::jaro_winkler(&name, part));
        let part = parts.fold(0.0, f64::max);
        (part >= SIMILAR_PART).then_some((2, 1.0 - part))
    };
    let mut near: Vec<_> = names.into_iter().filter_map(|name| Some((distance(&name)?, name))).collect();
    near.sort_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    near.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// The names nearest to an unknown one, behind what refuses it: `; nearest: usleep, nanosleep`, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Nearest(Vec<String>);

impl Nearest {
    /// Those of `names` that `name` may have meant.
    pub(crate) fn to(name: &str, names: impl IntoIterator<Item = String>) -> Self {
        Self(nearest(name, names))
    }

    /// Whether none is near.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() { Ok(()) } else { write!(f, "; nearest: {}", self.0.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path of each command, without the name of the program.
    fn paths(command: &Command, path: &[String], all: &mut Vec<Vec<String>>) {
        all.push(path.to_vec());
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            paths(sub, &[path, &[sub.get_name().to_owned()]].concat(), all);
        }
    }

    fn lines() -> Vec<Line> {
        let (mut root, mut all) = (crate::command(), Vec::new());
        root.build();
        paths(&root, &[], &mut all);
        all.into_iter().map(|words| Line::new(crate::command(), words)).collect()
    }

    fn refused(line: &str) -> Option<ErrorKind> {
        crate::command().try_get_matches_from(line.split(' ')).err().map(|refused| refused.kind())
    }

    #[test]
    fn the_line_of_each_command_is_accepted() {
        for line in lines() {
            assert_eq!(refused(line.usual()), None, "{}", line.path);
        }
    }

    #[test]
    fn each_option_takes_the_value_of_its_example() {
        for line in lines() {
            for arg in line.command.get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version")) {
                let with = format!("{} {}", line.usual(), line.example(arg));
                let kind = refused(&with);
                let about_others =
                    [None, Some(ErrorKind::ArgumentConflict), Some(ErrorKind::MissingRequiredArgument)].contains(&kind);
                // Positional arguments of the line are there already.
                assert!(about_others || arg.is_positional(), "{with}: {kind:?}");
            }
        }
    }

    #[test]
    fn arguments_are_named_as_they_are_typed() {
        assert_eq!(named("--for <DUR>"), "--for");
        assert_eq!(named("--verify[=<WHEN>]"), "--verify");
        assert_eq!(named("[METHOD]..."), "method");
        assert_eq!(named("<RUN>"), "run");
    }

    #[test]
    fn by_part_by_distance_and_by_a_part_that_is_mistyped() {
        let near = |name: &str| {
            let names = ["memfd-futex", "posix-mq", "sysv-mq", "tcp", "kind:socket", "usleep", "nanosleep"];
            nearest(name, names.map(String::from)).join(" ")
        };
        assert_eq!(near("futex"), "memfd-futex");
        assert_eq!(near("MQ"), "posix-mq sysv-mq");
        assert_eq!(near("socket"), "kind:socket");
        assert_eq!(near("usleeep"), "usleep nanosleep");
        assert_eq!(near("fotex"), "memfd-futex");
        assert_eq!(near("sockte"), "kind:socket");
        assert_eq!(near("qqqq"), "");
        assert_eq!(near("x"), "", "one letter is no part");
    }
}
