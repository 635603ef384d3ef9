//! Who keeps threads of a program waiting. It is another of its threads that holds a lock, or has yet to signal a condition.
//!
//! Waiting for it is no lateness: the thread runs as soon as it is woken. A waker that slept most of that time held nothing back: its thread
//! waited for work.

use punctual_record::{CallCauses, Causes, Spread, Waker};

use crate::format::{spoken, unbroken, units};

use super::phrase::name;

/// Locks and conditions of threads are futexes (futex(2)).
const CALL: &str = "futex";
/// Fewer waits show no habit.
const FEWEST: u64 = 10;
/// The least part of the watched time that is worth a sentence.
const LEAST: f64 = 0.05;
/// The part of the wait in which the waker must have run or been ready to run.
const AWAKE: f64 = 0.5;

/// The sentences on the waker that was waited for longest; none where no thread of the program keeps another waiting.
pub(super) fn sentences(causes: &Causes) -> Vec<String> {
    if causes.program.is_none() {
        return Vec::new();
    }
    let all = causes.calls.iter().filter(|call| call.call == CALL);
    let all = all.flat_map(|call| call.wakers.iter().filter_map(move |waker| kept(causes, call, waker)));
    let Some(kept) = all.max_by_key(|kept| kept.waited.total_ns) else { return Vec::new() };
    let [who, by] = [&kept.call.thread, &kept.waker.name].map(|text| name(text));
    let by = match kept.waker.tid {
        Some(tid) => unbroken(&format!("{by} ({tid})")),
        None => by,
    };
    let p99 = kept.waited.p99_ns.map_or(String::new(), |p99| format!(", p99 {}", spoken::duration(p99)));
    let times = unbroken(&format!("{} times", units::count(kept.waited.count)));
    let [waited, ran, ready] = [kept.waited.total_ns, kept.ran_ns, kept.ready_ns].map(spoken::duration);
    vec![
        format!("{who} waits {waited} in all ({times}{p99}) for another thread of the program: {by}."),
        format!(
            "It holds a lock or has yet to signal (futex): meanwhile it runs for {ran} and waits {ready} for a CPU."
        ),
    ]
}

struct Kept<'a> {
    call: &'a CallCauses,
    waker: &'a Waker,
    waited: Spread,
    ran_ns: u64,
    ready_ns: u64,
}

/// `None` where the waker is not watched, was waited for rarely or for a short time, or slept meanwhile.
fn kept<'a>(causes: &Causes, call: &'a CallCauses, waker: &'a Waker) -> Option<Kept<'a>> {
    let waited = waker.waited.filter(|_| waker.call.as_deref() == Some(CALL))?;
    let total = |spread: Option<Spread>| spread.map_or(0, |spread| spread.total_ns);
    let (ran_ns, ready_ns) = (total(waker.worked), total(waker.own_delay));
    let awake = ran_ns.saturating_add(ready_ns) as f64 >= AWAKE * waited.total_ns as f64;
    let long = waited.total_ns as f64 >= LEAST * causes.watched_ns as f64;
    let kept = Kept { call, waker, waited, ran_ns, ready_ns };
    (awake && long && waited.total_ns > 0 && waited.count >= FEWEST).then_some(kept)
}
