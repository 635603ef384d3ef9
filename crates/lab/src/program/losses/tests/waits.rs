//! Waits for others.

use super::*;

#[test]
fn a_lock_has_its_address_its_holder_and_what_that_did() {
    let wait = |holder: Who| vec![by(holder, at(futex(0xab0), part(Spent::Lock, 1500, 90)))];
    let writes = meanwhile(at(file("journal"), part(Spent::Disk, 1400, 90)), sibling("holder-2"));
    let loss = first(wait(writes));
    let place = &loss.place;
    assert_eq!(
        (loss.kind, place.lock.as_deref(), place.holder.as_deref()),
        (LossKind::Lock, Some("0xab0"), Some("holder-2"))
    );
    assert_eq!((place.file.as_deref(), place.culprit.as_deref()), (Some("journal"), None));
    let kept = meanwhile(by(stranger("thief"), part(Spent::Ready, 1400, 90)), sibling("holder-2"));
    let loss = first(wait(kept));
    assert_eq!((loss.kind, loss.place.culprit.as_deref()), (LossKind::Lock, Some("thief")));
    let watcher = Who { pid: 77, ..stranger("watch") };
    let watched = meanwhile(by(watcher, part(Spent::Ready, 1400, 90)), sibling("holder-2"));
    let budget = Budget { watcher: Some(77), ..of(vec![main(wait(watched))]) };
    let loss = losses(&budget, PROGRAM).swap_remove(0);
    assert_eq!((loss.kind, loss.place.culprit), (LossKind::Lock, None), "what watches is no culprit");
    let waits = meanwhile(part(Spent::Asleep, 1400, 90), stranger("root"));
    let chain = first(wait(meanwhile(by(waits, part(Spent::Pipe, 1400, 90)), sibling("middle"))));
    let place = &chain.place;
    assert_eq!(
        (chain.kind, place.holder.as_deref(), place.culprit.as_deref()),
        (LossKind::Chain, Some("middle"), Some("root"))
    );
    let nobody = first(vec![part(Spent::Lock, 1500, 90)]);
    assert_eq!((nobody.kind, nobody.place.holder, nobody.place.lock), (LossKind::Lock, None, None));
}

#[test]
fn the_lock_of_a_file_has_that_file_and_not_the_one_to_which_its_holder_writes() {
    let lock = |name: &str, who: Who| in_call("fcntl", by(who, at(file(name), part(Spent::FileLock, 900, 90))));
    let writes = || meanwhile(at(file("journal"), part(Spent::Disk, 800, 90)), stranger("writer"));
    let all = judged(vec![lock("/orders.db", writes()), lock("/users.db", writes())]);
    let place = &all[0].place;
    assert_eq!((all[0].kind, place.file_lock, all[0].ns), (LossKind::Lock, true, 900 * MS), "each file has its own");
    assert_eq!((place.file.as_deref(), place.holder.as_deref()), (Some("/orders.db"), Some("writer")));
    assert_eq!((place.call.as_deref(), place.lock.as_deref()), (Some("fcntl"), None));
    let of_memory = first(vec![by(writes(), at(futex(0xab0), part(Spent::Lock, 1500, 90)))]);
    assert!(!of_memory.place.file_lock && of_memory.place.call.is_none(), "{of_memory:?}");
}

#[test]
fn a_writer_that_nobody_reads_waits_for_room_and_not_for_input() {
    let alone = |call, spent| first(vec![in_call(call, part(spent, 2900, 1))]);
    for (call, spent, kind) in [
        ("write", Spent::Pipe, LossKind::Pipe),
        ("msgsnd", Spent::MessageQueue, LossKind::MessageQueue),
        ("read", Spent::Pipe, LossKind::Input),
        ("msgrcv", Spent::MessageQueue, LossKind::Input),
    ] {
        let loss = alone(call, spent);
        assert_eq!(loss.kind, kind, "{call}");
        assert_eq!(loss.place.call.is_some(), kind != LossKind::Input, "{call}");
    }
    let read = by(stranger("reader"), in_call("write", part(Spent::Pipe, 2900, 90)));
    assert_eq!(first(vec![read]).place.peer.as_deref(), Some("reader"), "who reads is known");
}

