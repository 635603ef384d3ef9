//! Pictures of series, as data. Each kind selects the series that it can draw, from any experiment.
//!
//! Series that can share a picture are a [`Group`]: one experiment and one quantity. They agree in the parameters that make
//! figures incomparable (duration asked, size of a message). What else differs between them is in a line's name. Pictures
//! of one kind are an [`Album`] of as many as a page takes.

pub(crate) mod course;
mod distribution;
pub(crate) mod dots;
mod group;
pub(crate) mod messages;
mod pareto;

use group::{Group, groups};
use punctual_record::{Quantity, Run, Series};

use crate::document::{Album, Picture};

pub(crate) use distribution::Curve;
pub(crate) use group::{album, quantity_name};

/// The pictures of one experiment, by kind; kinds without pictures are left out. What is advised is in them by name.
pub(crate) fn albums(run: &Run, series: &[&Series], advised: &[&Series]) -> Vec<Album> {
    // Three loops a round. The picture of a ramp has them in their order, and a histogram of them shows nothing.
    let drawn: Vec<&Series> = series.iter().copied().filter(|series| series.quantity != Quantity::FirstLoops).collect();
    let groups = groups(run, &drawn, advised);
    let of_groups = |kind, draw: fn(&Group<'_>) -> Option<Picture>| {
        album(kind, groups.iter().map(|group| (group.label.clone(), group)), |_, group| draw(group))
    };
    let mut albums = vec![
        of_groups("Latency by percentile", distribution::percentiles),
        of_groups("Histogram", distribution::histogram),
        of_groups("Lateness against CPU time", pareto::picture),
        messages::sizes(&drawn),
        of_groups("Round by round", course::rounds),
    ];
    albums.retain(|album| !album.pictures.is_empty());
    let undrawn = groups.iter().flat_map(|group| &group.members).filter(|member| member.is_undrawn()).count();
    if let Some(first) = albums.first_mut().filter(|_| undrawn > 0) {
        let text = format!(
            "{undrawn} series have no histogram that can be decoded: they are in the tables, and missing in pictures of distributions. "
        );
        first.missing.insert_str(0, &text);
    }
    albums
}
