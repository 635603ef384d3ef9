//! The programs on the machine's own kernel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use punctual_linux::clock::{Clock, now_ns, thread_usage};
use punctual_linux::sched;
use punctual_linux::sleep::clock_nanosleep_until;
use punctual_linux::syscall_name::number_of;
use punctual_testing::{Disturbed, Lack, undisturbed};

use super::*;

/// The programs over these threads; None where the kernel has none.
fn attached(target: &Target) -> Option<Programs> {
    if !punctual_testing::needs_root("to load programs into the kernel") {
        return None;
    }
    match Programs::attach(target, Whom::default()) {
        Err(Error::Programs(_)) => {
            punctual_testing::lacks(punctual_testing::Lack::File("/sys/kernel/btf/vmlinux"));
            None
        }
        programs => Some(programs.unwrap()),
    }
}

/// The ends of logs of Linux 6.1 and 7.3 under lockdown, and of one that refused the size of a read.
#[test]
fn lockdown_is_told_from_a_program_that_is_refused() {
    let locked =
        "43: (b4) w2 = 8\n44: (85) call bpf_probe_read#4\nunknown func bpf_probe_read#4\nverification time 79009 usec";
    let newer = "30: (85) call bpf_probe_read#4\nprogram of this type cannot use helper bpf_probe_read#4\n\n  Use a helper allowed\n\
                 verification time 278693 usec\nstack depth max 0\nsubprog 0 (signalled) main\nprocessed 30 insns";
    assert!([locked, newer].into_iter().all(is_locked_down));
    let refused = "44: (85) call bpf_probe_read#4\nR2 min value is negative\nverification time 9 usec\nstack depth 72\nprocessed 43";
    assert!(!is_locked_down(refused));
    assert_eq!(last_reason(refused), "R2 min value is negative");
}

#[test]
fn a_refusal_by_privilege_names_the_capabilities() {
    let error = std::io::Error::from_raw_os_error(rustix::io::Errno::PERM.raw_os_error());
    let failed = ProgramError::SyscallError(aya::sys::SyscallError { call: "bpf_prog_load", io_error: error });
    let refused = program_refused("sched_switch", &failed);
    assert!(refused.remedy().is_some_and(|remedy| remedy.contains("cap_perfmon,cap_bpf")), "{refused:?}");
    let error = std::io::Error::from_raw_os_error(rustix::io::Errno::INVAL.raw_os_error());
    assert!(super::refused("sched_switch", &error).remedy().is_some_and(|remedy| remedy.contains("BTF")));
}

#[test]
fn calls_that_wait_for_a_child_to_execute_are_known_by_their_flags() {
    let _alone = punctual_testing::alone();
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let Some(mut programs) = attached(&Target { tids: vec![own], with_children: true }) else { return };
    // posix_spawn(3) is a clone(2) or clone3(2) with CLONE_VFORK; dash calls vfork(2).
    for words in [&["true"][..], &["dash", "-c", "/bin/true; /bin/true; :"]] {
        for _ in 0..20 {
            assert!(std::process::Command::new(words[0]).args(&words[1..]).status().unwrap().success());
        }
    }
    programs.end().unwrap();
    let makes = ["clone", "clone3", "vfork"].map(number_of);
    let keys = programs.sums().into_keys().map(|key| raw::Key::read(&key));
    let blocked = keys.filter(|key| key.spent == raw::spent::BLOCKED && makes.contains(&Some(i64::from(key.call))));
    let waits: Vec<raw::Key> = blocked.collect();
    assert!(!waits.is_empty() && waits.iter().all(|key| key.how & raw::how::FOR_CHILD != 0), "{waits:?}");
}

