//! The way of a call as tracepoints show it: what happened between its entry and its return.

use punctual_linux::syscall_name;
use punctual_record::PathStep;

use crate::event::{Event, Kind};

/// A call, its events, and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) steps: Vec<PathStep>,
    pub(crate) took_ns: u64,
}

/// A call that goes on.
struct Open {
    begin: u64,
    number: i64,
    steps: Vec<PathStep>,
}

/// The calls of thread `tid` with one of these numbers. Events of other CPUs count where they are about the thread.
pub(crate) fn calls(events: &[Event], tid: i32, numbers: &[i64]) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut open: Option<Open> = None;
    for event in events {
        let at = |begin: u64| Some(event.time_ns.saturating_sub(begin));
        match event.kind {
            Kind::Enter { number, .. } if event.tid == tid && numbers.contains(&number) => {
                let name = syscall_name::name_of(number);
                let first = PathStep { depth: 0, name, at_ns: Some(0), took_ns: None };
                open = Some(Open { begin: event.time_ns, number, steps: vec![first] });
            }
            Kind::Leave { number, returned } if event.tid == tid => {
                if let Some(Open { begin, number: entered, mut steps }) = open.take()
                    && entered == number
                {
                    let took_ns = event.time_ns - begin;
                    steps.push(PathStep {
                        depth: 0,
                        name: format!("returns {returned}"),
                        at_ns: at(begin),
                        took_ns: None,
                    });
                    steps[0].took_ns = Some(took_ns);
                    seen.push(Seen { steps, took_ns });
                }
            }
            _ => {
                if let Some(Open { begin, steps, .. }) = &mut open
                    && let Some(name) = describe(event, tid)
                {
                    steps.push(PathStep { depth: 1, name, at_ns: at(*begin), took_ns: None });
                }
            }
        }
    }
    seen
}

/// What an event means to the thread; none if it does not concern it.
fn describe(event: &Event, tid: i32) -> Option<String> {
    Some(match event.kind {
        Kind::TimerStart { soft_ns, hard_ns, .. } if event.tid == tid => {
            let us = |ns: i64| ns as f64 / 1000.0;
            let from_now = soft_ns - event.time_ns.cast_signed();
            format!("sets a timer in {:.1} us, slack {:.1} us", us(from_now), us(hard_ns - soft_ns))
        }
        Kind::Switch { prev, prev_state, .. } if prev.tid == tid => {
            let why = if prev_state & 0xff == 0 { "still ready" } else { "asleep" };
            format!("gives up the CPU, {why}")
        }
        Kind::Switch { next, .. } if next.tid == tid => "runs again".to_owned(),
        Kind::Waking { tid: woken, .. } if woken == tid => "is woken".to_owned(),
        Kind::TimerExpire { .. } if event.tid == tid => "a timer's function runs".to_owned(),
        Kind::Migrate { tid: moved, to } if moved == tid => format!("is moved to CPU {to}"),
        Kind::Fault if event.tid == tid => "page fault".to_owned(),
        _ => return None,
    })
}

/// The call of median length.
pub(crate) fn median(mut seen: Vec<Seen>) -> Option<Seen> {
    seen.sort_by_key(|call| call.took_ns);
    let middle = seen.len() / 2;
    (middle < seen.len()).then(|| seen.swap_remove(middle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Name, Thread};

    #[test]
    fn only_the_threads_own_call_is_shown() {
        let thread = |tid| Thread { tid, prio: 120, name: Name::default() };
        let at = |time_ns, tid, kind| Event { time_ns, cpu: 0, tid, kind };
        let events = [
            at(5, 7, Kind::Leave { number: 24, returned: 0 }),
            at(10, 7, Kind::Enter { number: 24, args: [0; 4] }),
            at(11, 8, Kind::Enter { number: 24, args: [0; 4] }),
            at(20, 7, Kind::Switch { prev: thread(7), prev_state: 0, next: thread(8) }),
            at(30, 8, Kind::Waking { tid: 9, target_cpu: 0 }),
            at(40, 8, Kind::Switch { prev: thread(8), prev_state: 1, next: thread(7) }),
            at(50, 7, Kind::Leave { number: 24, returned: 0 }),
            at(60, 7, Kind::Enter { number: 24, args: [0; 4] }),
        ];
        let seen = calls(&events, 7, &[24]);
        assert_eq!((seen.len(), seen[0].took_ns), (1, 40));
        let names: Vec<&str> = seen[0].steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names[1..], ["gives up the CPU, still ready", "runs again", "returns 0"]);
        assert!(calls(&events, 7, &[35]).is_empty() && median(Vec::new()).is_none());
    }
}
