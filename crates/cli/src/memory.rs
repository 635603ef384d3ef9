//! What a process says that gets no memory.

use std::io::Write as _;

/// A backtrace takes about as much.
const ROOM: usize = 4 << 20;

/// Ends the process with one sentence if a panic comes from a lack of memory.
///
/// The standard library panics in a thread that gets no signal stack. Its backtrace then asks for memory that is not
/// there, and the process hangs instead of ending (Rust 1.95, `RUST_BACKTRACE=1`). All other panics print as always.
pub(crate) fn explain_lack() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if Vec::<u8>::new().try_reserve_exact(ROOM).is_ok() {
            return usual(panic);
        }
        let text = b"punctual: error: too little memory: raise RLIMIT_DATA or RLIMIT_AS (ulimit -d, ulimit -v)\n";
        let _ = std::io::stderr().write_all(text);
        std::process::exit(1);
    }));
}
