//! Which thread and which loss lead, and programs that are well.

use super::*;

#[test]
fn a_program_that_is_well_is_said_to_be_well() {
    let computes = first(vec![part(Spent::Running, 2900, 3)]);
    assert_eq!((computes.kind, computes.ns), (LossKind::Computes, 2900 * MS));
    assert_eq!(kind(vec![part(Spent::Poll, 2900, 30)]), LossKind::Input);
    assert_eq!(kind(vec![part(Spent::Running, 200, 30)]), LossKind::OnTime);
    let turns = Turns { period_ns: 10 * MS, turns: 300, missed: 1, ..Turns::default() };
    let little = by(stranger("cc1"), part(Spent::Ready, 150, 60));
    let met = ThreadBudget { turns: Some(turns.clone()), ..main(vec![little, part(Spent::Running, 150, 300)]) };
    let all = losses(&of(vec![met]), PROGRAM);
    let kinds: Vec<LossKind> = all.iter().map(|loss| loss.kind).collect();
    assert_eq!(
        kinds,
        [LossKind::OnTime, LossKind::HogProcess],
        "all deadlines are met: the loss is listed and does not lead"
    );
    let of_met = |lost: TimePart| {
        let thread = ThreadBudget { turns: Some(turns.clone()), ..main(vec![lost, part(Spent::Running, 150, 300)]) };
        losses(&of(vec![thread]), PROGRAM)[0].kind
    };
    assert_eq!(of_met(by(stranger("cc1"), part(Spent::Ready, 500, 300))), LossKind::OnTime, "the CPU is shared");
    assert_eq!(of_met(by(stranger("cc1"), part(Spent::Ready, 1100, 300))), LossKind::HogProcess);
    assert_eq!(of_met(by(stranger("strace"), part(Spent::Traced, 500, 300))), LossKind::Tracer);
}

#[test]
fn a_queue_that_is_too_short_to_lead_hides_no_other_loss() {
    let queued = || by(stranger("cc1"), part(Spent::Ready, 290, 90));
    let disk = in_call("fdatasync", part(Spent::Disk, 250, 40));
    let all = judged(vec![queued(), disk, part(Spent::Running, 1700, 40)]);
    let kinds: Vec<LossKind> = all.iter().map(|loss| loss.kind).collect();
    assert_eq!(kinds, [LossKind::Disk, LossKind::HogProcess, LossKind::Computes]);
    assert_eq!(kind(vec![queued(), part(Spent::Running, 1700, 40)]), LossKind::Computes, "the CPU is shared");
}

#[test]
fn counters_that_show_a_queue_show_a_loss_though_not_by_whom() {
    let with = |source, ready: TimePart| {
        let budget = Budget { source, ..of(vec![main(vec![part(Spent::Running, 100, 0), ready])]) };
        losses(&budget, PROGRAM).swap_remove(0)
    };
    let loss = with(BudgetSource::Files, part(Spent::Ready, 2700, 0));
    assert_eq!((loss.kind, loss.ns, loss.place.culprit), (LossKind::HogProcess, 2700 * MS, None));
    assert_eq!(with(BudgetSource::Files, part(Spent::Ready, 30, 0)).kind, LossKind::OnTime, "1 % of the run");
    assert_eq!(with(BudgetSource::Kernel, part(Spent::Ready, 2700, 9)).kind, LossKind::OnTime, "nobody had the CPU");
}

#[test]
fn what_is_blocked_for_an_unknown_cause_is_not_said_to_be_well() {
    let computes = || part(Spent::Running, 200, 90);
    let unknown = first(vec![computes(), part(Spent::Blocked, 2700, 90)]);
    assert_eq!((unknown.kind, unknown.ns, unknown.times), (LossKind::Unknown, 2700 * MS, 90));
    assert_eq!(kind(vec![computes(), part(Spent::Unknown, 2700, 1)]), LossKind::Unknown, "what was not seen");
    assert_eq!(
        kind(vec![computes(), part(Spent::Condition, 2700, 0)]),
        LossKind::Unknown,
        "who ended the waits is not"
    );
    assert_eq!(kind(vec![part(Spent::Running, 1500, 90), part(Spent::Blocked, 1400, 90)]), LossKind::Computes);
    let signalled = by(sibling("worker"), part(Spent::Condition, 2700, 1));
    assert_eq!(kind(vec![computes(), signalled]), LossKind::Condition, "who ended the wait is known");
    let maps = in_call("mmap", by(sibling("mapper"), part(Spent::Blocked, 2700, 90)));
    assert_eq!(kind(vec![computes(), maps]), LossKind::MmapLock, "its cause is known");
}

