//! What the command says names only flags that the same command has.

use clap::Command;
use clap::error::ErrorKind;
use punctual_record::Notice;
use punctual_report::Document;
use punctual_report::export::text::{self, Style};
use punctual_report::notice::phrase;

use super::*;

#[test]
fn a_remedy_names_the_flags_of_its_command() {
    crate::args::define(crate::command);
    let named = |command: &str, hint: Hint| Flags::taken_by(command).in_hint(hint).to_string();
    let more = || Hint::from(Ask::MoreTime).and(", ").and(Ask::Samples).and(", or name fewer methods");
    let in_wait = "give more time (--duration), ask for a number of samples (--samples), or name fewer methods";
    assert_eq!(named("wait", more()), in_wait);
    let in_checkup = "give more time (--thorough), ask for a number of samples, or name fewer methods";
    assert_eq!(named("checkup", more()), in_checkup);
    assert_eq!(named("report", more()), more().to_string());
    let smaller = Hint::from(Ask::SmallerSizeOrDepth).and(", or more memory");
    assert_eq!(named("ipc", smaller), "a smaller size or depth (--size, --depth), or more memory");
    assert_eq!(named("ipc", Ask::SmallerSize.into()), "a smaller size (--size)");
    assert_eq!(named("wait", Ask::SmallerSize.into()), "a smaller size");
    let rounds = Hint::from("repeat with ").and(Ask::MoreRounds);
    assert_eq!(named("governor ramp", rounds), "repeat with more rounds (--rounds)");
    assert_eq!(named("wait", "set it on the host".into()), "set it on the host");
}

#[test]
fn a_refusal_names_the_flag() {
    let refused = |input| BadUsage::from(PlanError { input, why: "must be at least 1".into() }).to_string();
    assert_eq!(refused(Input::Rounds), "invalid --rounds: must be at least 1");
    assert_eq!(refused(Input::Methods), "invalid method: must be at least 1");
    assert!(refused(Input::Datagrams).ends_with("(--yes confirms it)"));
}

/// All commands, by the words that call them.
fn commands() -> Vec<(String, Command)> {
    fn add(command: &Command, name: &str, all: &mut Vec<(String, Command)>) {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let name = format!("{name} {}", sub.get_name()).trim_start().to_owned();
            all.push((name.clone(), sub.clone()));
            add(sub, &name, all);
        }
    }
    let (mut root, mut all) = (crate::command(), Vec::new());
    root.build();
    add(&root, "", &mut all);
    all
}

/// All long flags in a text, without their values.
fn flags(text: &str) -> Vec<String> {
    let name = |word: &str| -> String {
        word.chars().take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-').collect()
    };
    let words = text.split(|c: char| c.is_whitespace() || "(`,;[=".contains(c));
    let flags = words.map(name).filter(|word| word.starts_with("--") && word.len() > 2);
    flags.map(|flag| flag.trim_end_matches('-').to_owned()).collect()
}

/// Whether the command's own parser takes the flag.
fn takes(command: &Command, flag: &str) -> bool {
    let refused = command.clone().no_binary_name(true).try_get_matches_from([flag]).err();
    refused.is_none_or(|refused| refused.kind() != ErrorKind::UnknownArgument)
}

fn assert_taken(name: &str, command: &Command, text: &str) {
    for flag in flags(text) {
        assert!(takes(command, &flag), "`punctual {name}` has no {flag}, which it names: {text}");
    }
}

