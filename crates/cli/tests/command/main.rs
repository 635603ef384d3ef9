//! The command as a user meets it: what it refuses, what it writes, how it ends.

mod ending;
mod guide;
mod ipc;
mod locks;
mod losses;
mod on_time;
mod outputs;
mod places;
mod poor;
mod refusals;
mod report;
mod support;
mod truth;
mod yielding;
