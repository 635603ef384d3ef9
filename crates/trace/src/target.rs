//! Which threads are watched.

/// Which threads are watched.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// These.
    pub tids: Vec<i32>,
    /// Also all that they create from now on, and those of their children.
    pub with_children: bool,
}
