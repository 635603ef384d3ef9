//! The layout of an event, as its `format` file in tracefs gives it. Names and places differ between kernels.

/// The layout of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Format {
    /// The number in `common_type` and for perf_event_open(2).
    pub(crate) id: u16,
    fields: Vec<(String, Field)>,
}

/// Where a field lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    offset: usize,
    size: usize,
    signed: bool,
    /// The four bytes say where the text lies (`__data_loc`).
    located: bool,
}

impl Format {
    /// Reads a `format` file. None where its number is missing.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        Some(Self { id, fields: text.lines().filter_map(field).collect() })
    }

    /// Where its fields end, and its texts begin.
    pub(crate) fn end(&self) -> usize {
        self.fields.iter().map(|(_, field)| field.end()).max().unwrap_or(0)
    }

    /// The field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field)
    }
}

/// A line such as `field:char prev_comm[16]; offset:8; size:16; signed:0;`.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    let signed = number("signed:") == Some(1);
    let name = declaration.split(['[', ' ', '\t']).rfind(|word| !word.is_empty() && !word.ends_with(']'))?;
    let located = declaration.starts_with("__data_loc");
    Some((name.trim_start_matches('*').to_owned(), Field { offset, size, signed, located }))
}

impl Field {
    pub(crate) fn offset(self) -> usize {
        self.offset
    }

    pub(crate) fn end(self) -> usize {
        self.offset + self.size
    }

    /// Whether it says where a text lies, behind all fields.
    pub(crate) fn is_located(self) -> bool {
        self.located
    }

    /// Its value as a number; an unsigned one of 64 bits wraps. None outside of `raw`.
    pub(crate) fn number(self, raw: &[u8]) -> Option<i64> {
        let bytes = raw.get(self.offset..self.offset.checked_add(self.size)?)?;
        let sign = if self.signed { i64::MAX } else { 0 };
        Some(match bytes.len() {
            1 if sign != 0 => i64::from(bytes[0].cast_signed()),
            1 => i64::from(bytes[0]),
            2 if sign != 0 => i64::from(i16::from_ne_bytes(bytes.try_into().ok()?)),
            2 => i64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 if sign != 0 => i64::from(i32::from_ne_bytes(bytes.try_into().ok()?)),
            4 => i64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            8 => i64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// The value at this place of an array of unsigned longs.
    pub(crate) fn element(self, raw: &[u8], index: usize) -> Option<u64> {
        const WORD: usize = size_of::<usize>();
        let from = self.offset + index * WORD;
        let bytes = raw.get(from..from + WORD).filter(|_| (index + 1) * WORD <= self.size)?;
        Some(usize::from_ne_bytes(bytes.try_into().ok()?) as u64)
    }

    /// Its text, without what follows the first zero byte.
    pub(crate) fn text(self, raw: &[u8]) -> Option<&[u8]> {
        let (offset, size) = if self.located {
            let location = u32::from_ne_bytes(raw.get(self.offset..self.offset + 4)?.try_into().ok()?);
            ((location & 0xffff) as usize, (location >> 16) as usize)
        } else {
            (self.offset, self.size)
        };
        let bytes = raw.get(offset..offset.checked_add(size)?)?;
        Some(bytes.split(|byte| *byte == 0).next().unwrap_or(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 328\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:__data_loc char[] comm;\toffset:28;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned long args[2];\toffset:32;\tsize:16;\tsigned:0;\n\
        \tfield:void * hrtimer;\toffset:48;\tsize:8;\tsigned:0;\nprint fmt: \"x\"\n";

    fn raw() -> Vec<u8> {
        let mut raw = vec![0; 8];
        raw.extend(b"kworker/1:2\0\0\0\0\0");
        raw.extend((-7_i32).to_ne_bytes());
        raw.extend((56_u32 | 5 << 16).to_ne_bytes());
        raw.extend([3_u64, 4, u64::MAX].iter().flat_map(|word| word.to_ne_bytes()));
        raw.extend(b"redis");
        raw
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn fields_are_where_the_format_says() {
        let format = Format::parse(SWITCH).unwrap();
        assert_eq!(format.id, 328);
        let raw = raw();
        let field = |name| format.field(name).unwrap();
        assert_eq!(field("prev_comm").text(&raw), Some(&b"kworker/1:2"[..]));
        assert_eq!(field("prev_pid").number(&raw), Some(-7));
        assert_eq!(field("comm").text(&raw), Some(&b"redis"[..]));
        assert_eq!((field("args").element(&raw, 1), field("args").element(&raw, 2)), (Some(4), None));
        assert_eq!(field("hrtimer").number(&raw), Some(-1));
        assert!(format.field("absent").is_none());
    }

    #[test]
    fn a_short_event_has_no_fields() {
        let format = Format::parse(SWITCH).unwrap();
        for name in ["prev_comm", "comm", "hrtimer"] {
            let field = format.field(name).unwrap();
            for length in 0..28 {
                let raw = &raw()[..length.min(field.offset)];
                assert!(field.number(raw).is_none() && field.text(raw).is_none() && field.element(raw, 0).is_none());
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "\\PC{0,200}", raw: Vec<u8>) {
            for line in text.lines().chain(SWITCH.lines()) {
                if let Some((_, field)) = field(line) {
                    let _ = (field.number(&raw), field.text(&raw), field.element(&raw, 1));
                }
            }
            let _ = Format::parse(&text);
        }
    }
}
