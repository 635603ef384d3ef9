//! What it prints, beside what cyclictest prints with the same options.

use punctual_testing::skip;

use crate::support::{ours, run, shape, theirs};

/// Lines that end by themselves on any machine, for each form of output.
const FORMS: [&[&str]; 16] = [
    &["-l", "20", "-q"],
    &["-t2", "-l", "20", "-q", "-N"],
    &["-l", "20", "-q", "-h", "40"],
    &["-t2", "-l", "20", "-q", "-h", "2"],
    &["-t2", "-l", "20", "-q", "-H", "5"],
    &["-t1", "-l", "20", "-q", "-H", "5"],
    &["-t2", "-l", "5", "-v"],
    &["-v", "-o", "3", "-l", "12", "-a", "0"],
    &["-b", "1", "-l", "50", "-q"],
    &["-t2", "-b", "1000000", "-l", "20", "-q"],
    &["--spike=1", "-l", "10", "-q"],
    &["--json=-", "-l", "5", "-q"],
    &["--json=-", "-l", "5", "-q", "-h", "2000", "-t2"],
    &["-x", "-l", "5", "-q"],
    &["-D", "1", "-q", "--latency=40"],
    &["--policy=batch", "-l", "5", "-q", "--histfile=/dev/stdout", "-h", "3"],
];

#[test]
fn each_form_of_output_has_the_shape_of_cyclictest() {
    let mut shapes = String::new();
    for form in FORMS {
        let left = run(ours(form));
        assert_eq!(left.code, Some(0), "{form:?}: {}", left.stderr);
        assert!(left.stderr.starts_with("# punctual "), "its maker is named: {}", left.stderr);
        let own = masked(&left.stdout);
        if let Some(cyclictest) = theirs(form) {
            let beside = run(cyclictest);
            assert_eq!(own, masked(&beside.stdout), "{form:?}\n{}\n{}", left.stdout, beside.stdout);
        } else {
            skip("cyclictest is not installed: the shapes are compared with the committed ones only");
        }
        shapes += &format!("$ cyclictest {}\n{}\n", form.join(" "), own.join("\n"));
    }
    insta::assert_snapshot!(shapes);
}

/// Without what depends on the machine: its names, and whether the latency device may be opened.
fn masked(text: &str) -> Vec<String> {
    let machine = ["\"nodename\"", "\"release\"", "\"version\"", "\"machine\"", "# /dev/cpu_dma_latency"];
    // A histogram in JSON is empty or not.
    let plain = |line: String| line.replace("{      }", "{\n      }");
    let lines = shape(text).into_iter().filter(|line| !machine.iter().any(|name| line.contains(name)));
    let mut lines: Vec<String> =
        lines.map(plain).flat_map(|line| line.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines.retain(|line| !line.starts_with("        \"N\":N"));
    lines.dedup();
    lines
}
