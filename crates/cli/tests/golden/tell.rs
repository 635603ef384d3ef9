//! Runs a built command and writes down what it says.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// Widths of the terminal, in columns.
const WIDTHS: [u16; 2] = [80, 120];
/// The forms of a record.
const FORMS: [(&str, &str); 5] =
    [("html", "html"), ("markdown", "md"), ("csv", "csv"), ("openmetrics", "openmetrics"), ("json", "json")];

/// What is to be told: a record, a comparison or a file of command lines.
enum Subject {
    Record(PathBuf),
    Comparison { name: String, arguments: String },
    Lines(PathBuf),
}

/// Writes what the command says about everything in the folder `golden`. It sees copies of the records.
pub(crate) fn everything(command: &Path, golden: &Path, into: &Path) {
    let (bin, records) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(fs::canonicalize(command).unwrap(), bin.path().join("punctual")).unwrap();
    for folder in [golden.join("records"), golden.join("sides"), check_ups(golden)] {
        for record in files(&folder, "json") {
            fs::copy(&record, records.path().join(record.file_name().unwrap())).unwrap();
        }
    }
    let teller = Teller { bin: bin.path(), records: records.path(), into };
    let subjects = subjects(golden);
    let tellers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for first in 0..tellers {
            let mine = subjects.iter().skip(first).step_by(tellers);
            let teller = &teller;
            scope.spawn(move || mine.for_each(|subject| teller.tell(subject)));
        }
    });
}

/// The recorded check-ups of several machines.
fn check_ups(golden: &Path) -> PathBuf {
    golden.join("../../../report/tests/records")
}

fn subjects(golden: &Path) -> Vec<Subject> {
    let records = [golden.join("records"), check_ups(golden)].into_iter().flat_map(|folder| files(&folder, "json"));
    let records = records.map(Subject::Record);
    let comparisons = fs::read_to_string(golden.join("compare.txt")).unwrap();
    let comparisons = comparisons.lines().map(|line| {
        let (name, arguments) = line.split_once(": ").unwrap();
        Subject::Comparison { name: name.into(), arguments: arguments.into() }
    });
    let lines = files(&golden.join("said/lines"), "txt").into_iter().map(Subject::Lines);
    records.chain(comparisons).chain(lines).collect()
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension() == Some(OsStr::new(extension))).collect();
    paths.sort();
    paths
}

fn stem(path: &Path) -> &str {
    path.file_stem().unwrap().to_str().unwrap()
}

/// Where the command is, where it runs, and where what it says is written.
struct Teller<'a> {
    bin: &'a Path,
    records: &'a Path,
    into: &'a Path,
}

impl Teller<'_> {
    fn tell(&self, subject: &Subject) {
        match subject {
            Subject::Record(path) => self.record(path),
            Subject::Comparison { name, arguments } => self.comparison(name, arguments),
            Subject::Lines(path) => self.lines(path),
        }
    }

    fn record(&self, path: &Path) {
        let name = stem(path);
        let report = format!("report {name}.json");
        self.texts(name, &format!("{report} --full"));
        for (form, extension) in FORMS {
            self.write(name, &format!("report.{extension}"), &self.stdout(&format!("{report} --{form}")));
        }
        let distributions = tempfile::tempdir().unwrap();
        self.stdout(&format!("{report} --hgrm --output '{}'", distributions.path().display()));
        let all = [files(distributions.path(), "csv"), files(distributions.path(), "hgrm")].concat();
        let all: Vec<u8> = all.iter().flat_map(|file| fs::read(file).unwrap()).collect();
        self.write(name, "report.hgrm", &all);
        self.write(name, "first-screen.txt", self.on_terminal(&report, WIDTHS[0]).as_bytes());
    }

    fn comparison(&self, name: &str, arguments: &str) {
        let (compare, name) = (format!("compare {arguments}"), format!("compare-{name}"));
        self.texts(&name, &format!("{compare} --full"));
        self.write(&name, "first-screen.txt", self.on_terminal(&compare, WIDTHS[0]).as_bytes());
        for (form, extension) in [("--format markdown", "md"), ("--format json", "json"), ("--html -", "html")] {
            self.write(&name, &format!("report.{extension}"), &self.stdout(&format!("{compare} {form}")));
        }
    }

    /// The text for terminals of each width, with the notices.
    fn texts(&self, name: &str, arguments: &str) {
        for width in WIDTHS {
            self.write(name, &format!("{width}.txt"), self.on_terminal(arguments, width).as_bytes());
        }
    }

    /// Each line after `$`, with what it says now.
    fn lines(&self, path: &Path) {
        let lines = fs::read_to_string(path).unwrap();
        let told: String = lines.lines().filter(|line| line.starts_with("$ ")).map(|line| self.line(line)).collect();
        self.write("lines", &format!("{}.txt", stem(path)), told.as_bytes());
    }

    fn line(&self, line: &str) -> String {
        let done = self.shell(&line[2..]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (stdout, stderr) = (text(&done.stdout), text(&done.stderr));
        let stderr: String = stderr.lines().map(|line| format!("stderr: {line}\n")).collect();
        let status = done.status.code().map_or_else(|| done.status.to_string(), |code| code.to_string());
        format!("{line}\n{stdout}{stderr}status: {status}\n\n")
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        let path = format!("{}:/usr/bin:/bin", self.bin.display());
        command.args(["-c", script]).current_dir(self.records).stdin(Stdio::null());
        command.env_clear().env("PATH", path).env("LC_ALL", "C.UTF-8").env("TERM", "xterm").env("NO_COLOR", "1");
        command
            .env("HOME", "/nonexistent")
            .env("XDG_STATE_HOME", self.bin.join("state"))
            .env("PUNCTUAL_LOCK_NAMESPACE", "");
        command
    }

    fn stdout(&self, arguments: &str) -> Vec<u8> {
        let done = self.shell(&format!("punctual {arguments}")).output().unwrap();
        done.stdout
    }

    /// What a terminal of this width shows. The command's stdin is none.
    fn on_terminal(&self, arguments: &str, width: u16) -> String {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        tcsetwinsize(&ours, Winsize { ws_row: 24, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut plain = tcgetattr(&theirs).unwrap();
        plain.make_raw();
        tcsetattr(&theirs, OptionalActions::Now, &plain).unwrap();
        let mut command = self.shell(&format!("punctual {arguments}"));
        let mut child = command.stdout(theirs.try_clone().unwrap()).stderr(theirs).spawn().unwrap();
        // The terminal's other side closes with the command only when nobody else has it.
        drop(command);
        let mut shown = Vec::new();
        // EIO when nobody has the other side any more.
        let _ = File::from(ours).read_to_end(&mut shown);
        child.wait().unwrap();
        String::from_utf8(shown).unwrap()
    }

    fn write(&self, folder: &str, name: &str, contents: &[u8]) {
        let folder = self.into.join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), contents).unwrap();
    }
}
