//! How late each way of waiting wakes up.

pub mod method;
pub mod methods;
pub mod observed;
