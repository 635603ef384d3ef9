//! Which pictures a run gives: each kind looks for the series it can draw, whatever experiment they come from.
//!
//! Series that can share a picture are a [`Group`]: one experiment, one quantity, the same of those parameters that make figures
//! incomparable (what was asked, a message's size). What else differs between them is in a line's name.

mod forest;
mod governor;
mod group;
mod heat;
mod histogram;
mod pareto;
mod percentile;
mod rounds;
mod size;

use punctual_record::{Run, Series};

use super::plot::Picture;

pub(super) use forest::album as forest;
pub(super) use group::{Group, Member, groups};

/// Pictures of one kind, of which one is looked at at a time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Album {
    /// What the kind is called.
    pub(super) kind: &'static str,
    /// What distinguishes a picture from the others, and the picture.
    pub(super) pictures: Vec<(String, Picture)>,
    /// How many more there would have been.
    pub(super) left_out: usize,
}

/// Most pictures of a kind: beyond, a page is no longer looked at, only large.
const MOST: usize = 24;
/// Most lines in one picture.
pub(super) const MOST_LINES: usize = 48;
/// Lines shown before anybody chooses.
pub(super) const AT_FIRST: usize = 8;

/// The pictures of one experiment, by kind, and how many series are missing in them because their samples cannot be decoded; kinds without
/// pictures are left out.
pub(super) fn albums(run: &Run, series: &[&Series]) -> (Vec<Album>, usize) {
    let groups = groups(run, series);
    let of_groups = |kind, draw: fn(&Group<'_>) -> Option<Picture>| {
        let mut album = Album { kind, ..Album::default() };
        for group in &groups {
            if album.pictures.len() == MOST {
                album.left_out += 1;
            } else if let Some(picture) = draw(group) {
                album.pictures.push((group.label.clone(), picture));
            }
        }
        album
    };
    let mut albums = vec![
        governor::album(run, series),
        of_groups("Latency by percentile", percentile::picture),
        of_groups("Histogram", histogram::picture),
        of_groups("Lateness against CPU time", pareto::picture),
        size::album(run, series),
        heat::album(run, series),
        of_groups("Round by round", rounds::picture),
    ];
    albums.retain(|album| !album.pictures.is_empty());
    let undrawn = groups.iter().flat_map(|group| &group.members).filter(|member| member.is_undrawn()).count();
    (albums, undrawn)
}
