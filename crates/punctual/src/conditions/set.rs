//! [`Conditions`]: values of the table's conditions, requested or in force.

use super::{CONDITIONS, Condition, Scope, Value};

/// Values of conditions: requests for the calling thread, or the values in force. An absent value is left unchanged, or
/// could not be read.
///
/// Each condition has a method to request it, such as [`Conditions::policy`], and one to read it, such as
/// [`Conditions::get_policy`].
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    values: Vec<Value>,
    irreversible: bool,
}

impl Conditions {
    /// An empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { values: Vec::new(), irreversible: false }
    }

    /// Requests this value of its condition.
    #[must_use]
    pub fn with(self, value: Value) -> Self {
        let mut others = self.without(value.condition());
        others.values.push(value);
        others
    }

    /// Requests a condition if there is a value for it: `conditions.maybe(policy, Conditions::policy)`.
    #[must_use]
    pub fn maybe<T>(self, value: Option<T>, ask: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => ask(self, value),
            None => self,
        }
    }

    /// Removes the request for this condition.
    #[must_use]
    pub fn without(mut self, condition: Condition) -> Self {
        self.values.retain(|value| value.condition() != condition);
        self
    }

    /// Only the conditions of these scopes.
    #[must_use]
    pub fn only(mut self, scopes: &[Scope]) -> Self {
        self.values.retain(|value| scopes.contains(&value.condition().scope()));
        self
    }

    /// Also applies conditions that the kernel cannot undo without a privilege. These are a higher nice value, SCHED_IDLE, and leaving a
    /// real-time policy. By default such conditions are refused. Suits a thread that ends with its guard.
    #[must_use]
    pub const fn allow_irreversible(mut self) -> Self {
        self.irreversible = true;
        self
    }

    pub(crate) const fn allows_irreversible(&self) -> bool {
        self.irreversible
    }

    /// These conditions, completed from `base`.
    #[must_use]
    pub fn over(mut self, base: &Self) -> Self {
        let more: Vec<_> =
            base.values.iter().filter(|value| self.value(value.condition()).is_none()).cloned().collect();
        self.values.extend(more);
        self.irreversible |= base.irreversible;
        self
    }

    /// The values, in the order of the table.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Value> {
        CONDITIONS.iter().filter_map(|condition| self.value(*condition))
    }

    /// The value of a condition.
    #[must_use]
    pub fn value(&self, condition: Condition) -> Option<&Value> {
        self.values.iter().find(|value| value.condition() == condition)
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl PartialEq for Conditions {
    fn eq(&self, other: &Self) -> bool {
        self.values.len() == other.values.len()
            && self.values.iter().all(|value| other.values.contains(value))
            && self.irreversible == other.irreversible
    }
}

impl Eq for Conditions {}
