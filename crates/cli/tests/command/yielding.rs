//! `punctual yield`: figures that add up, refusals, and no process left whatever is killed.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::time::Duration;

use punctual_record::{NotMeasured, Notice, Param, Quantity, Run, Series};
use punctual_testing::{Disturbed, eventually, undisturbed, until};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{measured, punctual, refusals, run};

fn share(series: &Series, name: &str) -> Option<f64> {
    match series.experiment.metrics().get(name)? {
        Param::Real(share) => Some(*share),
        other => panic!("{name} is {other:?}"),
    }
}

fn check_shares(run: &Run) {
    for series in &run.series {
        let share_of = |name: &str| share(series, name);
        for share in ["yielded_share", "competitor_cpu_share", "own_cpu_share"].into_iter().filter_map(share_of) {
            assert!((0.0..=1.001).contains(&share), "{}: {:?}", series.subject, series.experiment.metrics());
        }
        if let (Some(theirs), Some(own)) = (share_of("competitor_cpu_share"), share_of("own_cpu_share")) {
            // One CPU: both together had no more than it. The clocks that measure it are adjusted apart by 0.05 % at most.
            assert!(theirs + own <= 1.001, "{}: {:?}", series.subject, series.experiment.metrics());
        }
    }
}

/// Measures for this many seconds. It measures for longer while other programs left nothing of the time for one of the
/// cells.
fn measured_all(args: &[&str], seconds: u32) -> Run {
    undisturbed(|longer| {
        let duration = format!("{}s", seconds * longer);
        let (run, left) = measured(&[args, &["--duration", &duration]].concat());
        // Nothing at all was measured: then the reasons are the same.
        assert!(left.code == Some(0) || left.code == Some(1) && run.series.is_empty(), "{}", left.stderr);
        if run.notices.contains(&Notice::Overdue) {
            return Err(Disturbed("its time was over before all had their turn".into()));
        }
        let starved = |n: &&NotMeasured| n.why.contains("did not pay for one");
        let others: Vec<_> = run.not_measured.iter().filter(|n| !starved(n)).collect();
        assert!(others.is_empty(), "{others:?}");
        let starved = run.not_measured.iter().find(starved);
        starved.map_or(Ok(()), |n| Err(Disturbed(format!("{}: {}", n.subject, n.why)))).map(|()| run)
    })
}

#[test]
fn costs_and_shares_add_up() {
    let args = ["yield", "nothing", "sched_yield", "usleep0", "poll0", "--competitors", "2", "--rounds", "3"];
    let run = measured_all(&args, 1);
    check_shares(&run);
    let calls = run.series.iter().filter(|s| s.quantity == Quantity::CallCost);
    assert_eq!(calls.clone().count(), 4 * 3);
    for series in calls {
        let alone = series.experiment.parameters()["competitors"] == Param::Int(0);
        assert_eq!(share(series, "bare_ns").is_some(), alone);
        assert_eq!(share(series, "yielded_share").is_some(), !alone);
        let asked = &series.experiment.metrics()["observed"];
        let expected: &[&str] = match series.subject.as_str() {
            "nothing" => &["none"],
            "sched_yield" => &["sched_yield"],
            "usleep0" => &["clock_nanosleep", "nanosleep"],
            _ => &["poll", "ppoll"],
        };
        let Param::Text(asked) = asked else { panic!("{asked:?}") };
        assert!(expected.contains(&asked.as_str()) || asked.starts_with("not known"), "{}: {asked}", series.subject);
    }
}

#[test]
fn polls_give_latency_and_shares() {
    let run = measured_all(&["yield", "--polls", "0,10,1k", "--rounds", "2"], 2);
    check_shares(&run);
    let one_way: Vec<&Series> = run.series.iter().filter(|s| s.quantity == Quantity::OneWay).collect();
    // Spinning, two methods with two settings, blocking, backing off; idle and busy.
    assert_eq!(one_way.len(), 2 * (1 + 2 * 2 + 2));
    for series in one_way {
        assert_eq!(series.summary.negative, 0, "{}: no message arrives before it is sent", series.subject);
        let busy = series.experiment.parameters()["load"] == Param::Text("busy".into());
        assert_eq!(share(series, "competitor_cpu_share").is_some(), busy);
    }
    let text = run_text(&["yield", "usleep0", "--polls", "1,100", "--samples", "40", "--rounds", "2", "--full"]);
    for part in ["Latency of a message", "Shares of the CPU", "futex_wait", "In words"] {
        assert!(text.contains(part), "{part} is missing from\n{text}");
    }
}

fn run_text(args: &[&str]) -> String {
    let left = run(args);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    left.stdout
}

