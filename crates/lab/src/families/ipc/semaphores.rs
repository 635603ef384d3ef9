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

/// A count that one process increments and the other decrements. Clones share it.
pub(super) trait Count: Clone + Send + 'static {
    /// It can only be waited for by polling.
    const ONLY_POLLS: bool = false;
    /// Its requirements, in a few words, or empty.
    const NEEDS: &'static str = "";

    /// Opens a count that starts at `value`.
    fn open(value: u32, asked: &Asked<'_>) -> Result<Self, Unavailable>;
    /// Increments the count, and wakes a waiting process.
    fn up(&mut self, halt: &Halt) -> linux::Result<()>;
    /// Decrements the count, and waits while it is zero.
    fn down(&mut self, halt: &Halt) -> linux::Result<()>;
    /// Decrements the count if it is not zero.
    fn try_down(&mut self) -> linux::Result<bool>;

    /// Decrements the count, polling with the processor's spin hint. Without the hint the successful poll takes
    /// longer (10 % of a round trip on the machine of docs/results/ipc.md).
    fn spin_down(&mut self, halt: &Halt) -> linux::Result<()> {
        while !self.try_down()? {
            halt.check("poll")?;
            std::hint::spin_loop();
        }
        Ok(())
    }
}

/// A number, and whether a process sleeps on it: like glibc's semaphores, with one word less.
#[derive(Clone)]
pub(super) struct Futex {
    /// The count; 1 while its waiting process sleeps.
    words: Shared<CacheLine<(AtomicU32, AtomicU32)>>,
}

impl Count for Futex {
    fn open(value: u32, _: &Asked<'_>) -> Result<Self, Unavailable> {
        let words = Shared::<CacheLine<(AtomicU32, AtomicU32)>>::new().map_err(|e| refused(&e, ""))?;
        words.0.0.store(value, Ordering::Relaxed);
        Ok(Self { words })
    }

    fn up(&mut self, _: &Halt) -> linux::Result<()> {
        let (count, sleeps) = &self.words.0;
        count.fetch_add(1, Ordering::SeqCst);
        if sleeps.load(Ordering::SeqCst) != 0 {
            futex::wake(count, 1, Scope::Shared)?;
        }
        Ok(())
    }

    fn down(&mut self, halt: &Halt) -> linux::Result<()> {
        loop {
            if self.try_down()? {
                return Ok(());
            }
            let (count, sleeps) = &self.words.0;
            sleeps.store(1, Ordering::SeqCst);
            let ended = futex::wait(count, 0, Scope::Shared, None);
            sleeps.store(0, Ordering::SeqCst);
            ended?;
            halt.check("futex")?;
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
}

impl Count for Spin {
    const ONLY_POLLS: bool = true;

    fn open(value: u32, _: &Asked<'_>) -> Result<Self, Unavailable> {
        let raised = Shared::<CacheLine<AtomicU32>>::new().map_err(|e| refused(&e, ""))?;
        raised.store(value, Ordering::Relaxed);
        Ok(Self { raised, ups: value, downs: 0 })
    }

    #[inline]
    fn up(&mut self, _: &Halt) -> linux::Result<()> {
        self.ups = self.ups.wrapping_add(1);
        self.raised.store(self.ups, Ordering::Release);
        Ok(())
    }

    fn down(&mut self, halt: &Halt) -> linux::Result<()> {
        self.spin_down(halt)
    }

    #[inline]
    fn try_down(&mut self) -> linux::Result<bool> {
        let any = self.raised.load(Ordering::Acquire) != self.downs;
        self.downs = self.downs.wrapping_add(u32::from(any));
        Ok(any)
    }
}

impl Count for Semaphore {
    fn open(value: u32, _: &Asked<'_>) -> Result<Self, Unavailable> {
        Self::new(value).map_err(|e| refused(&e, "a C library with process-shared semaphores"))
    }

    fn up(&mut self, _: &Halt) -> linux::Result<()> {
        self.post()
    }

    fn down(&mut self, halt: &Halt) -> linux::Result<()> {
        halt.persist(|| self.wait())
    }

    fn try_down(&mut self) -> linux::Result<bool> {
        self.try_wait()
    }
}

#[derive(Clone)]
pub(super) struct SystemV {
    set: sysv::Semaphores,
    /// Removes the set when the measuring process drops its end.
    _leftover: Arc<Leftover>,
}

impl Count for SystemV {
    const NEEDS: &'static str = "CONFIG_SYSVIPC";

    fn open(value: u32, asked: &Asked<'_>) -> Result<Self, Unavailable> {
        let made = asked.keeper.make(What::SysvSemaphores, |name| sysv::create_semaphores(name.key(), 1));
        let (set, leftover) = made.map_err(|e| {
            refused(&e, "remove unused semaphores (ipcs -s, ipcrm), or raise /proc/sys/kernel/sem; CONFIG_SYSVIPC")
        })?;
        let value = i16::try_from(value).unwrap_or(i16::MAX);
        if value > 0 {
            set.add(0, value, false).map_err(|e| refused(&e, Ask::SmallerDepth))?;
        }
        Ok(Self { set, _leftover: Arc::new(leftover) })
    }

    fn up(&mut self, halt: &Halt) -> linux::Result<()> {
        halt.persist(|| self.set.add(0, 1, true))
    }

    fn down(&mut self, halt: &Halt) -> linux::Result<()> {
        halt.persist(|| self.set.add(0, -1, true))
    }

    fn try_down(&mut self) -> linux::Result<bool> {
        if_any(self.set.add(0, -1, false)).map(|done| done.is_some())
    }
}

impl Count for Monitor {
    fn open(value: u32, asked: &Asked<'_>) -> Result<Self, Unavailable> {
        let monitor = Self::new(value).map_err(|e| refused(&e, "a C library with robust mutexes"))?;
        let halted = monitor.clone();
        asked.halt.on_rouse(move || halted.halt());
        Ok(monitor)
    }

    fn up(&mut self, _: &Halt) -> linux::Result<()> {
        self.add()
    }

    fn down(&mut self, _: &Halt) -> linux::Result<()> {
        self.take()
    }

    fn try_down(&mut self) -> linux::Result<bool> {
        self.try_take()
    }
}

/// An eventfd that counts (EFD_SEMAPHORE).
#[derive(Clone)]
pub(super) struct Event(Arc<OwnedFd>);

impl Count for Event {
    fn open(value: u32, _: &Asked<'_>) -> Result<Self, Unavailable> {
        // A wait blocks in the read; only a poll calls poll(2) before it.
        let file = eventfd(value, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)
            .map_err(|e| no_file(&linux::Error::from_errno("eventfd", e.raw_os_error())))?;
        Ok(Self(Arc::new(file)))
    }

    fn up(&mut self, halt: &Halt) -> linux::Result<()> {
        halt.persist(|| ipc::write(self.0.as_fd(), &1u64.to_ne_bytes())).map(drop)
    }

    fn down(&mut self, halt: &Halt) -> linux::Result<()> {
        halt.persist(|| ipc::read(self.0.as_fd(), &mut [0; 8])).map(drop)
    }

    fn try_down(&mut self) -> linux::Result<bool> {
        // Only this side reads: the value that poll(2) reported is still there, and the read does not wait.
        let any = if_any(ipc::wait_readable(self.0.as_fd(), 0))? == Some(true);
        if any {
            ipc::read(self.0.as_fd(), &mut [0; 8])?;
        }
        Ok(any)
    }
}
