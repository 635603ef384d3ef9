//! Which functions of a program ran, and which called: by the addresses of samples and of stacks, the mappings of its processes and the
//! tables of its files.
//!
//! Input: /proc/PID/maps, now and then while the processes live, and the files.

mod cpp;
mod lines;
mod object_file;
mod symbols;
mod unwind;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, read_to_string};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use punctual_record::SourceLine;
use symbols::Instruction;
pub use symbols::functions_at;
pub(super) use unwind::Snapshot;
use unwind::Tables;

/// The mappings of a process are read at its first looks, then ever more rarely.
const FIRST: u32 = 3;
/// Processes whose mappings are kept.
const PROCESSES: usize = 512;

/// Following calls takes no longer than this, and reading lines neither, whatever the files say.
const LONGEST: Duration = Duration::from_millis(500);

/// An address in a process.
pub(super) type At = (u32, u64);

/// Where a thread ran.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Code {
    /// Absent where the file has no symbol for it.
    pub(super) function: Option<String>,
    /// The program or library.
    pub(super) file: String,
    /// The line that most samples of the function are at, of those in its own source file.
    pub(super) line: Option<SourceLine>,
}

/// The mappings of processes that contain code.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    of: BTreeMap<u32, (u32, Vec<Mapping>)>,
}

/// A line of /proc/PID/maps (proc_pid_maps(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    from: u64,
    to: u64,
    offset: u64,
    file: MappedFile,
}

/// A file of which code is mapped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct MappedFile {
    /// As the kernel writes it: it tells files apart, but stat(2) may name another one.
    device: String,
    inode: u64,
    path: String,
}

impl Mappings {
    /// Looks at these processes, if it is time.
    pub(super) fn look(&mut self, pids: &[u32]) {
        for pid in pids {
            if self.of.len() >= PROCESSES && !self.of.contains_key(pid) {
                continue;
            }
            let (looks, known) = self.of.entry(*pid).or_default();
            *looks = looks.saturating_add(1);
            if (*looks <= FIRST || looks.is_power_of_two())
                && let Ok(maps) = read_to_string(format!("/proc/{pid}/maps"))
            {
                let now: Vec<Mapping> = maps.lines().filter_map(Mapping::read).collect();
                // What was unloaded since is kept: samples may be in it.
                let is_gone = |old: &Mapping| !now.iter().any(|new| new.from < old.to && old.from < new.to);
                known.retain(is_gone);
                known.extend(now);
            }
        }
    }

    /// The mapping with this address, and where that is in its file.
    fn place(&self, (pid, address): At) -> Option<(&Mapping, u64)> {
        let (_, mappings) = self.of.get(&pid)?;
        let mapping = mappings.iter().find(|mapping| (mapping.from..mapping.to).contains(&address))?;
        Some((mapping, address - mapping.from + mapping.offset))
    }

    /// The addresses in the functions that called, the innermost first, of each of these threads of processes.
    pub(super) fn frames<'s>(&self, threads: impl Iterator<Item = (u32, &'s Snapshot)>) -> Vec<Vec<At>> {
        let mut tables: BTreeMap<&MappedFile, Option<Rc<Tables>>> = BTreeMap::new();
        let until = Instant::now() + LONGEST;
        let frames = |(pid, snapshot): (u32, &Snapshot)| {
            let find = |address: u64| {
                let (mapping, place) = self.place((pid, address)).filter(|_| Instant::now() < until)?;
                let read = || Tables::read(mapping.file.open(pid)?);
                Some((tables.entry(&mapping.file).or_insert_with(read).clone()?, place))
            };
            unwind::frames(snapshot, find).into_iter().map(|address| (pid, address)).collect()
        };
        threads.map(frames).collect()
    }

    /// What is at these addresses of processes.
    pub(super) fn instructions(&self, at: &BTreeSet<At>) -> Instructions<'_> {
        let mut by_file: BTreeMap<&MappedFile, Vec<(At, u64)>> = BTreeMap::new();
        for at in at {
            if let Some((mapping, place)) = self.place(*at) {
                by_file.entry(&mapping.file).or_default().push((*at, place));
            }
        }
        let (mut found, until) = (BTreeMap::new(), Instant::now() + LONGEST);
        for (mapped, places) in by_file {
            let own = places.first().map_or(0, |((pid, _), _)| *pid);
            let all = places.iter().map(|(_, place)| *place).collect();
            let instructions =
                mapped.open(own).map(|file| symbols::instructions(file, &all, until)).unwrap_or_default();
            found.extend(places.into_iter().map(|(at, place)| (at, (mapped, instructions.get(&place).cloned()))));
        }
        Instructions(found)
    }
}

/// Where samples are, and how many.
type Sampled<'a> = (Option<&'a SourceLine>, u64);

/// What is at addresses of processes: the file, and of that what its tables know.
#[derive(Debug)]
pub(super) struct Instructions<'a>(BTreeMap<At, (&'a MappedFile, Option<Instruction>)>);

impl Instructions<'_> {
    /// The functions at addresses, each of which has a number of samples.
    pub(super) fn sampled(&self, samples: &BTreeMap<At, u64>) -> BTreeMap<At, Code> {
        let known = || samples.iter().filter_map(|(at, count)| Some((at, self.0.get(at)?, *count)));
        let mut by_function: BTreeMap<(&MappedFile, u64), Vec<Sampled<'_>>> = BTreeMap::new();
        for (_, (mapped, instruction), count) in known() {
            if let Some(Instruction { begin, line, .. }) = instruction {
                by_function.entry((mapped, *begin)).or_default().push((line.as_ref(), count));
            }
        }
        let code = |(at, (mapped, instruction), _): (&At, &(&MappedFile, Option<Instruction>), _)| {
            let of_function = |instruction: &Instruction| most_sampled(&by_function[&(*mapped, instruction.begin)]);
            let line = instruction.as_ref().and_then(of_function).cloned();
            let function = instruction.as_ref().map(|instruction| instruction.function.clone());
            (*at, Code { function, file: mapped.path.clone(), line })
        };
        known().map(code).collect()
    }

    /// The functions with names at these addresses.
    pub(super) fn named(&self, at: &[At]) -> Vec<Code> {
        let code = |at: &At| {
            let (mapped, instruction) = self.0.get(at)?;
            let Instruction { function, line, .. } = instruction.clone()?;
            Some(Code { function: Some(function), file: mapped.path.clone(), line })
        };
        at.iter().filter_map(code).collect()
    }
}

