//! `bpf(2)`: a program that keeps the kernel busy at a tracepoint, for tests of late wake-ups, and the entries of a map, many at a time.
//!
//! The program's instructions are written here, so it needs no compiler. It ends with its descriptors: nothing is left in the kernel
//! after a SIGKILL. Needs Linux 5.5 and CAP_BPF with CAP_PERFMON, or CAP_SYS_ADMIN.

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use crate::{Error, Result, check, descriptor};

/// Delays that are noted; later ones are not injected.
const MOST: usize = 1 << 12;
/// Rounds of the loop, of at least 8 readings of the clock: milliseconds. The verifier walks through all.
const ROUNDS: i32 = 8_000;
/// Readings of the clock in a round.
const READINGS: usize = 8;

/// Where the program spins.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The tracepoint, without its system.
    pub tracepoint: &'a str,
    /// The CPU on which it spins.
    pub cpu: usize,
    /// The value of the tracepoint's first argument at which it spins; without one, at any.
    pub first: Option<i32>,
}

/// The program, attached to its tracepoint.
#[derive(Debug)]
pub struct Spin {
    /// The time from which on it spins, once.
    armed: OwnedFd,
    /// The number of delays, then the begin and the end of each.
    noted: OwnedFd,
    _link: OwnedFd,
}

impl Spin {
    /// `bpf(2)`: attaches the program; it runs after what is attached already. It does nothing before [`Spin::arm`].
    ///
    /// # Errors
    /// EPERM; EINVAL on kernels without such programs; ENOENT for an unknown tracepoint.
    pub fn attach(place: Place<'_>, spin_ns: u32) -> Result<Self> {
        let armed = array(8, 1, 0)?;
        // Before it is attached: a new element is 0, which is a time that is over.
        arm(&armed, u64::MAX)?;
        let noted = array(8 + 16 * MOST as u32, 1, 0)?;
        let spin = program(place, spin_ns, armed.as_raw_fd(), noted.as_raw_fd());
        let program = load(RAW_TRACEPOINT, &spin)?;
        let link = attach(&program, place.tracepoint)?;
        Ok(Self { armed, noted, _link: link })
    }

    /// `bpf(2)`: the program spins once, at the next event after this time of CLOCK_MONOTONIC.
    pub fn arm(&self, from_ns: u64) -> Result<()> {
        arm(&self.armed, from_ns)
    }

    /// `bpf(2)`: the delays so far, each with its begin and its end, CLOCK_MONOTONIC.
    pub fn delays(&self) -> Result<Vec<(u64, u64)>> {
        let (key, mut words) = (0_u32, vec![0_u64; 1 + 2 * MOST]);
        let lookup = element(&self.noted, &key, words.as_mut_ptr().expose_provenance());
        // SAFETY: the kernel reads the key and writes as many bytes as the map's elements have. There is room for them.
        check("bpf(BPF_MAP_LOOKUP_ELEM)", unsafe { bpf(LOOKUP, &lookup) })?;
        let count = (words[0] as usize).min(MOST);
        Ok(words[1..].chunks_exact(2).take(count).map(|delay| (delay[0], delay[1])).collect())
    }
}

fn arm(armed: &OwnedFd, from_ns: u64) -> Result<()> {
    let (key, value) = (0_u32, from_ns);
    let update = element(armed, &key, (&raw const value).expose_provenance());
    // SAFETY: the kernel reads the key, and as many bytes of the value as the map's elements have: 8.
    check("bpf(BPF_MAP_UPDATE_ELEM)", unsafe { bpf(UPDATE, &update) }).map(drop)
}

/// Entries of a map: keys one after another, and values one after another.
#[derive(Debug, Default)]
pub struct Entries {
    /// Keys.
    pub keys: Vec<u8>,
    /// Values, in the order of the keys.
    pub values: Vec<u8>,
}

/// Entries that are asked for at a time. All those of a bucket come together, so a call may ask for more.
const BATCH: u32 = 4096;

