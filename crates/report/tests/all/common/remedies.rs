//! A check-up that tries remedies.

use punctual_record::{CPU, Param, Run, Setting};

use super::{Made, asked, asked_policy, found, put, run, slack_of};

/// What a check-up tries, each alone. The medians of the sleeping method under CPU 1, locked memory and without C-states are given.
pub fn remedies_run(cpu: i64, locked: i64, awake: i64) -> Run {
    let with = |label: &str, setting: Option<Setting>| {
        let mut made = found(label, 50_000);
        let no_limit = asked("dma-latency", Param::Int(2_000_000_000_000), "C-states as found");
        put(&mut made, Setting { asked: None, ..no_limit });
        setting.into_iter().for_each(|setting| put(&mut made, setting));
        made
    };
    let slack = Setting { asked: Some(Param::Int(1)), ..slack_of(1, 1) };
    let no_states = asked("dma-latency", Param::Int(0), "C-states off");
    let memory = asked("lock-memory", Param::Flag(true), "memory locked");
    let one_cpu = asked(CPU, Param::Text("1".into()), "CPU 1");
    let mut sets = vec![
        with("as found", None),
        with("slack 1 ns", Some(slack)),
        with("SCHED_FIFO 40", Some(asked_policy("fifo:40"))),
        with("memory locked", Some(memory)),
        with("C-states off", Some(no_states)),
        with("CPU 1", Some(one_cpu)),
    ];
    // Newer kernels read a real-time thread's slack back as 0.
    put(&mut sets[2], slack_of(0, 0));
    let mut made = vec![Made::sleep("nanosleep", "as found", 52_300), Made::spin("spin_counter", "as found", 33)];
    for name in ["ppoll", "futex", "timerfd", "poll", "usleep"] {
        made.push(Made::sleep(name, "as found", 53_000));
    }
    let medians = [
        ("as found", 52_100),
        ("slack 1 ns", 3_100),
        ("SCHED_FIFO 40", 3_100),
        ("memory locked", locked),
        ("C-states off", awake),
        ("CPU 1", cpu),
    ];
    made.extend(medians.map(|(label, median)| Made::sleep("clock_nanosleep_abs", label, median)));
    run(&["punctual", "checkup"], sets, &made)
}
