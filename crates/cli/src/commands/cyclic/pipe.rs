//! The figures for other programs while the threads run: a named pipe (`-F`), and a file in shared memory (SIGUSR2).

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use super::form::Table;

/// From one look for a reader to the next.
const LOOK: Duration = Duration::from_millis(100);

/// A thread that gives the figures to whoever opens a named pipe. The pipe is removed at the end.
#[derive(Debug)]
pub(super) struct NamedPipe {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<String>>>,
}

impl NamedPipe {
    /// Makes the pipe in place of what has its name, and serves it.
    pub(super) fn serve(path: &str, table: Table) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let (its_end, path) = (Arc::clone(&ended), PathBuf::from(path));
        let serve = move || {
            let _ = std::fs::remove_file(&path);
            let mode = Mode::from_raw_mode(0o666);
            if let Err(error) = mknodat(CWD, &path, FileType::Fifo, mode, 0) {
                return Some(format!("-F {}: {error}", path.display()));
            }
            while !its_end.load(Ordering::Acquire) {
                let flags = OFlags::NONBLOCK.bits().cast_signed();
                // Without a reader the open fails.
                if let Ok(mut pipe) = OpenOptions::new().write(true).custom_flags(flags).open(&path) {
                    let _ = pipe.write_all(table.lines().as_bytes());
                }
                std::thread::sleep(LOOK);
            }
            let _ = std::fs::remove_file(&path);
            None
        };
        Self { ended, thread: std::thread::Builder::new().name("fifo".into()).spawn(serve).ok() }
    }

    /// Ends the thread. Returns why there was no pipe.
    pub(super) fn end(self) -> Option<String> {
        self.ended.store(true, Ordering::Release);
        self.thread.and_then(|thread| thread.join().ok()).flatten()
    }
}

/// A file in shared memory with the last status, removed on drop.
#[derive(Debug)]
pub(super) struct StatusFile {
    path: PathBuf,
    file: File,
}

impl StatusFile {
    /// Makes the file, whose name has the process id.
    pub(super) fn create() -> std::io::Result<Self> {
        let path = PathBuf::from(format!("/dev/shm/cyclictest{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o664).open(&path)?;
        Ok(Self { path, file })
    }

    /// Replaces what it says.
    pub(super) fn write(&self, text: &str) {
        let mut file = &self.file;
        let _ = file
            .set_len(0)
            .and_then(|()| std::io::Seek::rewind(&mut file))
            .and_then(|()| file.write_all(text.as_bytes()));
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
