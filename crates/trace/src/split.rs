//! Cuts the lateness of a wake-up into parts, each with its cause. The parts add up to the lateness exactly.

use punctual_record::{Cause, LatePart};

use crate::event::{Name, REAL_TIME};
use crate::follow::Follower;
use crate::history::{Doing, History, Span};
use crate::thread::{By, Call, Fired, State};

/// The kernel needs up to this long from a wake-up to an immediate switch, in a virtual machine too.
const SWITCH_NS: u64 = 30_000;
/// No CPU of the machine idles for longer than this while a timer is due, unless the host has them.
const SILENCE_NS: u64 = 5_000_000;
/// Leaving an idle state never takes this long. No real-time thread waits this long for a lower one, except under a limit.
const LONG_NS: u64 = 1_000_000;

/// Who or what took the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Who {
    Nobody,
    Thread(i32),
    Interrupt(Name),
    Softirq(u32),
    /// The function of a timer, by address.
    Function(u64),
    /// An idle state of a CPU; none where the kernel does not name it.
    Idle(Option<u32>),
}

/// A part of a lateness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) part: LatePart,
    pub(crate) cause: Cause,
    pub(crate) who: Who,
    pub(crate) ns: u64,
}

/// A wake-up that was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Split {
    /// When the thread should have run: the timer's deadline, or the waker's wake-up.
    pub(crate) due_ns: u64,
    /// Whether a timer woke it.
    pub(crate) timed: bool,
    /// In the order of time; at most one for each part, cause and culprit.
    pub(crate) pieces: Vec<Piece>,
}

impl Split {
    pub(crate) fn late_ns(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.ns).sum()
    }
}

/// Why a wake-up cannot be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Uncut {
    /// The wake-up was not seen.
    NoWaking,
    /// The switch to the thread was not seen.
    NoSwitch,
    /// The order of its times is impossible.
    Order,
}

/// Cuts the wake-up of a call that blocked.
pub(crate) fn split(call: &Call, machine: &Follower) -> Result<Split, Uncut> {
    let Some(woken) = call.woken.as_ref() else { return after_a_stop(call, machine).ok_or(Uncut::NoWaking) };
    if call.incomplete {
        return Err(Uncut::NoSwitch);
    }
    // Only a timer's function that began before the wake-up, and had not ended, can have caused it.
    let by_timer = matches!(woken.by, By::Serving(Doing::Timer { .. }));
    let fired = call.fired.filter(|fired| by_timer && fired.function_ns <= woken.at_ns && fired.cpu == woken.cpu);
    // What was over before the call is not lost in it.
    let from_call = |ns: u64| ns.max(call.entered_ns);
    let fired =
        fired.map(|fired| Fired { soft_ns: from_call(fired.soft_ns), hard_ns: from_call(fired.hard_ns), ..fired });
    let due_ns = fired.map_or(woken.at_ns, |fired| fired.soft_ns);
    if due_ns > call.returned_ns {
        return Err(Uncut::Order);
    }
    let mut cut = Cut { machine, call, pieces: Vec::new() };
    let mut at = due_ns;
    if let Some(fired) = fired {
        at = cut.before_wake_up(&fired, woken.at_ns.max(due_ns));
    }
    cut.after(at);
    Ok(Split { due_ns, timed: fired.is_some(), pieces: cut.pieces })
}

/// A sleep that continues after a stop, when its time is over. Since Linux 7.2 it returns without another wake-up.
fn after_a_stop(call: &Call, machine: &Follower) -> Option<Split> {
    let set = call.timer.filter(|_| !call.incomplete && call.steps.iter().any(|step| step.state == State::Stopped))?;
    let due_ns = machine.monotonic(set.soft_ns, set.at_ns).max(call.entered_ns);
    if due_ns > call.returned_ns {
        return None;
    }
    let mut cut = Cut { machine, call, pieces: Vec::new() };
    let at = cut.stopped(due_ns, call.returned_ns);
    cut.after(at);
    Some(Split { due_ns, timed: true, pieces: cut.pieces })
}

struct Cut<'a> {
    machine: &'a Follower,
    call: &'a Call,
    pieces: Vec<Piece>,
}

