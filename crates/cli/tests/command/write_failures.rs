//! Results that cannot be written, and the exit status.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use punctual_record::Run;
use punctual_testing::{Disturbed, undisturbed, until};
use rustix::process::{Pid, Signal, kill_process};

use crate::output_targets::{TINY, can_mount, script, tiny};
use crate::support::{Left, SHORT, punctual, run};

/// The run that a message says is kept.
fn kept(stderr: &str) -> PathBuf {
    let rest = stderr.split("kept in ").nth(1).unwrap_or_else(|| panic!("{stderr}"));
    rest.split(';').next().unwrap().into()
}

#[test]
fn a_run_that_reaches_no_file_is_kept_and_the_tables_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    for target in ["--json", "--html", "--csv"] {
        let left = script(folder.path(), &format!("\"$@\" {target} /dev/full"));
        assert_eq!(left.code, Some(1), "{target}: {}", left.stderr);
        assert!(left.stdout.contains("nanosleep"), "{target}: the tables are shown");
        assert!(left.stderr.contains("/dev/full") && left.stderr.contains("No space left"), "{}", left.stderr);
        let seen = run(&["report", kept(&left.stderr).to_str().unwrap()]);
        assert!(seen.code == Some(0) && seen.stdout.contains("nanosleep"), "{target}: {}", seen.stderr);
    }
    // What is in one file is not lost.
    let left = script(folder.path(), "\"$@\" --csv /dev/full --json good");
    assert_eq!(left.code, Some(1));
    assert!(left.stderr.contains("the run is in good") && !left.stderr.contains("kept"), "{}", left.stderr);
    assert!(Run::from_json(File::open(folder.path().join("good")).unwrap()).is_ok());
    // A limit of file sizes is an error, not the end of the process.
    let left = script(folder.path(), "ulimit -f 1; \"$@\" --json small; code=$?; ls small; exit $code");
    assert!(left.code == Some(1) && left.stdout.contains("nanosleep"), "{:?} {}", left.code, left.stderr);
    assert!(left.stderr.contains("File too large") && !folder.path().join("small").exists(), "{}", left.stderr);
}

#[test]
fn a_disk_that_fills_up_meanwhile_loses_nothing() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("small")).unwrap();
    // The room is taken while it measures; what the old file holds stays.
    let text = "\
        mount -t tmpfs -o size=128k none small && echo old > small/run && \
        { \"$1\" wait nanosleep spin_clock futex ppoll --for 50us,100us,200us --duration MEASURED --rounds 40 --quiet \
        --json small/run --csv good & } && sleep FILLED && { head -c 1m /dev/zero > small/fill 2> /dev/null; true; } && \
        wait $!; code=$?; cat small/run; exit $code";
    let left = undisturbed(|longer| {
        let measured = format!("{}ms", 900 * longer);
        let text = text.replace("MEASURED", &measured).replace("FILLED", &format!("{:.1}", 0.4 * f64::from(longer)));
        let left = script(folder.path(), &format!("exec unshare -m sh -c '{text}' sh \"$@\""));
        match left.code {
            Some(0) => Err(Disturbed(format!("it ended before the disk was full: {}", left.stderr))),
            Some(2) => Err(Disturbed(format!("it began when the disk was full: {}", left.stderr))),
            _ => Ok(left),
        }
    });
    assert_eq!(left.code, Some(1), "{}", left.stderr);
    assert!(left.stdout.ends_with("old\n"), "the old file is as it was: {}", left.stdout);
    assert!(left.stderr.contains("small/run") && left.stderr.contains("No space left"), "{}", left.stderr);
    assert!(Run::from_json(File::open(kept(&left.stderr)).unwrap()).is_ok());
    assert!(fs::read_to_string(folder.path().join("good")).unwrap().lines().count() > 1);
}

