//! The command on real kernels with real cpufreq, in the kernel lab (see vm/README.md).
//!
//! Each test boots a machine and runs a script in it that prints `ok NAME` or `FAILED NAME: ...` for each thing it looks at.

mod campaign;
mod clock;
mod frequency;
mod pacing;
mod program;
mod support;
