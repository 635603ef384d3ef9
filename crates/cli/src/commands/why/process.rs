//! A running process.

use std::cell::Cell;
use std::time::{Duration, Instant};

use punctual::format_duration;
use punctual_lab::advise::{Reach, Tried};
use punctual_lab::program::{Account, Process, Refused, State, Watcher};
use punctual_lab::{Silent, Stop};
use punctual_record::{Notice, Program, TrialRefused, Unseen};
use punctual_trace::Target;

use super::args::{self, WhyArgs};
use crate::commands::trace::Trace;
use crate::exit::{Exit, listen_for_signals};
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
    listen_for_signals(&stop)?;
    let mut silent = Silent;
    let mut session = args::session(stop.clone(), &mut silent);
    if args.thread.is_none() {
        not_watched(&process).into_iter().for_each(|notice| session.notice(notice));
    }
    let (target, account) = match args.thread {
        Some(_) => (Target { tids: process.tids.clone(), with_children: false }, Account::of_threads(&process.tids)),
        None => (Target { tids: process.tids.clone(), with_children: true }, Account::of_process(pid)),
    };
    let duration = args.measure.amount.duration.unwrap_or(if args.advise { args::USUAL_TO_ADVISE } else { USUAL });
    let reach = if args.thread.is_some() { Reach::Threads(process.tids.clone()) } else { Reach::Process };
    let advisor = if args.advise { Some(args::advisor(pid, reach)?) } else { None };
    let depth = args.depth();
    let mut trace = Trace::begin(outputs.take("--trace"), &target);
    let mut watcher = Watcher::begin(&target, account, depth);
    let begin = Instant::now();
    let course = Course::begin(&process);
    let goes_on = || !stop.requested() && course.goes_on();
    let watching = if args.advise { duration.mul_f64(args::BEFORE_ADVICE) } else { duration };
    let watch = |watcher: &mut Watcher, trace: &mut Trace, until: Duration| {
        let left = || until.saturating_sub(begin.elapsed());
        while !left().is_zero() && goes_on() {
            watcher.step(left().min(LOOK), &mut |batch| trace.take(batch));
        }
    };
    watch(&mut watcher, &mut trace, watching);
    let mut tried = Tried::default();
    if let Some(mut advisor) = advisor {
        let time = duration.saturating_sub(begin.elapsed());
        tried = advisor.run(&mut watcher, time, &goes_on, &mut |batch| trace.take(batch));
    }
    // Where nothing can be tried, the program is watched for the rest of the time.
    watch(&mut watcher, &mut trace, duration);
    let left = if goes_on() { Duration::ZERO } else { duration.saturating_sub(begin.elapsed()) };
    let ended = (!left.is_zero() && !stop.requested()).then_some(duration);
    let cut = course.cut(ended, begin.elapsed());
    let program = Program { name: process.name.clone(), pid: pid.cast_unsigned(), ..Program::default() };
    let mut causes = watcher.end(program, &mut |batch| trace.take(batch));
    if let Some(TrialRefused { why, remedy }) = cut.clone() {
        let what = format!("the wake-ups of {}", process.name);
        causes.missing.insert(0, Unseen { what, why, remedy });
    }
    args::enter_trials(tried, cut.as_ref(), &mut causes, &mut session);
    let traced = trace.finish(&causes);
    let all_written = args.close(session, causes, &wanted, outputs) && traced;
    Ok(Exit::of(&stop).unless_lost(all_written))
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

/// Whether the process ended or was stopped meanwhile.
struct Course<'a> {
    process: &'a Process,
    looked: Cell<Instant>,
    state: Cell<State>,
    stopped: Cell<Duration>,
    traced: Cell<bool>,
}

impl<'a> Course<'a> {
    fn begin(process: &'a Process) -> Self {
        let (state, now) = (process.state(), Instant::now());
        let traced = Cell::new(state == State::Traced);
        Self { process, looked: Cell::new(now), state: Cell::new(state), stopped: Cell::default(), traced }
    }

    /// Looks at the process: whether it has not ended.
    fn goes_on(&self) -> bool {
        let state = self.process.state();
        let since = self.looked.replace(Instant::now()).elapsed();
        if matches!(self.state.replace(state), State::Stopped | State::Traced) {
            self.stopped.set(self.stopped.get() + since);
        }
        self.traced.set(self.traced.get() || state == State::Traced);
        state != State::Ended
    }

    /// What happened after this time, and what to do. `planned` is the time of watching, if the process ended before.
    fn cut(&self, planned: Option<Duration>, after: Duration) -> Option<TrialRefused> {
        self.goes_on();
        let Process { name, pid, .. } = self.process;
        let who = format!("{name} (process {pid})");
        let [stopped, after] = [self.stopped.get(), after].map(|time| format_duration(tenths(time)));
        let by = if self.traced.get() { "a debugger" } else { "a signal; by whom is not known" };
        let (why, remedy) = match (planned, self.state.get()) {
            (Some(planned), _) => (
                format!("{who} ended after {after}; it was to be watched for {}", format_duration(planned)),
                "watch it from its start: punctual why -- PROGRAM".to_owned(),
            ),
            (None, state @ (State::Stopped | State::Traced)) => (
                format!("{who} is stopped by {by}; it was stopped for {stopped} of {after}"),
                match state {
                    State::Traced => "continue it in the debugger and watch again".to_owned(),
                    _ => format!("continue it (kill -CONT {pid}) and watch again"),
                },
            ),
            (None, _) if !self.stopped.get().is_zero() => {
                (format!("{who} was stopped by {by} for {stopped} of {after}"), "watch again while it runs".to_owned())
            }
            _ => return None,
        };
        Some(TrialRefused { why, remedy: Some(remedy) })
    }
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
