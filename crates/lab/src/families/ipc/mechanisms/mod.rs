//! All mechanisms, each a small item in one of these files.

mod limits;
mod memory;
mod notification;
mod pipe;
mod queue;
mod ring;
mod semaphore;
mod socket;
mod write;

use std::sync::LazyLock;

use super::mechanism::Mechanism;

static ALL: LazyLock<Vec<Mechanism>> = LazyLock::new(|| {
    let mut all = ring::all();
    all.extend(memory::all());
    all.extend(queue::all());
    all.extend(pipe::all());
    all.extend(socket::all());
    all.extend(notification::all());
    all.extend(write::all());
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
