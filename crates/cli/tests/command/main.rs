//! The command as a user meets it: what it refuses, what it writes, how it ends.

mod ending;
mod guide;
mod ipc;
mod locks;
mod on_time;
mod outputs;
mod poor;
mod refusals;
mod report;
mod support;
mod yielding;
