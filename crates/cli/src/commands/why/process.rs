//! A running process.

use std::time::{Duration, Instant};

use punctual::format_duration;
use punctual_lab::advise::{Reach, Tried};
use punctual_lab::program::{Account, Process, Refused, Watcher};
use punctual_lab::{Silent, Stop};
use punctual_record::{Notice, Program};
use punctual_trace::Target;

use super::{advise, finish};
use crate::args::WhyArgs;
use crate::commands::trace::Trace;
use crate::exit::Exit;
use crate::interrupt;
use crate::refusal::BadUsage;

/// Default duration.
const USUAL: Duration = Duration::from_secs(10);
/// Interval of the checks of the process.
const LOOK: Duration = Duration::from_millis(100);

/// Watches until the time is over, the process ends or a signal comes.
pub(super) fn run(args: &WhyArgs, pid: i32) -> anyhow::Result<Exit> {
    let process = find(args, pid)?;
    let wanted = args.outputs();
    let mut outputs = wanted.open()?;
    let stop = Stop::default();
    interrupt::listen(&stop)?;
    let mut silent = Silent;
    let mut session = finish::session(stop.clone(), &mut silent);
    if args.thread.is_none() {
        not_watched(&process).into_iter().for_each(|notice| session.notice(notice));
    }
    let (target, account) = match args.thread {
        Some(_) => (Target { tids: process.tids.clone(), with_children: false }, Account::of_threads(&process.tids)),
        None => (Target { tids: process.tids.clone(), with_children: true }, Account::of_process(pid)),
    };
    let duration = args.measure.amount.duration.unwrap_or(if args.advise { advise::USUAL } else { USUAL });
    let reach = if args.thread.is_some() { Reach::Threads(process.tids.clone()) } else { Reach::Process };
    let advisor = if args.advise { Some(advise::open(pid, reach)?) } else { None };
    let mut trace = Trace::begin(outputs.take("--trace"), &target);
    let mut watcher = Watcher::begin(&target, account);
    let begin = Instant::now();
    let goes_on = || !stop.requested() && process.runs();
    let watching = if args.advise { duration.mul_f64(advise::BEFORE) } else { duration };
    let mut left = watching;
    while !left.is_zero() && goes_on() {
        watcher.step(left.min(LOOK), &mut |batch| trace.take(batch));
        left = watching.saturating_sub(begin.elapsed());
    }
    let mut tried = Tried::default();
    if let Some(mut advisor) = advisor {
        tried = advisor
            .run(&mut watcher, duration.saturating_sub(begin.elapsed()), &goes_on, &mut |batch| trace.take(batch));
        left = if goes_on() { Duration::ZERO } else { duration.saturating_sub(begin.elapsed()) };
    }
    if !left.is_zero() && !stop.requested() {
        let (name, after) = (&process.name, format_duration(tenths(begin.elapsed())));
        let text = format!(
            "{name} (process {pid}) ended after {after}; it was to be watched for {}",
            format_duration(duration)
        );
        session.notice(Notice::Other { text });
    }
    let program = Program { name: process.name, pid: pid.cast_unsigned(), ..Program::default() };
    let mut causes = watcher.end(program, &mut |batch| trace.take(batch));
    advise::enter(tried, &mut causes, &mut session);
    let traced = trace.finish(&causes);
    let all_written = finish::close(session, causes, &wanted, outputs) && traced;
    Ok(interrupt::exit(&stop).unless_lost(all_written))
}

fn find(args: &WhyArgs, pid: i32) -> Result<Process, BadUsage> {
    Process::find(pid, args.thread.as_deref()).map_err(|refused| match &refused {
        Refused::Process(_) => BadUsage::invalid("--pid", pid, refused),
        Refused::OfAnother { name, process } => {
            BadUsage::invalid("--pid", pid, format!("{refused} (example: --pid {process} --thread {name})"))
        }
        Refused::Threads(_) => BadUsage::invalid("--thread", args.thread.as_deref().unwrap_or_default(), refused),
    })
}

/// A process of this server, or of this shell, that existed before is not watched.
fn not_watched(process: &Process) -> Option<Notice> {
    let children = process.children();
    let first = children.first()?;
    let (count, are) = if children.len() == 1 { ("child", "is") } else { ("children", "are") };
    let text = format!(
        "{}'s {} {count} {are} not watched, only those that it creates from now on (example: --pid {first})",
        process.name,
        children.len()
    );
    Some(Notice::Other { text })
}

/// To tenths of a second.
fn tenths(time: Duration) -> Duration {
    Duration::from_millis(time.as_millis() as u64 / 100 * 100)
}
