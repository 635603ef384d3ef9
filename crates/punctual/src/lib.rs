//! Be on time: clocks, conditions and waiting for Linux programs.
//!
//! A [`Sleeper`] waits for a deadline, a [`Ticker`] for periodic ones, a [`Pacer`] for events at a rate. [`Conditions`] put a thread under
//! a real-time policy, on chosen CPUs and with locked memory, and restore what was there. The command `punctual` measures their effect on a
//! machine.
//!
//! | module | contents | see |
//! |---|---|---|
//! | [`sleeper`] | [`Sleeper`]: waits for one deadline, with a learned margin | [example](#sleep-until-a-deadline) |
//! | [`ticker`] | [`Ticker`]: periodic deadlines without drift, missed ticks counted | [example](#tick-at-a-period) |
//! | [`pacer`] | [`Pacer`]: events at an exact long-run rate, in batches, with a token bucket | [example](#send-at-a-rate) |
//! | [`conditions`] | [`Conditions`]: policy, nice, CPUs, locked memory, timer slack, C-states, behind a [`Guard`] | [example](#apply-real-time-conditions) |
//! | [`cpufreq`] | governors and frequency limits behind a guard that survives SIGKILL | [example](#hold-the-cpus-speed) |
//! | [`watchdog`], [`rt_throttle`] | keep a busy real-time thread from locking up the machine | [example](#watch-a-real-time-loop) |
//! | [`backoff`] | [`Backoff`]: a polling loop that spins, yields, then parks on an [`EventCount`](backoff::EventCount) | [example](#poll-then-park) |
//! | [`ipc`] | [`Ring`](ipc::Ring): a lock-free message channel between two processes | [example](#pass-messages-between-processes) |
//! | [`time`] | [`SystemClock`], [`ManualClock`] for tests, [`Moment`] | [example](#test-on-a-manual-clock) |
//! | [`rate`], [`duration`] | exact rates; durations as text | [example](#parse-rates-and-durations) |
//! | [`counter`] | the CPU's counter as a calibrated clock | [example](#read-the-cpus-counter) |
//! | [`margin`] | the margin that a sleeper learns, and its aims | [example](#choose-lateness-or-cpu-time) |
//!
//! # Sleep until a deadline
//! ```
//! use std::time::{Duration, Instant};
//!
//! let deadline = Instant::now() + Duration::from_micros(300);
//! let wake = punctual::Sleeper::new().sleep_until(deadline);
//! println!("{:?} late, slept {:?}, spun {:?}", wake.lateness(), wake.slept, wake.spun);
//! ```
//!
//! # Tick at a period
//! ```
//! use std::time::Duration;
//!
//! let mut ticker = punctual::Ticker::every(Duration::from_millis(1))?;
//! for _ in 0..3 {
//!     let tick = ticker.tick();
//!     println!("tick {} is {:?} late, {} missed before it", tick.index, tick.lateness(), tick.missed);
//! }
//! # Ok::<(), punctual::BadRate>(())
//! ```
//!
//! # Send at a rate
//! ```
//! use punctual::{Pacer, Rate};
//!
//! let mut pacer = Pacer::new(Rate::per_second(10_000)?);
//! let batch = pacer.next();
//! println!("send {} packets", batch.count);
//! # Ok::<(), punctual::BadRate>(())
//! ```
//!
//! # Apply real-time conditions
//! ```no_run
//! use punctual::{Applied, Conditions, Policy};
//!
//! let Applied { guard, refused } = Conditions::new().policy(Policy::Fifo(40)).lock_memory().apply();
//! for refused in &refused {
//!     eprintln!("{refused}");
//! }
//! // ... time-critical work ...
//! drop(guard); // restores
//! ```
//!
//! # Hold the CPU's speed
//! ```no_run
//! use punctual::cpufreq::Cpufreq;
//! use punctual::restore::LockWait;
//!
//! let mut guard = Cpufreq::system().guard(&[1], LockWait::No)?;
//! guard.set_governor("performance")?;
//! // ... work at full speed ...
//! drop(guard); // restores
//! # Ok::<(), punctual::cpufreq::Error>(())
//! ```
//!
//! # Watch a real-time loop
//! ```no_run
//! use punctual::{Policy, RtThrottle, Watchdog, WatchdogConfig};
//!
//! let watchdog = Watchdog::over_this_thread(Policy::Fifo(40), WatchdogConfig::default())?;
//! let mut throttle = RtThrottle::new();
//! for _ in 0..100 {
//!     let begun = std::time::Instant::now();
//!     // ... a piece of work ...
//!     throttle.after(begun.elapsed()); // sleeps when a break is due
//! }
//! assert!(watchdog.tripped().is_none());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Poll, then park
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use punctual::backoff::{Backoff, EventCount};
//!
//! static READY: AtomicU32 = AtomicU32::new(0);
//! static WORD: AtomicU32 = AtomicU32::new(0);
//!
//! let notifier = std::thread::spawn(|| {
//!     READY.store(1, Ordering::Release);
//!     EventCount::private(&WORD).notify();
//! });
//! let poll = || (READY.load(Ordering::Acquire) == 1).then_some(());
//! Backoff::tuned().wait_for(EventCount::private(&WORD), poll);
//! # notifier.join().unwrap();
//! ```
//!
//! # Pass messages between processes
//! ```
//! use punctual::ipc::{Ring, WaitStrategy};
//!
//! let ring = Ring::anonymous(64 << 10)?; // or Ring::create, by a name
//! let (mut sender, mut receiver) = (ring.sender()?, ring.receiver()?); // one of them in the other process
//! sender.try_send(b"hello")?;
//! let mut message = [0; 100];
//! assert_eq!(receiver.receive(&mut message, WaitStrategy::Sleep)?, 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Test on a manual clock
//! ```
//! use std::time::Duration;
//! use punctual::{ManualClock, Ticker};
//!
//! let clock = ManualClock::new();
//! let mut ticker = Ticker::options().every(Duration::from_millis(10)).clock(clock.clone()).build()?;
//! ticker.tick();
//! clock.advance(Duration::from_millis(25)); // a body that takes too long
//! assert_eq!(ticker.tick().missed, 1);
//! # Ok::<(), punctual::BadRate>(())
//! ```
//!
//! # Parse rates and durations
//! ```
//! use std::time::Duration;
//! use punctual::{Rate, parse_duration};
//!
//! assert_eq!(parse_duration("1.5ms").unwrap(), Duration::from_micros(1_500));
//! assert_eq!(Rate::per_second(44_100)?.period_ns(), 22_675); // kept as a fraction, so it does not drift
//! # Ok::<(), punctual::BadRate>(())
//! ```
//!
//! # Read the CPU's counter
//! ```
//! match punctual::counter::Counter::calibrate() {
//!     Ok(counter) => println!("{} to {} ppb", counter.name(), counter.error_ppb()),
//!     Err(unavailable) => println!("{unavailable}"),
//! }
//! ```
//!
//! # Choose lateness or CPU time
//! ```
//! use std::time::Duration;
//! use punctual::Sleeper;
//!
//! let exact = Sleeper::options().lateness(Duration::from_micros(1), 0.99)?.build(); // at the least CPU time
//! let cheap = Sleeper::options().cpu_budget(0.05)?.build(); // at the least lateness
//! # Ok::<(), punctual::BadAim>(())
//! ```
#![forbid(unsafe_code)]

pub mod backoff;
pub mod conditions;
pub mod counter;
pub mod cpu_set;
pub mod cpufreq;
pub mod duration;
pub mod ipc;
pub mod margin;
pub mod need;
pub mod pacer;
pub mod policy;
pub mod rate;
pub mod restore;
pub mod rt_throttle;
pub mod sleeper;
pub mod ticker;
pub mod time;
pub mod watchdog;

pub use backoff::Backoff;
pub use conditions::{Applied, Condition, Conditions, Guard, Lost, Refused};
pub use cpu_set::CpuSet;
pub use duration::{ShortDuration, format_duration, parse_duration};
pub use margin::{Aim, BadAim};
pub use need::{Need, Withheld};
pub use pacer::{Batch, CatchUp, Pacer, PacerOptions};
pub use policy::Policy;
pub use rate::{BadRate, Rate};
pub use restore::NotRestored;
pub use rt_throttle::RtThrottle;
pub use sleeper::{Sleeper, SleeperOptions, Strategy, Wake};
pub use ticker::{MissedTickBehavior, Tick, Ticker, TickerOptions};
pub use time::{Clock, ManualClock, Moment, SystemClock};
pub use watchdog::{Tripped, Watchdog, WatchdogConfig};

/// The page of the package registry: its example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
