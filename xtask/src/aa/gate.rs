//! The gate that measures until it can decide (`punctual wait --until`), cell by cell: an unchanged machine, a changed figure, another slack,
//! a competitor, quiet and beside a compiler. How often does it pass, fail or stay undecided, and after how long?
//!
//! A figure that grew is a baseline with smaller samples: the machine itself cannot be made later by a share.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use punctual_record::statistics::median;

use super::measured::{self, Injection, Load, Measuring, into_run};

/// Options of `aa gate`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("at_most", |most| most.default_value("7200")))]
pub(crate) struct GateArgs {
    /// Gates of each cell and load
    #[arg(long, default_value_t = 40)]
    runs: usize,
    /// The loads under which baseline and gate are measured
    #[arg(long, value_enum, value_delimiter = ',', default_value = "quiet,compiler")]
    loads: Vec<Load>,
    /// Measure only the cells whose names contain one of these words (example: 35,slack)
    #[arg(long, value_delimiter = ',', default_value = "")]
    cells: Vec<String>,
    /// The limit
    #[arg(long, default_value = "p50 +25%")]
    limit: String,
    /// What is measured
    #[arg(long, default_value = "wait clock_nanosleep_abs --for 1ms")]
    command: String,
    /// The time of a baseline
    #[arg(long, default_value = "15s")]
    baseline: String,
    /// The longest time of a gate
    #[arg(long, default_value = "60s")]
    gate_at_most: String,
    /// Measure nothing: print the table of the results that the folder has
    #[arg(long)]
    table: bool,
    #[command(flatten)]
    measuring: Measuring,
}

/// What is different from the baseline.
#[derive(Debug, Clone, Copy)]
struct Cell {
    name: &'static str,
    /// The share by which p50 grew.
    grown: f64,
    /// The timer slack with which the gate is started.
    slack: Option<&'static str>,
    /// Whether a loop runs on every CPU, beside the load.
    competitor: bool,
}

impl Cell {
    const fn grown(name: &'static str, grown: f64) -> Self {
        Self { name, grown, slack: None, competitor: false }
    }
}

const CELLS: [Cell; 5] = [
    Cell::grown("unchanged", 0.0),
    Cell::grown("p50 +15 %", 0.15),
    Cell::grown("p50 +35 %", 0.35),
    Cell { slack: Some("150us"), ..Cell::grown("slack 150 us", 0.0) },
    Cell { competitor: true, ..Cell::grown("competitor", 0.0) },
];

/// A gate to measure.
struct Asked {
    load: Load,
    cell: Cell,
    /// The baseline of its round and load.
    baseline: PathBuf,
}

/// What became of a gate.
#[derive(Debug, Clone, Copy)]
struct Ended {
    status: i32,
    seconds: f64,
}

impl Ended {
    /// As a file of the folder has it.
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let (status, seconds) = text.trim().split_once(' ').with_context(|| path.display().to_string())?;
        Ok(Self { status: status.parse()?, seconds: seconds.parse()? })
    }
}

/// Measures the missing gates, round by round of all cells, and prints the table of those that exist.
pub(crate) fn run(args: &GateArgs) -> anyhow::Result<()> {
    let folder = args.measuring.folder("xtask-aa-gate")?;
    let mut files: Vec<(Asked, PathBuf)> = Vec::new();
    for number in 1..=args.runs {
        for &load in &args.loads {
            let baseline = folder.join(format!("{}-baseline-{number:02}.json", load.name()));
            let asked = |(place, &cell): (usize, &Cell)| {
                (Asked { load, cell, baseline: baseline.clone() }, folder.join(file(load, place, number)))
            };
            let is_wanted = |cell: &Cell| args.cells.iter().any(|word| cell.name.contains(word.as_str()));
            files.extend(CELLS.iter().enumerate().filter(|(_, cell)| is_wanted(cell)).map(asked));
        }
    }
    let measure = |binary: &Path, asked: &Asked, into: &Path| {
        let ended = gate(args, binary, asked, into)?;
        let text = format!("{} {:.1}\n", ended.status, ended.seconds);
        std::fs::write(into, text).with_context(|| into.display().to_string())
    };
    if !args.table && !args.measuring.missing(&files, measure)? {
        println!("some gates are missing: call again");
    }
    table(args, &folder)
}

fn file(load: Load, cell: usize, number: usize) -> String {
    format!("{}-{cell}-{number:02}.txt", load.name())
}

/// A gate against the baseline of its round, under the load of both. The round's first gate measures the baseline.
fn gate(args: &GateArgs, binary: &Path, asked: &Asked, into: &Path) -> anyhow::Result<Ended> {
    let Asked { load, cell, baseline } = asked;
    let running = load.start()?;
    let words: Vec<&str> = args.command.split(' ').collect();
    if !baseline.exists() {
        measured::save(binary, &[&words[..], &["--duration", &args.baseline]].concat(), baseline)?;
    }
    let mut base = baseline.clone();
    if cell.grown > 0.0 {
        let smaller = into_run(&measured::read(baseline)?, None, Injection::All(1.0 / (1.0 + cell.grown) - 1.0))?;
        base = into.with_extension("json");
        let file = File::create(&base).with_context(|| base.display().to_string())?;
        smaller.to_json(file)?;
    }
    let competitor = if cell.competitor { Load::Competitor.start()? } else { None };
    let mut command = Command::new(binary);
    if let Some(slack) = cell.slack {
        command.args(["run", "--timer-slack", slack, "--"]).arg(binary);
    }
    let begin = Instant::now();
    let said = command
        .args(&words)
        .args(["--until", &args.limit, "--at-most", &args.gate_at_most, "--no-keep", "--against"])
        .arg(&base)
        .stderr(Stdio::null())
        .output()
        .with_context(|| binary.display().to_string())?;
    let seconds = begin.elapsed().as_secs_f64();
    drop((running, competitor));
    let status = said.status.code().unwrap_or(-1);
    ensure!([0, 3, 4].contains(&status), "the gate {} ended with {}", into.display(), said.status);
    let first_line = String::from_utf8_lossy(&said.stdout).lines().next().unwrap_or_default().to_owned();
    println!("{}, {}: {first_line} ({seconds:.0} s)", load.name(), cell.name);
    Ok(Ended { status, seconds })
}

fn table(args: &GateArgs, folder: &Path) -> anyhow::Result<()> {
    println!("\n| cell | load | gates | PASS | FAIL | UNDECIDED | seconds, median | longest |");
    println!("|:--|:--|--:|--:|--:|--:|--:|--:|");
    for (place, cell) in CELLS.iter().enumerate() {
        for load in &args.loads {
            let files = (1..=args.runs).map(|number| folder.join(file(*load, place, number)));
            let kept = files.filter(|path| path.exists());
            let all: Vec<Ended> = kept.map(|path| Ended::read(&path)).collect::<anyhow::Result<_>>()?;
            let count = |status: i32| all.iter().filter(|ended| ended.status == status).count();
            let seconds: Vec<f64> = all.iter().map(|ended| ended.seconds).collect();
            let longest = seconds.iter().copied().reduce(f64::max);
            let [middle, longest] =
                [median(&seconds), longest].map(|time| time.map_or("–".to_owned(), |s| format!("{s:.0}")));
            let (name, load) = (cell.name, load.name());
            println!(
                "| {name} | {load} | {} | {} | {} | {} | {middle} | {longest} |",
                all.len(),
                count(0),
                count(3),
                count(4)
            );
        }
    }
    Ok(())
}
