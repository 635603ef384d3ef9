//! A machine: what it boots and contains, and the result of its command.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::acpi::{self, Firmware, Table};
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;
use crate::tools;

/// A CPU model that acpi-cpufreq accepts: `max` alone is an AMD family that it refuses. Linux 7.3 takes the TSC of Ivy Bridge for constant
/// although CPUID does not say so. It gave up that of a Skylake at the first change of frequency.
const USUAL_CPU: &str = "max,vendor=GenuineIntel,family=6,model=58,stepping=9";
/// Default time limit.
const USUAL_LIMIT: Duration = Duration::from_secs(120);

/// The user that runs the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// uid 0.
    Root,
    /// uid 1000, without privileges.
    Plain,
}

/// A machine to boot.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The kernel.
    pub kernel: Kernel,
    /// CPUs, 1 to 8: each needs its own I/O port.
    pub cpus: u32,
    /// Memory.
    pub memory_mb: u32,
    /// Firmware tables.
    pub tables: Vec<Table>,
    /// Kernel modules, which are loaded with their dependencies.
    pub modules: Vec<String>,
    /// Words at the end of the kernel's command line.
    pub append: String,
    /// Files and folders of the host, and their paths in the guest; a dynamic program brings its libraries.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// A folder of the host on `/out`, writable.
    pub share: Option<PathBuf>,
    /// The user that runs the command.
    pub user: User,
    /// The time limit.
    pub limit: Duration,
    /// Whether the machine is stopped meanwhile.
    pub stops: Option<Stops>,
}

/// When the machine is stopped, again and again (SIGSTOP, SIGCONT).
#[derive(Debug, Clone)]
pub struct Stops {
    /// Once its command has written this text.
    pub after: String,
    /// For this long.
    pub time: Duration,
}

/// The machine runs for so long between two stops.
const BETWEEN_STOPS: Duration = Duration::from_millis(180);

/// The result of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The exit status.
    pub status: u8,
    /// Its stdout.
    pub stdout: String,
    /// Its stderr.
    pub stderr: String,
    /// The kernel's console.
    pub console: String,
}

