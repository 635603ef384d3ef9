//! Where a program's time went: the first sentence of each kind of loss, its table, and what is not said.

use crate::common::run;
use crate::forms::{shown, written};
use insta::assert_snapshot;
use punctual_record::{
    Budget, BudgetSource, Caller, Causes, Frame, Loss, LossKind, LossPlace, Program, Quota, Run, SourceLine, Spent,
    Stop, StopSignal, Thing, ThreadBudget, ThreadPolicy, TimePart, Turns, WatchCost, Who,
};
use punctual_report::export::{html, markdown, text};
use punctual_report::{Document, Style, Verdict};

pub(crate) const MS: u64 = 1_000_000;

fn part(spent: Spent, ms: u64, times: u64) -> TimePart {
    TimePart { spent, ns: ms * MS, times, longest_ns: 12 * MS, ..TimePart::default() }
}

fn by(name: &str, tid: u32, part: TimePart) -> TimePart {
    let who = Who { thread: name.into(), tid, process: name.into(), pid: tid, ..Who::default() };
    TimePart { who: Some(who), ..part }
}

pub(crate) fn loss(kind: LossKind, ms: u64, times: u64) -> Loss {
    Loss { kind, ns: ms * MS, times, subject: "server".into(), tid: 0, place: LossPlace::default() }
}

fn program(parts: Vec<TimePart>, losses: Vec<Loss>) -> Run {
    let mut run = run(&["punctual", "why", "--", "server"], Vec::new(), &[]);
    let wall_ns = parts.iter().map(|part| part.ns).sum();
    let thread = ThreadBudget {
        thread: "server".into(),
        tid: 4711,
        process: "server".into(),
        pid: 4711,
        policy: ThreadPolicy::Fair(0),
        wall_ns,
        parts,
        ..ThreadBudget::default()
    };
    let cost = Some(WatchCost { events: 120_000, each_ns: 178.0 });
    let budget = Budget { threads: vec![thread], cost, ..Budget::default() };
    let program = Program { name: "server".into(), pid: 4711, threads: 1, ..Program::default() };
    let (program, watched_ns) = (Some(program), wall_ns);
    run.causes = Some(Causes { program, watched_ns, budget: Some(budget), losses, ..Causes::default() });
    run
}

/// A server that its quota stops.
pub(crate) fn throttled() -> Run {
    let place =
        LossPlace { cgroup: Some("/web.slice".into()), limit: Some("25 % of a CPU".into()), ..LossPlace::default() };
    let group = || Thing { cgroup: Some("/web.slice".into()), ..Thing::default() };
    let parts = vec![
        TimePart { thing: group(), ..part(Spent::ThrottledByQuota, 2250, 229) },
        part(Spent::Running, 690, 460),
        by("cc1", 99, part(Spent::Ready, 30, 41)),
        part(Spent::FaultNew, 11, 210),
        part(Spent::Asleep, 10, 4),
        part(Spent::Interrupted, 6, 900),
        part(Spent::SleptLonger, 2, 4),
        part(Spent::Unknown, 1, 1),
    ];
    let mut run =
        program(parts, vec![Loss { place, ..loss(LossKind::Quota, 2250, 229) }, loss(LossKind::HogProcess, 30, 41)]);
    let budget = budget(&mut run);
    budget.threads[0].turns = Some(Turns {
        call: "clock_nanosleep".into(),
        period_ns: 10 * MS,
        turns: 220,
        missed: 210,
        behind_ns: 800 * MS,
        most_behind_ns: 801 * MS,
    });
    budget.quotas = vec![Quota {
        cgroup: "/web.slice".into(),
        quota_ns: 5 * MS,
        period_ns: 20 * MS,
        threads: 1,
        throttled: 229,
        throttled_ns: 2250 * MS,
    }];
    run
}

pub(crate) fn budget(run: &mut Run) -> &mut Budget {
    run.causes.as_mut().unwrap().budget.as_mut().unwrap()
}

pub(crate) fn screen(run: &Run) -> String {
    text::head(&Document::from_run(run), &Style::default(), 24)
}

fn answer(run: &Run) -> String {
    Verdict::from_run(run).answer.join(" ").replace('\u{a0}', " ")
}

/// The first sentence about a loss of a thread that has these parts.
fn said(loss: Loss, parts: Vec<TimePart>) -> String {
    answer(&program(parts, vec![loss]))
}

