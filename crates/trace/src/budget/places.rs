//! Places in the code of the program: where samples found its threads, and where their longest waits were called from.

use std::collections::BTreeMap;

use punctual_record::{Caller, Frame};

use super::code::{At, Code, Instructions, Mappings, Snapshot};
use super::kernel::Programs;
use super::raw::{self, CallerKey, Info, Key};
use super::sampled::{self, Place};

/// Functions of a caller that are kept.
const FRAMES: usize = 12;

/// The places, and how many samples are at each.
pub(super) struct Places {
    /// By thread.
    pub(super) samples: BTreeMap<u32, BTreeMap<Place, u64>>,
    pub(super) callers: BTreeMap<CallerKey, Caller>,
}

/// A wait as the program in the kernel kept it: its key, its length, ns, its process, and its thread as it called.
struct Kept {
    key: CallerKey,
    ns: u64,
    pid: u32,
    snapshot: Snapshot,
}

impl Places {
    /// `kernel_functions` are those of a stack in the kernel, by its number.
    pub(super) fn read(
        programs: &Programs,
        mappings: &Mappings,
        infos: &BTreeMap<u32, Info>,
        kernel_functions: impl Fn(u32) -> Vec<String>,
    ) -> Self {
        let counts = programs.all::<[u8; raw::KEY], [u8; 8]>("samples");
        let counts: Vec<(Key, u64)> =
            counts.into_iter().map(|(key, count)| (Key::read(&key), u64::from_ne_bytes(count))).collect();
        let address = |key: &Key| Some((infos.get(&key.id).filter(|info| !info.aside)?.name.pid, key.thing));
        let mut sampled: BTreeMap<At, u64> = BTreeMap::new();
        for (address, count) in counts.iter().filter_map(|(key, count)| Some((address(key)?, count))) {
            *sampled.entry(address).or_default() += count;
        }
        let kept = kept(programs, infos);
        let frames = mappings.frames(kept.iter().map(|wait| (wait.pid, &wait.snapshot)));
        let all = sampled.keys().chain(frames.iter().flatten()).copied().collect();
        let instructions = mappings.instructions(&all);
        let code = instructions.sampled(&sampled);
        let mut samples: BTreeMap<u32, BTreeMap<Place, u64>> = BTreeMap::new();
        for (key, count) in counts {
            let code = address(&key).and_then(|address| code.get(&address));
            let place = sampled::place(&key, key.call_name(), code, &kernel_functions(key.stack));
            *samples.entry(key.id).or_default().entry(place).or_default() += count;
        }
        let callers =
            kept.iter().zip(frames).filter_map(|(wait, frames)| wait.caller(&frames, &instructions)).collect();
        Self { samples, callers }
    }
}

impl Kept {
    fn caller(&self, frames: &[At], instructions: &Instructions<'_>) -> Option<(CallerKey, Caller)> {
        let frames: Vec<Frame> = instructions.named(frames).into_iter().filter_map(frame).take(FRAMES).collect();
        (!frames.is_empty()).then_some((self.key, Caller { ns: self.ns, frames }))
    }
}

fn kept(programs: &Programs, infos: &BTreeMap<u32, Info>) -> Vec<Kept> {
    let all = programs.all::<[u8; raw::CALLER_KEY], [u8; raw::CALLER]>("callers");
    let kept = |(key, caller)| {
        let key = CallerKey::read(key);
        let (ns, snapshot) = raw::caller(caller, key.call);
        Some(Kept { key, ns, pid: infos.get(&key.id)?.name.pid, snapshot })
    };
    all.iter().filter_map(kept).collect()
}

fn frame(code: Code) -> Option<Frame> {
    Some(Frame { function: code.function?, line: code.line, file: code.file })
}
