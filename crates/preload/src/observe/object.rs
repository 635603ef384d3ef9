//! Which file an address of code is from.
//!
//! `_dl_find_object` of glibc 2.35 takes no lock and makes no system call. It works in a signal handler, and where a filter forbids
//! system calls. With an earlier C library the places are those of the objects that were loaded with the program.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::OnceLock;

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
    let _ = PROGRAM.set(Program { name: own_name(), path, find, loaded });
}

/// The name of the thread that runs `main`, as /proc/PID/comm has it: `PR_GET_NAME`.
fn own_name() -> Vec<u8> {
    let mut name = [0_u8; 16];
    // SAFETY: writes 16 bytes at most.
    unsafe { crate::next::prctl(libc::PR_GET_NAME, name.as_mut_ptr() as libc::c_ulong, 0, 0, 0) };
    name.iter().copied().take_while(|byte| *byte != 0).collect()
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
