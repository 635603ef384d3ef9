//! `cargo xtask culprits`: the programs of `culprits/`, one known ailment each, under `punctual why`. The scripts there play and score
//! them; this builds the command, unless the last word is one.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use clap::Args;

use crate::tools;

/// What the script does without the command.
const ALONE: [&str; 4] = ["--list", "--bare", "--help", "-h"];

#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct CulpritsArgs {
    /// What culprits/culprits.py takes: --seed N, --only NAME, --busy, the path of a release binary (--help shows all)
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the script. So its end is that of the chore, also where a signal ends it.
pub(crate) fn run(args: &CulpritsArgs) -> anyhow::Result<()> {
    let script = tools::root().join("culprits/culprits.py");
    let named = args.words.last().is_some_and(|word| Path::new(word).is_file());
    let mut command = Command::new(&script);
    command.args(&args.words);
    if !named && !args.words.iter().any(|word| ALONE.iter().any(|flag| word == flag)) {
        command.arg(tools::punctual()?);
    }
    Err(command.exec()).with_context(|| format!("starting {}", script.display()))
}
