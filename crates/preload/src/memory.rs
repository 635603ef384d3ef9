//! The memory of the program: what of it can be read, the file that is mapped at an address, and the functions around a place in that.
//!
//! Memory that the program gave to the kernel may be bad: the kernel answers EFAULT, and so must this library.
//!
//! The file is found in /proc/self/maps, and the functions in its ELF tables. The C library knows them too, but its functions take the lock
//! of the dynamic loader. A thread that waits for this one may hold that lock.

use std::ffi::CStr;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::StringTable;
use object::read::elf::{FileHeader as _, ProgramHeader as _, Sym as _};

use crate::filter;
use crate::next::{self, File};

/// The value at an address; none where it cannot be read. Then the program's own call says so.
#[inline]
pub(crate) fn read<T: Copy>(address: *const T) -> Option<T> {
    // SAFETY: the memory is readable. The type is one of plain numbers.
    is_readable(address.cast(), size_of::<T>()).then(|| unsafe { address.read_unaligned() })
}

/// Whether all of these bytes can be read.
#[inline]
pub(crate) fn is_readable(address: *const u8, length: usize) -> bool {
    // Programs keep most of what they pass here in their stack frames, whose page is then that of a variable here.
    let here = 0_u8;
    let page = |address: usize| address & !(PAGE - 1);
    let (begin, last) = (address as usize, (address as usize).wrapping_add(length.max(1) - 1));
    begin != 0 && (page(begin) == page(last) && page(begin) == page(&raw const here as usize) || ask(begin, last))
}

/// The smallest page of any architecture.
const PAGE: usize = 4096;

/// Whether the kernel waits for this word, by FUTEX_WAIT with these flags: it compares the word with a number that a word seldom has, and
/// waits for no time where they are equal. Changes errno.
pub(crate) fn is_word(word: usize, flags: libc::c_long) -> bool {
    const SELDOM: libc::c_long = 0x2d7a_91c3;
    let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let operation = libc::c_long::from(libc::FUTEX_WAIT) | flags;
    // SAFETY: reads a word, or reports that it cannot.
    unsafe {
        next::syscall(libc::SYS_futex, word as _, operation, SELDOM, &raw const no_time as _, 0, 0);
    }
    matches!(next::errno(), libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR)
}

#[cold]
#[inline(never)]
fn ask(begin: usize, last: usize) -> bool {
    const WORD: usize = size_of::<u32>();
    if last < begin || !filter::may_try() {
        return false;
    }
    let can_read = |place: usize| is_word(place & !(WORD - 1), libc::FUTEX_PRIVATE_FLAG.into());
    let errno = next::errno();
    let mut pages = ((begin | (PAGE - 1)).saturating_add(1)..=last).step_by(PAGE);
    let readable = can_read(begin) && pages.all(can_read);
    next::set_errno(errno);
    readable
}

/// Where a file is mapped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    pub(crate) path: &'a CStr,
    pub(crate) inode: u64,
    /// The address as a place in the file.
    pub(crate) offset: u64,
}

/// The file at this address. `buffer` must have room for a line: the path and 80 bytes.
pub(crate) fn find(address: usize, buffer: &mut [u8]) -> Option<Mapping<'_>> {
    let file = File::open(c"/proc/self/maps")?;
    let mut filled = 0;
    loop {
        let read = file.read(&mut buffer[filled..]).filter(|read| *read > 0)?;
        filled += read;
        let mut begin = 0;
        while let Some(length) = buffer[begin..filled].iter().position(|byte| *byte == b'\n') {
            let end = begin + length;
            if let Some((inode, offset, path)) = line(&buffer[begin..end], address) {
                let path = begin + path;
                let deleted = b" (deleted)";
                let end = if buffer[path..end].ends_with(deleted) { end - deleted.len() } else { end };
                buffer[end] = 0;
                return Some(Mapping { path: CStr::from_bytes_until_nul(&buffer[path..=end]).ok()?, inode, offset });
            }
            begin = end + 1;
        }
        buffer.copy_within(begin..filled, 0);
        filled -= begin;
        if filled == buffer.len() {
            return None;
        }
    }
}

/// For a line of this address and of a file: the inode, the place in the file, the path's beginning.
/// `55d0c000-55d0e000 r-xp 00002000 08:02 1835 /usr/bin/dd` (proc_pid_maps(5)).
fn line(line: &[u8], address: usize) -> Option<(u64, u64, usize)> {
    let text = line.iter().position(|byte| *byte == b'/').map_or(line, |path| &line[..path]);
    let mut words = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let (first, end) = words.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (first, end) = (hex(first)?, hex(end)?);
    let address = address as u64;
    let offset = hex(words.nth(1)?)?;
    let inode = words.nth(1)?.parse().ok()?;
    ((first..end).contains(&address) && text.len() < line.len())
        .then(|| (inode, offset + (address - first), text.len()))
}

/// A file in memory.
struct Mapped {
    begin: *mut libc::c_void,
    length: usize,
}

