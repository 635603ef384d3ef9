//! The command on real kernels with real cpufreq, in the kernel lab (see vm/README.md).
//!
//! Each test boots a machine and runs a script in it. The script prints `ok NAME` or `FAILED NAME: ...` for each thing it
//! looks at.

mod clock_set;
mod cyclic;
mod governor;
mod pace_fq;
mod random_kills;
mod run;
mod support;
mod why;
mod yielding;
