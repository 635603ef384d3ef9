//! What is installed, and what this user may do.

use std::process::Command;

use crate::preload::installed;
use crate::support::Left;

/// `punctual about` of an installation, with each run of white space as one space: lines are wrapped.
fn about(with_library: bool) -> String {
    let folder = installed(with_library);
    let mut command = Command::new(folder.path().join("bin/punctual"));
    let left = Left::from(command.arg("about").output().unwrap());
    assert_eq!((left.code, left.stderr.as_str()), (Some(0), ""));
    let said: Vec<&str> = left.stdout.split_whitespace().collect();
    let place = folder.path().canonicalize().unwrap();
    said.join(" ").replace(place.to_str().unwrap(), "/PREFIX")
}

#[test]
fn it_names_version_parts_and_privileges() {
    let said = about(true);
    let version = concat!("punctual ", env!("CARGO_PKG_VERSION"), " build ");
    let command = "command /PREFIX/bin/punctual kernel Linux ";
    for part in
        [version, command, " rtprio ", "libpunctual_preload.so ", "/PREFIX/lib/libpunctual_preload.so", "--nice "]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn of_a_part_that_is_missing_it_says_what_cannot_be_done() {
    for said in [about(false), about(true)] {
        let missing = "libpunctual_mpi.so was not found in /PREFIX/bin, /PREFIX/lib or /PREFIX/lib/punctual";
        assert!(said.contains(missing) && said.contains("there is no --mpi: "), "{said}");
    }
}
