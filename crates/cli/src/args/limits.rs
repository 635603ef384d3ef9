//! Limits of `--fail-if`, in one grammar: `FIGURE [of SUBJECT] > DURATION` judges a run, `FIGURE [of SUBJECT] +AMOUNT` an increase.
//!
//! Earlier forms are read too: `FIGURE=DURATION`, and `FIGURE [of SUBJECT] worse by AMOUNT`.

use punctual::parse_duration;
use punctual_record::{Key, Limit, Quantity, sanitize};
use punctual_report::compare::Figure;
use punctual_report::compare::limit::{Amount, Limit as Increase};
use punctual_report::gate::{self, Missing};

use crate::refusal::{BadUsage, Nearest};

/// Why a limit of an increase is refused where one run is judged.
const INCREASE_OF_ONE_RUN: &str =
    "an increase takes two runs, which `punctual compare` judges (example: 'p99 > 200us')";

/// Half of a limit, split at its operator.
struct Parts<'a> {
    figure: String,
    subject: Option<&'a str>,
    is_increase: bool,
    amount: &'a str,
}

/// Splits `FIGURE [of SUBJECT]` from the operator and the amount.
fn parts(text: &str) -> Option<Parts<'_>> {
    let lower = text.to_ascii_lowercase();
    let operators = [(" worse by ", true), (">", false), ("+", true), ("=", false)];
    let (place, operator, is_increase) =
        operators.iter().find_map(|&(operator, increase)| Some((lower.rfind(operator)?, operator, increase)))?;
    let (left, amount) = (text[..place].trim(), text[place + operator.len()..].trim());
    let (figure, subject) = match left.to_ascii_lowercase().find(" of ") {
        Some(of) => (&left[..of], Some(left[of + 4..].trim())),
        None => (left, None),
    };
    let whole = !figure.trim().is_empty() && subject != Some("");
    whole.then(|| Parts { figure: figure.trim().to_ascii_lowercase(), subject, is_increase, amount })
}

/// Nanoseconds of a duration.
fn nanoseconds(text: &str) -> Result<i64, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    i64::try_from(duration.as_nanos()).map_err(|_| "expected at most 292 years (example: 'p99 > 200us')".into())
}

/// `FIGURE [of SUBJECT] > DURATION`, of a command that judges one run.
pub(crate) fn of_run(text: &str) -> Result<Limit, String> {
    let parts = parts(text).ok_or("expected 'FIGURE [of SUBJECT] > DURATION' (example: 'p99 > 200us')")?;
    if parts.is_increase {
        return Err(INCREASE_OF_ONE_RUN.into());
    }
    let no_figure = "expected the figure min, p50, p90, p99, p99.9, max or mean (example: 'p99 > 200us')";
    let figure = Key::named(&parts.figure).ok_or(no_figure)?;
    Ok(Limit { figure, subject: parts.subject.map(str::to_owned), above_ns: nanoseconds(parts.amount)? })
}

/// `FIGURE [of SUBJECT] +AMOUNT`, of `compare`.
pub(crate) fn of_comparison(text: &str) -> Result<Increase, &'static str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is = |word: &str, wanted: &str| word.eq_ignore_ascii_case(wanted);
    if words.windows(2).any(|pair| is(pair[0], "better") && is(pair[1], "by")) {
        return Err("expected an increase: an improvement never fails (example: 'p99 +10%')");
    }
    let parts = parts(text).ok_or("expected 'FIGURE [of SUBJECT] +AMOUNT' (example: 'p99 +10%')")?;
    if !parts.is_increase {
        return Err(
            "a limit of one run is for the measuring commands and `punctual report`; expected 'FIGURE [of SUBJECT] +AMOUNT' \
                    (example: 'p99 +10%')",
        );
    }
    let figure = match parts.figure.as_str() {
        "p50" | "median" => Some(Figure::P50),
        "p99" => Some(Figure::P99),
        "cpu" => Some(Figure::Cpu),
        "any" => None,
        _ => return Err("expected the figure p50, p99, cpu or any (example: 'p99 +10%')"),
    };
    let amount: String = parts.amount.split_whitespace().collect();
    let amount = amount_of(&amount).ok_or("expected a share or a duration above 0 (example: 10% or 5us)")?;
    Ok(Increase { figure, subject: parts.subject.map(str::to_owned), amount })
}

fn amount_of(text: &str) -> Option<Amount> {
    if let Some(number) = text.strip_suffix('%') {
        let digits = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let share = number.parse::<f64>().ok().filter(|_| digits)? / 100.0;
        return (share > 0.0 && share <= 1e6).then_some(Amount::Share(share));
    }
    nanoseconds(text).ok().filter(|ns| *ns > 0).map(Amount::Ns)
}

/// Refuses a limit that is about nothing: experiment, subject and quantity of what there is, or will be.
pub(crate) fn check(limits: &[Limit], there: &[(&str, &str, Quantity)]) -> Result<(), BadUsage> {
    let subjects = limits.iter().map(|limit| limit.subject.as_deref());
    gate::check(subjects, there).map_err(|missing| about_nothing("--fail-if", &missing))
}

/// Subjects shown at most, where none is near.
const SHOWN: usize = 6;

