//! The start, when the program is loaded.

use std::ffi::CStr;

use crate::{filter, next, observe, settings, slack, symbols, threads};

/// Runs before the program's `main`, when its libraries are ready.
extern "C" fn start() {
    next::look_up_all();
    if !says(c"PUNCTUAL_DISABLE", b"1") {
        settings::read();
        observe::attach();
    }
    if says(c"PUNCTUAL_INHERIT", b"0") {
        forget();
    }
    if !settings::any() && !observe::is_attached() {
        return;
    }
    filter::prepare();
    if settings::precise_everywhere() {
        slack::lower();
    }
    if let Some(rules) = settings::rules() {
        // The first look applies what the rules say of this thread's scheduling.
        threads::rules_of(rules);
        symbols::prepare();
    }
}

/// Whether this environment variable has this value.
fn says(name: &CStr, value: &[u8]) -> bool {
    // SAFETY: the name ends with a zero byte; no other thread exists yet that could change the environment.
    let found = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: getenv(3) returns a string that ends with a zero byte.
    !found.is_null() && unsafe { CStr::from_ptr(found) }.to_bytes() == value
}

/// Takes the settings out of the environment, and this library's own name out of LD_PRELOAD (ld.so(8)): programs that this one starts run
/// without it.
fn forget() {
    // SAFETY: the names end with a zero byte; no other thread exists yet.
    let preload = unsafe {
        for name in [c"PUNCTUAL_PRELOAD", c"PUNCTUAL_OBSERVE", c"PUNCTUAL_SLACK_NS", c"PUNCTUAL_INHERIT"] {
            libc::unsetenv(name.as_ptr());
        }
        libc::getenv(c"LD_PRELOAD".as_ptr())
    };
    if preload.is_null() {
        return;
    }
    let mut end = preload;
    let mut word = preload;
    // SAFETY: getenv(3) returns a string that ends with a zero byte. What is written to it is not longer.
    unsafe {
        while *word != 0 {
            let length = libc::strcspn(word, c": ".as_ptr());
            let separated = length + usize::from(*word.add(length) != 0);
            if !names_this_library(std::slice::from_raw_parts(word.cast(), length)) {
                libc::memmove(end.cast(), word.cast(), separated);
                end = end.add(separated);
            }
            word = word.add(separated);
        }
        *end = 0;
        if end == preload {
            libc::unsetenv(c"LD_PRELOAD".as_ptr());
        }
    }
}

fn names_this_library(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(b"libpunctual_preload.so")
}

// SAFETY: `.init_array` holds pointers to functions that the loader calls once each.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[cfg(test)]
const _: extern "C" fn() = start;
