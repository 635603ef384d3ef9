//! A series in HdrHistogram's percentile text (`.hgrm`), which the HdrHistogram plotters read.
//!
//! Takes one series and returns its distribution in ever finer steps towards 100 %. Each halving of the distance
//! has five, the default of the HdrHistogram libraries. Values are nanoseconds. A series with a missing or damaged
//! histogram is refused.

use std::collections::HashSet;
use std::io::{self, Write};

use punctual_record::{Distribution, Run, Series};

use crate::format::naming;

use crate::export::exporter::Error;

/// Steps to each halving of the distance to 100 %.
const TICKS: u32 = 5;
/// Halvings after which every sample of any count has been passed: counts have 64 bits.
const HALVINGS: u32 = 64;

/// Writes a run of one series.
///
/// # Errors
/// Errors of the writer, a histogram that cannot be decoded, and another number of series.
pub fn write_run(run: &Run, out: &mut dyn Write) -> Result<(), Error> {
    let [one] = run.series.as_slice() else { return Err(Error::ManySeries(run.series.len())) };
    write(&Distribution::from_series(one)?, &mut *out)?;
    if !one.parts.is_empty() {
        writeln!(out, "#[Merged  = {:>12} runs]", one.parts.len())?;
    }
    Ok(out.flush()?)
}

/// Writes the distribution of one series.
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

/// A name for the file of each series, of letters that every file system takes; no two are the same.
#[must_use]
pub fn file_names(run: &Run) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut free = |stem: String| {
        let numbered = |n: u32| if n == 1 { format!("{stem}.hgrm") } else { format!("{stem}.{n}.hgrm") };
        (1..).map(numbered).find(|name| taken.insert(name.clone())).unwrap_or(stem)
    };
    run.series.iter().map(|series| free(stem(run, series))).collect()
}

/// Experiment, subject, conditions, parameters and quantity.
fn stem(run: &Run, series: &Series) -> String {
    /// Bytes; with a number and the ending it stays below the 255 that Linux takes.
    const LONGEST: usize = 200;
    let conditions = naming::label_of(run, &series.conditions);
    let mut words = vec![series.experiment.name().to_owned(), series.subject.clone(), conditions];
    words.extend(series.experiment.parameters().iter().map(|(name, value)| format!("{name}-{value}")));
    words.push(series.quantity.name().to_owned());
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let words = words.iter().filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(|word| word.chars().map(plain).collect()).collect();
    // The longest words are cut, so that the parameters stay.
    let length = |most: usize| words.iter().map(|word| word.len().min(most) + 1).sum::<usize>();
    let most = (1..=LONGEST).rev().find(|most| length(*most) <= LONGEST).unwrap_or(1);
    let words: Vec<&str> = words.iter().map(|word| &word[..word.len().min(most)]).collect();
    let name: String = words.join(".").chars().take(LONGEST).collect();
    // Not a hidden file.
    name.trim_start_matches(['.', '-']).trim_end_matches('.').to_owned()
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
