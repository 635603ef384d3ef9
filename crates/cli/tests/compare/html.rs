//! The page of a comparison.

use crate::fixtures::{Folder, Made, USUAL, run};
use crate::punctual;

/// The page without style sheet and script, drawings by their lines only, one element to a line.
fn structure(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let text = rest[..start].trim();
        if !text.is_empty() {
            out.push_str(&format!("{text}\n"));
        }
        let end = rest[start..].find('>').map_or(rest.len(), |end| start + end + 1);
        let tag = &rest[start..end];
        rest = &rest[end..];
        for (opening, closing) in [("<style", "</style>"), ("<script", "</script>"), ("<svg", "</svg>")] {
            if tag.starts_with(opening) {
                let (inside, after) = rest.split_at(rest.find(closing).unwrap());
                for line in inside.split("data-label=\"").skip(1) {
                    out.push_str(&format!("line {}\n", line.split('"').next().unwrap()));
                }
                rest = after;
            }
        }
        if !tag.starts_with("</") && !tag.starts_with("<meta") && !tag.starts_with("<!") {
            out.push_str(&format!("{tag}\n"));
        }
    }
    out
}

fn runs() -> Folder {
    let folder = Folder::new();
    folder.save("a.json", &run(USUAL));
    folder.save("late.json", &run(Made { seed: 3, minute: 2, nanosleep: 1.2, kernel: "6.12.0-amd64", ..USUAL }));
    folder
}

#[test]
fn what_is_on_the_page() {
    let folder = runs();
    let args = ["compare", "a.json", "late.json", "--html", "-", "--fail-if", "p50 +10%"];
    let left = punctual(folder.path(), &args);
    assert_eq!(left.code, Some(3), "{}", left.stderr);
    assert!(left.stdout.starts_with("<!DOCTYPE html>") && left.stdout.ends_with("</body></html>\n"));
    insta::assert_snapshot!(structure(&left.stdout));
}

#[test]
fn in_a_file_beside_the_tables() {
    let folder = runs();
    let left = punctual(folder.path(), &["compare", "a.json", "late.json", "--html", "page.html"]);
    assert_eq!(left.code, Some(0), "{}", left.stderr);
    assert!(left.stdout.contains("nanosleep") && !left.stdout.contains("<!DOCTYPE"));
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("Changes and their intervals"));
    assert!(!page.contains("http://") && !page.contains("https://"), "nothing is loaded");
    for (target, word) in [("nowhere/page.html", "no folder"), (".", "folder")] {
        let left = punctual(folder.path(), &["compare", "a.json", "late.json", "--html", target]);
        assert_eq!((left.code, left.stdout.as_str()), (Some(2), ""), "{target}");
        assert!(left.stderr.contains(word), "{target}: {}", left.stderr);
    }
    let left = punctual(folder.path(), &["compare", "a.json", "late.json", "--html", "-", "--format", "json"]);
    assert_eq!(left.code, Some(2));
    assert!(left.stderr.contains("invalid --html '-'") && left.stderr.contains("--format json"), "{}", left.stderr);
    let left = punctual(folder.path(), &["report", "page.html"]);
    assert_eq!(left.code, Some(1));
    assert!(left.stderr.contains("holds no run"), "{}", left.stderr);
}
