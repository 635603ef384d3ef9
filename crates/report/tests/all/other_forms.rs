//! Everything that is not the main text: notices, CSV, limits, the list of methods.

use crate::common::{Made, plain_run, run};
use crate::forms::{notices, written};
use insta::assert_snapshot;
use punctual_record::{Notice, PauseCause, Refusal};
use punctual_report::export::text::list::{self, ListRow};
use punctual_report::export::{Error, csv};
use punctual_report::{Style, notice};

pub(crate) fn every_notice() -> Vec<Notice> {
    let refusal = Refusal {
        condition: "policy".into(),
        asked: "fifo:40".into(),
        why: "sched_setscheduler: Operation not permitted (EPERM), the rtprio limit is 0".into(),
        remedy: "raise the limit (`ulimit -r 40`), or run as root".into(),
    };
    let (conditions, subject) = ("fifo:40".to_owned(), "nanosleep".to_owned());
    vec![
        Notice::ConditionRefused { conditions: conditions.clone(), refusal: refusal.clone() },
        Notice::ConditionsSkipped { conditions: conditions.clone(), refusal },
        Notice::ConditionNotKept {
            conditions: conditions.clone(),
            condition: "timer-slack".into(),
            set: "1 ns".into(),
            found: "50 µs".into(),
            left_out: 2,
        },
        Notice::ClockStepped { by_ns: -6_000_000_000, after_ns: 1_200_000_000, times: 1 },
        Notice::Paused { cause: PauseCause::Stopped, gap_ns: 3_000_000_000, after_ns: 900_000_000, times: 1 },
        Notice::Paused { cause: PauseCause::Suspended, gap_ns: 3_600_000_000_000, after_ns: 900_000_000, times: 2 },
        Notice::Paused { cause: PauseCause::Machine, gap_ns: 2_000_000_000, after_ns: 900_000_000, times: 1 },
        Notice::PartFailed {
            part: "ipc".into(),
            why: "fork: Resource temporarily unavailable (EAGAIN)".into(),
            remedy: "raise `ulimit -u`".into(),
        },
        Notice::Steal { share: 0.034 },
        Notice::BusyMachine { share: 0.41 },
        Notice::Unsteady { series: 3, judged: 12 },
        Notice::Coarse { subject: subject.clone(), asked_ns: 100_000, effective_ns: 1_000_000 },
        Notice::Early { subject: subject.clone(), count: 12, min_ns: -350 },
        Notice::Interrupted { signal: "SIGINT".into() },
        Notice::Overdue,
        Notice::Unsupervised { why: "no other CPU".into(), remedy: "let it use another CPU".into() },
        Notice::PeerEnded {
            subject: "posix-mq, 8 bytes, ping-pong".into(),
            how: "was killed by signal 9".into(),
            after_ns: 3_217_000_000,
        },
        Notice::SameCore { pairs: vec![[0, 1], [2, 3]] },
        Notice::CoresUnknown { pairs: (1..9).map(|cpu| [0, cpu]).collect() },
        Notice::WatchdogTripped { conditions, busy_ns: 900_000_000 },
        Notice::Overflow { subject, count: 3 },
        Notice::CounterUnavailable { why: "the TSC is not invariant".into() },
        Notice::NotRestored { what: "timer slack".into(), why: "EINVAL".into(), remedy: "start a new shell".into() },
        Notice::CausesNotMerged,
        Notice::Other { text: "A sentence.".into() },
    ]
}

#[test]
fn every_notice_has_words() {
    for notice in every_notice() {
        let phrase = notice::phrase(&notice);
        assert!(phrase.text.ends_with('.') && !phrase.text.contains('{'), "{phrase:?}");
        assert!(phrase.remedy.is_none_or(|remedy| remedy.to_string().ends_with('.')));
    }
    let mut run = plain_run();
    run.notices = every_notice();
    assert_snapshot!(notices(&run, &Style::default()));
    run.notices.clear();
    assert_eq!(notices(&run, &Style::default()), "");
}

#[test]
fn csv_has_a_row_per_series() {
    let out = written(csv::write, &plain_run());
    assert_snapshot!(out.replace("\r\n", "\n"));
}

#[test]
fn csv_quotes_names_and_has_a_line_for_each_series() {
    let mut run = run(&["punctual"], vec![], &[Made::sleep("a", "fifo:40, slack \"1ns\"", 5_000)]);
    run.series[0].subject = "two\r\nlines".into();
    run.series[0].summary.p99 = None;
    let out = written(csv::write, &run);
    let text = out;
    assert!(text.contains("wait,two? lines,\"fifo:40, slack \"\"1ns\"\"\",overshoot,100000,4000,"), "{text}");
    run.series.clear();
    let out = written(csv::write, &run);
    assert!(out.starts_with("experiment,subject,conditions,quantity,count,"));
}

#[test]
fn csv_reports_a_full_disk() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let error = csv::write(&plain_run(), &mut &full).unwrap_err();
    assert!(matches!(&error, Error::Io(source) if source.kind() == std::io::ErrorKind::StorageFull), "{error}");
}

fn rows() -> Vec<ListRow> {
    let row = |name: &str, kind: &str, about: &str, call: &str| ListRow {
        name: name.into(),
        about: about.into(),
        call: call.into(),
        kind: kind.into(),
        needs: String::new(),
        unavailable: None,
        observed: None,
    };
    vec![
        ListRow {
            observed: Some(vec!["clock_nanosleep".into()]),
            ..row(
                "nanosleep",
                "Sleeping calls",
                "sleeps for a duration; what most programs use",
                "nanosleep(&duration, NULL)",
            )
        },
        row(
            "clock_nanosleep_abs",
            "Sleeping calls",
            "sleeps until a deadline, so that a loop does not drift however long its body takes",
            "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL)",
        ),
        ListRow {
            observed: Some(vec![]),
            ..row("spin_counter", "Busy waiting", "reads the CPU's counter until it is time", "__rdtsc()")
        },
        ListRow {
            needs: "CPU with WAITPKG".into(),
            unavailable: Some("the CPU has no WAITPKG (CPUID leaf 7)".into()),
            ..row("tpause\x1b[2J", "Busy waiting", "waits in user mode at low power", "_tpause(0, deadline)")
        },
    ]
}

#[test]
fn the_list_at_80_and_40() {
    assert_snapshot!(list::render(&rows(), &Style::default()));
    let narrow = list::render(&rows(), &Style { width: 50, unicode: false, color: false });
    assert!(narrow.lines().all(|line| line.len() <= 50), "{narrow}");
    assert_eq!(list::render(&[], &Style::default()), "");
}
