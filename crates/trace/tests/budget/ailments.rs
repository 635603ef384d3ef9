//! One kind of loss each.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread::sleep;
use std::time::Duration;

use punctual_record::{Budget, Spent, Stop, StopSignal, ThreadBudget, ThreadPolicy, TimePart};
use punctual_testing::{Disturbed, undisturbed};
use punctual_trace::Ledger;

use crate::{assert_whole, may_sum, ns, spent, took, watched};

const MS: u64 = 1_000_000;

/// A thread waits for a lock while its holder sleeps for this long. What the wait took by its own clock, and the budget.
fn behind_a_sleeping_holder(sleeps: Duration) -> Option<(u64, ThreadBudget, Budget)> {
    let lock = Mutex::new(());
    let (waited, asks) = (AtomicU64::new(0), AtomicBool::new(false));
    let (thread, budget) = watched("waits", || {
        std::thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let (held, asked) = (&lock, &asks);
            let stat = format!("/proc/{}/stat", rustix::thread::gettid());
            let holder = std::thread::Builder::new().name("holds".into()).spawn_scoped(scope, move || {
                let _guard = held.lock().unwrap();
                tell.send(()).unwrap();
                // On a busy machine it may take any time until the other one asks.
                punctual_testing::until("the other one waits", || {
                    asked.load(Ordering::SeqCst) && std::fs::read_to_string(&stat).unwrap().contains(") S ")
                });
                sleep(sleeps);
            });
            told.recv().unwrap();
            asks.store(true, Ordering::SeqCst);
            waited.store(took(|| drop(lock.lock().unwrap())), Ordering::SeqCst);
            holder.unwrap().join().unwrap();
        });
    })?;
    Some((waited.into_inner(), thread, budget))
}

#[test]
fn a_lock_has_its_holder_and_what_the_holder_did() {
    undisturbed(|longer| {
        let sleeps = Duration::from_millis(100) * longer;
        let asked = sleeps.as_nanos() as u64;
        let Some((waited, thread, budget)) = behind_a_sleeping_holder(sleeps) else { return Ok(()) };
        assert_whole(&thread);
        let parts = spent(&thread, Spent::Lock);
        let part = parts.iter().max_by_key(|part| part.ns).unwrap_or_else(|| panic!("{thread:?}"));
        assert!(part.ns >= asked && part.ns <= waited, "{part:?} of {waited}");
        assert!(part.thing.futex.is_some(), "{part:?}");
        let who = part.who.as_ref().unwrap();
        assert_eq!((who.thread.as_str(), who.pid), ("holds", std::process::id()));
        let meanwhile = who.meanwhile.as_ref().unwrap_or_else(|| panic!("{budget:?}"));
        // The latest stretches stand for the whole wait: a holder that is kept from its CPU for long has no others.
        let holder = budget.threads.iter().find(|thread| thread.thread == "holds").unwrap();
        let (asleep, ready) = (ns(holder, Spent::Asleep), ns(holder, Spent::Ready));
        // From the call to the switch, the thread runs.
        assert!(asleep + ready + 10 * MS >= asked, "{holder:?}");
        if meanwhile.spent == Spent::Ready && ready > asleep / 10 {
            return Err(Disturbed(format!("the holder slept for {asleep} ns, and waited for its CPU for {ready} ns")));
        }
        assert_eq!((meanwhile.spent, meanwhile.call.as_deref()), (Spent::Asleep, Some("clock_nanosleep")));
        Ok(())
    });
}

#[test]
fn a_wait_for_a_signal_that_times_out_has_its_futex() {
    let Some((thread, _)) = watched("times-out", || {
        let (_keeps_it_open, told) = mpsc::channel::<()>();
        assert!(told.recv_timeout(Duration::from_millis(40)).is_err());
    }) else {
        return;
    };
    assert_whole(&thread);
    let parts = spent(&thread, Spent::Asleep);
    let part = parts.iter().max_by_key(|part| part.ns).unwrap_or_else(|| panic!("{thread:?}"));
    assert!(part.ns >= 30 * MS && part.call.as_deref() == Some("futex") && part.thing.futex.is_some(), "{thread:?}");
}