pub(crate) fn of(kind: LossKind, place: LossPlace) -> String {
    said(Loss { place, ..loss(kind, 2000, 90) }, vec![part(Spent::Unknown, 3000, 1)])
}

fn culprit(name: &str) -> LossPlace {
    LossPlace { culprit: Some(name.into()), ..LossPlace::default() }
}

fn at(line: u32) -> Option<SourceLine> {
    Some(SourceLine { file: "store.c".into(), line })
}

fn called_by(functions: &[(&str, u32)], part: TimePart) -> TimePart {
    let frame = |(function, line): &(&str, u32)| Frame {
        function: (*function).into(),
        line: at(*line),
        file: if function.starts_with("__lll") { "/usr/lib/libc.so.6" } else { "/srv/store" }.into(),
    };
    let caller = Caller { ns: 20 * MS, frames: functions.iter().map(frame).collect() };
    TimePart { caller: Some(Box::new(caller)), ..part }
}

#[test]
fn a_wait_says_where_in_the_program_one_began() {
    let mut waits = called_by(&[("__lll_lock_wait", 1), ("take", 20), ("main", 24)], part(Spent::Lock, 2000, 90));
    let sleeps = called_by(&[("std::thread::sleep", 7), ("keep", 17)], part(Spent::Asleep, 2000, 90));
    waits.who = Some(Who { thread: "keeper".into(), meanwhile: Some(Box::new(sleeps)), ..Who::default() });
    let said_of = |part: &TimePart, times| said(loss(LossKind::Lock, 2000, times), vec![part.clone()]);
    let both = said_of(&waits, 90);
    let run = program(vec![waits.clone()], vec![loss(LossKind::Lock, 2000, 90)]);
    let full = shown(&run, &Style { width: 100, ..Style::default() });
    let table = full.lines().skip_while(|line| !line.contains("Where long waits began")).take(3);
    let table = table.collect::<Vec<_>>().join("\n");
    // Another one is waited for longer, and is not the one that the sentence is about.
    let mut other = called_by(&[("refill", 30)], part(Spent::Lock, 2500, 20));
    other.who = Some(Who { thread: "filler".into(), ..Who::default() });
    let kept = || Loss {
        place: LossPlace { holder: Some("keeper".into()), ..LossPlace::default() },
        ..loss(LossKind::Lock, 2000, 90)
    };
    let named = [
        said(kept(), vec![other.clone(), waits.clone()]),
        said(kept(), vec![other.clone(), TimePart { caller: None, ..waits.clone() }]),
    ];
    let input = program(
        vec![called_by(&[("fetch", 7)], part(Spent::Socket, 2000, 9)), part(Spent::Disk, 300, 9)],
        vec![loss(LossKind::Input, 2000, 9), loss(LossKind::Disk, 300, 9)],
    );
    let input = answer(&input);
    waits.who = None;
    let alone = [said_of(&waits, 90), said_of(&waits, 1)];
    // Nobody knows where: of a script, of a library's own thread, of a wait that is not the loss.
    let script = called_by(&[("take", 1), ("_PyEval_EvalFrameDefault", 2)], part(Spent::Lock, 2000, 90));
    let library = called_by(&[("__lll_lock_wait", 1), ("__libc_start_main", 2)], part(Spent::Lock, 2000, 90));
    let other = called_by(&[("take", 20)], part(Spent::Pipe, 2000, 90));
    let nowhere = [&script, &library, &other].map(|part| said_of(part, 90));
    // A place from which little of the time comes is not where it went.
    let few = said(
        loss(LossKind::Lock, 2000, 90),
        vec![part(Spent::Lock, 1700, 4), called_by(&[("take", 20)], part(Spent::Lock, 300, 86))],
    );
    assert_snapshot!([&[both][..], &named, &alone, &nowhere, &[few, input, table]].concat().join("\n"));
}

#[test]
fn a_quota_on_the_first_screen() {
    let text = screen(&throttled());
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_snapshot!(text);
}

#[test]
fn a_quota_in_full() {
    assert_snapshot!(shown(&throttled(), &Style { width: 100, ..Style::default() }));
}

