//! Invalid requests are refused before any change, with a valid alternative.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::LazyLock;

use clap::Command;
use proptest::prelude::*;
use punctual_record::Notice;
use punctual_testing::{Disturbed, first_cpu, undisturbed};

use crate::support::{SHORT, measured, refusals, run};

/// Every refusal: status 2, nothing on stdout, and this on stderr.
#[test]
fn refusals_say_what_would_be_accepted() {
    let cases: &[&[&str]] = &[
        &["wait", "--for", "0ns"],
        &["wait", "--for", "-5us"],
        &["wait", "--for", "10"],
        &["wait", "--for", "10 parsecs"],
        &["wait", "--for", "400d"],
        &["wait", "nanosleep", "--for", "1h", "--samples", "1M"],
        &["wait", "usleeep"],
        &["wait", "qqqq"],
        &["wait", "--policy", "fifo"],
        &["wait", "--policy", "fifo:0"],
        &["wait", "--policy", "fifo:100"],
        &["wait", "--policy", "fifi:10"],
        &["wait", "--policy", "deadline:10ms/1ms/10ms"],
        &["wait", "--policy", "rr:1,rr:1"],
        &["wait", "--cpu", "3-1"],
        &["wait", "--cpu", ""],
        &["wait", "--nice", "30"],
        &["wait", "--nice", "x"],
        &["wait", "--rounds", "x"],
        &["wait", "--warmup", "-1"],
        &["calibrate", "--samples", "18446744073709551615"],
        &["pace", "--receive", "127.0.0.1:9", "--duration", "2562048h"],
        &["pace", "--to", "127.0.0.1:9", "--size", "70000"],
        &["ipc", "--depth", "0"],
        &["ipc", "futex"],
        &["ipc", "mq"],
        &["ipc", "socket"],
        &["yield", "--competitors", "1", "--sender-cpu", "99"],
        &["governor", "ramp", "--loops", "0"],
        &["governor", "ramp", "--cpu", "x"],
        &["governor", "ramp", "--cpu", "9999"],
        &["governor", "ramp", "on demand"],
        &["governor", "set", "Performance"],
        &["governor", "switch", "performance", "performance"],
        &["yield", "--competitor-policy", "fifi"],
        &["ipc", "pipe", "--every", "1ms"],
        &["pace", "--tick-only", "--within", "1us"],
        &["wait", "--epp", "256"],
        &["wait", "--timer-slack", "0"],
        &["why", "--pid", "0"],
        &["report", "/dev/zero"],
        &["wait", "--timer-slack", "0ns"],
        &["wait", "--timer-slack", "5s"],
        &["wait", "--dma-latency", "1500ns"],
        &["wait", "--samples", "0"],
        &["wait", "--samples", "1.5"],
        &["wait", "--samples", "10", "--duration", "1s"],
        &["wait", "--rounds", "0"],
        &["wait", "--duration", "0s"],
        &["wait", "nanosleep", "--for", "1ms", "--duration", "1ns"],
        &["wait", "--json", "/no/such/folder/run.json"],
        &["wait", "--json", "/"],
        &["wait", "--json", "-", "--csv", "-"],
        &["wait", "--fail-if", "p98 > 1us"],
        &["wait", "--fail-above", "p99=1"],
        &["wait", "--fail-if", "p99"],
        &["wait", "--fail-if", "p99 +10%"],
        &["wait", "--fail-if", "p99 of nanoslep > 1ms"],
        &["yield", "--fail-if", "p99 > 1ms"],
        &["calibrate", "--fail-if", "p99 of usleep > 1ms"],
        &["yield", "--polls", "100", "--fail-if", "p99 of never_yields > 1ms"],
        &["yield", "usleep0", "--polls", "0", "--fail-if", "p99 of sched_yield > 1ms"],
        &["pace", "--receive", "127.0.0.1:0", "--fail-if", "p99 of timerfd > 1ms"],
        &["pace", "--tick-only", "--sweep", "1k..2k", "--fail-if", "p99 of pace * > 1ms"],
        &["governor", "ramp", "--fail-if", "p99 > 1ms"],
        &["governor", "ramp", "ondemand", "--fail-if", "p99 of on_demand > 1ms"],
        &["governor", "switch", "--fail-if", "p99 of powersave > 1ms"],
        &["governor", "switch", "powersave", "schedutil", "--fail-if", "p99 of powersave to performance > 1ms"],
        &["governor", "boost", "--fail-if", "p99 > 1ms"],
        &["governor", "boost", "--fail-if", "p99 of powersave > 1ms"],
        &["wait", "--color", "blue"],
        &["weit"],
        &["--no-such-flag"],
    ];
    insta::assert_snapshot!(refusals(cases));
}

