//! The page of a run with causes: bars inside the drawing, a timeline to choose.

use super::{at_peace, unfolded};
use crate::common::causes::program_run;

#[test]
fn causes_are_drawn_as_bars_and_timelines() {
    let mut run = program_run();
    let causes = run.causes.as_mut().unwrap();
    let again = causes.worst[0].clone();
    causes.worst.push(again);
    let Some((mut browser, _folder)) = unfolded(&run) else { return };
    let inside = "[...document.querySelectorAll('rect.bar')].filter(bar => bar.getBoundingClientRect().width > 0).every(bar => {
        const box = bar.getBoundingClientRect(), whole = bar.closest('svg').getBoundingClientRect();
        return box.left >= whole.left - 1 && box.right <= whole.right + 1 && box.top >= whole.top - 1 && box.bottom <= whole.bottom + 1;
    })";
    assert_eq!(browser.eval(inside), true);
    let bars = browser.eval("document.querySelectorAll('figure.picture svg .line rect.bar').length");
    // A bar for each cause of both calls and of two wake-ups, for each part and each stretch of two timelines.
    assert_eq!(bars, 5 + 2 * 3 + 2 * 9);
    let choice = browser.eval("document.querySelectorAll('.album select option').length");
    assert_eq!(choice, 2);
    at_peace(&browser);
    browser.emulate(360, "light", "screen");
    let wide = browser.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert!(wide.as_f64().unwrap() <= 0.0, "the page is {wide} px wider than a phone");
}