/// `bpf(2)`: all entries of a hash map (`BPF_MAP_LOOKUP_BATCH`), whose keys and values have these sizes in bytes. An entry that changes
/// its place meanwhile may be missing, or be there twice.
///
/// # Errors
/// EINVAL before Linux 5.6 and where the sizes are not those of the map; ENOTSUPP (524) for other kinds of maps.
pub fn entries(map: BorrowedFd<'_>, key: usize, value: usize) -> Result<Entries> {
    check_sizes(map, key, value)?;
    let (mut all, mut most) = (Entries::default(), BATCH);
    // Where the next call goes on. The kernel uses 4 of the 8 bytes.
    let (mut from, mut to): (Option<u64>, u64) = (None, 0);
    loop {
        let at = [all.keys.len(), all.values.len()];
        all.keys.resize(at[0] + key * most as usize, 0);
        all.values.resize(at[1] + value * most as usize, 0);
        let mut batch = Batch {
            from: from.as_ref().map_or(0, |from| (&raw const *from).expose_provenance() as u64),
            to: (&raw mut to).expose_provenance() as u64,
            keys: all.keys[at[0]..].as_mut_ptr().expose_provenance() as u64,
            values: all.values[at[1]..].as_mut_ptr().expose_provenance() as u64,
            count: most,
            map: map.as_raw_fd(),
            flags: [0; 2],
        };
        // SAFETY: keys and values have room for `most` entries of the map's sizes, the places for their 4 bytes. The kernel writes the
        // number of entries into `batch`.
        let ended = unsafe { libc::syscall(libc::SYS_bpf, LOOKUP_BATCH, &raw mut batch, size_of::<Batch>()) };
        let result = check("bpf(BPF_MAP_LOOKUP_BATCH)", ended as i32);
        let errno = result.as_ref().map_or_else(Error::errno, |_| 0);
        // ENOSPC: a bucket has more entries than there is room for.
        let found = if [0, libc::ENOENT].contains(&errno) { batch.count.min(most) as usize } else { 0 };
        all.keys.truncate(at[0] + key * found);
        all.values.truncate(at[1] + value * found);
        match errno {
            0 => from = Some(to),
            libc::ENOENT => return Ok(all),
            libc::ENOSPC if most < 1 << 20 => most *= 2,
            _ => return result.map(|_| all),
        }
    }
}

/// `union bpf_attr` of the command.
#[repr(C)]
struct Batch {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: i32,
    flags: [u64; 2],
}

/// The kernel writes as many bytes as the map says.
fn check_sizes(map: BorrowedFd<'_>, key: usize, value: usize) -> Result<()> {
    let path = format!("/proc/self/fdinfo/{}", map.as_raw_fd());
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::from_errno("reading the sizes of a map", error.raw_os_error().unwrap_or(libc::EIO)))?;
    let size = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<usize>().ok());
    let is_so = size("key_size:") == Some(key) && size("value_size:") == Some(value) && key * value > 0;
    if is_so { Ok(()) } else { Err(Error::from_errno("the sizes of a map", libc::EINVAL)) }
}

/// `enum bpf_cmd` (include/uapi/linux/bpf.h).
const MAP_CREATE: i32 = 0;
const LOOKUP: i32 = 1;
const UPDATE: i32 = 2;
const PROG_LOAD: i32 = 5;
const RAW_TRACEPOINT_OPEN: i32 = 17;
const LOOKUP_BATCH: i32 = 24;
/// `BPF_MAP_TYPE_ARRAY`, `BPF_PROG_TYPE_RAW_TRACEPOINT`.
const ARRAY: u32 = 2;
pub(crate) const RAW_TRACEPOINT: u32 = 17;

/// # Safety
/// The addresses in `attr` are those of memory that the command may read, or write.
unsafe fn bpf(command: i32, attr: &[u64]) -> i32 {
    // SAFETY: `attr` is readable for its size; the caller answers for the rest.
    unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_ptr(), size_of_val(attr)) as i32 }
}

/// # Safety
/// As [`bpf`]; the command returns a descriptor.
unsafe fn open(call: &'static str, command: i32, attr: &[u64]) -> Result<OwnedFd> {
    // SAFETY: the caller answers for the addresses; the kernel gives the descriptor to this call alone.
    unsafe { descriptor(call, bpf(command, attr)) }
}

/// Most attempts to load a program, as of libbpf. The kernel gives up with EAGAIN where a signal or a freezer waits for the thread
/// (kernel/bpf/verifier.c).
const LOADS: u32 = 5;

/// A program of this type.
pub(crate) fn load(kind: u32, code: &[u64]) -> Result<OwnedFd> {
    let mut load = [0_u64; 6];
    load[0] = u64::from(kind) | (code.len() as u64) << 32;
    load[1] = code.as_ptr().expose_provenance() as u64;
    load[2] = c"GPL".as_ptr().expose_provenance() as u64;
    let once = |_| {
        // SAFETY: the instructions and the licence live during the call, and the kernel checks them.
        unsafe { open("bpf(BPF_PROG_LOAD)", PROG_LOAD, &load) }
    };
    let interrupted = |loaded: &Result<OwnedFd>| matches!(loaded, Err(e) if e.errno() == libc::EAGAIN);
    (1..LOADS).map(once).find(|loaded| !interrupted(loaded)).unwrap_or_else(|| once(LOADS))
}

