//! Places in the code of a program: lines of its source, and the functions from which a wait was called.

use serde::{Deserialize, Serialize};

/// A line of a program's source, as its compiler wrote it down.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceLine {
    /// The name of the file, without its folder.
    pub file: String,
    /// From 1.
    pub line: u32,
}

/// Where a wait began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Caller {
    /// How long the wait was, ns.
    pub ns: u64,
    /// The functions of the program with names, the innermost first; at most 12.
    pub frames: Vec<Frame>,
}

/// A function that called another one, or the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Frame {
    /// Its name in the source.
    pub function: String,
    /// The line that called, where it is in the function's own source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
    /// The path of the program or library.
    pub file: String,
}

/// Libraries of the system, by how the names of their files begin: those of C and C++, the virtual machine of Java, and what `punctual run` loads.
const LIBRARIES: [&str; 12] = [
    "ld-",
    "libc.so",
    "libc-",
    "libc.musl",
    "libm.so",
    "libpthread",
    "libstdc++",
    "libc++",
    "libgcc_s",
    "libjvm",
    "libjli",
    "libpunctual",
];
/// Functions of languages and their runtimes that are in the files of programs, by how their names begin: Rust, C++, libuv, what starts a
/// program, locks of static programs.
const LANGUAGES: [&str; 9] =
    ["std::", "core::", "alloc::", "__gnu_cxx::", "uv_", "_start", "__libc_", "__rust", "__lll_"];
/// Functions of Go in which its calls of the kernel are.
const GO: [&str; 4] = ["runtime.", "runtime/", "internal/", "syscall."];
/// The package of a Go program's own main function. Those of others have a host before the first slash; those of Go itself have none.
const GO_MAIN: &str = "main.";
/// Functions that run the code of scripts, by how their names begin: Python, Perl, Lua, PHP, Ruby, Node.js.
const INTERPRETERS: [&str; 7] = ["_PyEval_", "Perl_", "luaV_execute", "execute_ex", "vm_exec", "rb_vm_exec", "node::"];

/// Whether a function runs the code of a script: it says nothing of where in that.
#[must_use]
pub fn interprets(function: &str) -> bool {
    starts_with_one_of(function, &INTERPRETERS)
}

fn starts_with_one_of(name: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| name.starts_with(start))
}

impl Caller {
    /// The functions of the program itself, the innermost first; none of the libraries of its system and its language, and none at all where an
    /// interpreter runs it.
    pub fn own(&self) -> impl Iterator<Item = &Frame> {
        let is_script = self.frames.iter().any(|frame| interprets(&frame.function));
        let is_go = self.frames.first().is_some_and(|frame| starts_with_one_of(&frame.function, &GO));
        let is_own =
            move |frame: &&Frame| !is_script && if is_go { frame.is_of_go_program() } else { !frame.is_of_system() };
        self.frames.iter().filter(is_own)
    }
}

impl Frame {
    fn is_of_system(&self) -> bool {
        let file = self.file.rsplit('/').next().unwrap_or_default();
        starts_with_one_of(file, &LIBRARIES) || starts_with_one_of(&self.function, &LANGUAGES)
    }

    fn is_of_go_program(&self) -> bool {
        let host = self.function.split_once('/').map_or("", |(host, _)| host);
        self.function.starts_with(GO_MAIN) || host.contains('.')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(frames: &[(&str, &str)]) -> Option<String> {
        let frame = |(function, file): &(&str, &str)| Frame {
            function: (*function).to_owned(),
            file: (*file).to_owned(),
            ..Frame::default()
        };
        let caller = Caller { frames: frames.iter().map(frame).collect(), ..Caller::default() };
        caller.own().next().map(|frame| frame.function.clone())
    }

    #[test]
    fn a_function_of_the_program_is_named_and_none_of_its_system_or_language() {
        let libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
        let c = [("fdatasync", libc), ("commit", "/srv/store"), ("main", "/srv/store"), ("_start", "/srv/store")];
        assert_eq!(own(&c).as_deref(), Some("commit"));
        let rust = [("nanosleep", libc), ("std::thread::sleep", "/srv/app"), ("app::poll", "/srv/app")];
        assert_eq!(own(&rust).as_deref(), Some("app::poll"));
        assert_eq!(own(&[("pthread_cond_wait", libc), ("start_thread", libc)]), None);
    }

    #[test]
    fn of_go_the_packages_of_the_program_are_its_own() {
        let file = "/srv/service";
        let sync = [("internal/runtime/syscall.Syscall6", file), ("os.(*File).Sync", file), ("main.commit", file)];
        assert_eq!(own(&sync).as_deref(), Some("main.commit"));
        let module = [("runtime.futex.abi0", file), ("runtime.mcall", file), ("example.org/store.(*Log).Append", file)];
        assert_eq!(own(&module).as_deref(), Some("example.org/store.(*Log).Append"));
        assert_eq!(own(&[("runtime.futex.abi0", file)]), None);
    }

    #[test]
    fn an_interpreter_is_not_where_a_script_waits() {
        let frames = [("pysleep", "/usr/bin/python3"), ("_PyEval_EvalFrameDefault", "/usr/bin/python3")];
        assert_eq!(own(&frames), None);
        let node =
            [("epoll_pwait", "/usr/lib/libc.so.6"), ("uv__io_poll", "/usr/bin/node"), ("uv_run", "/usr/bin/node")];
        assert_eq!(own(&node), None);
        assert_eq!(own(&[&node[..], &[("node::SpinEventLoopInternal", "/usr/bin/node")]].concat()), None);
        assert_eq!(own(&[&node[..], &[("serve", "/srv/server")]].concat()).as_deref(), Some("serve"), "it links libuv");
        let jvm =
            [("jni_DestroyJavaVM", "/usr/lib/jvm/lib/server/libjvm.so"), ("JavaMain", "/usr/lib/jvm/lib/libjli.so")];
        assert_eq!(own(&jvm), None);
    }
}