/// One notice of each kind, as a record holds it.
const NOTICES: &str = r#"[
    {"code": "condition-refused", "conditions": "a", "refusal": {"condition": "policy", "asked": "fifo:40", "why": "no", "remedy": "yes"}},
    {"code": "conditions-skipped", "conditions": "a", "refusal": {"condition": "policy", "asked": "fifo:40", "why": "no", "remedy": "yes"}},
    {"code": "condition-not-kept", "conditions": "a", "condition": "policy", "set": "fifo:40", "found": "other"},
    {"code": "clock-stepped", "by_ns": 5, "after_ns": 5, "times": 2},
    {"code": "paused", "cause": "stopped", "gap_ns": 5, "after_ns": 5, "times": 2},
    {"code": "part-failed", "part": "ipc", "why": "no", "remedy": "yes"},
    {"code": "steal", "share": 0.1},
    {"code": "busy-machine", "share": 0.1},
    {"code": "unsteady", "series": 3, "judged": 4},
    {"code": "coarse", "subject": "sleep", "asked_ns": 5, "effective_ns": 50},
    {"code": "early", "subject": "sleep", "count": 3, "min_ns": -4},
    {"code": "interrupted", "signal": "SIGINT"},
    {"code": "overdue"},
    {"code": "unsupervised", "why": "no", "remedy": "yes"},
    {"code": "same-core", "pairs": [[0, 1]]},
    {"code": "cores-unknown", "pairs": [[0, 1]]},
    {"code": "peer-ended", "subject": "pipe", "how": "ended", "after_ns": 5},
    {"code": "watchdog-tripped", "conditions": "a", "busy_ns": 5},
    {"code": "overflow", "subject": "sleep", "count": 3},
    {"code": "counter-unavailable", "why": "no"},
    {"code": "unseen", "why": "no", "remedy": "yes"},
    {"code": "causes-not-merged"},
    {"code": "not-restored", "what": "governor", "why": "no", "remedy": "yes"},
    {"code": "other", "text": "Something."}
]"#;

#[test]
fn a_wrong_flag_is_noticed() {
    assert_eq!(
        flags("repeat with more (--rounds), `--json`; --fail-above=p99=1ms -- --"),
        ["--rounds", "--json", "--fail-above"]
    );
    let commands = commands();
    let (_, wait) = commands.iter().find(|(name, _)| name == "wait").unwrap();
    assert!(takes(wait, "--rounds") && takes(wait, "--quiet") && !takes(wait, "--round") && !takes(wait, "--polls"));
}

#[test]
fn notices_name_flags_that_their_command_has() {
    let notices: Vec<Notice> = serde_json::from_str(NOTICES).unwrap();
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../../../docs/punctual.run-2.schema.json")).unwrap();
    let kinds = schema["$defs"]["Notice"]["oneOf"].as_array().expect("the schema has the kinds of notices");
    assert_eq!(notices.len(), kinds.len(), "one notice of each kind");
    let mut named = 0;
    for (name, command) in commands() {
        for notice in &notices {
            let said = Flags::taken_by(&name).named(&phrase(notice));
            let said = format!("{} {}", said.text, said.remedy.unwrap_or_default());
            named += flags(&said).len();
            assert_taken(&name, &command, &said);
        }
    }
    assert!(named > 10, "some remedies name a flag");
}

#[test]
fn remedies_name_flags_that_their_command_has() {
    for (name, command) in commands() {
        for &ask in Ask::ALL {
            assert_taken(&name, &command, &Flags::taken_by(&name).in_hint(ask).to_string());
        }
    }
}

#[test]
fn the_help_names_flags_that_its_command_has() {
    for (name, command) in commands() {
        let help = command.clone().render_long_help().to_string();
        assert!(!flags(&help).is_empty(), "{name}: {help}");
        assert_taken(&name, &command, &help);
    }
}

/// Reports of every experiment. A command line in them is taken by that command's parser, another flag by the command that
/// measured.
#[test]
fn reports_name_flags_that_their_command_has() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/tests/experiments");
    let commands = commands();
    let find = |name: &str| commands.iter().find(|(known, _)| known == name).map(|(_, command)| command);
    for file in std::fs::read_dir(folder).unwrap() {
        let run = Run::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
        let measured = find(&run.subcommand).unwrap_or_else(|| panic!("no command {}", run.subcommand));
        // The command line of the run itself is whatever was typed. Narrow enough to hide columns.
        let document = Document { command: String::new(), ..Document::from_run(&run) };
        let text = text::render(&document, &Style { width: 60, ..Style::PLAIN }).replace(" \\\n", " ");
        for line in text.lines().filter(|line| line.contains("--")) {
            match line.split_once("punctual ").map(|(_, rest)| rest) {
                Some(rest) => {
                    let name = rest.split(' ').next().unwrap_or_default();
                    let command = find(name).unwrap_or_else(|| panic!("no command {name}: {line}"));
                    assert_taken(name, command, rest.split(" -- ").next().unwrap_or_default());
                }
                // Options of other programs stand in their command lines.
                None if ["chrt ", "docker ", "taskset "].iter().any(|other| line.contains(other)) => {}
                None => assert_taken(&run.subcommand, measured, line),
            }
        }
    }
}
