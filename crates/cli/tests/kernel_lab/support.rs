//! Machines for the tests, and reading what their scripts say.

use std::path::PathBuf;
use std::time::Duration;

use punctual_record::Run;
use punctual_vm::{Done, Kernel, Machine, Table};

/// Shell functions for the scripts.
const HELPERS: &str = r#"
P=/sys/devices/system/cpu/cpufreq
# is NAME WANTED FOUND
is() { if [ "$2" = "$3" ]; then echo "ok $1"; else echo "FAILED $1: wanted <$2>, found <$3>"; fi; }
# has NAME PART TEXT
has() { case $3 in *"$2"*) echo "ok $1" ;; *) echo "FAILED $1: <$2> is not in <$3>" ;; esac; }
# Everything that can be set, as one line; only built-in commands, because it is called often.
state() {
    line=
    for file in $P/policy*/scaling_governor $P/policy*/scaling_setspeed $P/policy*/scaling_min_freq $P/policy*/scaling_max_freq $P/policy*/energy_performance_preference; do
        value=
        [ -e "$file" ] && read -r value <"$file"
        line="$line $value"
    done
    echo "$line"
}
# Waits, at most a minute, until the settings are as given; says how many hundredths of a second that took.
until_state() {
    since=$(uptime_10ms)
    while [ "$(state)" != "$1" ]; do
        [ $(($(uptime_10ms) - since)) -gt 6000 ] && { echo never; return; }
        usleep 5000
    done
    echo $(($(uptime_10ms) - since))
}
uptime_10ms() { read -r up _ </proc/uptime; echo "${up%.*}${up#*.}" | sed 's/^0*//'; }
# A different governor for each CPU, a speed set, limits narrowed.
dirty() {
    echo userspace >$P/policy0/scaling_governor
    echo 1800000 >$P/policy0/scaling_setspeed
    echo ondemand >$P/policy1/scaling_governor
    echo 2200000 >$P/policy1/scaling_max_freq
    echo 1400000 >$P/policy1/scaling_min_freq
}
"#;

/// The command that is tried. An emulated CPU takes several times as long for a build without optimisation, so the gate gives the
/// release build.
fn command() -> PathBuf {
    std::env::var_os("PUNCTUAL_LAB_COMMAND").map_or_else(|| env!("CARGO_BIN_EXE_punctual").into(), PathBuf::from)
}

/// A machine with the command and the host's chrt and taskset in it.
pub(crate) fn machine(kernel: Kernel, table: Table) -> Option<Machine> {
    if !punctual_vm::ready(kernel) {
        return None;
    }
    let machine = Machine { tables: vec![table], limit: Duration::from_secs(900), ..Machine::new(kernel) };
    Some(machine.file(command(), "usr/bin/punctual").program("/usr/bin/chrt").program("/usr/bin/taskset"))
}

/// Runs a script, and takes a look that fails or one too few for a failure.
pub(crate) fn run(machine: &Machine, looks: usize, script: &str) -> Done {
    let done = machine.run(&format!("{HELPERS}\n{script}")).unwrap();
    let failed: Vec<&str> = done.stdout.lines().filter(|line| line.starts_with("FAILED")).collect();
    let ok = done.stdout.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(
        failed.is_empty() && ok == looks,
        "{ok} of {looks} as they should be\n{}\n{}\n{}",
        failed.join("\n"),
        done.stdout,
        done.stderr
    );
    done
}

/// The run that the script wrote between two lines.
pub(crate) fn written(stdout: &str) -> Run {
    let json =
        stdout.split_once("BEGIN RUN\n").and_then(|(_, rest)| rest.split_once("\nEND RUN")).map(|(json, _)| json);
    Run::from_json(json.unwrap_or_else(|| panic!("no run in {stdout}")).as_bytes()).unwrap()
}
