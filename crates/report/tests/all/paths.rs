//! Ways of calls through the kernel, side by side.

use crate::common::{lever_run, run};
use crate::forms::{shown, written};
use insta::assert_snapshot;
use punctual_record::{CallPath, PathSource, PathStep, Run};
use punctual_report::export::{html, markdown, text};
use punctual_report::{Document, Style};

fn path(method: &str, source: PathSource, steps: &[(u32, &str, u64)]) -> CallPath {
    let graph = source == PathSource::FunctionGraph;
    let step = |(i, (depth, name, ns)): (u64, &(u32, &str, u64))| PathStep {
        depth: *depth,
        name: (*name).into(),
        at_ns: (!graph).then_some(i * 100),
        took_ns: graph.then_some(*ns),
    };
    CallPath {
        method: method.into(),
        call: format!("{method}();"),
        source,
        took_ns: 1_400,
        steps: (0..).zip(steps).map(step).collect(),
        recorded: 90,
        interrupted: 0,
        cut_off: 0,
    }
}

pub(crate) fn paths() -> Run {
    let mut run = run(&["punctual", "why", "--path", "sched_yield", "usleep0"], Vec::new(), &[]);
    let graph = PathSource::FunctionGraph;
    run.paths = vec![
        path("sched_yield", graph, &[(0, "do_sched_yield", 1_300), (1, "yield_task_fair", 200), (1, "schedule", 900)]),
        CallPath {
            interrupted: 10,
            ..path("usleep0", graph, &[(0, "hrtimer_nanosleep", 40_000), (1, "do_nanosleep", 39_000)])
        },
    ];
    run
}

fn said(run: &Run) -> String {
    shown(run, &Style { width: 1000, ..Style::default() }).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn two_paths_beside_each_other() {
    let screen = text::head(&Document::from_run(&paths()), &Style::default(), 22);
    assert!(screen.lines().count() <= 22 && screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert_snapshot!(shown(&paths(), &Style::default()));
}

#[test]
fn what_was_left_out_is_said_where_it_was() {
    let text = said(&paths());
    assert_eq!(text.matches("with an interrupt in between are left out").count(), 1, "{text}");
    assert!(text.contains("The median of 90 calls; 10 more with an interrupt") && !text.contains("not kept"), "{text}");
    let mut run = paths();
    run.paths[0].cut_off = 7;
    assert!(said(&run).contains("7 further steps are not kept") && said(&run).contains("passes 10 functions"));
    assert!(!said(&lever_run(&["punctual", "wait"])).contains("Through the kernel"));
}

#[test]
fn one_is_not_several() {
    let mut run = paths();
    run.paths.truncate(1);
    run.paths[0].steps.truncate(1);
    run.paths[0].recorded = 1;
    run.paths[0].interrupted = 1;
    let text = said(&run);
    assert!(text.contains("passes 1 function of the kernel.") && !text.contains("1 functions"), "{text}");
    assert!(text.contains("One call; 1 more with an interrupt in between is left out."), "{text}");
    run.paths[0].cut_off = 1;
    assert!(said(&run).contains("1 further step is not kept."), "{}", said(&run));
}

#[test]
fn events_are_not_called_functions() {
    let mut run = paths();
    run.paths = vec![path("sched_yield", PathSource::Events, &[(0, "sys_enter", 0), (1, "sched_switch", 0)])];
    let text = said(&run);
    assert!(
        text.contains("passes 2 events of the kernel") && text.contains("what happened, not the functions"),
        "{text}"
    );
    assert!(!text.contains("function_graph") && !text.contains("functions of the kernel"), "{text}");
}

#[test]
fn long_deep_and_hostile_paths_do_no_harm() {
    let mut run = paths();
    let evil = "\u{1b}[2J<b>@me";
    run.paths[0].method = evil.into();
    run.paths[0].call = evil.into();
    run.paths[0].took_ns = u64::MAX;
    run.paths[0].cut_off = u64::MAX;
    let step = PathStep { depth: u32::MAX, name: evil.into(), at_ns: None, took_ns: None };
    run.paths[0].steps = vec![step; 5_000];
    let text = shown(&run, &Style::default());
    assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("and 4600 more steps"));
    assert!(!written(html::write, &run).split("<script").next().unwrap().contains("<b>"));
    assert!(!written(markdown::write, &run).contains("<b>"));
    assert!(shown(&run, &Style { unicode: false, ..Style::default() }).is_ascii());
}
