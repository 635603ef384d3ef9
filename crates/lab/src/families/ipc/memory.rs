//! Shared memory: slots of one message each, used as a ring, in memory of three kinds with six kinds of counts; memory of
//! the receiver that the sender writes into, with one copy instead of two; and the library's own ring, [`punctual::ipc::Ring`].

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use punctual::Need;
use punctual::ipc::ring::layout;
use punctual::ipc::{
    ReceiveError, Receiver as RingReceiver, Ring, RingError, SendError, Sender as RingSender, WaitStrategy,
};
use punctual_linux as linux;
use punctual_linux::ipc::Region;
use punctual_linux::ipc::memory::{self, Mailbox};
use punctual_linux::ipc::semaphore::{Monitor, Semaphore};
use punctual_record::remedy::of_need;

use super::keeper::What;
use super::mechanism::{
    Asked, Halt, InFlight, Inlet, Lane, Limit, Mechanism, Outlet, Peer, Receive, Unavailable, lanes, refused, whole,
};
use super::semaphores::{Count, Event, Futex, Spin, SystemV};
use punctual_record::{Ask, Hint};

/// Default number of slots: as many as a POSIX queue has.
const USUAL_DEPTH: usize = 10;
/// Each slot begins at a cache line of its own.
const LINE: usize = 128;

/// The kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Posix,
    Memfd,
    SystemV,
}

/// Each kind of memory, with its name, its description and its call.
const MEMORIES: [(From, &str, &str, &str); 3] = [
    (From::Memfd, "memfd", "memfd (no name)", "memfd_create"),
    (From::Posix, "shm", "POSIX shared memory", "shm_open"),
    (From::SystemV, "sysv-shm", "System V shared memory", "shmget"),
];

/// Memory that both processes map, with each kind of count.
pub(super) fn shared() -> impl Iterator<Item = Mechanism> {
    MEMORIES.into_iter().flat_map(|memory| {
        [
            told_by::<Futex>(memory, ["futex", "a futex", "futex"]),
            told_by::<Semaphore>(memory, ["sem", "POSIX semaphores", "sem_post, sem_wait"]),
            told_by::<SystemV>(memory, ["sysv-sem", "System V semaphores", "semop"]),
            told_by::<Monitor>(
                memory,
                ["cond", "a robust mutex and a condition", "pthread_cond_signal, pthread_cond_wait"],
            ),
            told_by::<Event>(memory, ["eventfd", "eventfds", "write, read"]),
            told_by::<Spin>(memory, ["spin", "nothing but looking: it costs a CPU", "memcpy"]),
        ]
    })
}

/// Messages in this memory, told by counts of this kind. Both ends are compiled for the kind: without system calls, the time of each step
/// between two processes matters.
fn told_by<C: Count>((from, name, about, call): (From, &str, &str, &str), [way, how, calls]: [&str; 3]) -> Mechanism {
    Mechanism {
        name: format!("{name}-{way}"),
        about: format!("{about}, told by {how}"),
        call: format!("{call}; {calls}"),
        needs: if from == From::SystemV { SystemV::NEEDS } else { C::NEEDS },
        in_flight: InFlight::Messages,
        only_polls: C::ONLY_POLLS,
        // The kinds of memory are equally quick: one of each kind of count is enough.
        usual: from == From::Memfd,
        ..Mechanism::usual("shared memory", move |asked| lanes(asked, |asked| lane::<C>(from, asked)))
    }
}

