//! Where in the program a function was called.

/// The address behind the call, in the program or one of its libraries. 0 where the architecture does not give it.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caller(pub(crate) usize);

impl Caller {
    /// Not known.
    #[allow(dead_code, reason = "x86-64 always knows it")]
    pub(crate) const UNKNOWN: Self = Self(0);
}
