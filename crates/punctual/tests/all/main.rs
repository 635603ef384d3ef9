//! The library on the real kernel, on fixture trees and on a manual clock.
#![forbid(unsafe_code)]

mod backoff;
mod common;
mod conditions;
mod cpufreq;
mod fixture;
mod keeper;
mod manual_clock;
mod margin;
mod never_early;
mod ring;
mod unprivileged;
mod watchdog;