impl Mapped {
    /// The file at the path, if it is still the one that is mapped.
    fn open(path: &CStr, inode: u64) -> Option<Self> {
        let file = File::open(path)?;
        let mut facts = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: writes a stat, which is read only where fstat(2) succeeds.
        let facts = unsafe { (libc::fstat(file.0, facts.as_mut_ptr()) == 0).then(|| facts.assume_init())? };
        if facts.st_ino as u64 != inode {
            return None;
        }
        let length = usize::try_from(facts.st_size).ok().filter(|length| *length > 0)?;
        // SAFETY: a new mapping, where the kernel has room.
        let begin = unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.0, 0) };
        (begin != libc::MAP_FAILED).then_some(Self { begin, length })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for as long as this value lives. Programs and libraries are replaced, not written to (ETXTBSY, dpkg(1)).
        unsafe { std::slice::from_raw_parts(self.begin.cast(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: its own mapping.
        unsafe { libc::munmap(self.begin, self.length) };
    }
}

/// Searches for a zero byte, as the names below are: at its first search a library of `object` finds out what the CPU can do. There is one
/// thread yet.
pub(crate) fn prepare() {
    let _ = StringTable::new(&b"\0"[..], 0, 1).get(0);
}

/// The names of the functions around the call before this place, with aliases and the names that `strip` removes.
pub(crate) fn functions_at(mapping: &Mapping<'_>, each: &mut dyn FnMut(&[u8])) {
    if let Some(file) = Mapped::open(mapping.path, mapping.inode) {
        functions(file.bytes(), mapping.offset, each);
    }
}

fn functions(file: &[u8], offset: u64, each: &mut dyn FnMut(&[u8])) -> Option<()> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let loaded = header.program_headers(endian, file).ok()?.iter().find(|segment| {
        let begin = segment.p_offset(endian);
        segment.p_type(endian) == elf::PT_LOAD && (begin..begin + segment.p_filesz(endian)).contains(&offset)
    })?;
    // A function that does not return may end with the call.
    let address = offset - loaded.p_offset(endian) + loaded.p_vaddr(endian) - 1;
    let sections = header.sections(endian, file).ok()?;
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let symbols = sections.symbols(endian, file, kind).ok()?;
        for symbol in symbols.iter() {
            let begin = symbol.st_value(endian);
            let around = address >= begin && address - begin < symbol.st_size(endian);
            if around
                && symbol.st_type() == elf::STT_FUNC
                && let Ok(name) = symbol.name(endian, symbols.strings())
            {
                each(name);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that can be read, before one that cannot.
    fn pages() -> *const u8 {
        // SAFETY: a new mapping, whose second page is taken away.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), 2 * PAGE, libc::PROT_READ, flags, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            assert_eq!(libc::munmap(pages.byte_add(PAGE), PAGE), 0);
            pages.cast()
        }
    }

    #[test]
    fn what_can_be_read_is_read_and_nothing_else() {
        let pages = pages();
        next::set_errno(77);
        assert!(is_readable(pages, PAGE) && is_readable(pages.wrapping_add(PAGE - 1), 1));
        assert!(!is_readable(pages.wrapping_add(PAGE - 8), 16) && !is_readable(pages.wrapping_add(PAGE), 1));
        assert!(!is_readable(std::ptr::null(), 1) && !is_readable(std::ptr::without_provenance(8), 1));
        assert!(!is_readable(std::ptr::without_provenance(usize::MAX - 3), 16), "beyond the last address");
        assert_eq!(read(pages.cast::<u64>()), Some(0));
        assert_eq!(read(pages.wrapping_add(PAGE).cast::<u64>()), None);
        let own = 5_u64;
        assert_eq!(read(&raw const own), Some(5));
        assert_eq!(next::errno(), 77);
    }

    #[test]
    fn the_files_of_a_process_are_found() {
        let mut buffer = [0; 1024];
        let own = find(find as *const () as usize, &mut buffer).unwrap();
        let exe = std::env::current_exe().unwrap();
        assert_eq!(own.path.to_str().unwrap(), exe.to_str().unwrap());
        let mut buffer = [0; 1024];
        let libc = find(libc::getppid as *const () as usize, &mut buffer).unwrap();
        assert!(libc.path.to_str().unwrap().contains("libc.so") && libc.inode > 0);
        assert_eq!(find(8, &mut buffer), None);
        assert_eq!(find(&raw const exe as usize, &mut buffer), None, "a stack is no file");
        assert_eq!(find(find as *const () as usize, &mut [0; 20]), None, "no room for a line");
    }

    #[test]
    fn a_line_is_of_its_addresses() {
        let text = b"7f00-7f10 r-xp 00002000 08:02 1835      /usr/lib/a b.so (deleted)";
        assert_eq!(line(text, 0x7f0f), Some((1835, 0x200f, 40)));
        assert_eq!((line(text, 0x7f10), line(text, 0x7eff)), (None, None));
        assert_eq!(line(b"7f00-7f10 rw-p 00000000 00:00 0 ", 0x7f00), None);
        assert_eq!(line(b"7f00-7f10 rw-p 00000000 00:00 0 [heap]", 0x7f00), None);
        assert_eq!(line(b"", 0), None);
    }

    fn names(address: usize) -> Vec<String> {
        let mut buffer = [0; 1024];
        let mapping = find(address, &mut buffer).unwrap();
        let mut names = Vec::new();
        functions_at(&mapping, &mut |name| names.push(String::from_utf8_lossy(name).into_owned()));
        names
    }

    #[test]
    fn a_function_is_found_by_an_address_inside() {
        if size_of::<usize>() < 8 {
            return;
        }
        let own = names as *const () as usize;
        assert!(names(own + 1).iter().any(|name| name.contains("names")), "{:?}", names(own + 1));
        // A call is before the address where it returns to: the beginning of a function belongs to the one before.
        let around = names(own + 1);
        assert!(names(own).iter().all(|name| !around.contains(name)), "{around:?}");
        assert!(names(libc::getppid as *const () as usize + 1).contains(&"getppid".to_owned()));
    }

    #[test]
    fn what_is_no_program_has_no_functions() {
        for bytes in [&b""[..], b"\x7fELF", &[0x7f; 300]] {
            assert_eq!(functions(bytes, 5, &mut |_| panic!("a function")), None);
        }
        let place = Mapping { path: c"/proc/self/exe", inode: 1, offset: 5000 };
        functions_at(&place, &mut |_| panic!("another file"));
    }
}
