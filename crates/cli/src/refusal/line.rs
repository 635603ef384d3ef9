//! A refused command line: which command it is of, and what would be accepted instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use super::example;

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
    /// Of these words after the name of the program.
    pub(super) fn of(mut root: Command, words: Vec<String>) -> Self {
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

    /// The shortest line of this command that holds this text, and is accepted.
    pub(super) fn with(&self, text: &str) -> Option<String> {
        let (usual, path) = (example::line(&self.path), &self.path);
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
        let alone = example::line(&self.path);
        let needs = |arg: &&Arg| {
            let example = example::of(&self.path, arg);
            [&alone, &self.path].iter().any(|line| lacks(&format!("{line} {example}")))
        };
        self.command.get_arguments().filter(typed).find(needs).filter(|_| !lacks(&self.path))
    }

    /// The option before this word, if its value follows an equals sign.
    pub(super) fn option_before(&self, word: &str) -> Option<&Arg> {
        let place = self.words.iter().position(|its| its == word)?;
        let long = self.words.get(place.checked_sub(1)?)?.strip_prefix("--")?;
        self.command.get_arguments().find(|arg| arg.get_long() == Some(long) && arg.is_require_equals_set())
    }

    /// All long options of the command.
    pub(super) fn options(&self) -> Vec<String> {
        self.command.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect()
    }

    /// What this command has instead of an option of others: `--format json` of `--json`, or `--output` where it writes that form. Also
    /// `--json` of `--format json`.
    pub(super) fn instead_of(&self, option: &str) -> Option<String> {
        let takes = |arg: &&Arg| arg.get_possible_values().iter().any(|value| value.get_name() == option);
        let valued = |arg: &Arg| Some(format!("--{} {option}", arg.get_long()?));
        let help = |arg: &Arg| arg.get_help().map(|help| help.to_string().to_lowercase()).unwrap_or_default();
        let output = self.command.get_arguments().find(|arg| arg.get_long() == Some("output"));
        let writes = output.filter(|arg| help(arg).split(|c: char| !c.is_alphanumeric()).any(|word| word == option));
        let form = self.command.get_arguments().find(takes).and_then(valued);
        let named = self.value_of(option).filter(|value| self.options().iter().any(|its| its == value));
        form.or_else(|| writes.map(|_| "--output".to_owned())).or_else(|| named.map(|value| format!("--{value}")))
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
        Some(ContextValue::Strings(all)) => all.iter().any(|its| its == missing),
        _ => false,
    };
    refused.kind() == ErrorKind::MissingRequiredArgument && lacking
}
