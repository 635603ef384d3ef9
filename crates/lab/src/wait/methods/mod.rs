//! All ways to wait, one small item each.
//!
//! A new way is one [`Method`] added to the list of the file of its kind; nothing else changes.

use super::method::Method;

mod poll;
mod sleep;
mod spin;
mod user_wait;
mod waiters;

/// Every way to wait that there is, those that this machine lacks included, ordered by kind.
pub fn all() -> impl Iterator<Item = &'static Method> {
    [sleep::METHODS, poll::METHODS, spin::METHODS, user_wait::METHODS].into_iter().flatten()
}

/// The way called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Method> {
    all().find(|method| method.name == name)
}
