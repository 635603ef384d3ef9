//! Whether the limits of a measuring command are about what it is going to measure, before anything is measured.

use punctual_lab::{ipc, pace, wait, yielding};
use punctual_record::{Limit, Quantity};

use crate::args::{Action, Args, Command, check_limits, chosen};
use crate::refusal::BadUsage;

/// Experiment, subject and quantity.
type Planned = Vec<(&'static str, &'static str, Quantity)>;

/// Refuses a limit that is about nothing that the command measures.
pub(super) fn check(args: &Args) -> Result<(), BadUsage> {
    let (limits, planned) = match &args.command {
        None => (&args.checkup.output.fail_if, of_checkup()),
        Some(Command::Checkup(checkup)) => (&checkup.output.fail_if, of_checkup()),
        Some(Command::Wait(wait)) => (&wait.output.fail_if, wait.measured().into_iter().map(of_wait).collect()),
        Some(Command::Ipc(ipc)) => {
            let mechanisms = chosen(&ipc.mechanisms).unwrap_or_else(|| ipc::mechanisms::all().collect());
            (&ipc.output.fail_if, mechanisms.into_iter().map(of_ipc).collect())
        }
        Some(Command::Yield(yielding)) if yielding.polls.is_empty() => {
            let methods = chosen(&yielding.methods).unwrap_or_else(|| yielding::methods::ALL.iter().collect());
            (&yielding.output.fail_if, methods.into_iter().map(of_yield).collect())
        }
        Some(Command::Pace(pace)) if pace.receive.is_none() => {
            let methods = chosen(&pace.by).unwrap_or_else(|| pace::methods::all().collect());
            let lateness = |method: &'static pace::method::PacingMethod| ("pace", method.name, Quantity::Lateness);
            (&pace.output.fail_if, methods.into_iter().map(lateness).collect())
        }
        Some(Command::Governor(governor)) => return of_governor(governor.action.as_ref()),
        // Their subjects are known only afterwards, or they measure nothing.
        Some(
            Command::Yield(_)
            | Command::Pace(_)
            | Command::Calibrate(_)
            | Command::Report(_)
            | Command::Run(_)
            | Command::Compare(_)
            | Command::Merge(_),
        ) => return Ok(()),
    };
    check_limits(limits, &planned)
}

fn of_wait(method: &'static punctual_lab::ways::wait::Method) -> (&'static str, &'static str, Quantity) {
    (wait::EXPERIMENT, method.name, if method.absolute { Quantity::Lateness } else { Quantity::Overshoot })
}

fn of_ipc(mechanism: &'static ipc::mechanism::Mechanism) -> (&'static str, &'static str, Quantity) {
    ("ipc", &mechanism.name, Quantity::OneWay)
}

fn of_yield(method: &'static punctual_lab::ways::yielding::Method) -> (&'static str, &'static str, Quantity) {
    (yielding::EXPERIMENT, method.name, Quantity::CallCost)
}

/// Whatever the parts of a check-up may measure.
fn of_checkup() -> Planned {
    let waits = wait::methods::all().map(of_wait);
    let yields = yielding::methods::ALL.iter().map(of_yield);
    let loops = [("ramp", "as found", Quantity::Loop), ("ramp", "performance", Quantity::Loop)];
    waits.chain(ipc::mechanisms::all().map(of_ipc)).chain(yields).chain(loops).collect()
}

/// Work loops and switches are not late: their limits name a subject. Its name depends on the machine.
fn of_governor(action: Option<&Action>) -> Result<(), BadUsage> {
    let (limits, experiment) = match action {
        Some(Action::Ramp(ramp)) => (&ramp.output.fail_if, "ramp"),
        Some(Action::Switch(switch)) => (&switch.output.fail_if, "switch"),
        Some(Action::Boost(boost)) => (&boost.output.fail_if, "boost"),
        _ => return Ok(()),
    };
    let nameless: Vec<Limit> = limits.iter().filter(|limit| limit.subject.is_none()).cloned().collect();
    check_limits(&nameless, &[(experiment, "as found", Quantity::Loop)])
}
