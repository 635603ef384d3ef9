//! The drawing in ARCHITECTURE.md is what the code does. It says which crate uses which, and the layers of each crate's top modules.
//! There is no circle among the files of a folder.

mod check;
mod drawing;
mod english;
mod flags;
mod graph;
mod lacks;
mod paths;
mod source;
mod workspace;

use std::path::Path;

use check::complaints;

#[test]
fn the_drawing_is_what_the_code_does() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let complaints = complaints(&workspace);
    assert!(complaints.is_empty(), "ARCHITECTURE.md and the code disagree:\n\n{}\n", complaints.join("\n\n"));
}

#[test]
fn no_text_below_the_command_names_its_flags() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    assert_eq!(flags::complaints(&workspace), [""; 0]);
    let found = |text| flags::flags(text).collect::<Vec<_>>();
    assert_eq!(found("is a thread (example: --pid 3 --thread x)"), ["--pid", "--thread"]);
    assert_eq!(found("chrt --fifo --pid 40 TID; a dash -- and a rule ---"), [""; 0]);
    assert_eq!(found("start the container with --cap-add SYS_NICE and --cpu 3"), ["--cpu"]);
}

#[test]
fn no_production_code_looks_for_english() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    assert_eq!(english::complaints(&workspace), [""; 0]);
    let found = |source| english::searched(source).into_iter().map(|(_, english)| english).collect::<Vec<_>>();
    assert_eq!(
        found(r#"fn f() { a.contains("more time") || b.split_once("gives up").is_some() }"#),
        ["more time", "gives up"]
    );
    assert_eq!(
        found(r#"fn f() { if a == "no way" || "at all" != a { a.find(&["one of", "two"][..]) } }"#),
        ["no way", "at all", "one of"]
    );
    assert_eq!(
        found(r#"fn f() { a.contains("word") || a.strip_prefix("cpu ") || a == "a b"; let b = "two words"; }"#),
        [""; 0]
    );
    assert_eq!(found(r#"#[cfg(test)] mod tests { fn f() { assert!(a.contains("more time")) } }"#), [""; 0]);
}

#[test]
fn no_test_says_that_a_machine_lacks_a_program() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    assert_eq!(lacks::complaints(&workspace), [""; 0]);
    let programs = ["musl-gcc".to_owned()].into();
    let found = |text| lacks::programs_lacked(text, &programs);
    assert_eq!(found("lacks(Lack::Call(\"musl-gcc\", 1))"), ["musl-gcc"]);
    assert_eq!(found("skip(\"musl-gcc\"); lacks(Lack::File(\"/dev/null\"))"), [""; 0]);
}

#[test]
fn the_files_that_documents_name_are_there() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    assert_eq!(paths::complaints(&workspace), [""; 0]);
    let found = |text| paths::paths(text).collect::<Vec<_>>();
    assert_eq!(
        found("see `lab/frame/plan.rs`, `crates/lab/src/families/` and `args/NAME.rs`"),
        ["lab/frame/plan.rs", "crates/lab/src/families/"]
    );
    let workspace = tempfile::tempdir().unwrap();
    std::fs::write(workspace.path().join("ARCHITECTURE.md"), "`lab/frame/old.rs`").unwrap();
    std::fs::write(workspace.path().join("CONTRIBUTING.md"), "").unwrap();
    assert_eq!(paths::complaints(workspace.path()), ["ARCHITECTURE.md: lab/frame/old.rs is not there"]);
}

/// A workspace of one crate, `one`, with these files in its `src`.
fn complaints_on(drawing: &str, files: &[(&str, &str)]) -> Vec<String> {
    let workspace = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = workspace.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("ARCHITECTURE.md", &format!("# Words\n```drawing\n[crates]\none ->\n{drawing}```\n"));
    write("crates/one/Cargo.toml", "[package]\nname = \"number-one\"\n");
    files.iter().for_each(|(path, text)| write(&format!("crates/one/src/{path}"), text));
    complaints(workspace.path())
}

const LIB: (&str, &str) = ("lib.rs", "mod high;\npub mod low;\npub use low::Thing;\n");

#[test]
fn an_import_from_a_layer_above_is_found() {
    let files = |low, high| [LIB, ("low.rs", low), ("high.rs", high)];
    let right = files("pub struct Thing;", "//! super::low\nuse crate::Thing;\nfn f() { crate::low::g() }");
    assert_eq!(complaints_on("[layers]\none: low < high\n", &right), [""; 0]);
    assert_eq!(
        complaints_on("[layers]\none: high < low\n", &right),
        ["crates/one/src/high.rs:2: crate::Thing: high uses low; in [layers] of one they are the other way round"],
    );
    let one_layer = complaints_on("[layers]\none: high low\n", &right);
    assert!(one_layer[0].ends_with("high uses low; in [layers] of one they are in one layer"), "{one_layer:?}");
    let apart = complaints_on("[layers]\none: *\n", &right);
    assert!(apart[0].ends_with("high uses low; in [layers] of one they are in one layer"), "{apart:?}");
    let in_tests = files("pub struct Thing;\n#[cfg(test)]\nmod tests {\nuse crate::high;\n}", "use crate::Thing;");
    assert_eq!(complaints_on("[layers]\none: low < high\n", &in_tests), [""; 0]);
}

#[test]
fn a_circle_is_found_wherever_it_is() {
    let folder =
        |a, b, c| [("lib.rs", "mod folder;"), ("folder/mod.rs", "mod a; mod b; mod c; pub use c::C;"), a, b, c];
    let (a, b) = (("folder/a.rs", "fn f() {\n    super::b::g()\n}"), ("folder/b.rs", "use super::C;"));
    let round = folder(a, b, ("folder/c.rs", "use crate::folder::{\n    a::f,\n};\npub struct C;"));
    let found = "a circle among the files of one/folder: a b c\n  crates/one/src/folder/a.rs:2: crate::folder::b::g: a uses b\n  \
                 crates/one/src/folder/b.rs:1: crate::folder::C: b uses c\n  crates/one/src/folder/c.rs:2: crate::folder::a::f: c uses a";
    assert_eq!(complaints_on("[layers]\none: folder\n", &round), [found]);
    let straight = folder(a, b, ("folder/c.rs", "pub struct C;"));
    assert_eq!(complaints_on("[layers]\none: folder\n", &straight), [""; 0]);
}

#[test]
fn a_folder_and_its_own_file_make_a_circle_too() {
    let own =
        |text| [("lib.rs", "mod folder;"), ("folder.rs", text), ("folder/a.rs", "use super::Own;\npub struct A;")];
    let passes_on = own("mod a;\npub use a::A;\npub struct Own;");
    assert_eq!(complaints_on("[layers]\none: folder\n", &passes_on), [""; 0]);
    let uses = complaints_on("[layers]\none: folder\n", &own("mod a;\npub struct Own(a::A);"));
    assert!(uses[0].starts_with("a circle among the files of one/folder: a mod\n"), "{uses:?}");
}

#[test]
fn what_is_drawn_is_there_and_what_is_there_is_drawn() {
    let files = [LIB, ("low.rs", "pub struct Thing;"), ("high.rs", "use crate::Thing;")];
    let with = |drawing: &str| complaints_on(drawing, &files).join("\n");
    let real = "the files have\none: low\n  < high";
    assert_eq!(with(""), format!("[layers] lacks one; {real}"));
    let renamed = format!("[layers] of one lacks `high` and names `old`, which is not there; {real}");
    assert_eq!(with("[layers]\none: low < old\n"), renamed);
    let right = "[layers]\none: low < high\n";
    assert_eq!(with(&format!("two -> one\n{right}")), "[crates] names two, and there is no such crate");
    let arrow = format!("one -> two\n{right}");
    assert_eq!(with(&arrow), "[crates] has `one -> two`; its Cargo.toml has `one -> `");
    assert!(with("nonsense\n[layers]\nnonsense\n").contains("`nonsense` cannot be read"));
}