#[test]
fn each_loss_has_its_sentence() {
    let mut all = vec![
        of(LossKind::Quota, LossPlace::default()),
        of(LossKind::ThreadsOverQuota, LossPlace { cgroup: Some("/box".into()), ..LossPlace::default() }),
        of(LossKind::Stopped, culprit("stopper-7")),
        of(LossKind::Frozen, LossPlace { cgroup: Some("/box".into()), ..LossPlace::default() }),
        of(
            LossKind::Disk,
            LossPlace { call: Some("fdatasync".into()), file: Some("/var/journal".into()), ..LossPlace::default() },
        ),
        of(LossKind::Disk, LossPlace { call: Some("fsync".into()), threads: Some(4), ..LossPlace::default() }),
        of(LossKind::Lock, LossPlace { holder: Some("keeper-2".into()), ..LossPlace::default() }),
        of(LossKind::Lock, LossPlace { lock: Some("0xa0".into()), threads: Some(3), ..LossPlace::default() }),
        of(LossKind::StarvedServer, LossPlace { peer: Some("server-3".into()), ..culprit("thief-31") }),
        of(LossKind::Chain, LossPlace { holder: Some("middle".into()), ..culprit("root-9") }),
        of(LossKind::CoarseTimeout, LossPlace { call: Some("recvfrom".into()), ..LossPlace::default() }),
        of(LossKind::DelayedAck, LossPlace { peer: Some("server-3".into()), ..LossPlace::default() }),
        of(LossKind::Condition, LossPlace { peer: Some("worker-2".into()), ..LossPlace::default() }),
        of(LossKind::FaultFile, LossPlace { file: Some("table-9".into()), ..LossPlace::default() }),
        of(LossKind::Reclaim, LossPlace { cgroup: Some("/small".into()), ..LossPlace::default() }),
        of(LossKind::FaultCopy, LossPlace { call: Some("clone".into()), ..LossPlace::default() }),
        of(LossKind::EventLoop, LossPlace { call: Some("clock_nanosleep".into()), ..LossPlace::default() }),
        of(LossKind::Computes, LossPlace { function: Some("sum_rows".into()), ..LossPlace::default() }),
        of(LossKind::Computes, LossPlace { function: Some("a\u{1b}[2Jname".repeat(20)), ..LossPlace::default() }),
        of(LossKind::OwnWork, LossPlace { function: Some("mixer::mix".into()), ..LossPlace::default() }),
        of(LossKind::Computes, LossPlace { function: Some("sum_rows".into()), line: at(42), ..LossPlace::default() }),
        of(LossKind::Collector, LossPlace { function: Some("runtime.scanobject".into()), ..LossPlace::default() }),
    ];
    let simple = [
        LossKind::HogThread,
        LossKind::HogProcess,
        LossKind::HogFifo,
        LossKind::IdlePolicy,
        LossKind::Polling,
        LossKind::Interrupts,
        LossKind::Barrier,
        LossKind::MmapLock,
        LossKind::Child,
        LossKind::Spawn,
        LossKind::Tracer,
        LossKind::Supervisor,
        LossKind::InterpreterLock,
    ];
    all.extend(simple.map(|kind| of(kind, culprit("other"))));
    let alone = [
        LossKind::RtLimit,
        LossKind::DeadlineBudget,
        LossKind::Host,
        LossKind::TimerSlack,
        LossKind::Lock,
        LossKind::Condition,
        LossKind::Pipe,
        LossKind::MessageQueue,
        LossKind::Socket,
        LossKind::DelayedAck,
        LossKind::FaultSwap,
        LossKind::FaultCopy,
        LossKind::FaultNew,
        LossKind::OwnWork,
        LossKind::Allocator,
        LossKind::Collector,
        LossKind::Reclaim,
        LossKind::OnTime,
        LossKind::Computes,
        LossKind::Input,
        LossKind::Unknown,
    ];
    all.extend(alone.map(|kind| of(kind, LossPlace::default())));
    assert_snapshot!(all.join("\n"));
}

