//! The page in a browser. It is opened from a file, pictures are drawn, and lines switched. Values are under the pointer. There
//! is no complaint and no network.

mod causes;
mod chromium;
mod runs;
mod screen;

use crate::forms::{unjudged, written};
use std::path::PathBuf;

use self::chromium::Browser;
use punctual_record::Run;
use punctual_report::compare::{Comparison, Options, Side, compare};
use punctual_report::export::html;

fn saved(run: &Run) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.html");
    std::fs::write(&path, written(html::write, run)).unwrap();
    (folder, path)
}

fn opened(run: &Run) -> Option<(Browser, tempfile::TempDir)> {
    let mut browser = Browser::start()?;
    let (folder, path) = saved(run);
    browser.emulate(1200, "light", "screen");
    browser.open(&path);
    Some((browser, folder))
}

/// The page with all that is folded opened.
fn unfolded(run: &Run) -> Option<(Browser, tempfile::TempDir)> {
    let (mut browser, folder) = opened(run)?;
    browser.eval("document.querySelectorAll('details.chapter').forEach(d => { d.open = true; })");
    Some((browser, folder))
}

fn at_peace(browser: &Browser) {
    assert!(browser.complaints().is_empty(), "{:#?}", browser.complaints());
    let others: Vec<&str> =
        browser.requests().into_iter().filter(|url| !url.starts_with("file:") && !url.starts_with("data:")).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// The run compared with itself some time later, one method much later than before.
fn compared(run: &Run) -> Comparison {
    let (mut old, mut new) = (Side::new(), Side::new());
    // The fixed runs put together have some series twice, as no run has.
    let mut seen = std::collections::BTreeSet::new();
    let mut first = punctual_record::identities(run).into_iter().map(|identity| seen.insert(identity));
    let mut run = run.clone();
    run.series.retain(|_| first.next().unwrap_or(false));
    let run = &run;
    let mut later = run.clone();
    later.started = "2026-11-21T09:00:00Z".parse().unwrap();
    later.host.kernel = Some("7.0.1 <b>".into());
    // The fixed runs have one disturbed round, so only large differences are significant.
    for series in
        later.series.iter_mut().filter(|series| series.rounds.len() >= 5 && series.experiment.wait().is_none()).take(2)
    {
        let times = |ns: &mut Option<i64>| *ns = ns.map(|ns| ns.saturating_mul(10_000));
        times(&mut series.summary.p50);
        times(&mut series.summary.p99);
        series.rounds.iter_mut().for_each(|round| times(&mut round.summary.p50));
    }
    old.add("old.json", run).unwrap();
    new.add("new <script>.json", &later).unwrap();
    compare(&old, &new, Options::default())
}

fn opened_comparison(run: &Run) -> Option<(Browser, tempfile::TempDir)> {
    let mut browser = Browser::start()?;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("comparison.html");
    std::fs::write(&path, written(html::write, &unjudged(compared(run)))).unwrap();
    browser.emulate(1200, "light", "screen");
    browser.open(&path);
    browser.eval("document.querySelectorAll('details.chapter').forEach(d => { d.open = true; })");
    Some((browser, folder))
}

#[test]
fn a_comparison_is_drawn_and_says_its_values() {
    let Some((mut browser, _folder)) = opened_comparison(&runs::everything()) else { return };
    browser.photograph("comparison", 1200);
    let chapters = browser.eval("[...document.querySelectorAll('h2')].map(h => h.textContent)");
    for title in ["Changes and their intervals", "Different", "What changed around it", "Runs"] {
        let named = |chapter: &serde_json::Value| chapter.as_str().is_some_and(|name| name.starts_with(title));
        assert!(chapters.as_array().unwrap().iter().any(named), "{title} is missing from {chapters}");
    }
    let spans = browser.eval(
        "(() => { const svg = document.querySelector('.album figure.picture .drawing svg'), box = svg.getBoundingClientRect();
            const lines = [...svg.querySelectorAll('.line:not(.off)')];
            const outside = [...svg.querySelectorAll('text')].filter(t => { const b = t.getBoundingClientRect();
                return b.width && (b.left < box.left - 1 || b.right > box.right + 1 || b.top < box.top - 1 || b.bottom > box.bottom + 1); });
            return { labels: lines.map(l => l.dataset.label), wide: lines.every(l => { const b = l.getBBox(); return b.width + b.height > 0; }),
                rings: svg.querySelectorAll('.line .ring').length, outside: outside.map(t => t.textContent) }; })()",
    );
    assert_eq!(spans["labels"], serde_json::json!(["p50", "p99", "no change"]), "{spans}");
    assert_eq!((&spans["wide"], &spans["outside"]), (&true.into(), &serde_json::json!([])), "{spans}");
    assert!(spans["rings"].as_u64().unwrap() >= 1, "what differs carries a ring: {spans}");
    // The first screen has old and new over each other, with both medians beside each row.
    let overlaid = browser.eval(
        "(() => { const svg = document.querySelector('.look figure.small svg'), box = svg.getBoundingClientRect();
            const texts = [...svg.querySelectorAll('text')];
            return { lines: [...svg.querySelectorAll('.line')].map(l => l.dataset.label), heads: texts.map(t => t.textContent),
                outside: texts.filter(t => t.getBoundingClientRect().right > box.right + 1 || t.getBoundingClientRect().left < box.left - 1).length }; })()",
    );
    assert_eq!(
        (&overlaid["lines"], &overlaid["outside"]),
        (&serde_json::json!(["old", "new"]), &0.into()),
        "{overlaid}"
    );
    assert!(
        ["old", "new"].iter().all(|head| overlaid["heads"].as_array().unwrap().contains(&(*head).into())),
        "{overlaid}"
    );
    browser.eval("document.querySelector('.album figure.picture .drawing svg').focus()");
    browser.press("ArrowRight", 39);
    let said = browser.eval("document.querySelector('.album .tip').textContent");
    let said = said.as_str().unwrap();
    assert!(said.contains("→") && said.contains('%') && said.contains('['), "{said:?}");
    assert_eq!(browser.eval("document.querySelectorAll('b, main script').length"), 0, "names stay text");
    assert!(browser.eval("document.body.textContent").as_str().unwrap().contains("new <script>.json"));
    browser.emulate(1200, "dark", "screen");
    browser.photograph("comparison-dark", 1200);
    browser.emulate(360, "light", "screen");
    let wide = browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert!(wide.as_f64().unwrap() <= 0.0, "the page is {wide} px wider than a phone");
    browser.photograph("comparison-phone", 360);
    at_peace(&browser);
}

