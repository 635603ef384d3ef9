//! Command lines as getopt_long(3) takes them: options and words in any order, joined short options, values that are attached or
//! follow, abbreviated long names.
//!
//! In go tables of options and the words, out come the options in order. A name is looked up in the first table, and in
//! the next one only if the first has none like it. Refused: unknown and ambiguous names, missing and needless values.

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// No value.
    No,
    /// A value, attached or the next word.
    Needed,
    /// A value only if it is attached.
    Attached,
}

/// An option of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opt<T: 'static> {
    /// Its letter.
    pub(crate) short: Option<char>,
    /// Its long name, if it has one.
    pub(crate) long: Option<&'static str>,
    /// Whether it has a value.
    pub(crate) value: Value,
    /// What it is.
    pub(crate) id: T,
}

/// An option of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given<T> {
    /// What it is.
    pub(crate) id: T,
    /// As typed, without its value: `-t`, `--thr`.
    pub(crate) typed: String,
    /// Its value.
    pub(crate) value: Option<String>,
    /// The word that follows one whose value may be attached.
    pub(crate) next: Option<String>,
}

/// The options of a command line. Words that are no options are passed over.
pub(crate) fn parse<T: Copy + PartialEq>(tables: &[&[Opt<T>]], words: &[String]) -> Result<Vec<Given<T>>, String> {
    let mut given = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next().filter(|word| *word != "--") {
        if let Some(long) = word.strip_prefix("--") {
            let (name, attached) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let opt = find_long(tables, name)?;
            if opt.value == Value::No && attached.is_some() {
                return Err(format!("'--{name}' takes no value"));
            }
            given.push(taken(&opt, format!("--{name}"), attached, &mut rest)?);
        } else if let Some(mut letters) = word.strip_prefix('-').map(str::chars) {
            while let Some(letter) = letters.next() {
                let opt = tables.iter().flat_map(|table| table.iter()).find(|opt| opt.short == Some(letter));
                let opt = opt.ok_or_else(|| format!("unknown option '-{letter}'"))?;
                let mut attached = None;
                if opt.value != Value::No {
                    attached = Some(letters.as_str()).filter(|value| !value.is_empty());
                    letters = "".chars();
                }
                given.push(taken(opt, format!("-{letter}"), attached, &mut rest)?);
            }
        }
    }
    Ok(given)
}

/// The option with this name, or the only one that begins like it.
pub(crate) fn find_long<T: Copy + PartialEq>(tables: &[&[Opt<T>]], name: &str) -> Result<Opt<T>, String> {
    for table in tables {
        if let Some(exact) = table.iter().find(|opt| opt.long == Some(name)) {
            return Ok(*exact);
        }
        let like: Vec<_> = table.iter().filter(|opt| opt.long.is_some_and(|long| long.starts_with(name))).collect();
        match like.as_slice() {
            [] => {}
            [first, others @ ..] if others.iter().all(|opt| opt.id == first.id) => return Ok(**first),
            _ => {
                let names: Vec<_> = like.iter().filter_map(|opt| Some(format!("--{}", opt.long?))).collect();
                return Err(format!("'--{name}' may be {}", names.join(" or ")));
            }
        }
    }
    Err(format!("unknown option '--{name}'"))
}

/// An option with its value. One that is needed and not attached is taken from the words that follow.
fn taken<T: Copy>(
    opt: &Opt<T>,
    typed: String,
    attached: Option<&str>,
    rest: &mut std::slice::Iter<'_, String>,
) -> Result<Given<T>, String> {
    let value = match attached {
        None if opt.value == Value::Needed => {
            Some(rest.next().ok_or_else(|| format!("'{typed}' needs a value"))?.clone())
        }
        _ => attached.map(str::to_owned),
    };
    let next = rest.as_slice().first().filter(|_| opt.value == Value::Attached).cloned();
    Ok(Given { id: opt.id, typed, value, next })
}

/// A number as atoi(3) reads it: spaces, a sign, digits, and whatever follows. 0 without digits.
pub(crate) fn atoi(text: &str) -> i32 {
    let text = text.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digit = |number: i64, digit: u32| number.saturating_mul(10).saturating_add(i64::from(digit));
    let number = digits.chars().map_while(|c| c.to_digit(10)).fold(0, digit);
    let number = if negative { -number } else { number };
    number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Opt<char>] = &[
        Opt { short: Some('t'), long: Some("threads"), value: Value::Attached, id: 't' },
        Opt { short: Some('h'), long: Some("histogram"), value: Value::Needed, id: 'h' },
        Opt { short: Some('H'), long: Some("histofall"), value: Value::Needed, id: 'H' },
        Opt { short: Some('q'), long: Some("quiet"), value: Value::No, id: 'q' },
        Opt { short: None, long: Some("tracemark"), value: Value::No, id: 'm' },
    ];
    const OLD: &[Opt<char>] = &[
        Opt { short: Some('T'), long: Some("tracer"), value: Value::Needed, id: 'T' },
        Opt { short: Some('n'), long: None, value: Value::No, id: 'n' },
    ];

    fn told(words: &[&str]) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let one = |given: Given<char>| match (given.value, given.next) {
            (Some(value), _) => format!("{}={value}", given.id),
            (None, Some(next)) => format!("{}>{next}", given.id),
            (None, None) => given.id.to_string(),
        };
        match parse(&[TABLE, OLD], &words) {
            Ok(given) => Ok(given.into_iter().map(one).collect::<Vec<_>>().join(" ")),
            Err(refused) => Err(refused),
        }
    }

    #[test]
    fn options_as_getopt_long_takes_them() {
        let taken = [
            (&["-qt4"][..], "q t=4"),
            (&["-t", "4", "-q"], "t>4 q"),
            (&["-qh", "30", "word", "", "-"], "q h=30"),
            (&["-h 30"], "h= 30"),
            (&["--thr=2", "--threads", "3"], "t=2 t>3"),
            (&["word", "-q", "--", "-q"], "q"),
            (&["--tr"], "m"),
            (&["--tracer", "nop", "-n"], "T=nop n"),
            (&["--histogram=", "-q"], "h= q"),
            (&["-h", "-q"], "h=-q"),
        ];
        for (words, expected) in taken {
            assert_eq!(told(words).as_deref(), Ok(expected), "{words:?}");
        }
    }

    #[test]
    fn what_is_wrong_has_its_reason() {
        let refused = [
            (&["-x"][..], "unknown option '-x'"),
            (&["--nope"], "unknown option '--nope'"),
            (&["--hist", "5"], "'--hist' may be --histogram or --histofall"),
            (&["-h"], "'-h' needs a value"),
            (&["--quiet=1"], "'--quiet' takes no value"),
        ];
        for (words, expected) in refused {
            assert_eq!(told(words).unwrap_err(), expected, "{words:?}");
        }
    }

    #[test]
    fn numbers_as_atoi_reads_them() {
        let read = [" 3500", "1000us", "-5", "+7", "", "fifo", "99999999999", "-99999999999", "\t12 3"].map(atoi);
        assert_eq!(read, [3500, 1000, -5, 7, 0, 0, i32::MAX, i32::MIN, 12]);
    }
}
