//! Numbers for people: durations with three significant digits and a unit, shares in per cent.
//!
//! Takes integer nanoseconds and returns text such as `71.2 µs`. Nothing is rounded to zero: a non-zero number shows a
//! digit.

use punctual_record::Interval;

/// What stands where a figure is absent.
pub(crate) const ABSENT: &str = "–";

/// A unit of time, chosen so that the number before it is 1 to 999.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Unit {
    ns: f64,
    name: &'static str,
}

const UNITS: [Unit; 4] = [
    Unit { ns: 1.0, name: "ns" },
    Unit { ns: 1e3, name: "µs" },
    Unit { ns: 1e6, name: "ms" },
    Unit { ns: 1e9, name: "s" },
];

/// The unit and the number of decimals that show `ns` with three significant digits.
fn scale(ns: f64) -> (Unit, usize) {
    let magnitude = ns.abs();
    if magnitude < 999.5 {
        return (UNITS[0], 0);
    }
    let unit = match magnitude {
        _ if magnitude < 999.5e3 => UNITS[1],
        _ if magnitude < 999.5e6 => UNITS[2],
        _ => UNITS[3],
    };
    let decimals = match magnitude / unit.ns {
        number if number < 9.995 => 2,
        number if number < 99.95 => 1,
        _ => 0,
    };
    (unit, decimals)
}

/// Whether a number is written with an exponent. No figure of a clock is that large, and its digits would fill lines.
fn is_huge(number: f64) -> bool {
    !number.is_finite() || number.abs() >= 1e12
}

/// A number of any type, as a whole one.
pub(crate) trait Whole {
    /// What is too large stays at the largest.
    fn whole(self) -> i64;
}

impl Whole for i64 {
    fn whole(self) -> i64 {
        self
    }
}

