//! A remedy that a run can judge.

use punctual_record::{Code, Price, Series};

use super::advice::Goal;

/// A remedy, and the series that show what it does.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    /// Its stable name. Candidates of one name and goal are one remedy in several cases.
    pub(crate) id: String,
    /// What it is for.
    pub(crate) goal: Goal,
    /// What it removes: remedies of one cause that show no difference are one advice.
    pub(crate) cause: String,
    /// What to use.
    pub(crate) what: String,
    /// What it replaces.
    pub(crate) instead_of: String,
    /// The cases.
    pub(crate) trials: Vec<Trial<'a>>,
    /// What it costs, beside CPU time.
    pub(crate) price: Price,
    /// What to write.
    pub(crate) code: Code,
}

/// One case of a remedy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial<'a> {
    /// The case as a number, by which cases are ordered and matched: the duration asked in ns, a size.
    pub(crate) case: i64,
    /// Its name.
    pub(crate) name: fn(i64) -> String,
    /// Without the remedy.
    pub(crate) before: &'a Series,
    /// With it.
    pub(crate) after: &'a Series,
}
