//! The start, when the program is loaded.

use crate::{next, observe, settings, slack, threads};

/// Runs before the program's `main`, when its libraries are ready.
extern "C" fn start() {
    next::look_up_all();
    settings::read();
    observe::attach();
    if settings::precise_everywhere() {
        slack::lower();
    }
    if let Some(rules) = settings::rules() {
        threads::rules_of(rules);
    }
}

// SAFETY: `.init_array` holds pointers to functions that the loader calls once each.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[cfg(test)]
const _: extern "C" fn() = start;