#[test]
fn each_lock_is_a_loss_of_its_own() {
    let wait = |address, ms| at(futex(address), part(Spent::Lock, ms, 90));
    let all = judged(vec![wait(0xa, 200), wait(0xb, 1500), wait(0xa, 100)]);
    let said: Vec<_> = all.iter().map(|loss| (loss.place.lock.as_deref(), loss.ns / MS)).collect();
    assert_eq!(said, [(Some("0xb"), 1500), (Some("0xa"), 300)]);
}

#[test]
fn a_process_that_is_slow_to_execute_is_a_loss_even_if_its_parent_computes_more() {
    let starts = || by(stranger("server"), part(Spent::Spawn, 900, 30));
    let loss = first(vec![starts(), part(Spent::Running, 1900, 30)]);
    assert_eq!((loss.kind, loss.ns, loss.times), (LossKind::Spawn, 900 * MS, 30));
    assert_eq!(kind(vec![part(Spent::Child, 900, 30), part(Spent::Running, 1900, 30)]), LossKind::Computes);
}

#[test]
fn a_signal_that_is_late_for_work_is_a_loss_and_want_of_work_is_not() {
    let wait = |did| vec![by(meanwhile(did, sibling("producer")), at(futex(0xc0), part(Spent::Condition, 2000, 200)))];
    let loss = first(wait(part(Spent::Running, 1900, 200)));
    let place = &loss.place;
    assert_eq!((loss.kind, place.culprit.as_deref()), (LossKind::Condition, Some("producer")));
    assert_eq!(place.condition, None, "where it begins before its futex is the C library's affair");
    let kept = || by(stranger("cc1"), part(Spent::Ready, 300, 300));
    let beside = |did| kind([wait(part(did, 1900, 200)), vec![kept()]].concat());
    assert_eq!(beside(Spent::Running), LossKind::Condition);
    for idle in [Spent::Asleep, Spent::Condition] {
        assert_eq!(beside(idle), LossKind::HogProcess, "{idle:?}");
        assert_eq!(kind(wait(part(idle, 1900, 200))), LossKind::Condition, "nothing else is to be said: {idle:?}");
    }
    for outside in [Spent::Poll, Spent::OtherFile] {
        assert_eq!(kind(wait(part(outside, 1900, 200))), LossKind::Input, "{outside:?}");
    }
    let unknown = by(sibling("producer"), part(Spent::Condition, 2000, 200));
    assert_eq!(kind(vec![unknown, kept()]), LossKind::HogProcess, "what the producer did is not known");
}

#[test]
fn the_main_thread_s_wait_for_a_busy_thread_goes_before_a_shorter_loss_and_that_of_a_worker_does_not() {
    let wait = |who: Who| by(meanwhile(part(Spent::Running, 1400, 200), who), part(Spent::Condition, 1500, 200));
    let kept = || by(stranger("cc1"), part(Spent::Ready, 600, 300));
    assert_eq!(kind(vec![wait(sibling("producer")), kept()]), LossKind::Condition);
    let for_namesake = || vec![wait(sibling("server")), kept()];
    assert_eq!(first_in_go(for_namesake()).kind, LossKind::HogProcess, "in Go, it may have had no work");
    assert_eq!(kind(for_namesake()), LossKind::Condition);
    let worker = thread(PROGRAM + 7, "worker", vec![wait(sibling("producer")), kept()]);
    assert_eq!(losses(&of(vec![worker]), PROGRAM)[0].kind, LossKind::HogProcess, "nor a worker");
}

#[test]
fn a_wait_that_times_out_and_begins_again_is_one_wait() {
    let of_program = |process: &str, futex_of_sleep, sleeps| {
        let sleeps = in_call("futex", at(futex(futex_of_sleep), part(Spent::Asleep, 1200, sleeps)));
        let keeper = meanwhile(part(Spent::Asleep, 400, 140), sibling("keeper-2"));
        let woken = in_call("futex", by(keeper, at(futex(0xab0), part(Spent::Condition, 400, 140))));
        let own = ThreadBudget { process: process.into(), ..main(vec![sleeps, woken]) };
        losses(&of(vec![own]), PROGRAM).swap_remove(0)
    };
    let monitor = |futex_of_sleep, sleeps| of_program("java", futex_of_sleep, sleeps);
    let loss = monitor(0xab4, 280);
    assert_eq!((loss.kind, loss.ns, loss.place.holder.as_deref()), (LossKind::Lock, 1600 * MS, Some("keeper-2")));
    assert_eq!(monitor(0xb00, 280).ns, 400 * MS, "it sleeps elsewhere");
    assert_eq!(monitor(0xab4, 2800).ns, 400 * MS, "it mostly sleeps");
    assert_eq!(of_program("server", 0xab4, 280).kind, LossKind::OnTime, "a period that a signal may end");
}

