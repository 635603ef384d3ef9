//! What every family does with the conditions and notices of a run, written once.

use punctual::conditions::{Conditions, Guard};
use punctual_record::{ConditionSet, Notice, Series, Steadiness};

use crate::Session;
use crate::left_out::NotKept;
use crate::rounds::{Ledger, SharedLedger, open};
use crate::session;
use crate::variant::Variant;

/// A condition does not hold, and the caller insists on it.
#[derive(Debug, thiserror::Error)]
pub enum Unmet {
    /// It was refused.
    #[error("{condition} {asked} was refused: {why}; {remedy}")]
    Refused {
        /// Which condition.
        condition: String,
        /// What was asked.
        asked: String,
        /// Why not.
        why: String,
        /// What would make it work.
        remedy: String,
    },
    /// It was lost while something was measured.
    #[error(transparent)]
    Lost(#[from] NotKept),
}

impl Unmet {
    pub(crate) fn refused(refusal: punctual_record::Refusal) -> Self {
        let punctual_record::Refusal { condition, asked, why, remedy } = refusal;
        Self::Refused { condition, asked, why, remedy }
    }
}

/// Puts back the base conditions; what cannot be put back becomes a notice.
pub(crate) fn put_back(guard: Guard, ledger: &SharedLedger) {
    for left in guard.restore() {
        open(ledger).notices.push(session::not_restored(&left));
    }
}

/// What was asked of each variant, what held, what was refused. The error is the first condition that the caller insists on and that did not
/// hold; what was measured all the same is still to be reported.
pub(crate) fn report_conditions(
    variants: &[Variant],
    base: &Conditions,
    require: bool,
    ledger: &Ledger,
    base_refused: &[punctual::conditions::Refused],
    session: &mut Session<'_>,
) -> Result<(), Unmet> {
    let mut unmet: Option<Unmet> = None;
    for (variant, held) in variants.iter().zip(&ledger.held) {
        let Some(held) = held else { continue };
        let refusals: Vec<_> = held.refused.iter().chain(base_refused).map(session::refusal).collect();
        for refusal in &refusals {
            let (conditions, refusal) = (variant.label.clone(), refusal.clone());
            match (require, held.left_out) {
                (true, _) => drop(unmet.get_or_insert_with(|| Unmet::refused(refusal))),
                (_, true) => session.notice(Notice::ConditionsSkipped { conditions, refusal }),
                (_, false) => session.notice(Notice::ConditionRefused { conditions, refusal }),
            }
        }
        let (asked, applied) = (session::asked(&variant.over(base)), session::applied(&held.applied));
        session.add_conditions(ConditionSet { label: variant.label.clone(), asked, applied, refused: refusals });
    }
    let base_refused = base_refused.first().filter(|_| require).map(|its| Unmet::refused(session::refusal(its)));
    let lost = ledger.not_kept.clone().map(Unmet::Lost);
    if lost.is_some() {
        session.incomplete();
    }
    unmet.or(base_refused).or(lost).map_or(Ok(()), Err)
}

/// Hands the notices and the use of the measuring thread to the session.
pub(crate) fn close(ledger: Ledger, session: &mut Session<'_>) {
    session.add_usage(ledger.own.usage());
    for notice in ledger.notices {
        session.notice(notice);
    }
    ledger.left_out.tell(session);
}

/// Counts the series whose rounds differ by more than their samples explain.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    judged: u32,
    unsteady: u32,
}

impl Judge {
    pub(crate) fn look_at(&mut self, series: &Series) {
        if let Some(steadiness) = Steadiness::of(series) {
            self.judged += 1;
            self.unsteady += u32::from(steadiness.is_unsteady());
        }
    }

    /// By chance alone one series in a hundred is called unsteady: it is said only when clearly more are.
    pub(crate) fn say(&self, session: &mut Session<'_>) {
        if self.unsteady > 1 && self.unsteady * 20 > self.judged {
            session.notice(Notice::Unsteady { series: self.unsteady, judged: self.judged });
        }
    }
}