/// Opens one direction. Counts signal messages to the receiver and room to the sender.
fn lane<C: Count>(from: From, asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let depth = asked.depth_or(USUAL_DEPTH);
    let stride = asked.size.next_multiple_of(LINE);
    let no_memory = |e: &linux::Error| refused(e, from.remedy(e));
    let bytes = stride.checked_mul(depth).ok_or_else(|| {
        no_memory(&linux::Error::from_errno("mmap", linux::ENOMEM).on(format!("{depth} times {} bytes", asked.size)))
    })?;
    let memory = Arc::new(from.map(bytes, asked).map_err(|e| no_memory(&e))?);
    let slots = Slots { memory, stride, depth, next: 0 };
    let full = C::open(0, asked)?;
    // In ping-pong a slot is always free when it is needed: the answer shows it.
    let free = if asked.both_ways { None } else { Some(C::open(depth as u32, asked)?) };
    let sender = Sender { slots: slots.clone(), full: full.clone(), free: free.clone() };
    Ok(Lane::new(sender, Receiver { slots, full, free }))
}

impl From {
    /// The remedy for a refusal.
    fn remedy(self, error: &linux::Error) -> Hint {
        let smaller = Hint::from(Ask::SmallerSizeOrDepth);
        match (self, rustix::io::Errno::from_raw_os_error(error.errno())) {
            (Self::SystemV, rustix::io::Errno::NOSPC) => {
                "remove unused segments (ipcs -m, ipcrm), or raise /proc/sys/kernel/shmmni (segments) or shmall (pages)"
                    .into()
            }
            (Self::SystemV, rustix::io::Errno::INVAL) => smaller.and(", or raise /proc/sys/kernel/shmmax"),
            (Self::SystemV, rustix::io::Errno::NOSYS) => "use a kernel with CONFIG_SYSVIPC".into(),
            (Self::Posix, rustix::io::Errno::NOENT) => "mount a tmpfs at /dev/shm".into(),
            (Self::Posix, rustix::io::Errno::NOSPC) => smaller.and(", or a larger /dev/shm (mount -o remount,size=)"),
            _ => smaller.and(", or more memory"),
        }
    }

    fn map(self, bytes: usize, asked: &Asked<'_>) -> linux::Result<Region> {
        match self {
            Self::Memfd => Region::map(memory::sealed_memfd(c"punctual-ipc", bytes as u64)?.as_fd(), bytes),
            Self::SystemV => memory::sysv_segment(bytes),
            Self::Posix => {
                let (file, name) =
                    asked.keeper.make(What::Memory, |name| memory::create_shm(&name.posix(), bytes as u64))?;
                let region = Region::map(file.as_fd(), bytes);
                drop(name);
                region
            }
        }
    }
}

/// Slots in memory, and the next one to use.
#[derive(Debug, Clone)]
struct Slots<M> {
    memory: M,
    stride: usize,
    depth: usize,
    next: usize,
}

impl<M> Slots<M> {
    /// Offset of the next slot. Advances to the one after it.
    #[inline]
    fn take(&mut self) -> usize {
        let at = self.next * self.stride;
        self.next = if self.next + 1 == self.depth { 0 } else { self.next + 1 };
        at
    }
}

struct Sender<C> {
    slots: Slots<Arc<Region>>,
    full: C,
    free: Option<C>,
}

impl<C: Count> Outlet for Sender<C> {
    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()> {
        if let Some(free) = &mut self.free {
            free.down(halt)?;
        }
        let at = self.slots.take();
        self.slots.memory.copy_in(at, message);
        self.full.up(halt)
    }
}

struct Receiver<C> {
    slots: Slots<Arc<Region>>,
    full: C,
    free: Option<C>,
}

impl<C: Count> Receiver<C> {
    #[inline]
    fn take(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        let at = self.slots.take();
        self.slots.memory.copy_out(at, into);
        self.free.as_mut().map_or(Ok(()), |free| free.up(halt))
    }
}

impl<C: Count> Inlet for Receiver<C> {
    fn receive(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        self.full.down(halt)?;
        self.take(into, halt)
    }

