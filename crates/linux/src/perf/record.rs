//! What a ring of events holds.

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
    /// The CPU.
    pub cpu: u32,
    /// The thread that ran on it, seen from the PID namespace of this process; 0 is the idle thread.
    pub tid: i32,
    /// The event's own fields, laid out as its `format` file says.
    pub raw: &'a [u8],
}

/// The fixed part of a sample with TID, TIME, CPU and RAW, in the order of perf_event_open(2), behind its header.
const FIXED: usize = 8 + 8 + 8 + 4;

pub(super) fn sample(body: &[u8]) -> Option<Sample<'_>> {
    let word = |at: usize| body.get(at..at + 4).map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("four bytes")));
    let time = u64::from_ne_bytes(body.get(8..16)?.try_into().ok()?);
    let size = word(24)? as usize;
    let raw = body.get(FIXED..FIXED.checked_add(size)?)?;
    Some(Sample { time_ns: time, cpu: word(16)?, tid: word(4)? as i32, raw })
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
        for word in [7_u32, 8] {
            body.extend(word.to_ne_bytes());
        }
        body.extend(123_456_789_012_u64.to_ne_bytes());
        for word in [3_u32, 0, 4] {
            body.extend(word.to_ne_bytes());
        }
        body.extend([1, 2, 3, 4]);
        let read = sample(&body).unwrap();
        assert_eq!((read.time_ns, read.cpu, read.tid, read.raw), (123_456_789_012, 3, 8, &[1, 2, 3, 4][..]));
        for length in 0..body.len() {
            assert!(sample(&body[..length]).is_none(), "{length}");
        }
        assert_eq!(lost(&body), Some(123_456_789_012));
        assert!(lost(&body[..15]).is_none());
    }
}