#[test]
fn threads_that_wait_together_for_the_same_one_meet_at_a_barrier() {
    let last = || meanwhile(part(Spent::Running, 2000, 200), sibling("member-2"));
    let waits = |times| vec![by(last(), at(futex(0xba), part(Spent::Condition, 2000, times)))];
    let members = |others| {
        let other = |tid| thread(tid, "member", waits(others));
        losses(&of(vec![main(waits(200)), other(102), other(103)]), PROGRAM).swap_remove(0)
    };
    let loss = members(195);
    assert_eq!((loss.kind, loss.place.culprit.as_deref()), (LossKind::Barrier, Some("member-2")));
    assert_eq!(members(20).kind, LossKind::Condition, "they are woken one by one");
}

#[test]
fn runtimes_have_locks_of_their_own() {
    let of_process = |process: &str, parts: Vec<TimePart>| {
        let own = ThreadBudget { process: process.into(), ..main(parts) };
        let other = thread(101, "cruncher", vec![part(Spent::Running, 2500, 400)]);
        losses(&of(vec![own, ThreadBudget { process: process.into(), ..other }]), PROGRAM).swap_remove(0)
    };
    let asked = |ms, times| {
        let computes = meanwhile(part(Spent::Running, 90, 290), sibling("cruncher"));
        let asks = in_call("futex", by(computes, part(Spent::Condition, 800, 290)));
        vec![in_call("futex", part(Spent::Asleep, ms, times)), asks]
    };
    let gil = of_process("python3", asked(2000, 300));
    let culprit = gil.place.culprit.as_deref();
    assert_eq!((gil.kind, gil.ns, culprit), (LossKind::InterpreterLock, 2800 * MS, Some("cruncher")));
    let with_own_number = |part: TimePart| match part.who {
        Some(who) => by(Who { tid: PROGRAM, ..who }, TimePart { who: None, ..part }),
        None => part,
    };
    let of_namesakes = asked(2000, 300).into_iter().map(with_own_number).collect();
    assert_eq!(
        of_process("python3", of_namesakes).kind,
        LossKind::InterpreterLock,
        "threads of one name have one number"
    );
    assert_eq!(of_process("server", asked(2000, 300)).kind, LossKind::Condition);
    assert_eq!(of_process("python3", asked(2000, 40)).kind, LossKind::Condition, "it seldom asks for the lock");
    let wait = |who| vec![by(who, part(Spent::Condition, 2400, 400))];
    assert_eq!(of_process("java", wait(sibling("VM Thread"))).kind, LossKind::Collector);
    let sleeps = || meanwhile(part(Spent::Asleep, 2000, 100), sibling("keeper-2"));
    let monitor = of_process("java", wait(sleeps()));
    assert_eq!((monitor.kind, monitor.place.holder.as_deref()), (LossKind::Lock, Some("keeper-2")));
    let joins = vec![by(sleeps(), part(Spent::Condition, 2900, 1))];
    assert_eq!(of_process("java", joins).subject, "cruncher", "it waits once, for the end of another");
}

