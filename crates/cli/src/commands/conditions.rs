//! `--list-conditions`.

use punctual::conditions::{CONDITIONS, Condition, Scope};
use punctual_record::remedy::{self, Takes, switch_of};
use punctual_report::export::text::list::ListRow;

use super::measure;
use crate::exit::Exit;
use crate::terminal::Color;

/// Shows each condition, its value, and whether it can be had here.
pub(crate) fn list() -> anyhow::Result<Exit> {
    measure::list(rows(), Color::Auto)
}

/// A row for each condition.
pub(super) fn rows() -> impl Iterator<Item = ListRow> {
    CONDITIONS.iter().map(|condition| row(*condition))
}

fn row(condition: Condition) -> ListRow {
    let switch = switch_of(condition);
    let name = match switch.takes {
        Takes::Nothing => format!("--{condition}"),
        Takes::Value(value) => format!("--{condition} {value}"),
        Takes::OptionalValue { name, .. } => format!("--{condition}[={name}]"),
    };
    let kind = match condition.scope() {
        Scope::Thread => "of the thread",
        Scope::Process => "of the process",
        Scope::Machine => "of the machine",
    };
    ListRow {
        name,
        about: switch.help.into(),
        call: String::new(),
        kind: kind.into(),
        needs: String::new(),
        available: condition.available().map_err(|no| format!("{}; {}", no.why, remedy::of_refused(&no))),
        observed: None,
    }
}
