//! All ways to wait, one small item each.
//!
//! A new way is one [`Method`] in the list of its kind's file; nothing else changes.

use crate::ways::wait::Method;

mod library;
mod poll;
mod sleep;
mod spin;
mod sync;
mod timer;
mod user_wait;
mod waiters;

/// All ways to wait, ordered by kind. It includes those that this machine lacks.
pub fn all() -> impl Iterator<Item = &'static Method> {
    let lists = [
        library::METHODS,
        sleep::METHODS,
        poll::METHODS,
        timer::METHODS,
        sync::METHODS,
        spin::METHODS,
        user_wait::METHODS,
    ];
    lists.into_iter().flatten()
}

/// The way called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Method> {
    all().find(|method| method.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_means_one_method() {
        for method in all() {
            assert!(std::ptr::eq(find(method.name).unwrap(), method), "{} twice", method.name);
            assert!(!method.name.is_empty() && !method.about.is_empty() && !method.call.is_empty());
            assert!(method.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
        }
        assert!(find("snooze").is_none());
    }
}
