//! How long each governor takes to full speed, in sentences.

use punctual_record::{Run, Series};

use crate::format::{listed, sanitize, sentence, spoken};
use crate::verdict::{Advice, Answer};

use super::claims::{Judged, Start, judged};

/// The answer to: how soon is the CPU at full speed? A check-up says only what is shown.
pub(super) fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let all = judged(run, series);
    let mut sentences: Vec<String> = all.iter().filter_map(slow_start).collect();
    sentences.extend(all.iter().filter_map(slower));
    if !run.is_checkup() {
        sentences.extend(unshown(&all));
    }
    Answer::of(sentences)
}

/// `ondemand: full speed after 12.3 ms of work. The first loops take 1.40 ms, all loops 750 µs (p50).`
fn slow_start(its: &Judged<'_>) -> Option<String> {
    let Start::Slow(gain) = its.start else { return None };
    let name = sanitize(&its.ramp.subject);
    let after = its.ramp.summary.p50?;
    let loops = format!(
        "the first loops after a rest take {}, all loops {} (p50)",
        spoken::duration(after + gain.ns),
        spoken::duration(after)
    );
    Some(match its.to_full_speed_ns() {
        Some(ns) => format!("{name} reaches full speed after {} of work: {loops}.", spoken::duration(ns)),
        None => format!("{name}: {loops}."),
    })
}

/// `powersave stays slower than performance: a loop takes 2.25 ms, not 750 µs. It keeps the lowest frequency, by design.`
fn slower(its: &Judged<'_>) -> Option<String> {
    let (gain, fastest) = &its.slower?;
    let p50 = its.ramp.summary.p50?;
    let (name, fastest) = (sanitize(&its.ramp.subject), sanitize(fastest));
    let text = format!(
        "{name} is slower than {fastest}: a loop takes {}, not {}",
        spoken::duration(p50),
        spoken::duration(p50 - gain.ns)
    );
    Some(match its.ramp.metrics.why.as_deref().map(sanitize) {
        Some(why) => format!("{text}; {}", sentence(&why)),
        None => format!("{text}."),
    })
}

/// What nothing is claimed of, and why.
fn unshown(all: &[Judged<'_>]) -> Vec<String> {
    let names = |what: &dyn Fn(&Start) -> bool| {
        let names: Vec<String> =
            all.iter().filter(|its| what(&its.start)).map(|its| sanitize(&its.ramp.subject)).collect();
        (!names.is_empty()).then(|| listed(&names, 6))
    };
    let mut said = Vec::new();
    if names(&|start| *start == Start::NotExposed).is_some() {
        said.push("Nothing here changes the CPU's frequency: the kernel exposes none.".to_owned());
    }
    if let Some(names) = names(&|start| *start == Start::OneSpeed) {
        said.push(format!("One speed by design, so no speed-up: {names}."));
    }
    if let Some(names) = names(&|start| *start == Start::NoTransition) {
        said.push(format!("The kernel counted no change of frequency under {names}."));
    }
    if let Some(names) = names(&|start| *start == Start::NotShown) {
        said.push(format!("No speed-up after a rest is shown for {names}."));
    }
    let reason = all.iter().find_map(|its| match &its.start {
        Start::NotTested(why) => Some(why),
        _ => None,
    });
    if let (Some(why), Some(names)) = (reason, names(&|start| matches!(start, Start::NotTested(_)))) {
        said.push(format!("Speed-up after a rest was not tested for {names}: {}", sentence(&sanitize(why))));
    }
    said
}
