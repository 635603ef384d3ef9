//! `punctual run` changes the waits of a program by a library.

use std::path::Path;
use std::process::{Command, Output};

/// A folder as after an installation: bin/punctual, and the library in lib or not.
fn installed(with_library: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["bin", "lib"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    std::fs::copy(env!("CARGO_BIN_EXE_punctual"), folder.path().join("bin/punctual")).unwrap();
    if with_library {
        let library = punctual_testing::library("punctual-preload");
        std::fs::copy(library, folder.path().join("lib/libpunctual_preload.so")).unwrap();
    }
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(folder.join("bin/punctual")).arg("run").args(arguments).env_remove("LD_PRELOAD").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_program_gets_the_library_and_its_settings() {
    let folder = installed(true);
    let script = "echo $LD_PRELOAD; echo $PUNCTUAL_PRELOAD; exit 4";
    let remedies = ["--usleep0", "yield", "--sched-yield", "backoff", "--precise-sleep=5us", "--poll-first", "20us"];
    let output = run(folder.path(), &[&remedies[..], &["--", "sh", "-c", script]].concat());
    let library = folder.path().canonicalize().unwrap().join("lib/libpunctual_preload.so");
    let settings = "usleep0=yield,sched_yield=backoff,precise=lateness:5000:0.99,poll_first=20000";
    assert_eq!(text(&output.stdout), format!("{}\n{settings}\n", library.display()));
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(4), String::new()));
    let bare = run(folder.path(), &["--", "sh", "-c", script]);
    assert_eq!(text(&bare.stdout), "\n\n", "nothing is loaded unasked");
    let planned = run(folder.path(), &["--dry-run", "--usleep0", "pause", "--", "sh"]);
    assert!(
        text(&planned.stdout).contains("libpunctual_preload.so with PUNCTUAL_PRELOAD=usleep0=pause\nrun sh"),
        "{planned:?}"
    );
}

#[test]
fn a_missing_library_is_said_and_the_program_runs() {
    let folder = installed(false);
    let output = run(folder.path(), &["--usleep0", "yield", "--", "sh", "-c", "exit 3"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("libpunctual_preload.so was not found in") && said.contains("--timer-slack"), "{said}");
    let required = run(folder.path(), &["--require", "--usleep0", "yield", "--", "sh", "-c", "exit 3"]);
    assert!(required.status.code() != Some(3) && text(&required.stderr).contains("--require"), "{required:?}");
}

#[test]
fn a_program_that_would_not_see_it_is_named_and_runs_unchanged() {
    let folder = installed(true);
    let program = folder.path().join("static");
    let source = folder.path().join("static.c");
    std::fs::write(&source, "int main(void) { return 6; }").unwrap();
    let compiled = Command::new("cc").arg("-static").arg("-o").arg(&program).arg(&source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return punctual_testing::lacks("cc -static");
    }
    let output = run(folder.path(), &["--precise-sleep", "--", program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(6));
    assert!(text(&output.stderr).contains("is linked statically"), "{output:?}");
}

#[test]
fn bad_values_are_refused_before_the_program_runs() {
    let folder = installed(true);
    for (arguments, said) in [
        (&["--usleep0", "keep"][..], "yield"),
        (&["--sched-yield", "yield"], "pause"),
        (&["--precise-sleep=2ms"], "example: 5us, or 5%"),
        (&["--precise-sleep=0%"], "example: 5%"),
        (&["--poll-first", "2s"], "example: 20us"),
    ] {
        let output = run(folder.path(), &[arguments, &["--", "sh", "-c", "exit 3"]].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(said), "{output:?}");
    }
}