    fn poll(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<bool> {
        let any = self.full.try_down()?;
        if any {
            self.take(into, halt)?;
        }
        Ok(any)
    }

    fn poll_until(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        self.full.spin_down(halt)?;
        self.take(into, halt)
    }
}

/// Memory of the receiver that the sender writes into.
pub(super) fn written() -> Mechanism {
    Mechanism {
        name: "vm-writev".into(),
        about:
            "process_vm_writev into the receiver's memory, told by a futex: a single copy, worth it for large messages"
                .into(),
        call: "process_vm_writev; futex".into(),
        needs: "CONFIG_CROSS_MEMORY_ATTACH, ptrace permission",
        in_flight: InFlight::Messages,
        usual: false,
        ..Mechanism::usual("copy", |asked| lanes(asked, written_lane))
    }
}

fn written_lane(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let depth = asked.depth_or(USUAL_DEPTH);
    let bytes = asked.size.checked_mul(depth).unwrap_or(usize::MAX / 2);
    let mailbox = Mailbox::new(bytes).map_err(|e| refused(&e, Ask::SmallerSizeOrDepth))?;
    let (full, free) = (Futex::open(0, asked)?, Futex::open(depth as u32, asked)?);
    let slots = Slots { memory: mailbox, stride: asked.size, depth, next: 0 };
    let outlet = Writer { slots: slots.clone(), peer: None, full: full.clone(), free: free.clone() };
    Ok(Lane::new(outlet, Reader { slots, full, free }))
}

struct Writer {
    slots: Slots<Mailbox>,
    peer: Option<i32>,
    full: Futex,
    free: Futex,
}

impl Outlet for Writer {
    fn meet(&mut self, peer: Peer) -> linux::Result<()> {
        self.peer = Some(peer.process);
        Ok(())
    }

    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()> {
        let Some(peer) = self.peer else { return Err(linux::Error::from_errno("process_vm_writev", linux::ESRCH)) };
        self.free.down(halt)?;
        let at = self.slots.take();
        self.slots.memory.write_to(peer, at, message)?;
        self.full.up(halt)
    }
}

struct Reader {
    slots: Slots<Mailbox>,
    full: Futex,
    free: Futex,
}

impl Reader {
    fn take(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        let at = self.slots.take();
        self.slots.memory.read(at, into);
        self.free.up(halt)
    }
}

impl Inlet for Reader {
    fn meet(&mut self, _: Peer) -> linux::Result<()> {
        memory::let_others_write(true)
    }

    fn receive(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        self.full.down(halt)?;
        self.take(into, halt)
    }

    fn poll(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<bool> {
        let any = self.full.try_down()?;
        if any {
            self.take(into, halt)?;
        }
        Ok(any)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // A permission that was granted can be withdrawn.
        let _ = memory::let_others_write(false);
    }
}

/// Default capacity in messages.
const RING_DEPTH: usize = 64;
/// Overhead of a message in bytes: its word, padding, and room for a cleared word.
const RING_OVERHEAD: usize = 24;
/// Longest single wait: it limits the delay until a stop is noticed.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

pub(super) fn ring() -> Mechanism {
    Mechanism {
        name: "ring".into(),
        about:
            "the library's lock-free ring in shared memory (punctual::ipc::Ring): no system call unless a side sleeps"
                .into(),
        call: "Sender::send, Receiver::receive".into(),
        in_flight: InFlight::Messages,
        largest: || Limit::fixed(layout::largest_message(layout::GREATEST), "the ring's greatest capacity, 4 GiB"),
        ..Mechanism::usual("shared memory", |asked| lanes(asked, ring_lane))
    }
}

fn ring_lane(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let bytes = (asked.size + RING_OVERHEAD).saturating_mul(asked.depth_or(RING_DEPTH)).max(4096);
    let ring = Ring::anonymous(bytes as u64).map_err(|e| no_ring(&e))?;
    // Each process takes its own end, so that the other side notices when that process is gone.
    let theirs = ring.as_fd().try_clone_to_owned();
    let theirs = theirs.map_err(|source| Unavailable::because(format!("dup: {source}")))?;
    let theirs = Ring::from_fd(theirs).map_err(|e| no_ring(&e))?;
    let how = if asked.receive == Receive::Poll { WaitStrategy::Spin } else { WaitStrategy::Sleep };
    let inlet = RingEnd::<RingReceiver> { ring: theirs, end: None, how };
    Ok(Lane::new(RingEnd::<RingSender> { ring, end: None, how }, inlet))
}

fn no_ring(error: &RingError) -> Unavailable {
    let remedy = match error.needs() {
        Need::SharedMemory | Need::WithinBounds => Ask::SmallerSizeOrDepth.into(),
        need => of_need(&need),
    };
    Unavailable::but(error.to_string(), remedy)
}

fn refused_by_ring(call: &'static str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> linux::Error {
    linux::Error { call, object: None, source: std::io::Error::other(error) }
}

/// An end of the ring, taken by its process.
struct RingEnd<E> {
    ring: Ring,
    end: Option<E>,
    how: WaitStrategy,
}

impl Outlet for RingEnd<RingSender> {
    fn meet(&mut self, _: Peer) -> linux::Result<()> {
        self.end = Some(self.ring.sender().map_err(|e| refused_by_ring("Ring::sender", e.to_string()))?);
        Ok(())
    }

