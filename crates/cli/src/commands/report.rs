//! `punctual report`.

use std::collections::BTreeSet;
use std::path::Path;

use punctual_record::plain::{self, NAME};
use punctual_record::{Distribution, Run};
use punctual_report::{csv, hgrm, html, markdown, notices_text, openmetrics, text};

use crate::args::{ReportArgs, meant};
use crate::exit::{BadUsage, Exit, with_causes};
use crate::input;
use crate::output::{Output, Outputs, Target};
use crate::terminal;

/// Writes the run in the form that was asked for.
pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let read = || {
        let mut run = input::read_run(&args.run)?;
        only(&mut run, &args.only)?;
        anyhow::Ok(run)
    };
    if let Some(folder) = folder(args) {
        return distributions(&read()?, folder);
    }
    let outputs = Outputs::open([("--output", &args.output)], std::slice::from_ref(&args.run))?;
    let takes_stdout = outputs.takes_stdout();
    let output = outputs.into_only()?;
    let run = read()?;
    let form = &args.form;
    if form.json {
        output.write(|out| Ok(run.to_json(out)?))?;
    } else if form.csv {
        output.write(|out| Ok(csv::write(&run, out)?))?;
    } else if form.openmetrics {
        output.write(|out| Ok(openmetrics::write(&run, out)?))?;
    } else if form.hgrm {
        let distribution = only_distribution(&run)?;
        output.write(|out| Ok(hgrm::write(&distribution, out)?))?;
    } else if form.html {
        readable(&run)?;
        output.write(|out| Ok(html::write(&run, out)?))?;
    } else if form.markdown {
        readable(&run)?;
        output.write(|out| Ok(markdown::write(&run, out)?))?;
    } else {
        readable(&run)?;
        let style = if takes_stdout { terminal::style(args.color) } else { terminal::style_for_file(args.color) };
        output.write(|out| {
            out.extend(text::render(&run, &style).as_bytes());
            Ok(())
        })?;
        if !args.quiet {
            terminal::say(&notices_text(&run, &terminal::style_for_notices(args.color)));
        }
    }
    Ok(Exit::Done)
}

/// The folder that distributions go to.
fn folder(args: &ReportArgs) -> Option<&Path> {
    match &args.output {
        Target::File(path) if args.form.hgrm && path.is_dir() => Some(path),
        _ => None,
    }
}

/// Keeps the series of these subjects; all where none is named.
fn only(run: &mut Run, subjects: &[String]) -> Result<(), BadUsage> {
    for subject in subjects {
        if !run.series.iter().any(|series| series.subject == *subject) {
            let mut there: Vec<&str> = run.series.iter().map(|series| series.subject.as_str()).collect();
            there.sort_unstable();
            there.dedup();
            let near = meant(subject, there.iter().map(|name| plain::line(name, NAME)).collect());
            let hint = match (there.as_slice(), near.as_slice()) {
                ([], _) => "it has no series".to_owned(),
                (_, []) => "see `punctual report RUN` for its names".to_owned(),
                (_, near) => format!("similar: {}", near.join(", ")),
            };
            return Err(BadUsage(format!("--only {subject}: the run has no such subject; {hint}")));
        }
    }
    if !subjects.is_empty() {
        run.series.retain(|series| subjects.contains(&series.subject));
    }
    Ok(())
}

/// Refuses what nobody could read.
fn readable(run: &Run) -> Result<(), BadUsage> {
    let n = run.series.len();
    if n <= html::MOST_SERIES {
        return Ok(());
    }
    let most = html::MOST_SERIES;
    Err(BadUsage(format!(
        "the run has {n} series, and a report for people takes {most}; use --only SUBJECT, or --csv, --openmetrics or --json"
    )))
}

/// The distribution of a run's only series.
fn only_distribution(run: &Run) -> anyhow::Result<Distribution> {
    match run.series.as_slice() {
        [one] => Ok(Distribution::from_series(one)?),
        series => {
            let n = series.len();
            let text = format!(
                "--hgrm: the run has {n} series, and this form holds one; name a folder with --output, or a subject with --only"
            );
            Err(BadUsage(text).into())
        }
    }
}

/// Each distribution to a file of its own in a folder, although another cannot be written.
fn distributions(run: &Run, folder: &Path) -> anyhow::Result<Exit> {
    let mut names = BTreeSet::new();
    let mut exit = Exit::Done;
    for (i, series) in run.series.iter().enumerate() {
        let name = hgrm::file_name(series);
        let name = if names.contains(&name) { format!("{i}-{name}") } else { name };
        let target = Target::File(folder.join(&name));
        let written = Distribution::from_series(series).map_err(anyhow::Error::from).and_then(|distribution| {
            Output::open("--output", &target)?.write(|out| Ok(hgrm::write(&distribution, out)?))
        });
        if let Err(error) = written {
            terminal::complain(&format!("error: {}", with_causes(&error)));
            exit = Exit::Failed;
        }
        names.insert(name);
    }
    Ok(exit)
}
