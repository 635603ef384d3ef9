//! Programs of C see the same with `libpunctual_mpi.so` as without it. They run under MPICH and Open MPI, in both ways of
//! waiting.

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{MPICH, Mpi, OPEN_MPI, Program, Wait, library};

/// `punctual_mpi_way` after each run: through the progress function, then by nonblocking counterpart.
const BOTH: [u32; 2] = [2, 3];
/// Fortran of Open MPI calls no function of C that could ask.
const UNASKED: [u32; 2] = [0, 0];

/// What a program writes about its messages does not change, and its ranks have yielded.
fn same(mpi: &Mpi, program: Option<Program>, ranks: usize, ways: [u32; 2]) {
    let Some(program) = program else { return };
    let bare = program.run(ranks, Wait::Bare, &[]);
    assert!(bare.logs.iter().all(|log| log.ends_with("end\n")), "{bare:?}");
    assert_eq!((bare.ways, bare.yields), (vec![0; ranks], 0));
    for (wait, way) in [Wait::Progress, Wait::Nonblocking].into_iter().zip(ways) {
        let seen = program.run(ranks, wait, &[]);
        assert_eq!(seen.ways, vec![way; ranks], "{} {wait:?}", mpi.name);
        assert!(seen.yields > 0, "{} {wait:?}", mpi.name);
        for (rank, (with, without)) in seen.logs.iter().zip(&bare.logs).enumerate() {
            assert_eq!(with, without, "{} {wait:?}, rank {rank}", mpi.name);
        }
    }
}

#[test]
fn messages_under_mpich() {
    same(&MPICH, MPICH.compile("messages.c"), 4, BOTH);
}

#[test]
fn messages_under_open_mpi() {
    same(&OPEN_MPI, OPEN_MPI.compile("messages.c"), 4, BOTH);
}

#[test]
fn collectives_under_mpich() {
    same(&MPICH, MPICH.compile("collectives.c"), 4, BOTH);
}

#[test]
fn collectives_under_open_mpi() {
    same(&OPEN_MPI, OPEN_MPI.compile("collectives.c"), 4, BOTH);
}

#[test]
fn threads_under_mpich() {
    same(&MPICH, MPICH.compile("threads.c"), 2, BOTH);
}

#[test]
fn threads_under_open_mpi() {
    same(&OPEN_MPI, OPEN_MPI.compile("threads.c"), 2, BOTH);
}

#[test]
fn fortran_under_mpich() {
    same(&MPICH, MPICH.compile_fortran("ring.f90", "way.c"), 2, BOTH);
}

#[test]
fn fortran_under_open_mpi() {
    same(&OPEN_MPI, OPEN_MPI.compile_fortran("ring.f90", "way.c"), 2, UNASKED);
}

#[test]
fn polls_can_be_fixed_and_zero_never_yields() {
    for mpi in [MPICH, OPEN_MPI] {
        let Some(program) = mpi.compile("roundtrips.c") else { continue };
        let never = program.run(2, Wait::Progress, &[("PUNCTUAL_MPI_POLLS", "0")]);
        assert_eq!(never.yields, 0, "{}", mpi.name);
        let always = program.run(2, Wait::Progress, &[("PUNCTUAL_MPI_POLLS", "1")]);
        let seldom = program.run(2, Wait::Progress, &[("PUNCTUAL_MPI_POLLS", "1000000")]);
        assert!(always.yields > seldom.yields, "{}: {} and {}", mpi.name, always.yields, seldom.yields);
        let sleeps = [("PUNCTUAL_MPI_POLLS", "1"), ("PUNCTUAL_MPI_SLEEP_NS", "2000")];
        assert!(program.run(2, Wait::Nonblocking, &sleeps).yields > 0, "{}", mpi.name);
    }
}

#[test]
fn a_replaced_sched_yield_is_the_programs_alone() {
    for mpi in [MPICH, OPEN_MPI] {
        let Some(program) = mpi.compile("roundtrips.c") else { continue };
        let replaced = program.shared_object("replaced_yield.c");
        let preload = format!("{}:{}", library().display(), replaced.display());
        let seen = program.run(2, Wait::Progress, &[("PUNCTUAL_MPI_POLLS", "1"), ("LD_PRELOAD", &preload)]);
        assert!(seen.yields > 0, "{}", mpi.name);
    }
}

#[test]
fn ranks_of_mpich_are_in_one_session() {
    let sessions = |preload| {
        let said = MPICH.launcher(preload)?.args(["-n", "2", "cut", "-d ", "-f6", "/proc/self/stat"]).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        Some(said.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let (Some(with), Some(without)) = (sessions(true), sessions(false)) else { return };
    assert_eq!((with.len(), without.len()), (2, 2));
    assert_eq!(with[0], with[1]);
    assert_ne!(without[0], without[1], "the launcher makes a session for each rank");
}

#[test]
fn ranks_of_mpich_end_with_their_launcher() {
    let Some(mut launcher) = MPICH.launcher(true) else { return };
    launcher.args(["-n", "1", "sh", "-c", "echo $$; exec sleep 1000"]).stdout(Stdio::piped());
    let mut launcher = launcher.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(launcher.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let rank = Path::new("/proc").join(line.trim());
    assert!(rank.join("stat").exists(), "{line}");
    let kill = format!("kill -TERM {}", launcher.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    launcher.wait().unwrap();
    while rank.join("stat").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_program_without_mpi_is_as_it_was() {
    let run = |preload: bool| {
        let mut command = Command::new("sh");
        if preload {
            command.env("LD_PRELOAD", library());
        }
        command.args(["-c", "echo out; echo err >&2; exit 7"]).output().unwrap()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn nothing_is_exported_but_calls_of_mpi() {
    let said = match Command::new("nm").args(["-D", "--defined-only", "--format=just-symbols"]).arg(library()).output()
    {
        Ok(said) if said.status.success() => String::from_utf8(said.stdout).unwrap(),
        _ => return punctual_testing::skip("nm is not installed (binutils)"),
    };
    let ours = |name: &&str| {
        ["MPI_", "mpi_", "punctual_mpi_"].iter().any(|start| name.starts_with(start))
            || ["ucp_worker_progress", "opal_progress", "setsid"].contains(name)
    };
    assert!(said.lines().count() > 150, "{said}");
    assert_eq!(said.lines().filter(|name| !ours(name)).collect::<Vec<_>>(), [""; 0]);
}
