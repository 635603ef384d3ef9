//! The program that writes the events of one tracepoint into memory shared with this process. Its instructions are written here.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use super::buffer::{HEAD, HEADER, LOST, MASK, MOST, ON, ROOM, TAIL};
use super::event::{Filter, Number, Recorded, Syscall};
use crate::bpf::{
    ADD, ADD_VALUE, CALL, CPU, EXIT, IF_ABOVE, IF_BELOW_VALUE, MOVE, MOVE_VALUE, OUT, SHIFT_VALUE, SUBTRACT, TIME,
    instruction, land,
};

/// Bytes kept of a text (`__data_loc`): the name of an interrupt.
pub(super) const TEXT: usize = 24;

/// Codes of `Documentation/bpf/standardization/instruction-set.rst` that `bpf.rs` does not need.
const LOAD: [(usize, u8); 4] = [(8, 0x79), (4, 0x61), (2, 0x69), (1, 0x71)];
const STORE: [(usize, u8); 4] = [(8, 0x7b), (4, 0x63), (2, 0x6b), (1, 0x73)];
const AND: u8 = 0x5f;
const AND_VALUE: u8 = 0x57;
const OR_VALUE: u8 = 0x47;
const SHIFT_RIGHT: u8 = 0x77;
const JUMP: u8 = 0x05;
const IF_VALUE: u8 = 0x15;
const IF_NOT_ABOVE_VALUE: u8 = 0xb5;
/// `BPF_ATOMIC`, with `BPF_ADD | BPF_FETCH`: orders the writes before it.
const ATOMIC: u8 = 0xdb;
const FETCH_ADD: i32 = 1;
/// Helpers: `bpf_map_lookup_elem`, `bpf_get_current_pid_tgid`, `bpf_probe_read_kernel`.
const LOOKUP: i32 = 1;
const THREAD: i32 = 14;
const READ_KERNEL: i32 = 113;

/// Whether programs for calls read registers. Where they do not, they get the kernel's record, as those of other events.
pub(super) const RAW: bool = cfg!(target_arch = "x86_64");

/// Jumps to places that are not known yet.
const KEEP: i16 = i16::MAX - 1;
const FULL: i16 = i16::MAX - 2;

/// The part of `struct pt_regs` (arch/x86/include/uapi/asm/ptrace.h) that is read, from r10 to orig_ax. It has the number
/// of the call and its first four arguments.
const REGISTERS: (i32, i32) = (56, 72);
const NUMBER: i32 = 64;
const ARGUMENTS: [i16; 4] = [56, 48, 40, 0];

/// The program. `bytes` is the largest ring, a power of two; `first` is the number of the ring of CPU 0.
pub(super) fn program(map: BorrowedFd<'_>, event: &Recorded<'_>, bytes: usize, first: usize) -> Vec<u64> {
    let mut code = vec![instruction(MOVE, 6, 1, 0, 0), instruction(CALL, 0, 0, 0, THREAD)];
    code.extend([instruction(SHIFT_VALUE, 0, 0, 0, 32), instruction(MOVE, 7, 0, 0, 0)]);
    if let Some(filter) = &event.filter {
        passes(&mut code, filter);
    }
    let kept = code.len();
    let raw = event.raw();
    code.push(instruction(OR_VALUE, 7, 0, 0, i32::from(event.id) | (raw as i32) << 16));
    // The ring of this CPU.
    code.extend([instruction(CALL, 0, 0, 0, CPU), instruction(ADD_VALUE, 0, 0, 0, first as i32)]);
    code.push(instruction(STORE[1].1, 10, 0, -4, 0));
    code.extend([instruction(MOVE, 2, 10, 0, 0), instruction(ADD_VALUE, 2, 0, 0, -4)]);
    // `BPF_PSEUDO_MAP_FD`.
    code.extend([instruction(0x18, 1, 1, 0, map.as_raw_fd()), 0, instruction(CALL, 0, 0, 0, LOOKUP)]);
    code.extend([instruction(IF_VALUE, 0, 0, OUT, 0), instruction(MOVE, 8, 0, 0, 0)]);
    let word = |register, at| instruction(LOAD[0].1, register, 8, at, 0);
    code.extend([word(1, ON), instruction(IF_VALUE, 1, 0, OUT, 0)]);
    code.extend([word(9, HEAD), word(2, TAIL), instruction(MOVE, 1, 9, 0, 0), instruction(SUBTRACT, 1, 2, 0, 0)]);
    code.extend([word(2, ROOM), instruction(IF_ABOVE, 1, 2, FULL, 0), instruction(CALL, 0, 0, 0, TIME)]);
    // The second mask is for the verifier, which does not know the first.
    code.extend([word(2, MASK), instruction(AND, 9, 2, 0, 0), instruction(AND_VALUE, 9, 0, 0, bytes as i32 - 8)]);
    code.push(instruction(ADD, 9, 8, 0, 0));
    let here = HEADER as i16;
    code.extend([instruction(STORE[0].1, 9, 0, here, 0), instruction(STORE[0].1, 9, 7, here + 8, 0)]);
    match event.syscall {
        Some(syscall) if RAW => call(&mut code, syscall, here + 8),
        _ => fields(&mut code, event, here + 8),
    }
    code.push(instruction(MOVE_VALUE, 1, 0, 0, 8 + raw.next_multiple_of(8) as i32));
    code.extend([instruction(ATOMIC, 8, 1, HEAD, FETCH_ADD), instruction(JUMP, 0, 0, OUT, 0)]);
    let full = code.len();
    code.extend([instruction(MOVE_VALUE, 1, 0, 0, 1), instruction(ATOMIC, 8, 1, LOST, FETCH_ADD)]);
    let out = code.len();
    // 1: others who record this tracepoint get the event too.
    code.extend([instruction(MOVE_VALUE, 0, 0, 0, 1), instruction(EXIT, 0, 0, 0, 0)]);
    land(&mut code, &[(OUT, out), (KEEP, kept), (FULL, full)]);
    code
}

