//! What keeps the machine busy while threads cycle: threads of this process, or stress-ng.
//!
//! Each kind of load runs under SCHED_OTHER, one thread for each CPU, until it is dropped. A load that ends before is a failure of the run:
//! its figures would be those of another load.

use std::fs::OpenOptions;
use std::io::{Seek as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use punctual_linux::child::ends_with_this_thread;
use punctual_linux::signal;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid};

use crate::frame::Unavailable;

/// What a thread does until the function that it gets says no.
type Work = fn(&dyn Fn() -> bool) -> std::io::Result<()>;

/// The names of all loads that need no arguments, and what a thread of each does.
const WORK: [(&str, Work); 6] = [
    ("cpu", calculate),
    ("memory", write_memory),
    ("io", write_and_sync),
    ("fork", start_programs),
    ("timers", sleep_shortly),
    ("network", send_to_itself),
];

/// A kind of load.
#[derive(Debug, Clone)]
pub enum Load {
    /// Threads of this process with this name, and their work.
    Threads(&'static str, Work),
    /// stress-ng with these arguments.
    StressNg(Vec<String>),
}

/// The program whose arguments a load may be.
const STRESS_NG: &str = "stress-ng";

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(&(name, work)) = WORK.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Threads(name, work));
        }
        let mut words = text.split_whitespace().map(str::to_owned);
        match words.next().as_deref() {
            Some(STRESS_NG) => Ok(Self::StressNg(words.collect())),
            _ => Err("expected cpu, memory, io, fork, timers, network or 'stress-ng ARGS' (example: cpu)".into()),
        }
    }
}

impl Load {
    /// The loads of a list with commas. What follows `stress-ng` is its own, commas too.
    ///
    /// # Errors
    /// The first that is none, and what there is.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        let (names, program) = match text.find(STRESS_NG) {
            Some(at) => (text[..at].trim_end(), Some(&text[at..])),
            None => (text, None),
        };
        let (names, has_names) = match program {
            Some(_) if names.is_empty() => (names, false),
            // Before it stands a comma.
            Some(_) => (
                names.strip_suffix(',').ok_or("expected a comma before stress-ng (example: cpu,stress-ng -i 1)")?,
                true,
            ),
            None => (names, true),
        };
        names.split(',').filter(|_| has_names).map(str::trim).chain(program).map(str::parse).collect()
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StressNg(words) => write!(f, "stress-ng {}", words.join(" ")),
            Self::Threads(name, _) => f.pad(name),
        }
    }
}

/// Loads that run. Dropping it ends them.
#[derive(Debug, Default)]
pub(super) struct Loads {
    over: Arc<AtomicBool>,
    threads: Vec<(Load, JoinHandle<std::io::Result<()>>)>,
    programs: Vec<(Load, Child)>,
}

/// Time for stress-ng to end its workers and to remove its files, before it is killed.
const ENDS: Duration = Duration::from_secs(1);

impl Loads {
    /// Starts each load `times`.
    pub(super) fn start(loads: &[Load], times: usize) -> Result<Self, Unavailable> {
        let mut all = Self::default();
        for load in loads {
            match load {
                Load::StressNg(arguments) => {
                    let mut command = Command::new(STRESS_NG);
                    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
                    ends_with_this_thread(&mut command);
                    let missing =
                        |error: std::io::Error| format!("stress-ng: {error}; install it, or use another load");
                    let program = command.spawn().map_err(missing).map_err(Unavailable::because)?;
                    all.programs.push((load.clone(), program));
                }
                &Load::Threads(name, work) => {
                    for _ in 0..times {
                        let over = Arc::clone(&all.over);
                        let thread = std::thread::Builder::new().name(format!("load/{name}")).spawn(move || {
                            let _signals = signal::block_all_signals_for_this_thread();
                            work(&|| !over.load(Ordering::Acquire))
                        });
                        let failed = |error| Unavailable::because(format!("load {name}: {error}"));
                        all.threads.push((load.clone(), thread.map_err(failed)?));
                    }
                }
            }
        }
        Ok(all)
    }

