//! Mutations of bytes and of JSON documents.

use serde_json::{Map, Number, Value};

use super::random::Random;

/// Fragments that are hard for parsers.
const TOKENS: [&str; 34] = [
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "-1",
    "18446744073709551615",
    "9223372036854775808",
    "-9223372036854775808",
    "1e308",
    "-0.0",
    "1e-400",
    "NaN",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "\\",
    "\\ud800",
    "\u{0}",
    "\u{1b}[2J",
    "\u{202e}",
    "\u{9b}31m",
    "</script>",
    "=",
    "-",
    "--",
    "99999999999999999999999",
    "µ",
    "\u{feff}",
    "\n",
];

/// Changes some bytes: replaces, inserts, removes or duplicates them, or flips a bit.
pub(super) fn bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(40)).min(bytes.len());
        let token = random.of(&TOKENS).as_bytes();
        match random.below(6) {
            0 => drop(bytes.splice(at..end, token.iter().copied())),
            1 => drop(bytes.splice(at..at, token.iter().copied())),
            2 => drop(bytes.drain(at..end)),
            3 => bytes.extend_from_within(at..end),
            4 => drop(bytes.splice(at..at, random.bits().to_ne_bytes())),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
}

/// Changes the structure of a document. Replaces values by extremes or by other values of it. Removes, renames or adds fields. Removes,
/// duplicates or multiplies items.
pub(super) fn structure(document: &mut Value, words: &[String], random: &mut Random) {
    for _ in 0..1 + random.below(6) {
        let other = any_place(document, random).clone();
        let place = any_place(document, random);
        match random.below(8) {
            0 => *place = other,
            1 => lose(place, random),
            2 => repeat(place, random),
            3 => rename(place, words, random),
            4 => *place = Value::from(random.of(words).as_str()),
            _ => *place = extreme(random),
        }
    }
}

/// A random place of the document: a walk from the root that ends at random, or at a leaf.
fn any_place<'a>(here: &'a mut Value, random: &mut Random) -> &'a mut Value {
    let inside = match here {
        Value::Object(fields) => fields.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    };
    if inside == 0 || random.one_in(8) {
        return here;
    }
    let n = random.below(inside);
    let next = match here {
        Value::Object(fields) => fields.values_mut().nth(n),
        Value::Array(items) => items.get_mut(n),
        _ => None,
    };
    any_place(next.expect("it was counted"), random)
}

fn extreme(random: &mut Random) -> Value {
    match random.below(9) {
        0 => Value::Null,
        1 => Value::from(random.one_in(2)),
        2 => Value::from(random.number()),
        3 => Value::from(random.number() as i64),
        4 => Number::from_f64(f64::from_bits(random.bits())).map_or(Value::Null, Value::Number),
        5 => Value::from(*random.of(&[0.0, -0.0, 1e308, -1e308, 1e-308, 0.5, 2.5e18])),
        6 => Value::from(random.of(&TOKENS).repeat(1 + random.below(4))),
        7 => Value::Array(Vec::new()),
        _ => Value::Object(Map::new()),
    }
}

fn lose(place: &mut Value, random: &mut Random) {
    match place {
        Value::Object(fields) if !fields.is_empty() => {
            let name = fields.keys().nth(random.below(fields.len())).cloned();
            name.and_then(|name| fields.remove(&name));
        }
        Value::Array(items) if !items.is_empty() => drop(items.swap_remove(random.below(items.len()))),
        Value::String(text) => drop(text.pop()),
        other => *other = Value::Null,
    }
}

fn repeat(place: &mut Value, random: &mut Random) {
    match place {
        Value::Array(items) if !items.is_empty() => {
            let item = items[random.below(items.len())].clone();
            let times = if random.one_in(20) { 300 } else { 1 + random.below(3) };
            items.extend(std::iter::repeat_n(item, times));
        }
        Value::String(text) => {
            let most = if random.one_in(20) { 2_000 } else { 4 };
            *text = text.repeat(1 + random.below(most));
        }
        Value::Number(_) => *place = Value::from(random.number()),
        _ => {}
    }
}

fn rename(place: &mut Value, words: &[String], random: &mut Random) {
    if let Value::Object(fields) = place {
        let name = fields.keys().nth(random.below(fields.len().max(1))).cloned();
        let value = name.and_then(|name| fields.remove(&name)).unwrap_or_else(|| extreme(random));
        fields.insert(random.of(words).clone(), value);
    }
}

/// All names and strings of a document.
pub(super) fn words(document: &Value, into: &mut Vec<String>) {
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                into.push(name.clone());
                words(value, into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| words(item, into)),
        Value::String(text) if text.len() < 60 => into.push(text.clone()),
        _ => {}
    }
}
