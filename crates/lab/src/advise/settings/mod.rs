//! What a remedy changes in a thread of another program: read, write, put back.

mod affinity;
mod policy;
mod slack;
mod slice;

use super::setting::Setting;
pub(super) use affinity::cpus;
pub(super) use policy::PRIORITY;

/// All of them. A saved value names its setting by the place here.
pub(super) static SETTINGS: [&dyn Setting; 4] = [&slack::Slack, &slice::Slice, &policy::Fifo, &affinity::Affinity];
/// The places.
pub(super) const SLACK: usize = 0;
pub(super) const SLICE: usize = 1;
pub(super) const FIFO: usize = 2;
pub(super) const AFFINITY: usize = 3;

#[cfg(test)]
mod tests;
