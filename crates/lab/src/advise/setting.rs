//! A setting of a thread: how it is read, written and put back.

use std::io;

use super::thread::Thread;

/// Words of a value.
pub(super) const WORDS: usize = 32;
/// A setting of a thread as plain words, for memory that processes share.
pub(super) type Value = [u64; WORDS];

/// The facts about a thread that a trial uses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Aim {
    /// The CPU to be used.
    pub(super) cpu: usize,
    /// Share of a CPU that the thread uses, where it is known.
    pub(super) share: Option<f64>,
}

/// The value that a thread gets; or why it has it already, or cannot have it.
pub(super) type Goal = Result<Value, &'static str>;

/// A setting of a thread.
pub(super) trait Setting: Sync {
    /// The value now.
    fn read(&self, thread: &Thread) -> io::Result<Value>;
    /// The value of the remedy.
    fn goal(&self, now: &Value, aim: Aim) -> Goal;
    /// Sets it.
    fn write(&self, thread: &Thread, value: &Value) -> io::Result<()>;
    /// Sets what was found before.
    fn put_back(&self, thread: &Thread, before: &Value) -> io::Result<()> {
        self.write(thread, before)
    }
    /// What a thread gets that was created with the value `set` of another one, which had `before`. `None`: it has not.
    fn inherited(&self, now: &Value, before: &Value, set: &Value) -> Option<Value> {
        (now == set && set != before).then_some(*before)
    }
    /// The remedy for this error.
    fn remedy(&self, error: &io::Error) -> &'static str;
}

/// Words from some values.
pub(super) fn words(values: &[u64]) -> Value {
    let mut words = [0; WORDS];
    words[..values.len()].copy_from_slice(values);
    words
}

/// As an error of the system.
pub(super) fn errors(error: punctual_linux::Error) -> io::Error {
    error.source
}
