//! The file for Perfetto, written while a program, or a run of our own, is watched.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_lab::Tracer;
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
        written.map_err(|why| complain(&name, &why)).is_ok()
    }
}

fn complain(name: &str, why: &str) {
    terminal::complain(&format!("error: {name}: {why}"));
}

/// The file of a run of our own: the measuring thread writes it, the command ends it. It is requested until it is begun.
#[derive(Debug, Clone)]
pub(super) struct OfRun(Arc<Mutex<(Option<Output>, Trace)>>);

impl OfRun {
    pub(super) fn requested(output: Output) -> Self {
        Self(Arc::new(Mutex::new((Some(output), Trace::default()))))
    }

    /// Completes the file. Says if it is not written, and returns whether all is well.
    pub(super) fn finish(self, causes: Option<&Causes>) -> bool {
        // A measuring thread that was left behind may still hold it.
        let Ok(mut state) = self.0.try_lock() else {
            complain("--trace", "not complete, because the run was ended");
            return false;
        };
        let none = Causes { source: CauseSource::RunDelay, ..Causes::default() };
        match mem::take(&mut *state) {
            (None, begun) => begun.finish(causes.unwrap_or(&none)),
            (Some(output), _) => {
                let name = format!("{} {}", output.flag, output.target);
                complain(&name, "not written, because nothing was traced");
                false
            }
        }
    }
}

impl Tracer for OfRun {
    fn begin(&mut self, target: &Target) {
        let (requested, trace) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if requested.is_some() {
            *trace = Trace::begin(requested.take(), target);
        }
    }

    fn take(&mut self, batch: &Batch) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.take(batch);
    }
}