#[test]
fn a_pipe_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    let left = tiny(folder.path(), &["--json", "pipe"]);
    assert!(left.code == Some(2) && left.stderr.contains("nothing reads this pipe"), "{}", left.stderr);
    // Its reader takes nothing, and there is no room for more.
    let mut reader = File::options()
        .read(true)
        .write(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(&path)
        .unwrap();
    while reader.write(&[0; 4096]).is_ok() {}
    let mut command = punctual(&[&TINY[..], &["--json", "pipe", "--csv", "first"]].concat());
    command.env("XDG_STATE_HOME", folder.path()).current_dir(folder.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !folder.path().join("first").exists() {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let left: Left = child.wait_with_output().unwrap().into();
    assert_eq!(left.code, Some(130), "{}", left.stderr);
    assert!(left.stdout.contains("nanosleep"), "{}", left.stdout);
    assert!(Run::from_json(File::open(kept(&left.stderr)).unwrap()).is_ok());
}

#[test]
fn limits_decide_whatever_becomes_of_the_reader() {
    let folder = tempfile::tempdir().unwrap();
    for (left, status) in [("\"$@\" --fail-above p50=1ns", 3), ("\"$@\"", 0)] {
        for form in ["", "--json -", "--csv /dev/stdout"] {
            let text = format!("{{ {left} {form}; echo $? > status; }} | true; cat status");
            assert_eq!(script(folder.path(), &text).stdout.trim(), status.to_string(), "{left} {form} | true");
        }
        for to in [">&-", ">/dev/full"] {
            let status = if status == 0 { 1 } else { status };
            assert_eq!(script(folder.path(), &format!("{left} {to}")).code, Some(status), "{left} {to}");
        }
    }
    for (name, wait) in [("a", "100us"), ("b", "300us")] {
        let args = ["wait", "nanosleep", "--for", wait, "--samples", "200", "--quiet", "--json", name];
        assert_eq!(punctual(&args).current_dir(folder.path()).output().unwrap().status.code(), Some(0));
    }
    for form in ["", "--format json", "--format markdown", "--html -"] {
        let compare = format!("\"$1\" compare a b --fail-if \"any +0.1%\" {form}");
        let text = format!("{{ {compare} 2> said; echo $? > status; }} | true; cat status");
        assert_eq!(script(folder.path(), &text).stdout.trim(), "4", "{form} | true");
        assert_eq!(script(folder.path(), &format!("{compare} > /dev/full")).code, Some(4), "{form} > /dev/full");
    }
    let left = script(folder.path(), "\"$1\" compare a b --html - > page");
    assert!(
        left.code == Some(1) && left.stderr.contains("nothing could be compared"),
        "{:?} {}",
        left.code,
        left.stderr
    );
}

#[test]
fn help_that_cannot_be_printed_is_a_failure() {
    for args in [&["--help"][..], &["--version"], &["wait", "-h"], &["wait", "--list"], &["governor"]] {
        let full = punctual(args).stdout(File::options().write(true).open("/dev/full").unwrap()).output().unwrap();
        assert_eq!(full.status.code(), Some(1), "{args:?}");
        assert!(String::from_utf8_lossy(&full.stderr).contains("No space left"), "{args:?}");
        assert_eq!(run(args).code, Some(0), "{args:?}");
    }
}

#[test]
fn few_descriptors_lose_no_measurement() {
    let folder = tempfile::tempdir().unwrap();
    for most in 3..12 {
        let text = format!("rm -f f; ulimit -n {most}; exec \"$@\" --json f");
        let left = script(folder.path(), &text);
        match left.code {
            Some(0) => assert!(is_complete(&folder.path().join("f")), "{most}"),
            // The loader of the program itself needs some.
            Some(1 | 2 | 127) => assert!(left.stdout.is_empty(), "{most}: measured, and lost: {}", left.stderr),
            other => panic!("{most}: {other:?} {}", left.stderr),
        }
    }
}

fn is_complete(path: &Path) -> bool {
    Run::from_json(File::open(path).unwrap()).is_ok_and(|run| run.complete)
}

#[test]
fn killed_while_it_writes_it_leaves_a_whole_file_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (a, b, m) = (path("a"), path("b"), path("m/merged"));
    for name in [&a, &b] {
        let args = [&["wait", "nanosleep", "usleep", "--for", "20us", "--json", name][..], &SHORT].concat();
        assert_eq!(run(&args).code, Some(0));
    }
    fs::create_dir(path("m")).unwrap();
    let merge = ["merge", a.as_str(), &b, "-o", &m];
    let begin = std::time::Instant::now();
    assert_eq!(run(&merge).code, Some(0));
    let whole = begin.elapsed();
    for number in 0..40 {
        let mut child = punctual(&merge).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * number / 32);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_complete(Path::new(&m)), "the old or the new, and all of it");
    }
    // What had begun to take the name ends by itself.
    until("no other name", || fs::read_dir(path("m")).unwrap().count() == 1);
}
