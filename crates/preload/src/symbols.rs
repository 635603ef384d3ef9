//! The functions around a place in an ELF file.

use std::ffi::CStr;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::StringTable;
use object::read::elf::{FileHeader as _, ProgramHeader as _, Sym as _};

use crate::mapping::{File, Mapping};

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

    fn names(address: usize) -> Vec<String> {
        let mut buffer = [0; 1024];
        let mapping = crate::mapping::find(address, &mut buffer).unwrap();
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