#[test]
fn a_hostile_comparison_stays_text() {
    let mut run = runs::everything();
    let hostile = runs::hostile();
    (run.command, run.host, run.tool) = (hostile.command, hostile.host, hostile.tool);
    for (i, series) in run.series.iter_mut().enumerate() {
        series.subject = format!("<img src=x onerror=pwned=1></script><script>pwned=1</script>{i}\t\u{202e}");
    }
    let Some((mut browser, _folder)) = opened_comparison(&run) else { return };
    assert!(browser.eval("document.querySelectorAll('figure.picture').length").as_u64().unwrap() >= 1);
    assert_eq!(browser.eval("typeof window.pwned"), "undefined");
    let strange = browser.eval(
        "[...document.querySelectorAll('img,iframe,object,embed,form,base,[onerror],[onload],[onclick],a[href^=javascript]')].length
            + document.querySelectorAll('script').length - 1",
    );
    assert_eq!(strange, 0);
    assert!(browser.eval("document.body.textContent").as_str().unwrap().contains("<img src=x onerror=pwned=1>"));
    at_peace(&browser);
}

#[test]
fn every_picture_is_there_and_none_is_empty() {
    let Some((mut browser, _folder)) = unfolded(&runs::everything()) else { return };
    let kinds = browser.eval("[...document.querySelectorAll('.album h3')].map(h => h.textContent)");
    let kinds: Vec<&str> = kinds.as_array().unwrap().iter().filter_map(|kind| kind.as_str()).collect();
    for kind in [
        "Latency by percentile",
        "Histogram",
        "Lateness against CPU time",
        "Latency by size",
        "From CPU to CPU",
        "Getting up to speed",
        "Round by round",
    ] {
        assert!(kinds.contains(&kind), "{kind} is missing from {kinds:?}");
    }
    let empty = browser.eval(
        "[...document.querySelectorAll('figure.picture')].filter(f => !f.hidden).filter(f => {
            const svg = f.querySelector('.drawing svg'), box = svg.getBoundingClientRect();
            const drawn = [...svg.querySelectorAll('.line:not(.off)')].some(l => { const b = l.getBBox(); return b.width + b.height > 0; });
            return box.width < 300 || box.height < (f.matches('.small') ? 80 : 150) || !drawn || svg.querySelectorAll('text').length < 4;
        }).map(f => f.querySelector('figcaption').textContent)",
    );
    assert_eq!(empty, serde_json::json!([]));
    let outside = browser.eval(
        "[...document.querySelectorAll('figure.picture')].filter(f => !f.hidden).flatMap(f => {
            const svg = f.querySelector('.drawing svg'), box = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter(t => !t.closest('.off')).filter(t => {
                const b = t.getBoundingClientRect();
                return b.width && (b.left < box.left - 1 || b.right > box.right + 1 || b.top < box.top - 1 || b.bottom > box.bottom + 1);
            }).map(t => t.textContent);
        })",
    );
    assert_eq!(outside, serde_json::json!([]), "texts that leave their picture");
    at_peace(&browser);
}

