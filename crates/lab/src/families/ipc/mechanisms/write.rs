//! Memory of the receiver that the sender writes into, and a futex as notification: one copy instead of two.

use punctual_linux as linux;
use punctual_linux::ipc::memory::{self, Mailbox};

use super::super::mechanism::{Asked, Inlet, Kind, Lane, Mechanism, Outlet, Peer, Queue, Unavailable, lanes, refused};
use super::semaphore::{Count, Told};

/// Default number of slots: as many as a POSIX queue has.
const USUAL_DEPTH: usize = 10;

pub(super) fn all() -> Vec<Mechanism> {
    vec![Mechanism {
        needs: "CONFIG_CROSS_MEMORY_ATTACH, ptrace permission",
        queue: Queue::Messages,
        usual: false,
        ..Mechanism::of(
            Kind::Copy,
            [
                "vm-writev",
                "process_vm_writev into the receiver's memory, told by a futex: a single copy, worth it for large messages",
                "process_vm_writev; futex",
            ],
            |asked| lanes(asked, lane),
        )
    }]
}

fn lane(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let depth = asked.depth_or(USUAL_DEPTH);
    let bytes = asked.size.checked_mul(depth).unwrap_or(usize::MAX / 2);
    let mailbox = Mailbox::new(bytes).map_err(|e| refused(&e, "a smaller size or depth"))?;
    let full = Told::Futex.open(0, asked)?;
    let free = Told::Futex.open(depth, asked)?;
    let slots = Slots { mailbox, size: asked.size, depth, next: 0 };
    let outlet = Writer { slots: slots.clone(), peer: None, full: full.raiser, free: free.lowerer };
    let inlet = Reader { slots, full: full.lowerer, free: free.raiser };
    Ok(Lane::of(outlet, inlet))
}

#[derive(Clone)]
struct Slots {
    mailbox: Mailbox,
    size: usize,
    depth: usize,
    next: usize,
}

impl Slots {
    fn take(&mut self) -> usize {
        let at = self.next * self.size;
        self.next = if self.next + 1 == self.depth { 0 } else { self.next + 1 };
        at
    }
}

struct Writer {
    slots: Slots,
    peer: Option<i32>,
    full: Box<dyn Count>,
    free: Box<dyn Count>,
}

impl Outlet for Writer {
    fn meet(&mut self, peer: Peer) -> linux::Result<()> {
        self.peer = Some(peer.process);
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> linux::Result<()> {
        let Some(peer) = self.peer else { return Err(linux::Error::from_errno("process_vm_writev", linux::ESRCH)) };
        self.free.down()?;
        let at = self.slots.take();
        self.slots.mailbox.write_to(peer, at, message)?;
        self.full.up()
    }
}

struct Reader {
    slots: Slots,
    full: Box<dyn Count>,
    free: Box<dyn Count>,
}

impl Reader {
    fn take(&mut self, into: &mut [u8]) -> linux::Result<()> {
        let at = self.slots.take();
        self.slots.mailbox.read(at, into);
        self.free.up()
    }
}

impl Inlet for Reader {
    fn meet(&mut self, _: Peer) -> linux::Result<()> {
        memory::let_others_write(true)
    }

    fn receive(&mut self, into: &mut [u8]) -> linux::Result<()> {
        self.full.down()?;
        self.take(into)
    }

    fn poll(&mut self, into: &mut [u8]) -> linux::Result<bool> {
        let any = self.full.try_down()?;
        if any {
            self.take(into)?;
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
