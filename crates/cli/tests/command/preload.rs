//! `punctual run` changes the waits of a program by a library.

use std::path::Path;
use std::process::{Command, Output};

/// A folder as after an installation: bin/punctual, and the library in lib or not.
pub(crate) fn installed(with_library: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["bin", "lib"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    punctual_testing::copy(Path::new(env!("CARGO_BIN_EXE_punctual")), &folder.path().join("bin/punctual"));
    if with_library {
        let library = punctual_testing::library("punctual-preload");
        std::fs::copy(library, folder.path().join("lib/libpunctual_preload.so")).unwrap();
    }
    folder
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(folder.join("bin/punctual")).arg("run").args(arguments).env_remove("LD_PRELOAD").output().unwrap()
}

/// Before the library's path, so that programs of other C libraries pass over it.
const FOR_GLIBC: &str = "/$LIB/../../../../../../../..";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_program_gets_the_library_and_its_settings() {
    let folder = installed(true);
    let script = "echo $LD_PRELOAD; echo $PUNCTUAL_PRELOAD; exit 4";
    let remedies =
        ["--quiet", "--usleep0", "yield", "--sched-yield", "backoff", "--precise-sleep=5us", "--poll-first", "20us"];
    let output = run(folder.path(), &[&remedies[..], &["--", "sh", "-c", script]].concat());
    let library = folder.path().canonicalize().unwrap().join("lib/libpunctual_preload.so");
    let settings = "usleep0=yield,sched-yield=backoff,precise-sleep=5us,poll-first=20us";
    assert_eq!(text(&output.stdout).replace(FOR_GLIBC, ""), format!("{}\n{settings}\n", library.display()));
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(4), String::new()));
    let bare = run(folder.path(), &["--", "sh", "-c", script]);
    assert_eq!(text(&bare.stdout), "\n\n", "nothing is loaded unasked");
    let planned = run(folder.path(), &["--dry-run", "--usleep0", "pause", "--", "sh"]);
    assert!(
        text(&planned.stdout).contains("libpunctual_preload.so with PUNCTUAL_PRELOAD=usleep0=pause\nrun sh"),
        "{planned:?}"
    );
}

#[test]
fn a_missing_library_is_an_error_before_the_start() {
    let folder = installed(false);
    let rules = folder.path().join("rules");
    std::fs::write(&rules, "* usleep0=yield\n").unwrap();
    let flags: [&[&str]; 8] = [
        &["--usleep0", "yield"],
        &["--sched-yield", "sleep"],
        &["--precise-sleep"],
        &["--poll-first", "20us"],
        &["--rules", rules.to_str().unwrap()],
        &["--observe", "--no-keep"],
        &["--mpi"],
        &["--quiet", "--dry-run", "--precise-sleep"],
    ];
    for flag in flags {
        let output = run(folder.path(), &[flag, &["--", "sh", "-c", "echo ran; exit 3"]].concat());
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(125), ""), "{flag:?}: {said}");
        let root = folder.path().canonicalize().unwrap();
        let file = if flag == ["--mpi"] { "libpunctual_mpi.so" } else { "libpunctual_preload.so" };
        let lib = root.join("lib");
        let searched = format!(
            "{file} was not found in {}, {lib} or {lib}/punctual; ",
            root.join("bin").display(),
            lib = lib.display()
        );
        let install = format!("cargo xtask install --prefix {}", root.display());
        assert!(said.contains(&searched) && said.contains(&install), "{flag:?}: {said}");
    }
    let bare = run(folder.path(), &["--", "sh", "-c", "exit 3"]);
    assert_eq!((bare.status.code(), text(&bare.stderr).as_str()), (Some(3), ""), "nothing is to be loaded");
}

#[test]
fn programs_that_the_program_starts_can_be_left_alone() {
    let folder = installed(true);
    let script = ["--", "sh", "-c", "echo \"<$PUNCTUAL_INHERIT>\""];
    let inherited = run(folder.path(), &[&["--usleep0", "yield"], &script[..]].concat());
    assert_eq!(text(&inherited.stdout), "<>\n", "{inherited:?}");
    let planned = run(folder.path(), &["--dry-run", "--usleep0", "yield", "--no-inherit", "--", "sh"]);
    assert!(text(&planned.stdout).contains("PUNCTUAL_PRELOAD=usleep0=yield and PUNCTUAL_INHERIT=0\n"), "{planned:?}");
    for bad in [&["--no-inherit"][..], &["--mpi", "--no-inherit"]] {
        let refused = run(folder.path(), &[bad, &script].concat());
        assert_eq!((refused.status.code(), text(&refused.stdout).as_str()), (Some(2), ""), "{refused:?}");
    }
}

