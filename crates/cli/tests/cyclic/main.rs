//! `punctual cyclic`: command lines of cyclictest, and what it prints beside what cyclictest prints; and the native form.

mod beside;
mod crash;
mod ends;
mod lines;
mod native;
mod support;
mod surroundings;