impl Cut<'_> {
    fn add(&mut self, part: LatePart, cause: Cause, who: Who, ns: u64) {
        if ns == 0 {
            return;
        }
        let same = |piece: &&mut Piece| (piece.part, piece.cause, piece.who) == (part, cause, who);
        match self.pieces.iter_mut().find(same) {
            Some(piece) => piece.ns += ns,
            None => self.pieces.push(Piece { part, cause, who, ns }),
        }
    }

    /// From the deadline to the wake-up. Returns where it ended.
    fn before_wake_up(&mut self, fired: &Fired, woken_ns: u64) -> u64 {
        let due = self.stopped(fired.soft_ns, woken_ns);
        let until = |ns: u64| ns.clamp(due, woken_ns);
        let interrupt = until(fired.interrupt_ns);
        let hard = until(fired.hard_ns).min(interrupt);
        let function = until(fired.function_ns).max(interrupt);
        self.add(LatePart::TimerSet, Cause::TimerSlack, Who::Nobody, hard - due);
        self.until_interrupt(fired.cpu, hard, interrupt);
        let others = self.other_timers(fired.cpu, interrupt, function);
        self.within(LatePart::TimerFunction, fired.cpu, interrupt, function, |span, doing| {
            // From one timer's function to the next, the kernel is still busy with the others.
            let between = others.iter().find(|(from, to, _)| *from <= span.from_ns && span.to_ns <= *to);
            let others = between.map(|(_, _, function)| (Cause::OtherTimers, Who::Function(*function)));
            served(doing).or(others).unwrap_or((Cause::TimerPath, Who::Nobody))
        });
        self.within(LatePart::WakeUp, fired.cpu, function, woken_ns, |_, doing| match doing {
            Doing::Timer { .. } => (Cause::TimerPath, Who::Nobody),
            doing => served(doing).unwrap_or((Cause::TimerPath, Who::Nobody)),
        });
        woken_ns
    }

    /// The gaps between functions of timers: from, to, the next function.
    fn other_timers(&self, cpu: u32, from: u64, to: u64) -> Vec<(u64, u64, u64)> {
        let spans = self.machine.cpu(cpu).into_iter().flat_map(|history| history.between(from, to));
        let timers = spans.filter_map(|span| match span.doing {
            Doing::Timer { function, .. } => Some((span.from_ns, span.to_ns, function)),
            _ => None,
        });
        let timers: Vec<_> = timers.collect();
        timers.windows(2).map(|pair| (pair[0].1, pair[1].0, pair[1].2)).collect()
    }

    /// The time that a stop took after the deadline. Returns when the thread went on, or the deadline.
    fn stopped(&mut self, due: u64, woken_ns: u64) -> u64 {
        let Some(stop) = self.call.steps.iter().rposition(|step| step.state == State::Stopped) else { return due };
        let runs = |step: &&crate::thread::Step| matches!(step.state, State::Running(_));
        let resumed = self.call.steps[stop..].iter().find(runs).map_or(due, |step| step.from_ns.min(woken_ns));
        self.add(LatePart::WakeUp, Cause::Stopped, Who::Nobody, resumed.saturating_sub(due));
        resumed.max(due)
    }

    fn until_interrupt(&mut self, cpu: u32, from: u64, to: u64) {
        let (silent, again) = self.silence(from, to).unwrap_or((to, to));
        self.late_interrupt(cpu, from, silent);
        self.add(LatePart::TimerInterrupt, Cause::Host, Who::Nobody, again - silent);
        self.late_interrupt(cpu, again, to);
    }

    /// The longest time in which no CPU of the machine did anything, if it was long.
    fn silence(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        if to - from <= SILENCE_NS {
            return None;
        }
        let spans = self.machine.cpus().iter().flat_map(|history| history.between(from, to));
        let mut at: Vec<u64> = spans.map(|span| span.to_ns).chain([from, to]).collect();
        at.sort_unstable();
        let gaps = at.windows(2).map(|pair| (pair[0], pair[1]));
        gaps.max_by_key(|(begin, end)| end - begin).filter(|(begin, end)| end - begin > SILENCE_NS)
    }

    fn late_interrupt(&mut self, cpu: u32, from: u64, to: u64) {
        let machine = self.machine;
        // Where no idle states are seen, the idle thread may be in one.
        let may_idle = !machine.cpu(cpu).is_some_and(History::shows_idle);
        self.within(LatePart::TimerInterrupt, cpu, from, to, |span, doing| match doing {
            Doing::Idle(state) if !machine.polls(state) => (Cause::IdleState, Who::Idle(Some(state))),
            Doing::Thread(0) if may_idle || span.to_ns - span.from_ns <= SWITCH_NS => {
                (Cause::IdleState, Who::Idle(None))
            }
            Doing::Thread(_) | Doing::Idle(_) if to - from <= SWITCH_NS => (Cause::TimerPath, Who::Nobody),
            Doing::Thread(tid) => (Cause::InterruptsOff, Who::Thread(tid)),
            Doing::Idle(_) => (Cause::InterruptsOff, Who::Thread(0)),
            doing => served(doing).unwrap_or((Cause::TimerPath, Who::Nobody)),
        });
    }

    /// From the wake-up on, by what the thread's state was.
    fn after(&mut self, from: u64) {
        let ends = self.call.steps.iter().skip(1).map(|step| step.from_ns).chain([self.call.returned_ns]);
        let (mut ran, mut fault) = (false, false);
        for (step, end) in self.call.steps.iter().zip(ends).collect::<Vec<_>>() {
            let (begin, end) = (step.from_ns.max(from), end);
            if end <= begin && !matches!(step.state, State::Running(_)) || end <= from {
                continue;
            }
            let part = if ran { LatePart::Return } else { LatePart::RunQueue };
            match step.state {
                State::Running(cpu) => {
                    ran = true;
                    fault = self.call.faults.iter().any(|at| (begin..end).contains(at));
                    self.returning(cpu, begin, end);
                }
                State::Ready(_) if fault => self.add(LatePart::Return, Cause::PageFault, Who::Nobody, end - begin),
                State::Ready(cpu) => self.queued(part, cpu, begin, end, ran),
                State::Asleep if fault => self.add(LatePart::Return, Cause::PageFault, Who::Nobody, end - begin),
                State::Asleep => self.add(part, Cause::ReturnPath, Who::Nobody, end - begin),
                State::Stopped => self.add(part, Cause::Stopped, Who::Nobody, end - begin),
            }
        }
    }

    fn returning(&mut self, cpu: u32, from: u64, to: u64) {
        let faults = self.call.faults.iter().filter(|at| (from..to).contains(*at)).min().copied();
        // The fault takes the time until the thread does something else that is seen.
        let (plain, faulty) = faults.map_or((to, to), |at| (at, to));
        let ours = |_: &Span, doing| served(doing).unwrap_or((Cause::ReturnPath, Who::Nobody));
        self.within(LatePart::Return, cpu, from, plain, ours);
        let fault = |_: &Span, doing| served(doing).unwrap_or((Cause::PageFault, Who::Nobody));
        self.within(LatePart::Return, cpu, plain, faulty, fault);
    }

    /// The thread waits to run.
    fn queued(&mut self, part: LatePart, cpu: u32, from: u64, to: u64, again: bool) {
        let machine = self.machine;
        let own = machine.known(self.call.tid).prio;
        let queue = machine.cpu(cpu).map(|history| Queue::seen_in(history, from, to)).unwrap_or_default();
        let limited = self.limited(from, to);
        let used_up = machine.limits().used_up(self.call.tid, from, to);
        // The CPU that woke it leaves its idle state already.
        let here = self.call.woken.as_ref().is_some_and(|woken| woken.cpu == cpu && woken.at_ns == from);
        let why = |span: &Span, doing| {
            let chosen = queue.chosen_from_ns.is_some_and(|at| span.from_ns >= at);
            let kept = limited || if own < REAL_TIME { span.limited } else { used_up && (chosen || queue.idled_again) };
            match doing {
                Doing::Thread(0) | Doing::Idle(_) if kept => {
                    (if own < REAL_TIME { Cause::RtThrottling } else { Cause::Quota }, Who::Nobody)
                }
                Doing::Thread(0) | Doing::Idle(_) if here => (Cause::ContextSwitch, Who::Nobody),
                Doing::Idle(state) if machine.polls(state) => (Cause::ContextSwitch, Who::Nobody),
                // The rest of the function of the timer that woke it.
                Doing::Timer { .. } if here && span.from_ns == from => (Cause::TimerPath, Who::Nobody),
                Doing::Thread(0) => (Cause::IdleState, Who::Idle(None)),
                Doing::Idle(state) => (Cause::IdleState, Who::Idle(Some(state))),
                Doing::Thread(tid) => {
                    let lower = own < REAL_TIME && own < machine.known(tid).prio;
                    let cause = match (chosen, lower) {
                        (false, _) if queue.first_ns <= SWITCH_NS => return (Cause::ContextSwitch, Who::Nobody),
                        // The time that the kernel keeps for the threads below had begun.
                        (true, true) if kept => Cause::RtThrottling,
                        (false, true) if kept && to - from > LONG_NS => Cause::RtThrottling,
                        (_, true) => Cause::NotPreempted,
                        _ if again => Cause::Preempted,
                        _ => Cause::OtherThread,
                    };
                    (cause, Who::Thread(tid))
                }
                doing => served(doing).unwrap_or((Cause::ContextSwitch, Who::Nobody)),
            }
        };
        let idles = |cause: Cause| matches!(cause, Cause::ContextSwitch | Cause::IdleState);
        let host = self.silence(from, to).filter(|(at, _)| {
            let span = machine.cpu(cpu).and_then(|history| history.between(*at, to).next());
            span.is_some_and(|span| {
                matches!(span.doing, Doing::Thread(0) | Doing::Idle(_)) && idles(why(&span, span.doing).0)
            })
        });
        let quota = self.out_of_quota(cpu, from, to).map(|(at, filled)| (Cause::Quota, at, filled));
        let kept = quota.or(host.map(|(at, end)| (Cause::Host, at, end)));
        let (cause, at, end) = kept.unwrap_or((Cause::Quota, to, to));
        self.within(part, cpu, from, at, why);
        self.within(part, cpu, at, end, |_, doing| served(doing).unwrap_or((cause, Who::Nobody)));
        self.within(part, cpu, end, to, why);
    }

    /// Whether a limit on the thread's CPU time was reached while it waited. Then an idle CPU did not take it.
    fn limited(&self, from: u64, to: u64) -> bool {
        let (machine, tid) = (self.machine, self.call.tid);
        let limits = machine.limits();
        to - from > LONG_NS
            && if machine.known(tid).prio < REAL_TIME {
                self.timers(from, to).any(|(function, _)| limits.refills_real_time(function))
            } else {
                limits.used_up(tid, from, to)
            }
    }

    /// The functions of timers that all CPUs served in this time, and when.
    fn timers(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, Span)> {
        let spans = self.machine.cpus().iter().flat_map(move |history| history.between(from, to));
        spans.filter_map(|span| match span.doing {
            Doing::Timer { function, .. } => Some((function, span)),
            _ => None,
        })
    }

    /// When the quota of the thread's group kept it from the CPU, even if others ran. It lasts from the last thread of its group
    /// until the refill. Both the kernel's count of used-up quotas and the timer that fills them must say so.
    fn out_of_quota(&self, cpu: u32, from: u64, to: u64) -> Option<(u64, u64)> {
        let (machine, tid) = (self.machine, self.call.tid);
        let limits = machine.limits();
        if to - from <= LONG_NS || !limits.has(tid) || machine.known(tid).prio < REAL_TIME {
            return None;
        }
        let refills = self.timers(from, to).filter(|(function, _)| limits.refills(*function)).map(|(_, span)| span);
        let filled =
            refills.filter(|span| limits.used_up(tid, span.from_ns, span.to_ns)).map(|span| span.to_ns).max()?;
        let shares =
            |span: &Span| matches!(span.doing, Doing::Thread(other) if other != 0 && limits.shares(tid, other));
        let ran = machine.cpu(cpu)?.between(from, filled).filter(shares).last();
        Some((ran.map_or(from, |span| span.to_ns), filled))
    }

    /// Gives each stretch of what this CPU did to its cause; a gap goes to that of the stretch before.
    fn within(&mut self, part: LatePart, cpu: u32, from: u64, to: u64, cause: impl Fn(&Span, Doing) -> (Cause, Who)) {
        let machine = self.machine;
        let Some(history) = machine.cpu(cpu) else { return };
        let mut at = from;
        let spans: Vec<Span> = history.between(from, to).collect();
        for span in &spans {
            let (cause, who) = cause(span, span.doing);
            let end = span.to_ns.min(to);
            self.add(part, cause, who, end.saturating_sub(at));
            at = at.max(end);
        }
        if at < to {
            // Older than what is kept.
            let doing = spans.last().map_or(Doing::Thread(self.call.tid), |span| span.doing);
            let span = Span { from_ns: at, to_ns: to, doing, limited: false };
            let (cause, who) = cause(&span, doing);
            self.add(part, cause, who, to - at);
        }
    }
}

