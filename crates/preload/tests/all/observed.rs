//! Waits are counted by call site, whatever becomes of the program.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use punctual_linux::call_table::{self, Counted, ENTRIES, LOOKS, Totals, calls};

use crate::support::{compiled, library};

/// A file to count in, beside the program.
struct Observed {
    folder: tempfile::TempDir,
    program: PathBuf,
    file: File,
}

impl Observed {
    /// `None` where there is no compiler.
    fn prepare() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let program = compiled("waits.c", folder.path())?;
        let file = File::create_new(folder.path().join("table")).unwrap();
        call_table::format(&file).unwrap();
        let file = File::open(folder.path().join("table")).unwrap();
        Some(Self { folder, program, file })
    }

    fn command(&self, way: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(way).env("LD_PRELOAD", library()).env("PUNCTUAL_OBSERVE", self.folder.path().join("table"));
        command
    }

    fn run(&self, way: &str) -> (Output, Totals) {
        let output = self.command(way).output().unwrap();
        (output, self.totals())
    }

    fn totals(&self) -> Totals {
        call_table::read(&self.file).unwrap()
    }
}

/// The entries of a call.
fn entries_of(totals: &Totals, call: u8) -> Vec<&Counted> {
    totals.entries.iter().filter(|entry| entry.call & !LOOKS == call).collect()
}

/// Sleeps, and how many of them ended late.
fn sleeps(totals: &Totals) -> (u64, u64) {
    let all = entries_of(totals, calls::USLEEP);
    (all.iter().map(|counted| counted.calls).sum(), all.iter().map(|counted| counted.late.iter().sum::<u64>()).sum())
}

#[test]
fn every_call_is_counted_by_its_site_and_its_end() {
    let Some(observed) = Observed::prepare() else { return };
    let (output, totals) = observed.run("");
    assert_eq!(output.stdout, b"done\n");
    assert_eq!((totals.attached, totals.uncounted), (1, 0));
    let sleep = entries_of(&totals, calls::USLEEP);
    assert_eq!((sleep.len(), sleep[0].calls, sleep[0].ended), (1, 20, [0, 0, 20, 0]));
    assert_eq!(sleep[0].asked_extremes, Some((2_000_000, 2_000_000)));
    assert!(
        sleep[0].late_extremes.unwrap().0 < 1_000_000_000 && sleep[0].waited_ns >= 40_000_000,
        "{:?}",
        sleep[0].ended
    );
    assert_eq!(sleep[0].cpu_read, 3, "of calls 1, 9 and 17");
    assert_eq!(
        (sleep[0].program.as_slice(), Path::new(&text(&sleep[0].path))),
        (&b"waits"[..], observed.program.as_path())
    );
    let polls = entries_of(&totals, calls::POLL);
    let ended: Vec<[u64; 4]> = polls.iter().map(|counted| counted.ended).collect();
    assert_eq!(ended, [[130, 0, 0, 0], [0, 0, 5, 0], [0, 10, 0, 0], [0, 3, 0, 0]], "in the order of the calls");
    assert!(polls.iter().all(|counted| counted.path == sleep[0].path && counted.offset != sleep[0].offset));
    assert_eq!(polls[3].asked_extremes, Some((1_000_000, 1_000_000)));
    let yields = entries_of(&totals, calls::SCHED_YIELD);
    assert_eq!((yields.len(), yields[0].calls, yields[0].let_run_read, yields[0].cpu_read), (1, 200, 4, 4));
    assert!(yields[0].cpu_ns > 0 && polls[3].cpu_ns > 0, "{} {}", yields[0].cpu_ns, polls[3].cpu_ns);
}

#[test]
fn a_select_is_a_look_where_its_limit_is_zero() {
    let Some(observed) = Observed::prepare() else { return };
    let (_, totals) = observed.run("selects");
    let seen: Vec<_> = entries_of(&totals, calls::SELECT)
        .into_iter()
        .map(|entry| (entry.call & LOOKS != 0, entry.calls, entry.asked_extremes.filter(|asked| asked.1 > 0)))
        .collect();
    let waits = (false, 3, Some((1_000_000, 1_000_000)));
    assert!(seen.len() == 2 && seen.contains(&waits) && seen.contains(&(true, 2, None)), "{seen:?}");
}

