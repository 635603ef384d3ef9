//! Programs killed at random moments: nothing stays changed.

use punctual_vm::{Kernel, Table};

use crate::support::{machine, run};

/// Starts `COMMAND` and kills it at a random moment, `$1` times; counts how often it was killed with something changed.
///
/// The window of the random moments follows how fast the host is just now. It grows after a kill that came too early to find
/// anything changed. It shrinks after any other.
const KILL_OFTEN: &str = r#"
before=$(state)
runs=0; changed=0; slowest=0; never=0
since=$(uptime_10ms)
$COMMAND >/dev/null 2>&1 & program=$!
while [ "$(state)" = "$before" ]; do usleep 2000; done
window=$((($(uptime_10ms) - since) * 20000 + 20000))
kill -9 $program; wait $program 2>/dev/null
until_state "$before" >/dev/null; killall -9 sleep 2>/dev/null
while [ $runs -lt $1 ]; do
    runs=$((runs + 1))
    $COMMAND >/dev/null 2>&1 &
    program=$!
    usleep $(( $(od -An -N4 -tu4 /dev/urandom) % window ))
    if [ "$(state)" = "$before" ]; then window=$((window + window / 10)); else changed=$((changed + 1)); window=$((window - window / 20)); fi
    kill -9 $program
    wait $program 2>/dev/null
    took=$(until_state "$before")
    [ "$took" = never ] && { never=$((never + 1)); break; }
    [ "$took" -gt "$slowest" ] && slowest=$took
    killall -9 sleep 2>/dev/null