#[test]
fn two_threads_that_alternate_keep_their_sums_to_themselves() {
    const TRIPS: u64 = 200;
    let _alone = punctual_testing::alone();
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let Some(mut programs) = attached(&Target { tids: vec![own], with_children: true }) else { return };
    for _ in 0..16 {
        std::thread::scope(|scope| {
            let (to, from) = (std::sync::mpsc::sync_channel(0), std::sync::mpsc::sync_channel(0));
            scope.spawn(move || (0..TRIPS).for_each(|_| from.0.send(to.1.recv().unwrap()).unwrap()));
            scope.spawn(move || {
                for trip in 0..TRIPS {
                    to.0.send(trip).unwrap();
                    from.1.recv().unwrap();
                }
            });
        });
    }
    programs.end().unwrap();
    let infos = programs.all::<[u8; 4], [u8; raw::INFO]>("infos");
    let evicted: Vec<u64> = infos.values().map(|info| raw::Info::read(info).evicted).collect();
    // Other threads take the CPU now and then.
    let many = evicted.iter().filter(|evicted| **evicted > TRIPS / 2).count();
    assert!(evicted.len() > 32 && many <= 1, "{evicted:?}");
}

#[test]
fn threads_that_are_switched_while_their_watch_begins_have_their_time() {
    let _alone = punctual_testing::alone();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tids, numbers) = mpsc::channel();
        for _ in 0..2 {
            let (tids, stop) = (tids.clone(), &stop);
            scope.spawn(move || {
                let own = sched::current_thread_id();
                // Both on one CPU: each yields to the other, over and over.
                let last = sched::affinity(own).unwrap().pop().unwrap();
                sched::set_affinity(own, &[last]).unwrap();
                tids.send(own).unwrap();
                let end = Instant::now() + Duration::from_secs(30);
                while !stop.load(Ordering::Relaxed) && Instant::now() < end {
                    std::thread::yield_now();
                }
            });
        }
        let tids = vec![numbers.recv().unwrap(), numbers.recv().unwrap()];
        let nobodys = (0..5).map_while(|_| {
            let mut programs = attached(&Target { tids: tids.clone(), with_children: false })?;
            std::thread::sleep(Duration::from_millis(2));
            programs.end().unwrap();
            Some(programs.sums().keys().filter(|key| raw::Key::read(key).id == 0).count())
        });
        let nobodys: usize = nobodys.sum();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(nobodys, 0);
    });
}

#[test]
fn samples_weigh_the_time_from_one_to_the_next() {
    let own = sched::current_thread_id();
    let Some(mut programs) = attached(&Target { tids: vec![own], with_children: false }) else { return };
    let compute = |ms: i64| {
        let begin = now_ns(Clock::ThreadCpu);
        while now_ns(Clock::ThreadCpu) - begin < ms * 1_000_000 {}
    };
    // A CPU is known to run it from its next switch on.
    std::thread::sleep(Duration::from_millis(1));
    compute(200);
    programs.sample_seldom();
    assert!(programs.often.is_empty(), "each CPU has the other program");
    compute(400);
    programs.end().unwrap();
    let ms: u64 = programs.all::<[u8; raw::KEY], [u8; 8]>("samples").into_values().map(u64::from_ne_bytes).sum();
    // Without their weight, the later ones would be 100 of 300.
    assert!((400..900).contains(&ms), "{ms} ms of 600");
}

/// For how long a hidden turn lasts at least.
const HIDDEN_NS: i64 = 300_000;

/// What a thread does from its hidden switch to its CPU on: it computes until switches are shown again, then goes on `with` something. Its CPU
/// time until then, ns; None where it lost its CPU before switches were shown.
fn hidden_turn(runs: &AtomicBool, shown: &AtomicBool, with: fn()) -> Option<u64> {
    let switches = || thread_usage().map(|usage| usage.voluntary_switches + usage.involuntary_switches).unwrap();
    let (before, begin, since) = (switches(), now_ns(Clock::ThreadCpu), Instant::now());
    while now_ns(Clock::ThreadCpu) - begin < HIDDEN_NS {}
    runs.store(true, Ordering::SeqCst);
    while !shown.load(Ordering::SeqCst) && since.elapsed() < Duration::from_secs(5) {
        std::hint::spin_loop();
    }
    let undisturbed = switches() == before;
    let ran_ns = now_ns(Clock::ThreadCpu) - begin;
    with();
    undisturbed.then_some(ran_ns.unsigned_abs())
}

