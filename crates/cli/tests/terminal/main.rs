//! The command on a terminal: a pseudo-terminal on which keys are pressed, with a shell that has job control (`set -m`).

mod jobs;
mod screen;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use punctual_record::{Notice, Run};
use punctual_testing::{Disturbed, undisturbed, until};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const CTRL_C: u8 = 0x03;
const CTRL_BACKSLASH: u8 = 0x1c;

/// A shell on a terminal of its own.
struct Terminal {
    keys: File,
    screen: Arc<Mutex<String>>,
    shell: Child,
}

impl Terminal {
    /// Runs the script by a shell with job control, whose controlling terminal it is; `$PUNCTUAL` is the command. `None`: setsid(1) is
    /// missing.
    fn run(script: &str) -> Option<Self> {
        Self::run_by("sh", &format!("set -m\n{script}"))
    }

    /// The same, by this shell.
    fn run_by(shell: &str, script: &str) -> Option<Self> {
        // Whoever runs the tests in the background may ignore what the keys send.
        punctual_linux::signal::heed_what_ends_a_program().unwrap();
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let side = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        // setsid makes the terminal on its standard input the controlling one of a new session.
        let shell = Command::new("setsid")
            .args(["--ctty", "--wait", shell, "-c", script])
            .env("PUNCTUAL", env!("CARGO_BIN_EXE_punctual"))
            .envs([("LC_ALL", "C.UTF-8"), ("TERM", "xterm")])
            .stdin(Stdio::from(side.try_clone().unwrap()))
            .stdout(Stdio::from(side.try_clone().unwrap()))
            .stderr(Stdio::from(side))
            .spawn();
        let shell = match shell {
            Ok(shell) => shell,
            Err(error) => {
                punctual_testing::skip(&format!("setsid(1) of util-linux: {error}"));
                return None;
            }
        };
        let keys = File::from(master);
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut shown, text) = (keys.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // EIO when nobody has the other side any more.
            while let Ok(n @ 1..) = shown.read(&mut bytes) {
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        Some(Self { keys, screen, shell })
    }

    fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).unwrap();
    }

    fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// Waits for text that must appear; it is no statement about how soon.
    fn shows(&self, part: &str) {
        until(&format!("<{part}> on the screen"), || self.screen().contains(part));
    }

    fn ends(mut self) -> String {
        self.shows("the end");
        self.shell.wait().unwrap();
        self.screen()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let processes =
                Command::new("ps").args(["-eo", "pid,ppid,pgid,sid,stat,wchan:20,args", "--forest"]).output();
            let processes = processes.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            eprintln!("the screen:\n{}\nthe processes:\n{}", self.screen(), processes.unwrap_or_default());
        }
        // What still runs in the foreground of its session is hung up.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[test]
fn ctrl_c_reaches_the_program_once_and_its_own_answer_counts() {
    let Some(mut terminal) = Terminal::run(
        r#"
"$PUNCTUAL" run -- sh -c 'n=0; trap "n=\$((n + 1))" INT; echo ready; while [ $n = 0 ]; do sleep 0.02; done; sleep 0.3; echo "interrupts: $n"; exit 9'
echo "status: $?"; echo "the end"
"#,
    ) else {
        return;
    };
    terminal.shows("ready");
    terminal.press(&[CTRL_C]);
    let screen = terminal.ends();
    assert!(screen.contains("interrupts: 1\r\n") && screen.contains("status: 9"), "{screen}");
}

#[test]
fn a_program_that_a_key_ends_has_the_status_of_that_signal() {
    for (key, status) in [(CTRL_C, 130), (CTRL_BACKSLASH, 131)] {
        let Some(mut terminal) = Terminal::run(
            r#"
ulimit -c 0
"$PUNCTUAL" run -- sh -c 'echo ready; exec sleep 1000'
echo "status: $?"; echo "the end"
"#,
        ) else {
            return;
        };
        terminal.shows("ready");
        // The shell says so before it becomes the sleeper: either is ended by the key.
        terminal.press(&[key]);
        let screen = terminal.ends();
        assert!(screen.contains(&format!("status: {status}")), "{screen}");
    }
}

