//! What keeps a thread from running, or makes it slow.

use super::*;

#[test]
fn a_quota_has_its_group_and_limit_and_a_group_that_was_not_throttled_is_not_named() {
    let throttled = || part(Spent::ThrottledByQuota, 2250, 229);
    let quota = |cgroup: &str, throttled| Quota {
        cgroup: cgroup.into(),
        quota_ns: 5 * MS,
        period_ns: 20 * MS,
        threads: 1,
        throttled,
        throttled_ns: throttled * 10 * MS,
    };
    let budget = Budget {
        quotas: vec![quota("/calm.slice", 0), quota("/web.slice", 229)],
        ..of(vec![main(vec![throttled(), part(Spent::Running, 700, 229)])])
    };
    let loss = losses(&budget, PROGRAM).swap_remove(0);
    assert_eq!((loss.kind, loss.ns, loss.times, loss.subject.as_str()), (LossKind::Quota, 2250 * MS, 229, "server"));
    assert_eq!(loss.place.cgroup.as_deref(), Some("/web.slice"));
    assert_eq!(loss.place.limit.as_deref(), Some("25 % of a CPU"));
    let unknown = first(vec![throttled()]);
    assert_eq!((unknown.place.cgroup, unknown.place.limit), (None, None), "what is not known is absent");
    assert_eq!(kind(vec![part(Spent::Ready, 2250, 229)]), LossKind::OnTime, "nobody had the CPU");
}

#[test]
fn more_threads_than_a_quota_feeds_are_named_and_one_thread_is_not() {
    let busy =
        |tid, name| thread(tid, name, vec![part(Spent::ThrottledByQuota, 2000, 50), part(Spent::Running, 700, 90)]);
    let quota = Quota {
        cgroup: "/box".into(),
        quota_ns: 10 * MS,
        period_ns: 20 * MS,
        throttled: 50,
        throttled_ns: 4000 * MS,
        ..Quota::default()
    };
    let crowd = (0..4).map(|n| busy(PROGRAM + n, "server")).collect();
    let all = losses(&Budget { quotas: vec![quota.clone()], ..of(crowd) }, PROGRAM);
    assert_eq!(all[0].kind, LossKind::ThreadsOverQuota);
    assert_eq!(all[0].ns, 2000 * MS, "all of them have it at the same time");
    let ready = || part(Spent::Ready, 600, 60);
    let waiting = |n: u32| {
        let thread = busy(PROGRAM + n, "server");
        ThreadBudget {
            wall_ns: WALL + 600 * MS,
            parts: [thread.parts, vec![ready()]].concat(),
            ..busy(PROGRAM + n, "server")
        }
    };
    let all = losses(&Budget { quotas: vec![quota.clone()], ..of((0..4).map(waiting).collect()) }, PROGRAM);
    assert_eq!(all[0].ns, 2600 * MS, "ready, while no thread ran: the group was without quota");
    let idle = (1..4).map(|n| thread(PROGRAM + n, "idle", vec![])).chain([busy(PROGRAM, "server")]).collect();
    let one = losses(&Budget { quotas: vec![quota], ..of(idle) }, PROGRAM);
    assert_eq!((one[0].kind, one[0].ns), (LossKind::Quota, 2000 * MS));
}

#[test]
fn threads_that_take_turns_share_the_time_of_their_quota() {
    let one = |tid| thread(tid, "server", vec![part(Spent::ThrottledByQuota, 700, 30), part(Spent::Running, 200, 90)]);
    let quota = Quota { cgroup: "/box".into(), throttled: 90, throttled_ns: 2100 * MS, ..Quota::default() };
    let small = Quota { quota_ns: 5 * MS, period_ns: 20 * MS, ..quota.clone() };
    for quota in [quota, small] {
        let all = losses(&Budget { quotas: vec![quota], ..of((0..3).map(|n| one(PROGRAM + n)).collect()) }, PROGRAM);
        assert_eq!((all[0].kind, all[0].ns, all[0].times), (LossKind::Quota, 2100 * MS, 90), "one runs at a time");
    }
}

#[test]
fn limits_of_real_time_policies_are_no_quota() {
    let rt = first(vec![at(cgroup("/rt"), part(Spent::ThrottledRealTime, 900, 30))]);
    assert_eq!((rt.kind, rt.place.cgroup.as_deref()), (LossKind::RtLimit, Some("/rt")));
    assert_eq!(kind(vec![part(Spent::ThrottledDeadline, 900, 30)]), LossKind::DeadlineBudget);
}