impl Machine {
    /// A machine with two CPUs and 512 MB.
    #[must_use]
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            cpus: 2,
            memory_mb: 512,
            tables: Vec::new(),
            modules: Vec::new(),
            append: String::new(),
            files: Vec::new(),
            share: None,
            user: User::Root,
            limit: USUAL_LIMIT,
            stops: None,
        }
    }

    /// Adds a file or folder of the host at a path in the guest.
    #[must_use]
    pub fn file(mut self, host: impl Into<PathBuf>, guest: impl Into<PathBuf>) -> Self {
        self.files.push((host.into(), guest.into()));
        self
    }

    /// Adds a program of the host to `/usr/bin`.
    #[must_use]
    pub fn program(self, host: impl Into<PathBuf>) -> Self {
        let host = host.into();
        let guest = Path::new("usr/bin").join(host.file_name().unwrap_or(OsStr::new("program")));
        self.file(host, guest)
    }

    /// Boots it and runs a shell script in `/root` (a plain user: in `/tmp`).
    ///
    /// At most one machine for each CPU of this host runs at a time: emulation takes a whole CPU.
    pub fn run(&self, script: &str) -> anyhow::Result<Done> {
        let lacks = tools::missing();
        if !lacks.is_empty() {
            bail!("the kernel lab lacks {}", lacks.join(", "));
        }
        if !self.kernel.is_here() {
            bail!("kernel {0} is not cached; run cargo xtask vm --fetch {0}", self.kernel);
        }
        let work = tempfile::Builder::new().prefix("punctual-vm-").tempdir()?;
        let firmware = acpi::make(&self.tables, self.cpus, work.path())?;
        let archive = self.archive(&firmware, script)?;
        std::fs::write(work.path().join("initrd"), archive)?;
        let _turn = turn()?;
        self.boot(&firmware, work.path())
    }

    fn archive(&self, firmware: &Firmware, script: &str) -> anyhow::Result<Vec<u8>> {
        let mut archive = Initramfs::base()?;
        for (host, guest) in &self.files {
            archive.host_file(host, guest)?;
        }
        let mut wanted: Vec<&str> = firmware.modules.clone();
        wanted.extend(self.modules.iter().map(String::as_str));
        if self.share.is_some() {
            wanted.extend(["virtio_pci", "9pnet_virtio", "9p"]);
            archive.file(Path::new("lab/share"), 0o644, b"");
        }
        let mut list = String::new();
        for module in wanted {
            self.add_module(module, &mut archive, &mut list)?;
        }
        archive.file(Path::new("lab/module-list"), 0o644, list.as_bytes());
        let user: &[u8] = if self.user == User::Root { b"root" } else { b"user" };
        archive.file(Path::new("lab/user"), 0o644, user);
        archive.file(Path::new("lab/command"), 0o755, script.as_bytes());
        Ok(archive.finish())
    }

    /// A module and its dependencies, in the order of loading.
    fn add_module(&self, name: &str, archive: &mut Initramfs, list: &mut String) -> anyhow::Result<()> {
        let version = self.kernel.version()?;
        let told = tools::output(tools::command("modprobe")?.arg("-d").arg(self.kernel.folder()).args([
            "-S",
            &version,
            "--show-depends",
            name,
        ]))?;
        for line in String::from_utf8_lossy(&told).lines() {
            // "insmod PATH PARAMETERS"; "builtin NAME" needs no file.
            let Some(rest) = line.strip_prefix("insmod ") else { continue };
            let (path, parameters) = rest.split_once(' ').unwrap_or((rest, ""));
            let (file, bytes) = tools::module(Path::new(path))?;
            let entry = format!("{file} {}\n", parameters.trim());
            if !list.contains(&entry) {
                archive.file(&Path::new("lab/modules").join(&file), 0o644, &bytes);
                list.push_str(&entry);
            }
        }
        Ok(())
    }

    fn boot(&self, firmware: &Firmware, work: &Path) -> anyhow::Result<Done> {
        let mut qemu = tools::command("qemu-system-x86_64")?;
        // One thread for all CPUs: with one per CPU, ftrace's code patching crashes the guest now and then.
        qemu.args(["-M", "q35", "-accel", "tcg,thread=single", "-nodefaults", "-display", "none", "-no-reboot"]);
        qemu.args(["-cpu", firmware.cpu.unwrap_or(USUAL_CPU)]);
        qemu.args(["-smp", &self.cpus.to_string(), "-m", &self.memory_mb.to_string()]);
        qemu.arg("-kernel").arg(self.kernel.image()).arg("-initrd").arg(work.join("initrd"));
        let fixed = "console=ttyS0,115200 quiet loglevel=7 panic=-1 tsc=reliable clocksource=tsc mitigations=off audit=0 \
                     selinux=0 apparmor=0 random.trust_cpu=1 no_timer_check";
        qemu.arg("-append").arg(format!("{fixed}{} {}", firmware.kernel, self.append));
        for line in ["console", "stdout", "stderr", "status"] {
            qemu.arg("-serial").arg(format!("file:{}", work.join(line).display()));
        }
        qemu.args(&firmware.qemu);
        if let Some(share) = &self.share {
            std::fs::create_dir_all(share).with_context(|| format!("creating {}", share.display()))?;
            qemu.arg("-virtfs")
                .arg(format!("local,path={},mount_tag=share,security_model=none,id=share", share.display()));
        }
        let complaints = File::create(work.join("qemu"))?;
        let child =
            qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints).spawn().context("starting QEMU")?;
        let ended = Running(child).wait(self.limit, self.stops.as_ref(), &work.join("stdout"))?;
        let read = |name: &str| {
            std::fs::read(work.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
        };
        let done = |status| Done { status, stdout: read("stdout"), stderr: read("stderr"), console: read("console") };
        match read("status").trim().parse() {
            Ok(status) => Ok(done(status)),
            Err(_) => {
                let Done { stdout, stderr, console, .. } = done(0);
                let tail: Vec<&str> = console.lines().rev().take(30).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                bail!(
                    "the guest reported no exit status ({ended}); it wrote:\n{stdout}\n{stderr}\nQEMU: {}\nconsole:\n{}",
                    read("qemu"),
                    tail.join("\n")
                )
            }
        }
    }
}

/// Waits until fewer machines run on this host than it has CPUs. The machine counts as long as the file is open.
fn turn() -> anyhow::Result<File> {
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let lock = |nth| File::create(crate::cache().join(format!("lock-{nth}"))).context("the lab's lock");
    let mut locks: Vec<File> = (0..most).map(lock).collect::<anyhow::Result<_>>()?;
    loop {
        for nth in 0..most {
            match flock(&locks[nth], FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(locks.swap_remove(nth)),
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error).context("waiting for another machine of the lab"),
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// QEMU, killed on drop.
struct Running(Child);

impl Running {
    fn wait(mut self, limit: Duration, stops: Option<&Stops>, stdout: &Path) -> anyhow::Result<String> {
        let until = Instant::now() + limit;
        let mut stopping = false;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status.to_string());
            }
            if Instant::now() >= until {
                return Ok(format!("killed at the time limit of {limit:?}"));
            }
            match stops {
                Some(stops) if stopping => self.stop(stops.time)?,
                Some(stops) => {
                    stopping = std::fs::read_to_string(stdout).is_ok_and(|text| text.contains(&stops.after));
                }
                None => {}
            }
            std::thread::sleep(if stopping { BETWEEN_STOPS } else { Duration::from_millis(20) });
        }
    }

    fn stop(&self, time: Duration) -> anyhow::Result<()> {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::STOP).context("stopping QEMU")?;
        std::thread::sleep(time);
        kill_process(pid, Signal::CONT).context("continuing QEMU")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Words as one shell command, each quoted.
#[must_use]
pub fn quoted(words: &[String]) -> String {
    let quote = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}
