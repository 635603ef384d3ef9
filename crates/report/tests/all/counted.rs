//! The kernel's own counters beside a program's time: what is said of them, and when nothing is.

use crate::forms::shown;
use crate::lost::{MS, budget, of, screen, throttled};
use insta::assert_snapshot;
use punctual_record::{BudgetCheck, Counter, LossKind, LossPlace, MemoryLimit, Pressure, Resource, Run, Steal};
use punctual_report::Style;

#[test]
fn a_memory_limit_has_the_kernels_count_of_how_often_it_was_hit() {
    let of_limit = |kind, limit: Option<&str>, hits| {
        let (cgroup, limit) = (Some("/small".into()), limit.map(str::to_owned));
        of(kind, LossPlace { cgroup, limit, hits, ..LossPlace::default() })
    };
    let read = "server lost 2.00 s of 3.00 s in page faults that read again what was dropped, 90 times: ";
    assert_eq!(
        of_limit(LossKind::Reclaim, Some("64 MiB"), Some(20_112)),
        format!("{read}its memory limit (cgroup /small, 64 MiB) was hit 20 112 times.")
    );
    assert!(of_limit(LossKind::FaultSwap, Some("64 MiB"), Some(1)).ends_with("(cgroup /small, 64 MiB) was hit once."));
    for unknown in [of_limit(LossKind::Reclaim, Some("64 MiB"), None), of_limit(LossKind::Reclaim, None, Some(3))] {
        assert_eq!(unknown, format!("{read}the memory limit of cgroup /small is too small."));
    }
    let nobody = of(LossKind::Reclaim, LossPlace { hits: Some(3), ..LossPlace::default() });
    assert!(!nobody.contains("limit"), "{nobody}");
}

#[test]
fn memory_limits_and_pressure_have_tables_where_the_kernel_counts() {
    let full = |run: &Run| shown(run, &Style { width: 100, ..Style::default() });
    let mut run = throttled();
    assert!(!full(&run).contains("Pressure") && !full(&run).contains("Memory limits"));
    let (cgroup, limit_bytes, hits) = ("/small".to_owned(), 64 << 20, Some(20_112));
    budget(&mut run).memory = vec![MemoryLimit { cgroup, limit_bytes, hits, ..MemoryLimit::default() }];
    let (cgroup, some_ns, full_ns) = (Some("/small".to_owned()), 1900 * MS, Some(1800 * MS));
    budget(&mut run).pressure = vec![
        Pressure { cgroup: None, of: Resource::Cpu, some_ns: 40 * MS, full_ns: None },
        Pressure { cgroup, of: Resource::Memory, some_ns, full_ns },
    ];
    let text = full(&run);
    let tables = text.split_once("Memory limits").and_then(|(_, rest)| rest.split_once("Meanwhile")).unwrap().0;
    assert_snapshot!(tables);
}

#[test]
fn what_the_host_took_is_said_to_be_of_the_cpus_and_little_of_it_is_not_said() {
    let beside = |ms| {
        let mut run = throttled();
        budget(&mut run).steal = Some(Steal { cpus: 2, ns: ms * MS, of_ns: 6000 * MS });
        screen(&run).split_whitespace().collect::<Vec<_>>().join(" ").replace('\u{a0}', " ")
    };
    let said = "The host took 120 ms of the 6.00 s of its 2 CPUs (steal): from which thread is not counted.";
    assert!(beside(120).contains(said), "{}", beside(120));
    assert!(!beside(50).contains("host"), "{}", beside(50));
    assert!(!screen(&throttled()).contains("host"), "where it is not known, nothing is said");
}

#[test]
fn time_ready_may_have_that_in_which_the_cpu_was_not_awake_and_no_more() {
    let beside = |counted_ms| {
        let mut run = throttled();
        let (summed_ns, counted_ns, idle_ns) = (669 * MS, counted_ms * MS, 468 * MS);
        budget(&mut run).checks = vec![BudgetCheck { counter: Counter::Ready, summed_ns, counted_ns, idle_ns }];
        shown(&run, &Style::default()).contains("kernel's counter")
    };
    assert_eq!([669, 314, 201, 120, 900].map(beside), [false, false, false, true, true]);
}

#[test]
fn disagreements_and_what_was_not_kept_are_said_and_agreement_is_not() {
    let check = |summed_ns| BudgetCheck { counter: Counter::Running, summed_ns, counted_ns: 1000 * MS, idle_ns: 0 };
    let mut run = throttled();
    budget(&mut run).checks = vec![check(990 * MS)];
    assert!(!shown(&run, &Style::default()).contains("kernel's counter"));
    budget(&mut run).checks = vec![check(600 * MS)];
    budget(&mut run).dropped = 2;
    let text = screen(&run).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Time on a CPU is 600 ms here and 1.00 s by the kernel's counter."), "{text}");
    assert!(text.contains("2 stretches of time have few details"), "{text}");
    assert!(text.contains("Watching took 21.4 ms, 0.7 % of a CPU: 120 000 events at 178 ns."), "{text}");
}
