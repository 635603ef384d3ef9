//! `punctual run --mpi` loads the library whose ranks yield while they wait.

use std::path::Path;
use std::process::{Command, Output};

/// A folder with the command, and beside it these libraries.
fn installed(libraries: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    punctual_testing::copy(Path::new(env!("CARGO_BIN_EXE_punctual")), &folder.path().join("punctual"));
    for library in libraries {
        let package = if *library == MPI { "punctual-mpi" } else { "punctual-preload" };
        std::fs::copy(punctual_testing::library(package), folder.path().join(library)).unwrap();
    }
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(folder.join("punctual")).arg("run").args(arguments).env_remove("LD_PRELOAD").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a script printed, without what stands before a library's path for glibc alone.
fn printed(output: &Output) -> String {
    text(&output.stdout).replace("/$LIB/../../../../../../../..", "")
}

const MPI: &str = "libpunctual_mpi.so";
const WAITS: &str = "libpunctual_preload.so";
const SCRIPT: [&str; 4] = ["--", "sh", "-c", "echo $LD_PRELOAD; echo $PUNCTUAL_MPI_POLLS $PUNCTUAL_MPI_SLEEP_NS"];

#[test]
fn the_ranks_inherit_the_library_and_its_settings() {
    let folder = installed(&[MPI, WAITS]);
    let at = |library| folder.path().canonicalize().unwrap().join(library).display().to_string();
    let asked = ["--mpi", "--polls", "7", "--longest-sleep", "3us"];
    let said = run(folder.path(), &[&asked[..], &SCRIPT].concat());
    assert_eq!(printed(&said), format!("{}\n7 3000\n", at(MPI)));
    let learned = run(folder.path(), &[&["--mpi"], &SCRIPT[..]].concat());
    assert_eq!(printed(&learned), format!("{}\n\n", at(MPI)));
    let both = run(folder.path(), &[&["--mpi", "--usleep0", "yield"], &SCRIPT[..]].concat());
    assert_eq!(printed(&both), format!("{}:{}\n\n", at(MPI), at(WAITS)));
    let bare = run(folder.path(), &SCRIPT);
    assert_eq!(text(&bare.stdout), "\n\n", "nothing is loaded unasked");
    let planned = run(folder.path(), &[&["--dry-run"], &asked[..], &["sh"]].concat());
    let step = format!("load {} with PUNCTUAL_MPI_POLLS=7 and PUNCTUAL_MPI_SLEEP_NS=3000\nrun sh\n", at(MPI));
    assert!(text(&planned.stdout).starts_with(&step), "{planned:?}");
}

#[test]
fn settings_out_of_range_are_refused() {
    let folder = installed(&[MPI]);
    for bad in [["--polls", "x"], ["--polls", "1000000000"], ["--longest-sleep", "0"]] {
        let said = run(folder.path(), &[&["--mpi"], &bad[..], &["--", "echo", "ran"]].concat());
        assert_eq!((said.status.code(), text(&said.stdout).as_str()), (Some(2), ""), "{bad:?}");
        assert!(text(&said.stderr).contains(&format!("invalid {} '{}'", bad[0], bad[1])), "{said:?}");
    }
}
