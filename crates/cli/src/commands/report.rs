//! `punctual report`.

use std::collections::BTreeSet;
use std::path::Path;

use punctual_record::{Distribution, Run, Series};
use punctual_report::{csv, hgrm, html, markdown, notices_text, openmetrics, text};

use crate::args::ReportArgs;
use crate::exit::{BadUsage, Exit};
use crate::input;
use crate::output::{self, Target};

/// Writes the run in the form that was asked for.
pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let folder = folder(args);
    if folder.is_none() {
        args.output.check("--output")?;
    }
    let mut run = input::read_run(&args.run)?;
    only(&mut run, &args.only)?;
    let form = &args.form;
    let target = &args.output;
    if form.json {
        target.write(|out| Ok(run.to_json(out)?))?;
    } else if form.csv {
        target.write(|out| Ok(csv::write(&run, out)?))?;
    } else if form.openmetrics {
        target.write(|out| Ok(openmetrics::write(&run, out)?))?;
    } else if form.hgrm {
        distributions(&run, target, folder)?;
    } else if form.html {
        readable(&run)?;
        target.write(|out| Ok(html::write(&run, out)?))?;
    } else if form.markdown {
        readable(&run)?;
        target.write(|out| Ok(markdown::write(&run, out)?))?;
    } else {
        readable(&run)?;
        as_text(&run, args)?;
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
            let near = there
                .iter()
                .max_by(|a, b| strsim::jaro_winkler(a, subject).total_cmp(&strsim::jaro_winkler(b, subject)));
            let hint = near.map_or("it has no series".to_owned(), |near| format!("the nearest name is {near:?}"));
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

fn as_text(run: &Run, args: &ReportArgs) -> anyhow::Result<()> {
    let style = match &args.output {
        Target::Stdout => output::style(args.color),
        Target::File(_) => output::style_for_file(args.color),
    };
    args.output.write(|out| Ok(out.write_all(text::render(run, &style).as_bytes())?))?;
    if !args.quiet {
        output::say(&notices_text(run, &output::style_for_notices(args.color)));
    }
    Ok(())
}

/// One distribution to the target, or each to a file of its own in a folder.
fn distributions(run: &Run, target: &Target, folder: Option<&Path>) -> anyhow::Result<()> {
    let decoded = |series: &Series| Distribution::from_series(series).map_err(anyhow::Error::from);
    match (folder, run.series.as_slice()) {
        (None, [one]) => {
            let distribution = decoded(one)?;
            target.write(|out| Ok(hgrm::write(&distribution, out)?))
        }
        (None, series) => {
            let n = series.len();
            let text = format!(
                "--hgrm: the run has {n} series, and this form holds one; name a folder with --output, or a subject with --only"
            );
            Err(BadUsage(text).into())
        }
        (Some(folder), series) => {
            let mut names = BTreeSet::new();
            for (i, series) in series.iter().enumerate() {
                let name = hgrm::file_name(series);
                let name = if names.contains(&name) { format!("{i}-{name}") } else { name };
                let distribution = decoded(series)?;
                Target::File(folder.join(&name)).write(|out| Ok(hgrm::write(&distribution, out)?))?;
                names.insert(name);
            }
            Ok(())
        }
    }
}
