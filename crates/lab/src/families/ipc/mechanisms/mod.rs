//! All mechanisms, each a small item in one of these files.

mod memory;
mod notices;
mod queues;
mod ring;
mod semaphores;
mod streams;

use std::sync::LazyLock;

use super::mechanism::Mechanism;

static ALL: LazyLock<Vec<Mechanism>> = LazyLock::new(|| {
    let mut all = ring::all();
    all.extend(memory::shared());
    all.extend(queues::all());
    all.extend(streams::all());
    all.extend(notices::all());
    all.extend(memory::written());
    all
});

/// All mechanisms, in the order of `--list`.
pub fn all() -> impl Iterator<Item = &'static Mechanism> {
    ALL.iter()
}

/// The mechanism of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Mechanism> {
    all().find(|m| m.name == name)
}
