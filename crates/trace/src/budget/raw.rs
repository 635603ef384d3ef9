//! What the maps of the programs in the kernel hold: the layouts of `bpf/layout.h`, read from bytes.

use punctual_linux::syscall_name::name_of;
use punctual_record::{Stop, StopSignal, ThreadPolicy};

use super::code::Snapshot;

/// A stretch of a thread, but for its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The thread; 0 for those without room.
    pub(super) id: u32,
    pub(super) spent: u8,
    pub(super) by: By,
    pub(super) call: i16,
    pub(super) who: u32,
    pub(super) stack: u32,
    pub(super) thing: u64,
    pub(super) device: u32,
    pub(super) mode: u16,
    pub(super) how: u16,
}

/// Who had the CPU, or ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum By {
    Nobody,
    Thread,
    Interrupt,
    Softirq,
    Timer,
}

/// `enum spent` of the programs.
pub(super) mod spent {
    pub(in super::super) const RUNNING: u8 = 0;
    pub(in super::super) const INTERRUPTED: u8 = 1;
    pub(in super::super) const READY: u8 = 2;
    pub(in super::super) const QUOTA: u8 = 3;
    pub(in super::super) const REAL_TIME: u8 = 4;
    pub(in super::super) const DEADLINE: u8 = 5;
    pub(in super::super) const STOPPED: u8 = 6;
    pub(in super::super) const TRACED: u8 = 7;
    pub(in super::super) const FROZEN: u8 = 8;
    pub(in super::super) const ASLEEP: u8 = 9;
    pub(in super::super) const SLEPT_LONGER: u8 = 10;
    pub(in super::super) const BLOCKED: u8 = 11;
}

/// `enum how` of the programs.
pub(super) mod how {
    pub(in super::super) const UNINTERRUPTIBLE: u16 = 1;
    pub(in super::super) const IO_WAIT: u16 = 2;
    pub(in super::super) const OUTSIDE_CALL: u16 = 4;
    pub(in super::super) const OWNED: u16 = 8;
    pub(in super::super) const IN_KERNEL: u16 = 16;
    pub(in super::super) const RETRIES: u16 = 32;
    pub(in super::super) const FOR_CHILD: u16 = 64;
}

/// In [`Key::thing`] of a stop: no process sent its signal.
const STOP_OF_KERNEL: u64 = 1 << 16;

/// [`Key::who`] of interrupts of the CPU's own timer, which have no line.
pub(super) const OWN_TIMER: u32 = u32::MAX;
pub(super) const KEY: usize = 32;
pub(super) const SUM: usize = 24;
pub(super) const CHAIN_KEY: usize = 8 + KEY;
pub(super) const INFO: usize = 120;
pub(super) const NAME: usize = 56;
pub(super) const INODE_KEY: usize = 16;
pub(super) const INODE_NAME: usize = 4 * 32;
pub(super) const STACK: usize = 20 * 8;
pub(super) const TURNS_KEY: usize = 16;
pub(super) const CALLER_KEY: usize = 24;
pub(super) const CALLER: usize = (5 + 112) * 8;
pub(super) const DEADLINES: usize = 64;
pub(super) const CONTROL: usize = 48;
/// 16 sums, by `enum spent`.
pub(super) const ROUGH: usize = 16 * SUM;

/// Reads fields one after the other.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let (head, rest) = self.0.split_at(N.min(self.0.len()));
        taken[..head.len()].copy_from_slice(head);
        self.0 = rest;
        taken
    }

    fn long(&mut self) -> u64 {
        u64::from_ne_bytes(self.next())
    }

    fn word(&mut self) -> u32 {
        u32::from_ne_bytes(self.next())
    }

    fn half(&mut self) -> u16 {
        u16::from_ne_bytes(self.next())
    }

    fn byte(&mut self) -> u8 {
        self.next::<1>()[0]
    }

    fn text<const N: usize>(&mut self) -> String {
        text(&self.next::<N>())
    }
}

/// Up to the first zero.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

impl Key {
    pub(super) fn read(bytes: &[u8; KEY]) -> Self {
        let mut bytes = Bytes(bytes);
        Self {
            id: bytes.word(),
            spent: bytes.byte(),
            by: match bytes.byte() {
                1 => By::Thread,
                2 => By::Interrupt,
                3 => By::Softirq,
                4 => By::Timer,
                _ => By::Nobody,
            },
            call: bytes.half().cast_signed(),
            who: bytes.word(),
            stack: bytes.word(),
            thing: bytes.long(),
            device: bytes.word(),
            mode: bytes.half(),
            how: bytes.half(),
        }
    }

    /// Its call; none between calls.
    pub(super) fn call_name(&self) -> Option<String> {
        (self.call >= 0).then(|| name_of(i64::from(self.call)))
    }

