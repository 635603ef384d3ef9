//! The remedy for a slow start that a run can judge: the governor `performance`.

use punctual_record::remedy::Value;
use punctual_record::{Quantity, Remedy, Run, Series};

use crate::format::{sanitize, units};
use crate::verdict::{Candidate, Goal, Trial};

use crate::format::naming::AS_FOUND;

use crate::family::ramp::claims::{PERFORMANCE, governor, is_same_work};

/// `performance` instead of what was found, where both were measured.
pub(super) fn candidates<'a>(run: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    // Without cpufreq no governor was set, whatever the series are called.
    let Some(cpufreq) = &run.host.cpufreq else { return Vec::new() };
    let first = || series.iter().copied().filter(|series| series.quantity == Quantity::FirstLoops);
    let is_found = |series: &&Series| match cpufreq.governors.as_slice() {
        _ if series.subject == AS_FOUND => governor(run, AS_FOUND) != Some(PERFORMANCE),
        [one] => *one == series.subject && one != PERFORMANCE,
        _ => false,
    };
    let one = |before: &'a Series| {
        let work_ns = before.experiment.ramp()?.parameters.work_ns;
        let after = first().find(|its| its.subject == PERFORMANCE && is_same_work(its, before))?;
        let remedy = Remedy::of(&Value::Governor(PERFORMANCE.to_owned()));
        Some(Candidate {
            id: "governor performance".to_owned(),
            goal: Goal::SpeedUp,
            cause: "governor".to_owned(),
            what: "governor performance".to_owned(),
            instead_of: sanitize(&cpufreq.governors.join(", ")),
            trials: vec![Trial { case: work_ns, name: case, before, after }],
            price: remedy.price,
            code: remedy.code,
        })
    };
    first().filter(is_found).filter_map(one).collect()
}

fn case(work_ns: i64) -> String {
    format!("for {} of work after a rest", units::exact(work_ns))
}
