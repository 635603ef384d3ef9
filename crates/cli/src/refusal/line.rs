//! A refused command line: which command it is of, what would be accepted instead, and examples.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

/// Values of options that have neither a default nor a list. The key is command and name, the option, or the name in the help.
const VALUES: [(&str, &str); 24] = [
    ("compare LIMIT", "p99+10%"),
    ("--governor", "performance"),
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
pub(super) struct Line {
    root: Command,
    pub(super) command: Command,
    /// `punctual governor set`.
    pub(super) path: String,
    /// What was typed after the name of the program.
    words: Vec<String>,
}

impl Line {
    /// The line that consists of these words after the name of the program.
    pub(super) fn new(mut root: Command, words: Vec<String>) -> Self {
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
    pub(super) fn argument(&self, shown: &str) -> Option<&Arg> {
        self.command.get_arguments().find(|arg| arg.to_string() == shown)
    }

    /// What the argument is called in a refusal. One that stands for several words has its name in the program.
    pub(super) fn name(&self, shown: &str) -> String {
        let several = |arg: &&Arg| arg.get_value_names().is_some_and(|names| names.len() > 1);
        let positional = self.argument(shown).filter(|arg| arg.is_positional()).filter(several);
        positional.map_or_else(|| named(shown), |arg| arg.get_id().as_str().to_owned())
    }

    /// A line of this command that is accepted.
    pub(super) fn usual(&self) -> &str {
        LINES.iter().find(|(path, _)| *path == self.path).map_or(&self.path, |(_, line)| line)
    }

    /// The argument with a value: `--for 100us`, `--full`, `nanosleep`.
    pub(super) fn example(&self, arg: &Arg) -> String {
        let value = self.value(arg);
        match arg.get_long() {
            None => value,
            Some(long) if !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) => format!("--{long}"),
            Some(long) if arg.is_require_equals_set() => format!("--{long}={value}"),
            Some(long) => format!("--{long} {value}"),
        }
    }

    /// The same of the argument that the parser calls so.
    pub(super) fn example_of(&self, shown: &str) -> String {
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
    pub(super) fn with(&self, text: &str) -> Option<String> {
        let (usual, path) = (self.usual().to_owned(), &self.path);
        [format!("{path} {text}"), format!("{usual} {text}"), usual].into_iter().find(|line| self.takes(line))
    }

    /// Whether the command accepts this text.
    pub(super) fn accepts(&self, text: &str) -> bool {
        self.with(text).is_some_and(|line| line.ends_with(text))
    }

    fn takes(&self, line: &str) -> bool {
        self.root.clone().try_get_matches_from(line.split(' ')).is_ok()
    }

    /// The typed option that cannot be without the missing one.
    pub(super) fn in_need_of(&self, missing: &str) -> Option<&Arg> {
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
    pub(super) fn option_before(&self, word: &str) -> Option<&Arg> {
        let place = self.words.iter().position(|typed| typed == word)?;
        let long = self.words.get(place.checked_sub(1)?)?.strip_prefix("--")?;
        self.command.get_arguments().find(|arg| arg.get_long() == Some(long) && arg.is_require_equals_set())
    }

    /// All long options of the command.
    pub(super) fn options(&self) -> Vec<String> {
        self.command.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect()
    }

    /// What this command has instead of an option of others: `--format json` of `--json`, or `--output` where that is a file in this form
    /// alone. Also `--json` of `--format json`.
    pub(super) fn instead_of(&self, option: &str) -> Option<String> {
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
    pub(super) fn owners(&self, option: &str) -> Vec<String> {
        let has = |command: &&Command| command.get_arguments().any(|arg| arg.get_long() == Some(option));
        self.root.get_subcommands().filter(has).map(|command| command.get_name().to_owned()).collect()
    }
}

/// `--for` of `--for <DUR>`, `--verify` of `--verify[=<WHEN>]`, `method` of `[METHOD]...`.
pub(super) fn named(argument: &str) -> String {
    in_usage(argument).to_lowercase()
}

/// As the usage has it: `--for`, `METHOD`.
pub(super) fn in_usage(argument: &str) -> String {
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
}
