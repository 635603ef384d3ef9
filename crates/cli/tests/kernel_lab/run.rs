//! `punctual run`, as seen from inside the program, and what ends or disturbs it.

use punctual_vm::{Kernel, Table};

use crate::support::{machine, run};

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn the_program_sees_the_conditions_it_was_given() {
    let Some(machine) = machine(Kernel::V6_1, Table::PStates) else { return };
    run(
        &machine,
        12,
        r#"
before=$(state)
inside=$(punctual run --policy fifo:40 --cpu 1 --timer-slack 1us --governor performance -- sh -c 'chrt -p $$; taskset -p $$; cat /proc/self/timerslack_ns; cat /sys/devices/system/cpu/cpufreq/policy1/scaling_governor')
has policy "SCHED_FIFO" "$inside"
has priority "priority: 40" "$inside"
has affinity "mask: 2" "$inside"
has governor "performance" "$inside"
is restored "$before" "$(state)"
is nice 5 "$(punctual run --nice 5 -- cut -d' ' -f19 /proc/self/stat)"
# A program under SCHED_DEADLINE may not fork, so it looks at itself.
is deadline 6 "$(punctual run --policy deadline:1ms/5ms/10ms -- cut -d' ' -f41 /proc/self/stat)"
has batch SCHED_BATCH "$(punctual run --policy batch -- sh -c 'chrt -p $$')"
has memory unlimited "$(punctual run --lock-memory -- sh -c 'ulimit -l')"
punctual run --governor performance -- sh -c 'exit 7'; is status 7 $?
punctual run --governor performance -- sh -c 'kill -TERM $$'; is signal 143 $?
is still-restored "$before" "$(state)"
"#,
    );
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_time_slice_is_set_where_the_kernel_has_one() {
    for kernel in [Kernel::V6_1, Kernel::V6_12, Kernel::V7_3] {
        let Some(machine) = machine(kernel, Table::PStates) else { return };
        let script = if kernel == Kernel::V6_1 {
            r#"
said=$(punctual run --slice 200us -- echo it ran 2>&1)
has refused "use Linux 6.12 or later" "$said"
has went-on "it ran" "$said"
"#
        } else {
            r#"
slice() { set -- $(grep se.slice /proc/self/sched); echo $3; }
has set 200000 "$(punctual run --slice 200us -- grep se.slice /proc/self/sched)"
[ "$(slice)" != 200000 ] && echo ok own || echo "FAILED own: $(slice)"
"#
        };
        run(&machine, 2, script);
    }
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn signals_are_passed_on_and_everything_is_put_back() {
    let Some(machine) = machine(Kernel::V6_12, Table::PStates) else { return };
    run(
        &machine,
        9,
        r#"
dirty; before=$(state)
for signal in TERM HUP USR1; do
    punctual run --governor performance -- sh -c "trap 'echo got $signal >/tmp/$signal; exit 9' $signal; touch /tmp/ready; while :; do usleep 10000; done" & program=$!
    while [ ! -e /tmp/ready ]; do usleep 5000; done; rm /tmp/ready
    kill -$signal $program; wait $program
    is status-$signal 9 $?
    is got-$signal "got $signal" "$(cat /tmp/$signal)"
    is restored-$signal "$before" "$(state)"
done
"#,
    );
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn two_at_once_and_a_cpu_that_goes_offline() {
    let Some(machine) = machine(Kernel::V6_1, Table::PStates) else { return };
    run(
        &machine,
        8,
        r#"
dirty; before=$(state)
punctual run --governor performance -- sleep 1000 & program=$!
while [ "$(cat $P/policy1/scaling_governor)" != performance ]; do usleep 5000; done
said=$(punctual governor set powersave 2>&1); is second 1 $?
has names-holder "punctual (process $program)" "$said"
is first-keeps performance "$(cat $P/policy1/scaling_governor)"
killall sleep; wait $program
is restored "$before" "$(state)"
said=$(punctual run --governor performance -- sh -c 'echo 0 >/sys/devices/system/cpu/cpu1/online' 2>&1)
has offline "policy1 scaling_governor could not be put back: it was ondemand" "$said"
has offline-remedy "online again" "$said"
echo 1 >/sys/devices/system/cpu/cpu1/online
punctual governor restore >/dev/null
is after-online ondemand "$(cat $P/policy1/scaling_governor)"
has offline-asked "there is" "$(echo 0 >/sys/devices/system/cpu/cpu1/online; punctual run --cpu 1 -- true 2>&1; echo there is $?)"
"#,
    );
}
