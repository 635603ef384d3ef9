//! The table of call sites.

use punctual_record::Quantity;

use crate::document::{Columns, Table};
use crate::family::shared::ALWAYS;
use crate::format::{sanitize, units};

use super::site::Site;

/// The columns of `why`, with the call site.
pub(super) fn table(sites: &[Site<'_>], full: bool, most: usize) -> Table {
    let one_program = sites.iter().all(|site| site.first.parameters.program == sites[0].first.parameters.program);
    let late = sites.iter().any(|site| site.late().is_some());
    let yields = sites.iter().any(|site| site.metrics().let_run_share.is_some());
    Columns::new()
        .left("program", 60, |site: &Site<'_>| sanitize(&site.first.parameters.program))
        .only_if(!one_program)
        .left("call", ALWAYS, |site| sanitize(&site.first.series.subject))
        .left("call site", ALWAYS, |site| sanitize(&site.first.parameters.site))
        .count("n", ALWAYS, |site| site.metrics().calls)
        .when(full, |columns| {
            columns
                .count("found nothing", 35, |site| site.metrics().nothing)
                .count("event", 30, |site| site.metrics().events)
        })
        .share("let run", 25, |site| site.metrics().let_run_share)
        .only_if(full && yields)
        .known("asked", 50, |site| site.metrics().asked_p50_ns, units::duration)
        .only_if(sites.iter().any(|site| site.metrics().asked_p50_ns.is_some()))
        .when(late, |columns| {
            columns
                .ns("late p50", ALWAYS, |site| site.late()?.summary.p50)
                .ns("p99", 90, |site| site.late()?.summary.p99)
        })
        .ns("max", 70, |site| site.late()?.summary.max)
        .only_if(late && full)
        .ns("event after", 20, |site| site.of(Quantity::Away)?.summary.p50)
        .only_if(full && sites.iter().any(|site| site.of(Quantity::Away).is_some()))
        .fine("CPU", 40, |site| site.first.cpu_ns_per_op.filter(|ns| ns.is_finite()))
        .first(most, sites, "call sites")
}