/// What a CPU did while a thread waited for it, below interrupts.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    /// How long it went on with what it did at the wake-up.
    first_ns: u64,
    /// From then on it did what the scheduler chose instead of the thread.
    chosen_from_ns: Option<u64>,
    /// It left an idle state and entered one again, although the thread was ready.
    idled_again: bool,
}

impl Queue {
    fn seen_in(history: &History, from: u64, to: u64) -> Self {
        let mut queue = Self::default();
        let mut first = None;
        let mut idle_left = false;
        for span in history.between(from, to) {
            let base = match span.doing {
                Doing::Thread(tid) => tid,
                Doing::Idle(_) => 0,
                _ => continue,
            };
            queue.idled_again |= idle_left && matches!(span.doing, Doing::Idle(_));
            idle_left |= span.doing == Doing::Thread(0);
            if *first.get_or_insert(base) == base && queue.chosen_from_ns.is_none() {
                queue.first_ns += span.to_ns - span.from_ns;
            } else {
                queue.chosen_from_ns.get_or_insert(span.from_ns);
            }
        }
        queue
    }
}

/// What interrupts whatever runs.
fn served(doing: Doing) -> Option<(Cause, Who)> {
    Some(match doing {
        Doing::Interrupt(name) => (Cause::DeviceInterrupt, Who::Interrupt(name)),
        Doing::Softirq(vector) => (Cause::Softirq, Who::Softirq(vector)),
        Doing::Nmi => (Cause::Nmi, Who::Nobody),
        Doing::Timer { function, .. } => (Cause::OtherTimers, Who::Function(function)),
        Doing::Thread(_) | Doing::Idle(_) => return None,
    })
}

#[cfg(test)]
mod tests;
