//! The keeper: a small process that outlives this one and puts back what it left changed.
//!
//! It is `/bin/sh` with a script of its own: that needs no second program to be installed, and, unlike a plain fork, it leaves
//! the memory of a real-time program alone (after a fork every first write to a page faults once more, locked or not). It sleeps in `read` on a socket
//! whose other end this process holds, and that the kernel closes when this process dies, of whatever; then it follows the journal and
//! empties it. What this process forks does not hold that end too, nor the lock: a thread without a share in the process's descriptors keeps both. Its standard output is the lock, so that nobody else changes anything before it has finished.
//!
//! It belongs to a process group of its own, so that Ctrl-C does not reach it, and ignores the signals that ask to end.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use punctual_linux::apart::Apart;

use super::error::Error;

/// `$1` is the folder of the policies, `$2` the journal, `$3` the threads that were raised. For the settings only built-in commands: nothing
/// has to be found or started. Threads need chrt (util-linux, busybox); without it the next program puts them back.
/// A line is followed only where it has the form that the journal's reader accepts too.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM TSTP PIPE
while read -r _; do :; done
for pass in 1 2 3 4; do
    wrote= left=
    while read -r policy file value more; do
        [ -z "$more" ] || continue
        case $policy in policy[0-9] | policy[0-9][0-9] | policy[0-9][0-9][0-9] | policy[0-9][0-9][0-9][0-9]) ;; *) continue ;; esac
        case $file in scaling_governor | scaling_setspeed | energy_performance_preference | scaling_min_freq | scaling_max_freq) ;; *) continue ;; esac
        case $value in '' | *[!a-z0-9_-]*) continue ;; esac
        now=
        read -r now <"$1/$policy/$file"
        [ "$now" = "$value" ] && continue
        [ -e "$1/$policy/$file" ] && echo "$value" 1>"$1/$policy/$file" && wrote=yes
        now=
        read -r now <"$1/$policy/$file"
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
pub(super) struct Keeper {
    child: Child,
    held: Held,
}

/// The socket's end that the kernel closes when this process is gone, and the lock.
#[derive(Debug)]
struct Held {
    /// Out of reach of what this process forks.
    _apart: Option<Apart>,
    /// On kernels before 5.9, or where a filter forbids that: open as all else is, so that a forked child has them too. Settings then come back when
    /// the last such child has ended.
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
        // The lock goes whatever copies of it there are; a socket has none to give back. Should that fail, it ends with them.
        for fd in &self.here {
            let _ = rustix::fs::flock(fd, rustix::fs::FlockOperation::Unlock);
        }
    }
}

impl Keeper {
    /// Starts one for this journal. `lock` is held until it is dropped, and should this process die before, until the keeper has finished.
    pub(super) fn start(policies: &Path, journal: &Path, threads: &Path, lock: File) -> Result<Self, Error> {
        let failed = |source| Error::io("starting the keeper", "/bin/sh", source);
        let (ours, its) = UnixStream::pair().map_err(failed)?;
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "punctual-keeper"])
            .arg(policies)
            .arg(journal)
            .arg(threads)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(lock.try_clone().map_err(failed)?)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        Ok(Self { child, held: Held::new(ours, lock) })
    }

    /// Its process number.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it, and gives back the lock. The journal must be settled first: it has nothing to do then, so it does not matter when it ends.
    pub(super) fn dismiss(mut self) {
        // It may be gone already, by somebody else's hand.
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.held);
    }
}
