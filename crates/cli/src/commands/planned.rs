//! Whether the limits of a measuring command are about what it is going to measure, before anything is measured.

use punctual_lab::ways::wait::Method;
use punctual_lab::ways::yielding::Method as Yielding;
use punctual_lab::{Thread, boost, calibrate, ipc, pace, polls, ramp, switch, wait, yielding};
use punctual_record::{Experiment, Limit, Quantity};

use crate::args::limits;
use crate::args::names::chosen;
use crate::commands::governor::Action;
use crate::commands::line::{Args, Command};
use crate::commands::pace::PaceArgs;
use crate::commands::why::WhyArgs;
use crate::commands::yielding::YieldArgs;
use crate::refusal::BadUsage;

/// Experiment, subject and quantity.
type Planned = Vec<(&'static str, String, Quantity)>;

/// Refuses a limit that is about nothing that the command measures.
pub(super) fn check(args: &Args) -> Result<(), BadUsage> {
    let Some((limits, planned)) = planned(args) else { return Ok(()) };
    let planned: Vec<(&str, &str, Quantity)> =
        planned.iter().map(|(of, its, quantity)| (*of, &**its, *quantity)).collect();
    limits::check(limits, &planned)
}

/// The limits of a measuring command, and what it may measure. `None`: it measures nothing, or compares.
fn planned(args: &Args) -> Option<(&[Limit], Planned)> {
    Some(match args.command.as_ref() {
        None => (&args.checkup.output.fail_if, of_checkup()),
        Some(Command::Checkup(checkup)) => (&checkup.output.fail_if, of_checkup()),
        Some(Command::Wait(wait)) => (&wait.measure.output.fail_if, wait.measured().into_iter().map(of_wait).collect()),
        Some(Command::Why(why)) => (&why.measure.output.fail_if, WhyArgs::method().into_iter().map(of_wait).collect()),
        Some(Command::Ipc(ipc)) => {
            let mechanisms = chosen(&ipc.mechanisms).unwrap_or_else(|| ipc::mechanisms().collect());
            (&ipc.measure.output.fail_if, mechanisms.into_iter().map(of_ipc).collect())
        }
        Some(Command::Yield(yielding)) => (&yielding.measure.output.fail_if, of_yielding(yielding)),
        Some(Command::Pace(pace)) => (&pace.measure.output.fail_if, of_pace(pace)),
        Some(Command::Calibrate(args)) => {
            let of_sleep = |method: &Method| figure(calibrate::EXPERIMENT, method.name, Quantity::Overshoot);
            (&args.measure.output.fail_if, args.calibrated().into_iter().map(of_sleep).collect())
        }
        Some(Command::Run(run)) if run.observe.observe => (&run.observe.fail_if, of_calls()),
        Some(Command::Governor(governor)) => return of_governor(governor.action.as_ref()?),
        Some(Command::Report(_) | Command::Run(_) | Command::Compare(_) | Command::Merge(_) | Command::About) => {
            return None;
        }
    })
}

fn figure(
    experiment: &'static str,
    subject: impl Into<String>,
    quantity: Quantity,
) -> (&'static str, String, Quantity) {
    (experiment, subject.into(), quantity)
}

/// Every function whose calls are counted, with every figure.
fn of_calls() -> Planned {
    let quantities = [Quantity::Lateness, Quantity::Away, Quantity::CallCost];
    let names = (0..=u8::MAX).filter_map(punctual_linux::call_table::call_name);
    names.flat_map(|name| quantities.map(|quantity| figure(Experiment::CALLS, name, quantity))).collect()
}

fn of_wait(method: &'static Method) -> (&'static str, String, Quantity) {
    figure(wait::EXPERIMENT, method.name, if method.absolute { Quantity::Lateness } else { Quantity::Overshoot })
}

fn of_ipc(mechanism: &'static ipc::mechanism::Mechanism) -> (&'static str, String, Quantity) {
    figure(ipc::EXPERIMENT, &*mechanism.name, Quantity::OneWay)
}

fn of_yield(method: &'static Yielding) -> (&'static str, String, Quantity) {
    figure(yielding::EXPERIMENT, method.name, Quantity::CallCost)
}

fn of_yielding(args: &YieldArgs) -> Planned {
    let named = chosen(&args.methods);
    if args.polls.is_empty() {
        return named.unwrap_or_else(|| yielding::methods::ALL.iter().collect()).into_iter().map(of_yield).collect();
    }
    let subjects = polls::subjects(&named.unwrap_or_else(yielding::methods::usual), &args.polls);
    subjects.into_iter().map(|subject| figure(polls::EXPERIMENT, subject, Quantity::OneWay)).collect()
}

fn of_pace(args: &PaceArgs) -> Planned {
    if args.receive.is_some() {
        return vec![figure(pace::EXPERIMENT, pace::receive::SUBJECT, Quantity::PeriodJitter)];
    }
    let methods = chosen(&args.by).unwrap_or_else(|| pace::methods::all().collect());
    let experiment = if args.sweep.is_some() { Experiment::SWEEP } else { pace::EXPERIMENT };
    methods.into_iter().map(|method| figure(experiment, method.name, Quantity::Lateness)).collect()
}

/// Whatever the parts of a check-up may measure.
fn of_checkup() -> Planned {
    let waits = wait::methods::all().map(of_wait);
    let yields = yielding::methods::ALL.iter().map(of_yield);
    let loops = ramp::Governors::AgainstPerformance.subjects(None);
    let loops = loops.into_iter().map(|governor| figure(ramp::EXPERIMENT, governor, Quantity::Loop));
    waits.chain(ipc::mechanisms().map(of_ipc)).chain(yields).chain(loops).collect()
}

/// Work loops and switches are not late: their limits name a subject.
fn of_governor(action: &Action) -> Option<(&[Limit], Planned)> {
    Some(match action {
        Action::Ramp(args) => {
            let subjects = args.measured().subjects(Thread::from(&args.thread).its_cpu());
            let loops = subjects.into_iter().map(|governor| figure(ramp::EXPERIMENT, governor, Quantity::Loop));
            (&args.output.fail_if, loops.collect())
        }
        Action::Switch(args) => {
            let of_direction = |direction| figure(switch::EXPERIMENT, direction, Quantity::Settling);
            (&args.output.fail_if, switch::subjects(args.between()).map(of_direction).into())
        }
        Action::Boost(args) => {
            let of_subject = |subject| figure(boost::EXPERIMENT, subject, Quantity::Response);
            (&args.output.fail_if, boost::subjects().map(of_subject).collect())
        }
        Action::Show(_) | Action::Set(_) | Action::Restore => return None,
    })
}
