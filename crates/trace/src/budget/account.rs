//! The sums of the kernel as a [`Budget`].

use std::cell::RefCell;
use std::collections::BTreeMap;

use punctual_linux::syscall_name::name_of;
use punctual_record::{Budget, BudgetSource, Caller, Spent, Thing, ThreadBudget, TimePart, Turns, WatchCost, Who};

use super::code::Mappings;
use super::groups::{FREEZER, Groups, cpu_group};
use super::kernel::Programs;
use super::kind::kind;
use super::places::Places;
use super::raw::{self, By, CallerKey, Deadlines, Info, Key, Name, Sum, how};
use super::sampled::{self, Place};
use super::wakeups;
use crate::names;

/// Threads with a budget of their own.
const MOST: usize = 64;
/// Parts of a thread.
const PARTS: usize = 64;
/// Links of a chain.
const LINKS: u32 = 8;

/// The call of io_uring(7), the threads of the kernel that end its requests to files, by how their names begin, and the softirq that does.
const RING: &str = "io_uring_enter";
const KERNEL_WORKERS: [&str; 2] = ["kworker/", "iou-wrk-"];
const BLOCK: &str = "BLOCK";
/// Numbers from here on are those of names that several threads may have.
const ALIASES: u32 = 1 << 30;
/// Threads for whose names the kernel had no room.
const OTHERS: &str = "others";

/// A key as the maps have it.
type Bytes = [u8; raw::KEY];

/// What the maps hold.
pub(super) struct Found<'a> {
    sums: BTreeMap<Bytes, [u8; raw::SUM]>,
    chains: BTreeMap<u64, Vec<(Bytes, Sum)>>,
    pub(super) infos: BTreeMap<u32, Info>,
    names: BTreeMap<u32, Name>,
    interrupts: BTreeMap<u32, Name>,
    files: BTreeMap<(u64, u32), String>,
    stacks: BTreeMap<u32, Vec<u64>>,
    functions: BTreeMap<u64, String>,
    deadlines: BTreeMap<(u32, i64, u64), Deadlines>,
    places: Places,
    groups: &'a Groups,
    pub(super) ended_ns: u64,
    dropped: u64,
    events: u64,
    price_ns: Option<f64>,
    /// The groups of processes that still run: each is asked once.
    cgroups: RefCell<BTreeMap<u32, Option<String>>>,
}

impl<'a> Found<'a> {
    /// Reads all maps.
    pub(super) fn read(programs: &Programs, groups: &'a Groups, mappings: &Mappings, ended_ns: u64) -> Self {
        let word = |bytes: [u8; 4]| u32::from_ne_bytes(bytes);
        let named = |map: &str| -> BTreeMap<u32, Name> {
            let all = programs.all::<[u8; 4], [u8; raw::NAME]>(map);
            all.iter().map(|(number, name)| (word(*number), Name::read(name))).collect()
        };
        let stacks: BTreeMap<u32, Vec<u64>> = {
            let all = programs.all::<[u8; 4], [u8; raw::STACK]>("stacks");
            all.iter().map(|(number, stack)| (word(*number), raw::frames(stack))).collect()
        };
        let mut chains: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for (key, sum) in programs.all::<[u8; raw::CHAIN_KEY], [u8; raw::SUM]>("chains") {
            let (of, key) = key.split_at(8);
            let of = u64::from_ne_bytes(of.try_into().unwrap_or_default());
            chains.entry(of).or_default().push((key.try_into().unwrap_or([0; raw::KEY]), Sum::read(&sum)));
        }
        let infos = programs.all::<[u8; 4], [u8; raw::INFO]>("infos");
        let files = programs.all::<[u8; raw::INODE_KEY], [u8; raw::INODE_NAME]>("files");
        let deadlines = programs.all::<[u8; raw::TURNS_KEY], [u8; raw::DEADLINES]>("deadlines");
        let inode = |key: &[u8; raw::INODE_KEY]| {
            let (number, device) = key.split_at(8);
            let number = u64::from_ne_bytes(number.try_into().unwrap_or_default());
            (number, u32::from_ne_bytes(device[..4].try_into().unwrap_or_default()))
        };
        let mounts = names::mounts();
        let file = |(key, name): (&[u8; raw::INODE_KEY], &[u8; raw::INODE_NAME])| {
            let inode = inode(key);
            (inode, names::mounted(&raw::path(name), inode.1, &mounts))
        };
        let names_of = names::enclosing(&stacks.values().flatten().copied().collect());
        let infos: BTreeMap<u32, Info> = infos.iter().map(|(id, info)| (word(*id), Info::read(info))).collect();
        let places = Places::read(programs, mappings, &infos, |stack| named_frames(&stacks, &names_of, stack));
        Self {
            sums: programs.sums(),
            places,
            chains,
            infos,
            names: named("names"),
            interrupts: named("interrupts"),
            files: files.iter().map(file).collect(),
            functions: names_of,
            stacks,
            deadlines: deadlines.iter().map(|(key, all)| (raw::turns_key(key), Deadlines::read(all))).collect(),
            groups,
            ended_ns,
            dropped: programs.dropped(),
            events: programs.events(),
            price_ns: programs.price_ns(),
            cgroups: RefCell::default(),
        }
    }

