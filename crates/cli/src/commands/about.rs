//! `punctual about`: the parts of this installation, what this kernel has, and what this user may do.
//! And the list of `--list-conditions`.

use std::path::Path;

use punctual::conditions::{CONDITIONS, Condition, Scope};
use punctual_record::Host;
use punctual_record::remedy::{self, Takes, switch_of};
use punctual_report::export::text::list::ListRow;
use punctual_trace::{Level, Room, Target, Watch};
use rustix::process::{Resource, geteuid, getrlimit};

use super::measure::Perform;
use super::{measure, preload};
use crate::exit::Exit;
use crate::privileges;
use crate::terminal::{self, Color};

/// `about`, which has no arguments.
pub(crate) struct About;

impl Perform for About {
    /// Prints everything.
    fn perform(&self) -> anyhow::Result<Exit> {
        terminal::print(&format!(
            "punctual {}\n  build    {}\n  command  {}\n  kernel   {}\n  user     {}\n\n",
            env!("CARGO_PKG_VERSION"),
            build(),
            std::env::current_exe().map_or_else(|error| format!("unknown: {error}"), |path| terminal::shown(&path)),
            kernel(),
            user(),
        ))?;
        let parts = [preload::WAITS, preload::MPI].map(|part| library(&part));
        measure::list(parts.into_iter().chain([events()]).chain(CONDITIONS.iter().map(condition_row)), Color::Auto)
    }
}

/// `x86_64, glibc, release`.
fn build() -> String {
    let library = match (cfg!(target_env = "musl"), cfg!(target_feature = "crt-static")) {
        (true, true) => "musl, static: it is one file, and has no libraries",
        (true, false) => "musl",
        (false, _) => "glibc",
    };
    let kind = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!("{}, {kind}, {library}", std::env::consts::ARCH)
}

fn kernel() -> String {
    let host = Host::read(Path::new("/"));
    let known = |fact: Option<String>| fact.map_or_else(|| "unknown".to_owned(), |path| terminal::shown(&path));
    format!("Linux {}, {} preemption", known(host.kernel), known(host.preemption))
}

/// The privileges: `1000, CAP_SYS_NICE by the file of the command; real-time priority limit 0, ...`.
fn user() -> String {
    let held = privileges::held();
    let capabilities = if held.is_empty() { "no capability that helps".to_owned() } else { held.join(", ") };
    let from = if punctual_linux::inherited::gained_privileges() {
        " by the file of the command: other users' processes are refused"
    } else {
        ""
    };
    let limit = |resource| match getrlimit(resource).current {
        None => "unlimited".to_owned(),
        Some(limit) => limit.to_string(),
    };
    let (priority, nice, locked) = (limit(Resource::Rtprio), limit(Resource::Nice), limit(Resource::Memlock));
    format!(
        "{}, {capabilities}{from}; limits: rtprio {priority}, nice {nice}, memlock {locked} bytes",
        geteuid().as_raw()
    )
}

fn library(part: &preload::Part) -> ListRow {
    let found = preload::find(part);
    let place = found.as_ref().map_or_else(|_| String::new(), |place| format!(": {}", place.display()));
    row(part.file, format!("{}{place}", part.serves), "libraries that run loads into programs", found.err())
}

/// Whether the kernel shows its events to this user.
fn events() -> ListRow {
    let own = Target { tids: vec![punctual_linux::sched::current_thread_id()], with_children: false };
    let refused = Watch::open(&own, Level::Core, Room::Large).err();
    let why = refused.map(|error| match error.remedy() {
        Some(remedy) => format!("{error}; {remedy}"),
        None => error.to_string(),
    });
    row("single wake-ups", "Causes: why, --why, --trace".into(), "the kernel's events", why)
}

fn row(name: &str, about: String, kind: &str, unavailable: Option<String>) -> ListRow {
    ListRow { name: name.to_owned(), about, kind: kind.to_owned(), unavailable, ..ListRow::default() }
}

/// Shows each condition, its value, and whether it can be had here.
pub(crate) fn list_conditions() -> anyhow::Result<Exit> {
    measure::list(CONDITIONS.iter().map(condition_row), Color::Auto)
}

fn condition_row(&condition: &Condition) -> ListRow {
    let switch = switch_of(condition);
    let name = match switch.takes {
        Takes::Nothing => format!("--{condition}"),
        Takes::Value(value) | Takes::Values(value) => format!("--{condition} {value}"),
        Takes::OptionalValue(name, _) => format!("--{condition}[={name}]"),
    };
    let kind = match condition.scope() {
        Scope::Thread => "of the thread",
        Scope::Process => "of the process",
        Scope::Machine => "of the machine",
    };
    ListRow {
        name,
        about: switch.help.into(),
        kind: kind.into(),
        unavailable: condition.available().err().map(|no| format!("{}; {}", no.why, remedy::of_refused(&no))),
        ..ListRow::default()
    }
}
