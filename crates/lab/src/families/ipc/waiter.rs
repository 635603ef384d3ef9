//! How a receiver waits: in the kernel, by polling, or by backing off from polling to the kernel.

use punctual::backoff::{Backoff, Limits, Step};
use punctual_linux as linux;

use super::halt::Halt;
use super::mechanism::{Inlet, Receive};

/// A receiver's method of waiting.
#[derive(Debug, Clone)]
pub(super) struct Waiter {
    how: Receive,
    backoff: Backoff,
    halt: Halt,
}

impl Waiter {
    pub(super) fn new(how: Receive, limits: Limits, halt: Halt) -> Self {
        Self { how, backoff: Backoff::new(limits), halt }
    }

    /// Receives the next message.
    #[inline]
    pub(super) fn next(&mut self, inlet: &mut dyn Inlet, into: &mut [u8]) -> linux::Result<()> {
        match self.how {
            Receive::Block => inlet.receive(into),
            Receive::Poll => inlet.poll_until(into, &self.halt),
            Receive::Backoff => self.back_off(inlet, into),
        }
    }

    fn back_off(&mut self, inlet: &mut dyn Inlet, into: &mut [u8]) -> linux::Result<()> {
        self.backoff.reset();
        while !inlet.poll(into)? {
            self.halt.check("poll")?;
            if self.backoff.step() == Step::Park {
                return inlet.receive(into);
            }
        }
        Ok(())
    }
}
