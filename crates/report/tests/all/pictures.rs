//! Pictures as data: each has its baseline, and an outlier squashes none.

use crate::common::{Made, remedies_run, run, set};
use punctual_record::Run;
use punctual_report::Document;
use punctual_report::document::{Album, Block, Picture};

fn albums(run: &Run) -> Vec<Album> {
    let document = Document::illustrated(run);
    let blocks = document.sections().flat_map(|section| section.blocks.clone()).collect::<Vec<_>>();
    blocks.into_iter().filter_map(|block| if let Block::Album(album) = block { Some(album) } else { None }).collect()
}

fn pictures(run: &Run, kind: &str) -> Vec<Picture> {
    let of_kind = albums(run).into_iter().filter(|album| album.kind == kind && !album.side_by_side);
    of_kind.flat_map(|album| album.pictures).map(|(_, picture)| picture).collect()
}

/// Twelve methods that are all earlier than the call that programs use.
fn many() -> Run {
    const EARLIER: [&str; 12] = [
        "spin_clock",
        "spin_counter",
        "spin_yield",
        "hybrid",
        "timerfd",
        "futex",
        "ppoll",
        "pselect",
        "select",
        "io_uring",
        "epoll_pwait2",
        "sigtimedwait",
    ];
    let mut made = vec![Made::sleep("clock_nanosleep_abs", "SCHED_OTHER", 91_500)];
    made.extend((1..).zip(EARLIER).map(|(n, name)| Made::sleep(name, "SCHED_OTHER", n * 5_000)));
    run(&["punctual", "wait"], vec![set("SCHED_OTHER", "other", None, 50_000)], &made)
}

#[test]
fn no_chart_is_without_its_baseline() {
    for kind in ["Latency by percentile", "Histogram", "Round by round"] {
        let pictures = pictures(&many(), kind);
        assert!(!pictures.is_empty(), "{kind}");
        for picture in pictures {
            let shown: Vec<&str> =
                picture.lines.iter().filter(|line| line.shown).map(|line| line.label.as_str()).collect();
            assert_eq!(shown[0], "clock_nanosleep_abs (baseline)", "{kind}: {shown:?}");
            assert!(shown.len() >= 3, "{kind}: {shown:?}");
        }
    }
}

#[test]
fn the_first_picture_sets_the_baseline_beside_the_cures() {
    let albums = albums(&remedies_run(52_000, 52_100, 52_300));
    let first = albums.iter().find(|album| album.side_by_side).unwrap();
    let picture = &first.pictures[0].1;
    let names: Vec<&str> = picture.y.ticks.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!((picture.title.as_str(), names[0]), ("clock_nanosleep_abs for 100 µs", "as found"));
    assert!(names.contains(&"slack 1 ns"), "{names:?}");
    assert!(!names.contains(&"CPU 1") && !names.contains(&"C-states off"), "what does not help is no cure: {names:?}");
    assert_eq!(picture.table.rows.len(), names.len());
}

#[test]
fn without_a_cure_the_picture_shows_what_was_tried() {
    let mut run = remedies_run(52_000, 52_100, 52_300);
    run.series.iter_mut().for_each(|series| series.rounds.clear());
    let albums = albums(&run);
    let picture = &albums.iter().find(|album| album.side_by_side).unwrap().pictures[0].1;
    assert!(picture.y.ticks.iter().any(|(_, name)| name == "CPU 1"), "{:?}", picture.y.ticks);
}

#[test]
fn one_slow_method_does_not_squash_the_others() {
    let mut made: Vec<Made> =
        (0..6).map(|n| Made::sleep(["a", "b", "c", "d", "e", "f"][n], "SCHED_OTHER", 7_000 + n as i64 * 900)).collect();
    made.push(Made::sleep("stuck", "SCHED_OTHER", 80_000_000));
    let run = run(&["punctual", "wait"], vec![set("SCHED_OTHER", "other", None, 50_000)], &made);
    for picture in pictures(&run, "Latency by percentile") {
        assert!(picture.y.high < 1e6, "{:?}", picture.y);
        let stuck = picture.lines.iter().find(|line| line.label == "stuck").unwrap();
        let tags: Vec<&str> = stuck.points.iter().filter_map(|point| point.tag.as_deref()).collect();
        assert!(tags.len() == 1 && tags[0].starts_with("stuck: ") && tags[0].ends_with("ms ↑"), "{tags:?}");
    }
}

/// The fourth best method is advised: it beats the call that programs use, and needs no CPU.
#[test]
fn what_is_advised_is_a_line_and_a_row_by_name() {
    let run = many();
    let advised: Vec<String> =
        punctual_report::Verdict::from_run(&run).advice.iter().map(|advice| advice.what.clone()).collect();
    assert!(advised.contains(&"timerfd".to_owned()), "{advised:?}");
    for kind in ["Latency by percentile", "Histogram", "Round by round"] {
        for picture in pictures(&run, kind) {
            let shown = |name: &str| picture.lines.iter().any(|line| line.shown && line.label == name);
            assert!(shown("timerfd (advised)") && !shown("spin_clock (advised)"), "{kind}: {:?}", picture.lines);
        }
    }
    let albums = albums(&run);
    let first = &albums.iter().find(|album| album.side_by_side).unwrap().pictures[0].1;
    let rows = |line: &str| first.lines.iter().find(|known| known.label == line).map_or(0, |known| known.points.len());
    assert!(rows("advised") >= 1 && rows("measured") >= 1, "{:?}", first.lines);
    assert!(first.about.contains(" A square is advised."), "{}", first.about);
    let names: Vec<&str> = first.y.ticks.iter().map(|(_, name)| name.as_str()).collect();
    assert!(names.contains(&"timerfd") && names.len() == 13, "all of them: {names:?}");
    let mut few = many();
    few.series.iter_mut().for_each(|series| series.rounds.clear());
    for picture in pictures(&few, "Latency by percentile") {
        assert!(picture.lines.iter().all(|line| !line.label.contains("advised")), "nothing was tested");
    }
}

#[test]
fn titles_of_chapters_and_pictures_are_words() {
    for (run, chapter, title) in [
        (many(), "Waiting", "asked 100 µs"),
        (crate::yielding::yield_run(&["punctual", "yield"], crate::yielding::usual()), "Yielding the CPU", "alone"),
        (
            crate::ipc::ipc_run(vec![crate::ipc::series("pipe", crate::ipc::PING, 6_000, 1.0)]),
            "Messages between processes",
            "",
        ),
    ] {
        let document = Document::illustrated(&run);
        assert!(document.chapters.iter().any(|known| known.title == chapter), "{chapter}");
        let titles: Vec<String> =
            albums(&run).iter().flat_map(|album| &album.pictures).map(|(_, picture)| picture.title.clone()).collect();
        assert!(titles.iter().any(|known| known.contains(title)), "{titles:?}");
        for key in ["ping-pong", "same-cpu", "competitors 0", "size 64"] {
            assert!(titles.iter().all(|known| !known.contains(key)), "{key}: {titles:?}");
        }
    }
}
