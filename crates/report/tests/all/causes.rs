//! Why threads woke up late: each sentence, and data in which it must not appear.

use crate::common::causes::{call, cause, causes, own_run, program_run, redis, sleep, spread};
use crate::common::{lever_run, run};
use crate::forms::{shown, written};
use insta::assert_snapshot;
use punctual_record::merge::Merger;
use punctual_record::{
    CallCauses, Cause, CauseSource, Causes, LatePart, Notice, Program, Run, Unseen, WakePart, Waker, WatchEffect,
};
use punctual_report::document::{Album, Block};
use punctual_report::export::{csv, html, markdown, openmetrics, text};
use punctual_report::{Document, Style, Verdict};

/// The first screen, as a terminal of 80 columns shows it.
fn screen(run: &Run) -> String {
    text::head(&Document::from_run(run), &Style::default(), 22)
}

/// All of the text, its white space squeezed.
fn said(run: &Run) -> String {
    shown(run, &Style { width: 1000, ..Style::default() }).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The answer of `why` to these causes of another program, on the machine of all tests.
fn answer(causes: Causes) -> String {
    let mut run = run(&["punctual", "why", "--pid", "4711"], Vec::new(), &[]);
    run.causes = Some(causes);
    Verdict::from_run(&run).answer.join(" ").replace('\u{a0}', " ")
}

fn watched(program: Program) -> Causes {
    Causes { program: Some(program), watched_ns: 10_000_000_000, ..Causes::default() }
}

#[test]
fn own_waits() {
    let text = screen(&own_run());
    assert!(text.lines().count() <= 22 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_snapshot!(text);
}

#[test]
fn another_program() {
    let text = screen(&program_run());
    assert!(text.lines().count() <= 22 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_snapshot!(text);
}

#[test]
fn another_program_in_full() {
    assert_snapshot!(shown(&program_run(), &Style { width: 110, ..Style::default() }));
}

#[test]
fn the_largest_screen_fits_a_terminal() {
    let many = |n: u64| {
        let causes = (0..20).map(|i| {
            let culprit = format!("a-worker-with-a-long-name/{n}:{i}-and-its-queue");
            cause(LatePart::RunQueue, Cause::OtherThread, Some(&culprit), 9_999 + i)
        });
        CallCauses {
            nominal_ns: Some(999_999 + n),
            ..call("a-thread-with-a-name", "clock_nanosleep", causes.collect())
        }
    };
    let mut run = own_run();
    let unseen = Unseen {
        what: "softirqs: the kernel has no such event here".into(),
        remedy: Some("CAP_PERFMON".into()),
        ..Unseen::default()
    };
    run.causes =
        Some(Causes { missing: vec![unseen; 4], split: 1, lost_events: 99_999, ..causes((0..9).map(many).collect()) });
    run.notices.push(Notice::BusyMachine { share: 0.9 });
    let text = screen(&run);
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn the_answer_is_made_of_totals() {
    // The median of the lateness and of its parts do not add up; totals do.
    let mut skewed = call(
        "redis-server",
        "epoll_wait",
        vec![
            cause(LatePart::RunQueue, Cause::OtherThread, Some("cc1"), 30_000),
            cause(LatePart::Return, Cause::ReturnPath, None, 2_000),
        ],
    );
    skewed.late.p50_ns = 900;
    let said = answer(Causes { program: Some(redis()), ..causes(vec![skewed]) });
    assert_eq!(
        said,
        "redis-server returns from epoll_wait 32.0 µs late on average (p99 64.0 µs); 30.0 µs of it passes while cc1 runs."
    );
}

#[test]
fn calls_that_return_at_once_are_shown_where_no_other_is() {
    let at_once =
        CallCauses { calls: 9, at_once: 9, blocked: 0, late: spread(0, 0), ..call("punctual", "ioctl", vec![]) };
    let mut run = own_run();
    run.causes.as_mut().unwrap().calls.insert(0, at_once.clone());
    assert!(!screen(&run).contains("ioctl") && said(&run).contains("ioctl"), "{}", screen(&run));
    run.causes = Some(causes(vec![at_once]));
    assert!(screen(&run).contains("ioctl"), "{}", screen(&run));
}

#[test]
fn short_parts_of_a_late_wake_up_are_one_row() {
    let mut run = program_run();
    let parts = &mut run.causes.as_mut().unwrap().worst[0].parts;
    parts.extend([parts[2].clone(), parts[2].clone()].map(|part| WakePart { ns: 100, ..part }));
    let short = said(&run);
    assert!(short.contains("2 shorter parts 200 ns"), "{short}");
    assert!(!said(&program_run()).contains("shorter part"));
}

#[test]
fn several_culprits_are_one_cause() {
    let ran = |who: &str, ns| cause(LatePart::RunQueue, Cause::OtherThread, Some(who), ns);
    let slack = cause(LatePart::TimerSet, Cause::TimerSlack, None, 25_000);
    let several = vec![slack.clone(), ran("cc1", 20_000), ran("ld", 10_000)];
    let answer_to =
        |causes| answer(Causes { program: Some(redis()), ..self::causes(vec![call("redis-server", "poll", causes)]) });
    assert!(answer_to(several).ends_with("30.0 µs of it passes while other threads run (cc1 most)."));
    let one = answer_to(vec![slack, ran("cc1", 20_000)]);
    assert!(one.ends_with("25.0 µs of it is timer slack.") && !one.contains("cc1"), "{one}");
}

#[test]
fn what_is_on_time_is_not_late() {
    let call = CallCauses { late: spread(1000, 0), causes: Vec::new(), ..call("redis-server", "poll", Vec::new()) };
    let said = answer(Causes { program: Some(redis()), ..causes(vec![call]) });
    assert_eq!(said, "redis-server returns from poll on time.");
}

#[test]
fn never_blocking_is_told_from_sleeping_throughout_and_from_blindness() {
    let never = "redis-server never gives up the CPU: it blocked in no call for 10.0 s.";
    let busy = Program { cpu_ns: Some(9_900_000_000), ..redis() };
    assert_eq!(answer(watched(busy.clone())), never);
    // Ready all the time, though others ran half of it.
    let waiting = Program { cpu_ns: Some(5_000_000_000), run_delay_ns: Some(4_900_000_000), ..redis() };
    assert_eq!(answer(watched(waiting)), never);
    let asleep = Program { cpu_ns: Some(0), run_delay_ns: Some(0), ..redis() };
    assert_eq!(
        answer(watched(asleep)),
        "No blocking call of redis-server ended in 10.0 s; each thread ran for 0 % of that."
    );
    // One thread of two runs throughout: the other sleeps.
    let half = Program { threads: 2, ..busy.clone() };
    assert!(!answer(watched(half)).contains("never gives up"));
    assert!(!answer(watched(Program { cpu_ns: None, ..busy.clone() })).contains("never gives up"));
    let lost = Causes { lost_events: 5, ..watched(busy.clone()) };
    assert_eq!(answer(lost), "No wake-up of redis-server was seen: the kernel dropped 5 events.");
    let unsplit = Causes { wake_ups: 7, ..watched(busy) };
    assert_eq!(answer(unsplit), "None of the 7 wake-ups of redis-server could be split.");
}

/// A thread of a program that another one keeps waiting.
fn kept_waiting(change: impl FnOnce(&mut Waker)) -> String {
    let mut futex = call("python3", "futex", vec![cause(LatePart::RunQueue, Cause::ContextSwitch, None, 9_000)]);
    let mut waker = Waker {
        name: "python3".into(),
        tid: Some(4712),
        call: Some("futex".into()),
        count: 300,
        waited: Some(spread(300, 5_000_000)),
        own_delay: Some(spread(300, 10_000)),
        worked: Some(spread(300, 4_900_000)),
        ..Waker::default()
    };
    change(&mut waker);
    futex.wakers = vec![waker];
    answer(Causes { program: Some(Program { name: "python3".into(), ..redis() }), ..causes(vec![futex]) })
}

#[test]
fn a_thread_that_holds_a_lock_is_named() {
    let said = kept_waiting(|_| ());
    let both = "python3 waits 1.50 s in all (300 times, p99 10.0 ms) for another thread of the program: python3 (4712). \
                It holds a lock or has yet to signal (futex): meanwhile it runs for 1.47 s and waits 3.00 ms for a CPU.";
    assert!(said.contains(both), "{said}");
    assert!(kept_waiting(|waker| waker.tid = None).contains("thread of the program: python3. It holds"));
    // Late wake-ups come first.
    assert!(said.starts_with("python3 returns from futex 9.00 µs late on average"), "{said}");
}

#[test]
fn a_thread_that_waits_for_work_is_kept_by_nobody() {
    let silent = |change: fn(&mut Waker)| {
        let said = kept_waiting(change);
        assert!(!said.contains("another thread") && !said.contains("lock"), "{said}");
    };
    // The waker slept most of the time: it had no work either.
    silent(|waker| waker.worked = Some(spread(300, 50_000)));
    silent(|waker| waker.waited = Some(spread(300, 20_000)));
    silent(|waker| waker.waited = Some(spread(9, 5_000_000_000)));
    silent(|waker| waker.waited = None);
    // A thread of another program.
    silent(|waker| waker.call = None);
    silent(|waker| waker.call = Some("write".into()));
}

#[test]
fn few_split_wake_ups_are_said() {
    let slack = || vec![call("redis-server", "poll", vec![cause(LatePart::TimerSet, Cause::TimerSlack, None, 50_000)])];
    let answer_to = |split| answer(Causes { program: Some(redis()), split, ..causes(slack()) });
    assert!(answer_to(400).ends_with("Only 400 of 1000 wake-ups could be split."));
    assert!(!answer_to(990).contains("Only"));
}

#[test]
fn the_run_delay_alone_names_no_cause() {
    let only = |program| Causes { source: CauseSource::RunDelay, ..watched(program) };
    let answer_to = |delay| answer(only(Program { run_delay_ns: delay, ..redis() }));
    assert_eq!(
        answer_to(Some(40_000_000)),
        "redis-server waits for a CPU for 40.0 ms in 10.0 s (0.4 %). Other causes were not watched."
    );
    assert_eq!(answer_to(Some(0)), "redis-server never waits for a CPU in 10.0 s. Other causes were not watched.");
    assert_eq!(answer_to(None), "How long redis-server waits for a CPU is not known.");
    let unknown = Causes { watched_ns: 0, ..only(redis()) };
    assert_eq!(answer(unknown), "redis-server waits for a CPU for 40.0 ms. Other causes were not watched.");
    let mut run = program_run();
    let missing = vec![Unseen {
        what: "tracepoints: permission denied".into(),
        remedy: Some("CAP_PERFMON".into()),
        ..Unseen::default()
    }];
    run.causes = Some(Causes { missing, ..only(redis()) });
    let text = said(&run);
    assert!(text.contains("Not seen: tracepoints: permission denied. Remedy: CAP_PERFMON."), "{text}");
    assert!(!text.contains("late on average") && !text.contains("wake-ups are split"), "{text}");
}

#[test]
fn what_watching_adds_is_claimed_from_its_interval() {
    let shown_with = |effect| {
        let mut run = own_run();
        run.causes.as_mut().unwrap().effect = effect;
        said(&run)
    };
    let measured = WatchEffect { p50_ns: 1_800.0, low_ns: 1_200.0, high_ns: 2_300.0, pairs: 40 };
    assert!(shown_with(Some(measured)).contains("Watching adds 1.80 µs to p50 (95 %: 1.20 µs to 2.30 µs, 40 pairs"));
    let none = shown_with(Some(WatchEffect { low_ns: -200.0, ..measured }));
    assert!(none.contains("Watching adds nothing that 40 pairs of batches show: at most 2.30 µs"), "{none}");
    assert!(!none.contains("adds 1.80"), "{none}");
    assert!(shown_with(None).contains("What watching adds was not measured."));
}

#[test]
fn another_command_answers_its_own_question_first() {
    let mut waits = lever_run(&["punctual", "wait"]);
    let before = Verdict::from_run(&waits).answer;
    waits.causes = Some(causes(vec![sleep(100_000)]));
    let after = Verdict::from_run(&waits).answer;
    assert_eq!((before.len() + 1, &before[0]), (after.len(), &after[0]));
    assert!(after[1].contains("of it is timer slack"), "{after:?}");
    let text = said(&waits);
    assert!(text.find("Why late: clock_nanosleep, 100 µs") > text.find("clock_nanosleep_abs"), "after the tables");
    assert!(!said(&lever_run(&["punctual", "wait"])).contains("Why late"));
}

#[test]
fn remedies_claim_no_gain() {
    for run in [own_run(), program_run()] {
        let text = said(&run);
        let section = text.split_once("Remedies by cause").expect("the section is there").1;
        assert!(section.contains("Its gain was not measured in this run."), "{section}");
    }
    let text = said(&own_run());
    assert!(text.contains("prctl(PR_SET_TIMERSLACK, 1UL);") && !text.contains("mlockall"), "{text}");
}

#[test]
fn causes_of_merged_runs_are_absent() {
    let later = Run { started: "2027-01-01T00:00:00Z".parse().unwrap(), ..own_run() };
    let mut merger = Merger::new(own_run()).unwrap();
    merger.add(later).unwrap();
    let merged = merger.finish(own_run().tool, own_run().command).unwrap();
    assert_eq!(merged.causes, None);
    let notices = crate::forms::notices(&merged, &Style::default());
    assert!(notices.contains("causes of wake-ups are not merged"), "{notices}");
    let plain = lever_run(&["punctual", "wait"]);
    let other = Run { started: "2027-01-01T00:00:00Z".parse().unwrap(), ..plain.clone() };
    let mut merger = Merger::new(plain.clone()).unwrap();
    merger.add(other).unwrap();
    let merged = merger.finish(plain.tool, plain.command).unwrap();
    assert!(merged.notices.is_empty(), "nothing is missing where nothing was recorded");
}

#[test]
fn causes_are_rows_and_metrics() {
    let csv = written(csv::write, &program_run());
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("thread,call,wake_ups,part,cause,culprit,count,total_ns,p50_ns,p99_ns,max_ns"));
    let first = "bio_lazy_free,futex,1000,run_queue,context_switch,,1000,5000000,5000,10000,20000";
    assert_eq!((lines.next(), lines.count()), (Some(first), 4));
    assert!(written(csv::write, &own_run()).starts_with("experiment,"), "series come first");
    let metrics = written(openmetrics::write, &program_run());
    for line in [
        "punctual_cause_seconds{thread=\"redis-server\",call=\"epoll_wait\",part=\"run_queue\",cause=\"other_thread\",culprit=\"cc1\"} 4e-6",
        "punctual_call_late_seconds{thread=\"redis-server\",call=\"epoll_wait\",statistic=\"mean\"} 3.1e-5",
        "punctual_wake_ups_split 1998.0",
        "punctual_events_lost 12.0",
    ] {
        assert!(metrics.contains(line), "{line} is missing from {metrics}");
    }
    assert!(!written(openmetrics::write, &lever_run(&["punctual", "wait"])).contains("punctual_wake_ups"));
}

fn albums(run: &Run) -> Vec<Album> {
    let blocks = Document::illustrated(run)
        .chapters
        .into_iter()
        .flat_map(|chapter| chapter.sections)
        .flat_map(|section| section.blocks);
    blocks.filter_map(|block| if let Block::Album(album) = block { Some(album) } else { None }).collect()
}

#[test]
fn bars_add_up_to_the_lateness() {
    let albums = self::albums(&program_run());
    let bars = &albums[0].pictures[0].1;
    let names: Vec<&str> = bars.y.ticks.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["redis-server, epoll_wait", "bio_lazy_free, futex"]);
    let points = |row: f64| bars.lines.iter().flat_map(|line| &line.points).filter(move |point| point.y == row);
    let spans: Vec<(f64, f64)> = points(0.0).filter_map(|point| point.span).collect();
    assert_eq!((spans[0].0, spans.last().unwrap().1, spans.len()), (0.0, 31_000.0, 4));
    assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "{spans:?}");
    assert_eq!(bars.lines[0].label, "another thread ran", "the most time first");
}

#[test]
fn a_timeline_has_a_row_for_each_cpu() {
    let albums = self::albums(&program_run());
    let tail = &albums[1].pictures[0].1;
    assert_eq!((tail.title.as_str(), tail.y.ticks.len()), ("The worst wake-ups, by cause", 1));
    let picture = &albums[2].pictures[0].1;
    let names: Vec<&str> = picture.y.ticks.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["late", "CPU 1", "CPU 0"], "its own CPU first");
    let labels: Vec<&str> = picture.lines.iter().map(|line| line.label.as_str()).collect();
    assert_eq!(labels, ["the lateness", "the thread itself", "another thread", "idle", "interrupt", "softirq"]);
    assert_eq!((picture.x.low, picture.x.high), (-20_000.0, 812_000.0));
    let page = written(html::write, &program_run());
    assert!(page.contains("class=\"bar\"") && page.contains("kworker/1:2"));
    let mut quiet = program_run();
    quiet.causes.as_mut().unwrap().worst.clear();
    assert_eq!(self::albums(&quiet).len(), 1);
}

