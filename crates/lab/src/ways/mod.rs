//! Subjects that several families use: a way of yielding ([`YieldMethod`], one small value, and the [`Yielder`] it opens), and a way of
//! waiting ([`wait`]).

pub mod wait;

use std::ops::ControlFlow;

use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::counter::keep;
use punctual_record::Recorder;

use crate::crowd::{Line, progress};
use crate::frame::Unavailable;

/// One way to give up the CPU, or not to: name, summary, call, and constructor.
#[derive(Debug, Clone, Copy)]
pub struct YieldMethod {
    /// Its name on the command line and in the record, for instance `sched_yield`.
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// The call in C, for instance `usleep(0)`.
    pub call: &'static str,
    /// The system calls of which it must make one. Empty: it makes none.
    pub system_calls: &'static [&'static str],
    /// Opens it on the thread that will call it. Any allocation or permanent failure happens here.
    pub open: fn() -> Result<Box<dyn Yielder>, Unavailable>,
}

/// An opened way to yield. Its loops are compiled for its one call, so that nothing else runs between two calls.
pub trait Yielder {
    /// Calls it `n` times, and nothing else: the bare loop.
    fn repeat(&mut self, n: u64);

    /// Calls it `n` times, each between two clock readings, and reports each to the probe. Returns early if the
    /// process is asked to stop.
    fn timed(&mut self, n: u64, probe: &mut Probe<'_>) -> ControlFlow<()>;
}

/// A yielder made of a closure that makes the one call.
pub(crate) struct Call<F>(pub(crate) F);

impl<F: FnMut()> Yielder for Call<F> {
    fn repeat(&mut self, n: u64) {
        for i in 0..n {
            (self.0)();
            // An empty loop would be optimised away.
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

/// Takes the results of the timed loop.
pub struct Probe<'a> {
    /// The competitors' progress.
    pub(crate) competitors: &'a [Line],
    /// The duration of each call.
    pub calls: &'a mut Recorder,
    /// The duration of each call during which a competitor ran.
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