    #[inline]
    fn send(&mut self, message: &[u8], halt: &Halt) -> linux::Result<()> {
        let Some(end) = &mut self.end else { return Err(linux::Error::from_errno("Ring::send", linux::ESRCH)) };
        loop {
            match end.send_timeout(message, self.how, LONGEST_WAIT) {
                Ok(()) => return Ok(()),
                Err(SendError::Full) if !halt.is_set() => {}
                Err(SendError::Full) => return Err(linux::Error::from_errno("Ring::send", linux::EINTR)),
                Err(SendError::Closed | SendError::PeerDied) => {
                    return Err(linux::Error::from_errno("Ring::send", linux::EPIPE));
                }
                Err(e) => return Err(refused_by_ring("Ring::send", e)),
            }
        }
    }
}

fn broken(error: ReceiveError) -> linux::Error {
    match error {
        ReceiveError::Closed | ReceiveError::PeerDied => linux::Error::from_errno("Ring::receive", linux::EPIPE),
        e => refused_by_ring("Ring::receive", e),
    }
}

impl Inlet for RingEnd<RingReceiver> {
    fn meet(&mut self, _: Peer) -> linux::Result<()> {
        self.end = Some(self.ring.receiver().map_err(|e| refused_by_ring("Ring::receiver", e.to_string()))?);
        Ok(())
    }

    #[inline]
    fn receive(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        let Some(end) = &mut self.end else { return Err(linux::Error::from_errno("Ring::receive", linux::ESRCH)) };
        loop {
            match end.recv_timeout(into, self.how, LONGEST_WAIT).map_err(broken)? {
                Some(n) => return whole("Ring::receive", n, into.len()),
                None if halt.is_set() => return Err(linux::Error::from_errno("Ring::receive", linux::EINTR)),
                None => {}
            }
        }
    }

    #[inline]
    fn poll(&mut self, into: &mut [u8], _: &Halt) -> linux::Result<bool> {
        let Some(end) = &mut self.end else { return Err(linux::Error::from_errno("Ring::receive", linux::ESRCH)) };
        match end.try_receive(into).map_err(broken)? {
            Some(n) => whole("Ring::receive", n, into.len()).map(|()| true),
            None => Ok(false),
        }
    }

    fn poll_until(&mut self, into: &mut [u8], halt: &Halt) -> linux::Result<()> {
        let Some(end) = &mut self.end else { return Err(linux::Error::from_errno("Ring::receive", linux::ESRCH)) };
        loop {
            match end.try_receive(into) {
                Ok(Some(n)) => return whole("Ring::receive", n, into.len()),
                Ok(None) => {
                    halt.check("Ring::receive")?;
                    std::hint::spin_loop();
                }
                Err(e) => return Err(broken(e)),
            }
        }
    }
}
