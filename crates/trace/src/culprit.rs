//! Who or what took time, in a way that outlasts the machine's state.

use crate::event::Name;
use crate::follow::Follower;
use crate::split::Who;

/// Who or what, in a way that lasts: threads by name and priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Culprit {
    Nobody,
    Thread(Name, i32),
    Interrupt(Name),
    Softirq(u32),
    Function(u64),
    Idle(Option<u32>),
}

impl Culprit {
    pub(crate) fn named(who: Who, machine: &Follower) -> Self {
        match who {
            Who::Nobody => Self::Nobody,
            Who::Thread(tid) => {
                let known = machine.known(tid);
                Self::Thread(known.name, known.prio)
            }
            Who::Interrupt(name) => Self::Interrupt(name),
            Who::Softirq(vector) => Self::Softirq(vector),
            Who::Function(address) => Self::Function(address),
            Who::Idle(state) => Self::Idle(state),
        }
    }
}
