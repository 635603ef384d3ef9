//! Scheduling policies, as typed on the command line: `other`, `batch`, `idle`, `rr:40`, `fifo:40`, `deadline:1ms/10ms/10ms`.
//!
//! In goes text or the kernel's attributes, out comes a [`Policy`] that the kernel accepts in principle. Refused: unknown names
//! (with the nearest one), a missing or impossible priority, and deadline parameters that the kernel rejects.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use punctual_linux::sched::{self, Attributes};

use crate::duration::{DurationError, ShortDuration, parse_duration};

/// The least runtime of SCHED_DEADLINE: 1024 ns (kernel/sched/deadline.c, `__checkparam_dl`: `1 << DL_SCALE`).
pub const LEAST_DEADLINE_RUNTIME: Duration = Duration::from_nanos(1024);

/// Names as typed, for the nearest one.
const NAMES: [&str; 6] = ["other", "batch", "idle", "rr", "fifo", "deadline"];

/// How the kernel schedules a thread (sched(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// SCHED_OTHER: the default; a fair share, weighted by the nice value.
    Other,
    /// SCHED_BATCH: as SCHED_OTHER, but taken for CPU-bound: wakes up less eagerly.
    Batch,
    /// SCHED_IDLE: runs when hardly anybody else wants to.
    Idle,
    /// SCHED_RR with a priority from 1 to 99: runs before everything below; equals take turns.
    RoundRobin(u8),
    /// SCHED_FIFO with a priority from 1 to 99: runs before everything below, until it waits.
    Fifo(u8),
    /// SCHED_DEADLINE: `runtime` of CPU time within `deadline`, once every `period`; before everything else.
    Deadline {
        /// CPU time per period, at least 1024 ns.
        runtime: Duration,
        /// Time from the start of a period within which the runtime is given; not below the runtime.
        deadline: Duration,
        /// Period; not below the deadline.
        period: Duration,
    },
}

/// Why a policy was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Not a policy.
    #[error("expected other, batch, idle, rr:1 to rr:99, fifo:1 to fifo:99, or deadline:RUNTIME/DEADLINE/PERIOD (example: fifo:40){}",
        nearest.map(|name| format!("; nearest: {name}")).unwrap_or_default())]
    UnknownName {
        /// What was typed.
        typed: String,
        /// The nearest name, if one is near.
        nearest: Option<&'static str>,
    },
    /// `fifo` or `rr` alone.
    #[error("expected a priority, {name}:1 to {name}:99; 99 is the most urgent (example: {name}:40)")]
    NoPriority {
        /// `fifo` or `rr`.
        name: &'static str,
    },
    /// A priority that is none.
    #[error("expected {name}:1 to {name}:99; 99 is the most urgent (example: {name}:40)")]
    BadPriority {
        /// `fifo` or `rr`.
        name: &'static str,
        /// What stood in the priority's place.
        typed: String,
    },
    /// `other:5` and the like.
    #[error("expected {name} without a priority; the nice value sets its weight (example: {name})")]
    NeedlessPriority {
        /// The policy.
        name: &'static str,
        /// What followed the colon.
        typed: String,
    },
    /// `deadline` without its three durations.
    #[error("expected three durations, deadline:RUNTIME/DEADLINE/PERIOD (example: deadline:1ms/10ms/10ms)")]
    DeadlineShape {
        /// What followed the colon.
        typed: String,
    },
    /// One of the three durations is none.
    #[error("the {part} of the deadline policy: {source}")]
    DeadlineDuration {
        /// `runtime`, `deadline` or `period`.
        part: &'static str,
        /// Why.
        source: DurationError,
    },
    /// The three durations do not go together.
    #[error("{why} (example: deadline:1ms/10ms/10ms; sched(7))")]
    DeadlineValues {
        /// The policy as typed.
        typed: String,
        /// Which rule is broken.
        why: String,
    },
}

impl Policy {
    /// Its name on the command line, its name in the kernel, and the kernel's number.
    const fn names(&self) -> (&'static str, &'static str, u32) {
        match self {
            Self::Other => ("other", "SCHED_OTHER", sched::OTHER),
            Self::Batch => ("batch", "SCHED_BATCH", sched::BATCH),
            Self::Idle => ("idle", "SCHED_IDLE", sched::IDLE),
            Self::RoundRobin(_) => ("rr", "SCHED_RR", sched::RR),
            Self::Fifo(_) => ("fifo", "SCHED_FIFO", sched::FIFO),
            Self::Deadline { .. } => ("deadline", "SCHED_DEADLINE", sched::DEADLINE),
        }
    }