#[test]
fn a_pipe_has_the_process_that_writes() {
    let Some((thread, _)) = watched("reads", || {
        let mut child = Command::new("sh").args(["-c", "sleep 0.05; echo"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
    }) else {
        return;
    };
    assert_whole(&thread);
    assert!(ns(&thread, Spent::Pipe) > 40 * MS, "{thread:?}");
    let part = spent(&thread, Spent::Pipe)[0];
    assert_eq!((part.call.as_deref(), part.who.as_ref().unwrap().thread.as_str()), (Some("read"), "sh"), "{part:?}");
}

#[test]
fn acknowledgements_that_the_kernel_delays_are_counted() {
    let counted = || {
        let text = std::fs::read_to_string("/proc/self/net/netstat").unwrap();
        let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:")).map(|line| line.split(' '));
        let (mut names, mut values) = (lines.next().unwrap(), lines.next().unwrap());
        let at = names.position(|name| name == "DelayedACKs").unwrap();
        values.nth(at).unwrap().parse::<u64>().unwrap()
    };
    let Some((thread, budget)) = watched("asks", || {
        let before = counted();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut asks = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        std::thread::scope(|scope| {
            // The thread that answers waits as long for the next question. Its name tells it from the thread that asks.
            let answers = std::thread::Builder::new().name("answers".to_owned());
            let answer_all = move || {
                let (mut peer, _) = listener.accept().unwrap();
                let mut question = [0; 100];
                while peer.read_exact(&mut question).is_ok() {
                    // The second one is held back until the first is acknowledged.
                    peer.write_all(&[1; 50]).unwrap();
                    peer.write_all(&[2; 200]).unwrap();
                }
            };
            answers.spawn_scoped(scope, answer_all).unwrap();
            punctual_testing::until("ten are late", || {
                asks.write_all(&[0; 100]).unwrap();
                asks.read_exact(&mut [0; 250]).unwrap();
                counted() >= before + 10
            });
            drop(asks);
        });
    }) else {
        return;
    };
    assert!(budget.delayed_acks.is_some_and(|late| late >= 10), "{:?}", budget.delayed_acks);
    let held_back = spent(&thread, Spent::Socket).into_iter().any(|part| {
        part.longest_ns >= 30 * MS && part.who.as_ref().is_some_and(|who| who.tid == 0 && who.thread == "NET_RX")
    });
    assert!(held_back, "{thread:?}");
}

#[test]
fn a_child_is_waited_for() {
    let Some((thread, budget)) =
        watched("parent", || assert!(Command::new("sleep").arg("0.05").status().unwrap().success()))
    else {
        return;
    };
    assert_whole(&thread);
    let part = spent(&thread, Spent::Child)[0];
    assert!(part.ns > 40 * MS, "{thread:?}");
    assert_eq!(part.who.as_ref().unwrap().thread, "sleep");
    let child = budget.threads.iter().find(|thread| thread.thread == "sleep").unwrap();
    assert_whole(child);
    assert!(ns(child, Spent::Asleep) >= 49 * MS, "{child:?}");
}

#[test]
fn a_child_that_is_yet_to_execute_is_waited_for_and_no_lock_is() {
    // posix_spawn(3) is a clone(2) with CLONE_VFORK; dash calls vfork(2).
    let Some((thread, budget)) = watched("spawns", || {
        for _ in 0..20 {
            assert!(Command::new("true").status().unwrap().success());
        }
        let many = "i=0; while [ $i -lt 20 ]; do /bin/true; i=$((i+1)); done";
        assert!(Command::new("dash").args(["-c", many]).status().unwrap().success());
    }) else {
        return;
    };
    let shell = budget.threads.iter().find(|thread| thread.thread == "dash").unwrap();
    for thread in [&thread, shell] {
        assert_whole(thread);
        assert!(ns(thread, Spent::Spawn) > 0, "{thread:?}");
        let waits = spent(thread, Spent::MmapLock).into_iter().chain(spent(thread, Spent::Blocked));
        let makes = |call: Option<&str>| call.is_some_and(|call| ["vfork", "clone", "clone3"].contains(&call));
        assert!(!waits.into_iter().any(|part| makes(part.call.as_deref())), "{thread:?}");
    }
}

#[test]
fn of_children_of_one_name_the_one_that_took_the_longest_is_named() {
    let mut long = 0;
    let Some((thread, _)) = watched("starts", || {
        for time in ["0.02", "0.3", "0.02"] {
            let mut child = Command::new("sleep").arg(time).spawn().unwrap();
            long = if time == "0.3" { child.id() } else { long };
            child.wait().unwrap();
        }
    }) else {
        return;
    };
    let parts = spent(&thread, Spent::Child);
    let named = parts.iter().max_by_key(|part| part.ns).and_then(|part| Some(part.who.as_ref()?.pid));
    assert_eq!(named, Some(long), "{parts:?}");
}

#[test]
fn a_signal_that_ends_the_wait_for_a_child_does_not_name_its_sender_as_the_child() {
    let mut sender = None;
    let Some((_, budget)) = watched("signals", || {
        let mut shell = Command::new("sh").args(["-c", "trap : USR1; sleep 0.3; :"]).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&shell);
        sleep(Duration::from_millis(150));
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
        sender = Some(shell.id());
        shell.wait().unwrap();
    }) else {
        return;
    };
    let shell = budget.threads.iter().find(|thread| Some(thread.pid) == sender).unwrap();
    let parts = spent(shell, Spent::Child);
    assert!(ns(shell, Spent::Child) > 100 * MS, "{shell:?}");
    let named: Vec<_> = parts.iter().filter_map(|part| Some(part.who.as_ref()?.thread.as_str())).collect();
    assert!(named.iter().all(|name| *name == "sleep"), "{parts:?}");
}

#[test]
fn a_disk_has_its_file() {
    // A folder of the build: /tmp may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("written");
    let mut all = 0;
    let Some((thread, _)) = watched("writes", || {
        let mut file = File::create(&path).unwrap();
        for _ in 0..10 {
            file.write_all(&[1; 65536]).unwrap();
            all += took(|| file.sync_all().unwrap());
        }
    }) else {
        return;
    };
    assert_whole(&thread);
    let disk: Vec<_> =
        spent(&thread, Spent::Disk).into_iter().filter(|part| part.call.as_deref() == Some("fsync")).collect();
    let blocked: u64 = disk.iter().map(|part| part.ns).sum();
    // What is not blocked in them is ready or running.
    let rest = ns(&thread, Spent::Ready) + ns(&thread, Spent::Running) + ns(&thread, Spent::Interrupted);
    assert!(blocked <= all && blocked + rest >= all, "{blocked} of {all}: {thread:?}");
    if blocked > 0 {
        let file = disk[0].thing.file.as_deref().unwrap_or_default();
        assert!(file.ends_with("/written"), "{disk:?}");
    }
}

#[test]
fn a_file_that_is_read_by_faults_is_no_disk_call() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("mapped");
    std::fs::write(&path, vec![7; 8 << 20]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    file.sync_all().unwrap();
    let Some((thread, _)) = watched("faults", || {
        // Direct reading: no cache holds it, so the call waits for the disk.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut page = [0; 4096];
        for at in (0..8_u64 << 20).step_by(1 << 18) {
            file.read_exact_at(&mut page, at).unwrap();
        }
    }) else {
        return;
    };
    assert_whole(&thread);
    assert_eq!(ns(&thread, Spent::FaultFile), 0, "{thread:?}");
    assert!(spent(&thread, Spent::Disk).iter().all(|part| part.call.as_deref() == Some("pread64")), "{thread:?}");
}

#[test]
fn a_sleep_is_what_was_asked_and_what_came_later() {
    let Some((thread, budget)) = watched("sleeps", || {
        for _ in 0..20 {
            sleep(Duration::from_millis(2));
        }
    }) else {
        return;
    };
    assert_whole(&thread);
    assert!(budget.cost.is_some_and(|cost| cost.events >= 40 && cost.each_ns > 0.0), "{:?}", budget.cost);
    let asleep = ns(&thread, Spent::Asleep);
    // From the call to the switch, the thread runs.
    assert!(asleep <= 40 * MS && asleep > 30 * MS, "{thread:?}");
    // The slack of 50 us.
    assert!(ns(&thread, Spent::SleptLonger) > 0, "{thread:?}");
}

#[test]
fn who_had_the_cpu() {
    let cpu = punctual_testing::first_cpu();
    let Some((thread, _)) = watched("victim", || {
        let own = punctual_linux::sched::current_thread_id();
        punctual_linux::sched::set_affinity(own, &[cpu]).unwrap();
        std::thread::scope(|scope| {
            let hog = std::thread::Builder::new().name("hog".into()).spawn_scoped(scope, || {
                let own = punctual_linux::sched::current_thread_id();
                punctual_linux::sched::set_nice(own, -15).unwrap();
                crate::compute(Duration::from_millis(60));
            });
            crate::compute(Duration::from_millis(30));
            hog.unwrap().join().unwrap();
        });
    }) else {
        return;
    };
    assert_whole(&thread);
    let by_hog =
        spent(&thread, Spent::Ready).into_iter().find(|part| part.who.as_ref().is_some_and(|who| who.thread == "hog"));
    let by_hog = by_hog.unwrap_or_else(|| panic!("{thread:?}"));
    assert!(by_hog.ns > 10 * MS, "{thread:?}");
    assert_eq!(by_hog.who.as_ref().unwrap().policy, ThreadPolicy::Fair(-15));
}

/// Computes on this CPU until `done`, beside a process with the name of this one. Returns its number.
fn compute_beside_a_namesake(cpu: usize, name: &str, done: &AtomicBool) -> u32 {
    let renamed = "printf %s \"$0\" >/proc/$$/comm; while :; do :; done";
    let mut namesake = Command::new("sh").args(["-c", renamed, name]).spawn().unwrap();
    let its_own = namesake.id().cast_signed();
    let own = punctual_linux::sched::current_thread_id();
    for tid in [own, its_own] {
        punctual_linux::sched::set_affinity(tid, &[cpu]).unwrap();
    }
    while !done.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
    namesake.kill().unwrap();
    namesake.wait().unwrap();
    namesake.id()
}

#[test]
fn a_process_with_the_name_of_the_one_that_watches_is_told_apart() {
    let cpu = punctual_testing::first_cpu();
    let main = std::fs::read_to_string(format!("/proc/{}/comm", std::process::id())).unwrap();
    let (name, done) = (main.trim(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (go, told) = mpsc::channel::<()>();
        // It begins before the watch, so that it is not watched.
        let over = &done;
        let computes = move || told.recv().is_ok().then(|| compute_beside_a_namesake(cpu, name, over));
        let beside = std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, computes).unwrap();
        let victim = watched("victim", || {
            punctual_linux::sched::set_affinity(0, &[cpu]).unwrap();
            go.send(()).unwrap();
            crate::compute(Duration::from_millis(200));
            done.store(true, Ordering::SeqCst);
        });
        drop(go);
        let (Some((thread, budget)), Some(namesake)) = (victim, beside.join().unwrap()) else { return };
        assert_eq!(budget.watcher, Some(std::process::id()));
        let namesakes = |part: &&TimePart| part.who.as_ref().is_some_and(|who| who.thread == name);
        let had_the_cpu = spent(&thread, Spent::Ready).into_iter().filter(namesakes);
        let processes: Vec<u32> = had_the_cpu.filter_map(|part| Some(part.who.as_ref()?.pid)).collect();
        assert!(processes.contains(&std::process::id()) && processes.contains(&namesake), "{thread:?}");
    });
}