    /// The budget of the threads that are not watched for the chains alone.
    pub(super) fn budget(&self) -> Budget {
        let mut by_thread: BTreeMap<u32, Vec<(Bytes, Sum)>> = BTreeMap::new();
        for (key, sum) in &self.sums {
            by_thread.entry(Key::read(key).id).or_default().push((*key, Sum::read(sum)));
        }
        let none = Vec::new();
        let own = self.infos.iter().filter(|(_, info)| !info.aside);
        let mut threads: Vec<ThreadBudget> =
            own.map(|(id, info)| self.thread(*id, info, by_thread.get(id).unwrap_or(&none))).collect();
        threads.sort_by_key(|thread| std::cmp::Reverse(lost(thread)));
        let rest = threads.split_off(MOST.min(threads.len()));
        let mut others = rest.into_iter().reduce(joined);
        if let Some(roomless) = by_thread.get(&0) {
            let parts = self.parts(roomless);
            let wall_ns = parts.iter().map(|part| part.ns).sum();
            let roomless = ThreadBudget { parts, wall_ns, ..ThreadBudget::default() };
            others = Some(others.map_or(roomless.clone(), |others| joined(others, roomless)));
        }
        if let Some(others) = &mut others {
            *others = ThreadBudget {
                wall_ns: others.wall_ns,
                parts: std::mem::take(&mut others.parts),
                ..ThreadBudget::default()
            };
            sort(&mut others.parts);
        }
        let of_pid = |pid| self.infos.values().filter(|info| !info.aside && info.name.pid == pid).count() as u64;
        Budget {
            source: BudgetSource::Kernel,
            threads,
            others,
            quotas: self.groups.quotas(of_pid),
            dropped: self.dropped,
            cost: self.price_ns.map(|each_ns| WatchCost { events: self.events, each_ns }),
            tick_ns: punctual_linux::clock::tick_ns().ok().map(i64::unsigned_abs),
            watcher: Some(std::process::id()),
            ..Budget::default()
        }
    }

    /// The time in the sums of these kinds, and of which this holds, ns.
    pub(super) fn spent(&self, kinds: &[u8], of: impl Fn(&Key) -> bool) -> u64 {
        let all = self.sums.iter().map(|(key, sum)| (Key::read(key), Sum::read(sum)));
        all.filter(|(key, _)| kinds.contains(&key.spent) && of(key)).map(|(_, sum)| sum.ns).sum()
    }

    /// The times of this kind, of those threads that have any, ns.
    pub(super) fn each_spent(&self, kind: u8) -> Vec<u64> {
        let mut each: BTreeMap<u32, u64> = BTreeMap::new();
        for (key, sum) in self.sums.iter().map(|(key, sum)| (Key::read(key), Sum::read(sum))) {
            if key.spent == kind {
                *each.entry(key.id).or_default() += sum.ns;
            }
        }
        each.into_values().collect()
    }

    fn thread(&self, id: u32, info: &Info, sums: &[(Bytes, Sum)]) -> ThreadBudget {
        let end_ns = if info.end_ns == 0 { self.ended_ns } else { info.end_ns };
        let wall_ns = end_ns.saturating_sub(info.begin_ns);
        let mut parts = self.cut_running(id, info.name.pid, self.parts(sums));
        let summed: u64 = parts.iter().map(|part| part.ns).sum();
        if wall_ns > summed {
            let ns = wall_ns - summed;
            parts.push(TimePart { spent: Spent::Unknown, ns, times: 1, longest_ns: ns, ..TimePart::default() });
            sort(&mut parts);
        }
        ThreadBudget {
            thread: info.name.name.clone(),
            tid: info.tid,
            process: info.name.leader.clone(),
            pid: info.name.pid,
            policy: info.name.policy(),
            wall_ns: wall_ns.max(summed),
            parts,
            turns: self.turns(id),
            timer_slack_ns: (info.end_ns != 0).then_some(info.slack_ns),
            barred_idle: Vec::new(),
        }
    }

