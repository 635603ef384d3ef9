//! Counting semaphores between two processes. One signals a change of shared memory to the other.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_linux as linux;
use punctual_linux::futex::{self, Scope};
use punctual_linux::ipc::semaphore::{Monitor, Semaphore};
use punctual_linux::ipc::{self, sysv};
use punctual_linux::memory::{CacheLine, Shared};
use rustix::event::{EventfdFlags, eventfd};

use super::keeper::{Leftover, What};
use super::mechanism::{Asked, Halt, Unavailable, if_any, no_file, refused};
use punctual_record::Ask;

/// A count that one process increments and the other decrements.
pub(super) trait Count: Send {
    /// Increments the count, and wakes a waiting process.
    fn up(&mut self) -> linux::Result<()>;
    /// Decrements the count, and waits while it is zero.
    fn down(&mut self) -> linux::Result<()>;
    /// Decrements the count if it is not zero.
    fn try_down(&mut self) -> linux::Result<bool>;

    /// Decrements the count, polling with the processor's spin hint. Without the hint the successful poll takes
    /// longer (10 % of a round trip on the machine of docs/results/ipc.md). Compiled for each count.
    fn spin_down(&mut self, halt: &Halt) -> linux::Result<()> {
        while !self.try_down()? {
            halt.check("poll")?;
            std::hint::spin_loop();
        }
        Ok(())
    }
}

/// A kind of count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Futex,
    PosixSemaphore,
    SysvSemaphore,
    Condition,
    Eventfd,
    Spin,
}

/// Any kind of count.
pub(super) type AnyCount = Box<dyn Count>;

impl Count for AnyCount {
    fn up(&mut self) -> linux::Result<()> {
        (**self).up()
    }

    fn down(&mut self) -> linux::Result<()> {
        (**self).down()
    }

    fn try_down(&mut self) -> linux::Result<bool> {
        (**self).try_down()
    }

    fn spin_down(&mut self, halt: &Halt) -> linux::Result<()> {
        (**self).spin_down(halt)
    }
}

/// An open count: one handle for each process.
pub(super) struct Opened<C = AnyCount> {
    pub(super) raiser: C,
    pub(super) lowerer: C,
    pub(super) leftover: Option<Leftover>,
    pub(super) rouse: Option<Box<dyn Fn() + Send>>,
}

impl Told {
    /// Opens a count that starts at `value`.
    pub(super) fn open(self, value: usize, asked: &Asked<'_>) -> Result<Opened, Unavailable> {
        let value = value as u32;
        let halt = &asked.halt;
        match self {
            Self::Futex => both(Futex::new(value, halt).map_err(|e| refused(&e, ""))?),
            Self::Spin => spin(value as usize, asked).map(Opened::boxed),
            Self::PosixSemaphore => {
                let semaphore =
                    Semaphore::new(value).map_err(|e| refused(&e, "a C library with process-shared semaphores"))?;
                both(Posix { semaphore, halt: halt.clone() })
            }
            Self::SysvSemaphore => {
                let made = asked.keeper.make(What::SysvSemaphores, |name| sysv::create_semaphores(name.key(), 1));
                let (set, name) = made.map_err(|e| {
                    refused(
                        &e,
                        "remove unused semaphores (ipcs -s, ipcrm), or raise /proc/sys/kernel/sem; CONFIG_SYSVIPC",
                    )
                })?;
                let value = i16::try_from(value).unwrap_or(i16::MAX);
                if value > 0 {
                    set.add(0, value, false).map_err(|e| refused(&e, Ask::SmallerDepth))?;
                }
                let opened = both(SystemV { set, halt: halt.clone() })?;
                Ok(Opened { leftover: Some(name), ..opened })
            }
            Self::Condition => {
                let monitor = Monitor::new(value).map_err(|e| refused(&e, "a C library with robust mutexes"))?;
                let halted = monitor.clone();
                let opened = both(Cond { monitor })?;
                Ok(Opened { rouse: Some(Box::new(move || halted.halt())), ..opened })
            }
            Self::Eventfd => both(Event::new(value, halt)?),
        }
    }
}

impl<C: Count + 'static> Opened<C> {
    fn boxed(self) -> Opened {
        let Self { raiser, lowerer, leftover, rouse } = self;
        Opened { raiser: Box::new(raiser), lowerer: Box::new(lowerer), leftover, rouse }
    }
}

fn both<C: Count + Clone + 'static>(count: C) -> Result<Opened, Unavailable> {
    Ok(Opened { raiser: count.clone(), lowerer: count, leftover: None, rouse: None }.boxed())
}

/// Opens a count that is waited for by polling.
pub(super) fn spin(value: usize, asked: &Asked<'_>) -> Result<Opened<Spin>, Unavailable> {
    let count = Spin::new(value as u32, &asked.halt).map_err(|e| refused(&e, ""))?;
    Ok(Opened { raiser: count.clone(), lowerer: count, leftover: None, rouse: None })
}

/// A number, and whether a process sleeps on it: like glibc's semaphores, with one word less.
#[derive(Clone)]
struct Futex {
    /// The count; 1 while its waiting process sleeps.
    words: Shared<CacheLine<(AtomicU32, AtomicU32)>>,
    halt: Halt,
}