#[test]
fn a_program_is_not_who_had_its_name_before_it_was_executed() {
    if !may_sum() {
        return;
    }
    let _alone = punctual_testing::alone();
    let cpu = punctual_testing::first_cpu();
    let shell = |script: &str| {
        let shell = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        punctual_linux::sched::set_affinity(shell.id().cast_signed(), &[cpu]).unwrap();
        shell
    };
    let mut program = shell("read line; read line; exec sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'");
    let mut ledger = Ledger::begin_at_exec(program.id().cast_signed()).unwrap();
    let mut to_program = program.stdin.take().unwrap();
    to_program.write_all(b"\n").unwrap();
    // It runs under this name, and is not watched yet.
    sleep(Duration::from_millis(100));
    let mut hog = shell("while :; do :; done");
    to_program.write_all(b"\n").unwrap();
    while program.try_wait().unwrap().is_none() {
        ledger.look();
        sleep(Duration::from_millis(10));
    }
    let budget = ledger.end().unwrap();
    hog.kill().unwrap();
    hog.wait().unwrap();
    let thread = budget.threads.iter().find(|thread| thread.pid == program.id()).unwrap();
    let who: Vec<_> = spent(thread, Spent::Ready).into_iter().filter_map(|part| part.who.as_ref()).collect();
    assert!(who.iter().any(|who| who.thread == "sh"), "{thread:?}");
    assert!(who.iter().all(|who| who.pid != program.id()), "{thread:?}");
}

