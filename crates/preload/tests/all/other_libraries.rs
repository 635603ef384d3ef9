//! The library beside others that take the place of functions, and in processes with little room.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{compiled, compiled_with, library};

/// Rules that need all that the library has: places, functions, names, scheduling.
const RULES: &str = "* usleep0=yield precise-sleep=5us\nthread=thread-* timer-slack=2us slice=1ms\nsite=*:sleeps poll-first=20us\n\
                     library=lib* sched-yield=backoff\n";

/// Everything, by flags and by rules.
fn settings(folder: &Path) -> [String; 2] {
    let rules = folder.join("rules");
    std::fs::write(&rules, RULES).unwrap();
    let flags = "usleep0=yield,sched-yield=backoff,precise-sleep,poll-first=50us";
    [flags.to_owned(), format!("{flags},rules={}", rules.display())]
}

/// That the program does the same under all settings. `shell` runs it as `"$0"`.
fn unchanged(program: &Path, folder: &Path, shell: &str, environment: &[(&str, &str)]) -> Output {
    let run = |settings: Option<&String>| {
        let mut command = Command::new("sh");
        command.args(["-c", shell]).arg(program).envs(environment.iter().copied());
        if let Some(settings) = settings {
            // The shell itself runs without it.
            command.env("OWN", library()).env("PUNCTUAL_PRELOAD", settings);
        }
        command.output().unwrap()
    };
    let bare = run(None);
    for settings in settings(folder) {
        let with = run(Some(&settings));
        assert_eq!(String::from_utf8_lossy(&with.stdout), String::from_utf8_lossy(&bare.stdout), "{settings}");
        assert_eq!(String::from_utf8_lossy(&with.stderr), String::from_utf8_lossy(&bare.stderr), "{settings}");
        assert_eq!(with.status, bare.status, "{settings}");
    }
    bare
}

const PLAIN: &str = "LD_PRELOAD=$OWN exec \"$0\"";

#[test]
fn beside_an_allocator_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let jemalloc = "-l:libjemalloc.so.2";
    let Some(program) = compiled_if("calls.c", folder.path(), &[jemalloc]) else { return };
    // Its own threads begin while it holds its lock.
    let environment = [("MALLOC_CONF", "background_thread:true")];
    assert_eq!(unchanged(&program, folder.path(), PLAIN, &environment).status.code(), Some(5));
}

#[test]
fn beside_address_and_thread_sanitizer() {
    let folder = tempfile::tempdir().unwrap();
    // Address sanitizer wants to be the first library, or to be asked not to insist.
    for (sanitizer, environment) in [("address", &[("ASAN_OPTIONS", "verify_asan_link_order=0")][..]), ("thread", &[])]
    {
        let Some(program) = compiled_if("calls.c", folder.path(), &[&format!("-fsanitize={sanitizer}")]) else {
            return;
        };
        assert_eq!(unchanged(&program, folder.path(), PLAIN, environment).status.code(), Some(5), "{sanitizer}");
    }
}

#[test]
fn a_thousand_threads_with_the_smallest_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("threads.c", folder.path()) else { return };
    assert_eq!(unchanged(&program, folder.path(), PLAIN, &[]).stdout, b"1000\n");
}

#[test]
fn little_memory_and_few_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("calls.c", folder.path()) else { return };
    for limit in ["-v 100000", "-n 8", "-s 256"] {
        let shell = format!("ulimit {limit}; {PLAIN}");
        assert_eq!(unchanged(&program, folder.path(), &shell, &[]).status.code(), Some(5), "{limit}");
    }
}

#[test]
fn a_program_that_ends_before_main() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("early.c", folder.path()) else { return };
    let output = unchanged(&program, folder.path(), PLAIN, &[]);
    assert_eq!((output.status.code(), output.stdout), (Some(7), b"early\n".to_vec()));
}

/// Compiled where the compiler has these libraries.
fn compiled_if(source: &str, folder: &Path, options: &[&str]) -> Option<PathBuf> {
    let empty = folder.join("empty.c");
    std::fs::write(&empty, "int main(void) { return 0; }").unwrap();
    let linked = Command::new("cc").arg(&empty).arg("-o").arg(folder.join("empty")).args(options).output();
    if !linked.is_ok_and(|output| output.status.success()) {
        punctual_testing::skip(&format!("cc {}: needs gcc and libjemalloc2", options.join(" ")));
        return None;
    }
    compiled_with(source, folder, options)
}
