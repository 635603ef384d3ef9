//! Lines of OpenMetrics: what opens a family, numbers, and labels.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::format::sanitize;

/// Opens a family of gauges.
pub(super) fn family(writer: &mut impl Write, name: &str, unit: Option<&str>, help: &str) -> io::Result<()> {
    writeln!(writer, "# TYPE punctual_{name} gauge")?;
    if let Some(unit) = unit {
        writeln!(writer, "# UNIT punctual_{name} {unit}")?;
    }
    writeln!(writer, "# HELP punctual_{name} {help}")
}

/// The shortest decimal number that is this one; very small and large ones with an exponent.
pub(super) fn number(value: f64) -> String {
    format!("{value:?}")
}

/// The labels, with a number where they were there before.
pub(super) fn repeated(mut labels: String, seen: &mut HashMap<String, u32>) -> String {
    let times = seen.entry(labels.clone()).or_default();
    *times += 1;
    if *times > 1 {
        labels.push_str(&format!(",repeat=\"{times}\""));
    }
    labels
}

/// A label. Its value is sanitized, so it holds no line break.
pub(super) fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", sanitize(value).replace('\\', "\\\\").replace('"', "\\\""))
}