/// Says what a limit could be about.
pub(crate) fn about_nothing(flag: &str, missing: &Missing) -> BadUsage {
    let names = || missing.subjects.iter().map(|name| sanitize::line(name, sanitize::NAME));
    let Some(subject) = &missing.subject else {
        let example = names().next().unwrap_or("*".into());
        return BadUsage(format!(
            "invalid {flag}: nothing here is lateness; name a subject (example: 'p99 of {example} > 1ms')"
        ));
    };
    let near = Nearest::to(subject, names());
    let some: Vec<_> = names().take(SHOWN).collect();
    let more = if missing.subjects.len() > SHOWN { ", ..." } else { "" };
    let hint = match some.is_empty() || !near.is_empty() {
        true => near.to_string(),
        false => format!("; expected one of {}{more}", some.join(", ")),
    };
    BadUsage::invalid(flag, format!("of {subject}"), format!("not a subject here{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_of_a_run() {
        let read = |text: &str| of_run(text).map(|limit| (limit.figure, limit.subject, limit.above_ns));
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(read("p99 > 200us"), Ok((Key::P99, None, 200_000)));
        assert_eq!(read("p99>200us"), Ok((Key::P99, None, 200_000)));
        assert_eq!(read("p99 of nanosleep > 200 us"), Ok((Key::P99, named("nanosleep"), 200_000)));
        assert_eq!(read("Median of ramp as found > 1.5ms"), Ok((Key::P50, named("ramp as found"), 1_500_000)));
        assert_eq!(read("p99=200us"), Ok((Key::P99, None, 200_000)), "as before");
        assert_eq!(read("p99.9 = 1s"), Ok((Key::P999, None, 1_000_000_000)));
        assert_eq!(read("p50>1m"), Ok((Key::P50, None, 60_000_000_000)), "every unit that other flags take");
        assert_eq!(read("MAX > 0ns"), Ok((Key::Max, None, 0)));
        assert_eq!(read("mean > 10µs"), Ok((Key::Mean, None, 10_000)));
    }

    #[test]
    fn what_is_no_limit_of_a_run_is_answered_with_one_that_is() {
        for bad in [
            "p99",
            "> 1us",
            "p99 of > 1us",
            "p95 > 1us",
            "p99 > 200",
            "p99 > -5us",
            "p99 > 1.0.0us",
            "p99=0.5ns",
            "p99 >",
            "p99 > 1 parsec",
            "p99 > 99999999999s",
            "p99 > 99999999999999999999s",
            "p99 +10%",
            "p99 worse by 10%",
        ] {
            assert!(of_run(bad).is_err_and(|e| e.contains("(example: ")), "{bad}: {:?}", of_run(bad));
        }
        assert_eq!(of_run("p99 +10%").unwrap_err(), INCREASE_OF_ONE_RUN);
    }

    #[test]
    fn limits_of_a_comparison() {
        let read = |text: &str| of_comparison(text).map(|limit| (limit.figure, limit.subject, limit.amount)).unwrap();
        assert_eq!(read("p99 +10%"), (Some(Figure::P99), None, Amount::Share(0.1)));
        assert_eq!(read("p99+10%"), (Some(Figure::P99), None, Amount::Share(0.1)));
        assert_eq!(read("p99 worse by 10%"), (Some(Figure::P99), None, Amount::Share(0.1)), "as before");
        assert_eq!(read(" Median  +12.5 % "), (Some(Figure::P50), None, Amount::Share(0.125)));
        assert_eq!(read("any +5us"), (None, None, Amount::Ns(5000)));
        let some = Some("Clock*".to_owned());
        assert_eq!(read("cpu of Clock* +1.5 ms"), (Some(Figure::Cpu), some, Amount::Ns(1_500_000)));
    }

    #[test]
    fn what_is_no_limit_of_a_comparison_is_answered_with_one_that_is() {
        for (text, word) in [
            ("", "p99 +10%"),
            ("p99", "p99 +10%"),
            ("p99 > 10us", "`punctual report`"),
            ("p99=10us", "`punctual report`"),
            ("p99 +", "10% or 5us"),
            ("p99 worse by ", "10% or 5us"),
            ("p98 +10%", "p50, p99, cpu or any"),
            ("p99 +10", "10% or 5us"),
            ("p99 +0%", "10% or 5us"),
            ("p99 +-5%", "10% or 5us"),
            ("p99 +NaN%", "10% or 5us"),
            ("p99 +0us", "10% or 5us"),
            ("p99 +ten%", "10% or 5us"),
            ("p99 better by 10%", "never fails"),
        ] {
            assert!(of_comparison(text).is_err_and(|e| e.contains(word)), "{text}: {:?}", of_comparison(text));
        }
    }

    #[test]
    fn a_limit_about_nothing_is_answered_with_the_nearest_names() {
        let there = [
            ("wait", "nanosleep", Quantity::Overshoot),
            ("wait", "usleep", Quantity::Overshoot),
            ("ramp", "schedutil", Quantity::Loop),
        ];
        let check = |limit: &str, there: &[_]| check(&[of_run(limit).unwrap()], there).map_err(|refused| refused.0);
        assert_eq!(check("p99 > 1us", &there), Ok(()));
        assert_eq!(check("p99 of ramp * > 1us", &there), Ok(()));
        let typo = check("p99 of nanosleeep > 1us", &there).unwrap_err();
        assert!(typo.contains("'of nanosleeep'") && typo.contains("nearest: nanosleep"), "{typo}");
        let loops = check("p99 > 1us", &there[2..]).unwrap_err();
        assert!(loops.contains("nothing here is lateness") && loops.contains("p99 of schedutil"), "{loops}");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(above_ns in 0i64..=i64::MAX, key in 0usize..7, subject in prop::option::of("[a-z*_]{1,9}")) {
            let limit = Limit { figure: Key::ALL[key], subject, above_ns };
            prop_assert_eq!(of_run(&limit.to_string()), Ok(limit));
        }

        #[test]
        fn nothing_panics(text in "\\PC{0,40}") {
            let _ = of_run(&text);
            let _ = of_run(&format!("p99>{text}"));
            let _ = of_comparison(&text);
            let _ = of_comparison(&format!("p99 +{text}"));
        }
    }
}