#[test]
fn a_wait_for_a_thread_that_waits_for_input_is_one_for_input() {
    let wait_for = |name, did: TimePart| {
        let wait = by(meanwhile(did, sibling(name)), part(Spent::Condition, 2600, 60));
        vec![wait, part(Spent::Running, 300, 60)]
    };
    let wait = |did| kind(wait_for("reader", did));
    let poll = part(Spent::Poll, 2500, 50);
    assert_eq!(first_in_go(wait_for("server", poll.clone())).kind, LossKind::Computes, "a worker without work");
    assert_eq!(kind(wait_for("server", poll.clone())), LossKind::Input, "the main thread has the name of its threads");
    assert_eq!(wait(poll.clone()), LossKind::Input);
    let selects = by(meanwhile(poll, sibling("selector")), part(Spent::Condition, 2500, 50));
    assert_eq!(wait(selects), LossKind::Input, "through two threads");
    assert_eq!(wait(part(Spent::Condition, 2500, 50)), LossKind::Condition, "whom that thread waited for is not known");
}

#[test]
fn a_wait_for_a_thread_that_sleeps_is_one_for_its_signal_unless_it_computes_for_longer() {
    let judge = |process: &str, name: &str, ran| {
        let wait = by(meanwhile(part(Spent::Asleep, 2500, 50), sibling(name)), part(Spent::Condition, 1400, 60));
        let waits = main(vec![wait, part(Spent::Running, ran, 60)]);
        let named = ThreadBudget { process: process.to_owned(), thread: process.to_owned(), ..waits };
        losses(&of(vec![named]), PROGRAM).swap_remove(0)
    };
    let in_go = || {
        let wait = by(meanwhile(part(Spent::Asleep, 2500, 50), sibling("server")), part(Spent::Condition, 1400, 60));
        first_in_go(vec![wait, part(Spent::Running, 300, 60)])
    };
    let said = judge("server", "producer", 300);
    assert_eq!((said.kind, said.ns, said.times), (LossKind::Condition, 1400 * MS, 60));
    assert_eq!(said.place.culprit.as_deref(), Some("producer"));
    assert_eq!(judge("server", "producer", 1500).kind, LossKind::Computes, "it computes for longer than it waits");
    assert_eq!(in_go().kind, LossKind::OnTime, "threads of Go hand work to each other");
    assert_eq!(judge("server", "server", 300).kind, LossKind::Condition, "threads in C have the name of the main one");
}

#[test]
fn a_wait_for_a_process_of_the_same_name_is_one_for_its_signal() {
    let copy = |pid| Who { pid, ..sibling("server") };
    let wait = |pid| by(meanwhile(part(Spent::Asleep, 2500, 50), copy(pid)), part(Spent::Condition, 2600, 60));
    let of = |pid| vec![wait(pid), part(Spent::Running, 300, 60)];
    let said = first_in_go(of(PROGRAM + 9));
    assert_eq!((said.kind, said.ns, said.place.culprit.as_deref()), (LossKind::Condition, 2600 * MS, Some("server")));
    assert_eq!(first_in_go(of(PROGRAM)).kind, LossKind::Computes, "a thread of this process hands work on");
}

#[test]
fn a_wait_for_a_peer_leads_before_input_where_it_is_a_tenth_of_it() {
    let beside = |ms| {
        let at_pipe = by(meanwhile(part(Spent::Running, ms, 40), stranger("sh")), part(Spent::Pipe, ms, 40));
        kind(vec![at_pipe, by(stranger("sh"), part(Spent::Poll, 2200, 100))])
    };
    assert_eq!([beside(200), beside(400)], [LossKind::Input, LossKind::Pipe]);
}

#[test]
fn input_names_who_sent_most_of_it() {
    let from = |name, ms| by(stranger(name), part(Spent::Poll, ms, 40));
    let said = |waits: Vec<TimePart>| first(waits).place.peer;
    assert_eq!(said(vec![from("client", 1500), from("other", 900)]).as_deref(), Some("client"));
    assert_eq!(said(vec![from("client", 1000), from("other", 900), from("third", 800)]), None, "nobody did");
    assert_eq!(said(vec![part(Spent::Poll, 1500, 40), from("client", 900)]), None, "most came from a network");
}