#[test]
fn values_are_told_under_the_pointer_and_by_keys() {
    let Some((mut browser, _folder)) = unfolded(&runs::waits()) else { return };
    browser.eval("document.querySelector('.album figure.picture').scrollIntoView()");
    let place = browser.eval(
        "(() => { const svg = document.querySelector('.album .drawing svg');
            const [x, y] = svg.querySelector('.line').dataset.values.split('\\n')[2].split('\\t').map(Number);
            const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
            return [box.left + x * scale, box.top + y * scale]; })()",
    );
    assert_eq!(browser.eval("document.querySelector('.album .tip').hidden"), true);
    browser.point_at(place[0].as_f64().unwrap() + 2.0, place[1].as_f64().unwrap() + 2.0);
    let said = browser
        .eval("document.querySelector('.album .tip').hidden ? '' : document.querySelector('.album .tip').textContent");
    let said = said.as_str().unwrap();
    assert!(said.starts_with("clock_nanosleep_abs (baseline)") && said.contains("µs"), "{said:?}");
    browser.point_at(1.0, 1.0);
    assert_eq!(browser.eval("document.querySelector('.album .tip').hidden"), true);

    browser.eval("document.querySelector('.album .drawing svg').focus()");
    let mut told = Vec::new();
    for (key, code) in [("ArrowRight", 39), ("ArrowRight", 39), ("ArrowDown", 40), ("ArrowLeft", 37)] {
        browser.press(key, code);
        told.push(browser.eval("document.querySelector('.album .tip').textContent").as_str().unwrap().to_owned());
    }
    assert!(told[0].contains("min"), "{told:?}");
    assert!(told.windows(2).all(|pair| pair[0] != pair[1]), "{told:?}");
    browser.press("Escape", 27);
    assert_eq!(browser.eval("document.querySelector('.album .tip').hidden"), true);
    at_peace(&browser);
}

