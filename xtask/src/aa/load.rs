//! What else runs on the machine while something is measured.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use crate::tools;

/// What else runs, on every CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Load {
    /// Nothing
    Quiet,
    /// A compiler: `cc`, over and over
    Compiler,
    /// A storm of short processes
    Forks,
    /// A loop that never sleeps
    Competitor,
}

impl Load {
    /// Its name in files and tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Compiler => "compiler",
            Self::Forks => "forks",
            Self::Competitor => "competitor",
        }
    }

    /// What each CPU does; `None`: nothing. The folder of C sources is `$1`.
    fn script(self) -> Option<&'static str> {
        match self {
            Self::Quiet => None,
            Self::Compiler => Some("while :; do for f in \"$1\"/*.c; do cc -O2 -c \"$f\" -o /dev/null; done; done"),
            Self::Forks => Some("while :; do /bin/true; done"),
            Self::Competitor => Some("while :; do :; done"),
        }
    }

    /// Starts it; it ends when the result is dropped.
    pub(crate) fn start(self) -> anyhow::Result<Option<Running>> {
        self.script().map(|script| Running::start(self.name(), script)).transpose()
    }
}

/// A load until it is dropped.
pub(crate) struct Running(Child);

impl Running {
    fn start(name: &str, script: &str) -> anyhow::Result<Self> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let everywhere = format!("for cpu in $(seq $2); do ({script}) & done; wait");
        let child = Command::new("sh")
            .args(["-c", &everywhere, name])
            .arg(tools::root().join("peers/c"))
            .arg(cpus.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting the load {name}"))?;
        // Its first files are read before the measurement begins.
        std::thread::sleep(Duration::from_secs(1));
        Ok(Self(child))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The group: its shells and what they started. Should kill be missing, they go on, so say it.
        let group = format!("-{}", self.0.id());
        let killed = Command::new("kill").args(["-KILL", "--", &group]).status();
        if !killed.is_ok_and(|status| status.success()) {
            eprintln!("the load goes on: kill -KILL -- {group}");
        }
        drop(self.0.wait());
    }
}
