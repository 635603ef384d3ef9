//! Counts each wait of the program by call site, into the file that `PUNCTUAL_OBSERVE` names.
//!
//! A call that looks without waiting costs two additions in shared memory, and every 64th is timed. A call that can block is timed by two
//! readings of CLOCK_MONOTONIC. Every eighth has its CPU time read (CLOCK_THREAD_CPUTIME_ID) by system calls. Between its beginning and
//! its end a call keeps data on its stack only. A call that is cancelled, jumped out of or killed has begun and not ended.
//!
//! Where the file cannot be mapped, the program runs unobserved.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use punctual_linux::call_table::{Ended, Entry, LOOKS, Site, Table, calls};

use crate::callers::{Caller, Once};
use crate::filter::Foreign;
use crate::next::{self, now_ns};

pub(crate) use punctual_linux::call_table::How;

/// Of calls that look, one in 64 is timed. On average the readings of clocks then cost a few ns. The first one is not: it finds
/// cold caches.
const ONE_LOOK_IN: u64 = 64;
/// Of calls that can block, one in 8 has its CPU time read.
const ONE_WAIT_IN: u64 = 8;

static TABLE: AtomicPtr<Table> = AtomicPtr::new(std::ptr::null_mut());

/// Maps the file, if there is one. Runs once, when the program is loaded.
pub(crate) fn attach() {
    let Some(path) = next::variable(c"PUNCTUAL_OBSERVE") else { return };
    let path = std::ffi::OsStr::from_bytes(path.to_bytes());
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NOCTTY).open(path);
    let Ok(table) = file.map_err(drop).and_then(|file| Table::map(&file).map_err(drop)) else { return };
    prepare();
    table.attach();
    TABLE.store(std::ptr::from_ref(table).cast_mut(), Ordering::Release);
}

pub(crate) fn is_attached() -> bool {
    table().is_some()
}

#[inline]
fn table() -> Option<&'static Table> {
    // SAFETY: null, or a table that stays mapped.
    unsafe { TABLE.load(Ordering::Acquire).as_ref() }
}

/// The time limit of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// It only looks.
    Look,
    /// Without end.
    Endless,
    /// This long, ns.
    For(i64),
    /// Until this time of CLOCK_MONOTONIC, ns.
    Until(i64),
}

/// Makes a call and counts it.
#[inline]
pub(crate) fn observed<R>(
    call: u8,
    caller: Caller,
    limit: impl FnOnce() -> Limit,
    make: impl FnOnce() -> R,
    how: impl FnOnce(&R, Limit) -> How,
) -> R {
    let Some(table) = table() else { return make() };
    let limit = limit();
    let number = if limit == Limit::Look { call | LOOKS } else { call };
    match (entry_of(table, number, caller), limit) {
        (None, _) => make(),
        (Some(entry), Limit::Look) => looks(entry, make, how),
        (Some(entry), limit) => waits(entry, limit, make, how),
    }
}

/// The same for a yield. Whether another thread ran is known of the timed ones.
#[inline]
pub(crate) fn yields<R>(caller: Caller, make: impl FnOnce() -> R) -> R {
    let found = table().and_then(|table| entry_of(table, calls::SCHED_YIELD | LOOKS, caller));
    let Some(entry) = found else { return make() };
    if entry.begin() % ONE_LOOK_IN != 1 {
        return make();
    }
    let switches = switches();
    let done = timed(entry, make);
    if let (Some(before), Some(after)) = (switches, self::switches()) {
        entry.yielded(after != before);
    }
    done
}

fn looks<R>(entry: &Entry, make: impl FnOnce() -> R, how: impl FnOnce(&R, Limit) -> How) -> R {
    let done = if entry.begin() % ONE_LOOK_IN == 1 { timed(entry, make) } else { make() };
    entry.looked(how(&done, Limit::Look));
    done
}

/// Makes a call that does not wait, with its duration and CPU time.
#[cold]
fn timed<R>(entry: &Entry, make: impl FnOnce() -> R) -> R {
    let cpu_ns = cpu_ns();
    let began_ns = now_ns();
    let done = make();
    entry.took((now_ns() - began_ns).max(0).unsigned_abs());
    used(entry, cpu_ns);
    done
}

