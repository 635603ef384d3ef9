//! The measuring loop of `wait`.

use std::time::Duration;

use punctual::RtThrottle;
use punctual::format_duration;
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Recorder, Usage};

use super::interrupted::{Cuts, Signals};
use super::plan::Plan;
use crate::frame::error::{Opened, ready};
use crate::frame::figures::{Meter, Sum, next_stretch};
use crate::frame::{Bench, Failure};
use crate::ways::wait::{Method, Waiter};

/// The ways to wait, opened on the measuring thread.
pub(super) struct WaitBench<'a> {
    plan: &'a Plan,
    waiters: Vec<Opened<dyn Waiter>>,
    /// Where signals interrupt the waits.
    signals: Option<Signals>,
    throttle: RtThrottle,
}

impl<'a> WaitBench<'a> {
    /// Opens every method of the plan on the calling thread.
    pub(super) fn open(plan: &'a Plan) -> Self {
        let signals = plan.interrupt.map(Signals::open);
        let open = |method: &&'static Method| match &signals {
            None => (method.open)(),
            Some(Ok(signals)) => signals.waiter(method),
            Some(Err(no)) => Err(no.clone()),
        };
        let waiters = plan.methods.iter().map(open).collect();
        Self { plan, waiters, signals: signals.and_then(Result::ok), throttle: RtThrottle::new() }
    }
}

impl Bench for WaitBench<'_> {
    type Extra = Cuts;

    fn doing(&self, cell: usize) -> String {
        let cell = &self.plan.cells[cell];
        let method = self.plan.methods[cell.method].name;
        let label = &self.plan.request.variants[cell.variant].label;
        format!("{method} {} ({label})", format_duration(cell.asked))
    }

    fn nominal_ns(&self, cell: usize) -> Option<u64> {
        u64::try_from(self.plan.cells[cell].asked.as_nanos()).ok()
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let plan = self.plan;
        let at = &plan.cells[cell];
        let waiter = ready(&mut self.waiters[at.method])?;
        let asked_ns = at.asked.as_nanos() as i64;
        let call = plan.methods[at.method].call;
        let failed = |error: linux::Error| Failure::of_call(call, &error);
        if let Some(signals) = &self.signals {
            signals.cuts.borrow_mut().clear();
        }
        waiter.begin(at.variant, asked_ns).map_err(failed)?;
        for _ in 0..plan.request.warmup {
            waiter.wait(now_ns(Clock::Monotonic), asked_ns).map_err(failed)?;
        }
        let real_time = plan.request.variants[at.variant].is_real_time();
        let mut total = Sum::default();
        let mut to_go = operations;
        let mut stretch = 1;
        while to_go > 0 {
            let n = stretch.min(to_go);
            let meter = Meter::start();
            measure(waiter, asked_ns, n, into).map_err(failed)?;
            let used = meter.stop();
            if real_time {
                self.throttle.after(Duration::from_nanos(used.cpu_ns.unwrap_or(used.elapsed_ns)));
            }
            stretch = next_stretch(n, used.elapsed_ns);
            total.add(used);
            to_go -= n;
        }
        waiter.end();
        Ok(total.usage())
    }

    fn keep(&mut self, _: usize, _: (u32, u64), extra: &mut Cuts) {
        if let Some(signals) = &self.signals {
            extra.add(&signals.cuts.borrow());
        }
    }
}

/// The measuring loop. Between two waits it makes two clock readings and one record, and checks a flag. It allocates
/// nothing and makes no system call.
fn measure(waiter: &mut dyn Waiter, asked_ns: i64, n: u64, into: &mut Recorder) -> linux::Result<()> {
    for _ in 0..n {
        let from = now_ns(Clock::Monotonic);
        waiter.wait(from, asked_ns)?;
        let woke = now_ns(Clock::Monotonic);
        if linux::stop::requested() {
            return Err(linux::Error::from_errno("wait", linux::EINTR));
        }
        into.record(woke - from - asked_ns);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(method: &str, n: u64) -> (Box<dyn Waiter>, Recorder, u64) {
        let method = super::super::methods::find(method).expect("the method exists");
        ((method.open)().expect("it opens"), Recorder::new(), n)
    }

    #[test]
    fn the_loop_allocates_nothing() {
        for name in ["clock_nanosleep_abs", "nanosleep", "timerfd", "spin_clock"] {
            let (mut waiter, mut recorder, n) = recorded(name, 200);
            let counted = allocation_counter::measure(|| measure(waiter.as_mut(), 5_000, n, &mut recorder).unwrap());
            assert_eq!((counted.count_total, counted.bytes_total), (0, 0), "{name}");
            assert_eq!(recorder.count(), n, "{name}");
        }
        let control = allocation_counter::measure(|| drop(std::hint::black_box(vec![1_u8; 100])));
        assert_eq!(control.count_total, 1, "the counter counts");
    }

    #[test]
    fn the_loop_makes_no_call_but_the_one_measured() {
        for (name, call, n) in [("clock_nanosleep_abs", "clock_nanosleep", 50), ("spin_clock", "", 50)] {
            let seen = linux::observe::system_calls_after(
                || recorded(name, n),
                |(waiter, recorder, n)| measure(waiter.as_mut(), 5_000, *n, recorder).unwrap(),
            );
            match seen {
                Ok(seen) => {
                    assert!(seen.iter().all(|c| c.name == call), "{name}: {seen:?}");
                    assert_eq!(seen.len() as u64, if call.is_empty() { 0 } else { n }, "{name}");
                }
                Err(why) => {
                    punctual_testing::skip(&why.to_string());
                }
            }
        }
    }

    #[test]
    fn stretches_grow_until_they_fill_their_time() {
        assert_eq!(next_stretch(1, 100_000), 8);
        assert_eq!(next_stretch(64, 6_400_000), 200);
        assert_eq!(next_stretch(1, 1_000_000_000), 1);
        assert_eq!(next_stretch(1000, 0), 8000);
    }
}