#[test]
fn stops_freezes_and_tracers_are_told_apart() {
    let stopped = first(vec![by(stranger("stopper"), part(Spent::Stopped, 900, 20))]);
    assert_eq!((stopped.kind, stopped.place.culprit.as_deref()), (LossKind::Stopped, Some("stopper")));
    assert_eq!(stopped.place.stop, None, "which signal it was is not known");
    let ttin = Some(Stop { signal: StopSignal::Ttin, by_kernel: true });
    let read = first(vec![at(Thing { stop: ttin, ..Thing::default() }, part(Spent::Stopped, 900, 1))]);
    assert_eq!((read.kind, read.place.stop, read.place.culprit), (LossKind::Stopped, ttin, None));
    let frozen = first(vec![at(cgroup("/box"), part(Spent::Frozen, 900, 20))]);
    assert_eq!((frozen.kind, frozen.place.cgroup.as_deref()), (LossKind::Frozen, Some("/box")));
    assert_eq!(frozen.place.culprit, None);
    assert_eq!(kind(vec![by(stranger("strace"), part(Spent::Traced, 900, 20))]), LossKind::Tracer);
    assert_eq!(kind(vec![by(stranger("warden"), part(Spent::Supervisor, 900, 20))]), LossKind::Supervisor);
}

#[test]
fn who_had_the_cpu_and_its_policy_say_which_hog_it_is() {
    let beside = |who: Who| kind(vec![by(who, part(Spent::Ready, 900, 200))]);
    assert_eq!(beside(sibling("indexer-2")), LossKind::HogThread);
    assert_eq!(beside(stranger("thief")), LossKind::HogProcess);
    assert_eq!(beside(with_policy(ThreadPolicy::RealTime(20), stranger("thief"))), LossKind::HogFifo);
    assert_eq!(beside(with_policy(ThreadPolicy::Deadline, stranger("thief"))), LossKind::HogFifo);
    assert_eq!(beside(Who { thread: "swapper/1".into(), ..Who::default() }), LossKind::OnTime, "the idle thread");
    let reader = Who { process: "punctual".into(), pid: WATCHER, ..stranger("reader") };
    assert_eq!(beside(reader.clone()), LossKind::OnTime, "our own reader is the price of watching");
    assert_eq!(beside(Who { pid: 900, ..reader }), LossKind::HogProcess, "another punctual is a program");
}

#[test]
fn the_culprit_is_the_one_with_the_most_time_and_the_size_is_that_of_all() {
    let small = by(stranger("cc1"), part(Spent::Ready, 100, 20));
    let again = in_call("read", by(stranger("thief"), part(Spent::Ready, 400, 20)));
    let loss = first(vec![small, by(stranger("thief"), part(Spent::Ready, 400, 20)), again]);
    assert_eq!((loss.ns, loss.times, loss.place.culprit.as_deref()), (900 * MS, 60, Some("thief")));
}

#[test]
fn where_many_had_the_cpu_none_is_the_culprit() {
    let beside = |name: &str, ms| by(stranger(name), part(Spent::Ready, ms, 20));
    let some = first(vec![beside("cc1", 400), beside("ld", 350), beside("as", 300)]);
    assert_eq!((some.kind, some.ns, some.place.culprit.as_deref()), (LossKind::HogProcess, 1050 * MS, Some("cc1")));
    let many = first(["cc1", "ld", "as", "sh", "cp"].map(|name| beside(name, 210)).to_vec());
    assert_eq!((many.kind, many.ns, many.place.culprit), (LossKind::HogProcess, 1050 * MS, None));
}

#[test]
fn a_long_time_in_the_queue_is_for_those_who_are_known_to_have_run() {
    let unnamed = |ms, times| part(Spent::Ready, ms, times);
    let named = || by(stranger("thief"), part(Spent::Ready, 900, 90));
    let loss = first(vec![named(), unnamed(600, 5)]);
    assert_eq!((loss.kind, loss.ns, loss.place.culprit.as_deref()), (LossKind::HogProcess, 1500 * MS, Some("thief")));
    assert_eq!(first(vec![named(), unnamed(6, 500)]).ns, 900 * MS, "12 us each is the way through the scheduler");
    let thread = main(vec![part(Spent::ThrottledRealTime, 900, 30), unnamed(800, 30)]);
    let limited = ThreadBudget { policy: ThreadPolicy::RealTime(10), ..thread };
    let loss = losses(&of(vec![limited]), PROGRAM).swap_remove(0);
    assert_eq!((loss.kind, loss.ns), (LossKind::RtLimit, 1700 * MS));
}

