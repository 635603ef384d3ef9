//! Lateness and CPU time of the library's sleeper, compared with spin_sleep, std and tokio.
//!
//! All are interleaved: in each round every one waits for every duration. The places: alone, beside a busy neighbour, under SCHED_OTHER and
//! SCHED_FIFO, and with the CPUs kept out of idle states. Lateness is the time after the wait minus the deadline; CPU time is that of the
//! thread's clock. The hybrid's wake-ups are recorded for the *oracle*, which knows them in advance. It is the fixed margin that spins
//! least for no more late waits.

mod claims;
mod figures;
mod oracle;
mod peers;
mod place;
mod plot;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::ValueEnum as _;
use punctual::Conditions;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{DisturbanceProbe, OwnUsage};

use self::claims::Claims;
use self::figures::{ASKED_NS, Figures, Tally, TurnFigures, us};
use self::peers::{PEERS, Peer};
pub(crate) use self::place::Place;
use super::percentile::{median, percentile};

/// Length of a turn: some hundred waits of up to a millisecond, enough for a 99th percentile. It has twenty of the longest waits.
const TURN: Duration = Duration::from_millis(40);
const LONG_TURN: Duration = Duration::from_millis(200);
/// Pause between turns. A busy real-time thread leaves its CPU for at least a tenth of the time (RT throttling takes 5 %).
const BREAK: Duration = Duration::from_millis(8);
/// Waits for learning before the first turn.
const WARM_UP: u32 = 50;
/// Measures all peers interleaved, prints the tables and writes the plot.
pub(crate) fn run(places: &[Place], rounds: u32, svg: Option<&PathBuf>) -> anyhow::Result<()> {
    let places = if places.is_empty() { Place::value_variants() } else { places };
    let mut figures = Vec::new();
    for &place in places {
        eprintln!("{}", place.name());
        let probe = DisturbanceProbe::start(Path::new("/"));
        let (here, claims) = measure_place(place, rounds)?;
        figures.extend(here);
        // Printed at once, so that an interruption loses no result.
        print_table(place, &figures);
        let steal = probe.finish(OwnUsage::default()).steal_share;
        let steal = steal.map_or("an unknown share".into(), |share| format!("{:.1} %", share * 100.0));
        println!("\nThe hypervisor took {steal} of the CPUs' time.\n\n{claims}");
    }
    if let Some(path) = svg {
        let first: Vec<&Figures> = figures.iter().filter(|f| f.place == places[0]).collect();
        plot::write(path, &first).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Measures in one place, on a separate thread.
fn measure_place(place: Place, rounds: u32) -> anyhow::Result<(Vec<Figures>, Claims)> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if place.has_neighbour() {
            scope.spawn(|| {
                // Bound to one CPU, so that it stays a neighbour.
                let cpus = punctual_linux::affinity::affinity(0).unwrap_or_default();
                let last = cpus.last().copied().unwrap_or(0);
                let guard = Conditions::new().cpu(last).apply();
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                drop(guard);
            });
        }
        let measured = scope.spawn(|| {
            let guard = place.conditions().apply();
            ensure!(guard.refused().is_empty(), "{:?}", guard.refused());
            measure(place, rounds)
        });
        let measured = measured.join();
        done.store(true, Ordering::Relaxed);
        measured.map_err(|_| anyhow::anyhow!("the measuring thread panicked"))?
    })
}