    /// Why a load has ended by itself, if one has.
    pub(super) fn failed(&mut self) -> Option<Unavailable> {
        if let Some(place) = self.threads.iter().position(|(_, thread)| thread.is_finished()) {
            let (load, thread) = self.threads.swap_remove(place);
            let why = match thread.join() {
                Ok(Err(error)) => format!("load {load}: {error}"),
                Ok(Ok(())) | Err(_) => format!("load {load}: it ended before the run"),
            };
            return Some(Unavailable::because(why));
        }
        let ended = |(load, program): &(Load, Child)| {
            let ended = ended(program)?;
            let how = match (ended.exit_status(), ended.terminating_signal()) {
                (Some(status), _) => format!("exit status {status}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => "for a reason that the kernel did not say".to_owned(),
            };
            Some(format!("load {load}: it ended before the run ({how})"))
        };
        self.programs.iter().find_map(ended).map(Unavailable::because)
    }
}

/// How the program ended. It is not waited for: until then its number is that of its group, which is killed by it.
fn ended(program: &Child) -> Option<WaitIdStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(program)), options).ok().flatten()
}

impl Drop for Loads {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let until = Instant::now() + ENDS;
        for (_, program) in &mut self.programs {
            let _ = kill_process_group(Pid::from_child(program), Signal::TERM);
        }
        for (_, program) in &mut self.programs {
            while ended(program).is_none() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = kill_process_group(Pid::from_child(program), Signal::KILL);
            let _ = program.wait();
        }
        self.threads.drain(..).for_each(|(_, thread)| drop(thread.join()));
    }
}

/// Bytes written at a time.
const PIECE: usize = 64 << 10;

/// Loops.
fn calculate(goes_on: &dyn Fn() -> bool) -> std::io::Result<()> {
    while goes_on() {
        (0..10_000_u64).fold(1_u64, |x, y| std::hint::black_box(x.wrapping_mul(31).wrapping_add(y)));
    }
    Ok(())
}

/// Writes to 64 MiB of memory.
fn write_memory(goes_on: &dyn Fn() -> bool) -> std::io::Result<()> {
    let mut memory = vec![0_u8; 64 << 20];
    let mut value = 0_u8;
    while goes_on() {
        value = value.wrapping_add(1);
        memory.chunks_mut(PIECE).take_while(|_| goes_on()).for_each(|piece| piece.fill(value));
        std::hint::black_box(&memory);
    }
    Ok(())
}

/// Sleeps for 50 us at a time.
fn sleep_shortly(goes_on: &dyn Fn() -> bool) -> std::io::Result<()> {
    while goes_on() {
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

/// Writes and syncs a file.
fn write_and_sync(goes_on: &dyn Fn() -> bool) -> std::io::Result<()> {
    let flags = rustix::fs::OFlags::TMPFILE.bits().cast_signed();
    let folder = std::env::temp_dir();
    let opened = OpenOptions::new().write(true).custom_flags(flags).open(&folder);
    let named = |error: std::io::Error| std::io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    let mut file = opened.map_err(named)?;
    let piece = vec![7_u8; PIECE];
    while goes_on() {
        file.rewind()?;
        (0..64).take_while(|_| goes_on()).try_for_each(|_| file.write_all(&piece))?;
        file.sync_data()?;
    }
    Ok(())
}

/// Starts programs.
fn start_programs(goes_on: &dyn Fn() -> bool) -> std::io::Result<()> {
    while goes_on() {
        Command::new("true").stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    }
    Ok(())
}

/// Sends datagrams to itself.
fn send_to_itself(goes_on: &dyn Fn() -> bool) -> std::io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut datagram = [0_u8; 1400];
    while goes_on() {
        socket.send(&datagram)?;
        let _ = socket.recv(&mut datagram);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_load_has_its_name_runs_and_ends() {
        let names = "cpu memory io fork timers network";
        let loads: Vec<Load> = names.split(' ').map(|name| name.parse().unwrap()).collect();
        assert_eq!(loads.iter().map(Load::to_string).collect::<Vec<_>>().join(" "), names);
        let mut running = Loads::start(&loads, 1).unwrap();
        assert_eq!(running.threads.len(), 6);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(running.failed(), None);
        drop(running);
        let stress: Load = "stress-ng --cpu 2".parse().unwrap();
        assert_eq!(stress.to_string(), "stress-ng --cpu 2");
        let list = |text: &str| Load::list(text).map(|all| all.iter().map(Load::to_string).collect::<Vec<_>>());
        assert_eq!(list("cpu, io").unwrap(), ["cpu", "io"]);
        assert_eq!(list("timers,stress-ng --taskset 0,1").unwrap(), ["timers", "stress-ng --taskset 0,1"]);
        assert!(list("").is_err() && list("cpu,").is_err() && list("cpu stress-ng --io 1").is_err());
        assert!("disk".parse::<Load>().unwrap_err().starts_with("expected cpu, memory"));
    }
}