#[test]
fn a_wait_that_a_thread_passes_on_is_for_another_process_of_the_program() {
    // What the other thread did, in which it waited for the worker, and what that did.
    let passed_on = |spent: Spent, worker: TimePart| {
        let waited = by(meanwhile(worker, stranger("worker")), part(spent, 2400, 1));
        by(meanwhile(waited, sibling("manager")), part(Spent::Condition, 2500, 1))
    };
    let of_parts = |parts: Vec<TimePart>, pid: u32| {
        let worker = ThreadBudget { pid, process: "worker".into(), ..thread(900, "worker", vec![]) };
        losses(&of(vec![main(parts), worker]), PROGRAM).swap_remove(0)
    };
    let loss = |waited: TimePart| of_parts(vec![waited], 900);
    let computes = || part(Spent::Running, 2000, 90);
    for spent in [Spent::Pipe, Spent::Poll, Spent::Socket] {
        let found = loss(passed_on(spent, computes()));
        assert_eq!(
            (found.kind, found.ns, found.place.peer.as_deref()),
            (LossKind::Condition, 2500 * MS, Some("worker"))
        );
    }
    let ends = loss(passed_on(Spent::Child, computes()));
    assert_eq!((ends.kind, ends.place.culprit.as_deref()), (LossKind::Child, Some("worker")));
    let polls = |spent| TimePart { spent: Spent::Poll, ..passed_on(spent, computes()) };
    assert_eq!(loss(polls(Spent::Child)).kind, LossKind::Child);
    assert_eq!(loss(polls(Spent::Pipe)).kind, LossKind::Input, "of this event nobody knows that it is the worker's");
    let further = by(meanwhile(passed_on(Spent::Pipe, computes()), sibling("feeder")), part(Spent::Condition, 2500, 1));
    assert_eq!(loss(further).place.peer.as_deref(), Some("worker"));

    let names_no_worker = |loss: Loss, why: &str| assert_eq!(loss.place.peer, None, "{why}: {loss:?}");
    names_no_worker(loss(passed_on(Spent::Pipe, part(Spent::Asleep, 2000, 9))), "the worker has no work");
    names_no_worker(
        loss(passed_on(Spent::Ready, computes())),
        "the other thread waits for its CPU, not for the worker",
    );
    names_no_worker(of_parts(vec![passed_on(Spent::Pipe, computes())], 901), "it is another program's");
    let itself = by(meanwhile(computes(), stranger("worker")), part(Spent::Condition, 2500, 1));
    names_no_worker(loss(itself), "no thread passes it on");
    let in_circles = (0..20).fold(part(Spent::Condition, 2500, 1), |waited, _| {
        by(meanwhile(waited, sibling("manager")), part(Spent::Condition, 2500, 1))
    });
    names_no_worker(loss(in_circles), "no process is at the end");
}

#[test]
fn a_peer_is_named_by_what_it_did() {
    let wait = |spent, who| first(vec![by(who, part(spent, 2000, 200))]);
    let pipe = wait(Spent::Pipe, meanwhile(part(Spent::Asleep, 1900, 200), stranger("feeder")));
    assert_eq!((pipe.kind, pipe.place.peer.as_deref()), (LossKind::Pipe, Some("feeder")));
    let computes = wait(Spent::Socket, meanwhile(part(Spent::Running, 1900, 200), stranger("peer")));
    assert_eq!((computes.kind, computes.place.peer.as_deref()), (LossKind::Socket, Some("peer")));
    let kept = by(stranger("thief"), part(Spent::Ready, 1900, 200));
    let starved = wait(Spent::Socket, meanwhile(kept, stranger("peer")));
    assert_eq!((starved.kind, starved.place.culprit.as_deref()), (LossKind::StarvedServer, Some("thief")));
    assert_eq!(kind(vec![part(Spent::Socket, 2000, 5)]), LossKind::Input, "from a network");
}

#[test]
fn a_sender_whose_network_is_slow_waits_for_no_input() {
    let network = Who { thread: "NET_RX".into(), ..Who::default() };
    let wait = |call, who| first(vec![by(who, in_call(call, part(Spent::Socket, 2000, 9)))]);
    for call in ["sendto", "writev", "connect"] {
        let said = wait(call, network.clone());
        assert_eq!((said.kind, said.times, said.place.call.as_deref()), (LossKind::Socket, 9, Some(call)), "{call}");
        assert_eq!(said.place.peer, None, "{call}");
    }
    for call in ["recvfrom", "read", "accept4", "splice"] {
        assert_eq!(wait(call, network.clone()).kind, LossKind::Input, "{call}");
    }
    let slow = wait("sendto", meanwhile(part(Spent::Asleep, 1900, 200), stranger("reader")));
    assert_eq!((slow.place.peer.as_deref(), slow.place.call), (Some("reader"), None), "the other end is known");
}

#[test]
fn two_ends_that_wait_for_each_other_for_40_ms_have_a_delayed_acknowledgement() {
    let both = || meanwhile(part(Spent::Socket, 2000, 50), stranger("peer"));
    assert_eq!(kind(vec![by(both(), part(Spent::Socket, 2200, 50))]), LossKind::DelayedAck);
    assert_eq!(kind(vec![by(both(), part(Spent::Socket, 2200, 2000))]), LossKind::Socket, "1.1 ms each");
    let waits = by(stranger("database"), part(Spent::Socket, 2000, 50));
    let further = by(meanwhile(waits, stranger("peer")), part(Spent::Socket, 2200, 50));
    assert_eq!(kind(vec![further]), LossKind::Socket, "the peer waits for somebody else");
}

