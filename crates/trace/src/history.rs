//! What each CPU did lately.

use std::collections::VecDeque;

use crate::event::{Event, Kind, Name, REAL_TIME, sleeps};

/// Stretches kept for a CPU: on a busy one, seconds.
const KEPT: usize = 1 << 14;
/// Nested interrupts: a softirq, an interrupt in it, a timer's function in that, and a spare.
const NESTED: usize = 4;

/// What a CPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Runs this thread; 0 is the idle thread outside of an idle state.
    Thread(i32),
    /// Is in an idle state.
    Idle(u32),
    /// Serves a device's interrupt.
    Interrupt(Name),
    /// Serves a softirq.
    Softirq(u32),
    /// Runs the function at this address, of a timer.
    Timer { timer: u64, function: u64 },
    /// Serves a non-maskable interrupt.
    Nmi,
}

/// A stretch of one activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) doing: Doing,
    /// A runnable real-time thread lost the CPU to a lower policy, and no real-time thread has run since.
    pub(crate) limited: bool,
}

/// The recent past of a CPU.
#[derive(Debug)]
pub(crate) struct History {
    spans: VecDeque<Span>,
    /// What it returns to when nothing interrupts.
    base: Doing,
    above: Vec<Doing>,
    since_ns: u64,
    seen: bool,
    /// As in [`Span`].
    limited: bool,
    /// Its idle states are seen.
    shows_idle: bool,
}

impl Default for History {
    fn default() -> Self {
        let (spans, above) = (VecDeque::new(), Vec::with_capacity(NESTED));
        Self { spans, base: Doing::Thread(0), above, since_ns: 0, seen: false, limited: false, shows_idle: false }
    }
}

impl History {
    /// Takes in the next event of this CPU.
    pub(crate) fn take(&mut self, event: &Event) {
        let now = event.time_ns;
        if !self.seen {
            (self.seen, self.since_ns) = (true, now);
            self.base = Doing::Thread(event.tid);
        }
        match event.kind {
            Kind::Switch { prev, prev_state, next } => {
                self.end(now);
                let lost = (0..REAL_TIME).contains(&prev.prio) && !sleeps(prev_state);
                self.limited = next.prio >= REAL_TIME && (lost || self.limited);
                // A switch cannot happen inside of an interrupt: whatever end was missed, it is over.
                self.above.clear();
                self.base = Doing::Thread(next.tid);
            }
            Kind::Idle { state } => {
                self.end(now);
                self.base = state.map_or(Doing::Thread(0), Doing::Idle);
                self.shows_idle = true;
            }
            Kind::Interrupt { name, .. } => self.nest(now, Doing::Interrupt(name)),
            Kind::Softirq { vector } => self.nest(now, Doing::Softirq(vector)),
            Kind::TimerExpire { timer, function, .. } => self.nest(now, Doing::Timer { timer, function }),
            Kind::InterruptDone => self.unnest(now, |doing| matches!(doing, Doing::Interrupt(_))),
            Kind::SoftirqDone => self.unnest(now, |doing| matches!(doing, Doing::Softirq(_))),
            Kind::TimerDone { .. } => self.unnest(now, |doing| matches!(doing, Doing::Timer { .. })),
            Kind::Nmi { took_ns } => self.insert(now.saturating_sub(took_ns.max(0).cast_unsigned()), now, Doing::Nmi),
            _ => {}
        }
    }

    /// What it does now.
    pub(crate) fn doing(&self) -> Doing {
        self.above.last().copied().unwrap_or(self.base)
    }

    /// The interrupt, softirq or timer's function that it serves now.
    pub(crate) fn serving(&self) -> Option<Doing> {
        self.above.last().copied()
    }

    /// What it did between these times, without gaps as far as it is known.
    pub(crate) fn between(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = Span> + '_ {
        let first = self.spans.partition_point(|span| span.to_ns <= from_ns);
        let open = Span { from_ns: self.since_ns, to_ns, doing: self.doing(), limited: self.limited };
        let open = (self.seen && self.since_ns < to_ns).then_some(open);
        let known = self.spans.range(first..).copied().chain(open);
        known.take_while(move |span| span.from_ns < to_ns).filter_map(move |span| {
            let (from_ns, to_ns) = (span.from_ns.max(from_ns), span.to_ns.min(to_ns));
            (from_ns < to_ns).then_some(Span { from_ns, to_ns, ..span })
        })
    }

    /// Whether idle states of this CPU were seen.
    pub(crate) fn shows_idle(&self) -> bool {
        self.shows_idle
    }

    /// Forgets all: events were lost.
    pub(crate) fn forget(&mut self) {
        *self = Self { shows_idle: self.shows_idle, ..Self::default() };
    }

