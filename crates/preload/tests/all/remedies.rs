//! Each remedy does what it says.

use std::path::Path;
use std::process::Command;

use punctual_testing::{Disturbed, undisturbed};

use crate::support::{compiled, library};

/// How often 2000 calls, or 500 of 1 ms, gave up the CPU. How many were late by 10 us or more, and how many of these did not give
/// it up.
fn counts(program: &Path, call: &str, settings: &str) -> [i64; 3] {
    let mut command = Command::new(program);
    command.arg(call).env("LD_PRELOAD", library()).env("PUNCTUAL_PRELOAD", settings);
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let counts: Vec<i64> = said.split_whitespace().map(|count| count.parse().unwrap()).collect();
    counts.try_into().unwrap()
}

fn switches(program: &Path, call: &str, settings: &str) -> i64 {
    counts(program, call, settings)[0]
}

#[test]
fn usleep0_yields_or_pauses_instead_of_sleeping() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("switches.c", folder.path()) else { return };
    // Since Linux 7.2 a sleep whose time is over does not sleep.
    let kept = switches(&program, "usleep0", "");
    for settings in ["usleep0=yield", "usleep0=pause"] {
        let with = switches(&program, "usleep0", settings);
        assert!(with < 1000 && (kept < 1900 || with < kept / 2), "{settings}: {with} of 2000 slept, {kept} without it");
    }
    if kept >= 1900 {
        undisturbed(|_| {
            let [sleeps, _, slow] = counts(&program, "usleep0", "usleep0=backoff");
            assert!(sleeps < 2000, "the first calls do not sleep");
            // A call that lost the CPU to others ends a loop without work. Here and after each of them, 256 calls do not sleep. It
            // may spoil two gaps between calls. A call that slept and lost the CPU after that is not counted as slow.
            if 2000 - sleeps <= 256 * (1 + 2 * slow) {
                Ok(())
            } else {
                Err(Disturbed(format!("after 256 calls it sleeps: {sleeps} of 2000, {slow} were slow")))
            }
        });
    }
}

#[test]
fn the_shortest_sleeps_give_up_the_cpu_where_sleeps_are_precise() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("switches.c", folder.path()) else { return };
    // Since Linux 7.2 they never do.
    let kept = switches(&program, "usleep0", "");
    let rules = folder.path().join("rules");
    let settings = format!("rules={}", rules.display());
    for rule in ["* precise-sleep", "thread=switches precise-sleep", "library=another precise-sleep"] {
        std::fs::write(&rules, rule).unwrap();
        let with = switches(&program, "usleep0", &settings);
        assert!(with * 10 >= kept * 9, "{rule}: {with} of 2000 slept, {kept} without it");
    }
    let yields = switches(&program, "yield", "precise-sleep,sched-yield=sleep");
    assert!(yields >= 1900, "{yields} of 2000 slept");
}

#[test]
fn a_yield_sleeps_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("switches.c", folder.path()) else { return };
    let kept = switches(&program, "yield", "");
    let with = switches(&program, "yield", "sched-yield=sleep");
    assert!(kept < 1000 && with >= 1900, "{kept} of 2000 gave up the CPU, {with} with sleeps");
    if !punctual_testing::needs_root("real-time priorities") {
        return;
    }
    // A sleep at such a priority has no slack.
    let mut command = Command::new("prlimit");
    command.args(["--rttime=2000000", "chrt", "--fifo", "1"]).arg(&program).arg("yield");
    command.env("LD_PRELOAD", library()).env("PUNCTUAL_PRELOAD", "sched-yield=sleep");
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let slept: i64 = said.split_whitespace().next().unwrap().parse().unwrap();
    assert!(slept >= 1900, "{slept} of 2000 slept at a real-time priority");
}

#[test]
fn precise_sleeps_and_timeouts_are_late_less_often() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("switches.c", folder.path()) else { return };
    for call in ["usleep1000", "until", "poll", "select", "sem"] {
        undisturbed(|_| {
            let [_, kept, _] = counts(&program, call, "");
            let [slept, with, _] = counts(&program, call, "precise-sleep");
            // A sleep that is not shortened is late by its slack of 50 us: all of them. One that is shortened still gives up the CPU.
            if with * 2 < kept && slept * 2 > 500 {
                Ok(())
            } else {
                Err(Disturbed(format!(
                    "{call}: {kept} of 500 late by 10 us, {with} with the library, where {slept} slept"
                )))
            }
        });
    }
}
