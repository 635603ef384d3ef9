//! What a way of yielding is: a [`Method`], one small value, and the [`Yielder`] it opens.

use std::ops::ControlFlow;

use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::nop::keep;
use punctual_record::Recorder;

use crate::crowd::{Line, progress};
pub use crate::wait::method::Unavailable;

/// One way to give up the CPU, or not to: a name, one line, the call it makes, and how to open it.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Its name on the command line and in the record, for instance `sched_yield`.
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// As a C programmer writes it, for instance `usleep(0)`.
    pub call: &'static str,
    /// The system calls one of which it must make; empty: it makes none.
    pub system_calls: &'static [&'static str],
    /// Opens it on the thread that will call it. Everything that may allocate or fail for good happens here.
    pub open: fn() -> Result<Box<dyn Yielder>, Unavailable>,
}

/// An opened way to yield. Its loops are compiled for the one call it makes, so that nothing stands between two calls but what is
/// named here.
pub trait Yielder {
    /// Calls it `n` times, and nothing else: the bare loop.
    fn repeat(&mut self, n: u64);

    /// Calls it `n` times, each between two clock readings, and tells the probe; breaks off when the process is asked to stop.
    fn timed(&mut self, n: u64, probe: &mut Probe<'_>) -> ControlFlow<()>;
}

/// A yielder made of a closure that makes the one call.
pub(super) struct Call<F>(pub(super) F);

impl<F: FnMut()> Yielder for Call<F> {
    fn repeat(&mut self, n: u64) {
        for i in 0..n {
            (self.0)();
            // A loop around nothing would be left out altogether.
            keep(i);
        }
    }

    fn timed(&mut self, n: u64, probe: &mut Probe<'_>) -> ControlFlow<()> {
        for _ in 0..n {
            let progress_before = progress(probe.competitors);
            let before = now_ns(Clock::Monotonic);
            (self.0)();
            let after = now_ns(Clock::Monotonic);
            let ran = progress(probe.competitors) != progress_before;
            if linux::stop::requested() {
                return ControlFlow::Break(());
            }
            probe.note(after - before, ran);
        }
        ControlFlow::Continue(())
    }
}

/// Where the timed loop leaves what it sees.
pub struct Probe<'a> {
    /// The competitors' progress.
    pub(crate) competitors: &'a [Line],
    /// How long each call took.
    pub calls: &'a mut Recorder,
    /// How long those calls took during which a competitor ran.
    pub away: &'a mut Recorder,
}

impl Probe<'_> {
    #[inline]
    fn note(&mut self, took_ns: i64, competitor_ran: bool) {
        self.calls.record(took_ns);
        if competitor_ran {
            self.away.record(took_ns);
        }
    }
}
