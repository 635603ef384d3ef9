//! Whether the injected cause was named.

use punctual_linux::sched::set_nice;
use punctual_record::{Cause, Causes, LateWake};
use punctual_testing::{Disturbed, alone_on_this_machine, undisturbed};

use crate::place;
use crate::play::{Seen, Stage};

/// Something that makes a thread late.
pub(crate) struct Injector {
    pub(crate) name: &'static str,
    pub(crate) cause: Cause,
    /// The name of a thread, a function, a softirq.
    pub(crate) culprit: Option<&'static str>,
    /// Whether the time of each delay is known.
    pub(crate) exact: bool,
    /// The system call that is late.
    pub(crate) call: &'static str,
    /// A wake-up is hit if this much of the delay is in it; where the time is unknown, if it is this late.
    pub(crate) least_ns: u64,
    /// Plays with this many delays; None where the machine cannot.
    pub(crate) play: fn(&Stage, usize) -> Option<Seen>,
}

/// A part this short is not named: the tolerance of the times.
const NAMED_NS: u64 = 2_000;

/// What came out.
struct Figures {
    hit: usize,
    right: usize,
    exact: usize,
    /// Median of the time found over the time injected.
    ratio: f64,
    quiet: usize,
    wrong: usize,
    /// What the wake-ups that were not right were given to.
    instead: Vec<String>,
}

/// Holds an injector against what the engine says.
pub(crate) fn names_the_cause(injector: &Injector, wanted: usize) {
    let Some(cpu) = place::cpu() else { return };
    if !punctual_testing::needs_root("real-time priorities") {
        return;
    }
    let alone = alone_on_this_machine();
    place::away_from(cpu);
    // Reads the events in time beside a compiler.
    set_nice(0, -20).unwrap();
    undisturbed(|_| {
        let Some(seen) = (injector.play)(&Stage::on(cpu), wanted) else { return Ok(()) };
        let figures = injector.figures(&seen);
        let line = figures.line(injector);
        println!("{line}");
        let enough = figures.hit >= wanted && figures.quiet * 10 >= wanted * 8;
        let right = figures.right * 100 >= figures.hit * 95;
        let exact = !injector.exact || figures.exact * 100 >= figures.hit * 95;
        let wrong = figures.wrong * 100 > figures.quiet;
        if enough && right && exact && !wrong {
            return Ok(());
        }
        let told = |causes: &Causes| {
            let calls = causes.calls.iter().map(|call| format!("{} {} {}", call.thread, call.call, call.blocked));
            format!("{:?}, lost {}, calls {:?}", causes.unsplit, causes.lost_events, calls.collect::<Vec<_>>())
        };
        let uncut = (told(&seen.quiet.causes), told(&seen.late.causes));
        Err(Disturbed(format!("{line}\n  instead: {}\n  not cut: {uncut:?}", figures.instead.join("\n           "))))
    });
    drop(alone);
}

impl Injector {
    fn figures(&self, seen: &Seen) -> Figures {
        let ours = |wake: &&LateWake| wake.call == self.call;
        let quiet: Vec<&LateWake> = seen.quiet.wakes.iter().filter(ours).collect();
        let wrong = quiet.iter().filter(|wake| self.time(wake) >= NAMED_NS).count();
        let (mut hit, mut right, mut exact) = (0, 0, 0);
        let (mut ratios, mut instead) = (Vec::new(), Vec::new());
        for wake in seen.late.wakes.iter().filter(ours) {
            let injected = if self.exact { overlap(wake, &seen.windows) } else { wake.late_ns };
            if injected < self.least_ns {
                continue;
            }
            hit += 1;
            let found = self.time(wake);
            let is_right = found > 0 && found >= self.largest_other(wake);
            let is_exact = found.abs_diff(injected) <= (injected / 10).max(NAMED_NS);
            right += usize::from(is_right);
            exact += usize::from(is_exact);
            ratios.push(found as f64 / injected as f64);
            if (!is_right || self.exact && !is_exact) && instead.len() < 5 {
                instead.push(format!("{injected} ns injected, late {}: {}", wake.late_ns, parts(wake)));
            }
        }
        ratios.sort_by(f64::total_cmp);
        let ratio = ratios.get(ratios.len() / 2).copied().unwrap_or(0.0);
        Figures { hit, right, exact, ratio, quiet: quiet.len(), wrong, instead }
    }

    /// The time that the wake-up lost by the injected cause.
    fn time(&self, wake: &LateWake) -> u64 {
        let by_it = |part: &&punctual_record::WakePart| self.is_it(part.cause, part.culprit.as_deref());
        wake.parts.iter().filter(by_it).map(|part| part.ns).sum()
    }

    fn is_it(&self, cause: Cause, culprit: Option<&str>) -> bool {
        // A thread's policy stands in parentheses.
        let named = |name: &str| culprit.is_some_and(|it| it == name || it.starts_with(&format!("{name} (")));
        cause == self.cause && self.culprit.is_none_or(named)
    }

    fn largest_other(&self, wake: &LateWake) -> u64 {
        let others = wake.parts.iter().filter(|part| !self.is_it(part.cause, part.culprit.as_deref()));
        others.map(|part| part.ns).max().unwrap_or(0)
    }
}

impl Figures {
    fn line(&self, injector: &Injector) -> String {
        let percent = |part: usize, whole: usize| part as f64 * 100.0 / whole.max(1) as f64;
        let times = if injector.exact {
            format!("time right {:.1} %, ratio {:.3}", percent(self.exact, self.hit), self.ratio)
        } else {
            "time unknown".to_owned()
        };
        format!(
            "{}: {} late, named {:.1} %, {times}; {} quiet, named {:.1} %",
            injector.name,
            self.hit,
            percent(self.right, self.hit),
            self.quiet,
            percent(self.wrong, self.quiet),
        )
    }
}

/// How much of the injected delays lies between the deadline and the return of the call.
fn overlap(wake: &LateWake, windows: &[(u64, u64)]) -> u64 {
    let (from, to) = (wake.at_ns, wake.at_ns + wake.late_ns);
    windows.iter().map(|(begin, end)| (*end).min(to).saturating_sub((*begin).max(from))).sum()
}

fn parts(wake: &LateWake) -> String {
    let part = |part: &punctual_record::WakePart| {
        format!("{:?} {:?} {} {}", part.part, part.cause, part.culprit.as_deref().unwrap_or("-"), part.ns)
    };
    wake.parts.iter().map(part).collect::<Vec<_>>().join(", ")
}
