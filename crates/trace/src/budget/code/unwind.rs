//! From the registers and the top of a stack to the calls that led there, by what compilers write down for exceptions (DWARF, sections
//! `.eh_frame` and `.eh_frame_hdr`).

use std::fs::File;
use std::rc::Rc;

use gimli::{BaseAddresses, CfaRule, EhFrame, EhFrameHdr, NativeEndian, Register, RegisterRule, UnwindSection as _};
use gimli::{EndianSlice, UnwindContext};
use object::read::ReadCache;
use object::{Object as _, ObjectSection as _};

use super::object_file::{Bounded, Segments};

/// Each program of Go has this section (debug/buildinfo).
const GO: &str = ".go.buildinfo";
/// Calls that are followed.
const MOST: usize = 32;

/// The frame pointer, the stack pointer and the return address by their numbers in DWARF.
#[cfg(target_arch = "x86_64")]
const REGISTERS: Option<[u16; 3]> = Some([6, 7, 16]);
#[cfg(target_arch = "aarch64")]
const REGISTERS: Option<[u16; 3]> = Some([29, 31, 30]);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const REGISTERS: Option<[u16; 3]> = None;

/// Addresses of programs have this many bits: pointer authentication keeps its code in those above (arm64).
const ADDRESS: u64 = u64::MAX >> 16;

/// A thread as it called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Snapshot {
    /// It is in a call of the kernel; otherwise, it is at an instruction that could not go on.
    pub(in super::super) is_in_call: bool,
    /// Where it goes on.
    pub(in super::super) instruction: u64,
    pub(in super::super) stack: u64,
    pub(in super::super) frame: u64,
    /// Where the function returns to, on machines that have a register for it.
    pub(in super::super) link: u64,
    /// From the stack pointer on.
    pub(in super::super) words: Vec<u64>,
}

impl Snapshot {
    fn word(&self, address: u64) -> Option<u64> {
        let place = address.checked_sub(self.stack).filter(|place| place % 8 == 0)? / 8;
        self.words.get(usize::try_from(place).ok()?).copied()
    }
}

/// What a file says of the frames of its functions.
pub(super) enum Tables {
    Exceptions {
        segments: Segments,
        bases: BaseAddresses,
        header: Vec<u8>,
        frames: Vec<u8>,
    },
    /// It is of Go, whose functions have no such tables, and keep a frame pointer.
    FramePointers,
}

impl Tables {
    pub(super) fn read(file: File) -> Option<Rc<Self>> {
        let cache = ReadCache::new(file);
        let object = object::File::parse(Bounded(&cache)).ok().filter(|object| object.is_64())?;
        let section = |name| {
            let section = object.section_by_name(name)?;
            Some((section.address(), section.data().ok()?.to_vec()))
        };
        let tables = match (section(".eh_frame_hdr"), section(".eh_frame")) {
            (Some((header_at, header)), Some((frames_at, frames))) => {
                let bases = BaseAddresses::default().set_eh_frame_hdr(header_at).set_eh_frame(frames_at);
                Self::Exceptions { segments: Segments::read(&object), bases, header, frames }
            }
            _ if object.section_by_name(GO).is_some() => Self::FramePointers,
            _ => return None,
        };
        Some(Rc::new(tables))
    }

    /// Where the function that runs at this place of the file was called from, in these registers.
    fn step(&self, place: u64, now: &Frame, snapshot: &Snapshot) -> Option<Frame> {
        let [frame_pointer, stack_pointer, link] = REGISTERS?.map(Register);
        let Self::Exceptions { segments, bases, header, frames } = self else { return now.kept(snapshot) };
        let table = EhFrame::new(frames, NativeEndian);
        let header = EhFrameHdr::new(header, NativeEndian).parse(bases, 8).ok()?;
        let address = segments.address(place)?;
        let cie = EhFrame::<EndianSlice<'_, NativeEndian>>::cie_from_offset;
        let function = header.table()?.fde_for_address(&table, bases, address, cie).ok()?;
        let mut context = UnwindContext::new();
        let row = function.unwind_info_for_address(&table, bases, &mut context, address).ok()?;
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
        let base = match *register {
            register if register == frame_pointer => now.frame,
            register if register == stack_pointer => now.stack,
            _ => return None,
        };
        let caller_stack = base.checked_add_signed(*offset)?;
        let saved = |register, kept| match row.register(register) {
            Some(RegisterRule::Offset(offset)) => snapshot.word(caller_stack.checked_add_signed(offset)?),
            Some(RegisterRule::SameValue) | None => Some(kept),
            _ => None,
        };
        let instruction = saved(link, now.link)? & ADDRESS;
        // A frame pointer that cannot be known ends the way where it is needed.
        let frame = saved(frame_pointer, now.frame).unwrap_or(0);
        (caller_stack > now.stack && instruction != 0).then_some(Frame {
            instruction,
            stack: caller_stack,
            frame,
            link: 0,
        })
    }
}

/// The registers of a function that called another one.
struct Frame {
    instruction: u64,
    stack: u64,
    frame: u64,
    link: u64,
}

impl Frame {
    /// The caller, by the frame pointer: where that points to are the caller's own and the return address.
    fn kept(&self, snapshot: &Snapshot) -> Option<Self> {
        let [frame, instruction] = [snapshot.word(self.frame)?, snapshot.word(self.frame.checked_add(8)?)? & ADDRESS];
        (self.frame >= self.stack && instruction != 0).then_some(Self {
            instruction,
            stack: self.frame + 16,
            frame,
            link: 0,
        })
    }
}

/// An address in each of the functions that called, the innermost first. `find` says which file is mapped at an address, and where in it that is.
pub(super) fn frames(snapshot: &Snapshot, mut find: impl FnMut(u64) -> Option<(Rc<Tables>, u64)>) -> Vec<u64> {
    let Snapshot { is_in_call, instruction, stack, frame, link, .. } = *snapshot;
    let mut now = Frame { instruction, stack, frame, link };
    // Where a call returns to may be the begin of another line, or of the next function.
    let mut found = vec![instruction.saturating_sub(is_in_call.into())];
    while found.len() < MOST {
        let caller = find(found[found.len() - 1]).and_then(|(tables, place)| tables.step(place, &now, snapshot));
        let Some(caller) = caller else { break };
        found.push(caller.instruction.saturating_sub(1));
        now = caller;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_pointers_are_followed_as_far_as_the_stack_is_known() {
        let stack = 0x7000;
        let mut words = vec![0; 16];
        // A frame pointer, and after it where the function returns to: at 0x7010, 0x7030, and beyond what was read.
        (words[2], words[3]) = (stack + 0x30, 0x4111);
        (words[6], words[7]) = (stack + 0x800, 0x4222);
        let snapshot = Snapshot { is_in_call: true, instruction: 0x4001, stack, frame: stack + 0x10, link: 0, words };
        let tables = Rc::new(Tables::FramePointers);
        let known = |address| Some((Rc::clone(&tables), address));
        assert_eq!(frames(&snapshot, known), [0x4000, 0x4110, 0x4221]);
        assert_eq!(frames(&Snapshot { is_in_call: false, ..snapshot.clone() }, |_| None), [0x4001]);
        // Each frame is above the one before, so the walk ends.
        assert_eq!(frames(&Snapshot { frame: stack - 16, ..snapshot.clone() }, known), [0x4000]);
        let mut circle = snapshot;
        circle.words[6] = stack + 0x30;
        assert_eq!(frames(&circle, known).len(), 3);
    }
}