fn waits<R>(entry: &Entry, limit: Limit, make: impl FnOnce() -> R, how: impl FnOnce(&R, Limit) -> How) -> R {
    let cpu_ns = if entry.begin() % ONE_WAIT_IN == 1 { cpu_ns() } else { None };
    let began_ns = now_ns();
    let done = make();
    let ended_ns = now_ns();
    let how = how(&done, limit);
    let (asked_ns, deadline_ns) = match limit {
        Limit::Look | Limit::Endless => (None, None),
        Limit::For(ns) => (Some(ns), Some(began_ns.saturating_add(ns))),
        Limit::Until(deadline_ns) => (Some(deadline_ns - began_ns), Some(deadline_ns)),
    };
    let length = |ns: i64| ns.max(0).unsigned_abs();
    entry.end(&Ended {
        how,
        took_ns: length(ended_ns - began_ns),
        asked_ns: asked_ns.map(length),
        // A wait whose time was over is late from its call on.
        late_ns: deadline_ns
            .filter(|_| how == How::Expired)
            .map(|deadline_ns| length(ended_ns - deadline_ns.max(began_ns))),
    });
    used(entry, cpu_ns);
    done
}

fn used(entry: &Entry, before_ns: Option<i64>) {
    if let Some((before, after)) = before_ns.zip(before_ns.and_then(|_| cpu_ns())) {
        entry.used((after - before).max(0).unsigned_abs());
    }
}

static CPU_TIME: Foreign = Foreign::new();
static USAGE: Foreign = Foreign::new();

/// CPU time of this thread. None where a filter of system calls forbids it.
fn cpu_ns() -> Option<i64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    ask(&CPU_TIME, || unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) })?;
    Some(time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64)
}

/// The context switches of this thread so far.
fn switches() -> Option<i64> {
    // SAFETY: zeroes are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes one rusage.
    ask(&USAGE, || unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) })?;
    Some(usage.ru_nvcsw as i64 + usage.ru_nivcsw as i64)
}

/// A system call that the program does not make.
fn ask(foreign: &Foreign, call: impl FnOnce() -> libc::c_int) -> Option<()> {
    if !foreign.is_allowed() {
        return None;
    }
    let errno = next::errno();
    let done = call();
    if done != 0 {
        foreign.is_refused(next::errno());
        next::set_errno(errno);
    }
    (done == 0).then_some(())
}

/// From a call and a return address to the entry that counts it, looked up once in a process: more than a file has entries.
///
/// A child has what its parent knew by fork(2), where the addresses are the same. What is loaded at the place of a library that was
/// unloaded keeps that one's name.
static ENTRIES: Once<1024> = Once::new();