#[test]
fn an_answer_in_two_writes_waits_for_this_end_s_acknowledgement_and_a_distant_answer_does_not() {
    let receives = |softirq: &str| Who { thread: softirq.into(), ..Who::default() };
    let judged = |softirq: &str, ms, acks| {
        let wait = by(receives(softirq), part(Spent::Socket, ms, 50));
        losses(&Budget { delayed_acks: acks, ..of(vec![main(vec![wait])]) }, PROGRAM).swap_remove(0)
    };
    let held = judged("NET_RX", 2200, Some(54));
    assert_eq!((held.kind, held.ns, held.times, held.place.peer), (LossKind::DelayedAck, 2200 * MS, 50, None));
    for (softirq, ms, acks, why) in [
        ("NET_RX", 2200, Some(3), "a distant end takes 44 ms"),
        ("NET_RX", 2200, None, "the kernel does not count them"),
        ("NET_RX", 2200, Some(900), "they are of other connections"),
        ("NET_RX", 500, Some(54), "10 ms each"),
        ("TIMER", 2200, Some(54), "a time-out"),
    ] {
        assert_ne!(judged(softirq, ms, acks).kind, LossKind::DelayedAck, "{why}");
    }
}

#[test]
fn an_event_loop_waits_for_the_end_of_a_shell_of_its_own_that_waits_for_a_child() {
    let shell = |pid| Who { thread: "sh".into(), tid: pid, process: "sh".into(), pid, ..Who::default() };
    let ended = |pid, did| by(meanwhile(part(did, 2500, 3), shell(pid)), part(Spent::Poll, 2500, 6));
    let of_program = ThreadBudget { pid: 200, process: "sh".into(), ..thread(200, "sh", vec![]) };
    let said = |wait| losses(&of(vec![main(vec![wait]), of_program.clone()]), PROGRAM).swap_remove(0);
    let loss = said(ended(200, Spent::Child));
    assert_eq!((loss.kind, loss.ns, loss.place.culprit.as_deref()), (LossKind::Child, 2500 * MS, Some("sh")));
    assert_eq!(said(ended(200, Spent::Asleep)).kind, LossKind::Input, "it sends something now and then");
    assert_eq!(said(ended(901, Spent::Child)).kind, LossKind::Input, "it is another program's");
}

#[test]
fn an_event_from_a_thread_of_its_own_is_a_signal() {
    let event = |spent, did, who: Who| by(meanwhile(part(did, 2500, 90), who), part(spent, 2600, 90));
    for spent in [Spent::Poll, Spent::OtherFile] {
        let said = |did| first(vec![event(spent, did, sibling("worker"))]);
        for did in [Spent::Running, Spent::Asleep] {
            let loss = said(did);
            assert_eq!((loss.kind, loss.place.culprit.as_deref()), (LossKind::Condition, Some("worker")), "{did:?}");
        }
        assert_eq!(said(Spent::Socket).kind, LossKind::Input, "it comes from outside");
        assert_eq!(kind(vec![event(spent, Spent::Asleep, stranger("client"))]), LossKind::Input);
        let in_go = first_in_go(vec![event(spent, Spent::Asleep, sibling("server"))]);
        assert_eq!(in_go.kind, LossKind::Input, "a thread of Go that has no work polls for the others");
    }
}

#[test]
fn a_lock_that_its_waiters_have_in_turn_is_no_chain() {
    let other = |tid, name: &str| Who { tid, ..sibling(name) };
    let locks = |who, ms| by(who, at(futex(0xa0), part(Spent::Lock, ms, 60)));
    let second = |last| meanwhile(locks(last, 240), other(102, "w1"));
    let first_of = |last| first(vec![locks(meanwhile(locks(second(last), 480), other(101, "w0")), 960)]);
    for back in [other(PROGRAM, "server"), other(101, "w0")] {
        let loss = first_of(back);
        assert_eq!((loss.kind, loss.place.threads, loss.place.holder), (LossKind::Lock, Some(3), None));
    }
    let namesake = first(vec![locks(meanwhile(part(Spent::Asleep, 900, 60), other(PROGRAM, "server")), 960)]);
    assert_eq!((namesake.kind, namesake.place.threads), (LossKind::Lock, None), "the holder has the waiter's name");
    assert_eq!(namesake.place.holder.as_deref(), Some("server"));
    let sleeps = meanwhile(part(Spent::Asleep, 200, 60), other(103, "root"));
    assert_eq!(first_of(sleeps).kind, LossKind::Chain, "the last one waits for none of them");
}
