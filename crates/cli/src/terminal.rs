//! Text on stdout and stderr, and its style.

use std::ffi::OsStr;
use std::io;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::Context as _;
use clap::ValueEnum;
use punctual_linux::inherited;
use punctual_record::sanitize;
use punctual_report::Style;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;

/// Widest text: a longer line is hard to read.
const WIDEST: usize = 160;
/// Width without a terminal, as ls(1), man(1) and git(1) have it.
const WIDTH_OF_A_PIPE: usize = 80;
/// Width of all tables without a terminal. Columns without room are left out, and who keeps or searches all tables wants them.
const WIDTH_OF_TABLES: usize = 140;
/// Most characters of a message, about fifty lines: quoted input must not fill the screen.
const LONGEST_MESSAGE: usize = 4000;
/// Longest name shown whole.
const LONGEST_NAME: usize = 300;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Also into a file or a pipe
    Always,
    /// Never
    Never,
}

/// The style of a screen on stdout.
pub(crate) fn style(color: Color) -> Style {
    style_for(color, io::stdout().is_terminal(), WIDTH_OF_A_PIPE)
}

/// The style of all tables on stdout.
pub(crate) fn style_of_tables(color: Color) -> Style {
    style_for(color, io::stdout().is_terminal(), WIDTH_OF_TABLES)
}

/// The style of all tables in a file.
pub(crate) fn style_for_file(color: Color) -> Style {
    style_for(color, false, WIDTH_OF_TABLES)
}

/// The style for stderr. Without a terminal it is a log, which is searched, so that its lines are broken seldom.
pub(crate) fn style_for_notices(color: Color) -> Style {
    style_for(color, io::stderr().is_terminal(), WIDTH_OF_TABLES)
}

fn style_for(color: Color, terminal: bool, without_terminal: usize) -> Style {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
        || std::env::var_os("TERM").is_some_and(|v| v == "dumb");
    let color = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal && !plain,
    };
    let width = terminal_size::terminal_size().map(|(w, _)| usize::from(w.0)).filter(|_| terminal);
    let width = width.or_else(columns_told).map_or(without_terminal, |w| w.clamp(40, WIDEST));
    Style { width, color, unicode: speaks_utf8() }
}

/// The width that COLUMNS says, for what is no terminal.
fn columns_told() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|width| *width > 0)
}

/// Whether the locale is UTF-8, by the rule of `setlocale(3)`: the first of these variables that is set decides. None set: UTF-8,
/// which terminals and most pipelines take.
fn speaks_utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
    locale.is_none_or(|l| {
        let l = l.to_ascii_lowercase();
        l.contains("utf-8") || l.contains("utf8")
    })
}

/// A file name without control characters, safe for a terminal.
pub(crate) fn shown(name: impl AsRef<OsStr>) -> String {
    sanitize::line(&name.as_ref().to_string_lossy(), LONGEST_NAME)
}

/// Whether what is said on stdout and on stderr is read on one screen.
pub(crate) fn has_both() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Lines of the terminal.
pub(crate) fn height() -> Option<usize> {
    terminal_size::terminal_size().map(|(_, height)| usize::from(height.0))
}

/// A file as a shell takes it: with `~` for the user's home, in quotes where it needs them.
pub(crate) fn typed(file: &Path) -> String {
    let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+,@:".contains(c));
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute() && home.parent().is_some());
    if let Some(inside) = home.and_then(|home| file.strip_prefix(home).ok())
        && plain(&inside.to_string_lossy())
    {
        return format!("~/{}", inside.display());
    }
    let name = file.to_string_lossy();
    if plain(&name) { name.into_owned() } else { format!("'{}'", shown(file).replace('\'', "'\\''")) }
}

/// Prints a message on stderr without control characters. Ignores write errors.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "punctual: {}", sanitize::lines(text.trim_end(), LONGEST_MESSAGE));
}

/// Prints laid-out text on stderr. Ignores write errors.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints text on stdout.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    if inherited::was_closed(1) {
        anyhow::bail!("stdout is closed: nothing can be printed");
    }
    // The lock keeps the order: lines printed before come first.
    let stdout = io::stdout().lock();
    pour(&stdout, text.as_bytes()).context("writing to stdout")
}

// Writes to a descriptor that may block: a pipe, a terminal, a device.
//
// A closed pipe is no error: its reader has all it wanted. A signal ends the wait for a reader that does not read, once
// [`heed_signals`] was called.

/// Bytes that a writable pipe takes without blocking: PIPE_BUF of pipe(7).
const PIECE: usize = 4096;
/// Interval of the checks for a signal: short enough after Ctrl-C.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Signals do not end writes.
const NOT_HEEDED: u8 = 0;
/// A signal ends a waiting write.
const HEEDED: u8 = 1;
/// A signal arrived.
const GIVEN_UP: u8 = 2;

static SIGNALS: AtomicU8 = AtomicU8::new(NOT_HEEDED);

/// From now on [`give_up`] ends every write that waits for a reader.
pub(crate) fn heed_signals() {
    SIGNALS.store(HEEDED, Ordering::Release);
}

/// Ends every write that waits for a reader, after [`heed_signals`]. Returns whether this is the first such call.
pub(crate) fn give_up() -> bool {
    SIGNALS.compare_exchange(HEEDED, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Writes everything. A closed pipe ends the write without an error.
pub(crate) fn pour(into: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let into = into.as_fd();
    let kind = rustix::fs::fstat(into).map(|facts| FileType::from_raw_mode(facts.st_mode))?;
    let may_block = !matches!(kind, FileType::RegularFile | FileType::BlockDevice);
    let piece = if may_block { PIECE } else { usize::MAX };
    let mut rest = bytes;
    while !rest.is_empty() {
        if may_block {
            wait_until_writable(into)?;
        }
        match rustix::io::write(into, &rest[..rest.len().min(piece)]) {
            Ok(0) => return Err(Errno::IO.into()),
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::PIPE) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn wait_until_writable(into: impl AsFd) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(&into, PollFlags::OUT)], Some(&LOOK_AGAIN)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        if SIGNALS.load(Ordering::Acquire) == GIVEN_UP {
            return Err(io::Error::other("the reader did not read, and a signal ended the wait"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn a_name_is_shown_without_what_a_terminal_obeys() {
        assert_eq!(shown("a b.json"), "a b.json");
        assert_eq!(typed(Path::new("/nowhere/run-1.json")), "/nowhere/run-1.json");
        assert_eq!(typed(Path::new("/nowhere/it's $x/run-1.json")), r"'/nowhere/it'\''s $x/run-1.json'");
        assert_eq!(shown(OsStr::from_bytes(b"a\x1b[31m\n\xff")), "a?[31m \u{fffd}");
        assert!(shown("x".repeat(5000)).ends_with("x…"));
    }
}
