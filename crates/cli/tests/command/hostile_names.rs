//! Names that other users choose, of a living process and of the machine: they control no terminal and no spreadsheet.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual_record::Run;
use punctual_record::sanitize::is_harmless;
use punctual_testing::{Lack, eventually, lacks, needs_root, skip};

use crate::support::{Left, punctual, run};

/// Names of threads, of at most 15 bytes.
const THREADS: [&str; 6] =
    ["\u{1b}[31mred\u{7}", "\u{9b}2J\u{7f}", "\u{202e}gpj", "=cmd|x", "\t@SUM(1)", "a\"b\n,c;-1"];
/// A name of a file, a control group and a machine.
const NAME: &str = "=\u{1b}[31m\u{9b}2J\u{202e}x";

fn assert_harmless(what: &str, text: &str) {
    let bad = text.replace("\r\n", "\n").chars().find(|c| !matches!(c, '\n' | '\t') && !is_harmless(*c));
    assert_eq!(bad, None, "{what}: {text:?}");
}

/// What the command printed, and the files of the folder.
fn assert_all_harmless(left: &Left, folder: &Path) {
    assert_harmless("stdout", &left.stdout);
    assert_harmless("stderr", &left.stderr);
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        assert_harmless(&format!("{path:?}"), &std::fs::read_to_string(path).unwrap());
    }
}

/// Runs the closure while threads with these names sleep again and again.
fn beside_sleepers<T>(during: impl FnOnce() -> T) -> T {
    let over = Arc::new(AtomicBool::new(false));
    let start = |name: &str| {
        let over = Arc::clone(&over);
        let sleep = move || {
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        std::thread::Builder::new().name(name.into()).spawn(sleep).unwrap()
    };
    let threads = THREADS.map(start);
    let done = during();
    over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    done
}

/// The causes of this process's late threads in all forms, once all names are among them; none without events.
fn watched(folder: &Path) -> Option<Run> {
    let place = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (pid, json) = (std::process::id().to_string(), place("run.json"));
    let (csv, html, trace) = (place("run.csv"), place("run.html"), place("trace.json"));
    let files = ["--json", &json, "--csv", &csv, "--html", &html, "--trace", &trace];
    let args = [&["why", "--pid", &pid, "--duration", "300ms", "--no-keep", "--full"], &files[..]].concat();
    beside_sleepers(|| {
        eventually("each thread wakes up while it is watched", || {
            let left = run(&args);
            assert_all_harmless(&left, folder);
            if left.stderr.contains("the kernel's events are refused") {
                lacks(Lack::Events);
                return Some(None);
            }
            assert_eq!(left.code, Some(0), "{}", left.stderr);
            let run = Run::from_slice(&std::fs::read(&json).unwrap()).unwrap();
            let calls = &run.causes.as_ref().unwrap().calls;
            let all = THREADS.iter().all(|name| calls.iter().any(|call| call.thread == *name));
            all.then_some(Some(run))
        })
    })
}

#[test]
fn threads_of_a_living_process_are_harmless_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let Some(watched) = watched(folder.path()) else { return };
    let json = folder.path().join("run.json");
    for form in ["--text", "--html", "--markdown", "--csv", "--openmetrics", "--json"] {
        let left = run(&["report", json.to_str().unwrap(), form]);
        assert_eq!(left.code, Some(0), "{form}: {}", left.stderr);
        assert_harmless(form, &left.stdout);
        match form {
            "--json" => assert_eq!(Run::from_slice(left.stdout.as_bytes()).unwrap(), watched),
            "--csv" => {
                for cell in ["\n'=cmd|x,", "\n '@SUM(1),", "\n\"a\"\"b ,c;'-1\","] {
                    assert!(left.stdout.contains(cell), "{cell:?}: {}", left.stdout);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn a_program_and_its_files_are_harmless() {
    let (folder, outputs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = folder.path().join(NAME);
    std::os::unix::fs::symlink("/bin/true", &program).unwrap();
    let [program, json] = [program, outputs.path().join(NAME)].map(|path| path.to_str().unwrap().to_owned());
    let left = run(&["why", "--no-keep", "--json", &json, "--", &program, NAME]);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert_all_harmless(&left, outputs.path());
    assert!(Run::from_slice(&std::fs::read(&json).unwrap()).unwrap().command.iter().any(|word| word == NAME));
    for form in ["--text", "--markdown", "--csv", "--openmetrics", "--json"] {
        assert_harmless(form, &run(&["report", &json, form]).stdout);
    }
    let absent = format!("{program}.absent");
    for args in
        [&["report", &absent][..], &["run", "--rules", &absent, "--", "true"], &["wait", NAME], &["run", "--", &absent]]
    {
        let left = run(args);
        assert!(left.code != Some(0) && !left.stderr.is_empty(), "{args:?}");
        assert_harmless("stderr", &left.stderr);
    }
}

/// A control group of this name, which ends with the value; none where there are none.
struct Group(std::path::PathBuf);

impl Group {
    fn new() -> Option<Self> {
        let roots = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
        let made = |root: &&str| {
            let group = Path::new(root).join(format!("{NAME}{}", std::process::id()));
            (Path::new(root).join("cgroup.procs").exists() && std::fs::create_dir(&group).is_ok()).then_some(group)
        };
        roots.iter().find_map(made).map(Self)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        drop(std::fs::remove_dir(&self.0));
    }
}

#[test]
fn a_machine_and_a_control_group_are_harmless() {
    if !needs_root("a host name") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let group = Group::new();
    if group.is_none() {
        skip("a tree of control groups in which groups can be made");
    }
    let joined = group.as_ref().map_or("/dev/null".into(), |group| group.0.join("cgroup.procs"));
    let script = "printf %s \"$1\" > /proc/sys/kernel/hostname && echo $$ > \"$2\" && shift 2 && exec \"$@\"";
    let measure = ["wait", "nanosleep", "--samples", "20", "--rounds", "2", "--why", "--no-keep"];
    let (json, csv, html) = (place("run.json"), place("run.csv"), place("run.html"));
    let command = punctual(&[&measure[..], &["--json", &json, "--csv", &csv, "--html", &html]].concat());
    let mut outer = Command::new("unshare");
    outer.args(["--uts", "sh", "-c", script, "sh", NAME]).arg(joined);
    outer.arg(command.get_program()).args(command.get_args());
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let left: Left = outer.output().expect("unshare starts").into();
    if left.stderr.contains("the kernel's events are refused") {
        return lacks(Lack::Events);
    }
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert_all_harmless(&left, folder.path());
    assert_harmless("--openmetrics", &run(&["report", &json, "--openmetrics"]).stdout);
}
