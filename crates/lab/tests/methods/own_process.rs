//! The same in a process of its own: stopped and continued, and as a plain user.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual_testing::{NOBODY, alone, needs_root, open_copy};

use crate::support::{check_wait, fine};

/// Marks a copy of this program as one.
const ROLE: &str = "PUNCTUAL_TEST_ROLE";

/// Waits with every method, some 30 ms each; only in a copy.
#[test]
fn copy_that_waits() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let _alone = alone();
    let mut refused = Vec::new();
    for method in fine() {
        match (method.open)() {
            Ok(mut waiter) => {
                for asked_ns in [1_000, 100_000, 1_900_000].repeat(10) {
                    check_wait(method, &mut *waiter, asked_ns);
                }
            }
            Err(why) => refused.push(format!("{}: {why}", method.name)),
        }
    }
    println!("role {}, refused: {}", role.to_string_lossy(), refused.join("; "));
}

fn copy_of(program: &std::path::Path, role: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--exact", "own_process::copy_that_waits", "--nocapture"]).env(ROLE, role);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The line in which the copy reports refusals. Fails with its output if the copy failed.
fn told(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}\n{errors}", output.status);
    text.lines().find(|line| line.contains("refused:")).unwrap_or_else(|| panic!("{text}\n{errors}")).to_owned()
}

#[test]
fn stopped_and_continued() {
    let _alone = alone();
    let mut stops = 0;
    // One is enough, unless this process has no CPU meanwhile.
    while stops <= 20 {
        let mut child = copy_of(&std::env::current_exe().unwrap(), "stopped").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        while child.try_wait().unwrap().is_none() {
            // The child is not reaped before `try_wait` reports it: its id means no other process.
            rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
            std::thread::sleep(Duration::from_millis(3));
            rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
            std::thread::sleep(Duration::from_millis(4));
            stops += 1;
        }
        told(child);
    }
}

#[test]
fn as_a_plain_user() {
    let _alone = alone();
    // The other tests have just run as the user that you are.
    if !needs_root("becoming a plain user") {
        return;
    }
    let (_folder, program) = open_copy(&std::env::current_exe().unwrap());
    let line = told(copy_of(&program, "plain user").uid(NOBODY).gid(NOBODY).current_dir("/").spawn().unwrap());

    let refused_here: Vec<_> = fine().filter(|method| (method.open)().is_err()).map(|method| method.name).collect();
    let refused_there = line.split_once("refused: ").map_or("", |(_, list)| list);
    for entry in refused_there.split("; ").filter(|entry| !entry.is_empty()) {
        let name = entry.split(':').next().unwrap_or_default();
        assert!(refused_here.contains(&name), "refused to a plain user only: {entry}");
    }
}
