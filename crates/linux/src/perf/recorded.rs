//! What a [`Recorder`](super::Recorder) is asked for.

/// An event to record.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'a> {
    /// The number of its tracepoint.
    pub id: u16,
    /// Bytes to record, from its beginning on.
    pub size: usize,
    /// A text lies behind them, where its fields end (`__data_loc`).
    pub text: bool,
    /// Which are kept; all without one.
    pub filter: Option<Filter<'a>>,
    /// It is that of all system calls.
    pub syscall: Option<Syscall>,
}

/// `raw_syscalls:sys_enter`, `raw_syscalls:sys_exit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syscall {
    /// A thread enters one.
    Enter,
    /// It leaves one.
    Leave,
}

/// Any of the numbers lies in any of the ranges.
#[derive(Debug, Clone, Copy)]
pub struct Filter<'a> {
    /// Which numbers.
    pub numbers: &'a [Number],
    /// From the first to the last.
    pub ranges: &'a [(i32, i32)],
}

/// A number that an event has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// The thread that runs.
    Thread,
    /// The field of four bytes at this offset.
    Field(usize),
}