#[test]
fn lines_are_switched_and_albums_leafed_through() {
    let Some((mut browser, _folder)) = unfolded(&runs::waits()) else { return };
    let visible = "[...document.querySelector('.album figure.picture').querySelectorAll('.line')].filter(l => getComputedStyle(l).display !== 'none').length";
    let before = browser.eval(visible).as_u64().unwrap();
    assert!(before >= 2);
    let place = browser.eval(
        "(() => { const box = document.querySelector('.legend input'); box.scrollIntoView({block: 'center'});
            const r = box.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()",
    );
    let (x, y) = (place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    browser.click(x, y);
    assert_eq!(browser.eval(visible).as_u64(), Some(before - 1));
    browser.click(x, y);
    assert_eq!(browser.eval(visible).as_u64(), Some(before));
    browser.eval("document.querySelector('[data-show=none]').click()");
    assert_eq!(browser.eval(visible).as_u64(), Some(0));
    browser.eval("document.querySelector('[data-show=all]').click()");
    assert!(browser.eval(visible).as_u64() >= Some(before));

    let shown = "[...document.querySelector('.album').querySelectorAll('figure')].map(f => !f.hidden)";
    assert_eq!(browser.eval(shown), serde_json::json!([true, false]));
    browser.eval("(() => { const s = document.querySelector('.album select'); s.value = 1; s.dispatchEvent(new Event('change')); })()");
    assert_eq!(browser.eval(shown), serde_json::json!([false, true]));
    at_peace(&browser);
}

#[test]
fn light_dark_print_and_phone() {
    let Some((mut browser, _folder)) = unfolded(&runs::everything()) else { return };
    let contrast = "(() => {
        const rgb = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
        const light = (c) => { const [r, g, b] = rgb(c).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
        const paper = getComputedStyle(document.body).backgroundColor;
        const of = (s, p) => [...document.querySelectorAll(s)].map(e => ratio(getComputedStyle(e)[p], paper));
        return { text: Math.min(ratio(getComputedStyle(document.body).color, paper), ...of('p.faint', 'color')), lines: Math.min(...of('.stroke', 'stroke')) };
    })()";
    let paper = "getComputedStyle(document.body).backgroundColor";
    let mut papers = Vec::new();
    for (scheme, medium) in [("light", "screen"), ("dark", "screen"), ("dark", "print")] {
        browser.emulate(1200, scheme, medium);
        papers.push(browser.eval(paper).as_str().unwrap().to_owned());
        let ratios = browser.eval(contrast);
        // WCAG 2.1: 4.5 for text, 3 for what is drawn.
        assert!(ratios["text"].as_f64().unwrap() >= 4.5, "{scheme} {medium}: {ratios}");
        assert!(ratios["lines"].as_f64().unwrap() >= 3.0, "{scheme} {medium}: {ratios}");
        browser.photograph(&format!("{scheme}-{medium}"), 1200);
    }
    assert_ne!(papers[0], papers[1]);
    assert_eq!(papers[0], papers[2], "printed on white");
    let pdf = browser.call("Page.printToPDF", serde_json::json!({}));
    assert!(pdf["data"].as_str().unwrap().len() > 10_000);

    browser.emulate(360, "light", "screen");
    let wide = browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    let widest = browser.eval(
        "[...document.body.querySelectorAll('*')].filter(e => !e.closest('.wide, .drawing, pre') && e.getBoundingClientRect().right > 361)
            .map(e => e.tagName + '.' + e.className).slice(0, 5)",
    );
    assert!(wide.as_f64().unwrap() <= 0.0, "the page is {wide} px wider than a phone: {widest}");
    browser.photograph("phone", 360);
    at_peace(&browser);
}

#[test]
fn everything_is_reached_by_tab() {
    let Some((mut browser, _folder)) = unfolded(&runs::waits()) else { return };
    let mut reached = std::collections::BTreeSet::new();
    for _ in 0..400 {
        browser.press("Tab", 9);
        let at =
            browser.eval("(() => { const e = document.activeElement; return e ? e.tagName.toLowerCase() : ''; })()");
        reached.insert(at.as_str().unwrap().to_owned());
    }
    for kind in ["svg", "input", "button", "select", "summary"] {
        assert!(reached.contains(kind), "{kind} is not reached: {reached:?}");
    }
    at_peace(&browser);
}

#[test]
fn a_hostile_run_stays_text() {
    let Some((mut browser, _folder)) = opened(&runs::hostile()) else { return };
    assert_eq!(browser.eval("typeof window.pwned"), "undefined");
    let strange = browser.eval(
        "[...document.querySelectorAll('img,iframe,object,embed,form,base,[onerror],[onload],[onclick],a[href^=javascript]')].length
            + document.querySelectorAll('script').length - 2",
    );
    assert_eq!(strange, 0);
    let text = browser.eval("document.body.textContent");
    assert!(text.as_str().unwrap().contains("<img src=x onerror=pwned=1>"), "names are shown as they are");
    at_peace(&browser);
}

#[test]
fn the_run_comes_back_out_of_its_page() {
    let page_of = |run: &Run| {
        let page = written(html::write, run).into_bytes();
        assert!(html::is_page(&page));
        Run::from_json(html::embedded_run(&page).unwrap())
    };
    for run in [runs::waits(), runs::everything()] {
        assert_eq!(page_of(&run).unwrap(), run);
    }
    // It comes back whole, and is then refused for its numbers.
    assert!(page_of(&runs::hostile()).unwrap_err().to_string().contains("count 18446744073709551615"));
}