/// The entry of a call; `None` where the file has no room for it.
#[inline]
fn entry_of(table: &'static Table, call: u8, caller: Caller) -> Option<&'static Entry> {
    // Addresses of programs are below 2^56, and numbers of functions below 32.
    let function = u64::from(call & !LOOKS) | u64::from(call & LOOKS) >> 2;
    let key = caller.0 as u64 | function << 56;
    let address = ENTRIES.get(key, || {
        look_up(table, call, caller).map_or(0, |entry| std::ptr::from_ref(entry).expose_provenance() as u64)
    });
    // SAFETY: null, or an entry of a table that stays mapped.
    let found = unsafe { std::ptr::with_exposed_provenance::<Entry>(address.unwrap_or(0) as usize).as_ref() };
    if found.is_none() {
        table.leave_out();
    }
    found
}

#[cold]
#[inline(never)]
fn look_up(table: &'static Table, call: u8, caller: Caller) -> Option<&'static Entry> {
    let (path, offset) = place(caller.0);
    table.entry(&Site { call, program: program(), path, offset })
}

/// The beginning of glibc's `struct dl_find_object`; `rest` has room for the other fields on every
/// architecture.
#[repr(C)]
struct Found {
    flags: u64,
    /// Of one segment, where segments do not follow each other.
    _start: *const c_void,
    _end: *const c_void,
    object: *const LinkMap,
    rest: [u64; 16],
}

/// The beginning of `struct link_map` (link.h).
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int;

/// Facts that are read when the program is loaded.
struct Program {
    name: Vec<u8>,
    path: Vec<u8>,
    find: Option<FindObject>,
    loaded: Vec<Loaded>,
}

/// An object that was loaded with the program.
struct Loaded {
    begin: usize,
    end: usize,
    /// The difference between addresses in memory and in the file.
    base: usize,
    path: Vec<u8>,
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// Finds out what an address needs later. Runs when the program is loaded.
pub(super) fn prepare() {
    let path = std::fs::read_link("/proc/self/exe").map_or(Vec::new(), |path| path.as_os_str().as_bytes().to_vec());
    // SAFETY: the name ends with a zero byte.
    let find = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    // SAFETY: glibc's function of this name has this type.
    let find = (!find.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, FindObject>(find) });
    let mut loaded: Vec<Loaded> = Vec::new();
    if find.is_none() {
        // SAFETY: the function below takes a vector of this type.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut loaded).cast()) };
    }
    let _ = PROGRAM.set(Program { name: next::thread_name(&mut [0; 16]).to_vec(), path, find, loaded });
}

/// For dl_iterate_phdr(3): adds an object.
unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: libc::size_t, loaded: *mut c_void) -> c_int {
    // SAFETY: the loader gives a valid object, and `prepare` its vector.
    let (info, loaded) = unsafe { (&*info, &mut *loaded.cast::<Vec<Loaded>>()) };
    // SAFETY: the object's headers, as many as it says.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let segments = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let ends = segments.map(|segment| (segment.p_vaddr as usize, segment.p_vaddr as usize + segment.p_memsz as usize));
    if let Some((begin, end)) = ends.reduce(|(begin, end), next| (begin.min(next.0), end.max(next.1))) {
        let base = info.dlpi_addr as usize;
        // SAFETY: a string of the loader.
        let path = unsafe { text(info.dlpi_name) }.to_vec();
        loaded.push(Loaded { begin: base + begin, end: base + end, base, path });
    }
    0
}

/// # Safety
/// `name` is null or a string that lives on.
unsafe fn text<'a>(name: *const c_char) -> &'a [u8] {
    // SAFETY: as the caller says.
    if name.is_null() { &[] } else { unsafe { CStr::from_ptr(name) }.to_bytes() }
}

/// The program's name.
pub(super) fn program() -> &'static [u8] {
    PROGRAM.get().map_or(&[], |program| &program.name)
}

/// The file that this address is from, and the address as the file has it. No path where it is of no file.
pub(super) fn place(address: usize) -> (&'static [u8], u64) {
    let Some(program) = PROGRAM.get().filter(|_| address != 0) else { return (&[], 0) };
    let Some((base, path)) = object(program, address) else { return (&[], 0) };
    // The loader does not name the program itself.
    (if path.is_empty() { &program.path } else { path }, address.wrapping_sub(base) as u64)
}

