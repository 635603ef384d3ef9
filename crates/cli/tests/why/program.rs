//! `why -- PROGRAM`.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use punctual_record::LossKind;
use punctual_testing::{Disturbed, Lack, eventually, lacks, undisturbed, until};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::support::{causes, output, punctual, saw_events, text};

#[test]
fn the_exit_status_is_the_programs() {
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        let left = output(&["why", "--", "sh", "-c", script]);
        assert_eq!(left.status.code(), Some(status), "{script}: {}", text(&left.stderr));
    }
    let missing = output(&["why", "no-such-program-anywhere"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("no-such-program-anywhere"), "{}", text(&missing.stderr));
    assert_eq!(output(&["why", "/etc/passwd"]).status.code(), Some(126));
}

#[test]
fn streams_and_arguments_are_the_programs_own() {
    let script = "cat; echo to stdout; echo \"$1\" >&2";
    let run = |mut command: Command| {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"through\n").unwrap();
        child.wait_with_output().unwrap()
    };
    let mut plain = Command::new("sh");
    plain.args(["-c", script, "sh", "--pid"]);
    let (plain, watched) = (run(plain), run(punctual(&["why", "sh", "-c", script, "sh", "--pid"])));
    assert_eq!(watched.stdout, plain.stdout);
    assert!(text(&watched.stderr).starts_with(&text(&plain.stderr)), "{}", text(&watched.stderr));
    assert!(text(&watched.stderr).len() > plain.stderr.len(), "the report goes to stderr");
}

#[test]
fn the_report_goes_to_a_file_and_stderr_stays_the_programs() {
    let folder = tempfile::tempdir().unwrap();
    let (tables, json) = (folder.path().join("why.txt"), folder.path().join("why.json"));
    let files = ["-o", tables.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let left = output(&[&["why", "-q"][..], &files, &["--", "sh", "-c", "echo one; echo two >&2; exit 3"]].concat());
    assert_eq!((left.status.code(), text(&left.stdout), text(&left.stderr)), (Some(3), "one\n".into(), "two\n".into()));
    assert!(std::fs::metadata(&tables).unwrap().len() > 0);
    let program = causes(&json).program.unwrap();
    assert_eq!((program.name.as_str(), program.status), ("sh", Some(3)));
}

#[test]
fn what_is_redacted_has_no_argument_and_no_path() {
    let folder = tempfile::tempdir().unwrap();
    let [tables, json, data] = ["why.txt", "why.json", "payroll.db"].map(|name| folder.path().join(name));
    let script = format!("for i in 1 2 3 4 5; do dd if=/dev/zero of={} count=9 conv=fsync; done", data.display());
    let written = |redact: &[&str]| {
        let files = ["-o", tables.to_str().unwrap(), "--json", json.to_str().unwrap()];
        let left = output(&[&["why", "-q"], redact, &files, &["--", "sh", "-c", &script]].concat());
        assert_eq!(left.status.code(), Some(0), "{}", text(&left.stderr));
        [&tables, &json].map(|file| std::fs::read_to_string(file).unwrap()).concat()
    };
    assert!(written(&[]).contains("payroll"), "the command line");
    let redacted = written(&["--redact"]);
    assert!(!redacted.contains("payroll") && !redacted.contains("conv=fsync"), "{redacted}");
    assert_eq!(causes(&json).program.unwrap().name, "sh");
}

#[test]
fn sleeps_of_a_program_and_of_its_children_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("why.json");
    let script = "for i in 1 2 3 4 5; do sleep 0.01; done";
    // Without events of the idle thread, no wake-up of its CPU is split.
    let cpu = punctual_lab::sight(punctual_trace::Room::Large).map_or("0".to_owned(), |sight| sight.cpu.to_string());
    let program = ["--", "taskset", "-c", &cpu, "sh", "-c", script];
    let sleeps = undisturbed(|_| {
        let left = output(&[&["why", "--full", "--json", json.to_str().unwrap()][..], &program].concat());
        assert_eq!(left.status.code(), Some(0), "{}", text(&left.stderr));
        let causes = causes(&json);
        assert!(causes.program.as_ref().and_then(|program| program.cpu_ns).is_some_and(|cpu_ns| cpu_ns > 0));
        if !saw_events(&causes) {
            return Ok(None);
        }
        let sleeps = causes.calls.iter().find(|call| call.thread == "sleep" && call.call == "clock_nanosleep");
        let sleeps = sleeps.unwrap_or_else(|| panic!("{:?}", causes.calls));
        // A thread that loses its CPU for 10 ms on its way to sleep does not block.
        if sleeps.blocked == 5 { Ok(Some(sleeps.clone())) } else { Err(Disturbed(format!("{sleeps:?}"))) }
    });
    let Some(sleeps) = sleeps else { return };
    let asked = sleeps.asked.unwrap();
    assert!((9_900_000..=10_200_000).contains(&asked.p50_ns), "{asked:?}");
    assert_eq!(sleeps.causes.iter().map(|cause| cause.time.total_ns).sum::<u64>(), sleeps.late.total_ns);
}

