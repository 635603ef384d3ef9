//! The table of call sites.

use punctual_record::Quantity;

use crate::document::{Columns, Paint, Row, Table};
use crate::family::shared::ALWAYS;
use crate::format::sanitize::sanitize;
use crate::format::units;

use super::site::Site;

/// The columns of `why`, with the call site.
pub(super) fn table(sites: &[Site<'_>], full: bool, most: usize) -> Table {
    let one_program = sites.iter().all(|site| site.first.parameters.program == sites[0].first.parameters.program);
    let late = sites.iter().any(|site| site.late().is_some());
    let yields = sites.iter().any(|site| site.metrics().let_run_share.is_some());
    let columns = Columns::new()
        .left("program", 60, |site: &Site<'_>| sanitize(&site.first.parameters.program))
        .only_if(!one_program)
        .left("call", ALWAYS, |site| sanitize(&site.first.series.subject))
        .left("call site", ALWAYS, |site| sanitize(&site.first.parameters.site))
        .count("n", ALWAYS, |site| site.metrics().calls)
        .count("found nothing", 35, |site| site.metrics().nothing)
        .only_if(full)
        .count("event", 30, |site| site.metrics().events)
        .only_if(full)
        .share("let run", 25, |site| site.metrics().let_run_share)
        .only_if(full && yields)
        .known("asked", 50, |site| site.metrics().asked_p50_ns, units::duration)
        .only_if(sites.iter().any(|site| site.metrics().asked_p50_ns.is_some()))
        .ns("late p50", ALWAYS, |site| site.late()?.summary.p50)
        .only_if(late)
        .ns("p99", 90, |site| site.late()?.summary.p99)
        .only_if(late)
        .ns("max", 70, |site| site.late()?.summary.max)
        .only_if(late && full)
        .ns("event after", 20, |site| site.of(Quantity::Away)?.summary.p50)
        .only_if(full && sites.iter().any(|site| site.of(Quantity::Away).is_some()))
        .fine("CPU", 40, |site| site.first.cpu_ns_per_op.filter(|ns| ns.is_finite()));
    let mut rows: Vec<Row> = sites.iter().take(most).map(|site| columns.row(site, Paint::Plain)).collect();
    if sites.len() > most {
        rows.push(Row::Label(format!("and {} more call sites", units::count((sites.len() - most) as u64))));
    }
    columns.table(rows)
}