/// The line with the most samples of a function. Where nearly all samples have no line, no line of the function took the time.
fn most_sampled<'a>(samples: &[Sampled<'a>]) -> Option<&'a SourceLine> {
    let mut counts: BTreeMap<&SourceLine, u64> = BTreeMap::new();
    samples.iter().for_each(|(line, count)| {
        if let Some(line) = line {
            *counts.entry(line).or_default() += count;
        }
    });
    let all: u64 = samples.iter().map(|(_, count)| count).sum();
    let known = counts.values().sum::<u64>() >= all.div_ceil(4);
    counts.into_iter().max_by_key(|(_, count)| *count).filter(|_| known).map(|(line, _)| line)
}

impl Mapping {
    /// `None` where it is no code of a file.
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (from, to) = fields.next()?.split_once('-')?;
        let rights = fields.next()?;
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let device = fields.next()?.to_owned();
        let inode = fields.next()?.parse().ok()?;
        let path = fields.next()?.trim_start();
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let is_code = rights.contains('x') && path.starts_with('/');
        let file = MappedFile { device, inode, path: path.to_owned() };
        is_code.then_some(Self { from: hex(from)?, to: hex(to)?, offset, file })
    }
}

impl MappedFile {
    /// Opens it as this process sees it, or as this one does. `None` where it is another file by now.
    fn open(&self, pid: u32) -> Option<File> {
        let is_it = |file: &File| file.metadata().is_ok_and(|metadata| metadata.ino() == self.inode);
        let open = |path: &Path| object_file::regular_file(path).filter(is_it);
        open(Path::new(&format!("/proc/{pid}/root{}", self.path))).or_else(|| open(Path::new(&self.path)))
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_of_maps_is_read() {
        let line = "55d0-55f0 r-xp 00002000 fd:01 4711                       /usr/lib/a library.so";
        let read = Mapping::read(line).unwrap();
        let file = MappedFile { device: "fd:01".into(), inode: 4711, path: "/usr/lib/a library.so".into() };
        let mapping = Mapping { from: 0x55d0, to: 0x55f0, offset: 0x2000, file };
        assert_eq!(read, mapping);
        for other in
            ["55d0-55f0 rw-p 0 fd:01 4711 /usr/lib/a.so", "1-2 r-xp 0 00:00 0 [vdso]", "1-2 r-xp 0 00:00 0", "", "x"]
        {
            assert_eq!(Mapping::read(other), None, "{other}");
        }
    }

    #[test]
    fn the_line_with_the_most_samples_is_that_of_a_function_unless_few_samples_have_a_line() {
        let [first, second] = [12, 13].map(|line| SourceLine { file: "work.c".into(), line });
        let most =
            |nowhere| most_sampled(&[(Some(&first), 4), (Some(&second), 3), (Some(&second), 3), (None, nowhere)]);
        assert_eq!([most(0), most(30), most(31)], [Some(&second), Some(&second), None]);
        assert_eq!(most_sampled(&[(None, 5)]), None);
    }

    #[inline(never)]
    fn known_function() -> u64 {
        black_box(7)
    }

    #[test]
    fn the_functions_of_this_program_are_found() {
        let own = std::process::id();
        let mut mappings = Mappings::default();
        mappings.look(&[own]);
        let at = known_function as fn() -> u64 as usize as u64;
        assert_eq!(known_function(), 7);
        // The byte before its first belongs to another function, or to none; data are no code.
        let data = std::ptr::from_ref(&own) as u64;
        let samples = [(own, at), (own, at - 1), (own, data), (own + 1, at)].map(|at| (at, 1));
        let samples = BTreeMap::from(samples);
        let found = mappings.instructions(&samples.keys().copied().collect()).sampled(&samples);
        let (code, before) = (&found[&(own, at)], &found[&(own, at - 1)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_ne!(before.function, code.function);
        assert!(code.function.as_ref().unwrap().ends_with("::known_function"), "{code:?}");
        assert_eq!(code.file, std::env::current_exe().unwrap().to_str().unwrap());
    }

    proptest! {
        #[test]
        fn whatever_is_on_a_stack_is_followed_to_an_end(
            link in any::<u64>(),
            frame in 0_u64..2_000,
            words in prop::collection::vec(prop_oneof![any::<u64>(), (0_u64..4_000).prop_map(|by| STACK + by), Just(own_code())], 112),
        ) {
            let own = std::process::id();
            let mut mappings = Mappings::default();
            mappings.look(&[own]);
            let [instruction, frame] = [own_code(), STACK + frame];
            let snapshot = Snapshot { is_in_call: true, instruction, stack: STACK, frame, link, words };
            let frames = mappings.frames([(own, &snapshot)].into_iter());
            prop_assert!((1..=64).contains(&frames[0].len()));
            prop_assert_eq!(frames[0][0], (own, instruction - 1));
        }
    }

    const STACK: u64 = 1 << 46;

    fn own_code() -> u64 {
        known_function as fn() -> u64 as usize as u64 + 4
    }
}