/// An ELF file for the i386 (elf(5)): its head, one segment, and code that sleeps 20 ms, 20 times, by `int 0x80`.
#[cfg(target_arch = "x86_64")]
fn program_of_32_bits() -> Vec<u8> {
    const AT: u32 = 0x0804_8000;
    const HEAD: u32 = 52 + 32;
    let code: &[u8] = &[
        0xbe, 20, 0, 0, 0, // mov $20, %esi
        0xb8, 162, 0, 0, 0, // mov $nanosleep, %eax
        0xbb, 0x74, 0x80, 0x04, 0x08, // mov $time, %ebx
        0x31, 0xc9, 0xcd, 0x80, // xor %ecx, %ecx; int $0x80
        0x4e, 0x75, 0xef, // dec %esi; jne
        0xb8, 1, 0, 0, 0, // mov $exit, %eax
        0x31, 0xdb, 0xcd, 0x80, 0x90, // xor %ebx, %ebx; int $0x80; nop
    ];
    let time = [0_u32, 20_000_000];
    let size = HEAD + code.len() as u32 + 8;
    let head = [b"\x7fELF\x01\x01\x01".as_slice(), &[0; 9], &[2, 0, 3, 0]].concat();
    let words = [1, AT + HEAD, 52, 0, 0, 0x0020_0034, 1, 0, 1, 0, AT, AT, size, size, 5, 0x1000].map(u32::to_le_bytes);
    [&head, words.as_flattened(), code, time.map(u32::to_le_bytes).as_flattened()].concat()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_program_of_32_bits_has_the_names_of_its_own_calls() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let [program, json] = ["sleeper", "why.json"].map(|name| folder.path().join(name));
    std::fs::write(&program, program_of_32_bits()).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    const EMULATION: &str = "/proc/sys/abi/vsyscall32";
    if !std::path::Path::new(EMULATION).exists() {
        return lacks(Lack::File(EMULATION));
    }
    let left = output(&["why", "--full", "--json", json.to_str().unwrap(), "--", program.to_str().unwrap()]);
    assert_eq!(left.status.code(), Some(0), "{}", text(&left.stderr));
    let causes = causes(&json);
    if !saw_events(&causes) {
        return;
    }
    let calls: Vec<&str> = causes.calls.iter().map(|call| call.call.as_str()).collect();
    assert_eq!(calls, ["nanosleep"]);
    if let Some(budget) = causes.budget.filter(|budget| !budget.threads.is_empty()) {
        let waits = budget.threads[0].parts.iter().filter_map(|part| part.call.as_deref());
        assert!(
            waits.clone().count() > 0 && waits.clone().all(|call| call == "nanosleep"),
            "{:?}",
            budget.threads[0].parts
        );
    }
}

