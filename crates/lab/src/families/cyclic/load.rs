//! What keeps the machine busy while threads cycle: threads of this process, or stress-ng.
//!
//! Each kind of load runs under SCHED_OTHER, one thread for each CPU, until it is dropped.

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
use std::time::Duration;

use punctual_linux::signal;
use rustix::process::{Pid, Signal, kill_process_group};

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

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(&(name, work)) = WORK.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Threads(name, work));
        }
        let mut words = text.split_whitespace().map(str::to_owned);
        match words.next().as_deref() {
            Some("stress-ng") => Ok(Self::StressNg(words.collect())),
            _ => Err("expected cpu, memory, io, fork, timers, network or 'stress-ng ARGS' (example: cpu)".into()),
        }
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
    threads: Vec<JoinHandle<()>>,
    programs: Vec<Child>,
}

impl Loads {
    /// Starts each load `times`.
    pub(super) fn start(loads: &[Load], times: usize) -> Result<Self, Unavailable> {
        let mut all = Self::default();
        for load in loads {
            match load {
                Load::StressNg(arguments) => {
                    let mut command = Command::new("stress-ng");
                    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
                    let missing =
                        |error: std::io::Error| format!("stress-ng: {error}; install it, or use another load");
                    all.programs.push(command.spawn().map_err(missing).map_err(Unavailable::because)?);
                }
                &Load::Threads(name, work) => {
                    for _ in 0..times {
                        let over = Arc::clone(&all.over);
                        let thread = std::thread::Builder::new().name(format!("load/{name}")).spawn(move || {
                            let _signals = signal::block_all_signals_for_this_thread();
                            // An error ends this load, and the others go on.
                            let _ = work(&|| !over.load(Ordering::Acquire));
                        });
                        let failed = |error| Unavailable::because(format!("load {name}: {error}"));
                        all.threads.push(thread.map_err(failed)?);
                    }
                }
            }
        }
        Ok(all)
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        for program in &mut self.programs {
            let _ = kill_process_group(Pid::from_child(program), Signal::KILL);
            let _ = program.wait();
        }
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
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
    let mut file = OpenOptions::new().write(true).custom_flags(flags).open(std::env::temp_dir())?;
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
        let running = Loads::start(&loads, 1).unwrap();
        assert_eq!(running.threads.len(), 6);
        std::thread::sleep(Duration::from_millis(20));
        drop(running);
        let stress: Load = "stress-ng --cpu 2".parse().unwrap();
        assert_eq!(stress.to_string(), "stress-ng --cpu 2");
        assert!("disk".parse::<Load>().unwrap_err().starts_with("expected cpu, memory"));
    }
}