fn measure(place: Place, rounds: u32) -> anyhow::Result<(Vec<Figures>, Claims)> {
    let mut claims = Claims::default();
    let mut tallies = vec![vec![Tally::default(); ASKED_NS.len()]; PEERS.len()];
    // One peer per duration, so that it learns only that duration.
    let mut peers: Vec<Vec<Box<dyn Peer>>> = Vec::new();
    for (_, open) in PEERS {
        peers.push(ASKED_NS.iter().map(|_| open()).collect::<anyhow::Result<_>>()?);
    }
    for (n, asked) in ASKED_NS.iter().enumerate() {
        for peer in &mut peers {
            let count = if *asked > 1_000_000 { WARM_UP / 5 } else { WARM_UP };
            for _ in 0..count {
                peer[n].wait(*asked);
            }
            peer[n].restore_timer_slack();
            std::thread::sleep(BREAK / 4);
        }
    }
    for round in 0..rounds as usize {
        for (n, &asked) in ASKED_NS.iter().enumerate() {
            let mut turns = [TurnFigures::default(); PEERS.len()];
            for turn in 0..PEERS.len() {
                // Each round begins with another peer, so that none always follows the same one.
                let who = (turn + round) % PEERS.len();
                turns[who] = take_turn(peers[who][n].as_mut(), asked, &mut tallies[who][n]);
                std::thread::sleep(BREAK);
            }
            claims.take(asked, &turns);
        }
    }
    let mut figures = Vec::new();
    for (n, &asked) in ASKED_NS.iter().enumerate() {
        for (who, (name, _)) in PEERS.iter().enumerate() {
            figures.push(Figures::of(name, asked, place, &mut tallies[who][n]));
        }
    }
    Ok((figures, claims))
}

fn take_turn(peer: &mut dyn Peer, asked: i64, tally: &mut Tally) -> TurnFigures {
    let turn = if asked >= 1_000_000 { LONG_TURN } else { TURN };
    let (before, before_by_itself) = (tally.lateness.len(), tally.by_itself.len());
    let waits = (turn.as_nanos() as i64 / asked).max(1);
    // Reserve first, so that nothing is allocated between waits.
    tally.lateness.reserve(waits as usize);
    tally.by_itself.reserve(waits as usize);
    tally.wake_ups.reserve(waits as usize);
    // The first wait after a break has cold caches: it is not counted.
    peer.wait(asked);
    let (begin, cpu) = (now_ns(Clock::Monotonic), now_ns(Clock::ThreadCpu));
    for _ in 0..waits {
        let from = now_ns(Clock::Monotonic);
        let said = peer.wait(asked);
        let woke = now_ns(Clock::Monotonic);
        tally.lateness.push((woke - from - asked) as f64);
        tally.by_itself.extend(said.lateness_ns.map(|ns| ns as f64));
        tally.wake_ups.extend(said.wake_up);
    }
    let (cpu_ns, elapsed_ns) = (now_ns(Clock::ThreadCpu) - cpu, now_ns(Clock::Monotonic) - begin);
    tally.cpu_ns += cpu_ns;
    tally.elapsed_ns += elapsed_ns;
    peer.restore_timer_slack();
    let mut lateness = tally.lateness[before..].to_vec();
    lateness.sort_by(f64::total_cmp);
    TurnFigures {
        p50: percentile(&lateness, 0.5),
        p50_by_itself: median(&mut tally.by_itself[before_by_itself..].to_vec()),
        p99: percentile(&lateness, 0.99),
        cpu_share: cpu_ns as f64 / elapsed_ns.max(1) as f64,
    }
}

fn print_table(place: Place, figures: &[Figures]) {
    println!("\n## {}\n", place.name());
    println!("| wait | | n | p50 µs | p99 µs | p99.9 µs | later than 1 µs | CPU | oracle's CPU |");
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|");
    for f in figures.iter().filter(|f| f.place == place) {
        let asked = if f.asked_ns >= 1_000_000 {
            format!("{} ms", f.asked_ns / 1_000_000)
        } else {
            format!("{} µs", f.asked_ns / 1_000)
        };
        let oracle = f
            .oracle_share
            .map_or(String::new(), |share| format!("{:.1} % ({:.2})", share * 100.0, f.cpu_share / share));
        println!(
            "| {asked} | {} | {} | {} | {} | {} | {:.2} % | {:.1} % | {oracle} |",
            f.peer,
            f.waits,
            us(f.p50),
            us(f.p99),
            f.p999.map_or("–".into(), us),
            f.late * 100.0,
            f.cpu_share * 100.0,
        );
    }
}
