//! Limits on figures: `p99=200us` of `--fail-above`, `p99 worse by 10%` of `--fail-if`.

use punctual::parse_duration;
use punctual_report::compare::Figure;
use punctual_report::compare::limit::{Amount, Limit};
use punctual_report::threshold::{Key, Threshold};

/// Nanoseconds of a duration.
fn nanoseconds(text: &str) -> Result<i64, String> {
    let duration = parse_duration(text).map_err(|e| e.to_string())?;
    i64::try_from(duration.as_nanos()).map_err(|_| "expected at most 292 years (example: p99=200us)".into())
}

/// `FIGURE=DURATION`.
pub(crate) fn threshold(text: &str) -> Result<Threshold, String> {
    let (key, limit) = text.split_once('=').ok_or("expected FIGURE=DURATION (example: p99=200us)")?;
    let name = key.trim().to_ascii_lowercase();
    let key = Key::named(&name);
    let key = key.ok_or("expected the figure min, p50, p90, p99, p99.9, max or mean (example: p99=200us)")?;
    Ok(Threshold { key, limit_ns: nanoseconds(limit.trim())? })
}

/// `FIGURE [of SUBJECT] worse by AMOUNT`.
pub(crate) fn limit(text: &str) -> Result<Limit, String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (figure, subject, amount) = match words.as_slice() {
        [figure, "worse", "by", amount @ ..] if !amount.is_empty() => (*figure, None, amount),
        [figure, "of", _, "worse", "by", amount @ ..] if !amount.is_empty() => {
            // As it was typed: subjects are not all in lower case.
            (*figure, text.split_whitespace().nth(2).map(str::to_owned), amount)
        }
        [.., "better", "by", _] => {
            return Err("expected 'worse': an improvement never fails (example: 'p99 worse by 10%')".into());
        }
        _ => return Err("expected 'FIGURE [of SUBJECT] worse by AMOUNT' (example: 'p99 worse by 10%')".into()),
    };
    let figure = match figure {
        "p50" | "median" => Some(Figure::P50),
        "p99" => Some(Figure::P99),
        "cpu" => Some(Figure::Cpu),
        "any" => None,
        _ => return Err("expected the figure p50, p99, cpu or any (example: 'p99 worse by 10%')".into()),
    };
    Ok(Limit { figure, subject, amount: amount_of(&amount.concat())? })
}

fn amount_of(text: &str) -> Result<Amount, String> {
    let refused = || "expected a share or a duration above 0 (example: 10% or 5us)".to_owned();
    if let Some(number) = text.strip_suffix('%') {
        let digits = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let share = number.parse::<f64>().ok().filter(|_| digits).ok_or_else(refused)? / 100.0;
        return if share > 0.0 && share <= 1e6 { Ok(Amount::Share(share)) } else { Err(refused()) };
    }
    nanoseconds(text).ok().filter(|ns| *ns > 0).map(Amount::Ns).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn thresholds() {
        let read = |text: &str| threshold(text).map(|limit| (limit.key, limit.limit_ns));
        assert_eq!(read("p99=200us"), Ok((Key::P99, 200_000)));
        assert_eq!(read("p999=1.5ms"), Ok((Key::P999, 1_500_000)));
        assert_eq!(read("p99.9 = 1s"), Ok((Key::P999, 1_000_000_000)));
        assert_eq!(read("p50=1m"), Ok((Key::P50, 60_000_000_000)), "every unit that other flags take");
        assert_eq!(read("MAX=0ns"), Ok((Key::Max, 0)));
        assert_eq!(read("mean=10µs"), Ok((Key::Mean, 10_000)));
    }

    #[test]
    fn what_is_no_threshold_is_answered_with_one_that_is() {
        for bad in [
            "p99",
            "p95=1us",
            "p99=200",
            "p99=-5us",
            "p99=1.0.0us",
            "p99=0.5ns",
            "p99=",
            "p99=1 parsec",
            "p99=99999999999s",
            "p99=99999999999999999999s",
        ] {
            assert!(threshold(bad).is_err_and(|e| e.contains("(example: ")), "{bad}: {:?}", threshold(bad));
        }
    }

    #[test]
    fn limits() {
        let read = |text: &str| limit(text).map(|limit| (limit.figure, limit.subject, limit.amount)).unwrap();
        assert_eq!(read("p99 worse by 10%"), (Some(Figure::P99), None, Amount::Share(0.1)));
        assert_eq!(read(" Median  worse by 12.5 % "), (Some(Figure::P50), None, Amount::Share(0.125)));
        assert_eq!(read("any worse by 5us"), (None, None, Amount::Ns(5000)));
        let some = Some("Clock*".to_owned());
        assert_eq!(read("cpu of Clock* worse by 1.5 ms"), (Some(Figure::Cpu), some, Amount::Ns(1_500_000)));
    }

    #[test]
    fn what_is_no_limit_is_answered_with_one_that_is() {
        for (text, word) in [
            ("", "p99 worse by 10%"),
            ("p99", "p99 worse by 10%"),
            ("p99>10%", "p99 worse by 10%"),
            ("p99 worse by", "p99 worse by 10%"),
            ("p98 worse by 10%", "p50, p99, cpu or any"),
            ("p99 worse by 10", "10% or 5us"),
            ("p99 worse by 0%", "10% or 5us"),
            ("p99 worse by -5%", "10% or 5us"),
            ("p99 worse by NaN%", "10% or 5us"),
            ("p99 worse by 0us", "10% or 5us"),
            ("p99 worse by ten%", "10% or 5us"),
            ("p99 better by 10%", "never fails"),
        ] {
            assert!(limit(text).is_err_and(|e| e.contains(word)), "{text}: {:?}", limit(text));
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(limit_ns in 0i64..=i64::MAX, key in 0usize..7) {
            let limit = Threshold { key: Key::ALL[key], limit_ns };
            prop_assert_eq!(threshold(&limit.to_string()), Ok(limit));
        }

        #[test]
        fn nothing_panics(text in "\\PC{0,40}") {
            let _ = threshold(&text);
            let _ = threshold(&format!("p99={text}"));
            let _ = limit(&text);
            let _ = limit(&format!("p99 worse by {text}"));
        }
    }
}
