//! The first screen of a page, on a screen and on a phone; what is folded; what is printed.

use base64::Engine as _;
use serde_json::json;

use super::{at_peace, opened, runs, unfolded};

/// What stands on the first screen, and whether all of it is in sight.
const SCREEN: &str = "(() => {
    const see = (e) => { const b = e.getBoundingClientRect();
        return b.height > 0 && b.top >= 0 && b.left >= 0 && b.bottom <= innerHeight && b.right <= innerWidth + 1; };
    const all = (s) => [...document.querySelectorAll(s)];
    const figure = document.querySelector('figure.small');
    return { title: document.title, heading: document.querySelector('h1').textContent,
        caution: all('.answer .warning').filter(see).length, answer: all('.answer strong').filter(see).map(e => e.textContent),
        picture: see(figure), rows: [...figure.querySelectorAll('svg text')].filter(see).map(e => e.textContent),
        advice: all('.verdict li').length, seen: all('.verdict li').filter(see).length,
        trust: all('.verdict p').filter(see).map(e => e.textContent), wide: document.documentElement.scrollWidth - innerWidth,
        open: all('details[open]').length };
})()";

#[test]
fn the_first_screen_has_the_verdict_and_its_picture() {
    let run = runs::checkup();
    let Some((mut browser, _folder)) = opened(&run) else { return };
    for width in [1400, 400] {
        browser.emulate(width, "light", "screen");
        let page = browser.eval(SCREEN);
        assert_eq!(page["title"], "How late: AMD EPYC 7763 64-Core Processor, Linux 6.1.0, 2026-01-02");
        assert_eq!(page["heading"], page["title"]);
        assert_eq!(page["caution"], 1, "{width}: {page}");
        assert!(page["answer"][0].as_str().unwrap().starts_with("A sleep of 100"), "{width}: {page}");
        assert!(page["advice"].as_u64() >= Some(2) && page["seen"] == page["advice"], "{width}: {page}");
        assert!(page["trust"][0].as_str().unwrap().starts_with("Trust:"), "{width}: {page}");
        assert_eq!(
            (&page["picture"], &page["wide"], &page["open"]),
            (&json!(true), &json!(0), &json!(0)),
            "{width}: {page}"
        );
        let rows = page["rows"].as_array().unwrap();
        for row in ["as found", "slack 1 ns", "p50", "p99"] {
            assert!(rows.contains(&row.into()), "{width}: {row} is missing from {rows:?}");
        }
    }
    browser.photograph("first-screen-phone", 400);
    at_peace(&browser);
}

#[test]
fn what_is_folded_opens_by_a_click() {
    let Some((mut browser, _folder)) = opened(&runs::checkup()) else { return };
    let seen = "[...document.querySelectorAll('.chapter table')].filter(t => t.checkVisibility()).length";
    assert_eq!(browser.eval(seen), 0);
    browser.eval("document.querySelectorAll('.chapter > summary').forEach(s => s.click())");
    let opened = browser.eval(seen);
    assert!(opened.as_u64() >= Some(2), "{opened}");
    at_peace(&browser);
}

#[test]
fn latency_is_in_sight_on_a_phone_and_nothing_is_clipped_on_a_screen() {
    let Some((mut browser, _folder)) = opened(&runs::checkup()) else { return };
    browser.eval("document.querySelectorAll('.chapter').forEach(d => { d.open = true; })");
    for width in [1280, 1400, 1920] {
        browser.emulate(width, "light", "screen");
        let clipped = browser
            .eval("[...document.querySelectorAll('.wide, pre')].filter(d => d.scrollWidth > d.clientWidth).length");
        assert_eq!(clipped, 0, "{width}: tables that are wider than a screen");
    }
    browser.emulate(400, "light", "screen");
    // A wait's table has p50 and p99 in sight; what a narrow screen leaves out is named.
    let right = browser.eval(
        "[...document.querySelectorAll('.chapter table')].filter(t => t.querySelector('th').textContent === 'method')
            .flatMap(t => [...t.querySelectorAll('thead th')]).filter(t => ['p50', 'p99'].includes(t.textContent))
            .map(t => t.getBoundingClientRect().right)",
    );
    let right: Vec<f64> = right.as_array().unwrap().iter().filter_map(|edge| edge.as_f64()).collect();
    assert!(right.len() >= 4 && right.iter().all(|right| (1.0..=400.0).contains(right)), "{right:?}");
    let named = browser.eval("document.querySelector('.chapter .narrow').checkVisibility()");
    assert_eq!(named, true);
    at_peace(&browser);
}

#[test]
fn a_check_up_is_printed_whole_on_at_most_six_pages() {
    let Some((mut browser, _folder)) = opened(&runs::checkup()) else { return };
    let paper = json!({"paperWidth": 8.27, "paperHeight": 11.69});
    let pdf = browser.call("Page.printToPDF", paper);
    let pdf = base64::engine::general_purpose::STANDARD.decode(pdf["data"].as_str().unwrap()).unwrap();
    let text = String::from_utf8_lossy(&pdf);
    let pages = text.matches("/Type /Page\n").count();
    assert!((2..=6).contains(&pages), "{pages} pages");
    browser.emulate(718, "light", "print");
    let folded = browser.eval("[...document.querySelectorAll('.chapter table')].map(t => [t.checkVisibility(), t.closest('figure') !== null])");
    let tables = folded.as_array().unwrap().iter().filter(|table| table[1] == false);
    assert!(tables.clone().count() >= 4 && tables.clone().all(|table| table[0] == true), "{folded}");
    let drawings = browser.eval(
        "[...document.querySelectorAll('.drawing svg')].map(s => s.getBoundingClientRect()).filter(b => b.width)
            .map(b => [b.right <= innerWidth + 1, b.height < 500])",
    );
    let drawings = drawings.as_array().unwrap();
    assert!(drawings.len() >= 4 && drawings.iter().all(|drawing| *drawing == json!([true, true])), "{drawings:?}");
}

#[test]
fn no_text_of_a_picture_is_clipped() {
    let Some((mut browser, _folder)) = unfolded(&runs::everything()) else { return };
    for width in [1400, 400] {
        browser.emulate(width, "light", "screen");
        let page = browser.eval(
            "(() => { const small = [...document.querySelectorAll('figure.small svg')];
                const out = (svg) => [...svg.querySelectorAll('text')].filter(t => { const b = t.getBBox();
                    return b.x < 0 || b.x + b.width > svg.viewBox.baseVal.width + 1; }).map(t => t.textContent);
                return { small: small.length, names: small.flatMap(s => [...s.querySelectorAll('text')].map(t => t.textContent)),
                    out: small.flatMap(out) }; })()",
        );
        assert!(page["names"].as_array().unwrap().contains(&"memfd-sysv-sem".into()), "{page}");
        assert_eq!(page["out"], json!([]), "{width}: {page}");
    }
    at_peace(&browser);
}
