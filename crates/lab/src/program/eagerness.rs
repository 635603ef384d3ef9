//! The nice value of the thread that reads the kernel's events: beside compilers a reader of the usual one gets its CPU too late, and the
//! rings overflow.

use punctual_linux::sched;

/// The lowest: the thread runs at once, and a real-time thread goes before it still.
const LOWEST: i32 = -20;

/// The calling thread at nice -20, until this is dropped.
#[derive(Debug)]
pub(super) struct Eager {
    tid: i32,
    before: i32,
}

impl Eager {
    /// None where setpriority(2) is refused, or the thread has a lower value already.
    pub(super) fn begin() -> Option<Self> {
        let tid = sched::current_thread_id();
        let before = sched::nice(tid).ok().filter(|before| *before > LOWEST)?;
        sched::set_nice(tid, LOWEST).ok()?;
        Some(Self { tid, before })
    }
}

impl Drop for Eager {
    fn drop(&mut self) {
        // A higher value is never refused.
        let _ = sched::set_nice(self.tid, self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nice_value_is_put_back() {
        let own = sched::current_thread_id();
        let before = sched::nice(own).unwrap();
        let Some(eager) = Eager::begin() else {
            return punctual_testing::lacks("setpriority(2) to nice -20 is refused");
        };
        assert_eq!(sched::nice(own).unwrap(), LOWEST);
        let child = std::thread::spawn(move || sched::nice(sched::current_thread_id()).unwrap());
        assert_eq!(child.join().unwrap(), LOWEST, "a thread inherits it");
        drop(eager);
        assert_eq!(sched::nice(own).unwrap(), before);
    }
}