    fn cut_running(&self, id: u32, pid: u32, mut parts: Vec<TimePart>) -> Vec<TimePart> {
        let places: Vec<(Place, u64)> =
            self.places.samples.get(&id).into_iter().flatten().map(|(place, n)| (place.clone(), *n)).collect();
        if let Some(at) = parts.iter().position(|part| part.spent == Spent::Running && part.call.is_none()) {
            let running = parts.swap_remove(at);
            for mut part in sampled::cut(running, &places) {
                if matches!(part.spent, Spent::Reclaim | Spent::FaultSwap) {
                    part.thing.cgroup = self.groups.limits.memory(pid).map(str::to_owned);
                }
                match parts.iter_mut().find(|other| alike(other, &part)) {
                    Some(other) => add(other, Sum { ns: part.ns, times: part.times, longest_ns: part.longest_ns }),
                    None => parts.push(part),
                }
            }
            sort(&mut parts);
        }
        parts
    }

    fn parts(&self, sums: &[(Bytes, Sum)]) -> Vec<TimePart> {
        let parts = self.grouped(sums.iter().map(|(key, sum)| (key, *sum)));
        let mut parts: Vec<TimePart> = parts.into_iter().map(|(part, chain)| self.with_chain(part, &chain)).collect();
        wakeups::join_waits(&mut parts);
        sort(&mut parts);
        if parts.len() > PARTS {
            let rest = parts.split_off(PARTS);
            rest.into_iter().for_each(|part| fold(&mut parts, part));
        }
        parts
    }

