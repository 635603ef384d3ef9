//! A run that has something for every picture, and one whose names mean harm.

use std::collections::BTreeMap;

use punctual_record::{NotMeasured, Notice, Param, Quantity, Recorder, Run, Series, SeriesId, SeriesTally, Usage};

fn series(experiment: &str, subject: &str, quantity: Quantity, parameters: &[(&str, Param)], median: i64) -> Series {
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
        experiment: experiment.into(),
        subject: subject.into(),
        conditions: "other".into(),
        parameters: parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        quantity,
    })
}

fn ipc() -> Vec<Series> {
    let mut all = Vec::new();
    for (subject, base) in [("posix_mq", 6_000), ("pipe", 5_000), ("ring", 180)] {
        for size in [8, 64, 1024, 16_384, 65_536] {
            let parameters = [("size", Param::Int(size)), ("mode", Param::Text("ping-pong".into()))];
            all.push(series("ipc", subject, Quantity::RoundTrip, &parameters, base + size / 8));
        }
    }
    for from in 0..4 {
        for to in 0..4 {
            let parameters = [
                ("size", Param::Int(64)),
                ("mode", Param::Text("sporadic".into())),
                ("sender_cpu", Param::Int(from)),
                ("receiver_cpu", Param::Int(to)),
            ];
            all.push(series("ipc", "ring", Quantity::OneWay, &parameters, 90 + 40 * (from - to).abs()));
        }
    }
    all
}

fn ramp(governor: &str, from: i64, until: usize) -> Series {
    let of_round = |round: usize| {
        (0..100).map(move |i| if i < until + round { from - (from - 750_000) * i as i64 / 200 } else { 750_000 } + (i as i64 % 7) * 300)
    };
    let samples: Vec<i64> = (0..3).flat_map(of_round).collect();
    let parameters = [("loops", Param::Int(100)), ("to_full_speed_ns", Param::Int(until as i64 * from))];
    Series { samples: Some(samples), ..series("ramp", governor, Quantity::Loop, &parameters, 800_000) }
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
        series.parameters.insert("polls".into(), Param::Text(format!("{NAME}{i}")));
        series.parameters.insert(NAME.into(), Param::Real(1e300));
    }
    run.series[0].experiment = format!("{NAME}{}", "x".repeat(5000));
    run.series[1].histogram = Some("AAAA".into());
    run.series[2].summary.count = u64::MAX;
    run.series[3].summary.min = Some(i64::MIN);
    run.series[3].summary.max = Some(i64::MAX);
    run.series[4].samples = Some(vec![i64::MIN, i64::MAX]);
    run.series[4].quantity = Quantity::Loop;
    run.series[4].parameters.insert("loops".into(), Param::Int(i64::MIN));
    run.series[5].cpu_share = Some(1e300);
    run.series[6].parameters.insert("size".into(), Param::Int(i64::MAX));
    run.series[7].parameters.insert("sender_cpu".into(), Param::Int(i64::MAX));
    run.series[7].parameters.insert("receiver_cpu".into(), Param::Int(i64::MIN));
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
