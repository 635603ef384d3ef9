//! The plan of `wait`, validated before anything is changed.

use std::time::Duration;

use punctual::format_duration;
use punctual_record::experiment::wait;

use crate::frame::{self, Family as _, Input, PlanError, Variant};
use crate::ways::wait::{Method, Unit, units_up};

/// Longest single wait: one day. A longer one is a typing error.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);

/// One subject, one duration, one variant: it becomes a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Index into [`Plan::methods`].
    pub method: usize,
    /// The requested wait.
    pub asked: Duration,
    /// Index into the variants of the request.
    pub variant: usize,
}

impl Cell {
    /// The requested wait, in ns.
    pub(super) fn asked_ns(&self) -> i64 {
        self.asked.as_nanos() as i64
    }
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The ways to wait.
    pub methods: Vec<&'static Method>,
    /// The cells, in the order of the first round.
    pub cells: Vec<Cell>,
    /// Conditions and amounts.
    pub request: frame::Request,
    /// The time from one signal to the next, where signals interrupt the waits.
    pub interrupt: Option<Duration>,
    /// The kernel's tick rate in Hz, if known.
    pub(super) hz: Option<u32>,
}

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// The ways to wait.
    pub methods: Vec<&'static Method>,
    /// The requested waits.
    pub durations: Vec<Duration>,
    /// Further conditions under which one method alone is measured, to show their effect.
    pub companions: Vec<(&'static Method, Variant)>,
    /// The time from one signal to the next, where signals interrupt the waits.
    pub interrupt: Option<Duration>,
    /// Conditions and amounts. Each method and duration is measured under each variant.
    pub frame: frame::Request,
}

impl Plan {
    /// Checks the request and lays out the cells.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        for asked in &request.durations {
            if asked.is_zero() || *asked > LONGEST_WAIT {
                let why = format!("must be 1ns to 24h, not {}", format_duration(*asked));
                return Err(PlanError::new(Input::Wait, why));
            }
        }
        request.frame.check()?;
        let plan = Self::lay_out(request);
        plan.check_share()?;
        plan.checked()
    }

    /// Refuses a time in which no wait fits into its share.
    fn check_share(&self) -> Result<(), PlanError> {
        let frame::Amount::Time(time) = self.request.amount else { return Ok(()) };
        let schedule = self.schedule();
        let pays = |(index, cell): (usize, &Cell)| schedule.pays_for(index, self.expected_ns(cell) as f64);
        match self.cells.iter().enumerate().map(pays).min() {
            Some(least) if least > time => {
                let [least, time] = [least, time].map(format_duration);
                Err(PlanError::new(Input::Time, format!("must be at least {least} to pay for one wait, not {time}")))
            }
            _ => Ok(()),
        }
    }

    fn lay_out(request: Request) -> Self {
        let (methods, interrupt) = (request.methods, request.interrupt);
        let mut plan = Self { methods, cells: Vec::new(), request: request.frame, interrupt, hz: None };
        for variant in 0..plan.request.variants.len() {
            for &asked in &request.durations {
                plan.cells.extend((0..plan.methods.len()).map(|method| Cell { method, asked, variant }));
            }
        }
        for (method, variant) in request.companions {
            let method = plan.position_of(method);
            let variant = plan.request.variants.iter().position(|v| *v == variant).unwrap_or_else(|| {
                plan.request.variants.push(variant);
                plan.request.variants.len() - 1
            });
            plan.cells.extend(request.durations.iter().map(|&asked| Cell { method, asked, variant }));
        }
        plan
    }

    fn position_of(&mut self, method: &'static Method) -> usize {
        self.methods.iter().position(|m| m.name == method.name).unwrap_or_else(|| {
            self.methods.push(method);
            self.methods.len() - 1
        })
    }

    /// The parameters of a cell.
    pub(super) fn parameters(&self, cell: &Cell) -> wait::Parameters {
        let interrupt_ns = self.interrupt.map(|period| i64::try_from(period.as_nanos()).unwrap_or(i64::MAX));
        wait::Parameters { interrupt_ns, ..wait::Parameters::asking(cell.asked_ns()) }
    }

    /// A cell's wait, rounded up to the call's unit.
    #[must_use]
    pub fn effective_ns(&self, cell: &Cell) -> i64 {
        self.methods[cell.method].effective_ns(cell.asked_ns(), self.hz)
    }

    /// How long a cell's wait takes: a signal ends a call that rounds to seconds, and a second with it.
    pub(super) fn expected_ns(&self, cell: &Cell) -> i64 {
        let effective_ns = self.effective_ns(cell);
        let seconds = units_up(effective_ns, 1_000_000_000);
        match self.parameters(cell).interrupt_ns {
            Some(period_ns) if self.methods[cell.method].unit == Unit::Second => {
                effective_ns.min(period_ns.saturating_mul(seconds))
            }
            _ => effective_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::wait::methods;
    use crate::frame::Amount;

    fn planned(names: &[&str], asked: Duration, time: Duration) -> Result<Plan, PlanError> {
        Plan::new(Request {
            methods: names.iter().map(|name| methods::find(name).unwrap()).collect(),
            durations: vec![asked],
            companions: Vec::new(),
            interrupt: None,
            frame: frame::Request::as_found(Amount::Time(time), 10),
        })
    }

    #[test]
    fn a_time_that_pays_for_no_wait_is_refused() {
        let ms = Duration::from_millis(1);
        let refused = |names: &[&str], asked, time| planned(names, asked, time).unwrap_err().to_string();
        assert_eq!(
            refused(&["nanosleep"], ms, Duration::from_nanos(1)),
            "invalid duration of the run: must be at least 1ms to pay for one wait, not 1ns"
        );
        assert!(refused(&["nanosleep", "futex"], ms, ms).contains("at least 2ms"));
        assert!(refused(&["sleep"], ms, 400 * ms).contains("at least 1s"), "it takes whole seconds");
        assert!(planned(&["nanosleep"], ms, ms).is_ok());
        assert!(planned(&["sleep", "nanosleep"], ms, 400 * ms).is_ok(), "one of them is measured");
    }
}