#[test]
fn the_tracer_s_own_time_on_the_cpu_is_a_part_of_the_stops() {
    let stops = by(stranger("strace"), part(Spent::Traced, 900, 9000));
    let ran = || by(stranger("strace"), part(Spent::Ready, 300, 9000));
    assert_eq!(first(vec![stops, ran()]).ns, 1200 * MS);
    assert_eq!(kind(vec![ran()]), LossKind::HogProcess);
}

#[test]
fn a_wait_in_calls_that_map_memory_is_for_the_address_space() {
    let wait = |call, who| kind(vec![in_call(call, by(who, part(Spent::Blocked, 900, 50)))]);
    assert_eq!(wait("munmap", sibling("mapper-2")), LossKind::MmapLock);
    assert_eq!(wait("munmap", stranger("kworker")), LossKind::OnTime);
    assert_eq!(wait("ioctl", sibling("mapper-2")), LossKind::OnTime);
}

#[test]
fn a_time_out_of_a_tick_is_coarse_and_a_longer_one_is_asked_for() {
    let tick = || Who { thread: "TIMER".into(), ..Who::default() };
    let wait = |times, tick_ns| {
        let thread = main(vec![in_call("recvfrom", by(tick(), part(Spent::Socket, 2000, times)))]);
        losses(&Budget { tick_ns, ..of(vec![thread]) }, PROGRAM).swap_remove(0).kind
    };
    assert_eq!(wait(250, Some(4 * MS)), LossKind::CoarseTimeout, "8 ms each: two ticks at most");
    assert_eq!(wait(215, Some(4 * MS)), LossKind::CoarseTimeout, "9.3 ms each: two ticks, served late");
    assert_eq!(wait(250, Some(MS)), LossKind::Input, "8 ms each are eight ticks: they were asked for");
    assert_eq!(wait(160, Some(4 * MS)), LossKind::Input, "12 ms each were asked for, but for a third");
    assert_eq!(wait(250, None), LossKind::Input, "the tick is not known");
    assert_eq!(wait(20, Some(100 * MS)), LossKind::CoarseTimeout);
    assert_eq!(wait(9, Some(1000 * MS)), LossKind::Input, "too seldom for a habit");
}

#[test]
fn the_thread_s_own_policy_is_named_where_it_is_why() {
    let beside = |policy, who: Who| {
        let thread = ThreadBudget { policy, ..main(vec![by(who, part(Spent::Ready, 900, 200))]) };
        losses(&of(vec![thread]), PROGRAM)[0].kind
    };
    assert_eq!(beside(ThreadPolicy::Fair(19), stranger("thief")), LossKind::Nice);
    assert_eq!(beside(ThreadPolicy::Fair(1), stranger("thief")), LossKind::HogProcess, "1 is hardly less");
    let as_nice = with_policy(ThreadPolicy::Fair(19), stranger("thief"));
    assert_eq!(beside(ThreadPolicy::Fair(19), as_nice), LossKind::HogProcess);
    assert_eq!(beside(ThreadPolicy::Idle, stranger("thief")), LossKind::IdlePolicy);
    let real_time = with_policy(ThreadPolicy::RealTime(1), stranger("thief"));
    assert_eq!(beside(ThreadPolicy::Idle, real_time.clone()), LossKind::HogFifo);
    assert_eq!(beside(ThreadPolicy::Fair(19), real_time), LossKind::HogFifo, "no nice value helps against it");
    let idle = with_policy(ThreadPolicy::Idle, stranger("thief"));
    assert_eq!(beside(ThreadPolicy::Idle, idle), LossKind::HogProcess);
}

