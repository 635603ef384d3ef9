//! How long idle CPUs took to wake up for a thread: a part of what it waited for.

use punctual_record::{Spent, TimePart};

use super::kind::SLEEPS;

/// Adds the time in which a CPU was idle, and had to wake up for the thread, to the waits that came before, and to what sleeps took longer
/// than asked: to each its share by number. A program waits until it runs again.
pub(super) fn join_waits(parts: &mut Vec<TimePart>) {
    let Some(at) = parts.iter().position(is_wakeup) else { return };
    let Some(first) = parts.iter().position(ends_by_wakeup) else { return };
    let waits: u64 = parts.iter().filter(|part| ends_by_wakeup(part)).map(|part| part.times).sum();
    let TimePart { ns, times, .. } = parts[at];
    // A wait has one wake-up: what is more came after something else.
    let number = u128::from(waits.max(times).max(1));
    let mut joined = 0;
    for part in parts.iter_mut().filter(|part| ends_by_wakeup(part)) {
        let share = (u128::from(ns) * u128::from(part.times) / number) as u64;
        part.ns += share;
        joined += share;
    }
    if waits >= times {
        // With what the divisions left over.
        parts[first].ns += ns - joined;
        parts.remove(at);
    } else {
        (parts[at].ns, parts[at].times) = (ns - joined, times - waits);
    }
}

fn is_wakeup(part: &TimePart) -> bool {
    part.spent == Spent::Ready && part.who.is_none() && !part.is_kept_by_unknown()
}

/// Whether the thread is ready after each of the stretches. A sleep that was asked for goes on to one that took longer, also where it is one
/// between two tries for the lock of a file.
fn ends_by_wakeup(part: &TimePart) -> bool {
    match part.spent {
        Spent::Running | Spent::Interrupted | Spent::FaultCopy | Spent::FaultNew => false,
        Spent::Ready | Spent::Host | Spent::ThrottledByQuota | Spent::ThrottledRealTime | Spent::ThrottledDeadline => {
            false
        }
        Spent::Asleep | Spent::Unknown => false,
        Spent::FileLock => !part.call.as_deref().is_some_and(|call| SLEEPS.contains(&call)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(spent: Spent, ns: u64, times: u64) -> TimePart {
        TimePart { spent, ns, times, longest_ns: ns, ..TimePart::default() }
    }

    fn joined(mut parts: Vec<TimePart>) -> Vec<(Spent, u64, u64)> {
        let whole: u64 = parts.iter().map(|part| part.ns).sum();
        join_waits(&mut parts);
        assert_eq!(parts.iter().map(|part| part.ns).sum::<u64>(), whole, "{parts:?}");
        parts.iter().map(|part| (part.spent, part.ns, part.times)).collect()
    }

    #[test]
    fn waits_and_late_sleeps_have_the_time_until_their_idle_cpu_is_awake() {
        let ready = part(Spent::Ready, 4_001, 40);
        let (lock, asleep, late) =
            (part(Spent::Lock, 9_000, 30), part(Spent::Asleep, 90_000, 10), part(Spent::SleptLonger, 500, 10));
        assert_eq!(
            joined(vec![asleep.clone(), lock.clone(), ready.clone(), late]),
            [(Spent::Asleep, 90_000, 10), (Spent::Lock, 12_001, 30), (Spent::SleptLonger, 1_500, 10)]
        );
        let between_tries = TimePart { call: Some("nanosleep".into()), ..part(Spent::FileLock, 7_000, 9) };
        assert_eq!(joined(vec![between_tries, ready.clone()])[0], (Spent::FileLock, 7_000, 9), "as long as asked");
        assert_eq!(joined(vec![asleep, ready])[1], (Spent::Ready, 4_001, 40), "it did not wait");
        let few = joined(vec![part(Spent::SleptLonger, 500, 10), part(Spent::Ready, 40_000, 40)]);
        assert_eq!(few, [(Spent::SleptLonger, 10_500, 10), (Spent::Ready, 30_000, 30)], "ten waits have ten wake-ups");
        let long = part(Spent::Ready, 40_000_000, 40);
        assert_eq!(joined(vec![lock, long])[0], (Spent::Lock, 9_000, 30), "it was kept from its CPU");
    }

    #[test]
    fn time_in_a_queue_behind_others_is_nobody_s_wait() {
        let behind = TimePart { who: Some(punctual_record::Who::default()), ..part(Spent::Ready, 4_000, 40) };
        assert_eq!(joined(vec![part(Spent::Lock, 9_000, 30), behind])[0], (Spent::Lock, 9_000, 30));
    }
}
