//! The command from a user's view: refusals, output, exit.

mod about;
mod advise;
mod calibrate;
mod cpu_locks;
mod documentation;
mod hostile_names;
mod interference;
mod interruption;
mod ipc;
mod observe;
mod output_formats;
mod output_targets;
mod pace;
mod preload;
mod privileges;
mod refusals;
mod report;
mod restricted_environment;
mod run_mpi;
mod support;
mod time_namespace;
mod why_trace;
mod write_failures;
mod yielding;