/// Every refusal: status 2, nothing on stdout, and this on stderr.
#[test]
fn yield_refusals_say_what_would_be_accepted() {
    let cases: &[&[&str]] = &[
        &["yield", "sched_yeld"],
        &["yield", "qqqq"],
        &["yield", "--polls", "many"],
        &["yield", "--polls", "-1"],
        &["yield", "--polls", "1,,2"],
        &["yield", "--polls", "1.5"],
        &["yield", "--polls", "1000M"],
        &["yield", "--polls", "10,1,10"],
        &["yield", "--competitor-policy", "same,same"],
        &["yield", "--competitor-policy", "fifo:1,same,fifo:1"],
        &[
            "yield",
            "--polls",
            "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33",
        ],
        &["yield", "--polls", "1", "--competitors", "2"],
        &["yield", "--polls", "1", "--samples", "100M"],
        &["yield", "--sender-cpu", "0"],
        &["yield", "--competitors", "65"],
        &["yield", "--competitors", "-1"],
        &["yield", "--competitors", "some"],
        &["yield", "--competitor-policy", "fifo"],
        &["yield", "--competitor-policy", "sam"],
        &["yield", "--competitor-kind", "ghost"],
        &["yield", "--competitor-nice", "20"],
        &["yield", "--samples", "100M"],
        &["yield", "--timer-slack", "50us,50us"],
    ];
    insta::assert_snapshot!(refusals(cases));
}

/// The texts depend on the machine, so only parts are checked.
#[test]
fn cpus_that_cannot_be_shared_are_refused() {
    for (args, part) in [
        (&["yield", "--cpu", "0-4999"][..], "invalid --cpu '0-4999': this machine has no CPU "),
        (
            &["yield", "--polls", "1", "--sender-cpu", "4999"],
            "invalid --sender-cpu: this process may not run on CPU 4999",
        ),
        (&["yield", "--polls", "1", "--sender-cpu", "0,1"], "invalid --sender-cpu: must be one CPU, not 0-1"),
    ] {
        let left = run(args);
        assert_eq!((left.code, left.stdout.as_str()), (Some(2), ""), "{args:?}: {}", left.stderr);
        assert!(left.stderr.contains(part), "{args:?}: {}", left.stderr);
    }
}

/// The living children of a process, by name.
fn children(parent: u32) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // pid (name) state ppid ...
        let Some((before, after)) = stat.rsplit_once(") ") else { continue };
        let mut fields = after.split(' ');
        let (state, ppid) = (fields.next(), fields.next().and_then(|p| p.parse::<u32>().ok()));
        if ppid == Some(parent) && state != Some("Z") {
            found.push((pid, before.split_once('(').map_or("", |(_, name)| name).to_owned()));
        }
    }
    found
}

fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
}

const LONG: [&[&str]; 2] = [
    &["yield", "sched_yield", "--competitors", "3", "--duration", "60s", "--json", "-"],
    &["yield", "sched_yield", "--polls", "0,100", "--duration", "60s", "--json", "-"],
];

/// Starts a long run and waits for its helpers.
fn started(args: &[&str], helpers: &[&str]) -> (Child, Vec<(i32, String)>) {
    let child = punctual(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let found = eventually("helpers", || {
        let found: Vec<_> = children(child.id()).into_iter().filter(|(_, n)| n.starts_with("punctual-")).collect();
        let names: BTreeSet<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
        let enough = helpers.iter().all(|h| names.contains(h)) && found.len() >= if helpers.len() == 1 { 3 } else { 2 };
        enough.then_some(found)
    });
    (child, found)
}

const HELPERS: [&[&str]; 2] = [&["punctual-busy"], &["punctual-busy", "punctual-send"]];

#[test]
fn killed_or_interrupted_it_leaves_no_competitor() {
    for (args, helpers) in LONG.iter().zip(HELPERS) {
        for (signal, code) in [(Signal::KILL, None), (Signal::INT, Some(130)), (Signal::TERM, Some(143))] {
            let (child, found) = started(args, helpers);
            kill_process(Pid::from_child(&child), signal).unwrap();
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), code, "{}", String::from_utf8_lossy(&output.stderr));
            for (pid, name) in found {
                until(&format!("the end of {name}"), || !is_alive(pid));
            }
        }
    }
}

#[test]
fn a_killed_competitor_is_noticed_and_the_others_go_too() {
    for (args, helpers) in LONG.iter().zip(HELPERS) {
        undisturbed(|longer| {
            let (child, found) = started(args, helpers);
            for (pid, _) in &found {
                kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).unwrap();
            }
            // Whatever can be measured without them is measured; it need not take the whole minute.
            std::thread::sleep(Duration::from_millis(2500) * longer);
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            let output = child.wait_with_output().unwrap();
            for (pid, name) in found {
                until(&format!("the end of {name}"), || !is_alive(pid));
            }
            let run = Run::from_json(&output.stdout[..]).unwrap();
            let whys: Vec<&str> = run.not_measured.iter().map(|n| n.why.as_str()).collect();
            let noticed = whys.iter().any(|why| why.contains("killed by signal 9") || why.contains("process is gone"));
            if noticed { Ok(()) } else { Err(Disturbed(format!("not noticed within {longer} times 2.5 s: {whys:?}"))) }
        });
    }
}

#[test]
fn the_command_lists_what_it_was_seen_to_ask_for() {
    let text = run_text(&["yield", "--list"]);
    for name in ["sched_yield", "usleep0", "futex_changed", "seen here: no system call"] {
        assert!(text.contains(name), "{text}");
    }
}
