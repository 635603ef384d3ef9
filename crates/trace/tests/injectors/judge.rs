//! Whether the injected cause was named.

use punctual_record::{Activity, Cause, LatePart, LateWake, Stretch, WakePart};
use punctual_testing::{Disturbed, Lack, alone_on_this_machine, lacks, undisturbed};

use crate::lab;
use crate::place;
use crate::play::{Seen, Stage};

/// Something that makes a thread late.
pub(crate) struct Injector {
    pub(crate) name: &'static str,
    /// Where the delay lies; any part where that is not known.
    pub(crate) part: Option<LatePart>,
    pub(crate) cause: Cause,
    /// The name of a thread, a function, a softirq.
    pub(crate) culprit: Option<&'static str>,
    /// Whether the time of each delay is known.
    pub(crate) exact: bool,
    /// The system call that is late.
    pub(crate) call: &'static str,
    /// A wake-up is hit if this much of the delay is in it. Where the time is unknown, it is hit if it is this late.
    pub(crate) least_ns: u64,
    /// Without the injector, the cause is named if it took this long.
    pub(crate) named_ns: u64,
    /// Only wake-ups count whose CPU idled at the deadline. The cause has to take `least_ns` of them. A virtual CPU that wakes up is slow
    /// for a while, maybe longer than the state itself.
    pub(crate) idle: bool,
    /// Whether interrupts come in between: their time is in the delay, but not the injector's. The thread's own may come late, so that the
    /// delay begins in the part before.
    pub(crate) interrupted: bool,
    /// Plays with this many delays; None where the machine cannot.
    pub(crate) play: fn(&Stage, usize) -> Option<Seen>,
}

/// Wake-ups that the host delayed by more than this are not judged. Interrupts of watched timers take less in a virtual machine.
const HOST_NS: u64 = 60_000;
/// The tolerance of the times.
const NEARLY_NS: u64 = 2_000;

/// What came out.
struct Figures {
    hit: usize,
    /// Of these, those of which the injected cause must be the largest part.
    judged: usize,
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
    each_play(injector, wanted, |seen, cpu| injector.verdict(seen, wanted, cpu));
}

/// The same of an engine that names two of five causes wrongly: the verdict must be that it does not hold.
pub(crate) fn finds_a_broken_engine(injector: &Injector, wanted: usize) {
    each_play(injector, wanted, |seen, cpu| {
        injector.verdict(seen, wanted, cpu)?;
        if lab::slower() > 1 {
            return Ok(());
        }
        for wake in seen.late.chunks_mut(5).flat_map(|five| five.iter_mut().take(2)) {
            let wrong = if injector.cause == Cause::Host { Cause::Nmi } else { Cause::Host };
            wake.parts.iter_mut().filter(|part| injector.is_it(part)).for_each(|part| part.cause = wrong);
        }
        assert!(injector.verdict(seen, wanted, cpu).is_err(), "two of five causes are wrong, and nobody notices");
        Ok(())
    });
}

/// The same while a thread on each CPU cycles and is watched too.
pub(crate) fn names_the_cause_beside_a_crew(injector: &Injector, wanted: usize) {
    play_on(|cpu| Stage::on(cpu).beside_a_crew(), injector, wanted, |seen, cpu| injector.verdict(seen, wanted, cpu));
}

fn each_play(injector: &Injector, wanted: usize, judge: impl Fn(&mut Seen, usize) -> Result<(), Disturbed>) {
    play_on(Stage::on, injector, wanted, judge);
}

/// Plays until an attempt is not disturbed.
fn play_on(
    stage: impl Fn(usize) -> Stage,
    injector: &Injector,
    wanted: usize,
    judge: impl Fn(&mut Seen, usize) -> Result<(), Disturbed>,
) {
    let Some(cpu) = place::cpu() else { return };
    if !punctual_testing::needs_root("real-time priorities") {
        return;
    }
    let _alone = alone_on_this_machine();
    place::away_from(cpu);
    undisturbed(|longer| {
        let Some(mut seen) = (injector.play)(&stage(cpu), wanted * longer.min(4) as usize) else { return Ok(()) };
        judge(&mut seen, cpu)
    });
}

