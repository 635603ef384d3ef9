//! The CPU on which own waits are watched: one that shows the events of its idle thread.
//!
//! A CPU that was offline may hide them (a kernel's static calls are patched on online CPUs only). There, no wake-up can be
//! split, since it is not known when the CPU left its idle state.

use std::time::Duration;

use punctual_linux::sched;
use punctual_trace::{Level, Room, Target, Watch};

/// Most CPUs that are looked at.
const CPUS: usize = 8;
/// Sleeps until a CPU has shown its idle thread, or not, and how often that is looked at.
const SLEEPS: u32 = 20;
const LOOKS: u32 = 5;
const SLEEP: Duration = Duration::from_micros(200);

/// The result of a look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sight {
    /// The CPU to watch on.
    pub cpu: usize,
    /// Those that were looked at and hide their idle thread.
    pub hidden: Vec<usize>,
}

/// Looks at the CPUs that this process may use, from the last one: the first ones serve most interrupts. `None`: the kernel shows no
/// events, no thread can be started, or all CPUs hide their idle thread. The CPUs that hide it may differ with the room. Own waits
/// (`Small`) and other programs (`Large`) are recorded in different ways.
#[must_use]
pub fn find(room: Room) -> Option<Sight> {
    // A thread of its own: it moves from CPU to CPU.
    std::thread::Builder::new().spawn(move || look(room)).ok()?.join().ok()?
}

fn look(room: Room) -> Option<Sight> {
    let allowed = sched::affinity(0).ok()?;
    let own = Target { tids: vec![sched::current_thread_id()], with_children: false };
    let mut watch = Watch::open(&own, Level::Core, room).ok()?;
    let (mut hidden, mut busy) = (Vec::new(), None);
    for cpu in allowed.into_iter().rev().take(CPUS) {
        sched::set_affinity(0, &[cpu]).ok()?;
        for _ in 0..LOOKS {
            watch.switch(true).ok()?;
            (0..SLEEPS).for_each(|_| std::thread::sleep(SLEEP));
            watch.switch(false).ok()?;
            if watch.shows_idle(cpu).is_some() {
                break;
            }
        }
        match watch.shows_idle(cpu) {
            Some(true) => return Some(Sight { cpu, hidden }),
            Some(false) => hidden.push(cpu),
            None => busy = busy.or(Some(cpu)),
        }
    }
    // Of a CPU that is never idle nothing is hidden.
    Some(Sight { cpu: busy?, hidden })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_of_this_process_is_found_or_none_is_seen() {
        let allowed = sched::affinity(0).unwrap();
        let Some(sight) = find(Room::Small) else { return punctual_testing::lacks(punctual_testing::Lack::Events) };
        assert!(allowed.contains(&sight.cpu) && !sight.hidden.contains(&sight.cpu), "{sight:?}");
        assert!(sight.hidden.iter().all(|cpu| allowed.contains(cpu)), "{sight:?}");
        assert_eq!(sched::affinity(0).unwrap(), allowed, "the caller stays");
    }
}
