//! A watched thread: its system call, and how it came to run again.

use punctual_linux::syscall_name;

use crate::event::{ASLEEP, Kind, STOPPED, sleeps};
use crate::history::Doing;
use crate::repeat::{Repeat, Wait};

/// More changes within one call are not kept: such a call is not cut.
const MOST_STEPS: usize = 512;
/// A thread that loses its CPU within this time after sys_exit has not reached its program yet. On the way the kernel lets others
/// run, or ends the time of a used-up quota (since Linux 6.18).
const ON_THE_WAY_NS: u64 = 10_000;
/// `-ERESTARTSYS` to `-ERESTART_RESTARTBLOCK` (include/linux/errno.h): the call goes on after the signal.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Runs on this CPU.
    Running(u32),
    /// Waits to run, on this CPU's queue.
    Ready(u32),
    /// Sleeps.
    Asleep,
    /// Is stopped by a signal or a tracer.
    Stopped,
}

/// From this time on it is in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) from_ns: u64,
    pub(crate) state: State,
}

/// Who woke a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// Another thread.
    Thread(i32),
    /// An interrupt, a softirq or a timer.
    Serving(Doing),
}

/// A wake-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Woken {
    pub(crate) at_ns: u64,
    pub(crate) by: By,
    /// The CPU where it was done.
    pub(crate) cpu: u32,
    /// The waker, who woke it, and so on.
    pub(crate) chain: Vec<Link>,
}

/// A thread that woke another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) tid: i32,
    /// The system call in which it woke, where it is watched too.
    pub(crate) call: Option<i64>,
    /// How long it waited for a CPU since its own wake-up.
    pub(crate) delay_ns: u64,
    /// How long it ran since, until it woke the next.
    pub(crate) worked_ns: u64,
    /// Its priority was lower than that of the thread that it woke. Whether a mutex lent it the higher one, or it waited for a
    /// CPU without. None of the two, or a priority as high: none.
    pub(crate) inherited: Option<bool>,
}

/// A timer that a thread set, in the time of its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimerSet {
    pub(crate) timer: u64,
    pub(crate) soft_ns: i64,
    pub(crate) hard_ns: i64,
    /// When it was set.
    pub(crate) at_ns: u64,
}

/// A timer that fired. All times are those of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fired {
    pub(crate) soft_ns: u64,
    pub(crate) hard_ns: u64,
    /// When the interrupt read the clock.
    pub(crate) interrupt_ns: u64,
    /// When the timer's function began.
    pub(crate) function_ns: u64,
    pub(crate) cpu: u32,
}

/// A call that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) tid: i32,
    pub(crate) number: i64,
    /// Its first argument: of a futex, the address.
    pub(crate) address: u64,
    /// Since when the thread waits: earlier than its entry where it repeats a wait that timed out.
    pub(crate) since_ns: u64,
    pub(crate) entered_ns: u64,
    pub(crate) returned_ns: u64,
    pub(crate) returned: i64,
    pub(crate) steps: Vec<Step>,
    pub(crate) timer: Option<TimerSet>,
    pub(crate) fired: Option<Fired>,
    /// The last wake-up from sleep.
    pub(crate) woken: Option<Woken>,
    /// Page faults in the kernel.
    pub(crate) faults: Vec<u64>,
    /// An event that must have happened was not seen.
    pub(crate) incomplete: bool,
}

impl Call {
    fn step(&mut self, from_ns: u64, state: State) {
        if self.steps.len() >= MOST_STEPS {
            self.incomplete = true;
        } else if self.steps.last().is_none_or(|last| last.state != state) {
            self.steps.push(Step { from_ns, state });
        }
    }

    /// Whether it gave up the CPU until something woke it.
    pub(crate) fn blocked(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.state, State::Asleep | State::Stopped))
    }
}

/// A watched thread.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    call: Option<Call>,
    restarts: bool,
    /// It left its call, and may not have reached its program yet.
    leaving: Option<Call>,
    /// Woken while it still ran, on its way to sleep.
    early: Option<Woken>,
    repeat: Repeat,
    yet_to_execute: bool,
}

impl Watched {
    /// It runs on `cpu` and enters a call.
    pub(crate) fn enter(&mut self, tid: i32, time_ns: u64, cpu: u32, (number, address): (i64, u64)) {
        if std::mem::take(&mut self.restarts)
            && let Some(call) = &mut self.call
        {
            // restart_syscall(2), or the same call again: it is one call to the program.
            (call.woken, call.fired) = (None, None);
            return;
        }
        self.early = None;
        let steps = vec![Step { from_ns: time_ns, state: State::Running(cpu) }];
        let (timer, fired, woken) = (None, None, None);
        self.call = Some(Call {
            tid,
            number,
            address,
            since_ns: self.repeat.since(number, address, time_ns),
            entered_ns: time_ns,
            returned_ns: 0,
            returned: 0,
            steps,
            timer,
            fired,
            woken,
            faults: Vec::new(),
            incomplete: false,
        });
    }

    /// When it entered the call that it is in.
    pub(crate) fn entered_ns(&self) -> Option<u64> {
        self.call.as_ref().map(|call| call.entered_ns)
    }

    /// The call that it is in.
    pub(crate) fn in_call(&self) -> Option<i64> {
        self.call.as_ref().map(|call| call.number)
    }

