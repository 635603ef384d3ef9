//! Compiles and runs the programs in `tests/programs`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI library of Debian. Both can be installed beside each other.
pub(crate) struct Mpi {
    pub(crate) name: &'static str,
    packages: &'static str,
    compiler: &'static str,
    fortran: &'static str,
    launcher: &'static [&'static str],
}

pub(crate) const MPICH: Mpi = Mpi {
    name: "MPICH",
    packages: "mpich libmpich-dev",
    compiler: "mpicc.mpich",
    fortran: "mpif90.mpich",
    launcher: &["mpirun.mpich"],
};
pub(crate) const OPEN_MPI: Mpi = Mpi {
    name: "Open MPI",
    packages: "openmpi-bin libopenmpi-dev",
    compiler: "mpicc.openmpi",
    fortran: "mpif90.openmpi",
    launcher: &["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"],
};

/// How ranks wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wait {
    /// Without the library.
    Bare,
    /// In the functions through which the MPI library polls.
    Progress,
    /// By nonblocking counterpart.
    Nonblocking,
}

/// What the ranks of a run have seen.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The log of each rank.
    pub(crate) logs: Vec<String>,
    /// `punctual_mpi_way` of each rank.
    pub(crate) ways: Vec<u32>,
    /// Yields of all ranks.
    pub(crate) yields: u64,
}

/// A compiled program of `tests/programs`.
pub(crate) struct Program<'a> {
    mpi: &'a Mpi,
    file: PathBuf,
    folder: tempfile::TempDir,
}

impl Mpi {
    /// The launcher, with or without the library, or nothing where it is not installed.
    pub(crate) fn launcher(&self, preload: bool) -> Option<Command> {
        if Command::new(self.launcher[0]).arg("--version").output().is_err() {
            punctual_testing::skip(&format!("{} is not installed (apt install {})", self.name, self.packages));
            return None;
        }
        let mut command = Command::new(self.launcher[0]);
        command.args(&self.launcher[1..]);
        if preload {
            command.env("LD_PRELOAD", library());
        }
        Some(command)
    }

    /// Compiles a program of C, or says what is not installed.
    pub(crate) fn compile(&self, program: &str) -> Option<Program<'_>> {
        self.compiled(self.compiler, self.packages, &[program])
    }

    /// Compiles a program of Fortran, with a part in C, or says what is not installed.
    pub(crate) fn compile_fortran(&self, program: &str, part: &str) -> Option<Program<'_>> {
        if Command::new("gfortran").arg("--version").output().is_err() {
            punctual_testing::skip("gfortran is not installed");
            return None;
        }
        self.compiled(self.fortran, self.packages, &[program, part])
    }

    fn compiled(&self, compiler: &str, packages: &str, sources: &[&str]) -> Option<Program<'_>> {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        let mut command = Command::new(compiler);
        command.current_dir(folder.path()).args(["-O1", "-pthread", "-o"]).arg(&file);
        match command.args(sources.iter().map(|source| programs.join(source))).arg("-ldl").output() {
            Ok(said) if said.status.success() => Some(Program { mpi: self, file, folder }),
            Ok(said) => panic!("{sources:?}: {}", String::from_utf8_lossy(&said.stderr)),
            Err(_) => {
                punctual_testing::skip(&format!("{} is not installed (apt install {packages})", self.name));
                None
            }
        }
    }
}

impl Program<'_> {
    /// Compiles a library beside it.
    pub(crate) fn shared_object(&self, source: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
        let file = self.folder.path().join("library.so");
        let mut command = Command::new(self.mpi.compiler);
        let said = command.args(["-shared", "-fPIC", "-o"]).arg(&file).arg(source).arg("-ldl").output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        file
    }

    /// The launcher that runs it with a log. Ranks that yield share one CPU; those that do not would take minutes there.
    pub(crate) fn launch(&self, ranks: usize, wait: Wait, log: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "400"]);
        if wait != Wait::Bare {
            command.args(["taskset", "-c", &punctual_testing::first_cpu().to_string()]);
        }
        self.load(&mut command, ranks, wait, log);
        command
    }

    /// The launcher that runs it on every CPU.
    pub(crate) fn launch_everywhere(&self, ranks: usize, log: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "400"]);
        self.load(&mut command, ranks, Wait::Progress, log);
        command
    }

    fn load(&self, command: &mut Command, ranks: usize, wait: Wait, log: &Path) {
        if wait != Wait::Bare {
            command.env("LD_PRELOAD", library());
        }
        if wait == Wait::Nonblocking {
            command.env("PUNCTUAL_MPI_WAIT", "nonblocking");
        }
        command.args(self.mpi.launcher).args(["-n", &ranks.to_string()]).arg(&self.file).arg(log);
        // Where mpirun of Open MPI sees more ranks than CPUs, it lets them yield itself.
        command.env("OMPI_MCA_mpi_yield_when_idle", "0");
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }

    /// A new file's path for logs.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs it.
    pub(crate) fn run(&self, ranks: usize, wait: Wait, settings: &[(&str, &str)]) -> Seen {
        let log = self.log(&format!("{wait:?}"));
        let said = self.launch(ranks, wait, &log).envs(settings.iter().copied()).output().unwrap();
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{} {wait:?}: {} {errors}", self.mpi.name, said.status);
        let read = |end: &str| -> Vec<String> {
            let file = |rank| format!("{}.{rank}{end}", log.display());
            (0..ranks).map(|rank| std::fs::read_to_string(file(rank)).unwrap()).collect()
        };
        let how: Vec<(u32, u64)> = read(".way").iter().map(|line| numbers(line)).collect();
        Seen {
            logs: read(""),
            ways: how.iter().map(|(way, _)| *way).collect(),
            yields: how.iter().map(|(_, yields)| yields).sum(),
        }
    }
}

fn numbers(line: &str) -> (u32, u64) {
    let (way, yields) = line.trim().split_once(' ').unwrap();
    (way.parse().unwrap(), yields.parse().unwrap())
}

/// The library that cargo has built for these tests.
pub(crate) fn library() -> PathBuf {
    punctual_testing::library("punctual-mpi")
}
