//! The lines of the source at addresses of a file, as its compiler wrote them down (DWARF 2 to 5, section `.debug_line`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::ops::Bound;
use std::time::Instant;

use flate2::read::ZlibDecoder;
use gimli::RunTimeEndian;
use gimli::{AttributeValue, DebugLine, DebugLineOffset, DebugLineStr, DebugStr, LineProgramHeader, Reader as _};
use object::read::ReadRef;
use object::{CompressionFormat, File, Object as _, ObjectSection as _};
use punctual_record::SourceLine;

use super::object_file::LARGEST;

type Bytes<'a> = gimli::EndianSlice<'a, RunTimeEndian>;

/// Rows and addresses from one look at the clock to the next.
const STEPS: u32 = 1024;

/// Ends the reading of a table in time, whatever is in it: what was not reached has no line.
struct Patience {
    until: Instant,
    steps: u32,
}

impl Patience {
    fn is_over(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        self.steps.is_multiple_of(STEPS) && Instant::now() > self.until
    }
}

/// What the table of lines knows of some addresses.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The line that an instruction is of.
    pub(super) at: BTreeMap<u64, SourceLine>,
    /// The line with which a function begins. Where its first instruction is of code that the compiler put into it, that has another line.
    pub(super) begin: BTreeMap<u64, SourceLine>,
}

/// The lines at these addresses, and those with which the functions begin that are at `begins`, as far as they are found in time.
pub(super) fn lines<'a>(
    file: &File<'a, impl ReadRef<'a>>,
    addresses: &BTreeSet<u64>,
    begins: &BTreeSet<u64>,
    until: Instant,
) -> Lines {
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let [lines, line_names, names] = [".debug_line", ".debug_line_str", ".debug_str"].map(|name| section(file, name));
    let names = Names {
        inside: DebugLineStr::from(Bytes::new(&line_names, endian)),
        shared: DebugStr::from(Bytes::new(&names, endian)),
    };
    let (mut found, mut rest) = (Lines::default(), Bytes::new(&lines, endian));
    let (table, mut patience) = (DebugLine::new(&lines, endian), Patience { until, steps: 0 });
    while let (at, Ok((length, _))) = (lines.len() - rest.len(), rest.read_initial_length()) {
        if rest.skip(length).is_err() || Instant::now() > until {
            break;
        }
        // A unit that cannot be read is left out.
        let unit = table.program(DebugLineOffset(at), if file.is_64() { 8 } else { 4 }, None, None);
        if let Ok(unit) = unit {
            of_unit(unit, &names, (addresses, begins), &mut patience, &mut found);
        }
    }
    found
}

/// The bytes of a section, also where they are compressed; none where there is no such section, or one that takes much memory.
fn section<'a>(file: &File<'a, impl ReadRef<'a>>, name: &str) -> Cow<'a, [u8]> {
    let compressed = file.section_by_name(name).and_then(|section| section.compressed_data().ok());
    let Some(data) = compressed.filter(|data| data.uncompressed_size <= LARGEST) else { return Cow::default() };
    match data.format {
        CompressionFormat::None => Cow::Borrowed(data.data),
        CompressionFormat::Zlib => {
            let mut bytes = Vec::new();
            let read = ZlibDecoder::new(data.data).take(data.uncompressed_size).read_to_end(&mut bytes);
            read.map_or_else(|_| Cow::default(), |_| Cow::Owned(bytes))
        }
        _ => Cow::default(),
    }
}

/// Where the names of files are that are not in the table of lines itself.
struct Names<'a> {
    inside: DebugLineStr<Bytes<'a>>,
    shared: DebugStr<Bytes<'a>>,
}

impl Names<'_> {
    /// The name of a file in its folder.
    fn of(&self, header: &LineProgramHeader<Bytes<'_>>, file: u64) -> Option<String> {
        let name = match header.file(file)?.path_name() {
            AttributeValue::String(name) => name.to_string_lossy().into_owned(),
            AttributeValue::DebugLineStrRef(at) => self.inside.get_str(at).ok()?.to_string_lossy().into_owned(),
            AttributeValue::DebugStrRef(at) => self.shared.get_str(at).ok()?.to_string_lossy().into_owned(),
            _ => return None,
        };
        name.rsplit('/').next().map(str::to_owned)
    }
}

/// Adds the lines of a unit. A row of its table is about the addresses up to that of the next one.
fn of_unit(
    unit: gimli::IncompleteLineProgram<Bytes<'_>>,
    names: &Names<'_>,
    (addresses, begins): (&BTreeSet<u64>, &BTreeSet<u64>),
    patience: &mut Patience,
    found: &mut Lines,
) {
    let line_of =
        |header: &_, file, line| Some(SourceLine { file: names.of(header, file)?, line: u32::try_from(line).ok()? });
    let mut rows = unit.rows();
    // Address, file and line. Functions that the linker left out begin at address 0.
    let (mut before, mut is_left_out): (Option<(u64, u64, u64)>, _) = (None, false);
    while let Ok(Some((header, row))) = rows.next_row() {
        if patience.is_over() {
            return;
        }
        let address = row.address();
        match before {
            None => is_left_out = address == 0,
            Some((begin, file, line)) if !is_left_out && line != 0 && begin < address => {
                for place in addresses.range((Bound::Included(begin), Bound::Excluded(address))) {
                    if patience.is_over() {
                        return;
                    }
                    found.at.extend(line_of(header, file, line).map(|line| (*place, line)));
                }
            }
            Some(_) => {}
        }
        let line = row.line().map_or(0, u64::from);
        if !row.end_sequence() && !is_left_out && begins.contains(&address) && !found.begin.contains_key(&address) {
            found.begin.extend(line_of(header, row.file_index(), line).map(|line| (address, line)));
        }
        before = (!row.end_sequence()).then(|| (address, row.file_index(), line));
    }
}
