//! A run that has something for every picture, and one whose names mean harm.

use std::collections::BTreeMap;

use punctual_record::experiment::{Other, ipc, ramp};
use punctual_record::{
    About, Experiment, NotMeasured, Notice, Param, Quantity, Recorder, Run, Series, SeriesId, SeriesTally, Typed, Usage,
};

fn series(experiment: Experiment, subject: &str, quantity: Quantity, median: i64) -> Series {
    let mut tally = SeriesTally::new();
    let mut recorder = Recorder::new();
    for round in 0..8u32 {
        recorder.clear();
        // The sixth round is a disturbed one.
        let factor = if round == 5 { 3 } else { 1 };
        crate::common::samples(median + i64::from(round) * median / 40, 400)
            .into_iter()
            .for_each(|ns| recorder.record(ns * factor));
        let usage = Usage {
            elapsed_ns: 40_000_000,
            cpu_ns: Some(4_000_000),
            voluntary: Some(400),
            involuntary: Some((factor - 1) as u64 * 9),
        };
        tally.add_round(round, u64::from(round) * 500_000_000, &recorder, usage);
    }
    tally.to_series(SeriesId {
        experiment,
        subject: subject.into(),
        about: About::default(),
        conditions: "SCHED_OTHER".into(),
        quantity,
    })
}

fn ipc() -> Vec<Series> {
    let asked = |size: u64, mode, pair: Option<(u32, u32)>| {
        let parameters = ipc::Parameters {
            size,
            mode,
            place: ipc::Placement::TwoCpus,
            receive: ipc::Receive::Block,
            sender_cpu: pair.map(|(from, _)| from),
            receiver_cpu: pair.map(|(_, to)| to),
            interval_ns: None,
            depth: None,
        };
        Experiment::Ipc(Typed::asked(parameters))
    };
    let mut all = Vec::new();
    for (subject, base) in [("memfd-sysv-sem", 6_000), ("pipe", 5_000), ("ring", 180)] {
        for size in [8, 64, 1024, 16_384, 65_536] {
            let experiment = asked(size, ipc::Mode::PingPong, None);
            all.push(series(experiment, subject, Quantity::RoundTrip, base + size as i64 / 8));
        }
    }
    for from in 0..4_u32 {
        for to in 0..4 {
            let experiment = asked(64, ipc::Mode::Sporadic, Some((from, to)));
            all.push(series(experiment, "ring", Quantity::OneWay, 90 + 40 * i64::from(from.abs_diff(to))));
        }
    }
    all
}

fn ramp(governor: &str, from: i64, until: usize) -> Series {
    let of_round = |round: usize| {
        (0..100).map(move |i| if i < until + round { from - (from - 750_000) * i as i64 / 200 } else { 750_000 } + (i as i64 % 7) * 300)
    };
    let samples: Vec<i64> = (0..3).flat_map(of_round).collect();
    let parameters = ramp::Parameters { loops: 100, ..ramp::Parameters::default() };
    let metrics = ramp::Metrics { to_full_speed_ns: Some(until as i64 * from), ..ramp::Metrics::default() };
    let experiment = Experiment::Ramp(Typed { parameters, metrics });
    let mut sorted = samples.clone();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    Series { samples: Some(samples), ..series(experiment, governor, Quantity::Loop, median) }
}

/// The waits of the other tests, with the one figure that a histogram cannot be used without.
pub(crate) fn waits() -> Run {
    let mut run = crate::common::plain_run();
    run.series.iter_mut().for_each(|series| series.summary.stdev = Some(1000.0));
    run
}

/// Something for every picture.
pub(crate) fn everything() -> Run {
    let mut run = crate::common::lever_run(&["punctual", "checkup"]);
    run.series.iter_mut().for_each(|series| series.summary.stdev = Some(1000.0));
    run.series.extend(waits().series);
    run.series.extend(ipc());
    run.series.extend([
        ramp("performance", 750_000, 0),
        ramp("ondemand", 2_300_000, 18),
        ramp("powersave", 2_300_000, 100),
    ]);
    run.notices = waits().notices;
    run.not_measured = waits().not_measured;
    run
}

/// A check-up of a busy machine, at least of the size that check-ups have.
pub(crate) fn checkup() -> Run {
    let mut run = crate::common::remedies_run(52_200, 52_100, 20_000);
    let mut longer = run.series.clone();
    for series in &mut longer {
        if let Experiment::Wait(wait) = &mut series.experiment {
            wait.parameters.asked_ns = 1_000_000;
            wait.metrics.effective_ns = Some(1_000_000);
        }
    }
    run.series.extend(longer);
    run.series.iter_mut().for_each(|series| series.summary.stdev = Some(1000.0));
    run.series.extend(ipc());
    run.series.push(ramp("as found", 750_000, 0));
    run.notices = vec![
        Notice::BusyMachine { share: 0.46 },
        Notice::Unsteady { series: 16, judged: 32 },
        Notice::Steal { share: 0.023 },
    ];
    run
}

/// Every name tries to become markup.
pub(crate) fn hostile() -> Run {
    const NAME: &str = "<img src=x onerror=pwned=1>";
    const SCRIPT: &str = "</script><script>pwned=1</script><!--";
    let mut run = waits();
    run.command = vec!["punctual".into(), NAME.into(), SCRIPT.into()];
    run.tool.version = SCRIPT.into();
    run.host.kernel = Some(NAME.into());
    run.host.cpu_model = Some("\" onload=\"pwned=1".into());
    for (i, series) in run.series.iter_mut().enumerate() {
        series.subject = format!("{NAME}{SCRIPT}'\"><b>{i}\t\n\u{202e}");
        series.conditions = SCRIPT.into();
    }
    let parameters =
        BTreeMap::from([("polls".to_owned(), Param::Text(NAME.into())), (NAME.to_owned(), Param::Real(1e300))]);
    let metrics = BTreeMap::from([(NAME.to_owned(), Param::Text(SCRIPT.into()))]);
    let name = format!("{NAME}{}", "x".repeat(5000));
    run.series[0].experiment = Experiment::Other(Other { name, parameters, metrics });
    run.series[1].histogram = Some("AAAA".into());
    run.series[2].summary.count = u64::MAX;
    run.series[3].summary.min = Some(i64::MIN);
    run.series[3].summary.max = Some(i64::MAX);
    run.series[4].samples = Some(vec![i64::MIN, i64::MAX]);
    run.series[4].quantity = Quantity::Loop;
    let loops = ramp::Parameters { loops: u32::MAX, work_ns: i64::MIN, rest_ns: i64::MAX };
    run.series[4].experiment = Experiment::Ramp(Typed::asked(loops));
    run.series[5].cpu_share = Some(1e300);
    run.series[6].experiment = ipc().swap_remove(0).experiment;
    run.series[7].experiment = ipc().swap_remove(0).experiment;
    for (series, cpus) in [(6, (None, Some(0))), (7, (Some(u32::MAX), Some(0)))] {
        let Experiment::Ipc(ipc) = &mut run.series[series].experiment else { unreachable!() };
        ipc.parameters.size = u64::MAX;
        (ipc.parameters.sender_cpu, ipc.parameters.receiver_cpu) = cpus;
    }
    run.notices.push(Notice::Other { text: SCRIPT.into() });
    run.not_measured.push(NotMeasured {
        experiment: NAME.into(),
        subject: SCRIPT.into(),
        conditions: Some(NAME.into()),
        parameters: BTreeMap::new(),
        why: SCRIPT.into(),
        remedy: Some(NAME.into()),
    });
    run
}