    /// Stretches that are alike, and what those who ended them did meanwhile. Of several of one name, the one with the most time is named.
    fn grouped<'s>(&self, sums: impl Iterator<Item = (&'s Bytes, Sum)>) -> Vec<(TimePart, BTreeMap<Bytes, Sum>)> {
        let mut parts: Vec<(TimePart, BTreeMap<Bytes, Sum>)> = Vec::new();
        let mut sums: Vec<(&Bytes, Sum)> = sums.collect();
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.ns));
        for (bytes, sum) in sums {
            let part = self.part(&Key::read(bytes), sum);
            let at = parts.iter().position(|(other, _)| alike(other, &part)).unwrap_or_else(|| {
                parts.push((TimePart { ns: 0, times: 0, longest_ns: 0, ..part.clone() }, BTreeMap::new()));
                parts.len() - 1
            });
            let (known, chain) = &mut parts[at];
            add(known, sum);
            if longest(&part) > longest(known) {
                known.caller = part.caller;
            }
            for (link, sum) in self.chains.get(&raw::hash(bytes)).into_iter().flatten() {
                chain.entry(*link).or_default().add(*sum);
            }
        }
        parts
    }

    fn with_chain(&self, mut part: TimePart, chain: &BTreeMap<Bytes, Sum>) -> TimePart {
        if let Some(who) = &mut part.who {
            who.meanwhile = self.meanwhile(chain, part.ns, LINKS).map(Box::new);
        }
        if part.spent == Spent::Poll && part.call.as_deref() == Some(RING) && part.who.as_ref().is_some_and(ends_io) {
            part.spent = Spent::Disk;
        }
        part
    }

    /// What the thread that ended the wait did most of the time. The programs remember its latest stretches: where they do not reach back
    /// to the begin of the wait of `ns`, they stand for all of it.
    fn meanwhile(&self, chain: &BTreeMap<Bytes, Sum>, ns: u64, depth: u32) -> Option<TimePart> {
        let parts = self.grouped(chain.iter().map(|(key, sum)| (key, *sum)));
        let seen: u64 = parts.iter().map(|(part, _)| part.ns).sum();
        let (mut part, next) = parts.into_iter().max_by_key(|(part, _)| part.ns)?;
        part.ns = (part.ns as f64 * ns as f64 / seen.max(1) as f64) as u64;
        if let Some(who) = part.who.as_mut().filter(|_| depth > 1) {
            who.meanwhile = self.meanwhile(&next, part.ns, depth - 1).map(Box::new);
        }
        Some(part)
    }

    fn part(&self, key: &Key, sum: Sum) -> TimePart {
        let none = Info::default();
        let info = self.infos.get(&key.id).unwrap_or(&none);
        let call = key.call_name();
        let functions = named_frames(&self.stacks, &self.functions, key.stack);
        let spent = kind(key, call.as_deref(), &functions);
        let mut part = TimePart { spent, call, ..TimePart::default() };
        part.who = self.who(info, key);
        let caller = self.places.callers.get(&CallerKey::of(key));
        // That of a sleep is what was asked for and what came after it.
        let is_of_part = |caller: &&Caller| match key.spent {
            raw::spent::BLOCKED => caller.ns <= sum.longest_ns,
            raw::spent::ASLEEP | raw::spent::SLEPT_LONGER => true,
            _ => false,
        };
        part.caller = caller.filter(is_of_part).cloned().map(Box::new);
        part.thing = self.thing(info, key, spent);
        add(&mut part, sum);
        part
    }

    fn thing(&self, info: &Info, key: &Key, spent: Spent) -> Thing {
        let mut thing = Thing::default();
        match spent {
            Spent::Lock | Spent::Condition if key.mode == 0 => thing.futex = Some(key.thing).filter(|at| *at != 0),
            // A wait for a signal that times out is one for the same signal.
            Spent::Asleep if key.mode == 0 => thing.futex = Some(key.thing).filter(|at| *at != 0),
            Spent::ThrottledRealTime => {
                thing.cgroup = self.groups.limits.real_time(info.name.pid).map(str::to_owned);
            }
            Spent::ThrottledByQuota => thing.cgroup = self.groups.limiting(info.name.pid).map(str::to_owned),
            Spent::Stopped => thing.stop = key.stop(),
            Spent::Frozen => thing.cgroup = self.groups.path(info.name.pid, FREEZER).map(str::to_owned),
            Spent::Reclaim | Spent::FaultSwap => {
                thing.cgroup = self.groups.limits.memory(info.name.pid).map(str::to_owned);
            }
            _ => {}
        }
        if key.mode != 0 {
            thing.file = self.files.get(&(key.thing, key.device)).cloned();
        }
        if spent == Spent::Disk && key.device != 0 {
            thing.device = names::block_device(key.device);
        }
        thing
    }

    fn who(&self, info: &Info, key: &Key) -> Option<Who> {
        match key.by {
            By::Nobody | By::Timer => None,
            By::Softirq => Some(Who { thread: names::softirq(key.who), ..Who::default() }),
            By::Interrupt if key.who == raw::OWN_TIMER => {
                Some(Who { thread: "local timer".to_owned(), ..Who::default() })
            }
            By::Interrupt => {
                let name =
                    self.interrupts.get(&key.who).map_or_else(|| "interrupt".to_owned(), |name| name.name.clone());
                Some(Who { thread: name, ..Who::default() })
            }
            // The lock says the number of the process that has it, and not its name.
            By::Thread if key.how & how::RETRIES != 0 => self.process_named(info, key.who),
            By::Thread => Some(self.thread_named(info, key.who)),
        }
    }

    /// A process of which the programs may have no name: one that still runs, or was watched.
    fn process_named(&self, info: &Info, pid: u32) -> Option<Who> {
        let who = self.thread_named(info, pid);
        if who.tid == pid {
            return Some(who);
        }
        let (name, _) = names::thread(pid.cast_signed())?;
        let (thread, process) = (name.to_string(), name.to_string());
        Some(Who { thread, tid: pid, process, pid, ..Who::default() })
    }

    fn thread_named(&self, info: &Info, tid: u32) -> Who {
        let watched = || self.infos.values().find(|info| tid < ALIASES && info.tid == tid).map(|info| &info.name);
        let named = self.names.get(&tid).or_else(watched);
        let named = named.filter(|name| name.tid != 0 && !name.name.is_empty()).cloned();
        let name = named.unwrap_or_else(|| Name { name: OTHERS.to_owned(), ..Name::default() });
        let its = self.cgroups.borrow_mut().entry(name.pid).or_insert_with(|| cpu_group(name.pid)).clone();
        let own = self.groups.cpu_path(info.name.pid);
        let cgroup = its.filter(|its| own.is_some_and(|own| own != its));
        let policy = name.policy();
        Who { thread: name.name, tid: name.tid, process: name.leader, pid: name.pid, policy, cgroup, meanwhile: None }
    }

    fn turns(&self, id: u32) -> Option<Turns> {
        let own = self.deadlines.range((id, i64::MIN, 0)..=(id, i64::MAX, u64::MAX));
        // A timerfd with a period is regular.
        let of_turns = own.filter(|((_, _, timer), all)| *timer != 0 || all.are_of_turns());
        let ((_, call, _), all) = of_turns.max_by_key(|(_, all)| all.count)?;
        let period_ns = all.last_ns.saturating_sub(all.first_ns) / all.count.saturating_sub(1).max(1);
        Some(Turns {
            call: name_of(*call),
            period_ns,
            turns: all.count,
            missed: all.missed,
            behind_ns: all.behind_ns,
            most_behind_ns: all.most_ns,
        })
    }
}