impl Futex {
    fn new(value: u32, halt: &Halt) -> linux::Result<Self> {
        let words = Shared::<CacheLine<(AtomicU32, AtomicU32)>>::new()?;
        words.0.0.store(value, Ordering::Relaxed);
        Ok(Self { words, halt: halt.clone() })
    }
}

impl Count for Futex {
    fn up(&mut self) -> linux::Result<()> {
        let (count, sleeps) = &self.words.0;
        count.fetch_add(1, Ordering::SeqCst);
        if sleeps.load(Ordering::SeqCst) != 0 {
            futex::wake(count, 1, Scope::Shared)?;
        }
        Ok(())
    }

    fn down(&mut self) -> linux::Result<()> {
        loop {
            if self.try_down()? {
                return Ok(());
            }
            let (count, sleeps) = &self.words.0;
            sleeps.store(1, Ordering::SeqCst);
            let ended = futex::wait(count, 0, Scope::Shared, None);
            sleeps.store(0, Ordering::SeqCst);
            ended?;
            if self.halt.is_set() {
                return Err(linux::Error::from_errno("futex", linux::EINTR));
            }
        }
    }

    fn try_down(&mut self) -> linux::Result<bool> {
        let count = &self.words.0.0;
        // Only this process decrements it: the observed value is still there.
        let any = count.load(Ordering::Acquire) != 0;
        if any {
            count.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(any)
    }
}

/// Two monotonic counters, each written by one side: no atomic read-modify-write, no system call.
#[derive(Clone)]
pub(super) struct Spin {
    raised: Shared<CacheLine<AtomicU32>>,
    ups: u32,
    downs: u32,
    halt: Halt,
}

impl Spin {
    fn new(value: u32, halt: &Halt) -> linux::Result<Self> {
        let raised = Shared::<CacheLine<AtomicU32>>::new()?;
        raised.store(value, Ordering::Relaxed);
        Ok(Self { raised, ups: value, downs: 0, halt: halt.clone() })
    }
}

impl Count for Spin {
    #[inline]
    fn up(&mut self) -> linux::Result<()> {
        self.ups = self.ups.wrapping_add(1);
        self.raised.store(self.ups, Ordering::Release);
        Ok(())
    }

    fn down(&mut self) -> linux::Result<()> {
        while !self.try_down()? {
            self.halt.check("spin")?;
            std::hint::spin_loop();
        }
        Ok(())
    }

    #[inline]
    fn try_down(&mut self) -> linux::Result<bool> {
        let any = self.raised.load(Ordering::Acquire) != self.downs;
        self.downs = self.downs.wrapping_add(u32::from(any));
        Ok(any)
    }
}

#[derive(Clone)]
struct Posix {
    semaphore: Semaphore,
    halt: Halt,
}

impl Count for Posix {
    fn up(&mut self) -> linux::Result<()> {
        self.semaphore.post()
    }

    fn down(&mut self) -> linux::Result<()> {
        self.halt.persist(|| self.semaphore.wait())
    }

    fn try_down(&mut self) -> linux::Result<bool> {
        self.semaphore.try_wait()
    }
}

#[derive(Clone)]
struct SystemV {
    set: sysv::Semaphores,
    halt: Halt,
}

impl Count for SystemV {
    fn up(&mut self) -> linux::Result<()> {
        self.halt.persist(|| self.set.add(0, 1, true))
    }

    fn down(&mut self) -> linux::Result<()> {
        self.halt.persist(|| self.set.add(0, -1, true))
    }

    fn try_down(&mut self) -> linux::Result<bool> {
        if_any(self.set.add(0, -1, false)).map(|done| done.is_some())
    }
}

#[derive(Clone)]
struct Cond {
    monitor: Monitor,
}

impl Count for Cond {
    fn up(&mut self) -> linux::Result<()> {
        self.monitor.add()
    }

    fn down(&mut self) -> linux::Result<()> {
        self.monitor.take()
    }

    fn try_down(&mut self) -> linux::Result<bool> {
        self.monitor.try_take()
    }
}

/// An eventfd that counts (EFD_SEMAPHORE).
#[derive(Clone)]
struct Event {
    file: Arc<OwnedFd>,
    halt: Halt,
}

impl Event {
    fn new(value: u32, halt: &Halt) -> Result<Self, Unavailable> {
        // It is non-blocking, so that it can be polled. A wait calls poll(2) only if the count is zero.
        let file = eventfd(value, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)
            .map_err(|e| no_file(&linux::Error::from_errno("eventfd", e.raw_os_error())))?;
        Ok(Self { file: Arc::new(file), halt: halt.clone() })
    }
}

impl Count for Event {
    fn up(&mut self) -> linux::Result<()> {
        self.halt.persist(|| ipc::write(self.file.as_fd(), &1u64.to_ne_bytes())).map(drop)
    }

    fn down(&mut self) -> linux::Result<()> {
        self.halt.persist(|| ipc::read(self.file.as_fd(), &mut [0; 8])).map(drop)
    }

    fn try_down(&mut self) -> linux::Result<bool> {
        // Only this side reads: the value that poll(2) reported is still there.
        let any = if_any(ipc::wait_readable(self.file.as_fd(), 0))? == Some(true);
        if any {
            self.down()?;
        }
        Ok(any)
    }
}
