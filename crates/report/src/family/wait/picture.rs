//! The picture of the first screen: what was found and the cures, a panel for each duration.

use crate::document::Album;
use crate::format::units;
use crate::pictures::dots::{self, Dot, Panel};
use crate::verdict::{Advice, Standing};
use crate::words::{Figure, Figures};

/// What stands for a remedy that every duration has: the library's sleeper, and spinning.
const ALWAYS: [(&str, &str); 2] = [("hybrid", "punctual::Sleeper"), ("spin_clock", "spinning")];

/// The picture; `None` where one set of conditions was measured, and the methods themselves are compared.
pub(super) fn picture(all: &[Figures<'_>], own: &[&Advice]) -> Option<Album> {
    let panels = all.iter().filter(|figures| figures.many_conditions).filter_map(|figures| panel(figures, own));
    dots::album(panels.collect())
}

fn panel(figures: &Figures<'_>, own: &[&Advice]) -> Option<Panel> {
    let base = figures.reference()?;
    let advised: Vec<&Advice> = own.iter().copied().filter(|advice| advice.standing == Standing::Advised).collect();
    let mut rows = vec![dot(base, &base.conditions, true)];
    let others: Vec<&Figure<'_>> =
        figures.rows.iter().filter(|row| row.subject == base.subject && row.conditions != base.conditions).collect();
    let cures = |row: &&&Figure<'_>| advised.iter().any(|advice| advice.is_about(&row.conditions));
    let cured: Vec<&&Figure<'_>> = others.iter().filter(cures).collect();
    // Without a cure the picture shows that what was tried does not help.
    let shown = if cured.is_empty() { others.iter().collect() } else { cured };
    rows.extend(shown.iter().map(|row| dot(row, &row.conditions, false)));
    for (subject, name) in ALWAYS {
        let its = figures.rows.iter().find(|row| row.subject == subject && row.conditions == base.conditions);
        rows.extend(its.map(|row| dot(row, name, false)));
    }
    Some(Panel { title: format!("{} for {}", base.subject, units::exact(figures.asked_ns)), rows })
}

fn dot(row: &Figure<'_>, name: &str, baseline: bool) -> Dot {
    Dot { name: name.to_owned(), p50: row.p50, p99: row.p99, baseline }
}