#[test]
fn a_mutex_of_c11_is_found_free_or_its_time_is_over() {
    let Some(observed) = Observed::prepare() else { return };
    let (_, totals) = observed.run("mutexes");
    let ended: Vec<_> = entries_of(&totals, calls::MTX_TIMEDLOCK).iter().map(|entry| entry.ended).collect();
    assert_eq!(ended, [[0, 1, 2, 0]]);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn calls_are_counted_whatever_becomes_of_the_program() {
    let Some(observed) = Observed::prepare() else { return };
    let mut slept = 0;
    // The child of vfork(2) has a call site of its own.
    for (way, code, sleeps, programs) in [
        ("_exit", Some(3), 20, 1),
        ("kill", None, 20, 1),
        ("exec", Some(0), 40, 2),
        ("fork", Some(0), 80, 1),
        ("vfork", Some(0), 21, 1),
    ] {
        let before = observed.totals().attached;
        let (output, totals) = observed.run(way);
        slept += sleeps;
        assert_eq!((output.status.code(), self::sleeps(&totals)), (code, (slept, slept)), "{way}");
        assert_eq!(totals.attached - before, programs, "{way}");
    }
    let names: Vec<String> =
        entries_of(&observed.totals(), calls::USLEEP).iter().map(|counted| text(&counted.program)).collect();
    assert_eq!(names.iter().filter(|name| *name == "waits").count(), 2, "sleeps() and the child of vfork: {names:?}");
}

#[test]
fn a_call_that_never_ends_has_begun() {
    let Some(observed) = Observed::prepare() else { return };
    let mut child = observed.command("hang").stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    while entries_of(&observed.totals(), calls::SLEEP).first().is_none_or(|counted| counted.calls == 0) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let totals = observed.totals();
    let sleep = entries_of(&totals, calls::SLEEP);
    assert_eq!((sleep[0].calls, sleep[0].ended, sleep[0].asked_extremes), (1, [0; 4], None));
}

#[test]
fn a_thousand_threads_lose_no_call() {
    let Some(observed) = Observed::prepare() else { return };
    let (output, totals) = observed.run("threads");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(sleeps(&totals), (1000, 1000));
}

#[test]
fn waits_by_number_are_counted_by_name() {
    let Some(observed) = Observed::prepare() else { return };
    let totals = observed.run("raw").1;
    let ended = |call| entries_of(&totals, call).iter().map(|counted| counted.ended).collect::<Vec<_>>();
    assert_eq!(ended(calls::NANOSLEEP), [[0, 0, 4, 0]]);
    assert_eq!(ended(calls::FUTEX), [[0, 0, 4, 0], [0, 1, 0, 0]], "a word that had changed is an event");
}

#[test]
fn timeouts_of_locks_are_late_on_the_clock_of_each() {
    let Some(observed) = Observed::prepare() else { return };
    let totals = observed.run("locks").1;
    for (call, ended) in [(calls::SEM_TIMEDWAIT, [0, 1, 3, 0]), (calls::COND_TIMEDWAIT, [0, 0, 5, 0])] {
        let all = entries_of(&totals, call);
        assert_eq!((all.len(), all[0].ended), (1, ended));
        let (least, most) = all[0].asked_extremes.unwrap();
        // The least is 0 where the time was over. That wait is late from its call on, not from long ago.
        assert!(least < 2_000_000 && (1_000_000..=2_000_000).contains(&most), "{least} {most}");
        // Long ago is 1970, on the clock of some. On a busy machine a wait may be late by seconds.
        assert!(all[0].late_extremes.unwrap().1 < 600_000_000_000, "{:?}", all[0].late_extremes);
    }
}

#[test]
fn a_full_table_counts_what_it_leaves_out() {
    let Some(observed) = Observed::prepare() else { return };
    let (output, totals) = observed.run("sites");
    assert!(output.status.success());
    let counted: u64 = totals.entries.iter().map(|counted| counted.calls).sum();
    assert_eq!((totals.entries.len(), counted + totals.uncounted), (ENTRIES, 768));
}

/// No file, another file, a file that nobody may open, no descriptor, no address space.
#[test]
fn a_program_that_cannot_map_the_table_runs_unobserved() {
    let Some(observed) = Observed::prepare() else { return };
    let other = observed.folder.path().join("other");
    std::fs::write(&other, "something else").unwrap();
    for path in [Path::new("/nowhere/table"), &other, observed.folder.path(), Path::new("")] {
        let output = observed.command("").env("PUNCTUAL_OBSERVE", path).output().unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.as_slice(), output.stderr.as_slice()),
            (Some(0), &b"done\n"[..], &[][..]),
            "{path:?}"
        );
    }
    // The least that the loader needs for the program and the library, and so not enough for the table too.
    let limited = |mb: u32| {
        let script = format!("ulimit -v {} && export LD_PRELOAD=\"$1\" && exec \"$0\"", mb * 1024);
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(&observed.program).arg(library());
        shell.env("PUNCTUAL_OBSERVE", observed.folder.path().join("table")).output().unwrap()
    };
    // Without room for the library, the loader says so.
    let runs = (4..400).step_by(4).map(limited).find(|output| output.stdout == b"done\n" && output.stderr.is_empty());
    assert!(runs.is_some_and(|output| output.status.success()));
    assert_eq!(observed.totals().attached, 0, "none of them counted");
}

#[test]
fn a_program_does_the_same_while_it_is_observed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("calls.c", folder.path()) else { return };
    let Some(observed) = Observed::prepare() else { return };
    let bare = Command::new(&program).output().unwrap();
    for settings in ["", "usleep0=yield,sched-yield=backoff,precise-sleep,poll-first=500us"] {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", library()).env("PUNCTUAL_PRELOAD", settings);
        let output = command.env("PUNCTUAL_OBSERVE", observed.folder.path().join("table")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&bare.stdout), "{settings}");
        assert_eq!((output.status, output.stderr.is_empty()), (bare.status, true), "{settings}");
    }
    assert!(observed.totals().entries.len() > 20);
}
