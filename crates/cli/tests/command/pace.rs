//! `punctual pace`: refusals, and results on the real kernel and the loopback.

use std::net::UdpSocket;
use std::process::{Command, Stdio};

use punctual_record::{Param, Quantity, Run, Series};
use punctual_testing::{Disturbed, skip, undisturbed, until};

use crate::support::{measured, refusals, run};

/// Every refusal: status 2, nothing on stdout, and this on stderr.
#[test]
fn refusals_say_what_would_be_accepted() {
    let cases: &[&[&str]] = &[
        &["pace", "--rate", "0", "--tick-only"],
        &["pace", "--rate", "-5", "--tick-only"],
        &["pace", "--rate", "2000M", "--tick-only"],
        &["pace", "--rate", "fast", "--tick-only"],
        &["pace", "--sweep", "1k", "--tick-only"],
        &["pace", "--sweep", "1M..1k", "--tick-only"],
        &["pace", "--to", "127.0.0.1"],
        &["pace", "--to", "127.0.0.1:0"],
        &["pace", "--to", "127.0.0.1:70000"],
        &["pace", "--to", "224.0.0.1:9999"],
        &["pace", "--to", "127.0.0.1:9999", "--size", "10"],
        &["pace", "--to", "127.0.0.1:9999", "--size", "65508"],
        &["pace", "--to", "127.0.0.1:9999", "--rate", "5M", "--duration", "10s"],
        &["pace", "--to", "127.0.0.1:9999", "--tick-only"],
        &["pace", "--tick-only", "--by", "hybird"],
        &["pace", "--tick-only", "--duration", "0s"],
        &["pace", "--tick-only", "--duration", "-1s"],
        &["pace", "--tick-only", "--duration", "99999999999999999999s"],
        &["pace", "--tick-only", "--duration", "18446744073709551615s"],
        &["pace", "--tick-only", "--samples", "0"],
        &["pace", "--tick-only", "--samples", "18446744073709551615"],
        &["pace", "--tick-only", "--rate", "1e400"],
        &["pace", "--tick-only", "--rate", "18446744073709551615"],
        &["pace", "--tick-only", "--rate", "0.0000000001"],
        &["pace", "--tick-only", "--within", "0us"],
        &["pace", "--tick-only", "--jitter", "-1us"],
        &["pace", "--to", "127.0.0.1:9999", "--rate", "1M", "--duration", "1h"],
    ];
    insta::assert_snapshot!(refusals(cases));
}

fn find<'a>(run: &'a Run, subject: &str, quantity: Quantity) -> Option<&'a Series> {
    run.series.iter().find(|s| s.subject == subject && s.quantity == quantity)
}

fn number(series: &Series, name: &str) -> f64 {
    match series.experiment.metrics().get(name) {
        Some(Param::Int(n)) => *n as f64,
        Some(Param::Real(n)) => *n,
        other => panic!("{name}: {other:?}"),
    }
}

/// A port that nobody has.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Two processes on the loopback: every datagram is accounted for, and none departs before its time.
#[test]
fn sequences_are_complete_over_the_loopback() {
    let to = format!("127.0.0.1:{}", free_port());
    let result = measured(&["pace", "--rate", "2k", "--to", &to, "--samples", "600", "--rounds", "2", "--quiet"]).0;
    for subject in [
        "usleep",
        "nanosleep",
        "usleep_1us",
        "nanosleep_1ns",
        "clock_nanosleep_abs",
        "my_rate",
        "timerfd",
        "spin",
        "compensated",
        "hybrid",
        "hybrid_batch",
    ] {
        let lateness = find(&result, subject, Quantity::Lateness).unwrap_or_else(|| panic!("{subject} is missing"));
        let (events, received, lost) =
            (number(lateness, "events"), number(lateness, "received"), number(lateness, "lost"));
        assert_eq!(events, 600.0, "{subject}");
        assert_eq!(received + lost + number(lateness, "not_sent"), events, "{subject}");
        assert_eq!(number(lateness, "duplicates"), 0.0, "{subject}");
        assert_eq!(lost, 0.0, "{subject}: the loopback loses nothing at this rate");
        assert_eq!(number(lateness, "reordered"), 0.0, "{subject}");
        // The kernel's stamps are on the wall clock, which is steered while we measure. The slow correction of my_rate makes up for a
        // delay by a higher rate and overshoots. In two corrections of 1 % over 100 events each, it overshoots by two periods at
        // most.
        let ahead = if subject == "my_rate" { 2 * 500_000 } else { 0 };
        assert!(lateness.summary.min.unwrap() >= -2_000 - ahead, "{subject}: {:?}", lateness.summary);
        let one_way = find(&result, subject, Quantity::OneWay).unwrap_or_else(|| panic!("{subject}: no one-way"));
        assert_eq!(one_way.summary.count as f64, received, "{subject}");
        assert!(one_way.summary.min.unwrap() > 0, "{subject}");
        assert!(find(&result, subject, Quantity::PeriodJitter).is_some(), "{subject}");
    }
    // Batches are stamped as single datagrams are, so their lateness is comparable.
    let clock =
        |subject| find(&result, subject, Quantity::Lateness).unwrap().experiment.metrics().get("departure").cloned();
    assert_eq!(clock("hybrid_batch"), clock("hybrid"));
    assert_eq!(clock("hybrid"), Some(Param::Text("kernel-stamp".into())));
}