#[test]
fn a_waker_of_lower_priority_inherits_or_does_not() {
    let mut run = program_run();
    let text = shown(&run, &Style::default());
    assert!(!text.contains("inherited") && !text.contains("inverted"), "{text}");
    let causes = run.causes.as_mut().unwrap();
    let waker = causes.calls.iter_mut().find_map(|call| call.wakers.first_mut()).unwrap();
    (waker.inherited, waker.inverted) = (3, 897);
    causes.worst[0].chain[0].inherited = Some(false);
    let text = shown(&run, &Style::default());
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("inherited inverted") && words.contains("inverted: the waker waited for a CPU"), "{text}");
    let row = text.lines().find(|line| line.trim().starts_with("redis-benchmark (")).unwrap();
    assert!(row.split_whitespace().rev().take(2).eq(["897", "3"]), "{row}");
    assert!(text.contains("(4720, inverted), itself"), "{text}");
    run.causes.as_mut().unwrap().worst[0].chain[0].inherited = Some(true);
    assert!(shown(&run, &Style::default()).contains("(4720, inherited), itself"));
}

#[test]
fn hostile_names_are_obeyed_by_nothing() {
    let evil = "\u{1b}[2J<b>x</b>|`@me`";
    let mut run = program_run();
    let causes = run.causes.as_mut().unwrap();
    causes.program.as_mut().unwrap().name = evil.into();
    causes.missing[0].what = evil.into();
    causes.unsplit[0].why = evil.into();
    for call in &mut causes.calls {
        call.thread = evil.into();
        call.call = evil.into();
        call.causes.iter_mut().for_each(|cause| cause.culprit = Some(evil.into()));
        call.wakers.iter_mut().for_each(|waker| waker.name = evil.into());
    }
    for wake in &mut causes.worst {
        wake.thread = evil.into();
        wake.parts.iter_mut().for_each(|part| part.culprit = Some(evil.into()));
        wake.chain.iter_mut().for_each(|link| link.name = evil.into());
        wake.timeline.iter_mut().for_each(|stretch| stretch.name = evil.into());
    }
    let text = shown(&run, &Style::default());
    assert!(!text.contains('\u{1b}'), "{text}");
    let page = written(html::write, &run);
    assert!(!page.split("<script").next().unwrap().contains("<b>"));
    let markdown = written(markdown::write, &run);
    assert!(!markdown.contains("<b>") && !markdown.contains("@me"), "{markdown}");
}
