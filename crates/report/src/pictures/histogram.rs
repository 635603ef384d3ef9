//! Histograms: the share of samples per class, on two logarithmic axes so that the tail shows.

use punctual_record::Distribution;

use crate::document::{Axis, Form, Line, Picture, Point, Table};
use crate::format::units;

use super::group::{Group, MOST_LINES, Member, quantity_name, shown};
use super::outlier;

/// Classes to a power of ten.
const PER_DECADE: f64 = 10.0;
/// Lines shown at first: more would hide each other.
const AT_FIRST: usize = 3;

pub(super) fn picture(group: &Group<'_>) -> Option<Picture> {
    if group.is_ordered() {
        return None;
    }
    let members: Vec<(&Member<'_>, Vec<Class>)> = group
        .members
        .iter()
        .filter_map(|member| Some((member, classes(member.distribution()?))))
        .take(MOST_LINES)
        .collect();
    let named: Vec<&Member<'_>> = members.iter().map(|(member, _)| *member).collect();
    let at_first = shown(&named, AT_FIRST);
    let mut lines: Vec<Line> =
        members.iter().zip(at_first).map(|((member, classes), shown)| line(&member.label, classes, shown)).collect();
    let shares = || members.iter().flat_map(|(_, classes)| classes.iter().map(|class| class.share));
    let lowest = shares().filter(|share| *share > 0.0).fold(1.0, f64::min);
    let mut y = Axis::log("share of the samples", [lowest, 1.0], 10.0, &|share| units::share(share))?;
    y.ticks.retain(|(share, _)| (share.log10() - share.log10().round()).abs() < 1e-6);
    Some(Picture {
        title: group.title("Histogram"),
        about: group.about(
            "How the samples spread: a narrow peak far left is best. Both scales are logarithmic, or rare samples would not show.",
        ),
        x: outlier::horizontal(quantity_name(group.quantity), &mut lines)?,
        y,
        table: table(&members),
        lines,
        letters: None,
    })
}

/// Samples from `from_ns` up to `to_ns`.
struct Class {
    from_ns: f64,
    to_ns: f64,
    count: u64,
    share: f64,
}

/// Classes on a logarithmic grid, from the first that holds a sample to the last. What is below 1 ns is in the first.
fn classes(distribution: &Distribution) -> Vec<Class> {
    let index = |ns: i64| ((ns.max(1) as f64).log10() * PER_DECADE).floor() as i64;
    let (below, above) = distribution.overflow();
    let Some((min, max)) = distribution.extremes() else { return Vec::new() };
    let (first, last) = (index(min), index(max));
    let mut counts = vec![0_u64; (last - first + 1).max(1) as usize];
    let mut add = |at: i64, count: u64| {
        let place = (at - first).clamp(0, last - first) as usize;
        counts[place] = counts[place].saturating_add(count);
    };
    distribution.buckets().iter().for_each(|bucket| add(index(bucket.high), bucket.count));
    add(first, below);
    add(last, above);
    let total = distribution.count().max(1) as f64;
    let edge = |at: i64| 10_f64.powf(at as f64 / PER_DECADE);
    let class = |(i, count): (usize, u64)| {
        let at = first + i as i64;
        Class { from_ns: edge(at), to_ns: edge(at + 1), count, share: count as f64 / total }
    };
    counts.into_iter().enumerate().map(class).collect()
}

fn line(label: &str, classes: &[Class], shown: bool) -> Line {
    let mut points = Vec::with_capacity(classes.len() + 2);
    if let Some(first) = classes.first() {
        points.push(Point { x: first.from_ns, y: 0.0, says: "nothing below".into(), ..Point::default() });
    }
    for class in classes {
        let says = format!("{}: {} ({})", span(class), units::count(class.count), units::share(class.share));
        points.push(Point { x: class.from_ns, y: class.share, says, mark: class.share >= 0.2, ..Point::default() });
    }
    if let Some(last) = classes.last() {
        points.push(Point { x: last.to_ns, y: 0.0, says: "nothing above".into(), ..Point::default() });
    }
    Line { label: label.into(), shown, form: Form::Steps, points }
}

fn span(class: &Class) -> String {
    format!("{} to {}", units::duration(class.from_ns as i64), units::duration(class.to_ns as i64))
}

/// The classes that hold samples.
fn table(members: &[(&Member<'_>, Vec<Class>)]) -> Table {
    let headings = ["series", "from", "samples", "share"];
    let row = |label: &str, class: &Class| {
        vec![label.to_owned(), span(class), units::count(class.count), units::share(class.share)]
    };
    let held = |(member, classes): &(&Member<'_>, Vec<Class>)| -> Vec<Vec<String>> {
        classes.iter().filter(|class| class.count > 0).map(|class| row(&member.label, class)).collect()
    };
    Table::plain(&headings, members.iter().flat_map(held).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use punctual_record::Recorder;

    proptest! {
        #[test]
        fn no_sample_is_lost(values in prop::collection::vec(-1000i64..10_000_000_000, 1..200)) {
            let mut recorder = Recorder::new();
            values.iter().for_each(|value| recorder.record(*value));
            let classes = classes(&recorder.distribution());
            prop_assert_eq!(classes.iter().map(|class| class.count).sum::<u64>(), values.len() as u64);
        }
    }
}
