//! The words for `libpunctual_preload.so`: what a wait does instead, and for whom.
//!
//! [`Settings`] reads the variable `PUNCTUAL_PRELOAD`: words such as `usleep0=yield,poll-first=20us`, which are the flags of `punctual run`.
//! [`rules`] reads the file that its last word, `rules=FILE`, names:
//!
//! ```text
//! # who                           what
//! *                               sched-yield=pause
//! library=libmpich.so*            usleep0=yield
//! site=libfoo.so:poll_loop        poll-first=20us
//! thread=audio*                   precise-sleep=5us policy=fifo:40 cpu=1
//! thread=audio* library=libm*.so  precise-sleep=keep
//! ```
//!
//! A rule holds where all its conditions hold. A later rule wins over an earlier one, and each wins over the settings of the variable.
//!
//! Refused: unknown words, values out of range, and a word given twice in a line. So is a line that says nothing or of nobody.
#![forbid(unsafe_code)]

mod rule;
mod waits;

pub use rule::{BadRule, MOST_RULES, Place, Rule, Scheduling, Why, matches, rules, words};
pub use waits::{BadValue, BadWord, Settings, Waits, Zero, poll_first, precise_sleep};
