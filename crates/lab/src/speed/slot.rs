//! A slot for a value that the plan acquires on the caller's thread and the measuring thread takes.

use std::sync::{Mutex, PoisonError};

/// The slot.
#[derive(Debug)]
pub(crate) struct Slot<T>(Mutex<Option<T>>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Clone for Slot<T> {
    /// The contents have one owner: the copy is empty.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> Slot<T> {
    pub(crate) fn put(&self, its: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(its);
    }

    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
