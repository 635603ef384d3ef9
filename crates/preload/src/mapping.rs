//! The file that is mapped at an address, from /proc/self/maps.
//!
//! The C library knows it too, but its functions take the lock of the dynamic loader. A thread that waits for this one may hold that
//! lock. Raw system calls are no cancellation points (pthreads(7)).

use std::ffi::CStr;

use crate::next;

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

/// An open file.
pub(crate) struct File(pub(crate) libc::c_int);

impl File {
    pub(crate) fn open(path: &CStr) -> Option<Self> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the path ends with a zero byte.
        let file = unsafe {
            next::syscall(libc::SYS_openat, libc::AT_FDCWD.into(), path.as_ptr() as _, flags.into(), 0, 0, 0)
        };
        (file >= 0).then_some(Self(file as _))
    }

    pub(crate) fn read(&self, into: &mut [u8]) -> Option<usize> {
        loop {
            // SAFETY: writes into the slice.
            let read = unsafe {
                next::syscall(libc::SYS_read, self.0.into(), into.as_mut_ptr() as _, into.len() as _, 0, 0, 0)
            };
            if read >= 0 {
                return Some(read as usize);
            }
            if next::errno() != libc::EINTR {
                return None;
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: this value owns the descriptor.
        unsafe { next::syscall(libc::SYS_close, self.0.into(), 0, 0, 0, 0, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
