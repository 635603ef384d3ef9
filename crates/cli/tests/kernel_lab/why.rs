//! Where a program's time goes, by the sums that each kernel makes.

use punctual_record::{BudgetSource, Causes, Spent};
use punctual_vm::{Kernel, Machine, Table};

use crate::support::{machine, run, written};

/// What `why` finds out about a program that sleeps for 300 ms.
fn watched(machine: &Machine) -> Causes {
    let script = r#"
punctual why --json /tmp/run.json -- sleep 0.3 >/tmp/run.txt 2>&1
is status 0 $?
echo "BEGIN RUN"; cat /tmp/run.json; echo; echo "END RUN"
"#;
    written(&run(machine, 1, script).stdout).causes.unwrap()
}

/// Each kernel has fields of its own, and a verifier of its own.
#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn each_kernel_makes_the_sums_of_a_program() {
    for kernel in Kernel::ALL {
        let Some(machine) = machine(kernel, Table::PStates) else { return };
        let budget = watched(&machine).budget.unwrap();
        assert_eq!(budget.source, BudgetSource::Kernel, "{kernel}");
        let slept: u64 = budget
            .threads
            .iter()
            .flat_map(|thread| &thread.parts)
            .filter(|part| part.spent == Spent::Asleep)
            .map(|part| part.ns)
            .sum();
        assert!(slept > 250_000_000, "{kernel}: asked for 300 ms, {slept} ns asleep");
    }
}

/// A kernel under lockdown lets no program read its memory: the counters are left, and the screen says why.
#[test]
#[ignore = "slow: run by the gate, which has the kernels"]
fn a_kernel_under_lockdown_is_named() {
    let Some(machine) = machine(Kernel::V6_12, Table::PStates) else { return };
    let machine = Machine { append: "lsm=lockdown,capability lockdown=confidentiality".into(), ..machine };
    let causes = watched(&machine);
    assert_eq!(causes.budget.as_ref().map(|budget| budget.source), Some(BudgetSource::Files));
    assert!(causes.missing.iter().any(|unseen| unseen.why.contains("kernel_lockdown(7)")), "{:?}", causes.missing);
}
