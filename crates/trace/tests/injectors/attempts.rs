//! Attempts beside other programs.

use punctual_record::{Disturbance, DisturbanceProbe, OwnUsage};
use punctual_testing::lacks;

use crate::lab;

/// Attempts on a busy machine.
const ATTEMPTS: u32 = 5;

/// An attempt in which fewer wake-ups were right than must be.
pub(crate) struct TooFew {
    /// The figures.
    pub(crate) said: String,
    /// Whether enough were right for a busy machine.
    pub(crate) some: bool,
}

impl TooFew {
    /// `right` of `all` wake-ups. Beside other programs fewer are right, but not fewer than half. In an emulated machine most of the time
    /// is the emulator's.
    pub(crate) fn of(right: usize, all: usize, said: String) -> Self {
        let least = if lab::slower() > 1 { 10 } else { 50 };
        Self { said, some: all > 0 && right * 100 >= all * least }
    }
}

/// Repeats the attempt until it holds. If it never does beside other programs, the machine lacks the quiet that it needs.
pub(crate) fn one_holds(name: &str, mut attempt: impl FnMut() -> Result<(), TooFew>) {
    let probe = DisturbanceProbe::start(std::path::Path::new("/"));
    let (mut said, mut some) = (Vec::new(), false);
    for _ in 0..if lab::slower() > 1 { 2 } else { ATTEMPTS } {
        match attempt() {
            Ok(()) => return,
            Err(few) => {
                some |= few.some;
                said.push(few.said);
            }
        }
    }
    let said = said.join("\n");
    let emulated = || (lab::slower() > 1).then(|| "the machine is emulated".to_owned());
    match disturbed(&probe.finish(OwnUsage::default())).or_else(emulated) {
        Some(others) if some => lacks(&format!("{name}: {others}; {said}")),
        _ => panic!("each attempt failed:\n{said}"),
    }
}

/// What else used the CPUs, if it was more than a little.
fn disturbed(meanwhile: &Disturbance) -> Option<String> {
    let others: f64 = meanwhile.busiest.iter().map(|process| process.cpu_share).sum();
    let stolen = meanwhile.steal_share.unwrap_or(0.0);
    let shares =
        format!("other programs used {:.0} % of the CPUs, the host took {:.0} %", others * 100.0, stolen * 100.0);
    (others > 0.05 || stolen > 0.01).then_some(shares)
}
