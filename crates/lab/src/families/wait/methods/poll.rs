//! Timeouts of the calls that wait for file descriptors, called with none.

use punctual_linux::poll::{self, Epoll};

use super::waiters::{relative, relative_up_to, unavailable};
use crate::ways::wait::{Kind, Method, Unit, units_up};

/// Below the maximum of an `int` of milliseconds (24 days), and far above any measured wait.
const MILLISECONDS_LONGEST_NS: i64 = 1_000_000_000_000_000;

const POLL: Method = Method::unnamed(Kind::Poll);

pub(super) static METHODS: &[Method] = &[
    Method {
        name: "select",
        about: "the timeout of select, in microseconds",
        call: "select(0, NULL, NULL, NULL, &timeval)",
        system_calls: &["select", "_newselect", "pselect6", "pselect6_time64"],
        unit: Unit::Microsecond,
        open: || relative(|ns| poll::select(units_up(ns, 1_000))),
        ..POLL
    },
    Method {
        name: "pselect",
        about: "the timeout of pselect, in nanoseconds",
        call: "pselect(0, NULL, NULL, NULL, &timespec, NULL)",
        system_calls: &["pselect6", "pselect6_time64"],
        open: || relative(poll::pselect),
        ..POLL
    },
    Method {
        name: "poll",
        about: "the timeout of poll: whole milliseconds",
        call: "poll(NULL, 0, milliseconds)",
        system_calls: &["poll", "ppoll", "ppoll_time64"],
        unit: Unit::Millisecond,
        open: || relative_up_to(MILLISECONDS_LONGEST_NS, |ns| poll::poll(milliseconds(ns))),
        ..POLL
    },
    Method {
        name: "ppoll",
        about: "the timeout of ppoll, in nanoseconds",
        call: "ppoll(NULL, 0, &timespec, NULL)",
        system_calls: &["ppoll", "ppoll_time64"],
        open: || relative(poll::ppoll),
        ..POLL
    },
    Method {
        name: "epoll_wait",
        about: "the timeout of epoll_wait: whole milliseconds, as most event loops have it",
        call: "epoll_wait(epfd, events, 1, milliseconds)",
        system_calls: &["epoll_wait", "epoll_pwait"],
        unit: Unit::Millisecond,
        open: || {
            let set = Epoll::new().map_err(|e| unavailable(&e, &[]))?;
            relative_up_to(MILLISECONDS_LONGEST_NS, move |ns| set.wait(milliseconds(ns)))
        },
        ..POLL
    },
    Method {
        name: "epoll_pwait2",
        about: "the timeout of epoll_pwait2, in nanoseconds",
        call: "epoll_pwait2(epfd, events, 1, &timespec, NULL)",
        system_calls: &["epoll_pwait2"],
        needs: "Linux 5.11",
        open: || {
            let set = Epoll::new().map_err(|e| unavailable(&e, &[]))?;
            relative(move |ns| set.pwait2(ns))
        },
        ..POLL
    },
];

fn milliseconds(ns: i64) -> i32 {
    i32::try_from(units_up(ns, 1_000_000)).unwrap_or(i32::MAX)
}
