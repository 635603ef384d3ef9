//! `punctual run`.

mod args;
mod observe;
mod remedies;

use std::ffi::OsStr;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use punctual::Policy;
use punctual::conditions::{Applied, Condition, Conditions, Refused, Scope, Value};
use punctual_lab::Silent;
use punctual_linux::sched::{self, Attributes, RESET_ON_FORK};
use punctual_linux::supervise::{Ended, SETUP_FAILED, Settings, Supervised};
use punctual_record::remedy::{self, phrase};
use punctual_record::sanitize;
use punctual_record::{Experiment, Limit, Quantity};

use super::measure::{Perform, Planned};
use crate::args::{check, definition};
use crate::exit::Exit;
use crate::refusal::{self, BadUsage};
use crate::terminal;
use args::Libraries;
pub(crate) use args::RunArgs;
use observe::Observation;

/// Most characters of an argument shown by `--dry-run`.
const LONGEST_WORD: usize = 1000;
/// Exit statuses of a shell: program not found, program not executable.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

impl Perform for RunArgs {
    /// Applies the conditions, runs the program and restores them.
    fn perform(&self) -> anyhow::Result<Exit> {
        let program = self.program.first().and_then(|word| word.to_str());
        refusal::explanation::check_program(program.unwrap_or_default(), definition())?;
        let asked = self.conditions.all();
        check(&asked)?;
        let scheduling = remedies::scheduling_of(self.remedies.rules.as_deref())?;
        let libraries = match Libraries::find(self) {
            Ok(libraries) => libraries,
            Err(missing) => return Ok(refuse(missing)),
        };
        if self.no_inherit && libraries.is_empty() {
            let text = "invalid --no-inherit: no library is loaded that a program could inherit (example: --precise-sleep --no-inherit)";
            return Err(BadUsage(text.into()).into());
        }
        if self.dry_run {
            terminal::print(&plan(self, &asked, &libraries))?;
            return Ok(Exit::Done);
        }
        let hidden = libraries.trouble(self);
        if let (Some(why), true) = (&hidden, self.conditions.require) {
            return Ok(refuse(why));
        }
        let notices = hidden.into_iter().chain(args::notice_of_filter(self).filter(|_| libraries.hidden().is_none()));
        notices.filter(|_| !self.quiet).for_each(|notice| terminal::complain(&notice));
        let mut silent = Silent;
        let (mut observation, unobserved) = observe::prepare(self, &mut silent)?;
        let mut troubles = Troubles::default();
        troubles.0.extend(unobserved);
        // No program inherits these two from the thread that starts it.
        let Applied { mut guard, refused } =
            asked.clone().without(Condition::POLICY).without(Condition::LOCK_MEMORY).apply();
        guard.notes().iter().for_each(|note| terminal::complain(note));
        troubles.add(&refused);
        let may_lock_memory = asked.get_lock_memory().is_some();
        let settings = Settings { attributes: policy(asked.get_policy(), &mut troubles), may_lock_memory };
        if may_lock_memory {
            troubles.0.extend(lock_memory());
        }
        let loaded = libraries.loaded(self, observation.as_ref().map(Observation::path));
        troubles.0.extend(remedies::troubles(&scheduling));
        if troubles.forbid_it(self) {
            return Ok(Exit::Failed);
        }
        observation
            .iter_mut()
            .for_each(|observation| observation.under(&asked, &refused, settings.attributes.is_some()));
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]);
        loaded.iter().for_each(|library| library.load_into(&mut command));
        let (exit, watching) = match Supervised::spawn(command, settings, None) {
            Ok(program) => {
                // The program has inherited the conditions of this thread. What could not be restored ends with this process.
                drop(guard.end(Scope::Thread));
                let watching = observation.map(Observation::watch);
                (status(&self.program[0], program.wait().context("waiting for the program")?), watching)
            }
            Err(error) => (not_run(&self.program[0], &error), None),
        };
        for left in guard.restore() {
            terminal::complain(&format!("{left}; {}", remedy::of_need(&left.needs)));
        }
        Ok(watching.map_or(exit, |watching| watching.end(self, exit, libraries.hidden())))
    }

    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        let quantities = [Quantity::Lateness, Quantity::Away, Quantity::CallCost];
        let names = (0..=u8::MAX).filter_map(punctual_linux::call_table::call_name);
        let calls = names.flat_map(|name| quantities.map(|quantity| (Experiment::CALLS, name.into(), quantity)));
        // Every function whose calls are counted, with every figure.
        self.observe.observe.then(|| (self.observe.fail_if.as_slice(), calls.collect()))
    }
}