#[test]
fn what_the_holder_of_a_lock_did_is_said_where_it_is_known() {
    let wait = |did| {
        let mut wait = by(
            "holder-2",
            90,
            TimePart { thing: Thing { futex: Some(0xab), ..Thing::default() }, ..part(Spent::Lock, 2000, 90) },
        );
        wait.who.as_mut().unwrap().meanwhile = did;
        let place = LossPlace { lock: Some("0xab".into()), holder: Some("holder-2".into()), ..LossPlace::default() };
        said(Loss { place, ..loss(LossKind::Lock, 2000, 90) }, vec![wait, part(Spent::Asleep, 1000, 90)])
    };
    let slept = Some(Box::new(part(Spent::Asleep, 1900, 90)));
    assert_eq!(
        wait(slept),
        "server waited 2.00 s of 3.00 s for a lock, 90 times: its holder, holder-2, slept meanwhile."
    );
    assert_eq!(wait(None), "server waited 2.00 s of 3.00 s for a lock, 90 times: its holder is holder-2.");
}

#[test]
fn a_signal_of_another_process_is_not_said_to_be_of_a_thread() {
    let wait = |pid| {
        let mut wait = by("server", pid, part(Spent::Condition, 2000, 90));
        wait.who.as_mut().unwrap().meanwhile = Some(Box::new(part(Spent::Asleep, 1900, 90)));
        let signal = Loss { place: culprit("server"), ..loss(LossKind::Condition, 2000, 90) };
        said(signal, vec![wait, part(Spent::Asleep, 1000, 90)])
    };
    assert_eq!(
        [wait(90), wait(4711)],
        [("process", 90), ("thread", 4711)].map(|(whom, tid)| format!(
            "server waited 2.00 s of 3.00 s for a signal of another {whom}, 90 times: server ({tid}) slept meanwhile."
        ))
    );
}

#[test]
fn what_a_wait_at_a_socket_or_for_input_was_for_is_said_where_it_is_known() {
    let of_call = |kind, call: &str| of(kind, LossPlace { call: Some(call.into()), ..LossPlace::default() });
    let place = LossPlace { peer: Some("client".into()), ..LossPlace::default() };
    let once = Loss { place, ..loss(LossKind::Input, 2000, 1) };
    assert_snapshot!(
        [
            of_call(LossKind::Socket, "sendto"),
            of_call(LossKind::Socket, "connect"),
            of_call(LossKind::Input, "epoll_wait"),
            of(LossKind::Input, LossPlace { peer: Some("client".into()), ..LossPlace::default() }),
            said(once, vec![part(Spent::Unknown, 3000, 1)]),
        ]
        .join("\n")
    );
}

#[test]
fn the_own_nice_value_is_said() {
    let mut run = program(
        vec![by("thief", 9, part(Spent::Ready, 3000, 90))],
        vec![Loss { place: culprit("thief"), ..loss(LossKind::Nice, 2900, 90) }],
    );
    budget(&mut run).threads[0].policy = ThreadPolicy::Fair(19);
    assert_eq!(
        answer(&run),
        "server waited 2.90 s of 3.00 s for its CPU, on which thief ran, 90 times: its own nice value is 19."
    );
    assert!(screen(&run).contains("renice -n 0 -p 4711"), "{}", screen(&run));
    budget(&mut run).threads[0].barred_idle = vec![1];
    assert!(
        screen(&run).contains("let it use CPU 1, which was idle (taskset -cp 1 4711).")
            && !screen(&run).contains("renice"),
        "{}",
        screen(&run)
    );
}

#[test]
fn one_that_had_the_cpu_for_less_than_half_of_the_time_is_not_said_to_be_the_only_one() {
    let beside = |its| {
        let parts = vec![by("cc1", 9, part(Spent::Ready, its, 30)), by("ld", 8, part(Spent::Ready, 1000 - its, 30))];
        said(Loss { place: culprit("cc1"), ..loss(LossKind::HogProcess, 1000, 60) }, parts)
    };
    let of = "server waited 1.00 s of 1.00 s for its CPU, on which";
    assert_eq!(beside(400), format!("{of} cc1 and others ran, other processes, 60 times."));
    assert_eq!(beside(500), format!("{of} cc1 ran, another process, 60 times."));
}

