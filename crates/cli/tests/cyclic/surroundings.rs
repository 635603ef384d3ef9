//! What the machine and other programs do to the threads: fewer CPUs, other conditions, a stop.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual_linux::sched::{affinity, set_affinity};
use punctual_record::{Notice, PauseCause, Run};
use punctual_testing::{Disturbed, Lack, eventually, lacks, needs_root, skip, undisturbed};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Left, ours, run};

fn native(arguments: &[&str]) -> Command {
    cyclic(&[&["--policy", "other", "--json", "-"], arguments].concat())
}

fn cyclic(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(["cyclic", "--no-causes", "--no-keep"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env("LC_ALL", "C.UTF-8");
    // Tests run at the same time, and do not wait for each other.
    command.env("PUNCTUAL_LOCK_NAMESPACE", "").env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

fn record(left: &Left) -> Run {
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    Run::from_json(left.stdout.as_bytes()).unwrap()
}

/// The cycling threads, once there are some.
fn threads(child: &Child) -> Vec<i32> {
    let tasks = format!("/proc/{}/task", child.id());
    eventually("cycling threads", || {
        let tasks = std::fs::read_dir(&tasks).ok()?.flatten();
        let named = |task: &std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("cyclic/"))
        };
        let ids: Vec<i32> = tasks.filter(named).filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
        (!ids.is_empty()).then_some(ids)
    })
}

/// How often this thread has given up its CPU: it has its conditions before it cycles.
fn sleeps(thread: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// A child begins with the CPUs of the thread that starts it.
fn on_one_cpu(start: impl FnOnce() -> Left + Send + 'static) -> (usize, Left) {
    let on_one = std::thread::spawn(move || {
        let first = affinity(0).unwrap()[0];
        set_affinity(0, &[first]).unwrap();
        (first, start())
    });
    on_one.join().unwrap()
}

#[test]
fn with_one_cpu_there_is_one_thread_and_the_others_may_be_asked_for() {
    let (cpu, left) = on_one_cpu(|| run(native(&["--duration", "200ms"])));
    let subjects: Vec<String> = record(&left).series.into_iter().map(|series| series.subject).collect();
    assert_eq!(subjects, [format!("cpu{cpu}")]);
    // As where CPUs are isolated: the process begins without them, and the kernel grants them.
    let all = affinity(0).unwrap().iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let (_, left) = on_one_cpu(move || run(native(&["--duration", "200ms", "--cpu", &all])));
    assert_eq!(record(&left).series.len(), affinity(0).unwrap().len());
    let lines = |left: &Left| left.stdout.lines().filter(|line| line.starts_with("T:")).count();
    let (_, left) = on_one_cpu(|| run(ours(&["-q", "-l", "3", "-S"])));
    assert_eq!((left.code, lines(&left)), (Some(0), 1), "{}", left.stderr);
    // As theirs.
    let last = affinity(0).unwrap().last().unwrap().to_string();
    let (_, left) = on_one_cpu(move || run(ours(&["-v", "-l", "3", "-a", &last])));
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(
        left.stdout.contains(&format!("Thread 0 using cpu {}.", affinity(0).unwrap().last().unwrap())),
        "{}",
        left.stdout
    );
}

#[test]
fn more_threads_than_cpus_share_them() {
    let cpus = affinity(0).unwrap();
    let count = 4 * cpus.len() + 1;
    let left = run(ours(&["-q", "-l", "3", "-a", "-t", &count.to_string(), "--json=-"]));
    let json = left.stdout.split_once('{').unwrap().1.rsplit_once("\n}\n").unwrap().0;
    let json: serde_json::Value = serde_json::from_str(&format!("{{{json}\n}}")).unwrap();
    let of = |number: usize| json["thread"][number.to_string()]["cpu"].as_u64().map(|cpu| cpu as usize);
    let expected: Vec<Option<usize>> = cpus.iter().cycle().take(count).copied().map(Some).collect();
    assert_eq!((0..count).map(of).collect::<Vec<_>>(), expected);
}

#[test]
fn a_thread_that_others_move_is_said() {
    let all = affinity(0).unwrap();
    if all.len() < 2 {
        return skip("one CPU: there is no other to move to");
    }
    let lost = |left: &Left| {
        let told = |notice: &Notice| match notice {
            Notice::ConditionNotKept { condition, set, left_out, .. } => {
                Some((condition.clone(), set.clone(), *left_out))
            }
            _ => None,
        };
        record(left).notices.iter().filter_map(told).collect::<Vec<_>>()
    };
    let last = *all.last().unwrap();
    let arguments = ["--duration", "1500ms", "--cpu", &last.to_string()];
    let child = native(&arguments).spawn().unwrap();
    let thread = threads(&child)[0];
    eventually("its CPU", || (affinity(thread).ok()? == [last]).then_some(()));
    eventually("its cycles", || (sleeps(thread)? >= 20).then_some(()));
    set_affinity(thread, &all).unwrap();
    let left = Left::from(child.wait_with_output().unwrap());
    assert_eq!(lost(&left), [("cpu".to_owned(), last.to_string(), 0)], "{}", left.stderr);
    assert_eq!(lost(&run(native(&["--duration", "300ms"]))), []);
    let child = ours(&["-q", "-D", "1", "-a", &last.to_string()]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let child = child.unwrap();
    let thread = threads(&child)[0];
    eventually("its CPU", || (affinity(thread).ok()? == [last]).then_some(()));
    eventually("its cycles", || (sleeps(thread)? >= 20).then_some(()));
    set_affinity(thread, &all).unwrap();
    let left = Left::from(child.wait_with_output().unwrap());
    assert!(left.stderr.contains(&format!("# cpu was set to {last}, and was found to be ")), "{}", left.stderr);
}

/// Where nothing can end the run, that is said once, before it begins. The lost CPU then has the place of the screen's only warning.
#[test]
fn a_lost_cpu_comes_before_what_was_said_at_once() {
    let all = affinity(0).unwrap();
    let [first, .., other] = all[..] else { return lacks(Lack::Cpus(2)) };
    if !needs_root("a real-time policy") {
        return;
    }
    for form in [&["--full"][..], &[]] {
        let (_, left) = on_one_cpu(move || {
            let arguments = [&["--policy", "fifo:10", "--duration", "1500ms"], form].concat();
            let child = cyclic(&arguments).spawn().unwrap();
            let thread = threads(&child)[0];
            eventually("its cycles", || (sleeps(thread)? >= 20).then_some(()));
            set_affinity(thread, &[other]).unwrap();
            Left::from(child.wait_with_output().unwrap())
        });
        let said = left.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(said.matches("be able to end this run").count(), 1, "{}", left.stderr);
        let lost = format!("cpu was set to {first} and accepted, but was found to be {other}");
        assert!(said.contains(&lost), "{}", left.stderr);
    }
}

#[test]
fn a_stop_is_said_and_its_lateness_is_among_the_figures() {
    undisturbed(|longer| {
        let child = native(&["--duration", &format!("{}ms", 1500 * longer)]).spawn().unwrap();
        threads(&child);
        let process = Pid::from_child(&child);
        std::thread::sleep(Duration::from_millis(300) * longer);
        kill_process(process, Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_millis(500) * longer);
        kill_process(process, Signal::CONT).unwrap();
        let left = Left::from(child.wait_with_output().unwrap());
        let run = record(&left);
        let stopped = run.notices.iter().find_map(|notice| match notice {
            Notice::Paused { cause: PauseCause::Stopped, gap_ns, times: 0, .. } => Some(*gap_ns),
            _ => None,
        });
        let max = run.series.iter().filter_map(|series| series.summary.max).max().unwrap();
        if max < 400_000_000 || stopped.is_none_or(|gap_ns| gap_ns < 300_000_000) {
            return Err(Disturbed(format!("{max} ns late, {:?}", run.notices)));
        }
        assert!(left.stderr.contains("What came late by that is among the figures."), "{}", left.stderr);
        Ok(())
    });
    let run = record(&run(native(&["--duration", "300ms"])));
    assert!(!run.notices.iter().any(|notice| matches!(notice, Notice::Paused { .. })), "{:?}", run.notices);
}

#[test]
fn an_interval_shorter_than_a_wake_up_is_counted_exactly_and_said() {
    let left = run(ours(&["-q", "-i", "1", "-l", "500", "--json=-"]));
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(left.stdout.contains("\"cycles\": 500") && !left.stderr.contains("shorter than"), "{}", left.stdout);
    let left = run(ours(&["-q", "-i", "1", "-l", "500", "-p", "1"]));
    let refused = left.stderr.contains("Unable to change scheduling policy!");
    assert!(left.stderr.contains("# an interval of 1 us is shorter than a wake-up"), "{}", left.stderr);
    assert!(refused || left.stdout.contains("C:    500"), "{}", left.stdout);
}

/// A control group of version 1; removed on drop.
struct Group(PathBuf);

impl Group {
    /// `None` where the machine has no such hierarchy, which is said.
    fn new(controller: &'static str, settings: &[(&str, &str)]) -> Option<Self> {
        if !needs_root("a control group") {
            return None;
        }
        if !std::path::Path::new(controller).exists() {
            lacks(Lack::File(controller));
            return None;
        }
        let name = format!("punctual-cyclic-{}", std::process::id());
        let group = Self(std::path::Path::new(controller).with_file_name(name));
        std::fs::create_dir(&group.0).unwrap();
        settings.iter().for_each(|(file, value)| std::fs::write(group.0.join(file), value).unwrap());
        Some(group)
    }

    /// Runs a command in it.
    fn run(&self, command: &Command) -> Left {
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo $$ >\"$0\"; exec \"$@\""]).arg(self.0.join("tasks"));
        inside.arg(command.get_program()).args(command.get_args());
        inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        run(inside)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        eventually("the group is empty", || std::fs::remove_dir(&self.0).ok());
    }
}

#[test]
fn a_cpuset_has_its_cpus_measured_and_names_the_others() {
    let all = affinity(0).unwrap();
    let [first, .., last] = all[..] else { return lacks(Lack::Cpus(2)) };
    let cpus = first.to_string();
    let settings = [("cpuset.mems", "0"), ("cpuset.cpus", cpus.as_str())];
    let Some(group) = Group::new("/sys/fs/cgroup/cpuset/cpuset.cpus", &settings) else { return };
    let inside = record(&group.run(&native(&["--duration", "200ms"])));
    assert_eq!(inside.series.iter().map(|one| one.subject.as_str()).collect::<Vec<_>>(), [format!("cpu{first}")]);
    let refused = group.run(&native(&["--duration", "200ms", "--cpu", &last.to_string()]));
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{}", refused.stderr);
    let why = format!("none of these CPUs is in the cpuset of this process, which is {first} ");
    assert!(refused.stderr.contains(&why), "{}", refused.stderr);
    let theirs = group.run(&ours(&["-q", "-l", "2", "-a", &last.to_string()]));
    assert_eq!(theirs.code, Some(2), "{}", theirs.stderr);
    assert!(theirs.stderr.contains(&format!("no CPU of '{last}', but CPU {first}")), "{}", theirs.stderr);
}

/// A group begins with no real-time budget: the kernel refuses it every real-time policy, also root's.
#[test]
fn without_a_real_time_budget_no_priority_is_claimed() {
    let Some(group) = Group::new("/sys/fs/cgroup/cpu/cpu.rt_runtime_us", &[("cpu.rt_runtime_us", "0")]) else { return };
    let mut free = Command::new(env!("CARGO_BIN_EXE_punctual"));
    free.args(["cyclic", "--no-causes", "--no-keep", "--duration", "200ms", "--full"]).env("LC_ALL", "C.UTF-8");
    free.env("PUNCTUAL_LOCK_NAMESPACE", "");
    let left = group.run(&free);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    let said = left.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("The threads had no real-time policy.") && !said.contains("SCHED_FIFO"), "{said}");
    free.args(["--policy", "fifo:80"]);
    let asked = group.run(&free);
    assert!(asked.stderr.contains("policy fifo:80"), "{}", asked.stderr);
    let theirs = group.run(&ours(&["-q", "-l", "2", "-p", "80"]));
    assert_eq!((theirs.code, theirs.stdout.contains("T: 0")), (Some(1), false), "{}", theirs.stderr);
    assert!(theirs.stderr.contains("Unable to change scheduling policy!"), "{}", theirs.stderr);
}