impl Injector {
    /// Delays sleeps by a known time.
    pub(crate) const SLEEP: Self = Self {
        name: "",
        part: None,
        cause: Cause::OtherThread,
        culprit: None,
        exact: true,
        call: "clock_nanosleep",
        least_ns: 100_000,
        named_ns: NEARLY_NS,
        idle: false,
        interrupted: false,
        play: |_, _| None,
    };

    fn verdict(&self, seen: &Seen, wanted: usize, cpu: usize) -> Result<(), Disturbed> {
        let figures = self.figures(seen);
        let causes = &seen.causes;
        let line = format!("{}; {} of {} cut", figures.line(self), causes.split, causes.wake_ups);
        println!("{line}");
        if figures.hold(self, wanted) {
            return Ok(());
        }
        // Most of the time of an emulated machine is the emulator's.
        if lab::slower() > 1 && figures.right * 10 >= figures.judged.max(1) {
            return Ok(());
        }
        if self.idle && figures.hit < wanted {
            lacks(Lack::IdleCpu(cpu));
            return Ok(());
        }
        let uncut = format!("{:?}, lost {}", causes.unsplit, causes.lost_events);
        Err(Disturbed(format!("{line}\n  instead: {}\n  not cut: {uncut}", figures.instead.join("\n           "))))
    }

    fn figures(&self, seen: &Seen) -> Figures {
        let ours = |wake: &&LateWake| wake.call == self.call;
        let quiet: Vec<&LateWake> = seen.quiet.iter().filter(ours).collect();
        let most_ns = if self.is_before_deadline() { usual(&quiet) } else { u64::MAX };
        let is_wrong = |wake: &LateWake| self.time(wake) >= self.named_ns * lab::slower() && wake.late_ns <= most_ns;
        let wrong = quiet.iter().filter(|wake| is_wrong(wake)).count();
        let (mut hit, mut judged, mut right, mut exact) = (0, 0, 0, 0);
        let (mut ratios, mut instead) = (Vec::new(), Vec::new());
        for wake in seen.late.iter().filter(ours) {
            let injected = if self.exact { overlap(wake, &seen.windows) } else { wake.late_ns };
            let missed = self.is_before_deadline() && !seen.windows.iter().any(|window| spans_deadline(*window, wake));
            // Its delay is another cause beside the injected one.
            let by_host = seen.host.longest_ns(wake.at_ns, wake.at_ns + wake.late_ns) > HOST_NS;
            if injected < self.least_ns || self.idle && !idled(wake) || missed || by_host {
                continue;
            }
            hit += 1;
            // The machine may take more than the injector: only at half of the delay, its part must be the largest.
            let is_most = !self.exact || self.idle || injected * 2 >= wake.late_ns;
            judged += usize::from(is_most);
            let found = self.time(wake);
            let is_right =
                if self.idle { found >= self.least_ns } else { found > 0 && found >= self.largest_other(wake) };
            let took = if self.interrupted { self.delay(wake) } else { found };
            let is_exact = took.abs_diff(injected) <= (injected / 10).max(NEARLY_NS);
            right += usize::from(is_right && is_most);
            exact += usize::from(is_exact);
            ratios.push(found as f64 / injected as f64);
            if (is_most && !is_right || self.exact && !is_exact) && instead.len() < 5 {
                instead.push(format!("{injected} ns injected, late {}: {}", wake.late_ns, parts(wake)));
            }
        }
        ratios.sort_by(f64::total_cmp);
        let ratio = ratios.get(ratios.len() / 2).copied().unwrap_or(0.0);
        Figures { hit, judged, right, exact, ratio, quiet: quiet.len(), wrong, instead }
    }

    /// Whether a delay keeps the timer's interrupt away. One that begins after the deadline finds the interrupt there, or a host that has
    /// been late with both.
    fn is_before_deadline(&self) -> bool {
        self.exact && self.part == Some(LatePart::TimerInterrupt)
    }

