//! Runs as text, JSON and CSV.
#![forbid(unsafe_code)]
