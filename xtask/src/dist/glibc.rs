//! The newest version of glibc that a program or library needs.

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, VerneedIterator};

/// Major and minor number.
pub(super) type Version = (u32, u32);

/// That of the newest symbol it needs: its `GLIBC_` versions (`.gnu.version_r`). 0.0 if it needs no glibc.
pub(super) fn newest(elf: &[u8]) -> anyhow::Result<Version> {
    match FileHeader64::<Endianness>::parse(elf) {
        Ok(header) => newest_needed(header, elf),
        Err(_) => newest_needed(FileHeader32::<Endianness>::parse(elf)?, elf),
    }
}

fn newest_needed<Header: FileHeader<Endian = Endianness>>(header: &Header, elf: &[u8]) -> anyhow::Result<Version> {
    let endian = header.endian()?;
    let sections = header.sections(endian, elf)?;
    let Some((mut needed, strings)) = sections.gnu_verneed(endian, elf)? else { return Ok((0, 0)) };
    let names = sections.strings(endian, elf, strings)?;
    let mut newest = (0, 0);
    while let Some((_, mut versions)) = VerneedIterator::next(&mut needed)? {
        while let Some(version) = versions.next()? {
            let name = std::str::from_utf8(version.name(endian, names)?)?;
            let Some(number) = name.strip_prefix("GLIBC_") else { continue };
            let mut parts = number.split('.').map(str::parse::<u32>);
            if let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) {
                newest = newest.max((major, minor));
            }
        }
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_glibc_of_a_program_is_read() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needed = newest(&own).unwrap();
        // Rust's standard library needs at least 2.17.
        assert!(((2, 17)..(3, 0)).contains(&needed), "{needed:?}");
        assert!(newest(b"no program").is_err());
    }
}