    /// The signal of a stop.
    pub(super) fn stop(&self) -> Option<Stop> {
        let signal = match self.thing & !STOP_OF_KERNEL {
            19 => StopSignal::Stop,
            20 => StopSignal::Tstp,
            21 => StopSignal::Ttin,
            22 => StopSignal::Ttou,
            _ => return None,
        };
        (self.spent == spent::STOPPED).then_some(Stop { signal, by_kernel: self.thing & STOP_OF_KERNEL != 0 })
    }

    /// Whether the inode's mode is of this type (inode(7)).
    pub(super) fn is_file(&self, format: u16) -> bool {
        self.mode >> 12 == format
    }
}

/// The hash by which the programs name a key in a chain.
pub(super) fn hash(bytes: &[u8; KEY]) -> u64 {
    bytes.chunks_exact(8).fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| {
        let word = u64::from_ne_bytes(word.try_into().unwrap_or_default());
        let sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^ sum >> 29
    })
}

/// A sum of stretches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) ns: u64,
    pub(super) times: u64,
    pub(super) longest_ns: u64,
}

impl Sum {
    pub(super) fn read(bytes: &[u8; SUM]) -> Self {
        let mut bytes = Bytes(bytes);
        Self { ns: bytes.long(), times: bytes.long(), longest_ns: bytes.long() }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.times += other.times;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// The sums of a thread that have no details but the kind of their stretches, with their keys.
pub(super) fn by_spent(id: [u8; 4], rough: &[u8; ROUGH]) -> impl Iterator<Item = ([u8; KEY], [u8; SUM])> {
    let sums = rough.chunks_exact(SUM).map(|sum| sum.try_into().unwrap_or([0; SUM]));
    sums.enumerate().filter(|(_, sum)| Sum::read(sum).times > 0).map(move |(spent, sum)| {
        let mut key = [0; KEY];
        key[..4].copy_from_slice(&id);
        key[4] = spent as u8;
        // No call.
        key[6..8].copy_from_slice(&(-1_i16).to_ne_bytes());
        (key, sum)
    })
}

/// A thread's name and policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Name {
    /// The first thread that is called so.
    pub(super) tid: u32,
    pub(super) pid: u32,
    pub(super) prio: i32,
    pub(super) nice: i32,
    pub(super) policy: u32,
    pub(super) name: String,
    pub(super) leader: String,
}

impl Name {
    fn take(bytes: &mut Bytes<'_>, tid: u32) -> Self {
        Self {
            tid,
            pid: bytes.word(),
            prio: bytes.word().cast_signed(),
            nice: bytes.word().cast_signed(),
            policy: bytes.word(),
            name: String::new(),
            leader: String::new(),
        }
    }

    /// The policy and priority.
    pub(super) fn policy(&self) -> ThreadPolicy {
        const IDLE: u32 = 5;
        match self.prio {
            ..0 => ThreadPolicy::Deadline,
            0..100 if self.policy != 0 || self.prio != 0 => {
                ThreadPolicy::RealTime((99 - self.prio).unsigned_abs() as u8)
            }
            _ if self.policy == IDLE => ThreadPolicy::Idle,
            _ => ThreadPolicy::Fair(self.nice.clamp(-20, 19) as i8),
        }
    }

    pub(super) fn read(bytes: &[u8; NAME]) -> Self {
        let mut bytes = Bytes(bytes);
        let tid = bytes.word();
        let name = Self::take(&mut bytes, tid);
        let _pad = bytes.word();
        Self { name: bytes.text::<16>(), leader: bytes.text::<16>(), ..name }
    }
}

/// A watched thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) begin_ns: u64,
    /// 0: it was not finished.
    pub(super) end_ns: u64,
    /// How often a sum made room for another in the thread's own memory, and went to the table that all threads share.
    pub(super) evicted: u64,
    /// What the kernel counted meanwhile: on a CPU, and waiting for one.
    pub(super) counted_ns: [u64; 2],
    /// Of its timers.
    pub(super) slack_ns: u64,
    pub(super) tid: u32,
    /// Watched for the chains alone.
    pub(super) aside: bool,
    pub(super) name: Name,
}

impl Info {
    pub(super) fn read(bytes: &[u8; INFO]) -> Self {
        let mut bytes = Bytes(bytes);
        let (begin_ns, end_ns, evicted) = (bytes.long(), bytes.long(), bytes.long());
        let counted_ns = std::array::from_fn(|_| {
            let before = bytes.long();
            bytes.long().saturating_sub(before)
        });
        let (slack_ns, tid) = (bytes.long(), bytes.word());
        let name = Name::take(&mut bytes, tid);
        let aside = bytes.word() != 0;
        let name = Name { name: bytes.text::<16>(), leader: bytes.text::<16>(), ..name };
        Self { begin_ns, end_ns, evicted, counted_ns, slack_ns, tid, aside, name }
    }
}

/// The names of a file's path, the last one first: all of them, or the last ones.
pub(super) fn path(bytes: &[u8; INODE_NAME]) -> String {
    let mut names: Vec<String> = bytes.chunks_exact(32).map(text).filter(|name| !name.is_empty()).collect();
    names.reverse();
    let path = names.join("/");
    match path.strip_prefix("//") {
        Some(rest) => format!("/{rest}"),
        None if names.len() == INODE_NAME / 32 => format!("…/{path}"),
        None => path,
    }
}

