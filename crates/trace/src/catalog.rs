//! The events that this crate reads: their names, the filter of each, and how they are decoded.

use crate::event::{Kind, Name, Thread};
use crate::format::{Field, Format};
use crate::{Error, Result, Tracefs};

/// How much is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What cuts the wake-ups of the watched threads.
    Core,
    /// Also what the machine did meanwhile, which names the causes.
    Causes,
}

/// Which events of this name the kernel keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// All.
    All,
    /// Those that happen while a watched thread runs.
    Own,
    /// Those about a watched thread, in these fields.
    About(&'static [&'static str]),
}

/// An event that this crate can read.
pub(crate) struct Known {
    /// `system/name`.
    pub(crate) path: &'static str,
    /// From this level on.
    pub(crate) level: Level,
    /// What the kernel keeps at `Core` and at `Causes`.
    pub(crate) keep: [Keep; 2],
    /// Without it nothing can be cut.
    pub(crate) needed: bool,
    fields: &'static [&'static str],
    decode: fn(&[Field], &[u8]) -> Option<Kind>,
}

/// An event of this kernel.
#[derive(Debug, Clone)]
pub(crate) struct Tracepoint {
    pub(crate) id: u16,
    pub(crate) path: &'static str,
    /// Bytes of it that are read, and whether a text lies behind them.
    pub(crate) size: usize,
    pub(crate) text: bool,
    /// Which of them the kernel keeps.
    pub(crate) keep: Keep,
    /// Where the fields lie that decide it.
    pub(crate) about: Vec<usize>,
    thread: Field,
    fields: Vec<Field>,
    decode: fn(&[Field], &[u8]) -> Option<Kind>,
}

impl Tracepoint {
    /// The thread that ran, 0 if it was the idle thread, and what happened.
    pub(crate) fn decode(&self, raw: &[u8]) -> Option<(i32, Kind)> {
        Some((self.thread.number(raw)? as i32, (self.decode)(&self.fields, raw)?))
    }
}

impl Known {
    /// Its layout on this kernel; none where the kernel lacks it.
    pub(crate) fn find(&self, tracefs: &Tracefs, level: Level) -> Result<Option<Tracepoint>> {
        let text = match tracefs.read(&format!("events/{}/format", self.path)) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(Error::Tracefs(e)),
        };
        let format = Format::parse(&text);
        let keep = self.keep[level as usize];
        let found = format.and_then(|format| {
            let all = |names: &[&str]| names.iter().map(|name| format.field(name)).collect::<Option<Vec<Field>>>();
            let (fields, about) =
                (all(self.fields)?, if let Keep::About(names) = keep { all(names)? } else { Vec::new() });
            let thread = format.field("common_pid")?;
            let text = fields.iter().any(|field| field.is_located());
            let end = fields.iter().map(|field| field.end()).fold(thread.end(), usize::max);
            let size = if text { format.end() } else { end };
            let about = about.into_iter().map(Field::offset).collect();
            let (id, path, decode) = (format.id, self.path, self.decode);
            Some(Tracepoint { id, path, size, text, keep, about, thread, fields, decode })
        });
        if found.is_none() && self.needed { Err(Error::NoEvent(self.path)) } else { Ok(found) }
    }
}

