//! `punctual merge`: samples add up, and what each run contributed stays known.

use punctual_record::{Distribution, Run};

use crate::fixtures::{AS_FOUND, Folder, Made, USUAL, run, set};
use crate::punctual;

fn read(folder: &Folder, name: &str) -> Run {
    Run::from_json(std::fs::File::open(folder.path().join(name)).unwrap()).unwrap()
}

#[test]
fn samples_add_up() {
    let folder = Folder::new();
    let runs = [0, 1, 2].map(|i| run(Made { seed: i, minute: i, ..USUAL }));
    for (i, run) in runs.iter().enumerate() {
        folder.save(&format!("r{i}.json"), run);
    }
    let left = punctual(folder.path(), &["merge", "r0.json", "r1.json", "r2.json", "-o", "all.json"]);
    assert_eq!((left.code, left.stderr.as_str()), (Some(0), ""));
    let all = read(&folder, "all.json");
    assert_eq!((all.merged_from.len(), all.series.len(), all.elapsed_ns), (3, 3, 12_000_000_000));
    assert_eq!(all.host.kernel.as_deref(), Some(USUAL.kernel));
    let series = &all.series[0];
    assert_eq!((series.summary.count, series.rounds.len(), series.parts.len()), (15_000, 60, 3));
    assert_eq!(series.rounds.iter().map(|round| round.round).collect::<Vec<_>>(), (0..60).collect::<Vec<_>>());
    assert!(series.rounds.windows(2).all(|two| two[0].started_ns < two[1].started_ns));
    let mut whole = Distribution::from_series(&runs[0].series[0]).unwrap();
    for run in &runs[1..] {
        whole.merge(&Distribution::from_series(&run.series[0]).unwrap());
    }
    assert_eq!(series.summary.p99, whole.summary().p99);
    assert_eq!(series.summary.max, runs.iter().map(|run| run.series[0].summary.max.unwrap()).max());
    let cpu: f64 = runs.iter().map(|run| run.series[0].cpu_ns_per_op.unwrap()).sum::<f64>() / 3.0;
    assert!((series.cpu_ns_per_op.unwrap() - cpu).abs() < 1e-6);
    assert_eq!(series.parts[1].summary, runs[1].series[0].summary);

    // Step by step comes to the same.
    assert_eq!(punctual(folder.path(), &["merge", "r0.json", "r1.json", "-o", "two.json"]).code, Some(0));
    assert_eq!(punctual(folder.path(), &["merge", "two.json", "r2.json", "-o", "three.json"]).code, Some(0));
    let three = read(&folder, "three.json");
    assert_eq!(three.merged_from, all.merged_from);
    let plain =
        |run: &Run| run.series.iter().map(|s| (s.summary.p50, s.summary.count, s.parts.clone())).collect::<Vec<_>>();
    assert_eq!(plain(&three), plain(&all));
    // And a run that is in it already is noticed.
    let left = punctual(folder.path(), &["merge", "two.json", "r1.json", "-o", "-"]);
    assert_eq!(left.code, Some(1));
    assert!(left.stderr.contains("there already"), "{}", left.stderr);
}

/// Facts that differ are not those of the merged run, and conditions that differ stay apart.
#[test]
fn machines_stay_apart() {
    let folder = Folder::new();
    folder.save("a.json", &run(USUAL));
    let mut other = run(Made { seed: 2, minute: 1, kernel: "6.12.0-amd64", ..USUAL });
    other.conditions.push(set("SCHED_FIFO 40", "fifo:40", USUAL.slack));
    other.series[2].conditions = "SCHED_FIFO 40".into();
    folder.save("b.json", &other);
    assert_eq!(punctual(folder.path(), &["merge", "a.json", "b.json", "-o", "c.json"]).code, Some(0));
    let merged = read(&folder, "c.json");
    assert_eq!((merged.host.kernel.as_deref(), merged.host.clocksource.as_deref()), (None, Some("tsc")));
    assert_eq!(merged.conditions.len(), 2);
    let counts: Vec<(String, String, u64)> =
        merged.series.iter().map(|s| (s.subject.clone(), s.conditions.clone(), s.summary.count)).collect();
    assert!(counts.contains(&("nanosleep".into(), AS_FOUND.into(), 10_000)), "{counts:?}");
    assert!(counts.contains(&("futex".into(), "SCHED_FIFO 40".into(), 5_000)), "{counts:?}");
}

/// A merged run counts as the runs it was merged from.
#[test]
fn merged_runs_are_several_runs_a_side() {
    let folder = Folder::new();
    for (i, made) in (0..6u64).map(|i| (i, Made { seed: i, minute: i, ..USUAL })) {
        let late = if i % 2 == 1 { 1.1 } else { 1.0 };
        folder.save(&format!("r{i}.json"), &run(Made { nanosleep: late, ..made }));
    }
    for (files, to) in
        [(["r0.json", "r2.json", "r4.json"], "old.json"), (["r1.json", "r3.json", "r5.json"], "new.json")]
    {
        assert_eq!(punctual(folder.path(), &[&["merge"][..], &files, &["-o", to]].concat()).code, Some(0));
    }
    let left = punctual(folder.path(), &["compare", "old.json", "new.json"]);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(left.stdout.contains("3 runs") && left.stdout.contains("Interleaved"), "{}", left.stdout);
    assert!(left.stdout.contains("later"), "{}", left.stdout);
}