/// Gives this thread a CPU, before nearly all other programs. It waits soon again.
fn take(tid: i32, cpu: usize) {
    let policy = sched::Attributes { policy: sched::FIFO, priority: 50, ..sched::Attributes::default() };
    sched::set_affinity(tid, &[cpu]).unwrap();
    sched::set_attributes(tid, &policy).unwrap();
}

/// Watches a thread whose switch to its CPU is hidden, as a kernel may do it: the program that sees switches is attached only after it.
fn beside_a_hidden_switch(with: fn()) -> Option<(u64, Programs)> {
    let _alone = punctual_testing::alone_on_this_machine();
    let own = sched::current_thread_id();
    let [here, there, ..] = sched::affinity(own).unwrap()[..] else {
        // This one attaches the program while the other one runs.
        punctual_testing::lacks(Lack::Cpus(2));
        return None;
    };
    if !punctual_testing::needs_root("to load programs into the kernel") {
        return None;
    }
    sched::set_affinity(own, &[here]).unwrap();
    undisturbed(|_| {
        let (runs, shown) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (go, told) = mpsc::channel::<()>();
            let (tell, number) = mpsc::channel();
            let (say, ran) = mpsc::channel();
            let (hidden_runs, hidden_shown) = (&runs, &shown);
            scope.spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                if told.recv().is_ok() {
                    say.send(hidden_turn(hidden_runs, hidden_shown, with)).unwrap();
                    // It is still there when the watch ends.
                    let _ = told.recv();
                }
            });
            let tid = number.recv().unwrap();
            let waits = || std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap().contains(") S ");
            punctual_testing::until("it waits", waits);
            let Some(mut programs) = attached(&Target { tids: vec![tid], with_children: false }) else {
                return Ok(None);
            };
            let switched: &mut BtfTracePoint = programs.ebpf.program_mut("switched").unwrap().try_into().unwrap();
            switched.unload().unwrap();
            switched.load("sched_switch", &Btf::from_sys_fs().unwrap()).unwrap();
            take(tid, there);
            go.send(()).unwrap();
            let since = Instant::now();
            while !runs.load(Ordering::SeqCst) && since.elapsed() < punctual_testing::GIVE_UP {
                std::thread::yield_now();
            }
            switched.attach().unwrap();
            shown.store(true, Ordering::SeqCst);
            let ran_ns = ran.recv().unwrap().ok_or_else(|| Disturbed("it lost its CPU in its hidden turn".into()))?;
            punctual_testing::until("it waits again", waits);
            programs.end().unwrap();
            Ok(Some((ran_ns, programs)))
        })
    })
}

#[test]
fn a_thread_whose_switch_to_its_cpu_is_hidden_runs_and_is_not_ready() {
    let Some((ran_ns, programs)) = beside_a_hidden_switch(|| {}) else { return };
    let sums = programs.sums();
    let sums = sums.iter().map(|(key, sum)| (raw::Key::read(key).spent, raw::Sum::read(sum).ns));
    let runs = [raw::spent::RUNNING, raw::spent::INTERRUPTED];
    let running: u64 = sums.clone().filter(|(spent, _)| runs.contains(spent)).map(|(_, ns)| ns).sum();
    let lacking = ran_ns.saturating_sub(running);
    assert!(lacking < HIDDEN_NS.unsigned_abs() / 3, "{running} of {ran_ns}: {:?}", sums.collect::<Vec<_>>());
}

#[test]
fn a_deadline_that_is_over_counts_after_a_hidden_switch() {
    let late = || drop(clock_nanosleep_until(Clock::Monotonic, 1));
    let Some((_, programs)) = beside_a_hidden_switch(late) else { return };
    let deadlines = programs.all::<[u8; raw::TURNS_KEY], [u8; raw::DEADLINES]>("deadlines");
    let missed: Vec<u64> = deadlines.values().map(|all| raw::Deadlines::read(all).missed).collect();
    assert_eq!(missed, [1]);
}
