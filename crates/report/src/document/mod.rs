//! The report of a run or a comparison as data: a [`Document`] of chapters, sections and blocks.
//!
//! It is built once, in Unicode, without a width or colours ([`Document::of`], [`Document::of_comparison`]); the
//! exporters ([`crate::export`]) lay it out. This module is independent of the experiments.

mod axis;
mod columns;
mod paint;
mod phrase;
mod picture;
mod section;
mod table;

pub(crate) use axis::ends;
pub use axis::{Axis, Scale};
pub(crate) use columns::Columns;
pub use paint::Paint;
pub use phrase::{Level, Phrase};
pub use picture::{Album, Form, Line, Picture, Point};
pub use section::{Block, Item, Note, Section};
pub use table::{Align, Column, Row, Table};

/// A whole report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// What it is of: the question, the machine and the date.
    pub title: String,
    /// The command line that it answers; empty where the title says it.
    pub command: String,
    /// When, for how long, and with what it was measured; empty where the lead says it.
    pub made: String,
    /// The first screen: the answer, one table, what to do, how far to trust it.
    pub head: Vec<Section>,
    /// The introduction: the machine, the merged runs, whether the run is complete.
    pub lead: Vec<Section>,
    /// The rest, in reading order.
    pub chapters: Vec<Chapter>,
}

/// Sections with an entry among the contents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chapter {
    /// Its title. A section with the same heading shows it once.
    pub title: String,
    /// Its sections.
    pub sections: Vec<Section>,
}

impl Chapter {
    /// A chapter of one section, whose heading is its title.
    #[must_use]
    pub fn of(section: Section) -> Self {
        Self { title: section.heading.clone(), sections: vec![section] }
    }
}

impl Document {
    /// All sections in reading order.
    pub fn sections(&self) -> impl Iterator<Item = &Section> {
        let chapters = self.chapters.iter().flat_map(|chapter| &chapter.sections);
        self.head.iter().chain(&self.lead).chain(chapters)
    }

    /// All notices.
    pub fn notices(&self) -> impl Iterator<Item = &Phrase> {
        let blocks = self.sections().flat_map(|section| &section.blocks);
        blocks.filter_map(|block| if let Block::Notices(all) = block { Some(all) } else { None }).flatten()
    }
}