/// The return addresses of a stack, the innermost first.
pub(super) fn frames(bytes: &[u8; STACK]) -> Vec<u64> {
    let mut bytes = Bytes(bytes);
    (0..STACK / 8).map(|_| bytes.long()).take_while(|frame| *frame != 0).collect()
}

/// The waits of a key, of which the longest has its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallerKey {
    pub(super) id: u32,
    /// -1: between calls.
    pub(super) call: i32,
    thing: u64,
    who: u32,
    stack: u32,
}

impl CallerKey {
    pub(super) fn read(bytes: &[u8; CALLER_KEY]) -> Self {
        let mut bytes = Bytes(bytes);
        let (id, call, thing) = (bytes.word(), bytes.word().cast_signed(), bytes.long());
        Self { id, call, thing, who: bytes.word(), stack: bytes.word() }
    }

    pub(super) fn of(key: &Key) -> Self {
        Self { id: key.id, call: key.call.into(), thing: key.thing, who: key.who, stack: key.stack }
    }
}

/// How long that wait was, and the thread as it began.
pub(super) fn caller(bytes: &[u8; CALLER], call: i32) -> (u64, Snapshot) {
    let mut bytes = Bytes(bytes);
    let ns = bytes.long();
    let [instruction, stack, frame, link] = std::array::from_fn(|_| bytes.long());
    let words = (5..CALLER / 8).map(|_| bytes.long()).collect();
    (ns, Snapshot { is_in_call: call >= 0, instruction, stack, frame, link, words })
}

/// The thread, the call and the timer of a deadline.
pub(super) fn turns_key(bytes: &[u8; TURNS_KEY]) -> (u32, i64, u64) {
    let mut bytes = Bytes(bytes);
    (bytes.word(), i64::from(bytes.word().cast_signed()), bytes.long())
}

/// Deadlines of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Deadlines {
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    pub(super) count: u64,
    pub(super) missed: u64,
    pub(super) behind_ns: u64,
    pub(super) most_ns: u64,
    /// How often two steps from one deadline to the next were alike.
    pub(super) regular: u64,
}

impl Deadlines {
    /// Whether they are those of turns. A program that sleeps until some time after now has deadlines too, which are at no regular distance, and
    /// of which none is over at the call.
    pub(super) const fn are_of_turns(&self) -> bool {
        self.regular.saturating_mul(2).saturating_add(4) >= self.count || self.missed.saturating_mul(20) > self.count
    }

    pub(super) fn read(bytes: &[u8; DEADLINES]) -> Self {
        let mut bytes = Bytes(bytes);
        Self {
            first_ns: bytes.long(),
            last_ns: bytes.long(),
            count: bytes.long(),
            missed: bytes.long(),
            behind_ns: bytes.long(),
            most_ns: bytes.long(),
            regular: {
                let _last_step = bytes.long();
                bytes.long()
            },
        }
    }
}

/// How many stretches had no room.
pub(super) fn dropped(bytes: &[u8; CONTROL]) -> u64 {
    let mut bytes = Bytes(bytes);
    let _ended_at = bytes.long();
    bytes.long()
}

/// How many threads were watched.
pub(super) fn last_id(bytes: &[u8; CONTROL]) -> u32 {
    let mut bytes = Bytes(bytes);
    let (_ended_at, _dropped) = (bytes.long(), bytes.long());
    bytes.long() as u32
}

/// The bytes that end the watch at this time, in place of those read.
pub(super) fn ended(mut bytes: [u8; CONTROL], at_ns: u64) -> [u8; CONTROL] {
    bytes[..8].copy_from_slice(&at_ns.to_ne_bytes());
    bytes
}

/// `struct cpu`: 160 bytes, then 128 turns of 88 and 128 epochs of 104.
pub(super) const CPU: usize = CPU_HEAD + 128 * 88 + 128 * 104;
const CPU_HEAD: usize = 160;

/// How many events a CPU saw of watched threads.
pub(super) fn events(bytes: &[u8; CPU]) -> u64 {
    Bytes(bytes).long()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_which_only_the_last_names_are_known_says_so() {
        let of_names = |names: [&str; 4]| {
            let mut bytes = [0; INODE_NAME];
            for (at, name) in names.into_iter().enumerate() {
                bytes[at * 32..][..name.len()].copy_from_slice(name.as_bytes());
            }
            path(&bytes)
        };
        assert_eq!(of_names(["journal", "data", "/", ""]), "/data/journal");
        assert_eq!(of_names(["journal", "data", "srv", "/"]), "/srv/data/journal");
        assert_eq!(of_names(["journal", "data", "srv", "mnt"]), "…/mnt/srv/data/journal");
        assert_eq!(of_names(["memfd:journal", "", "", ""]), "memfd:journal");
    }
}