#[test]
fn input_that_does_not_come_is_said_by_the_time_outs() {
    let timed_out = || in_call("poll", part(Spent::Asleep, 2500, 10));
    let said = first(vec![timed_out(), part(Spent::Running, 300, 10)]);
    assert_eq!((said.kind, said.ns, said.times), (LossKind::Input, 2500 * MS, 10));
    assert_eq!(said.place.call.as_deref(), Some("poll"));
    let came = first(vec![timed_out(), in_call("poll", part(Spent::Poll, 400, 30))]);
    assert_eq!((came.kind, came.times, came.place.call), (LossKind::Input, 40, None), "some came");
    let paced = first(vec![in_call("poll", part(Spent::Asleep, 2500, 250)), part(Spent::Running, 300, 250)]);
    assert_eq!(paced.kind, LossKind::OnTime, "10 ms each is a sleep");
}

#[test]
fn what_is_under_one_per_cent_does_not_lead() {
    let beside = |ms| kind(vec![by(stranger("cc1"), part(Spent::Ready, ms, 60)), part(Spent::Poll, 2000, 60)]);
    assert_eq!(beside(25), LossKind::Input);
    assert_eq!(beside(90), LossKind::HogProcess);
}

#[test]
fn a_server_without_requests_is_not_kept_by_its_client() {
    let client = || by(meanwhile(part(Spent::Asleep, 900, 50), stranger("client")), part(Spent::Socket, 1500, 50));
    let frozen = at(cgroup("/box"), part(Spent::Frozen, 900, 20));
    assert_eq!(kind(vec![client(), frozen]), LossKind::Frozen);
    assert_eq!(kind(vec![client(), part(Spent::Host, 100, 20)]), LossKind::Socket);
}

#[test]
fn a_program_that_computes_longer_than_it_waits_for_work_computes() {
    let with = |ran| {
        let waits = by(stranger("client"), part(Spent::Pipe, 600, 1));
        kind(vec![waits, part(Spent::Running, ran, 40)])
    };
    assert_eq!(with(1700), LossKind::Computes);
    assert_eq!(with(100), LossKind::Pipe);
    let kept = by(stranger("thief"), part(Spent::Ready, 600, 90));
    assert_eq!(kind(vec![kept, part(Spent::Running, 1700, 40)]), LossKind::HogProcess, "it had work, and no CPU");
}

#[test]
fn a_program_that_computes_shares_its_cpu_until_others_take_a_tenth_of_the_run() {
    let beside = |ms| judged(vec![by(stranger("cc1"), part(Spent::Ready, ms, 90)), part(Spent::Running, 1700, 40)]);
    let kinds: Vec<LossKind> = beside(250).iter().map(|loss| loss.kind).collect();
    assert_eq!(kinds, [LossKind::Computes, LossKind::HogProcess], "it is listed and does not lead");
    assert_eq!(beside(350)[0].kind, LossKind::HogProcess);
    let faults = |ms| kind(vec![part(Spent::FaultFile, ms, 90), part(Spent::Running, 1700, 40)]);
    assert_eq!((faults(60), faults(250)), (LossKind::Computes, LossKind::FaultFile), "nobody shares these with it");
}

#[test]
fn a_program_of_busy_threads_of_one_name_computes_until_they_mostly_wait_for_each_other() {
    let beside = |name: &str, ran| {
        let waits = by(sibling(name), part(Spent::Ready, 700, 800));
        kind(vec![waits, part(Spent::Running, ran, 40)])
    };
    assert_eq!(beside("server", 1300), LossKind::Computes, "one work on all CPUs");
    assert_eq!(beside("server", 600), LossKind::HogThread, "more threads than CPUs");
    assert_eq!(beside("indexer-2", 1300), LossKind::HogThread, "another work");
}

#[test]
fn a_handler_that_sleeps_holds_up_its_event_loop_and_a_plain_sleep_does_not() {
    let sleeps = || in_call("clock_nanosleep", part(Spent::Asleep, 1200, 25));
    let epoll = |times| in_call("epoll_wait", part(Spent::Asleep, 1700, times));
    let budget = |parts: Vec<TimePart>| {
        let mut thread = main(vec![]);
        thread.parts = parts;
        losses(&of(vec![thread]), PROGRAM).swap_remove(0)
    };
    let held = budget(vec![sleeps(), epoll(90)]);
    assert_eq!(
        (held.kind, held.ns, held.place.call.as_deref()),
        (LossKind::EventLoop, 1200 * MS, Some("clock_nanosleep"))
    );
    assert_eq!(budget(vec![sleeps(), epoll(2)]).kind, LossKind::Input);
    assert_eq!(budget(vec![sleeps()]).kind, LossKind::OnTime);
}

