//! The arguments of a command: built when needed; a negative number is a value, not an option.

use std::ops::Deref;

use clap::builder::Resettable;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};

/// Names of values that begin with a number. A negative one is refused as a value, not as an unknown option.
const NUMBERS: [&str; 9] = ["DUR", "N", "N,N,..", "BYTES", "SIZE", "FREQ", "RATE", "FROM..TO", "PID"];

/// The arguments `T` of a command, on the heap: commands differ in size.
///
/// The definition of `T` is built late (`Command::defer`). Its own description would then replace that of the command.
#[derive(Debug)]
pub(crate) struct CommandArgs<T>(Box<T>);

impl<T> Deref for CommandArgs<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Args> Args for CommandArgs<T> {
    fn augment_args(command: Command) -> Command {
        let [about, long] = [command.get_about(), command.get_long_about()].map(|text| Resettable::from(text.cloned()));
        with_negative_numbers(T::augment_args(command)).about(about).long_about(long)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for CommandArgs<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|args| Self(Box::new(args)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(|args| Self(Box::new(args)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Lets the options of a command, and of its commands, have a negative number.
pub(super) fn with_negative_numbers(command: Command) -> Command {
    let is_number = |arg: &Arg| {
        let names = arg.get_value_names().unwrap_or_default();
        arg.get_num_args().is_none_or(|number| number.min_values() > 0)
            && names.iter().any(|name| NUMBERS.contains(&name.as_str()))
    };
    let of_all = |arg: Arg| if is_number(&arg) { arg.allow_hyphen_values(true) } else { arg };
    command.mut_args(of_all).mut_subcommands(with_negative_numbers)
}