#[test]
fn ipv6_too() {
    let Ok(socket) = UdpSocket::bind("[::1]:0") else {
        return skip("no IPv6 loopback here");
    };
    let to = socket.local_addr().unwrap().to_string();
    drop(socket);
    let result = measured(&["pace", "--rate", "1k", "--to", &to, "--by", "hybrid", "--samples", "200", "--quiet"]).0;
    assert_eq!(number(find(&result, "hybrid", Quantity::Lateness).unwrap(), "received"), 200.0);
}

#[test]
fn a_port_in_use_leaves_arrivals_unmeasured_and_says_so() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = taken.local_addr().unwrap().to_string();
    let left = run(&["pace", "--rate", "1k", "--to", &to, "--by", "hybrid", "--samples", "100"]);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(left.stdout.contains(" more notice"), "{}", left.stdout);
    let left = run(&["pace", "--rate", "1k", "--to", &to, "--by", "hybrid", "--samples", "100", "--full"]);
    assert!(left.stderr.contains("another program receives"), "{}", left.stderr);
    let receive = run(&["pace", "--receive", &to]);
    assert_eq!(receive.code, Some(1), "{}", receive.stderr);
    assert!(receive.stderr.contains("ss -ulnp"), "{}", receive.stderr);
}

#[test]
fn an_address_that_no_route_leads_to_is_said_to_be_one() {
    let script = "exec \"$@\"";
    let args = ["-n", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_punctual"), "pace", "--to", "192.0.2.1:9999"];
    let out = Command::new("unshare").args(args).args(["--by", "hybrid", "--samples", "10"]).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    if errors.contains("unshare:") {
        return skip(&format!("no network namespace here: {errors}"));
    }
    let all = format!("{said}{errors}").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(all.contains("Network is unreachable") && all.contains("ip route get"), "{all}");
}

#[test]
fn a_rate_beyond_the_machine_is_told_as_what_it_held() {
    let result = measured(&["pace", "--rate", "900M", "--tick-only", "--by", "spin", "--samples", "100k", "--quiet"]).0;
    let lateness = find(&result, "spin", Quantity::Lateness).expect("it was tried");
    assert!(
        number(lateness, "rate_share") < 0.9,
        "nobody reads a clock a thousand million times a second: {lateness:?}"
    );
    assert!(number(lateness, "rate_reached") > 0.0 && number(lateness, "events") == 100_000.0);
    // What is a tenth too slow gets later by a ninth of the time that passes.
    assert!(number(lateness, "drift_ppm") > 1e6 / 9.0, "{:?}", lateness.experiment.metrics());
}

/// A receiver by itself, and a sender in another process.
#[test]
fn a_receiver_by_itself_counts_what_comes() {
    let port = free_port();
    let to = format!("127.0.0.1:{port}");
    let receiver = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["pace", "--receive", &to, "--samples", "300", "--quiet", "--json", "-"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let listens = format!(":{port:04X} ");
    until("it listens", || std::fs::read_to_string("/proc/net/udp").unwrap().contains(&listens));
    let sent = run(&["pace", "--rate", "1k", "--to", &to, "--by", "hybrid", "--samples", "400", "--quiet"]);
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let output = receiver.wait_with_output().unwrap();
    assert!(output.status.success());
    let result = Run::from_json(output.stdout.as_slice()).unwrap();
    let jitter = find(&result, "receive", Quantity::PeriodJitter).unwrap();
    assert_eq!(number(jitter, "received"), 300.0);
    assert_eq!(number(jitter, "lost"), 0.0);
    assert!(find(&result, "receive", Quantity::OneWay).unwrap().summary.min.unwrap() > 0, "one machine, one clock");
}

#[test]
fn ticks_need_no_network_and_a_sweep_finds_a_limit() {
    let result =
        measured(&["pace", "--rate", "1k", "--tick-only", "--by", "hybrid,spin", "--samples", "200", "--quiet"]).0;
    for subject in ["hybrid", "spin"] {
        let lateness = find(&result, subject, Quantity::Lateness).unwrap();
        assert!(lateness.summary.min.unwrap() >= 0, "{subject} was early");
        assert_eq!(lateness.summary.count, 200);
    }
    let args =
        ["pace", "--sweep", "100..400", "--tick-only", "--by", "spin", "--within", "1s", "--duration", "2s", "--quiet"];
    let held = undisturbed(|_| {
        let swept = measured(&args).0;
        let series = find(&swept, "spin", Quantity::Lateness);
        let held = series.map(|series| number(series, "highest_rate_held"));
        held.ok_or_else(|| Disturbed(format!("100 a second are not held: {:?}", swept.not_measured)))
    });
    assert!((100.0..=400.0).contains(&held), "{held}");
}

#[test]
fn a_receiver_that_nothing_reaches_says_so() {
    let left = run(&["pace", "--receive", "127.0.0.1:0", "--duration", "50ms"]);
    assert_eq!(left.code, Some(1), "{}", left.stderr);
    assert!(
        left.stderr.contains("nothing was measured: receive: no datagram of `punctual pace` arrived"),
        "{}",
        left.stderr
    );
}

#[test]
fn what_an_interface_lacks_is_said_with_the_remedy() {
    let left = run(&["pace", "--tick-only", "--by", "so_txtime,so_max_pacing_rate", "--samples", "10"]);
    assert_eq!(left.code, Some(1), "nothing was measured: {}", left.stderr);
    assert!(left.stdout.contains("nothing is sent") && left.stdout.contains("--to ADDRESS:PORT"), "{}", left.stdout);
}

#[test]
fn every_way_to_pace_is_listed() {
    let left = run(&["pace", "--list"]);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    for name in ["usleep", "nanosleep_1ns", "my_rate", "hybrid_batch", "so_txtime"] {
        assert!(left.stdout.contains(name), "{name}: {}", left.stdout);
    }
}