    /// Its name on the command line, without parameters.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.names().0
    }

    /// Its name in the kernel and in sched(7), without parameters: `SCHED_FIFO`.
    #[must_use]
    pub const fn kernel_name(&self) -> &'static str {
        self.names().1
    }

    /// Whether threads under it run before all threads of the fair class: SCHED_RR, SCHED_FIFO, SCHED_DEADLINE.
    #[must_use]
    pub const fn is_real_time(&self) -> bool {
        matches!(self, Self::RoundRobin(_) | Self::Fifo(_) | Self::Deadline { .. })
    }

    /// Its priority, 1 to 99, for SCHED_RR and SCHED_FIFO.
    #[must_use]
    pub const fn priority(&self) -> Option<u8> {
        match self {
            Self::RoundRobin(priority) | Self::Fifo(priority) => Some(*priority),
            _ => None,
        }
    }

    /// Checks what the types alone do not: priorities, and the deadline parameters.
    pub fn validate(&self) -> Result<(), PolicyError> {
        match *self {
            Self::RoundRobin(priority) | Self::Fifo(priority) if !(1..=99).contains(&priority) => {
                Err(PolicyError::BadPriority { name: self.name(), typed: priority.to_string() })
            }
            Self::Deadline { runtime, deadline, period } => check_deadline(self, runtime, deadline, period),
            _ => Ok(()),
        }
    }

    /// What to hand to the kernel. `nice` is what SCHED_OTHER and SCHED_BATCH threads keep.
    pub(crate) fn attributes(&self, nice: i32) -> Attributes {
        let priority = self.priority().unwrap_or(0).into();
        let mut attributes = Attributes { policy: self.names().2, priority, nice, ..Attributes::default() };
        if let Self::Deadline { runtime, deadline, period } = *self {
            [attributes.runtime_ns, attributes.deadline_ns, attributes.period_ns] =
                [runtime, deadline, period].map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
        // A real-time thread that starts a helper, a pool or a child must not make those real-time by accident. The
        // kernel lets no SCHED_DEADLINE thread start any otherwise (EAGAIN).
        if self.is_real_time() {
            attributes.flags = sched::RESET_ON_FORK;
        }
        attributes
    }

    /// The policy of the kernel's attributes; `None` for policies that are not described here (SCHED_EXT).
    pub(crate) fn from_attributes(attributes: &Attributes) -> Option<Self> {
        Some(match attributes.policy {
            sched::OTHER => Self::Other,
            sched::BATCH => Self::Batch,
            sched::IDLE => Self::Idle,
            sched::RR => Self::RoundRobin(attributes.priority as u8),
            sched::FIFO => Self::Fifo(attributes.priority as u8),
            sched::DEADLINE => Self::Deadline {
                runtime: Duration::from_nanos(attributes.runtime_ns),
                deadline: Duration::from_nanos(attributes.deadline_ns),
                period: Duration::from_nanos(attributes.period_ns),
            },
            _ => return None,
        })
    }
}

fn check_deadline(policy: &Policy, runtime: Duration, deadline: Duration, period: Duration) -> Result<(), PolicyError> {
    let short = ShortDuration;
    let why = if runtime < LEAST_DEADLINE_RUNTIME {
        format!("the runtime is {}, and the kernel takes 1024ns at least", short(runtime))
    } else if runtime > deadline {
        format!("the runtime, {}, is longer than the deadline, {}", short(runtime), short(deadline))
    } else if deadline > period {
        format!("the deadline, {}, is later than the period, {}", short(deadline), short(period))
    } else if period.as_nanos() >= 1 << 63 {
        // __checkparam_dl: the top bit must be free, since times are compared by subtraction.
        format!("the period, {}, is longer than the kernel counts (2^63 ns)", short(period))
    } else {
        return Ok(());
    };
    Err(PolicyError::DeadlineValues { typed: policy.to_string(), why })
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Other | Self::Batch | Self::Idle => self.name().to_owned(),
            Self::RoundRobin(priority) | Self::Fifo(priority) => format!("{}:{priority}", self.name()),
            Self::Deadline { runtime, deadline, period } => {
                let (runtime, deadline) = (ShortDuration(*runtime), ShortDuration(*deadline));
                format!("deadline:{runtime}/{deadline}/{}", ShortDuration(*period))
            }
        };
        f.pad(&text)
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(typed: &str) -> Result<Self, PolicyError> {
        let typed = typed.trim();
        let (name, parameters) = match typed.split_once(':') {
            Some((name, parameters)) => (name.trim(), Some(parameters.trim())),
            None => (typed, None),
        };
        let name = name.to_ascii_lowercase();
        let name = name.strip_prefix("sched_").unwrap_or(&name);
        let Some(&name) = NAMES.iter().find(|known| **known == name) else {
            let nearest = nearest(name);
            return Err(PolicyError::UnknownName { typed: typed.to_owned(), nearest });
        };
        let plain = match name {
            "rr" => return Ok(Self::RoundRobin(priority(name, parameters)?)),
            "fifo" => return Ok(Self::Fifo(priority(name, parameters)?)),
            "deadline" => return deadline(parameters.unwrap_or_default()),
            "batch" => Self::Batch,
            "idle" => Self::Idle,
            _ => Self::Other,
        };
        match parameters {
            None => Ok(plain),
            Some(typed) => Err(PolicyError::NeedlessPriority { name, typed: typed.to_owned() }),
        }
    }
}

