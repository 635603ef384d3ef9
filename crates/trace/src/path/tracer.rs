//! The tracer `function_graph`, in a new instance, or at the top of tracefs if nothing else uses that.
//!
//! A child process puts everything back when this one is killed.

use std::io::{Error as IoError, Read as _, Result as IoResult, Write as _};
use std::os::fd::OwnedFd;

use punctual_linux::child::Child;
use punctual_linux::child::ParentDeath;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};

use crate::{Error, Result, Tracefs};

const TRACER: &str = "function_graph";

/// The tracer, set up. Dropping it puts everything back.
#[derive(Debug)]
pub(crate) struct Tracer {
    place: Place,
    /// Alive as long as something has to be restored.
    guard: Option<Child>,
}

/// Where it traces.
#[derive(Debug)]
struct Place {
    root: OwnedFd,
    /// A folder below `instances`; none at the top.
    instance: Option<String>,
}

impl Tracer {
    /// Prepares the tracer.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN; where the kernel lacks the tracer; where it is in use.
    pub(crate) fn open() -> Result<Self> {
        let root = Tracefs::writable()?;
        let mut place = Place { root, instance: Some(format!("punctual-{}", std::process::id())) };
        let tracers = place.read_top("available_tracers").map_err(Error::Tracefs)?;
        if !tracers.split_whitespace().any(|name| name == TRACER) {
            return Err(Error::NoTracer);
        }
        let guard = place.guard()?;
        let own = place.begin_instance().and_then(|()| place.write("current_tracer", TRACER));
        if own.is_err() {
            // Before Linux 6.12 only the top has this tracer.
            place.end();
            place.instance = None;
            place.unused()?;
            drop(guard);
            let mut tracer = Self { guard: Some(place.guard()?), place };
            return tracer.begin().map(|()| tracer);
        }
        let mut tracer = Self { place, guard: Some(guard) };
        tracer.begin().map(|()| tracer)
    }

    fn begin(&mut self) -> Result<()> {
        let tid = rustix::thread::gettid().as_raw_nonzero().to_string();
        let write = |file: &str, text: &str| self.place.write(file, text).map_err(Error::Tracefs);
        write("tracing_on", "0")?;
        write("set_ftrace_pid", &tid)?;
        write("current_tracer", TRACER)
    }

    /// The trace of what the calling thread, which opened this, does in kernel function `root` while `work` runs.
    ///
    /// # Errors
    /// EINVAL where the kernel has no such function, or does not trace it.
    pub(crate) fn record(&self, root: &str, work: &mut dyn FnMut()) -> IoResult<String> {
        // An instance has no such filter; there all of the thread is traced.
        if self.place.instance.is_none() {
            self.place.write("set_graph_function", root)?;
        }
        self.place.write("trace", "")?;
        self.place.write("tracing_on", "1")?;
        work();
        self.place.write("tracing_on", "0")?;
        self.place.read("trace")
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.place.end();
        if let Some(mut guard) = self.guard.take() {
            let _ = guard.kill();
        }
    }
}

impl Place {
    fn begin_instance(&self) -> IoResult<()> {
        let Some(instance) = &self.instance else { return Ok(()) };
        Ok(mkdirat(&self.root, format!("instances/{instance}"), Mode::RWXU)?)
    }

    /// Whether the top is as after boot, so that all of it can be restored.
    fn unused(&self) -> Result<()> {
        let is = |file: &str, free: &str| self.read(file).is_ok_and(|text| text.trim() == free);
        let busy = [("current_tracer", "nop"), ("set_event", ""), ("set_ftrace_pid", "no pid"), ("tracing_on", "1")]
            .into_iter()
            .find(|(file, free)| !is(file, free));
        let traced = self.read("trace").is_ok_and(|text| text.lines().any(|line| !line.starts_with('#')));
        match busy {
            Some((file, _)) => Err(Error::InUse(file)),
            None if traced => Err(Error::InUse("trace")),
            None => Ok(()),
        }
    }

    /// A process that puts everything back when this one ends without doing so.
    fn guard(&self) -> Result<Child> {
        let copy = Self { root: self.root.try_clone().map_err(Error::Tracefs)?, instance: self.instance.clone() };
        let guard = Child::spawn("punctual-tracer", move || {
            if rustix::process::setsid().is_ok()
                && let Ok(death) = ParentDeath::instead_of_own()
            {
                death.wait();
                copy.end();
            }
        })?;
        Ok(guard)
    }

    /// Puts everything back. What was never changed stays.
    fn end(&self) {
        let _ = self.write("tracing_on", "0");
        let _ = self.write("current_tracer", "nop");
        match &self.instance {
            Some(instance) => {
                let _ = unlinkat(&self.root, format!("instances/{instance}"), AtFlags::REMOVEDIR);
            }
            None => {
                for (file, text) in
                    [("set_graph_function", ""), ("set_ftrace_pid", ""), ("trace", ""), ("tracing_on", "1")]
                {
                    let _ = self.write(file, text);
                }
            }
        }
    }

    fn path(&self, file: &str) -> String {
        self.instance.as_ref().map_or_else(|| file.to_owned(), |instance| format!("instances/{instance}/{file}"))
    }

    fn read(&self, file: &str) -> IoResult<String> {
        self.read_top(&self.path(file))
    }

    fn read_top(&self, file: &str) -> IoResult<String> {
        let opened =
            openat(&self.root, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(IoError::from)?;
        let mut text = String::new();
        std::fs::File::from(opened).read_to_string(&mut text)?;
        Ok(text)
    }

    fn write(&self, file: &str, text: &str) -> IoResult<()> {
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
        let opened = openat(&self.root, self.path(file), flags, Mode::empty()).map_err(IoError::from)?;
        if text.is_empty() { Ok(()) } else { std::fs::File::from(opened).write_all(text.as_bytes()) }
    }
}