    fn end(&mut self, now: u64) {
        if now > self.since_ns {
            if self.spans.len() == KEPT {
                self.spans.pop_front();
            }
            let (doing, limited) = (self.doing(), self.limited);
            self.spans.push_back(Span { from_ns: self.since_ns, to_ns: now, doing, limited });
            self.since_ns = now;
        }
    }

    fn nest(&mut self, now: u64, doing: Doing) {
        self.end(now);
        if self.above.len() == NESTED {
            self.above.remove(0);
        }
        self.above.push(doing);
    }

    fn unnest(&mut self, now: u64, is: fn(&Doing) -> bool) {
        self.end(now);
        if let Some(at) = self.above.iter().rposition(is) {
            self.above.truncate(at);
        }
    }

    /// A stretch that is known only when it is over.
    fn insert(&mut self, from_ns: u64, to_ns: u64, doing: Doing) {
        self.end(from_ns.max(self.since_ns));
        self.above.push(doing);
        self.end(to_ns);
        self.above.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Thread;

    fn event(time_ns: u64, kind: Kind) -> Event {
        Event { time_ns, cpu: 0, tid: 1, kind }
    }

    fn switch(prev: i32, next: i32) -> Kind {
        let thread = |tid| Thread { tid, prio: 120, name: Name::default() };
        Kind::Switch { prev: thread(prev), prev_state: 0, next: thread(next) }
    }

    #[test]
    fn interrupts_lie_above_threads() {
        let mut history = History::default();
        history.take(&event(100, switch(1, 2)));
        history.take(&event(200, Kind::Softirq { vector: 3 }));
        history.take(&event(250, Kind::TimerExpire { timer: 1, function: 9, now_ns: 0 }));
        history.take(&event(260, Kind::TimerDone { timer: 1 }));
        history.take(&event(300, Kind::SoftirqDone));
        let did: Vec<_> = history.between(150, 400).map(|span| (span.from_ns, span.to_ns, span.doing)).collect();
        let timer = Doing::Timer { timer: 1, function: 9 };
        let soft = Doing::Softirq(3);
        let all = [
            (150, 200, Doing::Thread(2)),
            (200, 250, soft),
            (250, 260, timer),
            (260, 300, soft),
            (300, 400, Doing::Thread(2)),
        ];
        assert_eq!(did, all);
    }

    #[test]
    fn a_cpu_is_limited_from_a_lost_real_time_thread_to_the_next() {
        let mut history = History::default();
        let thread = |(tid, prio)| Thread { tid, prio, name: Name::default() };
        let switches =
            [((1, 59), 0, (2, 120)), ((2, 120), 0, (0, 120)), ((0, 120), 0, (1, 59)), ((1, 59), 1, (2, 120))];
        for (at, (prev, prev_state, next)) in switches.into_iter().enumerate() {
            let kind = Kind::Switch { prev: thread(prev), prev_state, next: thread(next) };
            history.take(&event(100 * at as u64 + 100, kind));
        }
        let limited: Vec<bool> = history.between(100, 500).map(|span| span.limited).collect();
        assert_eq!(limited, [true, true, false, false]);
    }

    #[test]
    fn a_missed_end_is_over_with_the_next_switch() {
        let mut history = History::default();
        history.take(&event(1, Kind::Softirq { vector: 3 }));
        history.take(&event(2, switch(1, 2)));
        assert_eq!(history.doing(), Doing::Thread(2));
        history.take(&event(3, Kind::Idle { state: Some(1) }));
        assert_eq!(history.doing(), Doing::Idle(1));
        history.take(&event(9, Kind::Nmi { took_ns: 4 }));
        assert_eq!(history.between(0, 9).map(|span| span.doing).last(), Some(Doing::Nmi));
    }

    proptest::proptest! {
        #[test]
        fn stretches_cover_a_window_once(steps in proptest::collection::vec((1..50_u64, 0..8_u8), 1..200)) {
            let mut history = History::default();
            let mut now = 1000;
            for (step, what) in steps {
                now += step;
                history.take(&event(now, match what {
                    0 => switch(1, 2),
                    1 => Kind::Idle { state: Some(0) },
                    2 => Kind::Idle { state: None },
                    3 => Kind::Softirq { vector: 1 },
                    4 => Kind::SoftirqDone,
                    5 => Kind::TimerExpire { timer: 1, function: 2, now_ns: 3 },
                    6 => Kind::Nmi { took_ns: 30 },
                    _ => Kind::Leave { number: 0, returned: 0 },
                }));
            }
            let first = history.between(0, now + 5).next().unwrap().from_ns;
            let mut at = first;
            for span in history.between(first, now + 5) {
                proptest::prop_assert_eq!(span.from_ns, at);
                at = span.to_ns;
            }
            proptest::prop_assert_eq!(at, now + 5);
        }
    }
}
