//! Roles of text in a document, for exporters with colours.

/// The role of a piece of text, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Ordinary text.
    Plain,
    /// A heading.
    Heading,
    /// Less important text: legends, rows that do not fulfil the request.
    Faint,
    /// A subject's name.
    Name,
    /// A warning.
    Warning,
    /// A failure.
    Failure,
}