/// Puts a filter on that allows everything, and executes its arguments.
const UNDER_A_FILTER: &str = "import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', 1, ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program) == 0
os.execv(sys.argv[1], sys.argv[1:])";

#[test]
fn the_calls_that_a_filter_may_refuse_are_named() {
    let folder = installed(true);
    let command = folder.path().join("bin/punctual");
    let under = |flags: &[&str]| {
        let mut python = Command::new("python3");
        python.args(["-c", UNDER_A_FILTER]).arg(&command).arg("run").args(flags).args(["--", "true"]).output()
    };
    let Ok(said) = under(&["--precise-sleep", "--usleep0", "yield"]) else {
        return punctual_testing::skip("python3 is missing");
    };
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let said = text(&said.stderr);
    let parts = ["seccomp filter", "--precise-sleep makes ppoll, futex", "; --usleep0 makes sched_yield"];
    assert!(parts.iter().all(|part| said.contains(part)) && !said.contains("--rules"), "{said}");
    let polled = under(&["--poll-first", "20us"]).unwrap();
    assert!(text(&polled.stderr).contains("--poll-first makes rt_sigprocmask, ppoll"), "{polled:?}");
    for flags in [&["--quiet", "--precise-sleep"][..], &["--nice", "1"]] {
        assert_eq!(text(&under(flags).unwrap().stderr), "", "{flags:?}");
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    if status.contains("Seccomp:\t0\n") {
        assert_eq!(text(&run(folder.path(), &["--precise-sleep", "--", "true"]).stderr), "", "there is no filter");
    }
}

#[test]
fn a_program_with_a_sanitizer_runs() {
    let folder = installed(true);
    let (program, source) = (folder.path().join("asan"), folder.path().join("asan.c"));
    std::fs::write(&source, "#include <unistd.h>\nint main(void) { return usleep(1000) + 6; }").unwrap();
    let compiled = Command::new("cc").arg("-fsanitize=address").arg("-o").arg(&program).arg(&source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return punctual_testing::skip("cc -fsanitize=address; Debian: apt-get install gcc libc6-dev");
    }
    let child = format!("{}; exit $?", program.display());
    for program in [&[program.to_str().unwrap()][..], &["sh", "-c", &child]] {
        let output = run(folder.path(), &[&["--quiet", "--precise-sleep", "--"], program].concat());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(6), String::new()));
    }
}

