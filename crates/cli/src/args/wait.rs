//! `punctual wait`.

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, TypedValueParser};
use punctual_lab::wait::method::Method;
use punctual_lab::wait::methods;

use super::{AmountArgs, ConditionArgs, OutputArgs, nearest, values};

/// How late each way of waiting wakes up, and what CPU time it costs.
///
/// Every method waits for every duration; they take turns in rounds. The tables have the least late on top.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Ways to wait; all of them when none is named (see --list)
    #[arg(value_name = "METHOD", value_parser = MethodParser, hide_possible_values = true)]
    pub(crate) methods: Vec<&'static Method>,
    /// Durations to wait for
    #[arg(
        long = "for", value_name = "DUR", value_delimiter = ',', default_value = "10us,100us,1ms",
        allow_hyphen_values = true, value_parser = values::positive_duration
    )]
    pub(crate) durations: Vec<Duration>,
    /// List the ways to wait, what each needs, and which system calls it is seen to make; measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) amount: AmountArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A method's name; a mistyped one is answered with those nearest to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct MethodParser;

impl TypedValueParser for MethodParser {
    type Value = &'static Method;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let name = value.to_string_lossy();
        methods::find(&name).ok_or_else(|| {
            let near = nearest(&name, methods::all().map(|m| m.name), "punctual wait --list");
            let text = format!("'{name}' is no way to wait; {near}\n");
            clap::Error::raw(clap::error::ErrorKind::InvalidValue, text).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(methods::all().map(|m| PossibleValue::new(m.name).help(m.about))))
    }
}
