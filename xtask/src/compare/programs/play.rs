//! A program, run once: with `punctual why` or `punctual run`, or without.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use punctual_record::{Causes, Run};

use super::program::{Program, Work};

/// Nothing here takes longer.
const LIMIT_S: &str = "120";
/// A server has to serve within this time, and a process to be attached to.
const PATIENCE: Duration = Duration::from_secs(20);
/// The command has opened its events by then.
const ATTACHED: Duration = Duration::from_millis(600);

/// Where a program writes what it measures of itself.
const FIGURES: &str = "figures";
const LIBRARY: &str = "libpunctual_preload.so";

/// How a program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Not,
    /// `why -- PROGRAM`.
    Started,
    /// `why --pid`.
    Attached,
    /// `run` with these flags.
    Under(&'static [&'static str]),
}

/// What one run shows.
#[derive(Debug)]
pub(super) struct Outcome {
    /// stdout, stderr and exit status of what is compared.
    pub(super) said: [String; 3],
    /// How long the program took, or the load of a server.
    pub(super) took: Duration,
    /// The same with starting and ending, and with the report.
    pub(super) whole: Duration,
    pub(super) causes: Option<Causes>,
    /// What it is judged by.
    pub(super) figures: Vec<f64>,
    /// CPU time of the program, or of the server, with its start.
    pub(super) cpu: Duration,
}

/// Where a program runs.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) punctual: PathBuf,
    pub(super) sources: PathBuf,
    pub(super) python: PathBuf,
    pub(super) folder: PathBuf,
}

impl Place {
    /// A shell that runs this here.
    pub(super) fn shell(&self, script: &str) -> Command {
        self.at_home(Command::new("sh"), &["-c", script])
    }

    fn at_home(&self, mut command: Command, args: &[&str]) -> Command {
        command.args(args).current_dir(&self.folder).stdin(Stdio::null());
        command
            .env("P", &self.sources)
            .env("PYTHON", &self.python)
            .env("LC_ALL", "C.UTF-8")
            .env("FIGURES", self.folder.join(FIGURES))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env("PUNCTUAL_LOCK_NAMESPACE", "");
        command
    }

    /// `why` with these arguments, its record in the file `why.json`.
    fn why(&self, args: &[&str]) -> Command {
        let own = ["-k", "5", LIMIT_S, self.punctual.to_str().unwrap_or_default()];
        let why = ["why", "-q", "--no-keep", "--json", "why.json", "-o", "why.txt"];
        self.at_home(Command::new("timeout"), &[&own[..], &why, args].concat())
    }

    /// What is run: the program, behind a command or not.
    fn program(&self, mode: Mode, script: &str) -> Command {
        match mode {
            Mode::Started => self.why(&["--", "sh", "-c", script]),
            Mode::Under(flags) => {
                let run = ["-k", "5", LIMIT_S, self.punctual.to_str().unwrap_or_default(), "run"];
                self.at_home(Command::new("timeout"), &[&run, flags, &["--", "sh", "-c", script]].concat())
            }
            Mode::Not | Mode::Attached => {
                self.at_home(Command::new("timeout"), &["-k", "5", LIMIT_S, "sh", "-c", script])
            }
        }
    }

    fn causes(&self) -> anyhow::Result<Option<Causes>> {
        let file = std::fs::File::open(self.folder.join("why.json")).context("`why` wrote no record")?;
        Ok(Run::from_json(file)?.causes)
    }

    /// When the program passed a place.
    fn stamp(&self, file: &str) -> anyhow::Result<Duration> {
        Ok(Duration::from_nanos(std::fs::read_to_string(self.folder.join(file))?.trim().parse()?))
    }

    /// What the program measured of itself.
    fn figures(&self, wanted: usize) -> anyhow::Result<Vec<f64>> {
        let text = std::fs::read_to_string(self.folder.join(FIGURES)).context("it wrote no figures")?;
        let figures = text.lines().map(|line| line.trim().parse()).collect::<Result<Vec<f64>, _>>()?;
        ensure!(figures.len() == wanted, "it wrote {} figures, where {wanted} are expected", figures.len());
        Ok(figures)
    }

    /// Runs the program once.
    pub(super) fn play(&self, program: &Program, mode: Mode) -> anyhow::Result<Outcome> {
        for left in ["why.json", FIGURES] {
            let _ = std::fs::remove_file(self.folder.join(left));
        }
        let mut outcome = match program.work {
            Work::Ends(script) => self.play_to_its_end(script, mode)?,
            Work::Serves { server, worker, ready, load } => self.play_server((server, worker), ready, load, mode)?,
        };
        if matches!(mode, Mode::Started | Mode::Attached) {
            outcome.causes = self.causes()?;
        }
        outcome.figures = match program.figures.len() {
            0 => vec![outcome.took.as_secs_f64()],
            wanted => self.figures(wanted)?,
        };
        Ok(outcome)
    }