/// Whatever a command measures, a CPU that the machine does not have is refused with the CPUs that it has.
#[test]
fn a_cpu_that_the_machine_does_not_have_is_refused_by_all_commands() {
    let commands: [&[&str]; 12] = [
        &["wait"],
        &["why"],
        &["ipc"],
        &["yield"],
        &["yield", "--polls", "1"],
        &["calibrate"],
        &["pace", "--tick-only"],
        &["pace", "--receive"],
        &["governor", "ramp"],
        &["governor", "switch"],
        &["governor", "boost"],
        &["run", "true"],
    ];
    for command in commands {
        let program = usize::from(command[0] == "run");
        let (command, program) = command.split_at(command.len() - program);
        let said = refusals(&[&[command, &["--cpu", "8191"], program].concat()]);
        assert!(said.contains("invalid --cpu '8191': this machine has no CPU 8191: it has "), "{said}");
    }
}

/// Arguments, file names, programs and files may hold anything. No message hands on what a terminal would obey, or fills the
/// screen.
#[test]
fn messages_are_harmless_whatever_they_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = "\u{1b}]0;title\u{7}\u{1b}[31m\u{9b}2J\u{202e}\u{200b}red";
    let escaped = "\\u001b[31m\\u009b2J\\u202ered";
    let long = "x".repeat(100_000);
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let files = [
        file("schema", &format!("{{\"schema\":\"{escaped}\"}}")),
        file("version", &format!("{{\"schema\":\"punctual.run/{escaped}\"}}")),
        file("field", &format!("{{\"schema\":\"punctual.run/2\",\"tool\":\"{escaped}\"}}")),
        file(hostile, "{}"),
        file("long", &format!("{{\"schema\":\"punctual.run/2\",\"tool\":\"{}\"}}", "x".repeat(3_000_000))),
    ];
    let mut cases: Vec<Vec<&str>> = files.iter().map(|file| vec!["report", file.as_str()]).collect();
    for bad in [hostile, &long] {
        cases.extend([vec![bad], vec!["wait", bad], vec!["wait", "--cpu", bad], vec!["wait", "--policy", bad]]);
        cases.extend([
            vec!["ipc", "--mode", bad],
            vec!["report", bad],
            vec!["run", "--", bad],
            vec!["compare", bad, bad],
        ]);
    }
    for case in cases {
        let left = run(&case);
        let harmless = left.stderr.chars().all(|c| c == '\n' || punctual_record::sanitize::is_harmless(c));
        assert!(harmless && !left.stderr.is_empty() && left.code != Some(0), "{:?}", left.stderr);
        assert!(left.stderr.chars().count() < 4_200, "{} bytes", left.stderr.len());
        assert_eq!(left.stdout, "");
    }
}

