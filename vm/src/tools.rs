//! The host's programs that the lab runs.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// The programs, each with its Debian package.
const NEEDED: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("iasl", "acpica-tools"),
    ("busybox", "busybox-static"),
    ("modprobe", "kmod"),
    ("depmod", "kmod"),
    ("xz", "xz-utils"),
    ("zstd", "zstd"),
    ("dash", "dash"),
    ("ldd", "libc-bin"),
    ("dpkg", "dpkg"),
];

/// The programs missing on this host, each with its package. Empty: the lab can run.
#[must_use]
pub fn missing() -> Vec<String> {
    let lacks = NEEDED.iter().filter(|(program, _)| find(program).is_none());
    lacks.map(|(program, package)| format!("{program} (apt-get install {package})")).collect()
}

/// The path of a program. Searches the system's folders too, which a plain user's PATH may lack.
pub(crate) fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/bin"].map(Into::into));
    folders.map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

/// A command for a program of [`NEEDED`].
pub(crate) fn command(program: &str) -> anyhow::Result<Command> {
    let path =
        find(program).with_context(|| format!("{program} is not installed; see vm/README.md for the packages"))?;
    Ok(Command::new(path))
}

/// Runs a command and returns its stdout.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("running {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// Runs `program arguments` as a filter over `input`. Ignores its exit status: a kernel's payload has trailing bytes that the filter
/// refuses.
pub(crate) fn filter(program: &str, arguments: &[&str], input: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut child = command(program)?
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("running {program}"))?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    let output = std::thread::scope(|scope| {
        // The filter may stop reading early: its output shows whether it succeeded.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output()
    })?;
    if output.stdout.is_empty() {
        bail!("{program} produced no output");
    }
    Ok(output.stdout)
}

/// The contents of a file that modprobe names, decompressed by its extension, and its name without the extension.
pub(crate) fn module(path: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(plain) = name.strip_suffix(".xz") {
        return Ok((plain.to_owned(), filter("xz", &["-dc"], &bytes)?));
    }
    if let Some(plain) = name.strip_suffix(".zst") {
        return Ok((plain.to_owned(), filter("zstd", &["-dcq"], &bytes)?));
    }
    Ok((name, bytes))
}
