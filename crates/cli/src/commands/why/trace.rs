//! The file for Perfetto, written while a program is watched.

use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{CauseSource, Causes};
use punctual_trace::{Batch, ChromeTrace, Target};

use crate::output::{Growing, Output};
use crate::terminal;

/// The file, if one is wanted.
#[derive(Debug, Default)]
pub(super) struct Trace {
    file: Option<(ChromeTrace<Growing>, String)>,
}

impl Trace {
    /// Begins now, with these threads.
    pub(super) fn begin(output: Option<Output>, target: &Target) -> Self {
        let now_ns = now_ns(Clock::Monotonic).max(0).cast_unsigned();
        let begin = |output: Output| {
            let name = format!("{} {}", output.flag, output.target);
            (ChromeTrace::new(output.grow(), now_ns).only(target), name)
        };
        Self { file: output.map(begin) }
    }

    pub(super) fn take(&mut self, batch: &Batch) {
        if let Some((file, _)) = &mut self.file {
            file.take(batch);
        }
    }

    /// Completes the file. Says if it is not written, and returns whether all is well.
    pub(super) fn finish(self, causes: &Causes) -> bool {
        let Some((file, name)) = self.file else { return true };
        let written = if causes.source == CauseSource::Tracepoints {
            file.finish().and_then(Growing::finish).map_err(|e| e.to_string())
        } else {
            Err("not written, because the kernel's events are refused".to_owned())
        };
        written.map_err(|why| terminal::complain(&format!("error: {name}: {why}"))).is_ok()
    }
}
