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