/// The text depends on the machine, so only its parts are checked.
#[test]
fn a_cpu_that_is_not_there_is_refused() {
    let left = run(&["wait", "nanosleep", "--cpu", "4999"]);
    assert_eq!(left.code, Some(2), "{}", left.stderr);
    assert!(left.stderr.contains("invalid --cpu '4999'") && left.stderr.contains("no CPU 4999"), "{}", left.stderr);
    assert_eq!(left.stdout, "");
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [&["--help"][..], &["--version"], &["wait", "--help"], &["checkup", "--help"]] {
        let left = run(args);
        assert_eq!((left.code, left.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(left.stdout.contains("punctual") || left.stdout.contains("Usage"), "{args:?}");
    }
}

/// What is refused by the kernel and not by us is a notice, unless it is required.
#[test]
fn a_deadline_thread_confined_to_a_cpu_is_a_notice_or_an_error() {
    // A deadline thread must be free to run on every CPU of its domain (EPERM). Without privilege it is refused anyway.
    let cpu = first_cpu().to_string();
    let asked = ["wait", "nanosleep", "--for", "100us", "--cpu", &cpu, "--policy", "deadline:1ms/10ms/10ms"];
    let twice = [&asked[..], &SHORT].concat();
    let left = run(&twice);
    if left.stderr.contains("refused") {
        assert_eq!(left.code, Some(0), "{}", left.stderr);
        assert!(left.stderr.contains("Remedy"), "{}", left.stderr);
        let left = run(&[&twice[..], &["--require"]].concat());
        assert_eq!(left.code, Some(1), "{}", left.stderr);
        assert!(left.stderr.contains("was refused"), "{}", left.stderr);
    } else {
        assert_eq!(std::thread::available_parallelism().map_or(1, usize::from), 1, "only one CPU is the whole domain");
    }
}

/// Every subject of a run can have a limit. The names that limits are held against are those of the record.
#[test]
fn a_limit_on_what_is_measured_is_judged() {
    let cases: [(&[&str], &[&str]); 4] = [
        (&["calibrate", "--samples", "5"], &["nanosleep"]),
        (
            &["yield", "usleep0", "--polls", "0,10", "--samples", "10", "--rounds", "1"],
            &["never_yields", "usleep0", "futex_wait", "backoff"],
        ),
        (&["governor", "ramp", "--loops", "5", "--rounds", "1", "--rest", "1ms"], &["as found"]),
        (&["governor", "boost", "--periods", "5", "--rounds", "1", "--rest", "1ms"], &["as found"]),
    ];
    for (args, subjects) in cases {
        let limits: Vec<String> =
            subjects.iter().map(|subject| format!("--fail-if=max of {subject} > 1000s")).collect();
        let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
        let run = undisturbed(|_| {
            let (run, left) = measured(&[args, &limits].concat());
            assert_ne!(left.code, Some(2), "{args:?}: {}", left.stderr);
            if run.notices.contains(&Notice::Overdue) { Err(Disturbed(left.stderr)) } else { Ok(run) }
        });
        for subject in subjects {
            assert!(run.series.iter().any(|series| series.subject == *subject), "{args:?}: no series {subject}");
        }
    }
    let receives = run(&["pace", "--receive", "127.0.0.1:0", "--duration", "50ms", "--fail-if=p50 of receive > 1s"]);
    assert_eq!(receives.code, Some(4), "nothing is sent, so nothing is judged: {}", receives.stderr);
    // The governors of this machine are not known to the test, but this is none of them.
    let ramp = run(&["governor", "ramp", "--fail-if=p99 of nanosleep > 1ms"]);
    assert!(ramp.code == Some(2) && ramp.stderr.contains("not a subject here"), "{}", ramp.stderr);
}

/// The command line, and every name of a command and a flag in it.
static COMMAND: LazyLock<(Command, Vec<String>)> = LazyLock::new(|| {
    let mut command = punctual_cli::command();
    command.build();
    let mut names = Vec::new();
    gather(&command, &mut names);
    (command, names)
});

fn gather(command: &Command, names: &mut Vec<String>) {
    names.push(command.get_name().to_owned());
    for argument in command.get_arguments() {
        names.extend(argument.get_long().map(|long| format!("--{long}")));
        names.extend(argument.get_short().map(|short| format!("-{short}")));
    }
    command.get_subcommands().for_each(|subcommand| gather(subcommand, names));
}

/// Words of a command line: names, values that some flag takes, both, and bytes that mean nothing.
fn any_line() -> impl Strategy<Value = Vec<OsString>> {
    let name = || prop::sample::select(&COMMAND.1[..]);
    let value = || {
        prop_oneof![
            "(other|fifo|rr):-?[0-9]{1,3}|deadline:1ms/10ms/10ms|idle",
            "-?[0-9]{1,20}(ns|us|ms|s|h|k|M|%)?((,|-|[.]{2})[0-9]{1,4}(us|k)?)?",
            "(p50|p99[.]9|max|any)( of [a-z*]{1,9})?( worse by |<=|=| > )[0-9]{1,9}(ns|s|%)",
            "nanosleep|ring|sched_yield|performance|hybrid,spin|json|auto|same|all",
            "127[.]0[.]0[.]1:9|\\[::1\\]:9|/dev/null|a[.]json|-|",
        ]
    };
    let noise = prop::collection::vec(any::<u8>().prop_filter("no argument can contain it", |byte| *byte != 0), 0..40);
    let word = prop_oneof![
        3 => value().prop_map(OsString::from),
        3 => name().prop_map(OsString::from),
        3 => (name(), value()).prop_map(|(name, value)| OsString::from(format!("{name}={value}"))),
        1 => noise.prop_map(OsString::from_vec),
    ];
    let commands: Vec<&str> = COMMAND.0.get_subcommands().map(Command::get_name).collect();
    (prop::option::weighted(0.9, prop::sample::select(commands)), prop::collection::vec(word, 0..7))
        .prop_map(|(command, words)| ["punctual"].into_iter().chain(command).map(OsString::from).chain(words).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(punctual_testing::inputs(400)) })]

    /// Any line is taken, or refused with words, whose length has a limit.
    #[test]
    fn any_line_is_taken_or_refused_with_words(line in any_line()) {
        if let Err(error) = COMMAND.0.clone().try_get_matches_from(&line) {
            let said = error.to_string();
            let given: usize = line.iter().map(|word| word.len()).sum();
            prop_assert!(!said.trim().is_empty());
            prop_assert!(!error.use_stderr() || said.len() <= 4_000 + 4 * given, "{} bytes", said.len());
        }
    }
}