#[test]
fn a_stop_is_known_with_its_sender() {
    let mut stopped = 0;
    let Some((_, budget)) = watched("stops", || {
        let mut child = Command::new("sleep").arg("5").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        sleep(Duration::from_millis(20));
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        // It stops when it next has a CPU.
        punctual_testing::until("it is stopped", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('T')
        });
        stopped = took(|| sleep(Duration::from_millis(50)));
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        sleep(Duration::from_millis(20));
        child.kill().unwrap();
        child.wait().unwrap();
    }) else {
        return;
    };
    let child = budget.threads.iter().find(|thread| thread.thread == "sleep").unwrap();
    assert_whole(child);
    let part = spent(child, Spent::Stopped)[0];
    assert!(part.ns >= 50 * MS, "{stopped} {child:?}");
    assert_eq!(part.who.as_ref().unwrap().thread, "stops");
    assert_eq!(part.thing.stop, Some(Stop { signal: StopSignal::Stop, by_kernel: false }));
}

#[test]
fn a_job_that_reads_its_terminal_in_the_background_is_stopped_by_the_kernel() {
    if Command::new("script").arg("--version").output().is_err() {
        return punctual_testing::skip("script(1) is not installed: it opens a terminal");
    }
    let script = "bash -c 'set -m; cat & sleep 0.2; kill -KILL %1; wait'";
    let Some((_, budget)) = watched("starts", || {
        let mut job = Command::new("script");
        job.args(["-qec", script, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::null());
        job.status().unwrap();
    }) else {
        return;
    };
    let cat = budget.threads.iter().find(|thread| thread.thread == "cat").unwrap_or_else(|| panic!("{budget:?}"));
    assert_whole(cat);
    let part = spent(cat, Spent::Stopped)[0];
    assert!(part.ns >= 50 * MS, "{cat:?}");
    assert_eq!(part.thing.stop, Some(Stop { signal: StopSignal::Ttin, by_kernel: true }));
    assert_eq!(part.who, None, "no process sent it");
}
