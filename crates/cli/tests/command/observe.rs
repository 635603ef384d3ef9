//! `punctual run --observe` counts the waits of a program and reports them as `why` does.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use punctual_record::experiment::calls::{Metrics, Parameters};
use punctual_record::{Quantity, Run, Series};
use punctual_testing::{Disturbed, undisturbed};
use rustix::process::{Pid, Signal, kill_process};

use crate::preload::installed;

/// The command with its library, a program with known waits, and a folder for the table.
struct Place {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    /// `None` where there is no compiler.
    fn make() -> Option<Self> {
        let folder = installed(true);
        let program = folder.path().join("waits");
        if let Err(error) = compile(&program, &[]) {
            punctual_testing::skip(&format!("cc: {error}"));
            return None;
        }
        std::fs::create_dir(folder.path().join("runtime")).unwrap();
        Some(Self { folder, program })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn punctual(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.file("bin/punctual"));
        command.args(arguments).env_remove("LD_PRELOAD").env("XDG_RUNTIME_DIR", self.file("runtime"));
        command.env("XDG_STATE_HOME", self.folder.path()).env("NO_COLOR", "1");
        command
    }

    /// Observes the program in this way, and writes `run.json`.
    fn observing(&self, more: &[&str], way: &str) -> Command {
        let json = self.file("run.json");
        let program =
            [&["--json", json.to_str().unwrap(), "--", self.program.to_str().unwrap(), way], &[][..]].concat();
        self.punctual(&[&["run", "--observe"], more, &program].concat())
    }

    fn observe(&self, more: &[&str], way: &str) -> (Output, Run) {
        let output = self.observing(more, way).output().unwrap();
        (output, self.run())
    }

    fn run(&self) -> Run {
        Run::from_json(std::fs::File::open(self.file("run.json")).unwrap()).unwrap()
    }

    /// Files in the folder for the table.
    fn tables(&self) -> usize {
        self.file("runtime").read_dir().unwrap().count()
    }
}

/// Compiles the program of the library's own tests.
fn compile(program: &Path, options: &[&str]) -> std::io::Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload/tests/all/waits.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-w", "-pthread"]).args(options).arg("-o").arg(program).arg(source);
    assert!(compiler.status()?.success(), "cc failed");
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Quantity, parameters, metrics of the series of a call.
fn calls_of<'a>(run: &'a Run, call: &str) -> Vec<(Quantity, &'a Parameters, &'a Metrics, &'a Series)> {
    let typed = |series: &'a Series| {
        let calls = series.experiment.calls().unwrap();
        (series.quantity, &calls.parameters, &calls.metrics, series)
    };
    run.series.iter().filter(|series| series.subject == call).map(typed).collect()
}

#[test]
fn the_record_has_every_wait_by_function_and_nothing_stays() {
    let Some(place) = Place::make() else { return };
    let (output, run) = place.observe(&[], "");
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "done\n".into()), "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("usleep waits:sleeps 20 2.00 ms"), "{said}");
    // Which site loses most by lateness depends on what else ran.
    let late = run.series.iter().filter(|series| series.quantity == Quantity::Lateness);
    let latest = late.max_by_key(|series| series.experiment.calls().unwrap().metrics.late_total_ns).unwrap();
    let site = &latest.experiment.calls().unwrap().parameters.site;
    assert!(words.contains(&format!("{} in {site} is ", latest.subject)), "{said}");
    let sleeps = calls_of(&run, "usleep");
    let (quantity, parameters, metrics, series) = sleeps[0];
    assert_eq!((sleeps.len(), quantity, series.summary.count), (1, Quantity::Lateness, 20));
    assert_eq!((parameters.program.as_str(), parameters.site.as_str()), ("waits", "waits:sleeps"));
    assert_eq!((metrics.calls, metrics.expired, metrics.asked_p50_ns), (Some(20), Some(20), Some(2_000_000)));
    assert!(series.cpu_ns_per_op.is_some() && !series.rounds.is_empty());
    let polls = calls_of(&run, "poll");
    let quantities: Vec<Quantity> = polls.iter().map(|poll| poll.0).collect();
    assert_eq!(quantities, [Quantity::Lateness, Quantity::Away, Quantity::CallCost]);
    let metrics = polls[0].2;
    assert_eq!(
        (metrics.calls, metrics.nothing, metrics.events, metrics.expired),
        (Some(148), Some(130), Some(13), Some(5))
    );
    assert_eq!(calls_of(&run, "sched_yield")[0].2.calls, Some(200));
    assert_eq!((run.subcommand.as_str(), run.conditions.len(), place.tables()), ("run", 1, 0));
    let json = place.file("run.json");
    let metrics = place.punctual(&["report", json.to_str().unwrap(), "--openmetrics"]).output().unwrap();
    let metrics = text(&metrics.stdout);
    assert!(metrics.contains("program=\"waits\",site=\"waits:sleeps\",statistic=\"p50\""), "{metrics}");
}