#[test]
fn threads_that_yield_poll_and_those_that_compute_do_not() {
    let other = |call: Option<&str>| {
        let ran = TimePart { call: call.map(str::to_owned), ..part(Spent::Running, 1000, 500) };
        let kept = by(sibling("poller-1"), part(Spent::Ready, 1800, 200));
        let own = main(vec![kept, part(Spent::Running, 1000, 9)]);
        losses(&of(vec![own, thread(101, "poller-1", vec![ran])]), PROGRAM)[0].kind
    };
    assert_eq!(other(Some("sched_yield")), LossKind::Polling);
    assert_eq!(other(None), LossKind::HogThread);
    let namesake = |call: &str| {
        let who = Who { tid: PROGRAM, ..sibling("server") };
        let own = main(vec![by(who, part(Spent::Ready, 1800, 200)), part(Spent::Running, 1000, 9)]);
        let ran = in_call(call, part(Spent::Running, 900, 500));
        losses(&of(vec![own, thread(101, "server", vec![ran])]), PROGRAM)[0].kind
    };
    assert_eq!(namesake("sched_yield"), LossKind::Polling, "threads of one name have the number of one of them");
    assert_eq!(namesake("write"), LossKind::HogThread);
}

#[test]
fn interrupts_and_the_host_are_named() {
    let timer = Who { thread: "local timer".into(), ..Who::default() };
    let loss = first(vec![by(timer, part(Spent::Interrupted, 300, 9000)), part(Spent::Running, 2600, 9000)]);
    assert_eq!((loss.kind, loss.place.culprit.as_deref()), (LossKind::Interrupts, Some("local timer")));
    assert_eq!(kind(vec![part(Spent::Host, 300, 90)]), LossKind::Host);
}

#[test]
fn interrupts_are_not_named_where_the_host_took_as_much() {
    let softirq = || Who { thread: "SCHED".into(), ..Who::default() };
    let beside = |ms| {
        let parts = vec![by(softirq(), part(Spent::Interrupted, 73, 193)), part(Spent::Running, 2900, 59)];
        let steal = Steal { cpus: 2, ns: ms * MS, of_ns: 6000 * MS };
        let budget = Budget { steal: Some(steal), ..of(vec![main(parts)]) };
        let all = losses(&budget, PROGRAM);
        all.iter().any(|loss| loss.kind == LossKind::Interrupts)
    };
    assert_eq!([beside(0), beside(60), beside(90)], [true, true, false]);
}

#[test]
fn a_sleep_is_longer_by_slack_and_the_usual_slack_is_no_loss() {
    let slept = |call, ms, times| kind(vec![in_call(call, part(Spent::SleptLonger, ms, times))]);
    assert_eq!(slept("clock_nanosleep", 1500, 300), LossKind::TimerSlack);
    assert_eq!(slept("clock_nanosleep", 150, 2000), LossKind::OnTime, "75 us each");
    assert_eq!(slept("read", 1500, 300), LossKind::TimerSlack, "a timerfd counts in no ticks");
    let with = |timer_slack_ns, policy, ms, times| {
        let own = main(vec![in_call("clock_nanosleep", part(Spent::SleptLonger, ms, times))]);
        losses(&of(vec![ThreadBudget { timer_slack_ns, policy, ..own }]), PROGRAM)[0].kind
    };
    let fair = ThreadPolicy::Fair(0);
    assert_eq!(with(Some(50_000), fair, 1500, 30_000), LossKind::TimerSlack, "50 us each: half of the run");
    assert_eq!(with(Some(50_000), fair, 120, 2_400), LossKind::OnTime, "50 us each: what sleeps of 1.25 ms cost");
    assert_eq!(with(Some(1), fair, 1500, 30_000), LossKind::OnTime, "there is no slack");
    assert_eq!(with(Some(200_000), fair, 1500, 30_000), LossKind::OnTime, "such a slack makes longer sleeps");
    assert_eq!(with(Some(5_000_000), fair, 1070, 457), LossKind::TimerSlack, "a tick within the slack ended each");
    assert_eq!(
        with(Some(5_000_000), fair, 130, 457),
        LossKind::OnTime,
        "0.28 ms each: no tick comes so soon on average"
    );
    assert_eq!(with(Some(50_000), ThreadPolicy::RealTime(50), 1500, 30_000), LossKind::OnTime, "it has no slack");
    assert_eq!(with(Some(50_000), fair, 1500, 300), LossKind::OnTime, "5 ms each: no slack of 50 us does that");
}

