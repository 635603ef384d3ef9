//! The table on other kernels. It has this program in the machines of the kernel lab, and what only such a machine can suffer.

use std::time::Duration;

use punctual_record::Cause;
use punctual_vm::{Kernel, Machine, Stops, Table};

use crate::judge::{self, Injector};
use crate::place;
use crate::play::{Seen, Stage};

/// Late wake-ups of each injector in an emulated machine.
const WANTED: usize = 30;
/// The machine is stopped for so long.
const PAUSE: Duration = Duration::from_millis(20);
/// The tests that an emulated machine can pass within minutes: their delays are long.
const TESTS: [&str; 4] = ["sleeps_that_are_over", "kept_for_fair_threads", "priority_inversion", "idle_states"];
/// Before Linux 6.18, a used-up quota keeps a thread from the CPU in its call. Since then, that happens on the way back to the program.
/// In an emulated machine, this takes longer than the engine looks at.
const QUOTAS: [&str; 2] = ["used_up_quota", "used_up_quota_beside_others"];
/// What the guest says when it is to be stopped from now on.
const STOP_ME: &str = "the machine may be stopped now";

/// How many late wake-ups are wanted.
pub(crate) fn many() -> usize {
    if slower() > 1 { WANTED } else { 200 }
}

/// How many times slower the machine is: an emulated one takes longer for all that the kernel does.
pub(crate) fn slower() -> u64 {
    if std::env::var_os("PUNCTUAL_IN_THE_LAB").is_some() { 10 } else { 1 }
}

/// The whole machine is stopped while a thread sleeps.
const PAUSED: Injector = Injector {
    name: "machine stopped for 20 ms",
    cause: Cause::Host,
    exact: false,
    least_ns: 8_000_000,
    play: paused,
    ..Injector::SLEEP
};

fn paused(stage: &Stage, wanted: usize) -> Option<Seen> {
    let victim = || {
        place::on(stage.cpu);
        place::fifo(50);
        while stage.goes_on() {
            let on = stage.is_on();
            stage.sleep(10_000_000);
            let late = crate::play::now() - stage.deadline.load(std::sync::atomic::Ordering::Relaxed);
            if on && late > PAUSED.least_ns {
                stage.hit();
            }
        }
    };
    let injector = || {
        if stage.wait_for_part() {
            println!("{STOP_ME}");
        }
    };
    Some(stage.play(wanted, victim, injector))
}

/// Runs tests of this program in a machine, and gives what they said.
fn run(machine: Machine, tests: &str) -> String {
    let own = std::env::current_exe().unwrap();
    let machine = Machine { limit: Duration::from_secs(900), ..machine }.file(own, "bin/injectors");
    let script = format!("PUNCTUAL_IN_THE_LAB=1 injectors {tests} --ignored --nocapture --test-threads 1 2>&1");
    let done = machine.run(&script).unwrap();
    println!("{}", done.stdout);
    done.stdout
}

fn table_on(kernel: Kernel, tests: &[&str]) {
    if !punctual_vm::ready(kernel) {
        return;
    }
    let names: Vec<String> = tests.iter().map(|name| format!("at_length::{name}")).collect();
    let said =
        run(Machine { tables: vec![Table::CStates], ..Machine::new(kernel) }, &format!("--exact {}", names.join(" ")));
    assert!(said.contains(&format!("test result: ok. {} passed", tests.len())), "{said}");
}

#[test]
#[ignore = "by hand: up to ten minutes on a busy machine"]
fn by_hand_the_table_on_linux_6_12() {
    table_on(Kernel::V6_12, &[&TESTS[..], &QUOTAS[..]].concat());
}

#[test]
#[ignore = "by hand: up to ten minutes on a busy machine"]
fn by_hand_the_table_on_linux_6_12_rt() {
    table_on(Kernel::V6_12Rt, &[&TESTS[..], &QUOTAS[..]].concat());
}

#[test]
#[ignore = "by hand: up to ten minutes on a busy machine"]
fn by_hand_the_table_on_linux_7_3() {
    table_on(Kernel::V7_3, &TESTS);
}

#[test]
#[ignore = "by hand: up to ten minutes on a busy machine"]
fn by_hand_a_stopped_machine_is_the_hosts_doing() {
    if !punctual_vm::ready(Kernel::V6_12) {
        return;
    }
    let machine = Machine { stops: Some(Stops { after: STOP_ME.into(), time: PAUSE }), ..Machine::new(Kernel::V6_12) };
    let said = run(machine, "--exact lab::in_a_machine_that_is_stopped");
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "only in a machine that is stopped from outside"]
fn in_a_machine_that_is_stopped() {
    if slower() > 1 {
        judge::names_the_cause(&PAUSED, many());
    }
}
