//! Fuzzes command lines.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use clap::Command;

use super::mutate;
use super::random::Random;

/// Values that some flag takes.
const VALUES: [&str; 48] = [
    "fifo:40",
    "rr:1",
    "deadline:1ms/10ms/10ms",
    "other",
    "batch",
    "idle",
    "0",
    "1",
    "-1",
    "0-1",
    "0,1",
    "4095",
    "1us",
    "100us,1ms",
    "1h",
    "0ns",
    "1.5ms",
    "2562048h",
    "18446744073709551615",
    "1k",
    "900M",
    "100..400",
    "64,4k",
    "p50=1ns",
    "p99.9<=1ms",
    "max=1000s",
    "any worse by 10%",
    "p99 worse by 1%",
    "nanosleep",
    "ring",
    "sched_yield",
    "performance",
    "a.json",
    "-",
    "/dev/null",
    "127.0.0.1:9",
    "[::1]:9",
    "different",
    "same",
    "each",
    "all",
    "json",
    "markdown",
    "auto",
    "never",
    "spin",
    "hybrid,spin",
    "",
];

/// The parser and all its flags.
pub(super) struct Parser {
    command: Command,
    words: Vec<String>,
}

impl Parser {
    pub(super) fn new() -> Self {
        let mut command = punctual_cli::command();
        command.build();
        let mut words = Vec::new();
        gather(&command, &mut words);
        Self { command, words }
    }

    /// Parses a line and returns whether it was accepted. Checks that a refusal has a message of limited length.
    pub(super) fn check(&self, random: &mut Random) -> Result<bool, String> {
        let line = self.line(random);
        let Err(error) = self.command.clone().try_get_matches_from(&line) else { return Ok(true) };
        let said = error.to_string();
        if error.use_stderr() && said.trim().is_empty() {
            return Err(format!("{line:?} is refused without a message"));
        }
        let longest = line.iter().map(|word| word.len()).sum::<usize>();
        if error.use_stderr() && said.len() > 4_000 + 4 * longest {
            return Err(format!("the refusal of {line:?} has {} bytes", said.len()));
        }
        Ok(!error.use_stderr())
    }

    fn line(&self, random: &mut Random) -> Vec<OsString> {
        let mut line = vec![OsString::from("punctual")];
        let subcommands: Vec<&str> = self.command.get_subcommands().map(Command::get_name).collect();
        if !random.one_in(8) {
            line.push((*random.of(&subcommands)).into());
        }
        for _ in 0..random.below(7) {
            let mut word = match random.below(3) {
                0 => (*random.of(&VALUES)).to_owned(),
                1 => random.of(&self.words).clone(),
                _ => format!("{}={}", random.of(&self.words), random.of(&VALUES)),
            }
            .into_bytes();
            if random.one_in(4) {
                mutate::bytes(&mut word, random);
            }
            // No argument can contain a zero byte.
            word.retain(|byte| *byte != 0);
            line.push(OsString::from_vec(word));
        }
        line
    }
}

fn gather(command: &Command, words: &mut Vec<String>) {
    words.push(command.get_name().to_owned());
    for argument in command.get_arguments() {
        words.extend(argument.get_long().map(|long| format!("--{long}")));
        words.extend(argument.get_short().map(|short| format!("-{short}")));
    }
    command.get_subcommands().for_each(|subcommand| gather(subcommand, words));
}