#[test]
fn a_program_of_two_hundred_threads_is_watched_to_its_end() {
    let script = "import threading, time
threads = [threading.Thread(target=lambda: [time.sleep(0.01) for _ in range(5)]) for _ in range(200)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print('done')";
    if Command::new("python3").arg("--version").output().is_err() {
        return punctual_testing::skip("python3 is missing");
    }
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("why.json");
    let left = output(&["why", "--full", "--json", json.to_str().unwrap(), "--", "python3", "-c", script]);
    assert_eq!((left.status.code(), text(&left.stdout)), (Some(0), "done\n".into()), "{}", text(&left.stderr));
    let causes = causes(&json);
    if saw_events(&causes) {
        // A thread that loses its CPU for 10 ms on its way to sleep does not block.
        let sleeps = causes.calls.iter().filter(|call| call.call == "clock_nanosleep").map(|call| call.calls);
        let sleeps: u64 = sleeps.sum();
        assert!(
            sleeps == 1000 || causes.lost_events > 0,
            "{sleeps} sleeps of 1000, {} events lost",
            causes.lost_events
        );
    }
}

/// CPython's lock (GIL): a thread that sleeps waits for the busy one, which gives the lock up after 5 ms.
#[test]
fn the_thread_that_holds_a_lock_is_named() {
    let script = "import threading, time, ctypes
ended = False
named = threading.Event()
def busy():
    ctypes.CDLL(None).prctl(15, b'busy', 0, 0, 0)
    named.set()
    while not ended: pass
worker = threading.Thread(target=busy)
worker.start()
named.wait()
for _ in range(30): time.sleep(0.001)
ended = True
worker.join()";
    let gil = Command::new("python3")
        .args(["-c", "import sys; sys.exit(sys._is_gil_enabled() if hasattr(sys, '_is_gil_enabled') else 1)"])
        .status();
    if !gil.is_ok_and(|status| status.code() == Some(1)) {
        return punctual_testing::skip("a python3 with its lock (GIL) is missing");
    }
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("why.json");
    let busy = undisturbed(|_| {
        let left = output(&["why", "--full", "--json", json.to_str().unwrap(), "--", "python3", "-c", script]);
        assert_eq!(left.status.code(), Some(0), "{}", text(&left.stderr));
        let causes = causes(&json);
        if !saw_events(&causes) || causes.lost_events > 0 {
            return Ok(None);
        }
        let waits = causes.calls.iter().filter(|call| call.thread != "busy" && call.call == "futex");
        let busy: Vec<_> = waits.flat_map(|call| call.wakers.clone()).filter(|waker| waker.name == "busy").collect();
        // With one CPU for both, the lock can be free whenever the other thread runs.
        if busy.is_empty() { Err(Disturbed(format!("{:?}", causes.calls))) } else { Ok(Some(busy)) }
    });
    let Some(busy) = busy else { return };
    // Repeated waits that time out after 5 ms are one wait.
    let longest = busy.iter().filter_map(|waker| waker.waited).map(|waited| waited.max_ns).max();
    assert!(longest >= Some(5_000_000), "{busy:?}");
    for waker in busy {
        let (Some(waited), Some(worked)) = (waker.waited, waker.worked) else { panic!("{waker:?}") };
        assert!(worked.total_ns <= waited.total_ns, "what it did before the wait does not count: {waker:?}");
    }
}

#[test]
fn a_program_that_never_blocks_is_said_to() {
    let script = "i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done";
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("why.json");
    let left = output(&["why", "--full", "--json", json.to_str().unwrap(), "--", "sh", "-c", script]);
    let causes = causes(&json);
    let said = text(&left.stderr);
    if saw_events(&causes) && causes.lost_events == 0 {
        // The shell's start can wait for its disk.
        if causes.wake_ups == 0 {
            let answer = said.replace('\n', " ");
            let first = causes.losses.first().map(|loss| loss.kind);
            let computes = match first {
                None => answer.contains("sh never gives up the CPU") || answer.contains("No blocking call of sh ended"),
                Some(LossKind::Computes) => answer.contains("sh computed for"),
                // Others, interrupts or the host had its CPU for a while: it computes all the same.
                Some(LossKind::HogProcess | LossKind::HogFifo | LossKind::Interrupts | LossKind::Host) => {
                    causes.losses.iter().any(|loss| loss.kind == LossKind::Computes)
                }
                Some(_) => false,
            };
            assert!(computes, "{first:?}: {said}");
        }
        let own = causes.calls.iter().find(|call| call.call == "execve" || call.thread.starts_with("punctual"));
        assert!(own.is_none(), "the start of the program is not its own: {own:?}");
    }
}

#[test]
fn signals_to_the_command_reach_the_program() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1] {
        let script = "trap 'exit 9' TERM INT HUP USR1; echo ready; while :; do sleep 0.01; done";
        let mut child = punctual(&["why", "--", "sh", "-c", script]);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let left = child.wait_with_output().unwrap();
        assert_eq!(left.status.code(), Some(9), "{signal:?}");
        assert!(!left.stderr.is_empty(), "what was seen is reported");
    }
}

#[test]
fn kill_9_leaves_the_program_running_and_nothing_else() {
    let script = "echo $$; while :; do sleep 0.01; done";
    let mut child = punctual(&["why", "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut said = String::new();
    while !said.ends_with('\n') {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        said.push(byte[0].into());
    }
    let program = Pid::from_raw(said.trim().parse().unwrap()).unwrap();
    let command = Pid::from_child(&child).as_raw_nonzero().get();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(test_kill_process(program).is_ok(), "the program goes on");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.as_raw_nonzero())).unwrap();
    let (_, after) = stat.rsplit_once(')').unwrap();
    let state = after.split_whitespace().next().unwrap();
    assert!(!["T", "t", "Z"].contains(&state), "neither stopped nor traced: {stat}");
    // What the command had started is gone with it.
    until("nothing of the command is left", || !std::path::Path::new(&format!("/proc/{command}")).exists());
    kill_process(program, Signal::KILL).unwrap();
    eventually("the program ends", || test_kill_process(program).err());
}