/// Attaches a program to the tracepoint of this name, until the link is closed.
pub(crate) fn attach(program: &OwnedFd, tracepoint: &str) -> Result<OwnedFd> {
    let name = CString::new(tracepoint).map_err(|_| Error::from_errno("bpf", libc::EINVAL))?;
    let attach = [name.as_ptr().expose_provenance() as u64, program.as_raw_fd() as u64];
    // SAFETY: the name lives during the call.
    let link = unsafe { open("bpf(BPF_RAW_TRACEPOINT_OPEN)", RAW_TRACEPOINT_OPEN, &attach) };
    link.map_err(|e| e.on(tracepoint))
}

/// An array of elements of this size.
pub(crate) fn array(bytes: u32, elements: u32, flags: u32) -> Result<OwnedFd> {
    let attr = [u64::from(ARRAY) | 4 << 32, u64::from(bytes) | u64::from(elements) << 32, u64::from(flags)];
    // SAFETY: no addresses.
    unsafe { open("bpf(BPF_MAP_CREATE)", MAP_CREATE, &attr) }
}

fn element(map: &OwnedFd, key: &u32, value: usize) -> [u64; 4] {
    [map.as_raw_fd() as u64, (&raw const *key).expose_provenance() as u64, value as u64, 0]
}

/// An instruction (`struct bpf_insn`).
pub(crate) fn instruction(code: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    u64::from(code)
        | u64::from(to | from << 4) << 8
        | u64::from(offset.cast_unsigned()) << 16
        | u64::from(value.cast_unsigned()) << 32
}

/// Codes of `Documentation/bpf/standardization/instruction-set.rst`, all of 64 bits.
pub(crate) const MOVE: u8 = 0xbf;
pub(crate) const MOVE_VALUE: u8 = 0xb7;
pub(crate) const ADD: u8 = 0x0f;
pub(crate) const ADD_VALUE: u8 = 0x07;
pub(crate) const SUBTRACT: u8 = 0x1f;
pub(crate) const SHIFT_VALUE: u8 = 0x67;
const LOAD: u8 = 0x79;
const STORE: u8 = 0x7b;
const IF_OTHER_VALUE: u8 = 0x55;
pub(crate) const IF_ABOVE: u8 = 0x2d;
const IF_ABOVE_VALUE: u8 = 0x25;
pub(crate) const IF_BELOW_VALUE: u8 = 0xa5;
pub(crate) const CALL: u8 = 0x85;
pub(crate) const EXIT: u8 = 0x95;
/// Helpers: `bpf_ktime_get_ns`, `bpf_get_smp_processor_id`.
pub(crate) const TIME: i32 = 5;
pub(crate) const CPU: i32 = 8;

/// Spins at the first event after the armed time, and notes when.
fn program(place: Place<'_>, spin_ns: u32, armed: i32, noted: i32) -> Vec<u64> {
    let value_of = |register, map| {
        // `BPF_PSEUDO_MAP_VALUE`: the address of the element.
        [instruction(0x18, register, 2, 0, map), 0]
    };
    let mut code = vec![instruction(MOVE, 6, 1, 0, 0), instruction(CALL, 0, 0, 0, CPU)];
    code.push(instruction(IF_OTHER_VALUE, 0, 0, OUT, place.cpu as i32));
    if let Some(first) = place.first {
        code.extend([instruction(LOAD, 1, 6, 0, 0), instruction(IF_OTHER_VALUE, 1, 0, OUT, first)]);
    }
    code.extend(value_of(7, armed));
    code.extend([instruction(CALL, 0, 0, 0, TIME), instruction(MOVE, 8, 0, 0, 0)]);
    code.extend([instruction(LOAD, 1, 7, 0, 0), instruction(IF_ABOVE, 1, 8, OUT, 0)]);
    code.extend([instruction(MOVE_VALUE, 1, 0, 0, -1), instruction(STORE, 7, 1, 0, 0)]);
    code.push(instruction(MOVE_VALUE, 9, 0, 0, 0));
    let begin = code.len();
    code.extend([instruction(CALL, 0, 0, 0, TIME); READINGS]);
    code.extend([instruction(MOVE, 1, 0, 0, 0), instruction(SUBTRACT, 1, 8, 0, 0)]);
    code.extend([instruction(ADD_VALUE, 9, 0, 0, 1), instruction(IF_ABOVE_VALUE, 9, 0, 1, ROUNDS)]);
    // The verifier takes the end of the loop first, so that it keeps one branch in mind and not all.
    let back = begin as i16 - (code.len() as i16 + 1);
    code.push(instruction(IF_BELOW_VALUE, 1, 0, back, spin_ns.cast_signed()));
    code.extend(value_of(7, noted));
    code.extend([instruction(LOAD, 1, 7, 0, 0), instruction(IF_ABOVE_VALUE, 1, 0, OUT, MOST as i32 - 1)]);
    code.extend([instruction(MOVE, 2, 1, 0, 0), instruction(ADD_VALUE, 2, 0, 0, 1), instruction(STORE, 7, 2, 0, 0)]);
    code.extend([instruction(SHIFT_VALUE, 1, 0, 0, 4), instruction(ADD, 7, 1, 0, 0)]);
    code.extend([instruction(STORE, 7, 8, 8, 0), instruction(STORE, 7, 0, 16, 0)]);
    let out = code.len();
    code.extend([instruction(MOVE_VALUE, 0, 0, 0, 0), instruction(EXIT, 0, 0, 0, 0)]);
    land(&mut code, &[(OUT, out)]);
    code
}

