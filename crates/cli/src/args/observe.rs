//! What `run` counts of a program's waits, and where that goes.

use clap::Args;
use punctual_record::Limit;

use super::limits;
use super::output::OutputArgs;
use crate::output::Target;
use crate::terminal::Color;

const HEADING: &str = "Observation";

/// Counting the waits of the program, by a library that is loaded into it.
#[derive(Debug, Args)]
pub(crate) struct ObserveArgs {
    /// Count the program's waits by call site, without a privilege: number, time asked, lateness, CPU time
    ///
    /// The report goes to stderr when the program has ended. It has the waits through the C library, in all processes of the program. A
    /// call that can block costs some 200 ns more. With CAP_PERFMON, `punctual why -- PROGRAM` sees every program and the causes.
    #[arg(long, help_heading = HEADING)]
    pub(crate) observe: bool,
    /// With --observe: write the whole run as JSON
    #[arg(long, value_name = "FILE", help_heading = HEADING, requires = "observe")]
    json: Option<Target>,
    /// With --observe: write an HTML page with charts
    #[arg(long, value_name = "FILE", help_heading = HEADING, requires = "observe")]
    html: Option<Target>,
    /// With --observe: write CSV, a line per series
    #[arg(long, value_name = "FILE", help_heading = HEADING, requires = "observe")]
    csv: Option<Target>,
    /// With --observe: write all tables to FILE, instead of the first screen to stderr
    #[arg(long = "output", short = 'o', value_name = "FILE", help_heading = HEADING, requires = "observe", conflicts_with = "full")]
    tables: Option<Target>,
    /// With --observe: print all tables, not only the first screen
    #[arg(long, help_heading = HEADING, requires = "observe")]
    full: bool,
    /// With --observe: exit with status 3 if a figure exceeds this or is not judged ('p99 of usleep > 200us')
    ///
    /// The status becomes 3 only if that of the program is 0. Without `of FUNCTION` a limit is about the lateness of every call site.
    #[arg(
        long, alias = "fail-above", value_name = "LIMIT", value_delimiter = ',', help_heading = HEADING, requires = "observe",
        value_parser = limits::of_run
    )]
    pub(crate) fail_if: Vec<Limit>,
    /// With --observe: do not keep this run as the last one, which `punctual report last` shows
    #[arg(long, help_heading = HEADING, requires = "observe")]
    no_keep: bool,
    /// With --observe: colour the tables
    #[arg(long, value_name = "WHEN", help_heading = HEADING, requires = "observe")]
    color: Option<Color>,
}

impl ObserveArgs {
    /// Where the results go: stdout belongs to the program.
    pub(crate) fn outputs(&self, quiet: bool) -> OutputArgs {
        OutputArgs {
            json: self.json.clone(),
            html: self.html.clone(),
            csv: self.csv.clone(),
            quiet,
            color: self.color.unwrap_or(Color::Auto),
            fail_if: self.fail_if.clone(),
            no_keep: self.no_keep,
            no_wait: false,
            without_tables: false,
            first_screen: !self.full,
            tables_on_stderr: true,
            output: self.tables.clone(),
            trace: None,
        }
    }
}
