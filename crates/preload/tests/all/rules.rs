//! A file of rules: for callers, for threads.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{compiled, compiled_with, library};

/// The program of rules.c, and its library.
struct Program {
    folder: tempfile::TempDir,
    program: PathBuf,
    library: PathBuf,
}

impl Program {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let program = compiled("rules.c", folder.path())?;
        let library = compiled_with("library.c", folder.path(), &["-shared", "-fPIC"])?;
        Some(Self { folder, program, library })
    }

    /// What it prints with these settings and rules.
    fn says(&self, settings: &str, rules: &str) -> String {
        let file = self.folder.path().join("rules, of a test");
        std::fs::write(&file, rules).unwrap();
        let settings = format!("{settings}rules={}", file.display());
        let mut command = Command::new(&self.program);
        command.arg(&self.library).env("LD_PRELOAD", library()).env("PUNCTUAL_PRELOAD", settings);
        let output = command.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{rules}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The names of the loops that slept.
    fn slept(&self, settings: &str, rules: &str) -> Vec<String> {
        let said = self.says(settings, rules);
        said.lines().filter_map(|line| line.strip_suffix(": slept")).map(str::to_owned).collect()
    }
}

const ALL: [&str; 6] = ["first", "second", "hidden", "library", "thread", "thread renamed"];

#[test]
fn rules_hold_for_the_places_that_they_name() {
    let Some(program) = Program::new() else { return };
    assert_eq!(program.slept("", ""), [""; 0]);
    assert_eq!(program.slept("", "* sched-yield=sleep"), ALL);
    assert_eq!(program.slept("", "site=rules:first_loop sched-yield=sleep"), ["first", "thread", "thread renamed"]);
    assert_eq!(program.slept("", "site=rules:hid*_loop sched-yield=sleep"), ["hidden"], "a static function");
    assert_eq!(program.slept("", "library=library sched-yield=sleep"), ["library"], "loaded by dlopen");
    assert_eq!(program.slept("", "site=*:library_loop sched-yield=sleep"), ["library"]);
    assert_eq!(program.slept("", "site=library:first_loop sched-yield=sleep"), [""; 0], "of another file");
    let later = "* sched-yield=sleep\nlibrary=rules sched-yield=keep\nsite=rules:second_loop sched-yield=sleep";
    assert_eq!(program.slept("", later), ["second", "library"], "a later rule wins");
    assert_eq!(
        program.slept("sched-yield=sleep,", "library=rules sched-yield=keep"),
        ["library"],
        "over the flags too"
    );
}

#[test]
fn rules_hold_for_the_threads_that_they_name() {
    let Some(program) = Program::new() else { return };
    assert_eq!(program.slept("", "thread=audio* sched-yield=sleep"), ["thread"]);
    assert_eq!(program.slept("", "thread=idle sched-yield=sleep"), ["thread renamed"]);
    assert_eq!(program.slept("", "thread=audio* library=library sched-yield=sleep"), [""; 0], "both must hold");
    assert_eq!(program.slept("", "thread=audio* site=rules:first* sched-yield=sleep"), ["thread"]);
}

#[test]
fn a_bad_file_leaves_every_call_as_it_is() {
    let Some(program) = Program::new() else { return };
    assert_eq!(program.slept("sched-yield=sleep,", "* usleep0=never"), [""; 0]);
}

#[test]
fn threads_are_scheduled_by_their_names_and_put_back() {
    let Some(program) = Program::new() else { return };
    let bare = program.says("", "");
    let before = bare.lines().find_map(|line| line.strip_prefix("before: ")).unwrap().to_owned();
    let cpu = punctual_testing::first_cpu();
    let rules = format!("thread=audio* timer-slack=7us policy=batch cpu={cpu}\nthread=audio-2 policy=idle");
    let said = program.says("", &rules);
    let at = |when: &str| said.lines().find_map(|line| line.strip_prefix(&format!("{when}: "))).unwrap().to_owned();
    for when in ["before", "renamed", "its child, renamed"] {
        assert_eq!(at(when), before, "{when}: {said}");
    }
    for when in ["named", "its child"] {
        assert_eq!(at(when), "policy 3 cpus 1 slack 7000", "{when}: {said}");
    }
    assert_eq!(at("named by another"), "policy 5 cpus 1 slack 7000");
    let precise = program.says("", "thread=audio* precise-sleep");
    assert!(precise.contains("named: ") && precise.contains(" slack 1\n"), "{precise}");
}

#[test]
fn a_real_time_thread_is_limited_and_its_children_are_not_real_time() {
    let Some(program) = Program::new() else { return };
    let said = program.says("", "thread=audio-1 policy=rr:1");
    if !said.contains("named: policy 2 ") {
        return punctual_testing::skip("real-time policies are refused");
    }
    for when in ["its child, renamed", "renamed"] {
        let before = said.lines().find_map(|line| line.strip_prefix("before: ")).unwrap();
        assert!(said.contains(&format!("\n{when}: {before}\n")), "{said}");
    }
    assert!(said.contains("limit 2000000\n"), "{said}");
    assert!(program.says("", "thread=nobody policy=rr:1").contains("limit -1\n"), "nothing is limited unasked");
}