#[test]
fn a_small_loss_of_a_program_that_is_well_is_said_to_be_small() {
    let parts =
        vec![part(Spent::Asleep, 2880, 300), by("cc1", 9, part(Spent::Ready, 12, 30)), part(Spent::Running, 108, 300)];
    let small = Loss { place: culprit("cc1"), ..loss(LossKind::HogProcess, 12, 30) };
    let mut run = program(parts, vec![loss(LossKind::OnTime, 0, 300), small]);
    let said = answer(&run);
    let next = "Its largest loss is 0.4 % of the run: it waited 12.0 ms for its CPU, on which cc1 ran, another process, 30 times.";
    assert_eq!(said, format!("server is on time: it slept for 2.88 s of 3.00 s, as long as it asked. {next}"));
    budget(&mut run).threads[0].turns = Some(Turns { turns: 300, missed: 2, ..Turns::default() });
    assert!(answer(&run).starts_with("server is on time: it misses 2 of 300 deadlines. "), "{}", answer(&run));
}

#[test]
fn what_is_spoken_of_has_a_row_and_rows_add_up() {
    let many = (0u64..).zip([
        Spent::Asleep,
        Spent::Poll,
        Spent::Running,
        Spent::Blocked,
        Spent::Unknown,
        Spent::OtherFile,
        Spent::FaultNew,
        Spent::Interrupted,
    ]);
    let mut parts: Vec<TimePart> = many.map(|(n, spent)| part(spent, 400 - n, 10)).collect();
    parts.push(by("thief", 9, part(Spent::Ready, 90, 7)));
    let run = program(parts, vec![Loss { place: culprit("thief"), ..loss(LossKind::HogProcess, 90, 7) }]);
    let text = screen(&run);
    assert!(text.contains("ready, not running") && text.contains("thief"), "{text}");
    let ms = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |unit: &str| words[words.iter().position(|word| *word == unit)? - 1].parse::<f64>().ok();
        number("ms").or_else(|| Some(1000.0 * number("s")?))
    };
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.contains("(4711): ")).skip(1).take(7).collect();
    let first =
        |row: &str| ms(row.split("  ").filter(|cell| !cell.is_empty()).take(2).collect::<Vec<_>>().join(" ").as_str());
    let sum: f64 = rows.into_iter().filter_map(first).sum();
    assert!(text.contains("(4711): 3.26 s") && (sum - 3262.0).abs() < 10.0, "{sum}: {text}");
}

#[test]
fn the_lock_of_a_file_is_named_and_sleeps_between_tries_are_said() {
    let lock = |call: &str, holder: Option<&str>, file: Option<&str>| {
        let (holder, file) = (holder.map(str::to_owned), file.map(str::to_owned));
        let place = LossPlace { file_lock: true, call: Some(call.into()), holder, file, ..LossPlace::default() };
        let wait = by("writer", 9, part(Spent::FileLock, 2000, 90));
        said(Loss { place, ..loss(LossKind::Lock, 2000, 90) }, vec![wait, part(Spent::Unknown, 1000, 1)])
    };
    assert_snapshot!(
        [
            lock("fcntl", Some("writer"), Some("/srv/orders.db")),
            lock("flock", None, None),
            lock("clock_nanosleep", Some("writer"), Some("/srv/orders.db")),
            lock("nanosleep", None, Some("/srv/orders.db")),
        ]
        .join("\n")
    );
    let waited = lock("fcntl", Some("writer"), Some("/srv/orders.db"));
    assert!(!waited.contains("disk") && !waited.contains("tries"), "{waited}");
}

#[test]
fn a_sleep_that_proc_shows_is_not_said_to_be_on_time() {
    let mut run = program(vec![part(Spent::Asleep, 3000, 0)], vec![loss(LossKind::OnTime, 0, 0)]);
    assert_eq!(answer(&run), "server is on time: it slept for 3.00 s of 3.00 s, as long as it asked.");
    budget(&mut run).source = BudgetSource::Files;
    assert_eq!(answer(&run), "server slept for 3.00 s of 3.00 s, and whether it woke up on time is not known.");
}

#[test]
fn a_sleep_that_lasted_longer_than_it_asked_is_not_said_to_be_as_long_as_that() {
    let slept = |longer| {
        let parts = vec![part(Spent::Asleep, 3000 - longer, 300), part(Spent::SleptLonger, longer, 300)];
        answer(&program(parts, vec![loss(LossKind::OnTime, 0, 0)]))
    };
    assert_eq!(slept(1500), "server slept for 1.50 s of 3.00 s longer than it asked for, and the cause is not known.");
    assert_eq!(slept(60), "server is on time: it slept for 2.94 s of 3.00 s, as long as it asked.");
}

