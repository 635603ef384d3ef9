//! Pictures of one kind, as many as a page takes.

use crate::document::{Album, Picture};

/// Most pictures of a kind: beyond, a page is no longer looked at, only large.
const MOST: usize = 24;

/// The pictures of the first of `all`, each with what distinguishes it. The album says how many more there are.
pub(crate) fn album<T>(
    kind: &'static str,
    all: impl IntoIterator<Item = (String, T)>,
    draw: impl Fn(&str, T) -> Option<Picture>,
) -> Album {
    let mut album = Album { kind, ..Album::default() };
    let mut more = 0;
    for (label, one) in all {
        if album.pictures.len() == MOST {
            more += 1;
        } else if let Some(picture) = draw(&label, one) {
            album.pictures.push((label, picture));
        }
    }
    if more > 0 {
        album.missing = format!("{more} more of these are not drawn; the tables have all figures.");
    }
    album
}
