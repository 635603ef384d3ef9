//! The track of a watched thread: its system calls, and in them how late and why not yet running.

use std::collections::VecDeque;
use std::io::Write;

use super::lines::{Lines, Track};
use crate::event::Name;

/// Timers of a thread that are remembered: that of its call, and a few before it.
const TIMERS: usize = 4;

/// A wake-up that the thread has not yet returned from.
#[derive(Debug, Clone, Copy)]
struct WakeUp {
    at_ns: u64,
    /// The deadline if the thread's own timer woke it, else the wake-up. None if the deadline is of an unknown clock.
    late_from_ns: Option<u64>,
    ran_ns: Option<u64>,
    arrow: Option<u64>,
}

/// A watched thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) track: Track,
    name: Name,
    /// When the call began that is open.
    call_ns: Option<u64>,
    /// True also where it is not known.
    runs: bool,
    /// Since when it waits for a CPU that another thread took.
    preempted_ns: Option<u64>,
    wake_up: Option<WakeUp>,
    /// The address and the deadline of each, in ns of its clock.
    timers: VecDeque<(u64, i64)>,
}

impl Thread {
    pub(super) fn new(track: Track) -> Self {
        let (timers, name) = (VecDeque::with_capacity(TIMERS), Name::default());
        Self { track, name, call_ns: None, runs: true, preempted_ns: None, wake_up: None, timers }
    }

    /// A thread changes its name when it executes a program.
    pub(super) fn name<W: Write>(&mut self, lines: &mut Lines<W>, name: Name) {
        if name != self.name {
            self.name = name;
            lines.name_track(self.track, &name.to_string());
        }
    }

    pub(super) fn enter<W: Write>(&mut self, lines: &mut Lines<W>, at_ns: u64, call: &str) {
        self.cut(lines, at_ns);
        self.call_ns = Some(at_ns);
        lines.begin(self.track, at_ns, call);
    }

    pub(super) fn leave<W: Write>(&mut self, lines: &mut Lines<W>, at_ns: u64, returned: i64) {
        self.end_wake_up(lines, at_ns, true);
        if self.call_ns.take().is_some() {
            lines.end_returning(self.track, at_ns, returned);
        }
    }

    /// It set a timer. Outside of a call, an interrupt did.
    pub(super) fn start_timer(&mut self, timer: u64, deadline_ns: i64) {
        if self.call_ns.is_none() {
            return;
        }
        self.timers.retain(|(other, _)| *other != timer);
        if self.timers.len() == TIMERS {
            self.timers.pop_front();
        }
        self.timers.push_back((timer, deadline_ns));
    }

    /// Whether a wake-up now ends a wait: a thread that still runs has not yet gone to sleep.
    pub(super) fn sleeps(&self) -> bool {
        !self.runs && self.preempted_ns.is_none()
    }

    /// It is woken, perhaps by the function of a timer, and shown by an arrow. With the timer comes the origin in its clock.
    pub(super) fn wake<W: Write>(
        &mut self,
        lines: &mut Lines<W>,
        at_ns: u64,
        timer: Option<(u64, i64)>,
        arrow: impl FnOnce(&mut Lines<W>) -> Option<u64>,
    ) {
        if self.wake_up.is_some_and(|wake_up| wake_up.ran_ns.is_none()) {
            return;
        }
        self.end_wake_up(lines, at_ns, false);
        let deadline = timer.and_then(|(woken_by, origin_ns)| {
            let own = self.timers.iter().find(|(address, _)| *address == woken_by);
            own.map(|(_, deadline_ns)| deadline_ns.saturating_sub(origin_ns).max(0).cast_unsigned())
        });
        // No timer fires before its deadline: one that is still to come is a time of an unknown clock.
        let late_from_ns = Some(deadline.unwrap_or(at_ns)).filter(|from| *from <= at_ns);
        self.wake_up = Some(WakeUp { at_ns, late_from_ns, ran_ns: None, arrow: arrow(lines) });
    }

    /// It runs now.
    pub(super) fn run<W: Write>(&mut self, lines: &mut Lines<W>, at_ns: u64) {
        self.runs = true;
        if let Some(from_ns) = self.preempted_ns.take() {
            lines.whole(self.track, from_ns, at_ns, "preempted");
        }
        if let Some(wake_up) = &mut self.wake_up {
            wake_up.ran_ns.get_or_insert(at_ns);
        }
    }

    /// It runs no longer.
    pub(super) fn stop(&mut self, at_ns: u64, preempted: bool) {
        self.runs = false;
        self.preempted_ns = preempted.then_some(at_ns);
    }

    /// Ends all that is open.
    pub(super) fn cut<W: Write>(&mut self, lines: &mut Lines<W>, at_ns: u64) {
        if let Some(from_ns) = self.preempted_ns.take() {
            lines.whole(self.track, from_ns, at_ns, "preempted");
        }
        self.end_wake_up(lines, at_ns, false);
        if self.call_ns.take().is_some() {
            lines.end(self.track, at_ns);
        }
    }

    /// Events are missing: what was known holds no longer.
    pub(super) fn forget<W: Write>(&mut self, lines: &mut Lines<W>, at_ns: u64) {
        self.cut(lines, at_ns);
        self.runs = true;
        self.timers.clear();
    }

    /// The outer slice is written first, so that viewers nest those that begin at the same time.
    fn end_wake_up<W: Write>(&mut self, lines: &mut Lines<W>, at_ns: u64, returned: bool) {
        let Some(WakeUp { at_ns: woken_ns, late_from_ns, ran_ns, arrow }) = self.wake_up.take() else { return };
        if let Some(late_from_ns) = late_from_ns.filter(|_| returned) {
            // A deadline that was over before the call counts from the call.
            let from_ns = late_from_ns.max(self.call_ns.unwrap_or(0));
            lines.whole(self.track, from_ns, at_ns, &format!("late: {}", rounded(at_ns - from_ns)));
        }
        lines.whole(self.track, woken_ns, ran_ns.unwrap_or(at_ns), "woken, not yet running");
        if let Some(arrow) = arrow {
            lines.arrow_to(self.track, woken_ns, arrow);
        }
    }
}

/// A lateness as in the reports.
fn rounded(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{:.1} us", ns as f64 / 1e3),
        10_000..10_000_000 => format!("{:.0} us", ns as f64 / 1e3),
        _ => format!("{:.0} ms", ns as f64 / 1e6),
    }
}
