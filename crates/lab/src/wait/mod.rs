//! How late each way of waiting wakes up.

pub mod method;
