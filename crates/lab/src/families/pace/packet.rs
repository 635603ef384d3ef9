//! The header of a `pace` datagram: its first 48 bytes, in network byte order.

/// The first four bytes.
const MAGIC: u32 = 0x5055_4e43;
/// Length of the header, and of the smallest datagram.
pub const HEADER: usize = 48;

/// The header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The stream of datagrams: a new one for each batch.
    pub stream: u32,
    /// Number within the stream, from 0.
    pub sequence: u64,
    /// Its deadline, on the sender's `CLOCK_MONOTONIC`.
    pub intended_ns: i64,
    /// When the sender called send, on the same clock.
    pub sent_ns: i64,
    /// Identifies the machine and the boot of that clock.
    pub boot: u64,
    /// The nominal gap between two datagrams, ns.
    pub period_ns: u64,
}

impl Header {
    /// Writes it to the beginning of a datagram of at least [`HEADER`] bytes.
    pub fn write(&self, datagram: &mut [u8]) {
        datagram[0..4].copy_from_slice(&MAGIC.to_be_bytes());
        datagram[4..8].copy_from_slice(&self.stream.to_be_bytes());
        datagram[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        datagram[16..24].copy_from_slice(&self.intended_ns.to_be_bytes());
        datagram[24..32].copy_from_slice(&self.sent_ns.to_be_bytes());
        datagram[32..40].copy_from_slice(&self.boot.to_be_bytes());
        datagram[40..48].copy_from_slice(&self.period_ns.to_be_bytes());
    }

    /// Reads it. None: too short, or not from `pace`.
    #[must_use]
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let word = |at: usize| datagram.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
        let first = word(0)?;
        (first >> 32 == u64::from(MAGIC)).then_some(())?;
        Some(Self {
            stream: first as u32,
            sequence: word(8)?,
            intended_ns: word(16)? as i64,
            sent_ns: word(24)? as i64,
            boot: word(32)?,
            period_ns: word(40)?,
        })
    }
}

/// A number for this boot of this machine: clocks with the same number are comparable. Zero if the kernel does not
/// report it.
#[must_use]
pub fn this_boot() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // The id is random already; its first 16 hexadecimal digits are as good as any hash.
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(stream: u32, sequence: u64, intended_ns: i64, sent_ns: i64, boot: u64, period_ns: u64) {
            let header = Header { stream, sequence, intended_ns, sent_ns, boot, period_ns };
            let mut datagram = [0xa5; 64];
            header.write(&mut datagram);
            prop_assert_eq!(Header::read(&datagram), Some(header));
        }

        #[test]
        fn any_datagram_is_answered(datagram in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Header::read(&datagram);
        }
    }

    #[test]
    fn a_short_or_strange_one_is_none() {
        assert_eq!(Header::read(&[0; 47]), None);
        assert_eq!(Header::read(&[0; 48]), None);
    }
}