/// A jump that leaves the program; its distance is not known yet.
pub(crate) const OUT: i16 = i16::MAX;

/// Gives jumps to places their distance.
pub(crate) fn land(code: &mut [u64], places: &[(i16, usize)]) {
    for (at, instruction) in code.iter_mut().enumerate() {
        let jumps = *instruction & 7 == 5;
        let place = places.iter().find(|(mark, _)| (*instruction >> 16) as u16 == mark.cast_unsigned());
        if let Some((_, to)) = place.filter(|_| jumps) {
            *instruction = *instruction & !(0xffff << 16) | ((to - at - 1) as u64) << 16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, now_ns};
    use crate::sched::{affinity, set_affinity};

    #[test]
    fn all_entries_of_a_map_are_read_and_sizes_are_checked() {
        use std::os::fd::AsFd as _;
        if !punctual_testing::needs_root("maps of the kernel") {
            return;
        }
        const HASH: u64 = 1;
        const MANY: u32 = 10_000;
        let attr = [HASH | 4 << 32, 8 | u64::from(MANY) << 32, 0];
        // SAFETY: no addresses.
        let map = match unsafe { open("bpf(BPF_MAP_CREATE)", MAP_CREATE, &attr) } {
            Err(e) => return punctual_testing::lacks(punctual_testing::Lack::Call("bpf", e.errno())),
            Ok(map) => map,
        };
        let read = |key, value| entries(map.as_fd(), key, value);
        assert!(read(4, 8).unwrap().keys.is_empty());
        for key in 0..MANY {
            let value = u64::from(key) * 3;
            let update = element(&map, &key, (&raw const value).expose_provenance());
            // SAFETY: the kernel reads 4 bytes of the key and 8 of the value.
            check("bpf(BPF_MAP_UPDATE_ELEM)", unsafe { bpf(UPDATE, &update) }).unwrap();
        }
        let all = read(4, 8).unwrap();
        let keys = all.keys.chunks_exact(4).map(|key| u32::from_ne_bytes(key.try_into().unwrap()));
        let values = all.values.chunks_exact(8).map(|value| u64::from_ne_bytes(value.try_into().unwrap()));
        let mut pairs: Vec<_> = keys.zip(values).collect();
        pairs.sort_unstable();
        assert_eq!(pairs, (0..MANY).map(|key| (key, u64::from(key) * 3)).collect::<Vec<_>>());
        assert_eq!(read(8, 8).unwrap_err().errno(), libc::EINVAL);
        assert!(entries(array(8, 1, 0).unwrap().as_fd(), 8, 8).is_err());
    }

    #[test]
    fn the_kernel_is_kept_busy_once_for_the_time_asked() {
        if !punctual_testing::needs_root("programs in the kernel") {
            return;
        }
        let cpu = affinity(0).unwrap()[0];
        std::thread::spawn(move || {
            set_affinity(0, &[cpu]).unwrap();
            let place = Place { tracepoint: "sched_switch", cpu, first: None };
            let spin = match Spin::attach(place, 200_000) {
                Ok(spin) => spin,
                Err(e) if [libc::EPERM, libc::ENOSYS].contains(&e.errno()) => {
                    return punctual_testing::lacks(punctual_testing::Lack::Call("bpf", e.errno()));
                }
                Err(e) => panic!("{e}"),
            };
            std::thread::sleep(std::time::Duration::from_millis(2));
            assert_eq!(spin.delays().unwrap(), []);
            for done in 1..4 {
                let begin = now_ns(Clock::Monotonic) as u64;
                spin.arm(begin).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(2));
                let delays = spin.delays().unwrap();
                assert_eq!(delays.len(), done);
                assert!(delays[done - 1].0 >= begin && delays[done - 1].1 - delays[done - 1].0 >= 200_000);
            }
        })
        .join()
        .unwrap();
    }
}