    fn play_to_its_end(&self, script: &str, mode: Mode) -> anyhow::Result<Outcome> {
        let begin = Instant::now();
        if mode != Mode::Attached {
            // The program's own time, without that of opening and closing the kernel's events.
            let timed = format!("date +%s%N > begin\n(\n{script}\n)\nstatus=$?\ndate +%s%N > end\nexit $status");
            let before = cpu_of_children()?;
            let output = self.program(mode, &timed).output()?;
            let (whole, cpu) = (begin.elapsed(), cpu_of_children()?.saturating_sub(before));
            let took = self.stamp("end")?.saturating_sub(self.stamp("begin")?);
            return Ok(Outcome { took, cpu, ..outcome(&output, whole) });
        }
        // It begins when it is watched.
        let mut command = self.at_home(Command::new("sh"), &["-c", "read go; eval \"$0\"", script]);
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let pid = program.id().to_string();
        let watcher = self.why(&["--pid", &pid, "--duration", LIMIT_S_WITH_UNIT]).spawn()?;
        std::thread::sleep(ATTACHED);
        drop(program.stdin.take().map(|mut go| std::io::Write::write_all(&mut go, b"\n")));
        let begin = Instant::now();
        let output = program.wait_with_output()?;
        let outcome = outcome(&output, begin.elapsed());
        ended_well(watcher, "why --pid")?;
        Ok(outcome)
    }

    fn play_server(
        &self,
        (server, worker): (&str, bool),
        ready: &str,
        load: &str,
        mode: Mode,
    ) -> anyhow::Result<Outcome> {
        let mut server = Server(self.program(mode, server).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?);
        let begin = Instant::now();
        while !self.shell(ready).output()?.status.success() {
            ensure!(begin.elapsed() < PATIENCE, "the server does not serve");
            std::thread::sleep(Duration::from_millis(30));
        }
        let behind = matches!(mode, Mode::Started | Mode::Under(_));
        let pid = server.pid(behind)?;
        if let Mode::Under(flags) = mode {
            ensure_loaded(pid, flags)?;
        }
        let watcher = match mode {
            Mode::Attached => {
                let pid = if worker { child(pid)? } else { pid }.to_string();
                let child = self.why(&["--pid", &pid, "--duration", LIMIT_S_WITH_UNIT]).spawn()?;
                std::thread::sleep(ATTACHED);
                Some(child)
            }
            _ => None,
        };
        let begin = Instant::now();
        let output = self.shell(load).output()?;
        let mut outcome = outcome(&output, begin.elapsed());
        // SIGTERM to the server, which ends in its own way; the watcher goes with it.
        let before = cpu_of_children()?;
        terminate(pid)?;
        let status = server.0.wait()?;
        outcome.cpu = cpu_of_children()?.saturating_sub(before);
        outcome.said[2] += &format!(", server {}", status.code().map_or("killed".into(), |code| code.to_string()));
        watcher.map_or(Ok(()), |watcher| ended_well(watcher, "why --pid"))?;
        Ok(outcome)
    }
}

const LIMIT_S_WITH_UNIT: &str = "100s";

fn outcome(output: &Output, took: Duration) -> Outcome {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let status = output.status.code().map_or("killed".to_owned(), |code| code.to_string());
    let said = [text(&output.stdout), text(&output.stderr), status];
    Outcome { said, took, whole: took, causes: None, figures: Vec::new(), cpu: Duration::ZERO }
}

/// CPU time of all children that were waited for, and of theirs.
fn cpu_of_children() -> anyhow::Result<Duration> {
    let usage = punctual_linux::usage::children_usage()?;
    Ok(Duration::from_nanos((usage.user_ns + usage.system_ns).cast_unsigned()))
}

/// A server that cannot read the library would show the figures of none.
fn ensure_loaded(pid: u32, flags: &[&str]) -> anyhow::Result<()> {
    let expected = flags.iter().any(|flag| !flag.starts_with("--timer-slack") && flag.starts_with("--"));
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    ensure!(maps.contains(LIBRARY) == expected, "process {pid} has {LIBRARY} loaded: {}", !expected);
    Ok(())
}

fn ended_well(watcher: Child, what: &str) -> anyhow::Result<()> {
    let output = watcher.wait_with_output()?;
    ensure!(output.status.success(), "{what}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn terminate(pid: u32) -> anyhow::Result<()> {
    let status = Command::new("kill").args(["-TERM", &pid.to_string()]).status()?;
    ensure!(status.success(), "kill -TERM {pid}: {status}");
    Ok(())
}

/// A server that ends with this, whatever happens.
struct Server(Child);

impl Server {
    /// The process that serves: the child of timeout(1), or of the command in between.
    fn pid(&self, behind: bool) -> anyhow::Result<u32> {
        let below = child(self.0.id())?;
        if behind { child(below) } else { Ok(below) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The child of a process that has one.
fn child(pid: u32) -> anyhow::Result<u32> {
    let mut all = Vec::new();
    for task in Path::new(&format!("/proc/{pid}/task")).read_dir()?.flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(text.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    match all.as_slice() {
        [one] => Ok(*one),
        _ => bail!("process {pid} has {} children, where one is expected", all.len()),
    }
}
