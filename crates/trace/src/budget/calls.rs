//! System calls by what they wait for, as the programs in the kernel know them: by number, which differs between architectures.

use punctual_linux::syscall_name::{number_of, number_of_32_bit_call};

/// Calls with a descriptor as first argument, which sleep until it is ready.
const DESCRIPTORS: [&str; 27] = [
    "read",
    "readv",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "recvfrom",
    "recv",
    "recvmsg",
    "recvmmsg",
    "accept",
    "accept4",
    "fsync",
    "fdatasync",
    "syncfs",
    "flock",
    "fcntl",
    "ioctl",
    "ftruncate",
    "fallocate",
    "getdents64",
    "splice",
    "copy_file_range",
    "mq_timedreceive",
    "mq_timedsend",
];
/// Those that send what another thread of this machine receives, a connection and its end among it.
const SENDS: [&str; 9] =
    ["write", "writev", "sendto", "sendmsg", "sendmmsg", "sendfile", "connect", "shutdown", "close"];

/// `enum call_kind` of the programs, by the numbers of this architecture.
pub(super) fn kinds() -> [u8; 512] {
    let mut calls = [0; 512];
    let kinds = [
        (&DESCRIPTORS[..], 1),
        (&["futex"], 2),
        (&SENDS, 3),
        (&["clock_nanosleep"], 4),
        (&["nanosleep"], 5),
        (&["wait4", "waitid"], 6),
        (&["vfork"], 7),
        (&["clone"], 8),
        (&["clone3"], 9),
    ];
    for (names, kind) in kinds {
        for number in names.iter().filter_map(|name| number_of(name)) {
            if let Some(slot) = usize::try_from(number).ok().and_then(|number| calls.get_mut(number)) {
                *slot = kind;
            }
        }
    }
    calls
}

/// `CALLS_OF_32_BITS` of the programs.
pub(super) fn of_32_bits() -> [u16; 512] {
    std::array::from_fn(|number| {
        let here = number_of_32_bit_call(i64::try_from(number).unwrap_or_default());
        u16::try_from(here).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_one_kind_and_others_have_none() {
        let kind = |name: &str| kinds()[usize::try_from(number_of(name).unwrap()).unwrap()];
        let kinds = ["read", "futex", "write", "clock_nanosleep", "nanosleep", "wait4", "clone", "clone3"].map(kind);
        assert_eq!(kinds, [1, 2, 3, 4, 5, 6, 8, 9]);
        assert_eq!((kind("getpid"), kind("mmap")), (0, 0));
    }
}
