//! `punctual pace` where the kernel paces: the queueing discipline fq on the loopback of a real kernel.

use std::path::Path;

use punctual_record::{Param, Run};
use punctual_vm::{Kernel, Machine, Table};

use crate::support::{machine, run, written};

/// A machine with this queueing discipline and the tools to set it.
fn with_discipline(module: &str) -> Option<Machine> {
    let tools = ["/usr/sbin/tc", "/usr/sbin/ip"];
    if let Some(missing) = tools.iter().find(|tool| !Path::new(tool).exists()) {
        punctual_testing::skip(&format!("no {missing} (Debian: apt-get install iproute2)"));
        return None;
    }
    let machine = Machine { modules: vec![module.into()], ..machine(Kernel::V6_1, Table::PStates)? };
    Some(machine.program(tools[0]).program(tools[1]))
}

/// The rate was kept, and all that was sent arrived. An emulated machine is slow. The test finds a discipline that does not pace at
/// all, or drops what it holds. The former is hundreds of times too fast.
fn keeps_the_rate(result: &Run, name: &str) {
    let series = result.series.iter().find(|s| s.subject == name && s.experiment.metrics().contains_key("rate_share"));
    let series = series.unwrap_or_else(|| panic!("{name}: {:?}", result.not_measured));
    let number = |key: &str| match series.experiment.metrics()[key] {
        Param::Int(n) => n as f64,
        Param::Real(n) => n,
        _ => f64::NAN,
    };
    assert!((0.5..1.2).contains(&number("rate_share")), "{name}: {:?}", series.experiment.metrics());
    assert_eq!(series.experiment.metrics()["departure"], Param::Text("kernel-stamp".into()), "{name}");
    assert_eq!((number("lost"), number("not_sent")), (0.0, 0.0), "{name}: {:?}", series.experiment.metrics());
    assert_eq!(number("received"), number("events"), "{name}");
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn fq_is_found_and_keeps_the_rate() {
    let Some(machine) = with_discipline("sch_fq") else { return };
    let done = run(
        &machine,
        4,
        r#"
ip link set lo up
none=$(punctual pace --rate 500 --to 127.0.0.1:9999 --by so_max_pacing_rate,so_txtime --samples 20 --full)
has without "noqueue, not fq" "$none"
tc qdisc replace dev lo root fq
is fq 0 $?
punctual pace --rate 500 --to 127.0.0.1:9999 --by so_max_pacing_rate,so_txtime --samples 400 --rounds 2 --quiet --json /tmp/run.json
is status 0 $?
is both 2 "$(grep -c '"quantity": *"lateness"' /tmp/run.json || true)"
echo "BEGIN RUN"; cat /tmp/run.json; echo; echo "END RUN"
"#,
    );
    let result = written(&done.stdout);
    assert!(result.not_measured.is_empty(), "{:?}", result.not_measured);
    for name in ["so_max_pacing_rate", "so_txtime"] {
        keeps_the_rate(&result, name);
    }
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn above_its_low_rate_fq_spaces_datagrams_when_it_is_told_to() {
    let Some(machine) = with_discipline("sch_fq") else { return };
    let done = run(
        &machine,
        3,
        r#"
ip link set lo up
tc qdisc replace dev lo root fq
# As it is set, fq lets a burst go at once: ten times its quantum, which is two of the loopback's long packets.
burst=$(punctual pace --rate 400 --size 200 --to 127.0.0.1:9999 --by so_max_pacing_rate --samples 400 --rounds 1 --full 2>&1)
has "the limit is said" low_rate_threshold "$burst"
tc qdisc replace dev lo root fq low_rate_threshold 1gbit
is fq 0 $?
punctual pace --rate 400 --size 200 --to 127.0.0.1:9999 --by so_max_pacing_rate --samples 400 --rounds 1 --quiet --json /tmp/run.json
is status 0 $?
echo "BEGIN RUN"; cat /tmp/run.json; echo; echo "END RUN"
"#,
    );
    keeps_the_rate(&written(&done.stdout), "so_max_pacing_rate");
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_full_send_buffer_is_counted_and_the_schedule_is_kept() {
    let Some(machine) = with_discipline("sch_fq") else { return };
    // 16 kbit/s for a program that sends 640: the buffer of the socket fills with what the discipline holds.
    let done = run(
        &machine,
        2,
        r#"
ip link set lo up
tc qdisc replace dev lo root fq maxrate 16kbit flow_limit 10000
is fq 0 $?
punctual pace --rate 1k --size 1400 --to 127.0.0.1:9999 --by clock_nanosleep_abs --samples 1000 --rounds 1 --quiet --json /tmp/run.json
is status 0 $?
echo "BEGIN RUN"; cat /tmp/run.json; echo; echo "END RUN"
"#,
    );
    let result = written(&done.stdout);
    let series = result.series.iter().find(|s| s.experiment.metrics().contains_key("not_sent")).expect("a series");
    let count = |key: &str| match series.experiment.metrics()[key] {
        Param::Int(n) => n,
        _ => panic!("{key}"),
    };
    assert_eq!(count("events"), 1000);
    assert!(count("not_sent") > 500, "{:?}", series.experiment.metrics());
}
