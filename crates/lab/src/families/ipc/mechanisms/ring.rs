//! The library's own ring: [`punctual::ipc::Ring`].

use std::os::fd::AsFd as _;
use std::time::Duration;

use punctual::Need;
use punctual::ipc::{ReceiveError, Receiver, Ring, RingError, SendError, Sender, WaitStrategy};
use punctual_linux as linux;

use super::super::mechanism::{
    Asked, Halt, Inlet, Kind, Lane, Limit, Mechanism, Outlet, Peer, Queue, Unavailable, lanes, wait_strategy, whole,
};
use punctual_record::Ask;
use punctual_record::remedy::of_need;

/// Default capacity in messages.
const USUAL_DEPTH: usize = 64;
/// Overhead of a message in bytes: its word, padding, and room for a cleared word.
const PER_MESSAGE: usize = 24;
/// Longest single wait: it limits the delay until a stop is noticed.
const AT_MOST: Duration = Duration::from_millis(200);

pub(super) fn all() -> Vec<Mechanism> {
    vec![Mechanism {
        queue: Queue::Messages,
        largest: || Limit {
            bytes: Some(punctual::ipc::ring::layout::largest_message(punctual::ipc::ring::layout::GREATEST)),
            from: "the ring's greatest capacity, 4 GiB".into(),
            remedy: None,
        },
        ..Mechanism::usual(
            Kind::SharedMemory,
            [
                "ring",
                "the library's lock-free ring in shared memory (punctual::ipc::Ring): no system call unless a side sleeps",
                "Sender::send, Receiver::receive",
            ],
            |asked| lanes(asked, lane),
        )
    }]
}

fn lane(asked: &Asked<'_>) -> Result<Lane, Unavailable> {
    let bytes = (asked.size + PER_MESSAGE).saturating_mul(asked.depth_or(USUAL_DEPTH)).max(4096);
    let ring = Ring::anonymous(bytes as u64).map_err(|e| no_ring(&e))?;
    // Each process takes its own end, so that the other side notices when that process is gone.
    let theirs = ring
        .as_fd()
        .try_clone_to_owned()
        .map_err(|source| Unavailable { why: format!("dup: {source}"), remedy: None })?;
    let theirs = Ring::from_fd(theirs).map_err(|e| no_ring(&e))?;
    let how = wait_strategy(asked.receive);
    let outlet = RingOutlet { ring, end: None, how, halt: asked.halt.clone() };
    let inlet = RingInlet { ring: theirs, end: None, how, halt: asked.halt.clone() };
    Ok(Lane::new(outlet, inlet))
}

fn no_ring(error: &RingError) -> Unavailable {
    let remedy = match error.needs() {
        Need::SharedMemory | Need::WithinBounds => Ask::SmallerSizeOrDepth.into(),
        need => of_need(&need),
    };
    Unavailable::but(error.to_string(), remedy)
}

fn refused(call: &'static str, error: &RingError) -> linux::Error {
    linux::Error { call, object: None, source: std::io::Error::other(error.to_string()) }
}

struct RingOutlet {
    ring: Ring,
    end: Option<Sender>,
    how: WaitStrategy,
    halt: Halt,
}

impl Outlet for RingOutlet {
    fn meet(&mut self, _: Peer) -> linux::Result<()> {
        self.end = Some(self.ring.sender().map_err(|e| refused("Ring::sender", &e))?);
        Ok(())
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> linux::Result<()> {
        let Some(end) = &mut self.end else { return Err(linux::Error::from_errno("Ring::send", linux::ESRCH)) };
        loop {
            match end.send_timeout(message, self.how, AT_MOST) {
                Ok(()) => return Ok(()),
                Err(SendError::Full) if !self.halt.is_set() => {}
                Err(SendError::Full) => return Err(linux::Error::from_errno("Ring::send", linux::EINTR)),
                Err(SendError::Closed | SendError::PeerDied) => {
                    return Err(linux::Error::from_errno("Ring::send", linux::EPIPE));
                }
                Err(e) => {
                    return Err(linux::Error { call: "Ring::send", object: None, source: std::io::Error::other(e) });
                }
            }
        }
    }
}

struct RingInlet {
    ring: Ring,
    end: Option<Receiver>,
    how: WaitStrategy,
    halt: Halt,
}

fn broken(error: ReceiveError) -> linux::Error {
    match error {
        ReceiveError::Closed | ReceiveError::PeerDied => linux::Error::from_errno("Ring::receive", linux::EPIPE),
        e => linux::Error { call: "Ring::receive", object: None, source: std::io::Error::other(e) },
    }
}

impl Inlet for RingInlet {
    fn meet(&mut self, _: Peer) -> linux::Result<()> {
        self.end = Some(self.ring.receiver().map_err(|e| refused("Ring::receiver", &e))?);
        Ok(())
    }

    #[inline]
    fn receive(&mut self, into: &mut [u8]) -> linux::Result<()> {
        let Some(end) = &mut self.end else { return Err(linux::Error::from_errno("Ring::receive", linux::ESRCH)) };
        loop {
            match end.recv_timeout(into, self.how, AT_MOST).map_err(broken)? {
                Some(n) => return whole("Ring::receive", n, into.len()),
                None if self.halt.is_set() => return Err(linux::Error::from_errno("Ring::receive", linux::EINTR)),
                None => {}
            }
        }
    }

    #[inline]
    fn poll(&mut self, into: &mut [u8]) -> linux::Result<bool> {
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
