//! Watches time, memory and panics of the inputs.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time limit of an input. Inputs take milliseconds; the rest is for a busy machine.
const LONGEST: Duration = Duration::from_secs(60);
/// Limit of the resident size in MB.
const LARGEST_MB: u64 = 512;
/// Interval of the checks.
const LOOK: Duration = Duration::from_millis(250);

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics for the report instead of printing them.
pub(super) fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| PANIC.with_borrow_mut(|panic| *panic = info.to_string())));
}

/// The last panic of this thread.
pub(super) fn last_panic() -> String {
    PANIC.with_borrow_mut(std::mem::take)
}

/// Watches the inputs of a worker from another thread. It ends the process if an input hangs or fills the memory.
pub(super) struct Watch {
    seen: Arc<Seen>,
}

struct Seen {
    /// Number of the input plus one; 0: none.
    input: AtomicU64,
    over: AtomicBool,
}

impl Watch {
    /// `what`: the command that repeats an input, without its number.
    pub(super) fn start(what: String) -> Self {
        let seen = Arc::new(Seen { input: AtomicU64::new(0), over: AtomicBool::new(false) });
        let theirs = Arc::clone(&seen);
        std::thread::spawn(move || {
            let (mut last, mut since) = (0, Instant::now());
            while !theirs.over.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                let input = theirs.input.load(Ordering::Relaxed);
                if input != last || input == 0 {
                    (last, since) = (input, Instant::now());
                }
                let (slow, large) = (since.elapsed() > LONGEST, resident_mb() > LARGEST_MB);
                if slow || large {
                    let how = if slow { "takes over a minute" } else { "takes over 512 MB of memory" };
                    eprintln!("an input {how}: {what} --first {} --inputs 1", input.saturating_sub(1));
                    std::process::exit(1);
                }
            }
        });
        Self { seen }
    }

    pub(super) fn begin(&self, number: u64) {
        self.seen.input.store(number + 1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.seen.input.store(0, Ordering::Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.seen.over.store(true, Ordering::Relaxed);
    }
}

/// A kB line of `/proc/self/status`, in MB.
fn status_mb(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    let kb: Option<u64> = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kb.unwrap_or(0) / 1024
}

fn resident_mb() -> u64 {
    status_mb("VmRSS:")
}

/// The largest resident size so far.
pub(super) fn peak_mb() -> u64 {
    status_mb("VmHWM:")
}
