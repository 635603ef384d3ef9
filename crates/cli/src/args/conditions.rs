//! The conditions to measure under, or to run a program under: the flags of the table of conditions.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use punctual::CpuSet;
use punctual::conditions::{CONDITIONS, Condition, Conditions, Value};
use punctual_lab::Variant;
use punctual_record::remedy::{self, Switch, Takes, switch_of};

use crate::refusal::BadUsage;

const REQUIRE: &str = "require";
/// Measure nothing, and say which conditions there are.
const LIST: &str = "list-conditions";

/// The conditions to measure under, or to run a program under. A refused one is a notice with its remedy, unless `--require` is given.
#[derive(Debug)]
pub(crate) struct ConditionArgs<const OF_PROGRAM: bool = false> {
    /// The values of each condition that was typed, in the order of the table; several are measured side by side.
    typed: Vec<Vec<Value>>,
    /// Fail when a condition is refused.
    pub(crate) require: bool,
}

impl ConditionArgs {
    /// What holds for the whole run.
    pub(crate) fn base(&self) -> Conditions {
        let base = self.typed.iter().filter(|typed| !is_compared(typed));
        base.fold(Conditions::new(), |base, values| base.with(values[0].clone()))
    }

    /// The CPUs asked for.
    pub(crate) fn cpus(&self) -> Option<CpuSet> {
        self.base().get_cpus()
    }

    /// What is put side by side.
    pub(crate) fn variants(&self) -> Result<Vec<Variant>, BadUsage> {
        let lists: Vec<_> = self.typed.iter().filter(|typed| is_compared(typed)).cloned().collect();
        let flags = || lists.iter().map(|values| format!("--{}", values[0].condition())).collect::<Vec<_>>().join(", ");
        Variant::product(&lists).map_err(|error| BadUsage(format!("invalid {}: {error}; name each once", flags())))
    }

    /// Refuses what this machine could not do under any circumstances.
    pub(crate) fn check(&self) -> Result<(), BadUsage> {
        check(&self.base())
    }

    /// Whether anything was asked, so that nothing is compared unasked.
    pub(crate) fn any(&self) -> bool {
        !self.typed.is_empty()
    }
}

/// Whether the values make variants. One value holds for the whole run, but for the policy: a real-time variant is watched.
fn is_compared(values: &[Value]) -> bool {
    values.len() > 1 || matches!(values[0], Value::Policy(_))
}

/// Refuses what this machine could not do under any circumstances.
pub(crate) fn check(conditions: &Conditions) -> Result<(), BadUsage> {
    match conditions.impossible_here() {
        Some(no) => {
            let what = format!("--{}", no.condition);
            Err(BadUsage::invalid(what, no.value(), format!("{}; {}", no.why, remedy::of_refused(&no))))
        }
        None => Ok(()),
    }
}

/// Whether a command line asks for the list of conditions, instead of what its command does.
pub(crate) fn asks_for_list(line: &ArgMatches) -> bool {
    line.subcommand().is_some_and(|(_, command)| matches!(command.try_get_one(LIST), Ok(Some(true))))
}

/// The flag of a condition. `lists`: several values may be measured side by side.
fn flag(condition: Condition, lists: bool) -> Arg {
    let name = condition.name();
    let arg = Arg::new(name).long(name).help_heading("Conditions");
    let Switch { takes, help, .. } = switch_of(condition);
    let arg = match takes {
        Takes::Nothing => return arg.action(ArgAction::SetTrue).help(help),
        Takes::Value(value) | Takes::Values(value) => arg.value_name(value).allow_negative_numbers(true),
        Takes::OptionalValue(name, default) => {
            arg.value_name(name).num_args(0..=1).require_equals(true).default_missing_value(default)
        }
    };
    let arg = arg.value_parser(move |typed: &str| condition.parse(typed));
    if lists && matches!(takes, Takes::Values(_)) {
        let help = format!("{help}; several (a,b) are compared");
        return arg.action(ArgAction::Append).value_delimiter(',').help(help);
    }
    arg.help(help)
}

/// The flag of a condition for a command that measures one value of it; any other flag as it is.
pub(crate) fn with_one_value(arg: Arg) -> Arg {
    let condition = CONDITIONS.iter().find(|condition| arg.get_id() == condition.name());
    condition.map_or(arg, |condition| flag(*condition, false))
}

/// The flags of all conditions.
fn flags(command: Command, lists: bool, require: &'static str) -> Command {
    let command = CONDITIONS.iter().fold(command, |command, condition| command.arg(flag(*condition, lists)));
    let switch = |name| Arg::new(name).long(name).help_heading("Conditions").action(ArgAction::SetTrue);
    command
        .arg(switch(REQUIRE).help(require))
        .arg(switch(LIST).exclusive(true).help("List the conditions, their values, and which are available here"))
}

impl<const OF_PROGRAM: bool> FromArgMatches for ConditionArgs<OF_PROGRAM> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed = |condition: &Condition| {
            let values: Vec<Value> = match switch_of(*condition).takes {
                Takes::Nothing if matches.get_flag(condition.name()) => condition.parse("yes").into_iter().collect(),
                Takes::Nothing => Vec::new(),
                _ => matches.get_many(condition.name()).into_iter().flatten().cloned().collect(),
            };
            (!values.is_empty()).then_some(values)
        };
        Ok(Self { typed: CONDITIONS.iter().filter_map(typed).collect(), require: matches.get_flag(REQUIRE) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<const OF_PROGRAM: bool> Args for ConditionArgs<OF_PROGRAM> {
    fn augment_args(command: Command) -> Command {
        if !OF_PROGRAM {
            return flags(command, true, "Fail when a condition is refused, instead of measuring without it");
        }
        let command = flags(command, false, "Do not run the program when a condition is refused");
        // What a program gets of these two differs from what the measuring thread gets.
        let policy = format!(
            "{}; threads and processes that the program starts inherit it; under deadline the kernel starts them under SCHED_OTHER",
            switch_of(Condition::POLICY).help
        );
        let memory = "Lift the program's limit of locked memory: a program does not inherit locked memory";
        command
            .mut_arg(Condition::POLICY.name(), |arg| arg.help(policy))
            .mut_arg(Condition::LOCK_MEMORY.name(), |arg| arg.help(memory))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The conditions to run a program under: one value each.
pub(crate) type ProgramConditions = ConditionArgs<true>;

impl ProgramConditions {
    /// What is asked for the program.
    pub(crate) fn all(&self) -> Conditions {
        let typed = self.typed.iter();
        let all = typed.fold(Conditions::new(), |all, values| all.with(values[0].clone()));
        all.allow_irreversible()
    }
}