const fn core(path: &'static str, keep: Keep, fields: &'static [&'static str], decode: Decode) -> Known {
    Known { path, level: Level::Core, keep: [keep; 2], needed: true, fields, decode }
}

const fn cause(path: &'static str, keep: Keep, fields: &'static [&'static str], decode: Decode) -> Known {
    Known { path, level: Level::Causes, keep: [keep; 2], needed: false, fields, decode }
}

type Decode = fn(&[Field], &[u8]) -> Option<Kind>;

fn number(fields: &[Field], raw: &[u8], index: usize) -> Option<i64> {
    fields.get(index)?.number(raw)
}

fn small(fields: &[Field], raw: &[u8], index: usize) -> Option<i32> {
    number(fields, raw, index).map(|value| value as i32)
}

fn word(fields: &[Field], raw: &[u8], index: usize) -> Option<u64> {
    number(fields, raw, index).map(i64::cast_unsigned)
}

fn name(fields: &[Field], raw: &[u8], index: usize) -> Option<Name> {
    fields.get(index)?.text(raw).map(Name::new)
}

/// In the order of a wake-up.
pub(crate) const KNOWN: &[Known] = &[
    core("raw_syscalls/sys_enter", Keep::Own, &["id", "args"], |f, raw| {
        let argument = |index| f.get(1)?.element(raw, index);
        let args = [argument(0)?, argument(1)?, argument(2)?, argument(3)?];
        Some(Kind::Enter { number: number(f, raw, 0)?, args })
    }),
    core("timer/hrtimer_start", Keep::Own, &["hrtimer", "function", "softexpires", "expires"], |f, raw| {
        let (timer, function) = (word(f, raw, 0)?, word(f, raw, 1)?);
        Some(Kind::TimerStart { timer, function, soft_ns: number(f, raw, 2)?, hard_ns: number(f, raw, 3)? })
    }),
    core("timer/hrtimer_expire_entry", Keep::All, &["hrtimer", "function", "now"], |f, raw| {
        Some(Kind::TimerExpire { timer: word(f, raw, 0)?, function: word(f, raw, 1)?, now_ns: number(f, raw, 2)? })
    }),
    Known {
        // All of them are needed to find who woke the waker.
        keep: [Keep::About(&["pid"]), Keep::All],
        ..core("sched/sched_waking", Keep::All, &["pid", "target_cpu"], |f, raw| {
            Some(Kind::Waking { tid: small(f, raw, 0)?, target_cpu: small(f, raw, 1)?.cast_unsigned() })
        })
    },
    Known {
        keep: [Keep::About(&["prev_pid", "next_pid"]), Keep::All],
        ..core(
            "sched/sched_switch",
            Keep::All,
            &["prev_pid", "prev_prio", "prev_comm", "prev_state", "next_pid", "next_prio", "next_comm"],
            |f, raw| {
                let thread = |tid, prio, comm| {
                    Some(Thread { tid: small(f, raw, tid)?, prio: small(f, raw, prio)?, name: name(f, raw, comm)? })
                };
                Some(Kind::Switch { prev: thread(0, 1, 2)?, prev_state: number(f, raw, 3)?, next: thread(4, 5, 6)? })
            },
        )
    },
    core("raw_syscalls/sys_exit", Keep::Own, &["id", "ret"], |f, raw| {
        Some(Kind::Leave { number: number(f, raw, 0)?, returned: number(f, raw, 1)? })
    }),
    cause("timer/hrtimer_expire_exit", Keep::All, &["hrtimer"], |f, raw| {
        Some(Kind::TimerDone { timer: word(f, raw, 0)? })
    }),
    cause("power/cpu_idle", Keep::All, &["state"], |f, raw| {
        // PWR_EVENT_EXIT is (u32)-1.
        Some(Kind::Idle { state: Some(number(f, raw, 0)? as u32).filter(|state| *state != u32::MAX) })
    }),
    cause("irq/irq_handler_entry", Keep::All, &["irq", "name"], |f, raw| {
        Some(Kind::Interrupt { irq: small(f, raw, 0)?, name: name(f, raw, 1)? })
    }),
    cause("irq/irq_handler_exit", Keep::All, &[], |_, _| Some(Kind::InterruptDone)),
    cause("irq/softirq_entry", Keep::All, &["vec"], |f, raw| {
        Some(Kind::Softirq { vector: small(f, raw, 0)?.cast_unsigned() })
    }),
    cause("irq/softirq_exit", Keep::All, &[], |_, _| Some(Kind::SoftirqDone)),
    cause("nmi/nmi_handler", Keep::All, &["delta_ns"], |f, raw| Some(Kind::Nmi { took_ns: number(f, raw, 0)? })),
    cause("sched/sched_migrate_task", Keep::About(&["pid"]), &["pid", "dest_cpu"], |f, raw| {
        Some(Kind::Migrate { tid: small(f, raw, 0)?, to: small(f, raw, 1)?.cast_unsigned() })
    }),
    cause("sched/sched_pi_setprio", Keep::All, &["pid", "oldprio", "newprio"], |f, raw| {
        Some(Kind::Inherit { tid: small(f, raw, 0)?, old: small(f, raw, 1)?, new: small(f, raw, 2)? })
    }),
    // Those of the program itself are not in a call, and a compiler has tens of thousands a second.
    cause("exceptions/page_fault_kernel", Keep::Own, &[], |_, _| Some(Kind::Fault)),
    cause("signal/signal_deliver", Keep::Own, &["sig"], |f, raw| Some(Kind::Signal { number: small(f, raw, 0)? })),
    cause("sched/sched_process_fork", Keep::All, &["parent_pid", "child_pid"], |f, raw| {
        Some(Kind::Fork { parent: small(f, raw, 0)?, child: small(f, raw, 1)? })
    }),
    cause("task/task_rename", Keep::All, &["pid", "newcomm"], |f, raw| {
        Some(Kind::Rename { tid: small(f, raw, 0)?, name: name(f, raw, 1)? })
    }),
    cause("sched/sched_process_exit", Keep::Own, &[], |_, _| Some(Kind::Exit)),
];