/// The difference between addresses in memory and in the file, and its path.
fn object(program: &'static Program, address: usize) -> Option<(usize, &'static [u8])> {
    let Some(find) = program.find else {
        let object = program.loaded.iter().find(|object| (object.begin..object.end).contains(&address))?;
        return Some((object.base, &object.path));
    };
    let mut found =
        Found { flags: 0, _start: std::ptr::null(), _end: std::ptr::null(), object: std::ptr::null(), rest: [0; 16] };
    // SAFETY: writes one `struct dl_find_object`, for which there is room.
    if unsafe { find(address as *mut c_void, &raw mut found) } != 0 || found.object.is_null() {
        return None;
    }
    // SAFETY: the object has the code that is being executed, so it stays loaded; its name stays with it.
    unsafe { Some(((*found.object).base, text((*found.object).name))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_linux::call_table;

    fn entry() -> (std::fs::File, &'static Entry) {
        let file = tempfile::tempfile().unwrap();
        call_table::format(&file).unwrap();
        let site = call_table::Site { call: calls::POLL, program: b"", path: b"", offset: 0 };
        let entry = Table::map(&file).unwrap().entry(&site).unwrap();
        (file, entry)
    }

    fn counted(file: &std::fs::File) -> call_table::Counted {
        call_table::read(file).unwrap().entries.remove(0)
    }

    #[test]
    fn a_call_that_looks_is_counted_and_one_of_64_is_timed() {
        let (file, entry) = entry();
        for n in 0..129 {
            assert_eq!(looks(entry, || n, |n, _| if n % 2 == 0 { How::Nothing } else { How::Event }), n);
        }
        let counted = counted(&file);
        assert_eq!((counted.calls, counted.ended, counted.cpu_read), (129, [65, 64, 0, 0], 2));
        assert_eq!((counted.took.iter().sum::<u64>(), counted.asked_extremes, counted.late_extremes), (2, None, None));
    }

    #[test]
    fn a_timed_call_has_its_duration_and_its_cpu_time() {
        let (file, entry) = entry();
        let pauses = || std::thread::sleep(std::time::Duration::from_millis(2));
        timed(entry, pauses);
        let slept = counted(&file);
        assert!(slept.took_extremes.unwrap().0 >= 2_000_000, "{:?}", slept.took_extremes);
        timed(entry, || crate::next::spin_until(now_ns() + 2_000_000));
        let spun = counted(&file);
        assert!(spun.cpu_ns > slept.cpu_ns, "{} {}", slept.cpu_ns, spun.cpu_ns);
    }

    #[test]
    fn the_switches_of_a_thread_are_those_that_it_wanted_and_the_others() {
        let counted = || {
            // SAFETY: zeroes are a valid value, which getrusage(2) fills.
            let usage = unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
                usage
            };
            [usage.ru_nvcsw, usage.ru_nivcsw]
        };
        // Other threads are wanted for yields: then the kernel counts switches that the thread did not want.
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(8, usize::from) * 2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
            let compared = loop {
                let ([wanted, others], found, after) = (counted(), switches(), counted());
                if wanted > 0 && others > 0 && [wanted, others] == after && (wanted, others) != (2, 2) {
                    break (found, Some(wanted + others));
                }
                std::thread::yield_now();
            };
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(compared.0, compared.1);
        });
    }

    #[test]
    fn only_a_wait_whose_time_was_over_is_late() {
        let (file, entry) = entry();
        for how in [How::Event, How::Failed, How::Expired] {
            waits(entry, Limit::For(1_000), || std::thread::sleep(std::time::Duration::from_micros(200)), |(), _| how);
        }
        waits(entry, Limit::Endless, || (), |(), _| How::Expired);
        waits(entry, Limit::Until(0), || (), |(), _| How::Event);
        let counted = counted(&file);
        assert_eq!((counted.calls, counted.ended), (5, [0, 2, 2, 1]));
        assert_eq!(counted.late.iter().sum::<u64>(), 1);
        assert!(counted.late_extremes.unwrap().0 >= 199_000, "{counted:?}");
        assert_eq!(counted.asked_extremes, Some((0, 1_000)), "a deadline in the past asks for nothing");
        assert!(counted.waited_ns >= 600_000 && counted.cpu_read == 1);
    }

    #[test]
    fn an_address_is_of_the_program_of_a_library_or_of_no_file() {
        prepare();
        let own = std::env::current_exe().unwrap();
        let (path, offset) = place(place as *const () as usize);
        assert_eq!(path, own.as_os_str().as_bytes());
        assert!(offset > 0);
        let (path, _) = place(libc::getpid as *const () as usize);
        assert!(path.windows(4).any(|part| part == b"libc"), "{:?}", String::from_utf8_lossy(path));
        assert_eq!(place(8), (&[][..], 0));
        assert!(!program().is_empty());
    }

    #[test]
    fn an_older_c_library_has_what_was_loaded_with_the_program() {
        let mut loaded: Vec<Loaded> = Vec::new();
        // SAFETY: the function takes a vector of this type.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut loaded).cast()) };
        let program: &'static Program =
            Box::leak(Box::new(Program { name: Vec::new(), path: Vec::new(), find: None, loaded }));
        prepare();
        let known = PROGRAM.get().unwrap();
        for address in [place as *const () as usize, libc::getpid as *const () as usize] {
            assert_eq!(object(program, address), object(known, address));
        }
        assert_eq!(object(program, 8), None);
    }
}
