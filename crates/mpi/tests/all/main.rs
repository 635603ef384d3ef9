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
const LEFT_ALONE: [u32; 2] = [1, 1];
/// Threads of Open MPI that may wait together.
const THREADS: [u32; 2] = [1, 3];

/// What a program writes about its messages does not change, and its ranks have yielded unless they are left alone.
fn same(mpi: &Mpi, program: Option<Program>, ranks: usize, ways: [u32; 2]) {
    let Some(program) = program else { return };
    let bare = program.run(ranks, Wait::Bare, &[]);
    assert!(bare.logs.iter().all(|log| log.ends_with("end\n")), "{bare:?}");
    assert_eq!((bare.ways, bare.yields), (vec![0; ranks], 0));
    for (wait, way) in [Wait::Progress, Wait::Nonblocking].into_iter().zip(ways) {
        let seen = program.run(ranks, wait, &[]);
        assert_eq!(seen.ways, vec![way; ranks], "{} {wait:?}", mpi.name);
        assert_eq!(seen.yields > 0, way != LEFT_ALONE[0], "{} {wait:?}", mpi.name);
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
    same(&OPEN_MPI, OPEN_MPI.compile("threads.c"), 2, THREADS);
}

#[test]
fn several_threads_of_open_mpi_are_left_alone() {
    same(&OPEN_MPI, OPEN_MPI.compile("second_thread.c"), 2, THREADS);
}

/// `MPI_Abort`, or the death of a rank, ends the others as it does bare.
fn same_end(how: &str) {
    for mpi in [MPICH, OPEN_MPI] {
        let Some(program) = mpi.compile("ends.c") else { continue };
        let status = |wait| program.launch(2, wait, &program.log("end")).env("HOW", how).output().unwrap().status;
        let bare = status(Wait::Bare);
        assert!(!bare.success() && bare.code() != Some(124), "{} {how}: {bare}", mpi.name);
        for wait in [Wait::Progress, Wait::Nonblocking] {
            assert_eq!(status(wait), bare, "{} {wait:?} {how}", mpi.name);
        }
    }
}

#[test]
fn an_abort_ends_a_rank_that_waits() {
    same_end("abort");
}

#[test]
fn the_death_of_a_rank_ends_one_that_waits() {
    same_end("kill");
}

#[test]
fn disabled_it_leaves_every_call_alone() {
    for mpi in [MPICH, OPEN_MPI] {
        let Some(program) = mpi.compile("roundtrips.c") else { continue };
        for wait in [Wait::Progress, Wait::Nonblocking] {
            let seen = program.run(2, wait, &[("PUNCTUAL_DISABLE", "1"), ("PUNCTUAL_MPI_POLLS", "1")]);
            assert_eq!((seen.yields, seen.ways), (0, LEFT_ALONE.to_vec()), "{}", mpi.name);
        }
    }
}

#[test]
fn open_mpi_that_yields_itself_is_left_alone() {
    let Some(program) = OPEN_MPI.compile("roundtrips.c") else { return };
    let itself = ("OMPI_MCA_mpi_yield_when_idle", "1");
    let seen = program.run(2, Wait::Progress, &[itself]);
    assert_eq!((seen.yields, seen.ways), (0, LEFT_ALONE.to_vec()));
    let seen = program.run(2, Wait::Progress, &[itself, ("PUNCTUAL_MPI_POLLS", "1")]);
    assert!(seen.yields > 0, "what was asked for is done");
}

#[test]
fn fortran_under_mpich() {
    same(&MPICH, MPICH.compile_fortran("ring.f90", "way.c"), 2, BOTH);
}

#[test]
fn fortran_under_open_mpi() {
    same(&OPEN_MPI, OPEN_MPI.compile_fortran("ring.f90", "way.c"), 2, BOTH);
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
fn the_launcher_of_mpich_makes_one_session() {
    let sessions = |preload, disabled| {
        let mut launcher = MPICH.launcher(preload)?;
        launcher.env("PUNCTUAL_DISABLE", disabled);
        let said = launcher.args(["-n", "2", "cut", "-d ", "-f6", "/proc/self/stat"]).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        Some(said.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    for (preload, disabled, one) in [(true, "0", true), (false, "0", false), (true, "1", false)] {
        let Some(sessions) = sessions(preload, disabled) else { return };
        assert_eq!(sessions.len(), 2);
        assert_eq!(sessions[0] == sessions[1], one, "{preload} {disabled}");
    }
}

#[test]
fn ranks_of_mpich_that_have_a_cpu_each_have_a_session_each() {
    let Some(program) = MPICH.compile("session.c") else { return };
    let sessions = |mut launcher: Command, log: &Path| {
        assert!(launcher.status().unwrap().success());
        [0, 1].map(|rank| std::fs::read_to_string(format!("{}.{rank}", log.display())).unwrap())
    };
    let log = program.log("one-cpu");
    assert_eq!(sessions(program.launch(2, Wait::Progress, &log), &log), ["of another\nend\n"; 2]);
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return punctual_testing::lacks(punctual_testing::Lack::Cpus(2));
    }
    let log = program.log("cpus");
    assert_eq!(sessions(program.launch_everywhere(2, &log), &log), ["its own\nend\n"; 2]);
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
        ["MPI_", "mpi_", "punctual_mpi_", "PUNCTUAL_MPI_"].iter().any(|start| name.starts_with(start))
            || ["ucp_worker_progress", "opal_progress", "setsid"].contains(name)
    };
    assert!(said.lines().count() > 150, "{said}");
    assert_eq!(said.lines().filter(|name| !ours(name)).collect::<Vec<_>>(), [""; 0]);
}
