//! The record of a cell, on made-up results.

use std::time::Duration;

use punctual_record::experiment::ipc::{self, Mode as Kind, Placement, Receive};
use punctual_record::{Quantity, Usage};

use crate::families::ipc::message::Integrity;
use crate::frame::figures::Sum;
use crate::frame::tests::made_up_report;
use crate::frame::{Amount, Request as Frame};

use super::super::Extra;
use super::super::mechanism_named;
use super::super::plan::{Plan, Request};
use super::*;
use crate::families::ipc::plan;

fn plan(modes: Vec<Mode>) -> Plan {
    let request = Request {
        mechanisms: vec![mechanism_named("pipe").unwrap()],
        sizes: vec![64],
        modes,
        places: plan::Places::Same,
        cpus: vec![0],
        topology: plan::Topology::default(),
        receive: vec![Receive::Backoff],
        sender_policies: Vec::new(),
        receiver_policies: Vec::new(),
        depth: Some(7),
        verify: None,
        blocks: None,
        frame: Frame::as_found(Amount::Time(Duration::from_secs(1)), 3),
    };
    Plan::new(request).unwrap()
}

fn extra(integrity: Integrity) -> Extra {
    let mut extra = Extra { messages: 4, delivered: 3, late: 2, integrity, ..Extra::default() };
    let used = |elapsed_ns, cpu_ns| Usage { elapsed_ns, cpu_ns: Some(cpu_ns), ..Usage::default() };
    extra.own = Sum::default();
    extra.own.add(used(1_000_000_000, 8));
    extra.peer.add(used(1_000_000_000, 20));
    extra
}

#[test]
fn a_series_says_how_messages_were_sent_and_how_they_arrived() {
    let plan = plan(vec![Mode::Rate { per_second: 1_000.0 }, Mode::PingPong]);
    let whole = [extra(Integrity::default()), extra(Integrity::default())];
    let report = made_up_report(&plan, 0, &[5], &whole);
    let typed = report.series[0].experiment.ipc().unwrap();
    let asked = &typed.parameters;
    assert_eq!((asked.size, asked.mode, asked.place), (64, Kind::Rate, Placement::SameCpu));
    assert_eq!((asked.receive, asked.interval_ns, asked.depth), (Receive::Backoff, Some(1_000_000), Some(7)));
    assert_eq!((asked.sender_cpu, asked.receiver_cpu), (Some(0), Some(0)));
    let metrics = &typed.metrics;
    assert_eq!((metrics.per_second, metrics.peer_cpu_ns), (Some(3.0), Some(5.0)));
    assert_eq!((metrics.late_sends, metrics.verified, metrics.lost), (Some(2), Some(true), Some(0)));
    assert_eq!((report.series[0].quantity, report.wrong), (Quantity::OneWay, None));
    let there_and_back = made_up_report(&plan, 1, &[5], &whole);
    assert_eq!(there_and_back.series[0].quantity, Quantity::RoundTrip);
    let typed = there_and_back.series[0].experiment.ipc().unwrap();
    assert_eq!((typed.parameters.interval_ns, typed.metrics.late_sends), (None, None));
}

#[test]
fn blocks_are_kept_with_their_length() {
    let block = ipc::Block { min_ns: 1, mean_ns: 3.0, max_ns: 5 };
    let mut plan = plan(vec![Mode::Saturated, Mode::PingPong]);
    plan.asked.blocks = Some(2);
    let metrics = |cell, blocks: &[ipc::Block]| {
        let extra = Extra { blocks: blocks.to_vec(), ..extra(Integrity::default()) };
        let report = made_up_report(&plan, cell, &[5], &[extra.clone(), extra]);
        report.series[0].experiment.ipc().unwrap().metrics.clone()
    };
    let saturated = metrics(0, &[block]);
    assert_eq!((saturated.block_messages, saturated.blocks), (Some(2), Some(vec![block])));
    let round_trips = metrics(1, &[]);
    assert_eq!((round_trips.block_messages, round_trips.blocks), (None, None));
}

#[test]
fn a_broken_promise_is_told_beside_the_figures() {
    let plan = plan(vec![Mode::Saturated]);
    let report = made_up_report(&plan, 0, &[5], &[extra(Integrity { lost: 1, ..Integrity::default() })]);
    let wrong = report.wrong.unwrap();
    assert!(wrong.starts_with("pipe, 64 bytes, saturated: of 4 messages 1 were lost"), "{wrong}");
    assert_eq!(report.series.len(), 1);
}