#[test]
fn losses_that_do_not_explain_how_far_behind_it_is_are_said_not_to() {
    let behind_by = |ms, lost: Loss| {
        let mut run =
            program(vec![by("cc1", 99, part(Spent::Ready, 90, 30)), part(Spent::Unknown, 2910, 1)], vec![lost]);
        budget(&mut run).threads[0].turns =
            Some(Turns { turns: 220, missed: 100, behind_ns: ms * MS, ..Turns::default() });
        answer(&run)
    };
    let hog = || Loss { place: culprit("cc1"), ..loss(LossKind::HogProcess, 90, 30) };
    assert_eq!(
        behind_by(800, hog()),
        "server is 800 ms behind after 3.00 s: it waited 90.0 ms for its CPU, on which cc1 ran, another process, 30 times. \
         Its known losses explain 11 % of that."
    );
    let explained = behind_by(100, hog());
    assert!(explained.ends_with("30 times."), "{explained}");
}

#[test]
fn what_counters_do_not_tell_apart_is_not_named() {
    let files = |kind, parts: Vec<TimePart>| {
        let mut run = program(parts, vec![loss(kind, 2700, 0)]);
        budget(&mut run).source = BudgetSource::Files;
        (answer(&run), screen(&run))
    };
    let ran = || part(Spent::Running, 300, 0);
    let (queued, _) = files(LossKind::HogProcess, vec![part(Spent::Ready, 2700, 0), ran()]);
    assert_eq!(queued, "server waited 2.70 s of 3.00 s for its CPU: who had it is not known.");
    let (waited, table) = files(LossKind::Unknown, vec![part(Spent::Condition, 2700, 0), ran()]);
    assert_eq!(waited, "server waited 2.70 s of 3.00 s for a lock or a signal: who ended the waits is not known.");
    assert!(table.contains("waiting for a lock or a signal"), "{table}");
    let (_, table) = files(LossKind::FaultFile, vec![part(Spent::FaultFile, 2700, 0), ran()]);
    assert!(table.contains("page faults, from a disk") && !table.contains("Remedy"), "{table}");
}

#[test]
fn memory_that_is_reclaimed_in_a_call_is_no_page_fault_and_two_locks_have_two_rows() {
    let place = || LossPlace { cgroup: Some("/build".into()), ..LossPlace::default() };
    let reclaim = |in_faults: u64| {
        let parts = vec![
            part(Spent::Reclaim, 600 - in_faults, 300),
            part(Spent::FaultFile, in_faults, 300),
            part(Spent::Running, 2400, 9),
        ];
        said(Loss { place: place(), ..loss(LossKind::Reclaim, 600, 300) }, parts)
    };
    assert!(reclaim(0).starts_with("server lost 600 ms of 3.00 s to the reclaim of memory"), "{}", reclaim(0));
    assert!(
        reclaim(500).starts_with("server lost 600 ms of 3.00 s in page faults that read again"),
        "{}",
        reclaim(500)
    );
    let lock = |at, ms| {
        let thing = Thing { futex: Some(at), ..Thing::default() };
        TimePart { thing, ..by("worker", 99, part(Spent::Lock, ms, 90)) }
    };
    let of_lock = || LossPlace { lock: Some("0xab".into()), holder: Some("worker".into()), ..LossPlace::default() };
    let shown = |parts| screen(&program(parts, vec![Loss { place: of_lock(), ..loss(LossKind::Lock, 1000, 90) }]));
    let two = shown(vec![lock(0xab, 1000), lock(0xc0, 900), part(Spent::Running, 1100, 9)]);
    assert!(two.contains("worker, 0xab") && two.contains("worker, 0xc0"), "{two}");
    let one = shown(vec![lock(0xab, 1000), part(Spent::Running, 2000, 9)]);
    assert!(!one.contains("0xab"), "{one}");
}

#[test]
fn a_thread_that_misses_deadlines_is_not_said_to_be_on_time() {
    let with = |missed| {
        let mut run = program(vec![part(Spent::Asleep, 3000, 300)], vec![loss(LossKind::OnTime, 0, 300)]);
        let turns = Turns { call: "read".into(), period_ns: 10 * MS, turns: 300, missed, ..Turns::default() };
        budget(&mut run).threads[0].turns = Some(turns);
        answer(&run)
    };
    assert_eq!(with(40), "server misses 40 of 300 deadlines, and nothing is known to keep it from them.");
    assert_eq!(with(6), "server is on time: it misses 6 of 300 deadlines.");
    assert_eq!(with(0), "server is on time: it meets all 300 deadlines.");
}