done
is runs $1 $runs
is never 0 $never
echo "$changed of $runs were killed with something changed; the slowest was put back within $slowest hundredths of a second"
[ $changed -gt $(($1 / 10)) ] && echo "ok changed" || echo "FAILED changed: only $changed"
"#;

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn two_hundred_killed_programs_leave_everything_as_it_was() {
    let Some(machine) = machine(Kernel::V6_1, Table::PStates) else { return };
    let script = format!(
        "dirty\nset -- 200\nCOMMAND='punctual run --governor performance --min-frequency -- sleep 1000'\n{KILL_OFTEN}\n\
         is journal '' \"$(cat /run/punctual/journal)\"\n"
    );
    let done = run(&machine, 4, &script);
    print!("{}", done.stdout);
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn killed_programs_leave_preferences_as_they_were() {
    let Some(machine) = machine(Kernel::V6_12, Table::Cppc) else { return };
    let script = format!(
        "echo powersave >$P/policy0/scaling_governor; echo power >$P/policy0/energy_performance_preference\n\
         echo powersave >$P/policy1/scaling_governor; echo balance_performance >$P/policy1/energy_performance_preference\n\
         set -- 20\nCOMMAND='punctual run --governor performance --min-frequency -- sleep 1000'\n{KILL_OFTEN}"
    );
    let done = run(&machine, 3, &script);
    print!("{}", done.stdout);
}

/// Governor threads as they are: number, policy and priority of each that serves CPU 1. Those that come and go are left out. `$raised` holds those that
/// are not under SCHED_OTHER.
const THREADS: &str = r#"
threads() {
    raised=
    for task in /proc/[0-9]*; do
        read -r stat <"$task/stat" || continue
        case $stat in *"(kworker/1:"[0-9]*")"*) ;; *) continue ;; esac
        set -- ${stat##*) }
        # Fields 40 and 41 of proc_pid_stat(5): the first behind the name is 3.
        shift 37
        [ "$1 $2" = "0 0" ] || raised="$raised ${task#/proc/}:$2:$1"
    done 2>/dev/null
}
# Starts a ramp that raises them, and waits until they are; says which.
raise() {
    # Under a policy that does not keep this shell from its CPU: it is the raising that counts here.
    punctual governor ramp ondemand --cpu 1 --policy other --rounds 1000 --loops 10 --work 100us --rest 50ms --governor-thread-priority 20 >/dev/null 2>&1 & program=$!
    for _ in $(seq 2000); do threads; [ -n "$raised" ] && break; usleep 2000; done
}
# Waits until none is raised, at most a minute; says how many hundredths of a second that took.
until_back() {
    since=$(uptime_10ms)
    while threads; [ -n "$raised" ]; do
        [ $(($(uptime_10ms) - since)) -gt 6000 ] && { echo never; return; }
        usleep 2000
    done
    echo $(($(uptime_10ms) - since))
}
"#;

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn governor_threads_raised_by_a_killed_program_go_back() {
    let Some(machine) = machine(Kernel::V6_1, Table::PStates) else { return };
    let script = format!(
        "{THREADS}{}",
        r#"
dirty; before=$(state); threads
is none-raised-before '' "$raised"
runs=0; seen=0; slowest=0; lost=0
while [ $runs -lt 20 ]; do
    runs=$((runs + 1))
    raise
    [ -n "$raised" ] && seen=$((seen + 1))
    usleep $(( $(od -An -N4 -tu4 /dev/urandom) % 100000 ))
    kill -9 $program; wait $program 2>/dev/null
    took=$(until_back)
    [ "$took" = never ] && { lost=1; break; }
    [ "$took" -gt "$slowest" ] && slowest=$took
    [ "$(until_state "$before")" = never ] && { lost=2; break; }
done
is lost "0" "$lost"
is seen-raised "20 of 20" "$seen of $runs"
echo "20 programs killed while governor threads were raised; the slowest was back within $slowest hundredths of a second"
# Both killed: the next start puts them back.
while [ -s /run/punctual/journal ] || [ -s /run/punctual/threads ]; do usleep 5000; done
raise
keeper=
for task in /proc/[0-9]*; do tr '\000' ' ' <$task/cmdline 2>/dev/null | grep -q 'punctual-keeper' && keeper="$keeper ${task#/proc/}"; done
kill -9 $keeper $program; wait $program 2>/dev/null
threads
[ -n "$raised" ] && echo "ok still-raised" || echo "FAILED still-raised: something else put them back"
has says-so "back under SCHED_OTHER" "$(punctual governor restore)"
threads
is restored '' "$raised"
is settings-restored "$before" "$(state)"
"#
    );
    let done = run(&machine, 7, &script);
    print!("{}", done.stdout);
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn with_the_keeper_killed_too_the_next_start_restores() {
    let Some(machine) = machine(Kernel::V6_12, Table::PStates) else { return };
    run(
        &machine,
        9,
        r#"
dirty; before=$(state)
both() {
    punctual run --governor performance -- sleep 1000 & program=$!
    while [ "$(cat $P/policy0/scaling_governor)" != performance ]; do usleep 5000; done
    keeper=
    for task in /proc/[0-9]*; do tr '\0' ' ' <$task/cmdline 2>/dev/null | grep -q 'punctual-keeper' && keeper="$keeper ${task#/proc/}"; done
    kill -9 $keeper $program; wait $program 2>/dev/null
    killall -9 sleep
}
both
[ "$(state)" != "$before" ] && echo "ok changed" || echo "FAILED changed: something else restored"
has says-so "put back for a program that ended" "$(punctual governor restore)"
is restored "$before" "$(state)"
both
has show-says-so "punctual governor restore" "$(punctual governor)"
punctual run --governor powersave --cpu 1 -- true 2>/tmp/said
has next-says-so "put back for a program that ended" "$(cat /tmp/said)"
is next-start "$before" "$(state)"
# A journal that somebody else wrote: it is not followed, and what is really there stays.
echo "punctual-cpufreq-1 $(cat /proc/sys/kernel/random/boot_id)" >/run/punctual/journal
echo "policy0/../../../../../../tmp/x scaling_governor y" >>/run/punctual/journal
has hostile "was not followed" "$(punctual governor restore)"
is hostile-untouched "$before" "$(state)"
is aside 1 "$(ls /run/punctual/journal.refused | wc -l)"
"#,
    );
}
