//! Check-ups of the unchanged machine, every other one beside a compiler. Does their advice contradict itself, and do the busy ones say so
//! first?

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use punctual_record::Run;
use punctual_report::Verdict;
use punctual_report::evidence::{Effect, Outcome};

use super::measured::{self, Measuring};
use crate::tools;

/// Options of `aa checkup`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckupArgs {
    /// Check-ups; every other one beside a compiler
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// Five seconds each instead of less than half a minute
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    measuring: Measuring,
}

/// How the first line of a busy machine's check-up begins.
const BUSY: &str = "Busy machine";

/// A check-up and the first line that it printed.
struct Checkup {
    name: String,
    run: Run,
    first_line: String,
    beside_a_compiler: bool,
}

/// Measures the missing check-ups and prints both counts.
pub(crate) fn run(args: &CheckupArgs) -> anyhow::Result<()> {
    let folder = args.measuring.folder("checkup")?;
    let name = |number: usize| format!("{}-{number:02}.json", if number.is_multiple_of(2) { "busy" } else { "quiet" });
    let files: Vec<PathBuf> = (1..=args.runs).map(|number| folder.join(name(number))).collect();
    let words: &[&str] = if args.quick { &["checkup", "--quick"] } else { &["checkup"] };
    if !args.measuring.missing(&files, |binary, path| measure(binary, words, path))? {
        println!("some check-ups are missing: call again");
        return Ok(());
    }
    let all: Vec<Checkup> = files.iter().map(|path| checkup(path)).collect::<anyhow::Result<_>>()?;
    let contradicted = contradictions(&all);
    let (busy, quiet): (Vec<&Checkup>, Vec<&Checkup>) = all.iter().partition(|checkup| checkup.beside_a_compiler);
    let says_busy = |its: &&&Checkup| its.first_line.trim_start().starts_with(BUSY);
    let silent: Vec<&str> =
        busy.iter().filter(|checkup| !says_busy(checkup)).map(|checkup| checkup.name.as_str()).collect();
    let loud = quiet.iter().filter(says_busy).count();
    println!("| check-ups | count |\n|:--|--:|");
    println!("| all | {} |", all.len());
    println!("| effects that contradict an advice | {} |", contradicted.len());
    println!("| beside a compiler | {} |", busy.len());
    println!("| beside a compiler, and the first line does not say so | {} |", silent.len());
    println!("| alone, and the first line says busy | {loud} |");
    for line in &contradicted {
        println!("\n- {line}");
    }
    for name in &silent {
        println!("\n- {name} does not say that the machine was busy");
    }
    ensure!(contradicted.is_empty() && silent.is_empty(), "advice contradicts itself, or a busy run does not say so");
    Ok(())
}

/// One check-up into a file, and its screen beside it.
fn measure(binary: &Path, words: &[&str], into: &Path) -> anyhow::Result<()> {
    let compiler = beside_a_compiler(into).then(Compiler::start).transpose()?;
    let printed = measured::printed(binary, words, into)?;
    drop(compiler);
    std::fs::write(into.with_extension("txt"), printed).with_context(|| into.display().to_string())
}

fn beside_a_compiler(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("busy"))
}

fn checkup(path: &Path) -> anyhow::Result<Checkup> {
    let text = path.with_extension("txt");
    let printed = std::fs::read_to_string(&text).with_context(|| text.display().to_string())?;
    let first_line = printed.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Checkup { name, run: measured::read(path)?, first_line, beside_a_compiler: beside_a_compiler(path) })
}

/// The effects of one remedy on one figure over all check-ups.
#[derive(Default)]
struct Effects<'a> {
    /// Where the remedy is advised and this figure gains.
    advised: Vec<&'a str>,
    worse: Vec<&'a str>,
}

/// Remedies that one check-up advises for a figure that another shows to be worse, in a sentence each.
fn contradictions(all: &[Checkup]) -> Vec<String> {
    let mut effects: BTreeMap<String, Effects<'_>> = BTreeMap::new();
    for its in all {
        let verdict = Verdict::of(&its.run);
        let advised = verdict.advice.iter().map(|advice| (advice, true));
        for (advice, is_advised) in advised.chain(verdict.tried.iter().map(|advice| (advice, false))) {
            for case in &advice.cases {
                for (figure, effect) in [("p50", &case.p50), ("p99", &case.p99)] {
                    let key = format!("{} {:?}, {}, {} {figure}", advice.experiment, advice.goal, advice.id, case.case);
                    enter(effects.entry(key).or_default(), effect, is_advised, &its.name);
                }
            }
        }
    }
    let contradicted = |(key, its): (String, Effects<'_>)| {
        (!its.advised.is_empty() && !its.worse.is_empty())
            .then(|| format!("{key}: advised by {}; worse in {}", its.advised.join(", "), its.worse.join(", ")))
    };
    effects.into_iter().filter_map(contradicted).collect()
}

fn enter<'a>(effects: &mut Effects<'a>, effect: &Effect, is_advised: bool, name: &'a str) {
    match effect.outcome {
        Outcome::Better if is_advised => effects.advised.push(name),
        Outcome::Worse => effects.worse.push(name),
        _ => {}
    }
}

/// A compiler on every CPU, until it is dropped.
struct Compiler(Child);

impl Compiler {
    fn start() -> anyhow::Result<Self> {
        let sources = tools::root().join("peers/c");
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let script = "for cpu in $(seq $1); do (while :; do for f in \"$2\"/*.c; do cc -O2 -c \"$f\" -o /dev/null; done; done) & done; wait";
        let child = Command::new("sh")
            .args(["-c", script, "compiler", &cpus.to_string()])
            .arg(sources)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("starting a compiler")?;
        // Its first files are read before the check-up begins.
        std::thread::sleep(std::time::Duration::from_secs(1));
        Ok(Self(child))
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // The group: its shells and compilers. Should kill be missing, they go on, so say it.
        let group = format!("-{}", self.0.id());
        let killed = Command::new("kill").args(["-KILL", "--", &group]).status();
        if !killed.is_ok_and(|status| status.success()) {
            eprintln!("the compiler goes on: kill -KILL -- {group}");
        }
        drop(self.0.wait());
    }
}
