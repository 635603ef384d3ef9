//! The end of watching: the causes go into the run, and the run to its readers.

use punctual_lab::{Observer, Session, Stop};
use punctual_record::Causes;

use crate::args::{Flags, OutputArgs};
use crate::commands::deliver::deliver;
use crate::commands::measure::command_line;
use crate::output::Outputs;

/// The name of the command.
pub(super) const NAME: &str = "why";

/// A session of this command.
pub(super) fn session(stop: Stop, observer: &mut dyn Observer) -> Session<'_> {
    Session::open(command_line(NAME), NAME, stop, observer)
}

/// Enters the causes, and delivers the run. Returns whether all outputs were written.
pub(super) fn close(mut session: Session<'_>, causes: Causes, wanted: &OutputArgs, outputs: Outputs) -> bool {
    session.set_causes(causes);
    let mut run = session.close();
    Flags::of(NAME).name_in(&mut run);
    deliver(&run, wanted, outputs)
}
