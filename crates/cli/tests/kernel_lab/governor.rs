//! Governors, preferences, P-states, ramp and switch.

use punctual_record::Param;
use punctual_vm::{Kernel, Machine, Table, User};

use crate::support::{machine, run, written};

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn every_governor_is_set_read_back_and_restored() {
    let Some(machine) = machine(Kernel::V6_1, Table::PStates) else { return };
    run(
        &machine,
        23,
        r#"
dirty; before=$(state)
for governor in performance powersave ondemand conservative userspace schedutil; do
    said=$(punctual governor set $governor 2>&1)
    is "set-$governor" "$governor $governor" "$(echo $(cat $P/policy*/scaling_governor))"
done
has undo "punctual governor restore" "$said"
punctual governor restore >/dev/null
is restored "$before" "$(state)"
punctual governor set powersave --cpu 1 >/dev/null
is one-cpu "userspace powersave" "$(echo $(cat $P/policy*/scaling_governor))"
punctual governor restore >/dev/null
is restored-one "$before" "$(state)"
punctual governor set userspace --speed 1.4GHz >/dev/null
is speed "1400000 1400000" "$(echo $(cat $P/policy*/scaling_setspeed))"
punctual governor restore >/dev/null
is restored-speed "$before" "$(state)"
said=$(punctual governor set userspace --speed 9GHz 2>&1)
is too-fast 1 $?
has too-fast-limits "GHz: it takes " "$said"
said=$(punctual governor set interactive 2>&1)
is unknown-status 1 $?
has unknown-offers "only userspace, conservative" "$said"
said=$(punctual governor set performance --cpu 7 2>&1)
has no-such-cpu "no frequency policy has CPU 7" "$said"
is untouched "$before" "$(state)"
has nothing "Nothing to restore" "$(punctual governor restore)"
said=$(punctual run --require --min-frequency=9GHz -- echo it ran 2>&1)
is out-of-range-status 1 $?
has out-of-range "it takes 1GHz to 3GHz" "$said"
has out-of-range-asked "cannot be 9GHz" "$said"
is still-untouched "$before" "$(state)"
"#,
    );
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn the_p_state_is_really_written() {
    let Some(machine) = machine(Kernel::V6_12, Table::PStates) else { return };
    // The lab's CPUs keep the P-state they were told in a port each: 1 is the fastest, 6 the slowest.
    run(
        &machine,
        4,
        r#"
port() { dd if=/dev/port bs=1 skip=$1 count=1 2>/dev/null | hexdump -e '1/1 "%u"'; }
is slowest "6 6" "$(punctual run --governor powersave -- true; punctual governor set powersave >/dev/null; echo $(port 129) $(port 130))"
punctual governor set performance >/dev/null
is fastest "1 1" "$(port 129) $(port 130)"
punctual governor restore >/dev/null
echo powersave >$P/policy1/scaling_governor
punctual run --governor performance --cpu 1 -- dd if=/dev/port bs=1 skip=130 count=1 of=/tmp/during 2>/dev/null
is during 1 "$(hexdump -e '1/1 "%u"' /tmp/during)"
is afterwards 6 "$(port 130)"
"#,
    );
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_speed_is_kept_until_it_is_restored() {
    let Some(machine) = machine(Kernel::V6_12, Table::PStates) else { return };
    // As ports: 3.0, 2.6, 2.2, 1.8, 1.4 and 1.0 GHz are 1 to 6. CPU 1 is limited to 1.4 to 2.2 GHz.
    run(
        &machine,
        15,
        r#"
ports() { for port in 129 130; do dd if=/dev/port bs=1 skip=$port count=1 2>/dev/null | hexdump -e '1/1 "%u "'; done; }
dirty; before=$(state)
is found 4 "$(ports | cut -d' ' -f1)"
said=$(punctual governor set userspace --speed 1.4GHz 2>&1)
is status 0 $?
has undo "punctual governor restore" "$said"
is kept "5 5 " "$(ports)"
taskset -c 0 sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done'
is kept-under-work "5 5 " "$(ports)"
said=$(punctual governor set userspace --speed 1.5GHz 2>&1)
is between-steps-status 1 $?
has between-steps-offers "only 1GHz, 1.4GHz" "$said"
said=$(punctual governor set userspace --speed 2.6GHz 2>&1)
is beyond-limit-status 1 $?
has beyond-limit "it takes 1.4GHz to 2.2GHz" "$said"
said=$(punctual governor set performance --speed 1.4GHz 2>&1)
is other-governor-status 2 $?
has other-governor "only the governor userspace keeps a speed" "$said"
is untouched "5 5 " "$(ports)"
punctual governor set userspace --speed 2.2GHz --cpu 1 >/dev/null
is one-cpu "5 3 " "$(ports)"
punctual governor restore >/dev/null
is restored "$before" "$(state)"
is restored-port 4 "$(ports | cut -d' ' -f1)"
"#,
    );
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn preferences_are_set_and_restored() {
    let Some(machine) = machine(Kernel::V6_12, Table::Cppc) else { return };
    run(
        &machine,
        8,
        r#"
echo powersave >$P/policy0/scaling_governor; echo balance_power >$P/policy0/energy_performance_preference
before=$(state)
has shown balance_power "$(punctual governor)"
during=$(punctual run --epp power --cpu 0 -- cat $P/policy0/energy_performance_preference)
is during power "$during"
is afterwards "$before" "$(state)"
# Under performance the driver forces the preference to performance: it has to come back with the governor.
during=$(punctual run --governor performance --min-frequency --cpu 0 -- cat $P/policy0/energy_performance_preference $P/policy0/scaling_min_freq)
has performance performance "$during"
is after-performance "$before" "$(state)"
during=$(punctual run --governor powersave --epp 77 --cpu 0 -- cat $P/policy0/energy_performance_preference)
# This driver takes names only, and says so; others take 0 to 255.
has raw-refused balance_power "$during"
is after-raw "$before" "$(state)"
has no-module "modprobe cpufreq_ondemand" "$(punctual governor set ondemand 2>&1)"
"#,
    );
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn ramp_and_switch_run_to_the_end() {
    let Some(machine) = machine(Kernel::V6_1, Table::PStates) else { return };
    let done = run(
        &machine,
        9,
        r#"
dirty; before=$(state)
punctual governor ramp --full --rounds 1 --loops 40 --rest 100ms --csv /tmp/ramp.csv --json /tmp/ramp.json >/tmp/ramp.txt 2>&1
is ramp 0 $?
is ramp-restored "$before" "$(state)"
is columns "loop,performance,userspace,schedutil,ondemand,conservative,powersave" "$(head -1 /tmp/ramp.csv | tr -d '\r')"
is rows 41 "$(wc -l </tmp/ramp.csv)"
punctual governor switch --full --rounds 1 --switches 3 --json /tmp/switch.json >/tmp/switch.txt 2>&1
switched=$?
is switch-restored "$before" "$(state)"
# An emulated CPU keeps its speed: nothing to see is no success.
is switch "$(grep -q '"quantity": *"settling"' /tmp/switch.json && echo 0 || echo 1)" $switched
# There and back.
is writes 2 "$(grep -c '"quantity": *"call_cost"' /tmp/switch.json)"
has wrong-governor "offers no governor" "$(punctual governor ramp nosuch --rounds 1 --loops 5 --rest 1ms 2>&1 | tr -s ' \n' ' ')"
# Raised for the run, and back.
punctual governor ramp ondemand --full --rounds 2 --rest 200ms --cpu 1 --policy fifo:10 --governor-thread-priority 20 >/tmp/raised.txt 2>&1
left=
for task in /proc/[0-9]*; do
    read -r _ name _ <"$task/stat" 2>/dev/null
    case $name in '(kworker/1:'[0-9]*) chrt -p ${task#/proc/} | grep -q SCHED_FIFO && left="$left $name" ;; esac
done
is threads-back "" "$left"
cat /tmp/ramp.txt /tmp/switch.txt /tmp/raised.txt
"#,
    );
    assert!(done.stdout.contains("ramp: loops of 750"), "{}", done.stdout);
    // What the threads are called decides where the line breaks.
    let said = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("these kernel threads were raised, and put back: kworker/1:"), "{}", done.stdout);
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_boost_raises_and_lets_go_and_tells_what_it_cost() {
    let Some(machine) = machine(Kernel::V6_1, Table::PStates) else { return };
    let done = run(
        &machine,
        11,
        r#"
echo powersave >$P/policy0/scaling_governor; echo conservative >$P/policy1/scaling_governor
before=$(state)
# Time at the fastest and the slowest state, in hundredths of a second.
at() { while read -r khz ticks; do [ "$khz" = $2 ] && echo $ticks; done <$P/policy$1/stats/time_in_state; }
fast=$(at 0 3000000); slow=$(at 0 1000000)
punctual governor boost --full --cpu 0 --period 150ms --work 200us --deadline 140ms --periods 50 --rounds 1 --rest 50ms --json /tmp/boost.json >/tmp/boost.txt 2>/tmp/notices.txt
is status 0 $?
is restored "$before" "$(state)"
is journal '' "$(cat /run/punctual/journal)"
[ "$(at 0 3000000)" -gt "$fast" ] && echo ok fast-counted || echo "FAILED fast-counted: $fast"
[ "$(at 0 1000000)" -gt "$slow" ] && echo ok slow-counted || echo "FAILED slow-counted: $slow"
is subjects 3 "$(grep -c '"quantity": *"response"' /tmp/boost.json)"
for lever in governor min-frequency; do
    punctual governor boost --full --by $lever --cpu 1 --period 20ms --work 200us --periods 10 --rounds 1 --rest 20ms >/tmp/$lever.txt 2>&1
    is $lever-restored "0 $before" "$? $(state)"
done
said=$(punctual governor boost --full --by epp --cpu 0 --period 20ms --work 200us --periods 2 --rounds 1 2>&1 | tr -s ' \n' ' ')
has no-such-lever "no energy-performance preference" "$said"
said=$(punctual governor boost --full --by clamp --cpu 0 --period 20ms --work 200us --periods 2 --rounds 1 2>&1 | tr -s ' \n' ' ')
has no-clamp "takes no notice of utilisation clamps" "$said"
# Under schedutil the kernel itself has the word: these are built without CONFIG_UCLAMP_TASK.
echo schedutil >$P/policy0/scaling_governor
said=$(punctual governor boost --full --by clamp --cpu 0 --period 20ms --work 200us --periods 2 --rounds 1 2>&1 | tr -s ' \n' ' ')
has clamp-refused "utilisation clamp: sched_setattr(UTIL_CLAMP_MIN): Operation not supported" "$said"
echo "BEGIN RUN"; cat /tmp/boost.json; echo; echo "END RUN"
cat /tmp/boost.txt /tmp/notices.txt /tmp/governor.txt /tmp/min-frequency.txt
"#,
    );
    let result = written(&done.stdout);
    let series_of = |name: &str| result.series.iter().find(|series| series.subject == name).unwrap();
    let number = |name: &str, key: &str| match series_of(name).experiment.metrics().get(key) {
        Some(Param::Int(n)) => *n as f64,
        Some(Param::Real(n)) => *n,
        other => panic!("{name} {key}: {other:?}"),
    };
    for name in ["as found", "boost", "performance"] {
        assert_eq!(series_of(name).samples.as_ref().unwrap().len(), 50, "{name}");
        assert_eq!(number(name, "met") + number(name, "missed"), 50.0, "{name}");
    }
    assert_eq!(series_of("as found").experiment.metrics()["governor"], Param::Text("powersave".into()));
    assert_eq!(series_of("boost").experiment.metrics()["lever"], Param::Text("lower frequency limit".into()));
    assert_eq!((number("boost", "switches"), number("boost", "full_khz")), (50.0, 3_000_000.0));
    assert!(number("boost", "learned") > 0.0 && number("boost", "lead_ns") > 0.0);
    // What the kernel counted: always slow, always fast, and in between.
    let clock = |name| number(name, "mean_khz");
    assert_eq!((clock("as found"), clock("performance")), (1_000_000.0, 3_000_000.0));
    assert!(clock("boost") > 1_000_000.0 && clock("boost") < 3_000_000.0, "{}", clock("boost"));
    for part in ["as found (powersave)", "The boost used the lower frequency limit, raised", "3.00 GHz"] {
        assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
    }
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_boost_clamps_where_the_kernel_has_utilisation_clamps() {
    let Some(machine) = machine(Kernel::V7_3, Table::PStates) else { return };
    let done = run(
        &machine,
        5,
        r#"
for p in 0 1; do echo schedutil >$P/policy$p/scaling_governor; done
before=$(state)
at() { while read -r khz ticks; do [ "$khz" = $1 ] && echo $ticks; done <$P/policy0/stats/time_in_state; }
fast=$(at 2600000)
punctual governor boost --full --by clamp --cpu 0 --period 100ms --work 200us --deadline 90ms --periods 30 --rounds 1 --rest 50ms --json /tmp/boost.json >/tmp/boost.txt 2>&1
is status 0 $?
is restored "$before" "$(state)"
is journal '' "$(cat /run/punctual/journal 2>/dev/null)"
has told "The boost used the utilisation clamp" "$(tr -s ' \n' ' ' </tmp/boost.txt)"
# A clamp asks schedutil for more than this little work does.
[ "$(at 2600000)" -gt "$fast" ] && echo ok fast-counted || echo "FAILED fast-counted: $fast"
echo "BEGIN RUN"; cat /tmp/boost.json; echo; echo "END RUN"
"#,
    );
    let result = written(&done.stdout);
    let boost = result.series.iter().find(|series| series.subject == "boost").unwrap();
    assert_eq!(boost.experiment.metrics()["lever"], Param::Text("utilisation clamp".into()));
    assert_eq!(boost.experiment.metrics()["governor"], Param::Text("schedutil".into()));
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_killed_boost_leaves_nothing_raised() {
    let Some(machine) = machine(Kernel::V6_12, Table::PStates) else { return };
    run(
        &machine,
        2,
        r#"
echo powersave >$P/policy0/scaling_governor; echo conservative >$P/policy1/scaling_governor
before=$(state)
punctual governor boost --cpu 0 --by governor --period 20ms --work 5ms --periods 1000 >/dev/null 2>&1 & program=$!
seen=
runs() { readlink /proc/$program/exe >/dev/null; }
for turn in 1 2 3 4 5 6; do while runs && [ "$(state)" = "$before" ]; do usleep 1000; done; while runs && [ "$(state)" != "$before" ]; do usleep 1000; done; done
while runs && [ "$(state)" = "$before" ]; do :; done
kill -9 $program; wait $program 2>/dev/null
took=$(until_state "$before")
[ "$took" != never ] && echo ok back || echo "FAILED back: $(state)"
is again-nothing "Nothing to restore." "$(while [ -s /run/punctual/journal ]; do usleep 5000; done; punctual governor restore)"
"#,
    );
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_policy_of_several_cpus_is_one_row_and_one_setting() {
    let Some(machine) = machine(Kernel::V6_1, Table::SharedPStates) else { return };
    run(
        &machine,
        4,
        r#"
is one "$P/policy0" "$(echo $P/policy*)"
has shown "0-1" "$(punctual governor)"
punctual governor set powersave --cpu 1 >/dev/null
is set powersave "$(cat $P/policy0/scaling_governor)"
punctual governor restore >/dev/null
is restored schedutil "$(cat $P/policy0/scaling_governor)"
"#,
    );
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_plain_user_is_told_what_is_needed() {
    let Some(machine) = machine(Kernel::V6_12, Table::PStates) else { return };
    run(
        &Machine { user: User::Plain, ..machine },
        8,
        r#"
before=$(state)
has shown acpi-cpufreq "$(punctual governor)"
said=$(punctual governor set performance 2>&1); is status 1 $?
has remedy sudo "$said"
said=$(punctual run --governor performance --policy fifo:40 -- echo it ran 2>&1); is ran 0 $?
has told "Permission denied" "$said"
has went-on "it ran" "$said"
said=$(punctual run --require --governor performance -- touch /tmp/ran 2>&1)
is required "1 no" "$? $([ -e /tmp/ran ] && echo yes || echo no)"
is untouched "$before" "$(state)"
"#,
    );
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_read_only_sys_is_named_as_such() {
    let Some(machine) = machine(Kernel::V6_1, Table::PStates) else { return };
    run(
        &machine,
        2,
        r#"
mount -o remount,ro /sys
said=$(punctual governor set performance 2>&1); is status 1 $?
has named "read-only, as in a container" "$said"
"#,
    );
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_real_time_kernel_runs_the_whole_check_up() {
    whole_check_up(Kernel::V6_1Rt);
}

#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn the_newest_kernels_run_the_whole_check_up() {
    whole_check_up(Kernel::V7_3);
    whole_check_up(Kernel::V7_3Rt);
}

fn whole_check_up(kernel: Kernel) {
    let Some(mut machine) = machine(kernel, Table::PStates) else { return };
    let script = r#"
dirty; before=$(state)
punctual --full --json /tmp/run.json >/tmp/run.txt 2>/tmp/notices.txt
is status 0 $?
is real-time 1 "$(grep -c '"preempt_rt": *REAL_TIME' /tmp/run.json)"
is complete 1 "$(grep -c '"complete": *true' /tmp/run.json)"
has frequency '"experiment": "ramp"' "$(cat /tmp/run.json)"
has tried '"subject": "performance"' "$(cat /tmp/run.json)"
has told "governor performance instead of" "$(tr -s ' \n' ' ' </tmp/run.txt)"
is untouched "$before" "$(state)"
cat /tmp/run.txt /tmp/notices.txt
"#;
    machine.tables.push(Table::CStates);
    let done = run(&machine, 7, &script.replace("REAL_TIME", &kernel.is_real_time().to_string()));
    assert!(done.stdout.contains("ramp: loops of 750"), "{}", done.stdout);
}