fn priority(name: &'static str, typed: Option<&str>) -> Result<u8, PolicyError> {
    let typed = typed.filter(|typed| !typed.is_empty()).ok_or(PolicyError::NoPriority { name })?;
    match typed.parse() {
        Ok(priority @ 1..=99) if !typed.starts_with('+') => Ok(priority),
        _ => Err(PolicyError::BadPriority { name, typed: typed.to_owned() }),
    }
}

fn deadline(typed: &str) -> Result<Policy, PolicyError> {
    let parts: Vec<&str> = typed.split('/').map(str::trim).collect();
    let [runtime, deadline, period] = parts[..] else {
        return Err(PolicyError::DeadlineShape { typed: typed.to_owned() });
    };
    let read = |part, text| parse_duration(text).map_err(|source| PolicyError::DeadlineDuration { part, source });
    let policy = Policy::Deadline {
        runtime: read("runtime", runtime)?,
        deadline: read("deadline", deadline)?,
        period: read("period", period)?,
    };
    policy.validate()?;
    Ok(policy)
}

/// The nearest policy name. It goes by common names of the policies, then by the first letter, which differs in all of them.
fn nearest(typed: &str) -> Option<&'static str> {
    match typed {
        "normal" | "default" | "cfs" | "eevdf" | "ts" => return Some("other"),
        "realtime" | "real-time" | "rt" => return Some("fifo:1 to fifo:99"),
        "round-robin" | "roundrobin" => return Some("rr:1 to rr:99"),
        "edf" | "dl" => return Some("deadline"),
        _ => {}
    }
    let near = |name: &&str| typed.get(..1) == name.get(..1) && typed.len().abs_diff(name.len()) < 3;
    NAMES.iter().copied().find(near)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses() {
        let said: Vec<String> = [
            "",
            "fifo",
            "fifo:",
            "rr",
            "fifo:0",
            "fifo:100",
            "rr:-1",
            "fifo:forty",
            "fifo:+4",
            "fifi:4",
            "ohter",
            "normal",
            "realtime",
            "zebra",
            "other:4",
            "idle:",
            "deadline",
            "deadline:1ms",
            "deadline:1/10ms/10ms",
            "deadline:1ms/x/10ms",
            "deadline:11ms/10ms/10ms",
            "deadline:1ms/20ms/10ms",
            "deadline:1us/10ms/10ms",
            "deadline:1ms/10ms/3000000h",
        ]
        .iter()
        .map(|typed| format!("{typed:?}: {}", typed.parse::<Policy>().unwrap_err()))
        .collect();
        insta::assert_snapshot!(said.join("\n"));
    }

    #[test]
    fn reads_what_people_type() {
        for (typed, printed) in [
            ("other", "other"),
            ("FIFO:40", "fifo:40"),
            ("SCHED_RR:1", "rr:1"),
            (" deadline: 1000us / 10ms/0.01s", "deadline:1ms/10ms/10ms"),
        ] {
            assert_eq!(typed.parse::<Policy>().unwrap().to_string(), printed);
        }
    }

    fn any_policy() -> impl Strategy<Value = Policy> {
        prop_oneof![
            Just(Policy::Other),
            Just(Policy::Batch),
            Just(Policy::Idle),
            (1_u8..=99).prop_map(Policy::RoundRobin),
            (1_u8..=99).prop_map(Policy::Fifo),
            (1024_u64..1 << 60, 0_u64..1 << 60, 0_u64..1 << 60).prop_map(|(runtime, more, yet_more)| {
                Policy::Deadline {
                    runtime: Duration::from_nanos(runtime),
                    deadline: Duration::from_nanos(runtime + more),
                    period: Duration::from_nanos(runtime + more + yet_more),
                }
            }),
        ]
    }

    proptest! {
        #[test]
        fn round_trip(policy in any_policy()) {
            prop_assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
            prop_assert_eq!(Policy::from_attributes(&policy.attributes(3)), Some(policy));
        }

        #[test]
        fn anything_typed_is_answered(typed in ".{0,30}") {
            let _ = typed.parse::<Policy>();
        }
    }
}