#[test]
fn a_shorter_wait_for_another_process_does_not_lead_before_one_for_an_own_thread() {
    let judge = |own_ms, pipe_ms| {
        let wait =
            by(meanwhile(part(Spent::Asleep, 2500, 50), sibling("producer")), part(Spent::Condition, own_ms, 60));
        kind(vec![wait, by(stranger("sh"), part(Spent::Pipe, pipe_ms, 14))])
    };
    assert_eq!((judge(1600, 150), judge(1300, 1350)), (LossKind::Condition, LossKind::Pipe));
}

#[test]
fn a_main_thread_that_only_joins_others_does_not_lead() {
    let led_by = |times, ran| {
        let joins = by(sibling("worker"), part(Spent::Condition, 2980 - ran, times));
        let main = main(vec![joins, part(Spent::Running, ran, 3)]);
        let sleeps = thread(101, "worker", vec![part(Spent::Running, 2, 9)]);
        losses(&of(vec![main, sleeps]), PROGRAM).swap_remove(0).subject
    };
    assert_eq!(led_by(1, 2), "worker");
    assert_eq!(led_by(200, 2), "server", "time and again it waits for work, or for an answer");
    assert_eq!(led_by(1, 400), "server", "it computes too");
}

#[test]
fn the_thread_that_misses_leads() {
    let turns = Turns { period_ns: 10 * MS, turns: 200, missed: 150, behind_ns: 800 * MS, ..Turns::default() };
    let misses = thread(105, "audio", vec![by(stranger("thief"), part(Spent::Ready, 900, 150))]);
    let busy = main(vec![part(Spent::Running, 2900, 9)]);
    let threads = vec![busy.clone(), ThreadBudget { turns: Some(turns), ..misses.clone() }];
    assert_eq!(losses(&of(threads), PROGRAM)[0].subject, "audio");
    assert_eq!(losses(&of(vec![busy, misses]), PROGRAM)[0].kind, LossKind::Computes, "nothing says that it is late");
    let housekeeper = main(vec![part(Spent::Condition, 2990, 1)]);
    let worker = thread(106, "worker", vec![part(Spent::Disk, 900, 90)]);
    assert_eq!(
        losses(&of(vec![housekeeper, worker]), PROGRAM)[0].subject,
        "worker",
        "the main thread only waits for it"
    );
    assert!(losses(&Budget::default(), PROGRAM).is_empty());
}

#[test]
fn a_shell_does_not_lead_but_a_program_that_waits_for_its_children_does() {
    let process = |pid, name: &str, part| {
        let mut thread = ThreadBudget { pid, process: name.into(), ..thread(pid, name, vec![]) };
        thread.parts = vec![part];
        thread
    };
    let child = |pid| Who { thread: "victim".into(), tid: pid, process: "victim".into(), pid, ..Who::default() };
    let shell = process(PROGRAM, "sh", by(child(200), part(Spent::Child, 3000, 1)));
    let victim = process(200, "victim", by(stranger("thief"), part(Spent::Ready, 900, 90)));
    assert_eq!(losses(&of(vec![shell.clone(), victim.clone()]), PROGRAM)[0].subject, "victim");
    let interrupted = process(PROGRAM, "sh", part(Spent::Child, 3000, 1));
    assert_eq!(
        losses(&of(vec![interrupted, victim.clone()]), PROGRAM)[0].subject,
        "victim",
        "the watch ended the wait"
    );
    let brief = ThreadBudget { wall_ns: 20 * MS, ..victim };
    let loss = losses(&of(vec![shell, brief]), PROGRAM).swap_remove(0);
    assert_eq!(
        (loss.kind, loss.subject.as_str(), loss.place.culprit.as_deref()),
        (LossKind::Child, "sh", Some("victim"))
    );
}