/// Whether a wait for completions of io_uring that this one ends is for a disk: the kernel's workers complete what files do, and sockets
/// wake the thread itself.
fn ends_io(who: &Who) -> bool {
    let did = who.meanwhile.as_ref().map(|did| did.spent);
    let moves_messages = matches!(did, Some(Spent::Socket | Spent::Pipe));
    let worker = KERNEL_WORKERS.iter().any(|start| who.thread.starts_with(start));
    (worker && !moves_messages) || (who.tid == 0 && who.thread == BLOCK)
}

fn named_frames(stacks: &BTreeMap<u32, Vec<u64>>, functions: &BTreeMap<u64, String>, stack: u32) -> Vec<String> {
    let frames = stacks.get(&stack).map_or(&[][..], Vec::as_slice);
    frames.iter().filter_map(|frame| functions.get(frame).cloned()).collect()
}

/// Time that the thread did not choose to spend: by it, threads are sorted.
fn lost(thread: &ThreadBudget) -> (u64, u64) {
    let chosen =
        [Spent::Running, Spent::Asleep, Spent::Poll, Spent::Condition, Spent::Child, Spent::Pause, Spent::Unknown];
    let lost = thread.parts.iter().filter(|part| !chosen.contains(&part.spent)).map(|part| part.ns).sum();
    (lost, thread.wall_ns)
}

fn alike(one: &TimePart, other: &TimePart) -> bool {
    // Workers of one name are one here, but punctual itself is none of them.
    let watches = |who: &Who| who.pid == std::process::id();
    let who = match (&one.who, &other.who) {
        (Some(one), Some(other)) => {
            one.thread == other.thread && one.process == other.process && watches(one) == watches(other)
        }
        (one, other) => one.is_none() && other.is_none(),
    };
    who && one.spent == other.spent && one.call == other.call && one.thing == other.thing
}

/// Of the waits whose caller is known.
fn longest(part: &TimePart) -> u64 {
    part.caller.as_ref().map_or(0, |caller| caller.ns)
}

fn add(part: &mut TimePart, sum: Sum) {
    part.ns += sum.ns;
    part.times += sum.times;
    part.longest_ns = part.longest_ns.max(sum.longest_ns);
}

fn sort(parts: &mut [TimePart]) {
    parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
}

/// Adds a small part to another of its kind, or keeps it without its details.
fn fold(parts: &mut Vec<TimePart>, part: TimePart) {
    let sum = Sum { ns: part.ns, times: part.times, longest_ns: part.longest_ns };
    let bare = |other: &TimePart| {
        other.spent == part.spent && other.who.is_none() && other.call.is_none() && other.thing.is_empty()
    };
    match parts.iter_mut().find(|other| bare(other)) {
        Some(other) => add(other, sum),
        None => parts.push(TimePart { who: None, call: None, thing: Thing::default(), ..part }),
    }
}

fn joined(mut one: ThreadBudget, other: ThreadBudget) -> ThreadBudget {
    one.wall_ns += other.wall_ns;
    other.parts.into_iter().for_each(|part| fold(&mut one.parts, part));
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_of_files_are_those_of_a_disk_and_messages_are_not() {
        let who = |name: &str, tid| Who { thread: name.into(), tid, ..Who::default() };
        let after = |spent| {
            let did = TimePart { spent, ..TimePart::default() };
            Who { meanwhile: Some(Box::new(did)), ..who("iou-wrk-4711", 4712) }
        };
        assert!([who("kworker/0:0", 9), who("iou-wrk-4711", 4712), who("BLOCK", 0)].iter().all(ends_io));
        assert!(ends_io(&after(Spent::Disk)));
        let others = [who("NET_RX", 0), who("client", 99), after(Spent::Socket), after(Spent::Pipe)];
        assert!(!others.iter().any(ends_io));
    }
}
