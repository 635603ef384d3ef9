//! An output that is written as its contents come: a long trace does not fit into memory.
//!
//! A regular file grows without a name and gets it at the end. Until then an old file of that name is unchanged. Only where that cannot be
//! done are the contents kept in memory. A stream is written at once.

use std::io::{self, Write};

use rustix::io::Errno;

use super::Output;
use super::sink::Sink;
use crate::terminal;

/// The output.
#[derive(Debug)]
pub(crate) struct Growing {
    output: Output,
    written: u64,
    /// What a file gets at the end that cannot grow unnamed.
    kept: Vec<u8>,
}

impl Growing {
    pub(super) fn new(output: Output) -> Self {
        Self { output, written: 0, kept: Vec::new() }
    }

    /// Gives the file its name, now that it is complete.
    pub(crate) fn finish(self) -> io::Result<()> {
        let Self { output, written, kept } = self;
        match output.sink {
            Sink::Stream(_) => Ok(()),
            Sink::Regular(file) if file.can_grow() => file.end_growth(written),
            Sink::Regular(file) => file.write(&kept),
        }
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.output.sink {
            Sink::Stream(stream) => terminal::pour(stream, bytes)?,
            Sink::Regular(file) if file.can_grow() => file.grow(bytes, self.written)?,
            Sink::Regular(_) => self.kept.extend(bytes),
        }
        self.written = self.written.checked_add(bytes.len() as u64).ok_or(Errno::FBIG)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