#[test]
fn the_program_has_the_terminal_and_hears_of_its_size() {
    let Some(terminal) = Terminal::run(
        r#"
"$PUNCTUAL" run -- sh -c '[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo "a terminal"; trap "stty size; exit 3" WINCH; echo ready; while :; do sleep 0.02; done'
echo "status: $?"; echo "the end"
"#,
    ) else {
        return;
    };
    terminal.shows("ready");
    tcsetwinsize(&terminal.keys, Winsize { ws_row: 33, ws_col: 111, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let screen = terminal.ends();
    for part in ["a terminal", "33 111", "status: 3"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
}

#[test]
fn a_session_that_ends_hangs_up_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said");
    let script = format!(
        r#""$PUNCTUAL" run -- sh -c 'trap "echo hung up >{}; exit 4" HUP; echo ready; while :; do sleep 0.02; done'
echo "the end""#,
        said.display()
    );
    let Some(terminal) = Terminal::run(&script) else { return };
    terminal.shows("ready");
    // Kills the shell, the session's leader: the kernel hangs up whatever is in the foreground.
    drop(terminal);
    until("the program hears of it", || std::fs::read_to_string(&said).unwrap_or_default().contains("hung up"));
}

#[test]
fn a_check_up_has_one_progress_bar_and_one_screen() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().display();
    let screen = undisturbed(|_| {
        let Some(terminal) = Terminal::run(&format!(
            r#"
stty rows 24 cols 80
PUNCTUAL_LOCK_NAMESPACE= XDG_STATE_HOME={state} "$PUNCTUAL" --quick --color never
echo "the end"
"#
        )) else {
            return Ok(None);
        };
        let screen = terminal.ends();
        let run = Run::from_json(File::open(folder.path().join("punctual/last.json")).unwrap()).unwrap();
        let overdue = run.notices.contains(&Notice::Overdue);
        if overdue { Err(Disturbed("its time was over before all was measured".into())) } else { Ok(Some(screen)) }
    });
    let Some(screen) = screen else { return };
    let lengths: Vec<usize> = screen
        .split(['\r', '\n'])
        .filter(|line| line.contains("s left"))
        .map(|line| line.chars().filter(|c| *c == '█').count())
        .collect();
    assert!(lengths.len() > 3 && lengths.is_sorted(), "the bar only grows: {lengths:?}");
    assert!(lengths.last() > Some(&12), "{lengths:?}");
    let last = screen::at_the_end(&screen);
    let lines: Vec<&str> = last.lines().filter(|line| !line.contains("the end")).collect();
    assert!(lines.len() <= 23, "{} lines: {last}", lines.len());
    assert!(last.contains("All tables: punctual report --full ") && last.contains("run-1.json\n"), "{last}");
    assert!(last.contains("\n  Page with charts: --html -o FILE instead of --full."), "{last}");
}

/// The answer is there before all is measured, in place, and gives way to the last one.
#[test]
fn the_answer_of_a_check_up_comes_early_and_is_refined_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().display();
    let Some(mut terminal) = Terminal::run(&format!(
        r#"
stty rows 24 cols 80
PUNCTUAL_LOCK_NAMESPACE= XDG_STATE_HOME={state} "$PUNCTUAL" --color never
echo "status: $?"; echo "the end"
"#
    )) else {
        return;
    };
    let drawings = |terminal: &Terminal| terminal.screen().matches("Measuring goes on.").count();
    until("it was drawn twice", || drawings(&terminal) > 1);
    let early = screen::at_the_end(&terminal.screen());
    assert_eq!(early.matches("Measuring goes on.").count(), 1, "in place: {early}");
    terminal.press(&[CTRL_C]);
    let last = screen::at_the_end(&terminal.ends());
    assert!(!last.contains("Measuring goes on."), "{last}");
    assert!(last.contains("A sleep of 100 µs ends") && last.contains("status: 130"), "what is there stays: {last}");
    assert!(last.lines().count() <= 24 + 2, "with the status and the end: {last}");
}

#[test]
fn a_pipe_gets_the_last_screen_only() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().display();
    let Some(terminal) = Terminal::run(&format!(
        r#"
stty rows 24 cols 80
PUNCTUAL_LOCK_NAMESPACE= XDG_STATE_HOME={state} COLUMNS=60 "$PUNCTUAL" --quick 2>/dev/null | cat
echo "the end"
"#
    )) else {
        return;
    };
    let screen = terminal.ends();
    assert!(!screen.contains("Measuring goes on.") && !screen.contains('\x1b'), "{screen}");
    let lines: Vec<&str> = screen.lines().filter(|line| !line.contains("All tables: ")).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 60), "COLUMNS: {screen}");
    assert_eq!(screen.matches("A sleep of 100 µs ends").count(), 1, "{screen}");
}

#[test]
fn a_long_name_of_the_state_folder_leaves_the_screen_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("x".repeat(200)).join("y".repeat(200));
    let Some(terminal) = Terminal::run(&format!(
        r#"
stty rows 24 cols 80
PUNCTUAL_LOCK_NAMESPACE= XDG_STATE_HOME={} "$PUNCTUAL" wait nanosleep --samples 200 --rounds 2 --quiet
echo "the end"
"#,
        deep.display()
    )) else {
        return;
    };
    let last = screen::at_the_end(&terminal.ends());
    assert!(last.contains("All tables: punctual report --full last\n"), "{last}");
    assert!(last.lines().all(|line| line.chars().count() <= 80), "{last}");
}