/// The exit status where the program is not run for this reason.
fn refuse(why: impl fmt::Display) -> Exit {
    terminal::complain(&format!("error: {why}; the program is not run"));
    Exit::Program(SETUP_FAILED)
}

/// The exit status of a program that ended.
pub(super) fn status(program: &OsStr, ended: Ended) -> Exit {
    match ended {
        Ended::Exited(status) => Exit::Program(status),
        Ended::Signalled(signal) => Exit::Signal(signal),
        Ended::Unknown => {
            terminal::complain(&format!("error: {} ended; its exit status is unknown", program.to_string_lossy()));
            Exit::Failed
        }
    }
}

/// The exit status of a shell for a program that could not be executed.
pub(super) fn not_run(program: &OsStr, error: &std::io::Error) -> Exit {
    terminal::complain(&format!("{}: {error}", program.to_string_lossy()));
    Exit::Program(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// The refused conditions, as messages.
#[derive(Default)]
struct Troubles(Vec<String>);

impl Troubles {
    fn add(&mut self, refused: &[Refused]) {
        self.0.extend(refused.iter().map(|refused| format!("{refused}; {}", remedy::of_refused(refused))));
    }

    /// Prints them. True if the program must not run with them.
    fn forbid_it(&self, args: &RunArgs) -> bool {
        let is_required = args.conditions.require;
        self.0.iter().filter(|_| is_required || !args.quiet).for_each(|trouble| terminal::complain(trouble));
        let forbidden = is_required && !self.0.is_empty();
        if forbidden {
            terminal::complain("error: a condition was refused; with --require the program is not run");
        }
        forbidden
    }
}

/// Tries the policy on this thread and returns the attributes for the program. The program's process sets them itself: conditions of
/// this thread carry SCHED_RESET_ON_FORK, so a child starts under SCHED_OTHER.
fn policy(policy: Option<Policy>, troubles: &mut Troubles) -> Option<Attributes> {
    let policy = policy?;
    let Applied { guard: _guard, refused } = Conditions::new().policy(policy).allow_irreversible().apply();
    troubles.add(&refused);
    if !refused.is_empty() {
        return None;
    }
    let attributes = sched::attributes(0).ok()?;
    // A SCHED_DEADLINE thread can fork only with this flag (sched(7)); under other policies, children inherit the policy.
    let flags = match policy {
        Policy::Deadline { .. } => attributes.flags | RESET_ON_FORK,
        _ => attributes.flags & !RESET_ON_FORK,
    };
    Some(Attributes { flags, ..attributes })
}

/// Tries to lift the limit of locked memory. Returns the refusal, if any.
fn lock_memory() -> Option<String> {
    use rustix::process::{Resource, getrlimit};
    let unlimited = getrlimit(Resource::Memlock).maximum.is_none();
    let Applied { guard: _guard, refused } = Conditions::new().lock_memory().apply();
    let allowed = unlimited || refused.is_empty();
    let remedy = if rustix::process::geteuid().is_root() {
        "raise RLIMIT_MEMLOCK before the start (ulimit -l, LimitMEMLOCK= of a systemd service), or add CAP_SYS_RESOURCE, which this root lacks (see capsh --print)"
    } else {
        "raise RLIMIT_MEMLOCK (ulimit -l, limits.conf) or run as root"
    };
    (!allowed).then(|| format!("lock-memory: the program's limit of locked memory is unchanged; {remedy}"))
}

/// The steps of `--dry-run`, one per line.
fn plan(args: &RunArgs, asked: &Conditions, libraries: &Libraries) -> String {
    let now = Conditions::inspect();
    let mut lines: Vec<String> = asked.iter().map(|value| line(value, &now)).collect();
    let words: Vec<String> =
        args.program.iter().map(|word| sanitize::line(&word.to_string_lossy(), LONGEST_WORD)).collect();
    let observed = args.observe.observe.then_some(Path::new("FILE"));
    lines.extend(libraries.loaded(args, observed).iter().map(ToString::to_string));
    lines.extend(libraries.trouble(args).map(|why| format!("cannot change its waits: {why}")));
    lines.push(format!("run {}", words.join(" ")));
    lines.push("restore everything".into());
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The step for a condition. A condition of the machine is checked for availability; nothing is changed.
fn line(value: &Value, now: &Conditions) -> String {
    let (condition, name) = (value.condition(), phrase(value));
    match condition.scope() {
        Scope::Process => return "lift the program's limit of locked memory".into(),
        Scope::Machine => {
            if let Err(no) = condition.available() {
                return format!("cannot set {name}: {}; {}", no.why, remedy::of_refused(&no));
            }
        }
        Scope::Thread => {}
    }
    match now.value(condition) {
        Some(now) => format!("set {name} (now: {})", phrase(now)),
        None => format!("set {name}"),
    }
}
