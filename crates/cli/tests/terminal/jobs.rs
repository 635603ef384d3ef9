//! Programs that are stopped and continued: by other processes, and as jobs of a shell.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use punctual_testing::until;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::Terminal;

const CTRL_Z: u8 = 0x1a;

/// Says its number, and ends by SIGUSR1 with 40 and how often it was continued. It starts no process: vfork(2) cannot be stopped.
const PROGRAM: &str = r#"exec 3<> <(:); n=0; trap "n=\$((n + 1))" CONT; trap "over=yes" USR1; echo $$
until [ "$over" ]; do read -rt 0.01 -u 3; done; exit $((40 + n))"#;

/// Who gets a signal.
#[derive(Debug, Clone, Copy)]
enum To {
    Program,
    Command,
    Both,
    Group,
}
use To::{Both, Command as Own, Group, Program};

/// A signal, to whom, and afterwards the states of the command and of the program: T for stopped, R for not.
type Step = (Signal, To, &'static str);

const STOP: Signal = Signal::STOP;
const TSTP: Signal = Signal::TSTP;
const CONT: Signal = Signal::CONT;

/// The number is how often the program hears SIGCONT. Where two senders continue it at once, it is not known: 0.
const BY_OTHERS: &[(&[Step], i32)] = &[
    (&[(STOP, Program, "TT"), (CONT, Program, "RR")], 1),
    (&[(STOP, Program, "TT"), (CONT, Own, "RR")], 1),
    (&[(STOP, Program, "TT"), (CONT, Both, "RR")], 0),
    (&[(STOP, Program, "TT"), (CONT, Group, "RR")], 0),
    (&[(STOP, Own, "TR"), (CONT, Own, "RR")], 1),
    (&[(STOP, Own, "TR"), (CONT, Group, "RR")], 0),
    (&[(STOP, Own, "TR"), (STOP, Program, "TT"), (CONT, Own, "RR")], 1),
    (&[(STOP, Own, "TR"), (STOP, Program, "TT"), (CONT, Both, "RR")], 0),
    (&[(STOP, Program, "TT"), (STOP, Own, "TT"), (CONT, Program, "RR")], 1),
    (&[(STOP, Both, "TT"), (CONT, Both, "RR")], 0),
    (&[(STOP, Both, "TT"), (CONT, Own, "RR")], 1),
    (&[(STOP, Group, "TT"), (CONT, Group, "RR")], 0),
    (&[(STOP, Group, "TT"), (CONT, Own, "RR")], 1),
    (&[(TSTP, Program, "TT"), (CONT, Program, "RR")], 1),
    (&[(TSTP, Program, "TT"), (CONT, Own, "RR")], 1),
    (&[(TSTP, Own, "TT"), (CONT, Own, "RR")], 1),
    (&[(TSTP, Own, "TT"), (CONT, Program, "RR")], 1),
    (&[(TSTP, Group, "TT"), (CONT, Group, "RR")], 0),
    (&[(TSTP, Group, "TT"), (CONT, Program, "RR")], 1),
    (&[(Signal::TTIN, Program, "TT"), (CONT, Program, "RR")], 1),
    (&[(Signal::TTOU, Program, "TT"), (CONT, Own, "RR")], 1),
    (&[(STOP, Program, "TT"), (CONT, Program, "RR"), (TSTP, Program, "TT"), (CONT, Own, "RR")], 2),
    (&[(CONT, Own, "RR")], 1),
];

/// The ways to start a program under the command.
const STARTS: [&[&str]; 2] = [&["run", "--"], &["why", "--"]];

/// A command with its program.
struct Pair {
    command: Child,
    program: Pid,
}

impl Pair {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.args(arguments).args(["bash", "-c", PROGRAM]).env("PUNCTUAL_LOCK_NAMESPACE", "");
        command.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut command = command.stderr(Stdio::null()).process_group(0).spawn().unwrap();
        let mut number = String::new();
        BufReader::new(command.stdout.as_mut().unwrap()).read_line(&mut number).unwrap();
        Self { command, program: Pid::from_raw(number.trim().parse().unwrap()).unwrap() }
    }

    fn own(&self) -> Pid {
        Pid::from_child(&self.command)
    }

    fn send(&self, signal: Signal, to: To) {
        match to {
            Program => kill_process(self.program, signal).unwrap(),
            Own => kill_process(self.own(), signal).unwrap(),
            Both => {
                self.send(signal, Program);
                self.send(signal, Own);
            }
            Group => kill_process_group(self.own(), signal).unwrap(),
        }
    }

    /// Whether each is stopped.
    fn states(&self) -> String {
        let state = |pid: Pid| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            if state == Some('T') { 'T' } else { 'R' }
        };
        [self.own(), self.program].map(state).iter().collect()
    }

    fn become_as(&self, expected: &str, what: &str) {
        until(&format!("{what}: {expected}"), || self.states() == expected);
    }

    /// Waits until a program that runs has heard what was sent: the kernel discards a SIGCONT that is pending at a stop, and bash runs one
    /// trap for two.
    fn hear(&self) {
        let waits = || -> u64 {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.program.as_raw_nonzero())).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.unwrap().trim().parse().unwrap()
        };
        let before = waits();
        until("the program waits again", || waits() >= before + 3);
    }

    /// Ends the program by a signal to the command, and returns the status.
    fn end(mut self, what: &str) -> Option<i32> {
        self.send(Signal::USR1, Own);
        let mut status = None;
        until(&format!("{what}: the end"), || {
            status = self.command.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if !matches!(self.command.try_wait(), Ok(Some(_))) {
            let _ = kill_process(self.program, Signal::KILL);
            let _ = self.command.kill();
            let _ = self.command.wait();
        }
    }
}

#[test]
fn every_stop_by_another_process_ends_with_its_sigcont() {
    for (start, (steps, heard)) in STARTS.iter().flat_map(|start| BY_OTHERS.iter().map(move |row| (start, row))) {
        let pair = Pair::start(start);
        for (number, (signal, to, expected)) in steps.iter().enumerate() {
            pair.send(*signal, *to);
            pair.become_as(expected, &format!("{start:?} {steps:?}, step {number}"));
            if *expected == "RR" {
                pair.hear();
            }
        }
        let status = pair.end(&format!("{start:?} {steps:?}")).unwrap();
        let right = if *heard == 0 { status > 40 } else { status == 40 + heard };
        assert!(right, "{start:?} {steps:?}: the program heard SIGCONT {} times", status - 40);
    }
}

#[test]
fn a_command_in_a_command_stops_and_goes_on_too() {
    let program = [env!("CARGO_BIN_EXE_punctual"), "run", "--"];
    for to in [Program, Own, Group] {
        let pair = Pair::start(&[&["run", "--"], &program[..]].concat());
        pair.send(STOP, Program);
        pair.become_as("TT", "stopped");
        pair.send(CONT, to);
        pair.become_as("RR", &format!("continued by a signal to {to:?}"));
        assert!(pair.end("nested").unwrap() > 40);
    }
}

#[test]
fn a_program_that_is_stopped_and_continued_at_once_is_waited_for() {
    let pair = Pair::start(&["run", "--"]);
    for to in [Program, Own].into_iter().cycle().take(40) {
        pair.send(STOP, Program);
        pair.send(CONT, to);
        // The command may stop shortly, and then goes on with its program.
        if matches!(to, Program) {
            pair.become_as("RR", "continued at once");
        }
        pair.send(CONT, Own);
    }
    assert!(pair.end("stopped and continued").is_some());
}

#[test]
fn a_program_that_dies_while_it_is_stopped_ends_the_command() {
    for start in STARTS {
        let mut pair = Pair::start(start);
        pair.send(STOP, Program);
        pair.become_as("TT", "stopped");
        pair.send(Signal::KILL, Program);
        let mut status = None;
        until("the end", || {
            status = pair.command.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(137));
    }
}

#[test]
fn a_signal_of_the_program_to_its_group_reaches_it_once() {
    let script = r#"n=0; trap "n=\$((n + 1))" USR1; for i in 1 2 3 4 5; do kill -USR1 0; sleep 0.05; done; exit $n"#;
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    let status = command.args(["run", "--", "sh", "-c", script]).process_group(0).status().unwrap();
    assert_eq!(status.code(), Some(5));
}

/// What a shell shows of a job. `WAIT` waits until the job has ended, without `fg`; `PROGRAM` is the program's number.
const JOBS: &[(&str, &str, &[&str])] = &[
    (
        "the key, and fg",
        r#"$START sh -c 'echo ready; read -r line; echo "line: $line"; exit 47'; echo "stopped: $?"; fg >/dev/null; echo "status: $?""#,
        &["stopped: 148", "line: typed", "status: 47"],
    ),
    (
        "the key, and bg",
        r#"$START bash -c 'exec 3<> <(:); echo ready; until [ -e on ]; do read -rt 0.01 -u 3; done; exit 47'; echo "stopped: $?"; jobs -p >job; bg >/dev/null; : >on; WAIT"#,
        &["stopped: 148", "job over"],
    ),
    (
        "a program that answers the key by SIGSTOP",
        r#"$START bash -c 'exec 3<> <(:); trap "kill -STOP \$\$" TSTP; echo ready; until [ -e on ]; do read -rt 0.01 -u 3; done; exit 47'
echo "stopped: $?"; : >on; fg >/dev/null; echo "status: $?""#,
        &["stopped: 147", "status: 47"],
    ),
    (
        "SIGSTOP and SIGCONT to the program alone",
        r#"$START sh -c 'echo $$ >program; kill -STOP $$; exit 47'; echo "stopped: $?"; jobs -p >job; kill -CONT PROGRAM; WAIT"#,
        &["stopped: 147", "job over"],
    ),
    (
        "SIGTSTP and SIGCONT to the program alone",
        r#"$START sh -c 'echo $$ >program; kill -TSTP $$; exit 47'; echo "stopped: $?"; jobs -p >job; kill -CONT PROGRAM; WAIT"#,
        &["stopped: 148", "job over"],
    ),
    (
        "kill -STOP of the job, and fg",
        r#"$START bash -c 'exec 3<> <(:); echo $$ >program; until [ -e on ]; do read -rt 0.01 -u 3; done; exit 47' & until [ -s program ]; do sleep 0.01; done
kill -STOP %1; until grep -q "T (stopped)" /proc/PROGRAM/status; do sleep 0.01; done; SHELL_KNOWS; echo stopped; : >on; fg >/dev/null; echo "status: $?""#,
        &["stopped", "status: 47"],
    ),
    (
        "a background job that reads the terminal, and fg",
        r#"$START sh -c 'echo $$ >program; read -r line; echo "line: $line"; exit 47' & until [ -s program ]; do sleep 0.01; done
SHELL_KNOWS; echo ready; fg >/dev/null; echo "status: $?""#,
        &["line: typed", "status: 47"],
    ),
];

/// `/proc` shows a process as stopped shortly before its shell hears of it, and a shell continues only what it knows to be stopped.
const SHELL_KNOWS: &str = r#"until jobs >jobs; grep -qi stopped jobs; do sleep 0.01; done"#;

const WAIT: &str = r#"while kill -0 "$(cat job)" 2>kill; do sleep 0.01; done; echo "job over""#;

#[test]
fn a_shell_sees_one_job() {
    let starts = [r#""$PUNCTUAL" run --"#, r#""$PUNCTUAL" run -- "$PUNCTUAL" run --"#, r#""$PUNCTUAL" why --"#];
    let shells = ["dash", "bash"].map(|shell| starts.map(|start| (shell, start)));
    for ((shell, start), (name, script, shows)) in
        shells.iter().flatten().flat_map(|how| JOBS.iter().map(move |job| (how, job)))
    {
        println!("{shell}, {start}, {name}");
        let folder = tempfile::tempdir().unwrap();
        let script = script
            .replace("WAIT", WAIT)
            .replace("SHELL_KNOWS", SHELL_KNOWS)
            .replace("PROGRAM", "$(cat program)")
            .replace("$START", start);
        let text =
            format!("cd {}; set -m; export XDG_STATE_HOME=$PWD\n{script}\necho 'the end'", folder.path().display());
        let Some(mut terminal) = Terminal::run_by(shell, &text) else { return };
        if script.contains("ready") {
            terminal.shows("ready");
            if shows[0].starts_with("stopped") {
                terminal.press(&[CTRL_Z]);
                terminal.shows("stopped: 1");
            }
            terminal.press(b"typed\n");
        }
        let screen = terminal.ends();
        for part in *shows {
            assert!(screen.contains(part), "{shell}, {start}, {name}: {part}: {screen}");
        }
    }
}

#[test]
fn without_job_control_a_program_goes_on_by_its_own_sigcont() {
    for shell in ["dash", "bash"] {
        let script = r#"mkfifo pipe; "$PUNCTUAL" run -- sh -c 'echo $$ >pipe; kill -STOP $$; exit 47' & read -r program <pipe
until grep -q "T (stopped)" /proc/$program/status && grep -q "T (stopped)" /proc/$!/status; do sleep 0.01; done
kill -CONT $program; wait $!; echo "status: $?""#;
        let folder = tempfile::tempdir().unwrap();
        let text = format!("cd {}\n{script}\necho 'the end'", folder.path().display());
        let Some(terminal) = Terminal::run_by(shell, &text) else { return };
        let screen = terminal.ends();
        assert!(screen.contains("status: 47"), "{shell}: {screen}");
    }
}