    /// The time that the wake-up lost by the injected cause.
    fn time(&self, wake: &LateWake) -> u64 {
        wake.parts.iter().filter(|part| self.is_it(part)).map(|part| part.ns).sum()
    }

    /// The same in every part, and the interrupts of other timers.
    fn delay(&self, wake: &LateWake) -> u64 {
        let anywhere = Self { part: None, ..*self };
        let parts = wake.parts.iter().filter(|part| anywhere.is_it(part) || part.cause == Cause::OtherTimers);
        parts.map(|part| part.ns).sum()
    }

    fn is_it(&self, part: &WakePart) -> bool {
        // A thread's policy stands in parentheses.
        let culprit = part.culprit.as_deref();
        let named =
            |name: &str| culprit.is_some_and(|culprit| culprit == name || culprit.starts_with(&format!("{name} (")));
        part.cause == self.cause
            && self.culprit.is_none_or(named)
            && self.part.is_none_or(|wanted| wanted == part.part || lab::slower() > 1)
    }

    fn largest_other(&self, wake: &LateWake) -> u64 {
        let others = wake.parts.iter().filter(|part| !self.is_it(part));
        others.map(|part| part.ns).max().unwrap_or(0)
    }
}

impl Figures {
    fn hold(&self, injector: &Injector, wanted: usize) -> bool {
        // An emulated machine shows nothing about time.
        let exact = !injector.exact || lab::slower() > 1 || self.exact * 100 >= self.hit * 95;
        // A slow host may add more to each delay than the injector. Where the time is known, the time is then the judge.
        let enough =
            self.hit >= wanted && (injector.exact || self.judged * 2 >= wanted) && self.quiet * 10 >= wanted * 8;
        enough && exact && self.right * 100 >= self.judged * 95 && self.wrong * 100 <= self.quiet
    }

    fn line(&self, injector: &Injector) -> String {
        let percent = |part: usize, whole: usize| part as f64 * 100.0 / whole.max(1) as f64;
        let times = if injector.exact {
            format!("time right {:.1} %, ratio {:.3}", percent(self.exact, self.hit), self.ratio)
        } else {
            "time unknown".to_owned()
        };
        format!(
            "{}: {} late, {:.1} % of {} named, {times}; {} quiet, named {:.1} %",
            injector.name,
            self.hit,
            percent(self.right, self.judged),
            self.judged,
            self.quiet,
            percent(self.wrong, self.quiet),
        )
    }
}

/// Half as much again as what a quarter of the wake-ups is late by at most. A virtual CPU that its host stops is later than that, and
/// looks like one whose interrupts are off.
fn usual(wakes: &[&LateWake]) -> u64 {
    let mut late: Vec<u64> = wakes.iter().map(|wake| wake.late_ns).collect();
    late.sort_unstable();
    late.get(late.len() / 4).map_or(0, |quarter| quarter * 3 / 2)
}

/// How much of the injected delays lies between the deadline and the return of the call.
fn overlap(wake: &LateWake, windows: &[(u64, u64)]) -> u64 {
    let (from, to) = (wake.at_ns, wake.at_ns + wake.late_ns);
    windows.iter().map(|(begin, end)| (*end).min(to).saturating_sub((*begin).max(from))).sum()
}

fn spans_deadline((begin, end): (u64, u64), wake: &LateWake) -> bool {
    begin <= wake.at_ns + NEARLY_NS && end > wake.at_ns
}

/// Whether the CPU idled at the deadline.
fn idled(wake: &LateWake) -> bool {
    let then = |did: &&Stretch| did.cpu == wake.cpu && did.from_ns <= 0 && did.from_ns + did.ns as i64 > 0;
    wake.timeline.iter().find(then).is_some_and(|did| did.activity == Activity::Idle)
}

fn parts(wake: &LateWake) -> String {
    let part = |part: &WakePart| {
        format!("{:?} {:?} {} {}", part.part, part.cause, part.culprit.as_deref().unwrap_or("-"), part.ns)
    };
    wake.parts.iter().map(part).collect::<Vec<_>>().join(", ")
}