impl Whole for u64 {
    fn whole(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

impl Whole for f64 {
    fn whole(self) -> i64 {
        self.round() as i64
    }
}

/// A duration with three significant digits (`71.2 µs`); below a microsecond whole nanoseconds (`41 ns`).
pub(crate) fn duration(ns: impl Whole) -> String {
    duration_f(ns.whole() as f64)
}

/// A figure that may be absent.
pub(crate) fn or_absent<F>(figure: Option<F>, show: impl Fn(F) -> String) -> String {
    figure.map_or_else(|| ABSENT.to_owned(), show)
}

/// A duration that may be absent.
pub(crate) fn known(ns: Option<impl Whole>) -> String {
    or_absent(ns, duration)
}

/// The same for a computed figure; below 10 ns with one decimal (`3.2 ns`).
pub(crate) fn duration_fine(ns: f64) -> String {
    if ns.abs() < 9.95 { format!("{ns:.1} ns") } else { duration_f(ns) }
}

/// The same with its sign.
pub(crate) fn signed(ns: f64) -> String {
    format!("{}{}", if ns < 0.0 { '−' } else { '+' }, duration_fine(ns.abs()))
}

fn duration_f(ns: f64) -> String {
    let (unit, decimals) = scale(ns);
    in_unit(ns, unit, decimals)
}

fn in_unit(ns: f64, unit: Unit, decimals: usize) -> String {
    let number = ns / unit.ns;
    if is_huge(number) { format!("{number:.2e} {}", unit.name) } else { format!("{number:.decimals$} {}", unit.name) }
}

/// Without the zeros that end its decimals.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// A duration that someone typed: exact, in the largest unit that divides it with at most three decimals (`100 µs`).
pub(crate) fn exact(ns: impl Whole) -> String {
    let ns = ns.whole();
    let unit = UNITS.iter().rev().find(|unit| ns.unsigned_abs() >= unit.ns as u64).copied().unwrap_or(UNITS[0]);
    let number = ns as f64 / unit.ns;
    format!("{} {}", trimmed(&format!("{number:.3}")), unit.name)
}

/// A duration beyond the one asked, to a tenth of a microsecond, or to the microsecond where it is long: `1.000072 s`.
pub(crate) fn beyond_asked(ns: i64) -> String {
    let (unit, _) = scale(ns as f64);
    let decimals = match unit.ns as u64 {
        ..1_000 => return duration(ns),
        1_000..1_000_000 => 1,
        1_000_000..1_000_000_000 => 3,
        _ => 6,
    };
    in_unit(ns as f64, unit, decimals)
}

/// An interval in the unit and with the decimals of the figure it belongs to: `[70.9 71.6]`.
pub(crate) fn interval_like(interval: Interval, figure: i64) -> String {
    let (unit, decimals) = scale(figure as f64);
    format!("[{:.*} {:.*}]", decimals, interval.low as f64 / unit.ns, decimals, interval.high as f64 / unit.ns)
}

/// A share from 0 to 1 in per cent: `0.3 %`, `4.1 %`, `52 %`, `100 %`. What is not zero never shows as `0 %`.
pub(crate) fn share(share: f64) -> String {
    match share * 100.0 {
        percent if is_huge(percent) => format!("{percent:.2e} %"),
        0.0 => "0 %".to_owned(),
        percent if percent < 0.05 => "<0.1 %".to_owned(),
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// An error as a share of what was asked, in per cent with three significant digits: `0.0067 %`, `68 %`, `6500 %`.
pub(crate) fn error(share: f64) -> String {
    format!("{} %", significant(share * 100.0))
}

/// A duration with two significant digits, for a figure that stands for several (`19 µs`).
pub(crate) fn about(ns: f64) -> String {
    if ns.abs() < 9.95 {
        return duration_fine(ns);
    }
    let step = 10f64.powf(ns.abs().log10().floor() - 1.0);
    let rounded = (ns / step).round() * step;
    let (unit, decimals) = scale(rounded);
    in_unit(rounded, unit, decimals.saturating_sub(1))
}

/// A number with three significant digits (`1.5`, `0.0123`, `1230`).
pub(crate) fn significant(number: f64) -> String {
    if !number.is_finite() || number == 0.0 {
        return format!("{number}");
    }
    if is_huge(number) {
        return format!("{number:.2e}");
    }
    let decimals = (2.0 - number.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    trimmed(&format!("{number:.decimals$}")).to_owned()
}

/// A frequency: `2.40 GHz`.
pub(crate) fn gigahertz(khz: impl Whole) -> String {
    format!("{:.2} GHz", khz.whole() as f64 / 1e6)
}

/// A count with thousands set apart from 10 000 on: `1000`, `12 000`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// A count of something: `1 call`, `12 000 calls`.
pub(crate) fn many(n: u64, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A rate with at most three decimals and thousands set apart: `15 000`, `0.5`.
pub(crate) fn rate(rate: f64) -> String {
    if rate >= 1_000.0 {
        return count(rate.round().clamp(0.0, 1e18) as u64);
    }
    trimmed(&format!("{rate:.3}")).to_owned()
}

/// Times per operation: `1.00`, `0.02`, `12.3`; what is not zero never shows as `0.00`.
pub(crate) fn per_op(times: f64) -> String {
    match times {
        _ if is_huge(times) => format!("{times:.2e}"),
        _ if times > 0.0 && times < 0.005 => "<.01".to_owned(),
        _ if times < 9.995 => format!("{times:.2}"),
        _ => format!("{times:.1}"),
    }
}

/// Figures within a sentence: the number and its unit stay on one line.
pub(crate) mod spoken {
    use super::Whole;
    use crate::format::unbroken;

    /// `71.2 µs`.
    pub(crate) fn duration(ns: impl Whole) -> String {
        unbroken(&super::duration(ns))
    }

    /// A computed duration.
    pub(crate) fn fine(ns: f64) -> String {
        unbroken(&super::duration_fine(ns))
    }

    /// A duration that someone typed.
    pub(crate) fn exact(ns: impl Whole) -> String {
        unbroken(&super::exact(ns))
    }

    /// A share in per cent.
    pub(crate) fn share(share: f64) -> String {
        unbroken(&super::share(share))
    }

    /// `24.7 instead of 74.2 µs`, on one line; with both units where they differ.
    pub(crate) fn instead(after: i64, before: i64) -> String {
        let (after, before) = (super::duration(after), super::duration(before));
        let after = match (after.split_once(' '), before.split_once(' ')) {
            (Some((number, a)), Some((_, b))) if a == b => number,
            _ => after.as_str(),
        };
        format!("{} instead of {}", unbroken(after), unbroken(&before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(ns: i64) -> String {
        duration(ns)
    }

    #[test]
    fn what_was_beyond_the_time_asked_is_seen() {
        assert_eq!(beyond_asked(1_000_072_345), "1.000072 s");
        assert_eq!(beyond_asked(1_085_600), "1.086 ms");
        assert_eq!(beyond_asked(171_149), "171.1 µs");
        assert_eq!(beyond_asked(141), "141 ns");
    }

    #[test]
    fn rates_are_readable() {
        assert_eq!(rate(15_000.0), count(15_000));
        assert_eq!(rate(0.01), "0.01");
        assert_eq!(rate(999.5), "999.5");
        assert_eq!(rate(f64::INFINITY), count(1_000_000_000_000_000_000));
    }

    #[test]
    fn three_digits_and_the_unit_that_fits() {
        assert_eq!(shown(0), "0 ns");
        assert_eq!(shown(-5), "-5 ns");
        assert_eq!(shown(999), "999 ns");
        assert_eq!(shown(1000), "1.00 µs");
        assert_eq!(shown(9_994), "9.99 µs");
        assert_eq!(shown(9_996), "10.0 µs");
        assert_eq!(shown(71_234), "71.2 µs");
        assert_eq!(shown(999_499), "999 µs");
        assert_eq!(shown(999_500), "1.00 ms");
        assert_eq!(shown(-1_500_000_000), "-1.50 s");
    }

    #[test]
    fn what_was_asked_stays_exact() {
        assert_eq!(exact(100_000_i64), "100 µs");
        assert_eq!(exact(1_500_000_i64), "1.5 ms");
        assert_eq!(exact(1_i64), "1 ns");
        assert_eq!(exact(0_i64), "0 ns");
        assert_eq!(exact(100_000_000_000_i64), "100 s");
    }

    #[test]
    fn intervals_share_their_figure_s_unit() {
        assert_eq!(interval_like(Interval { low: 70_900, high: 71_640 }, 71_200), "[70.9 71.6]");
        assert_eq!(interval_like(Interval { low: 900, high: 1_240 }, 1_010), "[0.90 1.24]");
    }

    #[test]
    fn about_has_two_digits() {
        let shown = [3.2, 41.4, 4_234.0, 9_960.0, 19_160.0, 996_000.0, 1_040_000.0].map(about);
        assert_eq!(shown, ["3.2 ns", "41 ns", "4.2 µs", "10 µs", "19 µs", "1.0 ms", "1.0 ms"]);
        assert_eq!([1.5, 0.012_345, 1234.4, 0.0].map(significant), ["1.5", "0.0123", "1234", "0"]);
    }

    #[test]
    fn no_number_fills_a_line() {
        for number in [1e308, -1e308, f64::MAX, f64::INFINITY, f64::NAN, 1e15] {
            for text in [duration_fine(number), share(number), significant(number), per_op(number)] {
                assert!(text.len() < 20, "{text}");
            }
            let text = about(number);
            assert!(text.len() < 20, "{text}");
        }
        assert_eq!(significant(1e308), "1.00e308");
        assert_eq!(shown(i64::MAX), "9223372037 s");
    }

    #[test]
    fn small_is_not_nothing() {
        assert_eq!(share(0.0), "0 %");
        assert_eq!(share(0.000_01), "<0.1 %");
        assert_eq!(share(0.0412), "4.1 %");
        assert_eq!(share(0.996), "100 %");
        assert_eq!(per_op(0.0001), "<.01");
        assert_eq!(count(1000), "1000");
        assert_eq!(count(1_234_567), "1 234 567");
    }

    proptest! {
        #[test]
        fn a_duration_is_right_to_half_a_per_cent(ns in 1000i64..4_000_000_000_000) {
            let text = shown(ns);
            let (number, unit) = text.split_once(' ').unwrap();
            let unit = UNITS.iter().find(|u| u.name == unit).unwrap();
            let back: f64 = number.parse::<f64>().unwrap() * unit.ns;
            prop_assert!((back - ns as f64).abs() <= ns as f64 * 0.005_001, "{ns} shown as {text}");
        }
    }
}