#[test]
fn a_program_that_would_not_see_it_is_named_and_runs_unchanged() {
    let folder = installed(true);
    let program = folder.path().join("static");
    let source = folder.path().join("static.c");
    std::fs::write(&source, "int main(void) { return 6; }").unwrap();
    let compiled = Command::new("cc").arg("-static").arg("-o").arg(&program).arg(&source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return punctual_testing::skip("cc -static; Debian: apt-get install gcc libc6-dev");
    }
    let output = run(folder.path(), &["--precise-sleep", "--", program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(6));
    assert!(text(&output.stderr).contains("is linked statically"), "{output:?}");
    let observed = run(folder.path(), &["--observe", "--no-keep", "--quiet", "--", program.to_str().unwrap()]);
    let said = text(&observed.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("is linked statically") && !said.contains("Go and set-user-ID"), "{said}");
    for flag in [&["--precise-sleep"][..], &["--observe", "--no-keep"]] {
        let required = run(folder.path(), &[flag, &["--require", "--", program.to_str().unwrap()]].concat());
        assert_eq!(required.status.code(), Some(125), "{required:?}");
        assert!(text(&required.stderr).contains("is linked statically"), "{required:?}");
    }
}

#[test]
fn a_file_of_rules_reaches_the_program() {
    let folder = installed(true);
    let rules = folder.path().join("rules, mine");
    std::fs::write(&rules, "thread=named* timer-slack=7us\n").unwrap();
    let script = "echo $PUNCTUAL_PRELOAD; cp /bin/sleep named-sleep; cp /bin/cat named-cat; ./named-cat /proc/self/timerslack_ns";
    let arguments = ["--rules", "rules, mine", "--usleep0", "yield", "--", "sh", "-c", script];
    let command = Command::new("bin/punctual").current_dir(folder.path()).arg("run").args(arguments).output().unwrap();
    let settings = format!("usleep0=yield,rules={}", rules.canonicalize().unwrap().display());
    assert_eq!(text(&command.stdout), format!("{settings}\n7000\n"), "{command:?}");
}

#[test]
fn a_bad_rule_is_refused_with_its_line_before_the_program_runs() {
    let folder = installed(true);
    let rules = folder.path().join("rules");
    std::fs::write(&rules, "# mine\n* uslep0=yield\n").unwrap();
    for (file, said) in [
        (rules.to_str().unwrap(), "line 2: unknown word 'uslep0=yield'; nearest: usleep0"),
        ("/nowhere", "No such file"),
        ("/dev/null", "expected a regular file"),
    ] {
        let output = run(folder.path(), &["--rules", file, "--", "sh", "-c", "exit 3"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let refused = format!("invalid --rules '{file}': ");
        assert!(text(&output.stderr).contains(&refused) && text(&output.stderr).contains(said), "{output:?}");
    }
}

#[test]
fn what_a_rule_may_not_have_is_said_and_the_program_runs() {
    let folder = installed(true);
    let rules = folder.path().join("rules");
    std::fs::write(&rules, "* usleep0=yield\nthread=a policy=fifo:1\n").unwrap();
    let limited = "ulimit -r 0; exec bin/punctual run --rules rules -- sh -c 'exit 3'";
    let mut command = Command::new("sh");
    command.args(["-c", limited]).current_dir(folder.path());
    if rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        command.args(["--bounding-set=-sys_nice", "--inh-caps=-all", "sh", "-c", limited]).current_dir(folder.path());
    }
    let Ok(output) = command.output() else { return punctual_testing::skip("setpriv(1) of util-linux") };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("rules, line 2: policy") && said.contains("RLIMIT_RTPRIO"), "{said}");
}

#[test]
fn a_child_gives_up_the_cpu_by_usleep_0_as_without() {
    let folder = installed(true);
    let (program, source) = (folder.path().join("sleeps"), folder.path().join("sleeps.c"));
    let code = "#include <sys/resource.h>\n#include <unistd.h>\nint main(void) { struct rusage u; for (int i = 0; i < 200; i++) usleep(0);\n\
                getrusage(RUSAGE_SELF, &u); return u.ru_nvcsw > 100; }";
    std::fs::write(&source, code).unwrap();
    if !Command::new("cc").arg("-o").arg(&program).arg(&source).status().is_ok_and(|status| status.success()) {
        return punctual_testing::skip("cc; Debian: apt-get install gcc libc6-dev");
    }
    let bare = Command::new(&program).status().unwrap();
    let script = format!("{}; exit $?", program.display());
    let child = run(folder.path(), &["--precise-sleep", "--", "sh", "-c", &script]);
    assert_eq!(child.status.code(), bare.code(), "whether most of its sleeps switch");
}

#[test]
fn a_program_of_musl_is_named_and_a_child_of_it_runs_too() {
    let folder = installed(true);
    let (program, source) = (folder.path().join("musl"), folder.path().join("musl.c"));
    std::fs::write(&source, "#include <unistd.h>\nint main(void) { return usleep(50) + 6; }").unwrap();
    let compiled = Command::new("musl-gcc").arg("-o").arg(&program).arg(&source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return punctual_testing::skip("musl-gcc; Debian: apt-get install musl-tools");
    }
    let named = run(folder.path(), &["--precise-sleep", "--", program.to_str().unwrap()]);
    assert!(named.status.code() == Some(6) && text(&named.stderr).contains("uses the C library musl"), "{named:?}");
    let script = format!("{}; exit $?", program.display());
    let child = run(folder.path(), &["--precise-sleep", "--", "sh", "-c", &script]);
    assert_eq!((child.status.code(), text(&child.stderr)), (Some(6), String::new()));
}

#[test]
fn bad_values_are_refused_before_the_program_runs() {
    let folder = installed(true);
    for (arguments, said) in [
        (&["--usleep0", "keep"][..], "yield"),
        (&["--sched-yield", "yield"], "pause"),
        (&["--precise-sleep=2ms"], "example: 5us, or 5%"),
        (&["--precise-sleep=0%"], "example: 5%"),
        (&["--poll-first", "2s"], "example: 20us"),
    ] {
        let output = run(folder.path(), &[arguments, &["--", "sh", "-c", "exit 3"]].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(said), "{output:?}");
    }
}

#[test]
fn a_value_without_its_equals_sign_is_no_program() {
    let folder = installed(true);
    for (flag, value) in [("--precise-sleep", "5us"), ("--precise-sleep", "5%"), ("--min-frequency", "2GHz")] {
        let output = run(folder.path(), &[flag, value, "true"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = format!("invalid {flag} '{value}': its value follows an equals sign (example: {flag}={value})");
        assert!(text(&output.stderr).contains(&said), "{output:?}");
    }
    // A program of such a name after a flag that has its value, or none.
    for before in [&["--precise-sleep=5us"][..], &["--nice", "1"]] {
        let output = run(folder.path(), &[before, &["5us"]].concat());
        assert_eq!(output.status.code(), Some(127), "{output:?}");
    }
}
