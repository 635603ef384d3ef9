//! Which threads run programs of 32 bits: the kernel numbers their calls by another table, and its events do not say so.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::sync::LazyLock;

use punctual_linux::syscall_name::{number_of, number_of_32_bit_call};

use crate::event::{Event, Kind};

static EXECUTES: LazyLock<[Option<i64>; 2]> = LazyLock::new(|| ["execve", "execveat"].map(number_of));

/// Of each thread that made a call, whether its program has 32 bits.
#[derive(Debug, Default)]
pub(crate) struct Widths(HashMap<i32, bool>);

impl Widths {
    /// Gives the calls in these events the numbers that they have here.
    pub(crate) fn translate(&mut self, events: &mut [Event]) {
        if !cfg!(target_pointer_width = "64") {
            return;
        }
        for event in events {
            match &mut event.kind {
                Kind::Enter { number, .. } => self.number(event.tid, number),
                Kind::Leave { number, returned } => {
                    self.number(event.tid, number);
                    if *returned == 0 && EXECUTES.contains(&Some(*number)) {
                        self.0.remove(&event.tid);
                    }
                }
                Kind::Fork { child, .. } => drop(self.0.remove(child)),
                _ => {}
            }
        }
    }

    fn number(&mut self, tid: i32, number: &mut i64) {
        if *self.0.entry(tid).or_insert_with(|| runs_32_bits(tid)) {
            *number = number_of_32_bit_call(*number);
        }
    }
}

/// By the head of its program's file (elf(5): `EI_CLASS`). A thread that has ended is taken for one of 64 bits.
fn runs_32_bits(tid: i32) -> bool {
    const CLASS_32: u8 = 1;
    let mut head = [0; 5];
    File::open(format!("/proc/{tid}/exe")).and_then(|mut file| file.read_exact(&mut head)).is_ok()
        && head[4] == CLASS_32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No thread has this number, so nothing can be read about it.
    const NARROW: i32 = i32::MAX;
    const CHILD: i32 = i32::MAX - 1;

    #[test]
    fn a_width_holds_until_a_thread_executes_or_its_number_is_another_threads() {
        if !cfg!(target_arch = "x86_64") {
            return;
        }
        let mut widths = Widths(HashMap::from([(NARROW, true), (CHILD, true)]));
        let mut number_of_call = |tid, kind| {
            let mut events = [Event { time_ns: 1, cpu: 0, tid, kind }];
            widths.translate(&mut events);
            match events[0].kind {
                Kind::Enter { number, .. } | Kind::Leave { number, .. } => Some(number),
                _ => None,
            }
        };
        let sleeps = Kind::Enter { number: 162, args: [0; 4] };
        let executes = |returned| Kind::Leave { number: 11, returned };
        assert_eq!(number_of_call(NARROW, sleeps), number_of("nanosleep"));
        assert_eq!(number_of_call(NARROW, executes(-2)), number_of("execve"));
        assert_eq!(number_of_call(NARROW, sleeps), number_of("nanosleep"), "it did not execute");
        assert_eq!(number_of_call(NARROW, executes(0)), number_of("execve"));
        assert_eq!(number_of_call(NARROW, sleeps), Some(162), "another program");
        assert_eq!(number_of_call(CHILD, sleeps), number_of("nanosleep"));
        number_of_call(NARROW, Kind::Fork { parent: NARROW, child: CHILD });
        assert_eq!(number_of_call(CHILD, sleeps), Some(162), "another thread");
    }
}
