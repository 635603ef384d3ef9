//! The keeper: a small process that outlives this one and restores its changes.
//!
//! It is `/bin/sh` with its own script, so no second program has to be installed. A plain fork would disturb the memory of a real-time
//! program. After it, the first write to each page faults again, even in locked memory. The keeper sleeps in `read` on a socket. This
//! process holds the other end, and the kernel closes it when the process dies. The keeper then follows the journal and empties it. A
//! thread with its own descriptor table holds the socket and the lock, so children of this process inherit neither. The keeper's standard
//! output is the lock, so no other program changes settings before it has finished.
//!
//! It has its own process group, so Ctrl-C does not reach it, and it ignores termination signals.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use punctual_linux::inherited::Apart;

use super::{Error, Form};

/// `$1` is the folder of the items, `$2` the journal, `$3` the raised threads. `$4` to `$6` are the form. They are the
/// prefix of an item's folder, the names of files between spaces, and the bytes of values. Settings need built-in
/// commands only, so no program has to be found or started. Threads need chrt (util-linux, busybox); without it, the
/// next program restores them. A line is followed only if the journal's reader accepts its form too.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM TSTP PIPE
while read -r _; do :; done
for pass in 1 2 3 4; do
    wrote= left=
    while read -r item file value more; do
        [ -z "$more" ] || continue
        number=${item#"$4"}
        [ "$item" = "$4$number" ] || continue
        case $number in [0-9] | [0-9][0-9] | [0-9][0-9][0-9] | [0-9][0-9][0-9][0-9]) ;; *) continue ;; esac
        case $file in '' | *[!a-z_]*) continue ;; esac
        case $5 in *" $file "*) ;; *) continue ;; esac
        case $value in '' | *[!$6]*) continue ;; esac
        now=
        read -r now <"$1/$item/$file"
        [ "$now" = "$value" ] && continue
        [ -e "$1/$item/$file" ] && echo "$value" 1>"$1/$item/$file" && wrote=yes
        now=
        read -r now <"$1/$item/$file"
        [ "$now" = "$value" ] || left=yes
    done <"$2"
    [ -z "$wrote" ] && break
done
while read -r tid name more; do
    case $tid in '' | *[!0-9]*) continue ;; esac
    now=
    read -r now <"/proc/$tid/comm"
    case $name in sugov:* | kworker/*) ;; *) continue ;; esac
    case $now in "$name" | "$name"[-+]*) chrt -o -p 0 "$tid" 1>/dev/null </dev/null ;; esac
done <"$3"
: >"$3"
[ -z "$left" ] && : >"$2"
exit 0
"#;

/// The keeper of this process.
#[derive(Debug)]
pub(crate) struct Keeper {
    child: Child,
    held: Held,
}

/// The socket's end, which the kernel closes when this process dies, and the lock.
#[derive(Debug)]
struct Held {
    /// Held by a thread with its own descriptor table, out of reach of forked children.
    _apart: Option<Apart>,
    /// Before Linux 5.9, or if a filter forbids that: ordinary descriptors, which a forked child inherits. Settings are
    /// then restored when the last such child has ended.
    here: Vec<OwnedFd>,
}

impl Held {
    fn new(alive: UnixStream, lock: File) -> Self {
        match Apart::hold(vec![alive.into(), lock.into()]) {
            Ok(apart) => Self { _apart: Some(apart), here: Vec::new() },
            Err((_, both)) => Self { _apart: None, here: both },
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Unlocking releases the lock, whatever copies exist. If it fails, the lock ends with its last copy.
        for fd in &self.here {
            let _ = rustix::fs::flock(fd, rustix::fs::FlockOperation::Unlock);
        }
    }
}

impl Keeper {
    /// Starts a keeper for this journal. `lock` is held until the keeper is dropped; if this process dies first, until
    /// the keeper has finished.
    pub(crate) fn start(
        form: &Form,
        root: &Path,
        journal: &Path,
        threads: Option<&Path>,
        lock: File,
    ) -> Result<Self, Error> {
        let failed = |source| Error::io("starting the keeper", "/bin/sh", source);
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "punctual-keeper"])
            .arg(root.join(form.folder))
            .arg(journal)
            .arg(threads.unwrap_or(Path::new("/dev/null")))
            .arg(form.prefix)
            .arg(format!(" {} ", form.files.iter().map(|file| file.name).collect::<Vec<_>>().join(" ")))
            .arg(form.bytes)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(lock.try_clone().map_err(failed)?)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        Ok(Self { child, held: Held::new(ours, lock) })
    }

    /// Its process ID.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the keeper and releases the lock. The journal must be settled first. The keeper then has nothing to do, and may end at any
    /// moment.
    pub(crate) fn dismiss(mut self) {
        // Another process may have killed it already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.held);
    }
}
