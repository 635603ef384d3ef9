//! Lateness against CPU time, a panel for each duration.

use std::path::Path;

use plotters::prelude::*;

use super::{ASKED_NS, Figures};

const SIZE: (u32, u32) = (1_000, 760);
/// Axes: lateness from 10 ns to 1 ms, CPU share from 0.1 % to 100 %.
const LATENESS_US: std::ops::Range<f64> = 0.01..2_000.0;
const CPU_PERCENT: std::ops::Range<f64> = 0.1..200.0;

/// Colours that colour-blind eyes tell apart too (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(120, 120, 120),
    RGBColor(204, 121, 167),
];

/// Writes the plot: a dot at p50, a line up to p99.
pub(super) fn write(path: &Path, figures: &[&Figures]) -> anyhow::Result<()> {
    let failed = |e: &dyn std::fmt::Display| anyhow::anyhow!("drawing: {e}");
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(|e| failed(&e))?;
    let root = root
        .titled("lateness (dot: p50, line: to p99) against CPU time", ("sans-serif", 20))
        .map_err(|e| failed(&e))?;
    for (panel, asked) in root.split_evenly((2, 2)).iter().zip(ASKED_NS) {
        let caption = if asked >= 1_000_000 {
            format!("wait {} ms", asked / 1_000_000)
        } else {
            format!("wait {} µs", asked / 1_000)
        };
        let mut chart = ChartBuilder::on(panel)
            .caption(caption, ("sans-serif", 16))
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(52)
            .build_cartesian_2d(CPU_PERCENT.log_scale(), LATENESS_US.log_scale())
            .map_err(|e| failed(&e))?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc("CPU, %")
            .y_desc("lateness, µs")
            .draw()
            .map_err(|e| failed(&e))?;
        let here = figures.iter().filter(|f| f.asked_ns == asked);
        for (f, colour) in here.zip(COLOURS.iter().cycle()) {
            let at = (f.cpu_share * 100.0).clamp(CPU_PERCENT.start, CPU_PERCENT.end);
            let y = |ns: f64| (ns / 1e3).clamp(LATENESS_US.start, LATENESS_US.end);
            let line = [(at, y(f.p50)), (at, y(f.p99))];
            chart
                .draw_series(LineSeries::new(line, colour.stroke_width(2)))
                .map_err(|e| failed(&e))?
                .label(f.peer)
                .legend(|(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
            chart.draw_series([Circle::new((at, y(f.p50)), 5, colour.filled())]).map_err(|e| failed(&e))?;
        }
        let position = SeriesLabelPosition::LowerLeft;
        let mut labels = chart.configure_series_labels();
        labels.position(position).label_font(("sans-serif", 11)).background_style(WHITE.mix(0.8));
        if asked == ASKED_NS[0] {
            labels.draw().map_err(|e| failed(&e))?;
        }
    }
    root.present().map_err(|e| failed(&e))
}