#[test]
fn a_stop_names_the_signal_that_it_was_and_no_other() {
    let stopped = |culprit: Option<&str>, signal, by_kernel| {
        let stop = Some(Stop { signal, by_kernel });
        of(LossKind::Stopped, LossPlace { culprit: culprit.map(str::to_owned), stop, ..LossPlace::default() })
    };
    assert_snapshot!(
        [
            stopped(Some("kill"), StopSignal::Stop, false),
            stopped(Some("emacs"), StopSignal::Tstp, false),
            stopped(None, StopSignal::Stop, false),
            stopped(None, StopSignal::Stop, true),
            stopped(None, StopSignal::Tstp, true),
            stopped(None, StopSignal::Ttin, true),
            stopped(None, StopSignal::Ttou, true),
            stopped(None, StopSignal::Ttin, false),
        ]
        .join("\n")
    );
    let unknown = of(LossKind::Stopped, culprit("kill"));
    assert!(unknown.ends_with("90 times: kill sent the signal."), "{unknown}");
    let own = of(LossKind::Stopped, culprit("server"));
    assert!(!own.contains("sent") && !own.contains("SIG"), "the kernel's signal looks like one of the reader: {own}");
}

#[test]
fn a_hostile_budget_commands_no_terminal_and_fits_it() {
    let mut run = throttled();
    let evil = "\u{1b}[2J<script>".repeat(40);
    let causes = run.causes.as_mut().unwrap();
    for loss in &mut causes.losses {
        loss.subject.clone_from(&evil);
        loss.place = LossPlace {
            cgroup: Some(evil.clone()),
            limit: Some(evil.clone()),
            file: Some(evil.clone()),
            culprit: Some(evil.clone()),
            ..LossPlace::default()
        };
    }
    let thread = &mut causes.budget.as_mut().unwrap().threads[0];
    (thread.thread, thread.process) = (evil.clone(), evil.clone());
    for part in &mut thread.parts {
        (part.ns, part.times, part.longest_ns, part.call) = (u64::MAX, u64::MAX, u64::MAX, Some(evil.clone()));
        part.thing.file = Some(evil.clone());
    }
    let text = screen(&run);
    assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.lines().count() <= 24, "{text}");
    for form in [written(html::write, &run), written(markdown::write, &run)] {
        assert!(!form.contains("<script>[") && !form.contains("[2J<script>") && !form.contains('\u{1b}'));
    }
}

#[test]
fn a_row_of_running_time_names_the_function_that_took_the_most() {
    let in_function = |name: &str, ns| {
        let (function, file) = (Some(name.to_owned()), Some("/usr/bin/mixer".to_owned()));
        TimePart { thing: Thing { function, file, ..Thing::default() }, ..part(Spent::Running, ns, 0) }
    };
    let in_file = |ns| {
        let thing = Thing { file: Some("/usr/lib/libz.so.1".to_owned()), ..Thing::default() };
        TimePart { thing, ..part(Spent::Running, ns, 0) }
    };
    let rows = |parts: Vec<TimePart>| {
        let text = screen(&program(parts, vec![loss(LossKind::Computes, 2900, 30)]));
        text.lines().find(|line| line.contains("running")).unwrap().trim().to_owned()
    };
    let rest = || part(Spent::Running, 100, 30);
    let of_all = program(
        vec![in_function("mix", 1500), in_function("main", 900), in_file(500), rest(), part(Spent::FaultFile, 9, 9)],
        vec![loss(LossKind::Computes, 2900, 30)],
    );
    let text = shown(&of_all, &Style { width: 100, ..Style::default() });
    let functions = text.lines().skip_while(|line| !line.contains("Where the threads computed")).take(5);
    assert_snapshot!("functions_in_full", functions.collect::<Vec<_>>().join("\n"));
    assert_snapshot!(
        [
            rows(vec![in_function("mix", 1500), in_function("main", 900), in_file(500), rest()]),
            rows(vec![in_file(2900), rest()]),
            rows(vec![part(Spent::Running, 2900, 30)]),
            rows(vec![in_function("mix", 900), part(Spent::Running, 2100, 30)]),
        ]
        .join("\n")
    );
}
