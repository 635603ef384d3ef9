//! What sleeps of nothing do: they give up the CPU before Linux 7.2, and return at once since.

use punctual_record::Quantity;
use punctual_vm::{Kernel, Table};

use crate::support::{machine, run, written};

const NAMES: [&str; 3] = ["usleep0", "nanosleep1", "usleep1"];

/// The share of its calls in which each method slept alone, and what the command says.
fn slept(kernel: Kernel) -> Option<(Vec<f64>, String)> {
    let machine = machine(kernel, Table::PStates)?;
    let done = run(
        &machine,
        1,
        r#"
punctual yield usleep0 nanosleep1 usleep1 --samples 500 --rounds 5 --full --json /tmp/run.json >/tmp/run.txt 2>&1
is status 0 $?
cat /tmp/run.txt
echo "BEGIN RUN"; cat /tmp/run.json; echo; echo "END RUN"
"#,
    );
    let written = written(&done.stdout);
    let series_of = |subject: &str| {
        let mut calls = written.series.iter().filter(|s| s.subject == subject && s.quantity == Quantity::CallCost);
        calls.next().and_then(|alone| alone.voluntary_switches_per_op).unwrap()
    };
    let said = done.stdout.split("BEGIN RUN").next().unwrap_or_default();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    Some((NAMES.map(series_of).to_vec(), said))
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_sleep_of_nothing_gives_up_the_cpu_before_linux_7_2() {
    for kernel in [Kernel::V6_1, Kernel::V6_12] {
        let Some((slept, said)) = slept(kernel) else { return };
        assert!(slept.iter().all(|share| *share > 0.5), "{kernel}: {slept:?}");
        assert!(said.contains("Voluntary, because they wait (ru_nvcsw): usleep0, nanosleep1 and usleep1."), "{said}");
        assert!(!said.contains("does not yield here") && !said.contains("Sleeps that ended"), "{said}");
    }
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_sleep_of_nothing_returns_at_once_since_linux_7_2() {
    for kernel in [Kernel::V7_3, Kernel::V7_3Rt] {
        let Some((slept, said)) = slept(kernel) else { return };
        // Before, all of them slept. An interrupt between setting and checking the timer is rare, but an emulated CPU has many.
        assert!(slept[0] < 0.1 && slept[1] < 0.1, "{kernel}: {slept:?} {said}");
        let (waits, returns): (Vec<_>, Vec<_>) = NAMES.into_iter().zip(&slept).partition(|(_, share)| **share >= 0.01);
        for (class, calls) in [
            ("Voluntary, because they wait (ru_nvcsw)", waits),
            ("Sleeps that ended before the thread gave up the CPU (ru_nvcsw)", returns),
        ] {
            let names: Vec<&str> = calls.into_iter().map(|(name, _)| name).collect();
            let listed = match names.as_slice() {
                [] => continue,
                [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
                [one, ..] => (*one).to_owned(),
            };
            assert!(said.contains(&format!("{class}: {listed}.")), "{kernel}: {slept:?} {said}");
        }
    }
}