/// Segments of a program at fixed addresses need not follow each other.
#[test]
fn functions_are_found_at_fixed_addresses_and_not_without_symbols() {
    let Some(mut place) = Place::make() else { return };
    place.program = place.file("fixed");
    for (options, named) in
        [(&["-no-pie", "-Wl,-Ttext-segment=0x4000000"][..], true), (&["-no-pie", "-s"], false), (&["-s"], false)]
    {
        compile(&place.program, options).unwrap();
        let run = place.observe(&[], "").1;
        let site = &calls_of(&run, "usleep")[0].1.site;
        assert_eq!(site == "fixed:sleeps", named, "{options:?}: {site}");
        assert!(site.starts_with(if named { "fixed:" } else { "fixed+0x" }), "{options:?}: {site}");
    }
}

#[test]
fn a_killed_program_leaves_its_counts_and_its_status() {
    let Some(place) = Place::make() else { return };
    for (way, code, calls) in [("kill", 137, 20), ("_exit", 3, 20), ("fork", 0, 80)] {
        let (output, run) = place.observe(&[], way);
        assert_eq!(output.status.code(), Some(code), "{way}");
        assert_eq!(calls_of(&run, "usleep")[0].2.calls, Some(calls), "{way}");
    }
    assert_eq!(place.tables(), 0);
}

#[test]
fn limits_decide_where_the_program_succeeds() {
    let Some(place) = Place::make() else { return };
    let observe = |limit: &str, way: &str| place.observe(&["--fail-above", limit], way).0;
    for (limit, way, code, word) in [
        ("min of usleep > 1ns", "", 3, "FAIL"),
        ("min of usleep > 100s", "", 0, "PASS"),
        ("min of usleep > 1ns", "_exit", 3, "FAIL"),
        ("p99 of usleep > 100s", "", 4, "UNDECIDED"),
        ("min > 1ns", "kill", 137, "FAIL"),
    ] {
        let output = observe(limit, way);
        assert_eq!(output.status.code(), Some(code), "{limit} {way}: {}", text(&output.stderr));
        assert!(text(&output.stderr).starts_with(word), "{limit}: {}", text(&output.stderr));
    }
}

#[test]
fn two_records_are_compared_by_call_site() {
    let Some(place) = Place::make() else { return };
    let [old, new] = ["old.json", "new.json"].map(|name| place.file(name));
    for (file, more) in [(&old, &[][..]), (&new, &["--precise-sleep"][..])] {
        undisturbed(|_| {
            let (output, run) = place.observe(more, "long");
            assert!(output.status.success(), "{output:?}");
            // A round is a reading every 25 ms.
            let rounds = run.series[0].rounds.len();
            if rounds >= 5 { Ok(()) } else { Err(Disturbed(format!("{rounds} rounds in 600 ms"))) }
        });
        std::fs::rename(place.file("run.json"), file).unwrap();
    }
    let files = [old.to_str().unwrap(), new.to_str().unwrap()];
    // Another program may have changed the DMA latency of the machine between the two.
    let how = ["--across-conditions", "--format", "json"];
    let output = place.punctual(&[&["compare"], &files[..], &how].concat()).output().unwrap();
    let compared: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let series = &compared["series"][0];
    assert!(series.is_object(), "{compared}");
    assert_eq!((&series["subject"], &series["parameters"]["site"]), (&"usleep".into(), &"waits:sleeps".into()));
    let verdicts: Vec<&str> = (0..3).map(|n| series["figures"][n]["verdict"].as_str().unwrap()).collect();
    assert!(verdicts[0] != "not_comparable" && verdicts[2] != "not_comparable", "p50 and CPU time: {verdicts:?}");
    assert!(compared["unmatched"].as_array().unwrap().is_empty(), "{compared}");
}