#[test]
fn a_process_that_waits_for_signals_does_not_lead_where_another_one_works() {
    let process = |pid, name: &str, part: TimePart| ThreadBudget {
        pid,
        process: name.into(),
        wall_ns: part.ns,
        parts: vec![part],
        ..thread(pid, name, vec![])
    };
    let beside = |own: Spent, ms, of_worker: Spent| {
        let master = process(PROGRAM, "master", part(own, 3000, 1));
        let worker = process(200, "worker", part(of_worker, ms, 9));
        losses(&of(vec![master, worker]), PROGRAM)[0].subject.clone()
    };
    assert_eq!(beside(Spent::Pause, 2900, Spent::Running), "worker");
    assert_eq!(beside(Spent::Pause, 400, Spent::Running), "worker");
    assert_eq!(beside(Spent::Child, 400, Spent::Running), "master", "it waits for many, of which this is one");
    assert_eq!(beside(Spent::Pause, 2900, Spent::Poll), "master", "nobody works");
    assert_eq!(beside(Spent::Pipe, 2900, Spent::Running), "master", "it waits for what another one writes");
    assert_eq!(beside(Spent::Asleep, 2900, Spent::Running), "master", "it has a life of its own");
    let rests = |child_ms, ms| {
        let mut master = process(PROGRAM, "master", part(Spent::Child, 3000, 1));
        master.parts = vec![part(Spent::Child, child_ms, 1), part(Spent::Asleep, 3000 - child_ms, 5)];
        let worker = process(200, "worker", part(Spent::Running, ms, 9));
        losses(&of(vec![master, worker]), PROGRAM)[0].subject.clone()
    };
    assert_eq!(rests(2200, 2900), "worker", "it sleeps between");
    assert_eq!(rests(200, 2900), "master", "it mostly sleeps");
}

#[test]
fn a_program_that_waits_once_for_what_a_child_computes_does_not_lead() {
    let process = |pid, parts: Vec<TimePart>| {
        let (process, thread) = ("git".to_owned(), thread(pid, "git", vec![]));
        ThreadBudget { pid, process, parts, ..thread }
    };
    let child =
        |did| meanwhile(did, Who { thread: "git".into(), tid: 200, process: "git".into(), pid: 200, ..Who::default() });
    let works = || process(200, vec![part(Spent::Running, 2900, 90), part(Spent::Ready, 100, 9)]);
    let kind = |wait: TimePart| losses(&of(vec![process(PROGRAM, vec![wait]), works()]), PROGRAM)[0].kind;
    let computed = || part(Spent::Running, 2900, 90);
    assert_eq!(kind(by(child(computed()), part(Spent::Pipe, 3000, 1))), LossKind::Computes);
    let kept = by(child(part(Spent::Ready, 2900, 9)), part(Spent::Pipe, 3000, 1));
    assert_eq!(kind(kept), LossKind::Computes, "it wanted to");
    assert_eq!(kind(by(child(computed()), part(Spent::Pipe, 3000, 60))), LossKind::Pipe, "it is fed again and again");
    assert_eq!(kind(by(child(part(Spent::Asleep, 2900, 9)), part(Spent::Pipe, 3000, 1))), LossKind::Pipe, "no work");
}

#[test]
fn of_threads_of_one_name_the_periodic_one_leads() {
    let turns = Turns { period_ns: 6 * MS, turns: 400, ..Turns::default() };
    let sleeps_in = |call: &str| {
        let mut sleeper = main(vec![part(Spent::Disk, 1800, 400)]);
        let asleep = sleeper.parts.iter_mut().filter(|part| part.spent == Spent::Asleep);
        asleep.for_each(|part| part.call = Some(call.into()));
        sleeper
    };
    let sleeper = || sleeps_in("epoll_pwait");
    let busy = || thread(101, "server", vec![part(Spent::Running, 2000, 400), part(Spent::Ready, 900, 300)]);
    let leads = |main: ThreadBudget| losses(&of(vec![main, busy(), of_go()]), PROGRAM)[0].kind;
    assert_eq!(losses(&of(vec![sleeper(), busy()]), PROGRAM)[0].kind, LossKind::Disk, "threads in C do not");
    assert_eq!(leads(ThreadBudget { turns: Some(turns), ..sleeper() }), LossKind::Disk);
    assert_ne!(leads(sleeper()), LossKind::Disk, "threads of Go take turns");
    assert_ne!(leads(sleeps_in("nanosleep")), LossKind::Disk, "Go's runtime calls it");
    assert_eq!(leads(sleeps_in("clock_nanosleep")), LossKind::Disk, "time.sleep() of Python is no turn, but periodic");
}

#[test]
fn a_main_thread_that_waits_for_a_lock_leads_before_those_that_have_it_and_sleep() {
    let waits = main(vec![at(futex(0xa0), part(Spent::Lock, 2990, 1))]);
    let reader = |tid| thread(tid, "server", vec![part(Spent::Running, 10, 580), part(Spent::SleptLonger, 40, 580)]);
    let loss = losses(&of(vec![waits, reader(101), reader(102)]), PROGRAM).swap_remove(0);
    assert_eq!((loss.kind, loss.tid, loss.ns), (LossKind::Lock, PROGRAM, 2990 * MS));
}

