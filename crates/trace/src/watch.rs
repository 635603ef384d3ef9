//! Watches threads, and says why they woke up late.

use std::time::Duration;

use punctual_record::{CauseSource, Causes};

use crate::{Batch, Level, Result, Tap, Threads};

/// Which threads are watched.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// These.
    pub tids: Vec<i32>,
    /// Also all that they create from now on, and those of their children.
    pub with_children: bool,
}

/// Watching.
#[derive(Debug)]
pub struct Watch {
    tap: Tap,
    causes: Causes,
}

impl Watch {
    /// Opens the events. Nothing is recorded before [`Watch::switch`].
    ///
    /// # Errors
    /// As [`Tap::open`] says.
    pub fn open(target: &Target, level: Level) -> Result<Self> {
        let tap = Tap::open(&Threads::near(target.tids.iter().copied()), level)?;
        Ok(Self { tap, causes: Causes { source: CauseSource::Tracepoints, ..Causes::default() } })
    }

    /// Begins recording, or suspends it. Between is nothing watched.
    ///
    /// # Errors
    /// As ioctl(2) says.
    pub fn switch(&mut self, on: bool) -> Result<()> {
        self.tap.switch(on)
    }

    /// Waits for events, at most this long, and takes them in. `each` sees them too.
    ///
    /// # Errors
    /// As poll(2) says.
    pub fn pump(&mut self, timeout: Duration, each: &mut dyn FnMut(&Batch)) -> Result<()> {
        self.tap.wait(timeout)?;
        let batch = self.tap.read();
        each(&batch);
        Ok(())
    }

    /// What was found out so far. Call it when recording is off: it takes in what is left.
    pub fn causes(&mut self) -> Causes {
        self.tap.read_all();
        self.causes.clone()
    }
}