#[test]
fn a_program_that_cannot_be_seen_is_said_to_be() {
    let Some(place) = Place::make() else { return };
    let (output, run) = place.observe(&[], "sites");
    assert!(output.status.success() && !run.series.is_empty());
    let json = place.file("run.json");
    let json = json.to_str().unwrap();
    let output = place.punctual(&["run", "--observe", "--json", json, "--", "true"]).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("true makes no wait through the C library"), "{said}");
    assert!(place.run().not_measured[0].remedy.as_ref().unwrap().to_string().contains("punctual why"));
    let source = place.file("static.c");
    std::fs::write(&source, "int main(void) { return 6; }").unwrap();
    let program = place.file("static");
    let compiled = Command::new("cc").arg("-static").arg("-o").arg(&program).arg(&source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return punctual_testing::skip("cc -static; Debian: apt-get install gcc libc6-dev");
    }
    let output = place.punctual(&["run", "--observe", "--", program.to_str().unwrap()]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(6));
    assert!(
        said.contains("is linked statically") && said.contains("its waits are not counted: punctual why"),
        "{said}"
    );
    let reason = "Nothing was measured: ";
    assert!(said.contains(reason) && !said.contains("no process of static loaded the library"), "{said}");
}

#[test]
fn what_cannot_be_is_refused_before_the_program_runs() {
    let Some(place) = Place::make() else { return };
    for (arguments, word) in [
        (&["--observe", "--json", "-"][..], "stdout belongs to the program"),
        (&["--observe", "--json", "/nowhere/run.json"], "--json"),
        (&["--observe", "--fail-if", "p99 of usleeep > 1us"], "usleep"),
        (&["--observe", "--fail-if", "p99"], "example"),
        (&["--json", "run.json"], "--observe"),
    ] {
        let output = place.punctual(&[&["run"], arguments, &["--", "sh", "-c", "echo ran"]].concat()).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &[][..]), "{output:?}");
        assert!(text(&output.stderr).contains(word), "{output:?}");
    }
    let output = place.punctual(&["run", "--observe", "--dry-run", "--", "true"]).output().unwrap();
    assert!(text(&output.stdout).contains("with PUNCTUAL_OBSERVE="), "{output:?}");
    assert_eq!(place.tables(), 0);
}

/// Waits until the program says that it is ready.
fn ready(child: &mut Child) {
    let mut said = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_signal_and_sigkill_leave_no_table() {
    let Some(place) = Place::make() else { return };
    let mut child = place.observing(&[], "hang").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    ready(&mut child);
    assert_eq!(place.tables(), 1);
    send(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15), "as the program");
    assert_eq!((place.tables(), calls_of(&place.run(), "usleep")[0].2.calls), (0, Some(20)));
    let mut child = place.observing(&[], "hang").stdout(Stdio::piped()).spawn().unwrap();
    ready(&mut child);
    let program = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap_or_default();
    send(&child, Signal::KILL);
    child.wait().unwrap();
    assert_eq!(place.tables(), 1, "nobody was left to remove it");
    place.observe(&[], "");
    assert_eq!(place.tables(), 0, "the next run did");
    for pid in program.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[test]
fn a_program_runs_where_no_table_can_be_made() {
    let Some(place) = Place::make() else { return };
    let mut command = place.observing(&[], "_exit");
    // Neither of these takes a file; /dev/shm is tried between them.
    command.env("XDG_RUNTIME_DIR", "/proc").env("TMPDIR", "/proc");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(calls_of(&place.run(), "usleep")[0].2.calls, Some(20), "in /dev/shm");
}
