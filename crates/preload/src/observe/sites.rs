//! From a call and a return address to the entry that counts it, looked up once in a process.
//!
//! A child has what its parent knew by fork(2), where the addresses are the same. What is loaded at the place of a library that was
//! unloaded keeps that one's name.

use punctual_linux::call_table::{Entry, LOOKS, Site, Table};

use super::object;
use crate::caller::Caller;
use crate::once::Once;

/// More than a file has entries.
static ENTRIES: Once<1024> = Once::new();

/// The entry of a call; `None` where the file has no room for it.
#[inline]
pub(super) fn entry(table: &'static Table, call: u8, caller: Caller) -> Option<&'static Entry> {
    // Addresses of programs are below 2^56, and numbers of functions below 32.
    let function = u64::from(call & !LOOKS) | u64::from(call & LOOKS) >> 2;
    let key = caller.0 as u64 | function << 56;
    let address = ENTRIES.get(key, || {
        look_up(table, call, caller).map_or(0, |entry| std::ptr::from_ref(entry).expose_provenance() as u64)
    });
    // SAFETY: null, or an entry of a table that stays mapped.
    let found = unsafe { std::ptr::with_exposed_provenance::<Entry>(address.unwrap_or(0) as usize).as_ref() };
    if found.is_none() {
        table.leave_out();
    }
    found
}

#[cold]
#[inline(never)]
fn look_up(table: &'static Table, call: u8, caller: Caller) -> Option<&'static Entry> {
    let (path, offset) = object::place(caller.0);
    table.entry(&Site { call, program: object::program(), path, offset })
}
