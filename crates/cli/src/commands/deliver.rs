//! What becomes of a run: files, tables, notices; and where it is kept if it reached none of the files.

use punctual_record::Run;

use crate::args::OutputArgs;
use crate::exit::with_causes;
use crate::output::{Output, Outputs};
use crate::{state, stream, terminal};

/// Writes everything that was asked for, each although another fails, and says what failed. Whether all was written.
pub(super) fn deliver(run: &Run, wanted: &OutputArgs, outputs: Outputs) -> bool {
    stream::heed_signals();
    let tables = !outputs.takes_stdout() && !wanted.without_tables;
    let mut failed = Vec::new();
    let mut kept_by = None;
    let mut page = None;
    for output in outputs.into_all() {
        let (flag, target, stays) = (output.flag, output.target.clone(), output.stays());
        match write(run, output) {
            Err(error) => failed.push(error),
            // A page holds the run as well; a line per series does not.
            Ok(()) if flag == "--csv" => {}
            Ok(()) => {
                kept_by.get_or_insert_with(|| target.to_string());
                page = (flag == "--html" && stays).then_some(target).or(page);
            }
        }
    }
    if tables && let Err(error) = terminal::print(&punctual_report::text::render(run, &terminal::style(wanted.color))) {
        failed.push(error);
    }
    if !wanted.quiet {
        terminal::say(&punctual_report::notices_text(run, &terminal::style_for_notices(wanted.color)));
        if let Some(page) = page {
            terminal::say(&format!("The page is {page}; any browser shows it, offline.\n"));
        }
    }
    failed.iter().for_each(|error| terminal::complain(&format!("error: {}", with_causes(error))));
    match kept_by {
        _ if failed.is_empty() => {}
        Some(place) => {
            terminal::complain(&format!("the run is in {place}; punctual report makes the other forms of it"))
        }
        None => keep(run),
    }
    failed.is_empty()
}

fn write(run: &Run, output: Output) -> anyhow::Result<()> {
    match output.flag {
        "--html" => output.write(|out| Ok(punctual_report::html::write(run, out)?)),
        "--csv" => output.write(|out| Ok(punctual_report::csv::write(run, out)?)),
        _ => output.write(|out| Ok(run.to_json(out)?)),
    }
}

/// Keeps a run that reached no file.
fn keep(run: &Run) {
    let mut json = Vec::new();
    let kept = run.to_json(&mut json).map_err(anyhow::Error::from).and_then(|()| state::keep_unwritten(&json));
    terminal::complain(&match kept {
        Ok(path) => {
            let path = terminal::shown(path);
            format!("the run is kept in {path}; see it with: punctual report {path}")
        }
        Err(error) => format!("error: the run could not be kept either: {}", with_causes(&error)),
    });
}