#[test]
fn disks_have_the_file_and_the_call_of_the_longest() {
    let write = in_call("write", at(file("/b"), part(Spent::Disk, 100, 9)));
    let sync = in_call("fdatasync", at(file("/journal"), part(Spent::Disk, 1500, 400)));
    let loss = first(vec![write, sync]);
    assert_eq!((loss.kind, loss.ns, loss.times), (LossKind::Disk, 1600 * MS, 409));
    assert_eq!((loss.place.call.as_deref(), loss.place.file.as_deref()), (Some("fdatasync"), Some("/journal")));
    assert_eq!(kind(vec![in_call("fdatasync", part(Spent::Blocked, 1500, 400))]), LossKind::OnTime, "of no known kind");
}

#[test]
fn waits_for_the_disk_of_threads_that_hand_work_to_each_other_are_added() {
    let wait = |path: &str, ms| in_call("fsync", at(file(path), part(Spent::Disk, ms, 50)));
    let hands_on =
        |who: &str| by(meanwhile(part(Spent::Asleep, 900, 60), sibling(who)), part(Spent::Condition, 1500, 60));
    let judge = |waits: TimePart, other: TimePart| {
        let other = thread(PROGRAM + 3, "server", vec![other, part(Spent::Running, 10, 50)]);
        let leader = main(vec![wait("journal", 900), waits, part(Spent::Running, 300, 50)]);
        losses(&of(vec![leader, other]), PROGRAM).swap_remove(0)
    };
    let said = judge(hands_on("server"), wait("journal", 800));
    assert_eq!((said.kind, said.ns, said.times, said.place.threads), (LossKind::Disk, 1700 * MS, 100, Some(2)));
    for (other, why) in [(wait("journal", 2500), "beside each other"), (wait("table", 800), "of another file")] {
        let said = judge(hands_on("server"), other);
        assert_eq!((said.ns, said.place.threads), (900 * MS, None), "{why}");
    }
    let apart = judge(part(Spent::Asleep, 1500, 60), wait("journal", 800));
    assert_eq!((apart.ns, apart.place.threads), (900 * MS, None), "they hand nothing to each other");
}

#[test]
fn faults_are_told_apart() {
    let read = first(vec![at(file("/table"), part(Spent::FaultFile, 900, 900))]);
    assert_eq!((read.kind, read.place.file.as_deref()), (LossKind::FaultFile, Some("/table")));
    let limited = || at(cgroup("/small"), part(Spent::Reclaim, 300, 300));
    let again = first(vec![part(Spent::FaultFile, 900, 900), limited()]);
    assert_eq!((again.kind, again.ns, again.place.cgroup.as_deref()), (LossKind::Reclaim, 1200 * MS, Some("/small")));
    let free = || part(Spent::Reclaim, 300, 300);
    let kind_of = |parts| first(parts).kind;
    assert_eq!(kind_of(vec![part(Spent::FaultFile, 900, 900), free()]), LossKind::FaultFile, "no group has a limit");
    let little = at(cgroup("/small"), part(Spent::Reclaim, 8, 8));
    assert_eq!(kind_of(vec![part(Spent::FaultFile, 900, 900), little]), LossKind::FaultFile, "the limit is hardly met");
    let swapped = first(vec![part(Spent::FaultSwap, 900, 900), limited()]);
    assert_eq!((swapped.kind, swapped.place.cgroup.as_deref()), (LossKind::FaultSwap, Some("/small")));
    let copied = first(vec![part(Spent::FaultCopy, 300, 900), in_call("clone", part(Spent::Running, 100, 5))]);
    assert_eq!((copied.kind, copied.ns, copied.place.call.as_deref()), (LossKind::FaultCopy, 400 * MS, Some("clone")));
    let zeroes = first(vec![part(Spent::FaultCopy, 300, 900), part(Spent::Running, 2000, 9)]);
    assert_eq!((zeroes.kind, zeroes.place.call), (LossKind::FaultCopy, None), "it makes no process");
    let with_new = |new| {
        first(vec![part(Spent::FaultCopy, 300, 900), part(Spent::FaultNew, new, 90), part(Spent::Running, 2000, 9)])
    };
    assert_eq!(with_new(100).ns, 400 * MS, "the begin and the end of a fault do not say which it is");
    assert_eq!(with_new(400).ns, 300 * MS, "most are of new pages");
    assert_eq!(
        kind(vec![in_call("clone", part(Spent::Running, 100, 5))]),
        LossKind::OnTime,
        "forks alone are its choice"
    );
    assert_eq!(kind(vec![by(sibling("mapper"), part(Spent::MmapLock, 900, 90))]), LossKind::MmapLock);
}

