//! `punctual calibrate`: refusals, and results on the real kernel.

use punctual_record::Param;

use crate::support::{measured, refusals, run};

/// Every refusal: status 2, nothing on stdout, and this on stderr.
#[test]
fn refusals_say_what_would_be_accepted() {
    let cases: &[&[&str]] = &[
        &["calibrate", "nosuch"],
        &["calibrate", "nanoslep"],
        &["calibrate", "kind:spin"],
        &["calibrate", "--duration", "0s"],
        &["calibrate", "--duration", "-1s"],
        &["calibrate", "--check", "-1us"],
        &["calibrate", "--check", "18446744073709551615s"],
        &["calibrate", "clock_nanosleep_abs"],
        &["calibrate", "spin_clock"],
        &["calibrate", "hybrid"],
        &["calibrate", "--check", "0us"],
        &["calibrate", "--check", "1s"],
        &["calibrate", "--samples", "2"],
    ];
    insta::assert_snapshot!(refusals(cases));
}

#[test]
fn watching_prints_what_each_method_shows_so_far() {
    let left = run(&["calibrate", "--watch", "--samples", "20", "--no-keep"]);
    let said = left.stdout.lines().next().unwrap_or_default();
    assert!(said.contains(" s  nanosleep (as found): a sleep adds "), "{}{}", left.stdout, left.stderr);
}

#[test]
fn a_calibration_has_its_figures_and_its_proof() {
    // No wait is shortened by more than it takes: where sleeps add much, it has to be longer.
    punctual_testing::undisturbed(|longer| calibrates(u64::from(longer) * 20, u64::from(longer) * 100));
}

/// With this many samples, and this wait. Other programs can make slack of 1 ns look longer than 50 us, and a sleep add nothing.
fn calibrates(samples: u64, check_us: u64) -> Result<(), punctual_testing::Disturbed> {
    let (amount, check) = (samples.to_string(), format!("{check_us}us"));
    let slack = ["calibrate", "--timer-slack", "50us,1ns"];
    let result = measured(&[&slack[..], &["--samples", &amount, "--check", &check, "--quiet"]].concat()).0;
    let figure = |name: &str, conditions: &str| {
        result
            .series
            .iter()
            .find(|s| {
                s.experiment.parameters().get("figure") == Some(&Param::Text(name.into()))
                    && s.conditions.contains(conditions)
            })
            .ok_or_else(|| punctual_testing::Disturbed(format!("no {name} under {conditions}")))
    };
    for conditions in ["slack 50 us", "slack 1 ns"] {
        let adds = figure("sleep_adds", conditions)?;
        assert_eq!(adds.summary.count, samples);
        assert_eq!(adds.samples.as_ref().map(Vec::len), Some(samples as usize), "in order");
        assert!(adds.summary.p50.unwrap() > 0);
        let again = &figure("remeasured", conditions)?.experiment.metrics()["shortened_by_ns"];
        let Param::Real(again) = again else { panic!("{again:?}") };
        if *again <= 0.0 {
            return Err(punctual_testing::Disturbed(format!("TN measured again is {again} ns")));
        }
        assert!(figure("plain", conditions)?.summary.min.unwrap() >= 0, "a plain sleep is never early");
        assert!(figure("compensated_sleeper", conditions)?.summary.min.unwrap() >= 0, "the library's neither");
    }
    let slack = |conditions: &str| figure("sleep_adds", conditions).map(|adds| adds.summary.p50.unwrap());
    let (found, short) = (slack("slack 50 us")?, slack("slack 1 ns")?);
    // 50 us of slack add more than 1 ns.
    if found > short { Ok(()) } else { Err(punctual_testing::Disturbed(format!("{found} ns, and {short} ns"))) }
}
