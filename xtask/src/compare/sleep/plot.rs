//! A plot of lateness against CPU time as SVG, one panel per duration.

use std::fmt::Write as _;
use std::path::Path;

use super::figures::{ASKED_NS, Figures};

/// Width and height of a panel in pixels; there are two in a row.
const PANEL: (f64, f64) = (500.0, 360.0);
/// Height of the title above the panels.
const TITLE: f64 = 40.0;
/// Pixels around the data of a panel: left, top, right, bottom.
const AROUND: [f64; 4] = [60.0, 30.0, 20.0, 50.0];
/// Decades of the axes: lateness from 10 ns to 10 ms in µs, CPU share from 0.1 % to 1000 %.
const LATENESS_US: (i32, i32) = (-2, 4);
const CPU_PERCENT: (i32, i32) = (-1, 3);

/// Colours distinguishable with colour blindness (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#56b4e9", "#009e73", "#d55e00", "#e69f00", "#787878", "#cc79a7"];

/// Writes the plot: a dot at p50, a line up to p99.
pub(super) fn write(path: &Path, figures: &[&Figures]) -> anyhow::Result<()> {
    std::fs::write(path, drawn(figures)?)?;
    Ok(())
}

fn drawn(figures: &[&Figures]) -> Result<String, std::fmt::Error> {
    let (width, height) = (2.0 * PANEL.0, TITLE + 2.0 * PANEL.1);
    let mut svg = String::new();
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">"#
    )?;
    writeln!(svg, r#"<rect width="100%" height="100%" fill="white"/>"#)?;
    let title = "lateness (dot: p50, line: to p99) against CPU time";
    writeln!(svg, r#"<text x="{}" y="26" font-size="20" text-anchor="middle">{title}</text>"#, width / 2.0)?;
    for (index, asked) in ASKED_NS.iter().enumerate() {
        let corner = ((index % 2) as f64 * PANEL.0, TITLE + (index / 2) as f64 * PANEL.1);
        writeln!(svg, r#"<g transform="translate({} {})">"#, corner.0, corner.1)?;
        axes(&mut svg, *asked)?;
        let here = figures.iter().filter(|figures| figures.asked_ns == *asked);
        for (row, (figures, colour)) in here.zip(COLOURS.iter().cycle()).enumerate() {
            method(&mut svg, figures, colour, (index == 0).then_some(row))?;
        }
        writeln!(svg, "</g>")?;
    }
    writeln!(svg, "</svg>")?;
    Ok(svg)
}

/// Where a share of CPU time stands, in pixels of the panel.
fn across(percent: f64) -> f64 {
    let (low, high) = (f64::from(CPU_PERCENT.0), f64::from(CPU_PERCENT.1));
    AROUND[0] + (percent.log10().clamp(low, high) - low) / (high - low) * (PANEL.0 - AROUND[0] - AROUND[2])
}

/// Where a lateness stands.
fn up(us: f64) -> f64 {
    let (low, high) = (f64::from(LATENESS_US.0), f64::from(LATENESS_US.1));
    PANEL.1 - AROUND[3] - (us.log10().clamp(low, high) - low) / (high - low) * (PANEL.1 - AROUND[1] - AROUND[3])
}

/// A line and a label for each decade.
fn axes(svg: &mut String, asked_ns: i64) -> std::fmt::Result {
    let (left, right, top, bottom) = (AROUND[0], PANEL.0 - AROUND[2], AROUND[1], PANEL.1 - AROUND[3]);
    let asked = if asked_ns >= 1_000_000 {
        format!("{} ms", asked_ns / 1_000_000)
    } else {
        format!("{} µs", asked_ns / 1_000)
    };
    writeln!(svg, r#"<text x="{}" y="20" font-size="16" text-anchor="middle">wait {asked}</text>"#, PANEL.0 / 2.0)?;
    for decade in CPU_PERCENT.0..=CPU_PERCENT.1 {
        let (x, label) = (across(10_f64.powi(decade)), 10_f64.powi(decade));
        writeln!(svg, r##"<path d="M{x:.1} {top}V{bottom}" stroke="#ddd"/>"##)?;
        writeln!(svg, r#"<text x="{x:.1}" y="{}" text-anchor="middle">{label}</text>"#, bottom + 16.0)?;
    }
    for decade in LATENESS_US.0..=LATENESS_US.1 {
        let (y, label) = (up(10_f64.powi(decade)), 10_f64.powi(decade));
        writeln!(svg, r##"<path d="M{left} {y:.1}H{right}" stroke="#ddd"/>"##)?;
        writeln!(svg, r#"<text x="{}" y="{:.1}" text-anchor="end">{label}</text>"#, left - 6.0, y + 4.0)?;
    }
    writeln!(svg, r#"<text x="{}" y="{}" text-anchor="middle">CPU, %</text>"#, PANEL.0 / 2.0, PANEL.1 - 12.0)?;
    writeln!(svg, r#"<text transform="translate(14 {}) rotate(-90)">lateness, µs</text>"#, PANEL.1 / 2.0 + 36.0)
}

/// A method's dot and line, and its row in the legend.
fn method(svg: &mut String, figures: &Figures, colour: &str, legend: Option<usize>) -> std::fmt::Result {
    let x = across(figures.cpu_share * 100.0);
    let (p50, p99) = (up(figures.p50 / 1e3), up(figures.p99 / 1e3));
    writeln!(svg, r#"<path d="M{x:.1} {p50:.1}V{p99:.1}" stroke="{colour}" stroke-width="2"/>"#)?;
    writeln!(svg, r#"<circle cx="{x:.1}" cy="{p50:.1}" r="5" fill="{colour}"/>"#)?;
    let Some(row) = legend else { return Ok(()) };
    let y = AROUND[1] + 14.0 + 16.0 * row as f64;
    writeln!(svg, r#"<circle cx="{}" cy="{}" r="4" fill="{colour}"/>"#, PANEL.0 - 150.0, y - 4.0)?;
    writeln!(svg, r#"<text x="{}" y="{y}">{}</text>"#, PANEL.0 - 140.0, figures.peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_run_from_end_to_end() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(across(0.1), AROUND[0]) && near(across(1e3), PANEL.0 - AROUND[2]));
        assert!(near(up(0.01), PANEL.1 - AROUND[3]) && near(up(1e4), AROUND[1]));
        assert!(near(across(0.0), AROUND[0]), "nothing is beyond the axis");
        assert_eq!(drawn(&[]).unwrap().matches("<g ").count(), ASKED_NS.len());
    }
}
