//! The causes of one run, as far as they are compared.

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::{CallCauses, Cause, CauseSource, LatePart, Run};

use crate::evidence::{Reading, noise};

/// Differences between runs that no run shows, as a share of the lateness of the call.
const FLOOR: f64 = 0.01;

/// A call of threads of one name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) nominal_ns: Option<u64>,
    pub(super) thread: String,
    pub(super) name: String,
}

/// A part of the lateness and its cause.
pub(super) type Key = (LatePart, Cause);

/// Time lost per wake-up: on average, and in consecutive stretches.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Lost {
    pub(super) each_ns: f64,
    stretches_ns: Vec<f64>,
}

/// The causes of a call. They add up to its lateness, so that what is not among them took no time.
#[derive(Debug, Clone, Default)]
pub(super) struct Blamed {
    pub(super) causes: BTreeMap<Key, Lost>,
    pub(super) culprits: BTreeMap<(Key, String), Lost>,
    late_ns: f64,
    stretches: usize,
}

/// The causes of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Recorded {
    /// Index of the run in its side.
    pub(super) run: usize,
    pub(super) calls: BTreeMap<Call, Blamed>,
    /// What could not be seen: a time that one run cannot see is among other causes there.
    pub(super) unseen: BTreeSet<String>,
}

impl Recorded {
    /// `None`: the run has none.
    pub(super) fn of(number: usize, run: &Run) -> Option<Self> {
        let causes = run.causes.as_ref().filter(|causes| causes.source == CauseSource::Tracepoints)?;
        let of = |call: &CallCauses| {
            let key = Call { nominal_ns: call.nominal_ns, thread: call.thread.clone(), name: call.call.clone() };
            (key, Blamed::of(call))
        };
        let calls = causes.calls.iter().filter(|call| call.late.count > 0).map(of).collect();
        let unseen = causes.missing.iter().map(|missing| missing.what.clone()).collect();
        Some(Self { run: number, calls, unseen })
    }
}

impl Blamed {
    fn of(call: &CallCauses) -> Self {
        let count = call.late.count as f64;
        let mut blamed = Self {
            late_ns: call.late.total_ns as f64 / count,
            stretches: call.causes.iter().map(|one| one.stretches_ns.len()).max().unwrap_or(0),
            ..Self::default()
        };
        for one in &call.causes {
            let key = (one.part, one.cause);
            let each_ns = one.time.total_ns as f64 / count;
            blamed.causes.entry(key).or_default().add(each_ns, &one.stretches_ns);
            if let Some(culprit) = &one.culprit {
                blamed.culprits.entry((key, culprit.clone())).or_default().add(each_ns, &one.stretches_ns);
            }
        }
        blamed
    }

    /// A time with its noise; of a cause that is not there, zero in every stretch.
    pub(super) fn reading(&self, lost: Option<&Lost>) -> Reading {
        let absent = Lost { each_ns: 0.0, stretches_ns: vec![0.0; self.stretches] };
        let lost = lost.unwrap_or(&absent);
        match noise::wandering(&lost.stretches_ns) {
            Some(noise) if lost.each_ns.is_finite() => {
                Reading::Known { place: lost.each_ns, noise, floor: (FLOOR * self.late_ns).max(1.0).powi(2) }
            }
            _ => Reading::FewRounds,
        }
    }
}

impl Lost {
    fn add(&mut self, each_ns: f64, stretches_ns: &[f64]) {
        self.each_ns += each_ns;
        self.stretches_ns.resize(self.stretches_ns.len().max(stretches_ns.len()), 0.0);
        self.stretches_ns.iter_mut().zip(stretches_ns).for_each(|(sum, ns)| *sum += ns);
    }
}
