//! What every family does with the conditions and notices of a run, written once.

use punctual::conditions::{Conditions, Guard};
use punctual_record::{ConditionSet, Notice, Series, Steadiness};

use crate::Session;
use crate::rounds::{Ledger, SharedLedger, open};
use crate::session;
use crate::variant::Variant;

/// A condition was refused, and the caller insists on it.
#[derive(Debug, thiserror::Error)]
#[error("{condition} {asked} was refused: {why}; {remedy}")]
pub struct Refused {
    /// Which condition.
    pub condition: String,
    /// What was asked.
    pub asked: String,
    /// Why not.
    pub why: String,
    /// What would make it work.
    pub remedy: String,
}

/// Puts back the base conditions; what cannot be put back becomes a notice.
pub(crate) fn put_back(guard: Guard, ledger: &SharedLedger) {
    for left in guard.restore() {
        open(ledger).notices.push(session::not_restored(&left));
    }
}

/// What was asked of each variant, what held, what was refused.
pub(crate) fn report_conditions(
    variants: &[Variant],
    base: &Conditions,
    require: bool,
    ledger: &Ledger,
    base_refused: &[punctual::conditions::Refused],
    session: &mut Session<'_>,
) -> Result<(), Refused> {
    let insist = |refusal: Option<punctual_record::Refusal>| match refusal.filter(|_| require) {
        Some(r) => Err(Refused { condition: r.condition, asked: r.asked, why: r.why, remedy: r.remedy }),
        None => Ok(()),
    };
    for (variant, held) in variants.iter().zip(&ledger.held) {
        let Some(held) = held else { continue };
        let refusals: Vec<_> = held.refused.iter().chain(base_refused).map(session::refusal).collect();
        insist(refusals.first().cloned())?;
        for refusal in &refusals {
            let (conditions, refusal) = (variant.label.clone(), refusal.clone());
            session.notice(match held.left_out {
                true => Notice::ConditionsSkipped { conditions, refusal },
                false => Notice::ConditionRefused { conditions, refusal },
            });
        }
        let (asked, applied) = (session::asked(&variant.over(base)), session::applied(&held.applied));
        session.add_conditions(ConditionSet { label: variant.label.clone(), asked, applied, refused: refusals });
    }
    insist(base_refused.first().map(session::refusal))
}

/// Hands the notices and the use of the measuring thread to the session.
pub(crate) fn close(ledger: Ledger, session: &mut Session<'_>) {
    session.add_usage(ledger.own.usage());
    for notice in ledger.notices {
        session.notice(notice);
    }
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
