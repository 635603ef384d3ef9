//! Reads memory that the program gave to the kernel, which may be bad: the kernel answers EFAULT, and so must this library.

use crate::{filter, next};

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
}