#[test]
fn a_memory_limit_has_its_size_and_the_kernels_count_and_another_groups_is_not_its() {
    let judged = |limited: &str| {
        let parts = vec![part(Spent::FaultFile, 900, 900), at(cgroup("/small"), part(Spent::Reclaim, 300, 300))];
        let (cgroup, limit_bytes, hits) = (limited.to_owned(), 64 << 20, Some(20_000));
        let limit = MemoryLimit { cgroup, limit_bytes, hits, ..MemoryLimit::default() };
        let budget = Budget { memory: vec![limit], ..of(vec![main(parts)]) };
        losses(&budget, PROGRAM).swap_remove(0)
    };
    let known = judged("/small");
    assert_eq!(
        (known.kind, known.place.limit.as_deref(), known.place.hits),
        (LossKind::Reclaim, Some("64 MiB"), Some(20_000))
    );
    let other = judged("/other");
    assert_eq!((other.kind, other.place.limit, other.place.hits), (LossKind::Reclaim, None, None));
}

#[test]
fn an_allocator_does_most_of_the_work_or_is_not_named() {
    let faults = |ran| {
        judged(vec![
            part(Spent::FaultNew, 300, 9000),
            in_call("munmap", part(Spent::Running, 200, 100)),
            part(Spent::Running, ran, 9),
        ])
    };
    let loss = faults(100).swap_remove(0);
    assert_eq!((loss.kind, loss.ns), (LossKind::Allocator, 500 * MS));
    let all = faults(2400);
    assert_eq!((all[0].kind, all.len()), (LossKind::Computes, 1));
    let grows = |freed| {
        let calls = [in_call("munmap", part(Spent::Running, freed, 9)), in_call("mmap", part(Spent::Running, 40, 90))];
        first([vec![part(Spent::FaultNew, 600, 9000), part(Spent::Running, 100, 9)], calls.to_vec()].concat())
    };
    assert_eq!((grows(0).kind, grows(0).ns), (LossKind::FaultNew, 600 * MS), "it only takes");
    let maps = in_call("mmap", part(Spent::Running, 2000, 90));
    assert_eq!(kind(vec![maps, part(Spent::FaultNew, 40, 90)]), LossKind::Computes, "maps without page faults");
    assert_eq!((grows(5).kind, grows(60).kind), (LossKind::FaultNew, LossKind::Allocator));
    let sampled = first(vec![part(Spent::FaultNew, 600, 0), part(Spent::FaultNew, 9, 3)]);
    assert_eq!((sampled.ns, sampled.times), (609 * MS, 0), "three that were counted are not all");
    let beside = |ran| kind(vec![part(Spent::FaultNew, 600, 9000), part(Spent::Running, ran, 9)]);
    assert_eq!((beside(1700), beside(2200)), (LossKind::FaultNew, LossKind::Computes), "a quarter of its work");
    let of_files = [in_call("munmap", part(Spent::Disk, 50, 90)), part(Spent::FaultNew, 300, 9000)];
    assert_ne!(kind(of_files.to_vec()), LossKind::Allocator, "an allocator's memory is on no disk");
}

#[test]
fn turns_that_compute_longer_than_their_period_are_own_work() {
    let with = |turns, parts| losses(&of(vec![ThreadBudget { turns: Some(turns), ..main(parts) }]), PROGRAM);
    let turns =
        |turns, behind| Turns { period_ns: 10 * MS, turns, missed: turns, behind_ns: behind * MS, ..Turns::default() };
    let late = with(turns(214, 850), vec![part(Spent::Running, 2950, 214)]);
    assert_eq!((late[0].kind, late[0].ns), (LossKind::OwnWork, 2950 * MS));
    let kept = by(stranger("thief"), part(Spent::Ready, 900, 200));
    let late = with(turns(250, 500), vec![part(Spent::Running, 2000, 250), kept]);
    assert_eq!(late[0].kind, LossKind::HogProcess, "its turns would fit");
}
