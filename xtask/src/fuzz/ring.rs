//! Fuzzes the headers of rings.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use punctual::ipc::{Ring, WaitStrategy};
use punctual_linux::ipc::memory;

use super::mutate;
use super::random::Random;

/// Offset of the data, and capacity, of these rings.
const DATA: usize = 4096;
const CAPACITY: u64 = 8192;

/// Opens a file with a mutated header. If it is a ring, sends and receives through it. Returns whether it was one.
pub(super) fn check(random: &mut Random) -> Result<bool, String> {
    let (len, header) = header(random);
    let file = File::from(memory::sealed_memfd(c"fuzzed", len).map_err(|e| e.to_string())?);
    file.write_all_at(&header[..header.len().min(len as usize)], 0).map_err(|e| e.to_string())?;
    let ring = match Ring::from_fd(OwnedFd::from(file)) {
        Ok(ring) => ring,
        Err(refused) if refused.to_string().len() < 20 => return Err(format!("message too short: {refused}")),
        Err(_) => return Ok(false),
    };
    let (Ok(mut sender), Ok(mut receiver)) = (ring.sender(), ring.receiver()) else { return Ok(false) };
    let mut buffer = vec![0; CAPACITY as usize];
    for _ in 0..4 {
        let message = vec![0xa5; random.below(3_000)];
        let _ = sender.send_timeout(&message, WaitStrategy::Sleep, Duration::ZERO);
        for _ in 0..200 {
            match receiver.recv_timeout(&mut buffer, WaitStrategy::Sleep, Duration::ZERO) {
                Ok(Some(len)) if len > buffer.len() => return Err(format!("a message of {len} bytes")),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
    }
    Ok(true)
}

/// The length and the first bytes of the file.
fn header(random: &mut Random) -> (u64, Vec<u8>) {
    let mut header = vec![0; DATA + 256];
    let mut put = |at: usize, right: u64, width: usize, random: &mut Random| {
        let value = if random.one_in(5) { random.number() } else { right };
        header[at..at + width].copy_from_slice(&value.to_ne_bytes()[..width]);
    };
    let near = (random.bits() % (2 * CAPACITY)) & !7;
    put(0, u64::from_ne_bytes(*b"PNCTRING"), 8, random);
    put(8, 1, 4, random);
    put(12, DATA as u64, 4, random);
    put(16, CAPACITY, 8, random);
    put(128, near, 8, random);
    put(136, 0, 8, random);
    put(256, near, 8, random);
    put(264, 0, 8, random);
    for frame in 0..8 {
        put(DATA + frame * 8, random.bits() % 64, 8, random);
    }
    if random.one_in(8) {
        mutate::bytes(&mut header, random);
    }
    let right = DATA as u64 + CAPACITY;
    (if random.one_in(8) { 1 + random.bits() % 20_000 } else { right }, header)
}