/// Copies the event's fields from the kernel's record of it.
fn fields(code: &mut Vec<u64>, event: &Recorded<'_>, to: i16) {
    let mut at = 8;
    while at < event.size {
        let fits = |(width, _): &&(usize, u8)| at + width <= event.size;
        let size = LOAD.iter().position(|load| fits(&load)).unwrap_or(LOAD.len() - 1);
        code.push(instruction(LOAD[size].1, 3, 6, at as i16, 0));
        code.push(instruction(STORE[size].1, 9, 3, to + at as i16, 0));
        at += LOAD[size].0;
    }
    if event.text {
        code.extend([
            instruction(MOVE, 1, 9, 0, 0),
            instruction(ADD_VALUE, 1, 0, 0, i32::from(to) + event.size as i32),
        ]);
        code.push(instruction(MOVE_VALUE, 2, 0, 0, TEXT as i32));
        code.extend([instruction(MOVE, 3, 6, 0, 0), instruction(ADD_VALUE, 3, 0, 0, event.size as i32)]);
        code.push(instruction(CALL, 0, 0, 0, READ_KERNEL));
    }
}

/// The same for a call, from its registers: the program has no record of the kernel's.
fn call(code: &mut Vec<u64>, syscall: Syscall, to: i16) {
    let stack = -8 - REGISTERS.1 as i16;
    let word =
        |from: u8, at: i16, to: i16| [instruction(LOAD[0].1, 3, from, at, 0), instruction(STORE[0].1, 9, 3, to, 0)];
    match syscall {
        Syscall::Enter => {
            read(code, 10, i32::from(stack), REGISTERS);
            code.extend(word(6, 8, to + 8));
            for (index, at) in ARGUMENTS.into_iter().enumerate() {
                code.extend(word(10, stack + at, to + 16 + 8 * index as i16));
            }
        }
        Syscall::Leave => {
            read(code, 9, i32::from(to) + 8, (REGISTERS.0 + NUMBER, 8));
            code.extend(word(6, 8, to + 16));
        }
    }
}

/// Reads registers of the thread to this place, of which `base` has the address.
fn read(code: &mut Vec<u64>, base: u8, to: i32, (from, bytes): (i32, i32)) {
    code.extend([instruction(MOVE, 1, base, 0, 0), instruction(ADD_VALUE, 1, 0, 0, to)]);
    code.extend([instruction(MOVE_VALUE, 2, 0, 0, bytes), instruction(LOAD[0].1, 3, 6, 0, 0)]);
    code.extend([instruction(ADD_VALUE, 3, 0, 0, from), instruction(CALL, 0, 0, 0, READ_KERNEL)]);
}

/// Goes out unless one of the numbers lies in one of the ranges.
fn passes(code: &mut Vec<u64>, filter: &Filter<'_>) {
    for number in filter.numbers {
        match number {
            Number::Thread => {
                code.extend([instruction(MOVE, 1, 7, 0, 0), instruction(SHIFT_RIGHT, 1, 0, 0, 32)]);
            }
            Number::Field(at) => code.push(instruction(LOAD[1].1, 1, 6, *at as i16, 0)),
        }
        for (low, high) in filter.ranges {
            code.push(instruction(IF_BELOW_VALUE, 1, 0, 1, *low));
            code.push(instruction(IF_NOT_ABOVE_VALUE, 1, 0, KEEP, *high));
        }
    }
    code.push(instruction(JUMP, 0, 0, OUT, 0));
}

impl Recorded<'_> {
    /// Bytes of the event in a ring, without its time.
    pub(super) fn raw(&self) -> usize {
        self.size + if self.text { TEXT } else { 0 }
    }

    pub(super) fn fits(&self) -> bool {
        self.size >= 8 && 8 + self.raw().next_multiple_of(8) <= MOST
    }
}
