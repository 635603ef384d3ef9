//! Events: the request to record one, and an entry of a ring.

/// An event that a [`Recorder`](super::Recorder) records.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'a> {
    /// The number of its tracepoint.
    pub id: u16,
    /// Bytes to record, from its beginning on.
    pub size: usize,
    /// A text lies behind them, where its fields end (`__data_loc`).
    pub text: bool,
    /// Which events are kept: all without a filter.
    pub filter: Option<Filter<'a>>,
    /// Set where the tracepoint is that of all system calls.
    pub syscall: Option<Syscall>,
}

/// The tracepoints `raw_syscalls:sys_enter` and `raw_syscalls:sys_exit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syscall {
    /// A thread enters one.
    Enter,
    /// It leaves one.
    Leave,
}

/// A filter that keeps an event if any of the numbers lies in any of the ranges.
#[derive(Debug, Clone, Copy)]
pub struct Filter<'a> {
    /// The numbers of the event that are compared.
    pub numbers: &'a [Number],
    /// Ranges, from the first number to the last.
    pub ranges: &'a [(i32, i32)],
}

/// A number that an event has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// The thread that runs.
    Thread,
    /// The field of four bytes at this offset.
    Field(usize),
}

/// An entry of a ring.
#[derive(Debug, Clone, Copy)]
pub enum Record<'a> {
    /// An event.
    Sample(Sample<'a>),
    /// The ring was full: the kernel dropped this many events of this CPU before the next entry.
    Lost(u64),
}

/// An event of a tracepoint.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The event's own fields, laid out as its `format` file says.
    pub raw: &'a [u8],
}

/// The fixed part of a sample with TIME and RAW, in the order of perf_event_open(2), behind its header.
const FIXED: usize = 8 + 4;

pub(super) fn sample(body: &[u8]) -> Option<Sample<'_>> {
    let time_ns = u64::from_ne_bytes(body.get(..8)?.try_into().ok()?);
    let size = u32::from_ne_bytes(body.get(8..FIXED)?.try_into().ok()?) as usize;
    let raw = body.get(FIXED..FIXED.checked_add(size)?)?;
    Some(Sample { time_ns, raw })
}

pub(super) fn lost(body: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(body.get(8..16)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_read_and_a_short_one_is_refused() {
        let mut body = Vec::new();
        body.extend(123_456_789_012_u64.to_ne_bytes());
        body.extend(4_u32.to_ne_bytes());
        body.extend([1, 2, 3, 4]);
        let read = sample(&body).unwrap();
        assert_eq!((read.time_ns, read.raw), (123_456_789_012, &[1, 2, 3, 4][..]));
        for length in 0..body.len() {
            assert!(sample(&body[..length]).is_none(), "{length}");
        }
        // Its number, then the count.
        let lost_body = [7_u64, 9].map(u64::to_ne_bytes).concat();
        assert_eq!(lost(&lost_body), Some(9));
        assert!(lost(&lost_body[..15]).is_none());
    }
}
