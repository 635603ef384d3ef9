//! Running cyclictest and what behaves like it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

/// A link to the command with the name of cyclictest.
pub(crate) fn link() -> PathBuf {
    static LINK: OnceLock<PathBuf> = OnceLock::new();
    LINK.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("link{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let link = folder.join("cyclictest");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_punctual"), &link).unwrap();
        link
    })
    .clone()
}

/// The command under the name of cyclictest.
pub(crate) fn ours(arguments: &[&str]) -> Command {
    let mut command = Command::new(link());
    command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
    command
}

/// cyclictest itself, if it is installed.
pub(crate) fn theirs(arguments: &[&str]) -> Option<Command> {
    let path = std::env::var_os("PATH")?;
    let mut programs = std::env::split_paths(&path).map(|folder| folder.join("cyclictest"));
    let mut command = Command::new(programs.find(|program| program.is_file())?);
    command.args(arguments).stdin(Stdio::null());
    Some(command)
}

/// Status and the two streams as text.
pub(crate) struct Left {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Left {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// The file in which the process keeps the run so far.
pub(crate) fn run_so_far(state: &Path, process: &Child) -> Option<PathBuf> {
    let begin = format!("cyclic-{}-", process.id());
    let mut files = state.join("punctual").read_dir().ok()?.map(|file| file.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.find(|path| name(path).starts_with(&begin) && path.extension().is_some_and(|end| end == "json"))
}

/// Runs it to its end.
pub(crate) fn run(mut command: Command) -> Left {
    command.output().unwrap().into()
}

/// The shape of a text: each number is `N`, of any width. Lines of one shape after each other are one.
pub(crate) fn shape(text: &str) -> Vec<String> {
    let mut shapes: Vec<String> = Vec::new();
    for line in text.lines() {
        let shape = shape_of_line(line);
        if shapes.last() != Some(&shape) {
            shapes.push(shape);
        }
    }
    shapes
}

fn shape_of_line(line: &str) -> String {
    // Times of day, names of machines and the load are no part of the shape.
    let varies = ["loadavg:", "\"start_time\":", "\"end_time\":", "\"cmdline:\":"];
    if let Some(name) = varies.iter().find(|name| line.contains(**name)) {
        let before = line.split(name).next().unwrap_or_default();
        return format!("{}{name} ...", shape_of_line(before));
    }
    let mut shape = String::new();
    for c in line.chars() {
        match c {
            '0'..='9' | '.' if shape.ends_with('N') => {}
            '0'..='9' => {
                // Numbers are padded by blanks, but for those of lists.
                shape.truncate(shape.trim_end_matches(' ').len());
                shape.push('N');
            }
            c => shape.push(c),
        }
    }
    // A list may have any length.
    while shape.contains("NN") {
        shape = shape.replace("NN", "N");
    }
    // Any number of cycles may be beyond a histogram.
    if shape.starts_with("# ThreadN:") { "# ThreadN:".to_owned() } else { shape }
}