#[test]
fn of_the_stages_of_a_pipeline_the_one_that_takes_the_time_leads() {
    let process = |pid, name: &str, parts: Vec<TimePart>| ThreadBudget {
        pid,
        process: name.into(),
        wall_ns: WALL,
        parts,
        ..thread(pid, name, vec![])
    };
    let ends = |pid, ms| {
        let who = Who { thread: "stage".into(), tid: pid, process: "stage".into(), pid, ..Who::default() };
        by(who, part(Spent::Child, ms, 1))
    };
    let shell = || process(PROGRAM, "sh", vec![ends(200, 1000), ends(201, 1000), ends(202, 1000)]);
    let led = |loop_parts: Vec<TimePart>| {
        let reads =
            |pid, name, ms| process(pid, name, vec![part(Spent::Pipe, 3000 - ms, 900), part(Spent::Running, ms, 900)]);
        let stages = vec![shell(), process(200, "loop", loop_parts), reads(201, "sort", 150), reads(202, "tail", 5)];
        losses(&of(stages), PROGRAM).swap_remove(0).subject
    };
    assert_eq!(led(vec![part(Spent::Running, 1300, 900)]), "loop");
    assert_eq!(led(vec![at(futex(0xa0), part(Spent::Lock, 2900, 1))]), "loop", "it wants to");
    assert_eq!(led(vec![part(Spent::Pipe, 2990, 900), part(Spent::Running, 10, 900)]), "sort");
}

#[test]
fn a_main_thread_that_waits_for_its_own_threads_is_not_late_by_a_little_time_in_the_queue() {
    let sleeps = || by(meanwhile(part(Spent::Asleep, 2700, 20), sibling("worker")), part(Spent::Condition, 2700, 20));
    let beside = |ms| kind(vec![sleeps(), by(stranger("cc1"), part(Spent::Ready, ms, 60))]);
    assert_eq!([beside(100), beside(295)], [LossKind::Condition, LossKind::Condition]);
    let blocked = |ms| kind(vec![sleeps(), part(Spent::Disk, ms, 60)]);
    assert_eq!([blocked(60), blocked(120)], [LossKind::Condition, LossKind::Disk]);
}

#[test]
fn a_program_that_computes_says_in_which_function() {
    let running = |function: Option<&str>, ms| {
        let line = function.map(|_| SourceLine { file: "rows.c".to_owned(), line: 42 });
        let thing = Thing { function: function.map(str::to_owned), line, ..Thing::default() };
        TimePart { thing, ..part(Spent::Running, ms, 30) }
    };
    let said = |parts: Vec<TimePart>| {
        let loss = first(parts);
        assert_eq!((loss.kind, loss.ns), (LossKind::Computes, 2800 * MS));
        assert_eq!(loss.place.line.is_some(), loss.place.function.is_some(), "a line is of a function");
        loss.place.function
    };
    assert_eq!(said(vec![running(Some("sum_rows"), 1500), running(Some("main"), 1300)]).as_deref(), Some("sum_rows"));
    assert_eq!(said(vec![running(Some("sum_rows"), 1300), running(Some("main"), 1200), running(None, 300)]), None);
    assert_eq!(said(vec![running(None, 2800)]), None);
    assert_eq!(said(vec![running(Some("_PyEval_EvalFrameDefault"), 2800)]), None, "it runs what it reads");
}

#[test]
fn a_collector_of_go_that_takes_more_than_its_part_is_a_loss() {
    let running = |function: &str, ms| {
        let thing = Thing { function: Some(function.to_owned()), ..Thing::default() };
        TimePart { thing, ..part(Spent::Running, ms, 30) }
    };
    let collects = |ms| {
        let scans = running("runtime.scanObjectsSmall", ms);
        first_in_go(vec![scans, running("runtime.(*sweepLocked).sweep", 100), running("main.work", 1200)])
    };
    let loss = collects(1300);
    assert_eq!((loss.kind, loss.ns), (LossKind::Collector, 1400 * MS));
    assert_eq!(loss.place.function.as_deref(), Some("runtime.scanObjectsSmall"));
    assert_eq!(collects(250).kind, LossKind::Computes, "it is made to take a quarter");
    let others = vec![running("runtime.schedule", 1300), running("main.work", 1200)];
    assert_eq!(first_in_go(others).kind, LossKind::Computes, "the runtime does other things too");
}
