//! The environment turns the library off, and keeps it from programs that this one executes.

use std::process::Command;

use punctual_linux::call_table;

use crate::support::{compiled, library};

/// How often 2000 yields gave up the CPU, and how many programs counted in a table.
fn yields(variables: &[(&str, &str)]) -> (i64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("switches.c", folder.path()) else { return (0, 0) };
    let table = tempfile::NamedTempFile::new().unwrap();
    call_table::format(table.as_file()).unwrap();
    let mut command = Command::new(program);
    command.arg("yield").env("LD_PRELOAD", library()).envs(variables.iter().copied());
    command.env("PUNCTUAL_PRELOAD", "sched-yield=sleep").env("PUNCTUAL_OBSERVE", table.path());
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let slept = said.split_whitespace().next().unwrap().parse().unwrap();
    (slept, call_table::read(table.as_file()).unwrap().attached)
}

#[test]
fn it_is_off_where_the_environment_says_so() {
    let (slept, attached) = yields(&[("PUNCTUAL_DISABLE", "1")]);
    assert!(slept < 1000 && attached == 0, "{slept} of 2000 yields slept, {attached} programs counted");
    for variables in [&[][..], &[("PUNCTUAL_DISABLE", "0")], &[("PUNCTUAL_INHERIT", "0")]] {
        let (slept, attached) = yields(variables);
        assert!(slept >= 1000 && attached == 1, "{variables:?}: {slept} slept, {attached} counted");
    }
}

#[test]
fn programs_that_this_one_executes_have_it_unless_the_environment_says_no() {
    let script =
        "echo \"$LD_PRELOAD|$PUNCTUAL_PRELOAD|$PUNCTUAL_INHERIT\"; grep -c libpunctual_preload /proc/self/maps; true";
    let library = library().display().to_string();
    let run = |preload: &str, inherit: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("LD_PRELOAD", preload).env("PUNCTUAL_PRELOAD", "usleep0=yield");
        let output = command.env("PUNCTUAL_INHERIT", inherit).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let inherited = run(&library, "1");
    assert!(inherited.starts_with(&format!("{library}|usleep0=yield|1\n")), "{inherited}");
    assert_ne!(inherited.lines().last(), Some("0"), "{inherited}");
    assert_eq!(run(&library, "0"), "||\n0\n");
    assert_eq!(run(&format!("libm.so.6:{library} libdl.so.2"), "0"), "libm.so.6:libdl.so.2||\n0\n");
    assert_eq!(run(&format!("libm.so.6 {library}"), "0"), "libm.so.6 ||\n0\n");
}