    /// Something about it happened on `cpu`; a wake-up comes with its waker.
    pub(crate) fn take(&mut self, tid: i32, time_ns: u64, cpu: u32, kind: &Kind, woken: Option<Woken>) {
        self.on_the_way(tid, time_ns, cpu, kind);
        let Some(call) = &mut self.call else { return };
        let now = call.steps.last().map(|step| step.state);
        let runs = matches!(now, Some(State::Running(_)));
        let ready = matches!(now, Some(State::Ready(_)));
        let mut step = |state| call.step(time_ns, state);
        match *kind {
            Kind::TimerStart { timer, soft_ns, hard_ns, .. } => {
                call.timer = Some(TimerSet { timer, soft_ns, hard_ns, at_ns: time_ns });
                call.fired = None;
            }
            Kind::Waking { .. } if runs => self.early = woken,
            Kind::Waking { target_cpu, .. } => {
                step(State::Ready(target_cpu));
                // Sleep in a page fault on the way back is not what the program asked for.
                let done = call.woken.as_ref().map(|woken| woken.at_ns);
                if done.is_none_or(|done| call.faults.last().is_none_or(|fault| *fault < done)) {
                    call.woken = woken;
                }
            }
            Kind::Migrate { to, .. } if ready => step(State::Ready(to)),
            Kind::Switch { next, .. } if next.tid == tid => {
                step(State::Running(cpu));
                call.incomplete |= !ready;
                self.early = None;
            }
            Kind::Switch { prev_state, .. } => match prev_state {
                state if state & STOPPED != 0 => step(State::Stopped),
                state if state & ASLEEP != 0 => {
                    step(State::Asleep);
                    // The waker waited for this switch.
                    if let Some(woken) = self.early.take() {
                        step(State::Ready(cpu));
                        call.woken = Some(Woken { at_ns: time_ns, ..woken });
                    }
                }
                _ => step(State::Ready(cpu)),
            },
            Kind::Fault if call.faults.len() < MOST_STEPS => call.faults.push(time_ns),
            _ => {}
        }
    }

    /// The timer that it waits for, if this is it.
    pub(crate) fn fire(&mut self, timer: u64, fired: impl FnOnce(&TimerSet) -> Fired) {
        if let Some(call) = &mut self.call
            && let Some(set) = call.timer.filter(|set| set.timer == timer)
        {
            call.fired = Some(fired(&set));
        }
    }

    /// It leaves its call, unless the call continues. [`Watched::left`] gives it.
    pub(crate) fn leave(&mut self, time_ns: u64, number: i64, returned: i64) {
        if self.yet_to_execute {
            self.yet_to_execute = returned != 0 || syscall_name::name_of(number) != "execve";
        }
        if RESTARTS.contains(&returned) && self.call.is_some() {
            self.restarts = true;
            return;
        }
        let Some(mut call) = self.call.take() else { return };
        // Woken by what was due already, before it slept again: after a stop or a signal.
        call.woken = call.woken.or(self.early.take());
        (call.returned_ns, call.returned) = (time_ns, returned);
        if call.blocked() {
            let wait = Wait { address: call.address, since_ns: call.since_ns, at_ns: time_ns };
            self.repeat.ended(call.number, returned, wait);
        }
        // It runs now; if the last that was seen is another state, its switch was not.
        call.incomplete |= !matches!(call.steps.last(), Some(Step { state: State::Running(_), .. }));
        self.leaving = Some(call);
    }

    /// The call that it left, if it runs its program by now.
    pub(crate) fn left(&mut self, now_ns: u64) -> Option<Call> {
        let runs = |step: Option<&Step>| step.is_none_or(|step| matches!(step.state, State::Running(_)));
        self.leaving.take_if(|call| now_ns > call.returned_ns + ON_THE_WAY_NS && runs(call.steps.last()))
    }

    /// The same at once: its next call begins, or watching ends.
    pub(crate) fn left_at_last(&mut self) -> Option<Call> {
        let mut call = self.leaving.take()?;
        call.incomplete |= !matches!(call.steps.last(), Some(Step { state: State::Running(_), .. }));
        Some(call)
    }

    /// It loses its CPU, or gets one, after it left its call.
    fn on_the_way(&mut self, tid: i32, time_ns: u64, cpu: u32, kind: &Kind) {
        let Some(call) = &mut self.leaving else { return };
        match *kind {
            Kind::Switch { next, .. } if next.tid == tid => {
                call.step(time_ns, State::Running(cpu));
                call.returned_ns = time_ns;
            }
            Kind::Switch { prev_state, .. } if !sleeps(prev_state) => call.step(time_ns, State::Ready(cpu)),
            Kind::Migrate { to, .. } => call.step(time_ns, State::Ready(to)),
            _ => {}
        }
    }

    /// It has yet to execute its program.
    pub(crate) fn execute_later(&mut self) {
        self.yet_to_execute = true;
    }

    pub(crate) fn is_yet_to_execute(&self) -> bool {
        self.yet_to_execute
    }

    /// Events were lost: the state is unknown.
    pub(crate) fn forget(&mut self) {
        self.yet_to_execute = false;
        self.call.iter_mut().chain(&mut self.leaving).for_each(|call| call.incomplete = true);
    }
}
