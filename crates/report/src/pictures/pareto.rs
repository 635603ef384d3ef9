//! Lateness against CPU time: the cost of punctuality. Methods that no other beats in both form the Pareto front.

use punctual_record::{Quantity, Series};

use crate::document::{Axis, Form, Line, Picture, Point, Table};
use crate::format::{distinct, units};

use super::group::{Group, Member, quantity_name};

/// The smallest share of a CPU on the axis: 0.01 %.
const LEAST_SHARE: f64 = 1e-4;

pub(super) fn picture(group: &Group<'_>) -> Option<Picture> {
    // What is no latency is not bought with CPU time.
    if !matches!(group.quantity, Quantity::Lateness | Quantity::OneWay | Quantity::RoundTrip) {
        return None;
    }
    let members: Vec<&Member<'_>> = group.members.iter().filter(|member| placed(member.series).is_some()).collect();
    let front = front(&members);
    if members.len() < 2 {
        return None;
    }
    let mut lines: Vec<Line> = vec![front_line(&members, &front)];
    for set in distinct(members.iter().map(|member| member.series.conditions.as_str())) {
        let of_set = members.iter().enumerate().filter(|(_, member)| member.series.conditions == set);
        let points = of_set
            .map(|(i, member)| point(member, front.contains(&i) || member.is_baseline || member.is_advised))
            .collect();
        let label = if set.is_empty() { "measured".to_owned() } else { set.to_owned() };
        lines.push(Line { label, shown: true, form: Form::Dots, points });
    }
    let all = || members.iter().filter_map(|member| placed(member.series));
    Some(Picture {
        title: group.title("Lateness against CPU time"),
        about: group.about(
            "Down and left is better. A mark is the median, the line up from it reaches to p99. Named are the baseline, what is \
             advised, and those that nothing beats in both at the median (the Pareto front).",
        ),
        x: Axis::log("share of one CPU", all().map(|(share, _)| share), 10.0, &|share| units::share(share))?,
        y: Axis::vertical(quantity_name(group.quantity), &mut lines, None)?,
        table: table(&members, &front),
        lines,
        letters: None,
    })
}

/// CPU share and median.
fn placed(series: &Series) -> Option<(f64, f64)> {
    let share = series.cpu_share.filter(|share| share.is_finite() && *share >= 0.0)?;
    Some((share.max(LEAST_SHARE), series.summary.p50?.max(1) as f64))
}

/// Those for which no other is at most as late, at most as costly, and better in one. The costliest comes first.
fn front(members: &[&Member<'_>]) -> Vec<usize> {
    let places: Vec<(f64, f64)> = members.iter().filter_map(|member| placed(member.series)).collect();
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].0.total_cmp(&places[*b].0).then(places[*a].1.total_cmp(&places[*b].1)));
    let mut front: Vec<usize> = Vec::new();
    let mut least = f64::INFINITY;
    for i in order {
        if places[i].1 < least {
            least = places[i].1;
            front.push(i);
        }
    }
    front.reverse();
    front
}

fn point(member: &Member<'_>, named: bool) -> Point {
    let (x, y) = placed(member.series).unwrap_or((LEAST_SHARE, 1.0));
    Point {
        x,
        y,
        says: says(member),
        mark: true,
        up_to: member.series.summary.p99.map(|ns| ns.max(1) as f64),
        tag: named.then(|| member.label.clone()),
        ..Point::default()
    }
}

fn says(member: &Member<'_>) -> String {
    let s = &member.series.summary;
    let share = units::or_absent(member.series.cpu_share, units::share);
    format!("{}: {share} of a CPU, p50 {}, p99 {}", member.label, units::known(s.p50), units::known(s.p99))
}

fn front_line(members: &[&Member<'_>], front: &[usize]) -> Line {
    let point = |i: &usize| {
        let (x, y) = placed(members[*i].series).unwrap_or((LEAST_SHARE, 1.0));
        Point { x, y, says: says(members[*i]), ..Point::default() }
    };
    Line { label: "Pareto front".into(), shown: true, form: Form::Curve, points: front.iter().map(point).collect() }
}

fn table(members: &[&Member<'_>], front: &[usize]) -> Table {
    let headings = ["series", "conditions", "share of a CPU", "p50", "p99", "front"];
    let row = |(i, member): (usize, &&Member<'_>)| {
        let series = member.series;
        vec![
            member.label.clone(),
            series.conditions.clone(),
            units::or_absent(series.cpu_share, units::share),
            units::known(series.summary.p50),
            units::known(series.summary.p99),
            if front.contains(&i) { "yes" } else { "" }.to_owned(),
        ]
    };
    Table::plain(&headings, members.iter().enumerate().map(row).collect())
}
