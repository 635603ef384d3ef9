//! Command lines: those that people publish are taken, those that are wrong are refused, and each option of cyclictest is known.

use std::collections::BTreeSet;

use punctual_testing::skip;

use crate::support::{ours, run, shape, theirs};

const LINES: &str = include_str!("lines.txt");
const OPTIONS: &str = include_str!("options.txt");

/// Options that no version of 2.x takes.
const OLD: [&str; 4] = ["-n", "--nanosleep", "--notrace", "--numa"];

/// The published lines with their arguments.
fn published() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    LINES.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (from, arguments) = line.split_once(" | ").unwrap_or_else(|| panic!("no arguments: {line}"));
        (from, arguments.split_whitespace().collect())
    })
}

/// The same line on CPU 0 alone, for three cycles: any machine has it, and no line says when it ends otherwise.
fn shortened(arguments: &[&'static str]) -> Vec<&'static str> {
    let mut short = Vec::new();
    let mut words = arguments.iter().copied().peekable();
    while let Some(word) = words.next() {
        match word {
            "-a" | "--mainaffinity"
                if words.peek().is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit())) =>
            {
                words.next();
                short.extend(["-a", "0"]);
            }
            // `-a2-3`, `--affinity 1`: as above, the CPUs may not exist here.
            "--affinity" => {
                words.next();
                short.extend(["-a", "0"]);
            }
            _ if word.strip_prefix("-a").is_some_and(|cpus| cpus.starts_with(|c: char| c.is_ascii_digit())) => {
                short.extend(["-a", "0"]);
            }
            _ if word.starts_with("--affinity=") || word.starts_with("--mainaffinity=") => short.extend(["-a", "0"]),
            _ => short.push(word),
        }
    }
    short.extend(["-l", "3"]);
    short
}

#[test]
fn published_lines_run_and_print_what_cyclictest_prints() {
    let mut compared = 0;
    assert!(published().count() >= 50, "{}", published().count());
    for (from, arguments) in published() {
        let short = shortened(&arguments);
        let left = run(ours(&short));
        if left.code == Some(1) && left.stderr.contains("Unable to change scheduling policy") {
            continue;
        }
        assert_eq!(left.code, Some(0), "{from}: {short:?}\n{}", left.stderr);
        let today: Vec<&str> = short.iter().map(|word| without_old(word)).filter(|word| !OLD.contains(word)).collect();
        let Some(cyclictest) = theirs(&today) else { continue };
        let beside = run(cyclictest);
        // They are drawn every 10 ms, and a busy machine draws more often before three cycles are over: each shape once.
        let once = |text: &str| shape(text).into_iter().collect::<BTreeSet<_>>();
        let (own, expected) = (once(&without_screens(&left.stdout)), once(&without_screens(&beside.stdout)));
        assert_eq!(own, expected, "{from}: {short:?}\n{}\n{}", left.stdout, beside.stdout);
        assert_eq!(beside.code, Some(0), "{from}: {today:?}");
        compared += 1;
    }
    if compared == 0 {
        skip("cyclictest is not installed, or real-time policies are refused");
    }
}

/// The last screen: what is drawn over is gone.
fn without_screens(text: &str) -> String {
    text.replace("\u{1b}", "\n\u{1b}").lines().filter(|line| !line.starts_with('\u{1b}')).fold(
        String::new(),
        |mut all, line| {
            all += line;
            all.push('\n');
            all
        },
    )
}

/// Joined short options without `n`.
fn without_old(word: &str) -> &str {
    match word {
        "-mnq" => "-mq",
        "-nmv" => "-mv",
        word => word,
    }
}

#[test]
fn each_option_of_cyclictest_is_in_the_help_and_known() {
    let help = run(ours(&["--help"]));
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert!(help.stdout.starts_with("cyclictest V 2.40\n"), "programs read the version from this line");
    assert!(help.stdout.contains("punctual "), "and who made it is said");
    let named = names(&help.stdout);
    for option in OPTIONS.split_whitespace() {
        let option = if option.starts_with('-') { option.to_owned() } else { format!("--{option}") };
        assert!(named.contains(&option), "{option} is not in the help");
        // Known: another option is wrong, not this one.
        let refused = run(ours(&[&option, "1", "--no-such-option"]));
        assert!(refused.stderr.contains("unknown option '--no-such-option'"), "{option}: {}", refused.stderr);
    }
    let Some(cyclictest) = theirs(&["--help"]) else { return skip("cyclictest is not installed") };
    let listed = names(&run(cyclictest).stdout);
    let missing: Vec<_> = listed.difference(&named).filter(|name| *name != "-X").collect();
    assert_eq!(missing, Vec::<&String>::new(), "options of the installed cyclictest");
}

/// The options that a help names where lines begin.
fn names(help: &str) -> BTreeSet<String> {
    let of_line = |line: &str| -> Vec<String> {
        let begins: Vec<&str> = line.split_whitespace().take(4).collect();
        let is_option = |word: &&str| word.starts_with('-') && word.len() > 1;
        let name = |word: &str| word.split(['=', '[', ',']).next().unwrap_or_default().to_owned();
        begins
            .into_iter()
            .take_while(|word| is_option(word) || word.starts_with('[') || *word == word.to_uppercase())
            .filter(is_option)
            .map(name)
            .collect()
    };
    help.lines().flat_map(of_line).collect()
}

#[test]
fn what_is_wrong_is_refused_with_its_reason() {
    let cases: [&[&str]; 18] = [
        &["--no-such-option"],
        &["-j"],
        &["-l"],
        &["--quiet=1"],
        &["--hist=5"],
        &["-i", "0"],
        &["-c", "2"],
        &["-p", "100"],
        &["-h", "0"],
        &["-o", "5"],
        &["-a", "99999"],
        &["-at4"],
        &["-A", "1", "--secaligned"],
        &["-t", "-5"],
        // What no machine has memory for.
        &["-t", "100000000"],
        &["-t", "2147483648"],
        &["-t", "8000", "-h", "1000000"],
        &["--spike=1", "--spike-nodes=2000000000"],
    ];
    let mut said = String::new();
    for case in cases {
        let left = run(ours(case));
        assert_eq!((left.code, left.stdout.as_str()), (Some(2), ""), "{case:?}: {}", left.stderr);
        said += &format!("$ cyclictest {}\n{}\n", case.join(" "), left.stderr.trim_end());
    }
    // The CPUs of this machine are no part of it.
    let cpus = said.lines().map(|line| line.split(", but CPU").next().unwrap_or(line)).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(cpus);
}

#[test]
fn old_options_are_taken_with_a_word() {
    let old =
        ["-n", "-U", "--notrace", "-C", "-E", "-f", "-I", "-P", "-B", "-w", "-W", "-T", "nop", "--traceopt", "x", "-q"];
    let left = run(ours(&[&old[..], &["-l", "2"]].concat()));
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    for option in old.iter().filter(|word| word.starts_with('-') && **word != "-q") {
        assert!(
            left.stderr.contains(&format!("# {option} is an option of cyclictest 1.x")),
            "{option}: {}",
            left.stderr
        );
    }
    assert_eq!(
        left.stdout.lines().filter(|line| line.starts_with("T:")).count(),
        std::thread::available_parallelism().unwrap().get()
    );
}
