//! A series in HdrHistogram's percentile text (`.hgrm`), which the HdrHistogram plotters read.
//!
//! In goes one series, out comes its distribution at ever finer steps towards 100 %: five to each halving of the distance, as the
//! HdrHistogram libraries do by default. Values are nanoseconds. Refused is a series whose histogram is missing or damaged.

use std::io::{self, Write};

use punctual_record::{Distribution, Param, Series};

use crate::csv::quantity;

/// Steps to each halving of the distance to 100 %.
const TICKS: u32 = 5;
/// Halvings after which every sample of any count has been passed: counts have 64 bits.
const HALVINGS: u32 = 64;

/// Writes the distribution.
///
/// # Errors
/// What the writer reports.
pub fn write(distribution: &Distribution, mut writer: impl Write) -> io::Result<()> {
    let n = distribution.count();
    writeln!(writer, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let Some((_, max)) = distribution.extremes() else { return footer(distribution, writer) };
    let mut last = 0;
    for level in levels() {
        let rank = ((level * n as f64).ceil() as u64).clamp(1, n);
        let Some(value) = distribution.value_at_rank(rank) else { break };
        let reached = distribution.count_at_or_below(value).max(rank);
        if reached >= n {
            break;
        }
        // Finer steps within one bucket say nothing new.
        if rank > last {
            writeln!(
                writer,
                "{value:>12.3} {level:.12} {reached:>10} {:>14.2}",
                1.0 / (1.0 - level),
                value = value as f64
            )?;
            last = reached;
        }
    }
    writeln!(writer, "{:>12.3} {:.12} {n:>10}", max as f64, 1.0)?;
    footer(distribution, writer)
}

/// 0, then towards 1: [`TICKS`] to each halving of what is left.
fn levels() -> impl Iterator<Item = f64> {
    (0..HALVINGS).flat_map(|halving| {
        let left = 0.5_f64.powi(halving as i32);
        (0..TICKS).map(move |tick| 1.0 - left + left / 2.0 * f64::from(tick) / f64::from(TICKS))
    })
}

fn footer(distribution: &Distribution, mut writer: impl Write) -> io::Result<()> {
    let summary = distribution.summary();
    let (mean, stdev) = (summary.mean.unwrap_or(0.0), summary.stdev.unwrap_or(0.0));
    let max = summary.max.unwrap_or(0) as f64;
    writeln!(writer, "#[Mean    = {mean:>12.3}, StdDeviation   = {stdev:>12.3}]")?;
    writeln!(writer, "#[Max     = {max:>12.3}, Total count    = {:>12}]", summary.count)?;
    // The geometry of three significant digits, as the libraries tell it.
    writeln!(writer, "#[Buckets = {:>12}, SubBuckets     = {:>12}]", 27, 2048)?;
    writer.flush()
}

/// A name for the file of a series: subject, conditions and parameters, of letters that every file system takes.
#[must_use]
pub fn file_name(series: &Series) -> String {
    const LONGEST: usize = 120;
    let mut words = vec![series.experiment.clone(), series.subject.clone(), series.conditions.clone()];
    // The call is told by the subject.
    let telling = series.parameters.iter().filter(|(name, _)| *name != "call" && *name != "effective_ns");
    words.extend(telling.map(|(name, value)| match value {
        Param::Flag(flag) => format!("{name}-{flag}"),
        Param::Int(n) => format!("{name}-{n}"),
        Param::Real(x) => format!("{name}-{x}"),
        Param::Text(text) => format!("{name}-{text}"),
    }));
    words.push(quantity(series.quantity).to_owned());
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' };
    let name: String =
        words.iter().filter(|word| !word.is_empty()).flat_map(|word| word.chars().chain(['.'])).take(LONGEST).collect();
    let name: String = name.trim_end_matches('.').chars().map(|c| if c == '.' { '.' } else { plain(c) }).collect();
    // Neither a hidden file nor a way out of the folder.
    format!("{}.hgrm", name.replace("..", ".").trim_start_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use punctual_record::Recorder;

    fn text(values: &[i64]) -> String {
        let mut recorder = Recorder::new();
        values.iter().for_each(|value| recorder.record(*value));
        let mut out = Vec::new();
        write(&recorder.distribution(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn rises_and_ends_with_all(values in prop::collection::vec(-1000i64..100_000_000, 1..500)) {
            let text = text(&values);
            let rows: Vec<Vec<f64>> = text
                .lines()
                .skip(2)
                .filter(|line| !line.starts_with('#'))
                .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
                .collect();
            prop_assert!(rows.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][1] < pair[1][1] && pair[0][2] <= pair[1][2]));
            let last = rows.last().unwrap();
            prop_assert_eq!(last[0], *values.iter().max().unwrap() as f64);
            prop_assert_eq!(last[2], values.len() as f64);
            prop_assert_eq!(last.len(), 3);
        }
    }

    #[test]
    fn nothing_is_no_error() {
        assert!(text(&[]).contains("Total count    =            0"));
    }
}
