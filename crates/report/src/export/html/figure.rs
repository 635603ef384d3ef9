//! A [`Picture`] as a `figure` of the page, and tables: those of the report, and the figures of a picture.

use maud::{Markup, html};

use crate::document::{Align, Column, Form, Line, Paint, Picture, Point, Row, Table};
use crate::export::html::drawing;
use crate::export::html::drawing::{FINE, Frame, Tag};

/// Half the width of a mark, in units of the drawing.
const HALF: i32 = 4 * FINE;

/// The picture as a figure; `id` is unique within the page.
pub(super) fn figure(picture: &Picture, id: &str) -> Markup {
    html! {
        figure class="picture" id=(id) {
            figcaption { strong { (picture.title) } " " span class="faint" { (picture.about) } }
            (drawing(picture, &Frame::around(picture), &html! {}, id))
            @if picture.lines.len() > 1 { (legend(picture)) }
            @if !picture.table.rows.is_empty() { details { summary { "Figures" } (table(&picture.table)) } }
        }
    }
}

/// The picture as a small figure that has its figures beside its rows.
pub(super) fn small(picture: &Picture, id: &str) -> Markup {
    let frame = Frame::small(picture);
    html! {
        figure class="picture small" id=(id) {
            figcaption { strong { (picture.title) } }
            (drawing(picture, &frame, &frame.figures(), id))
        }
    }
}

/// The drawing; `more` stands between its axes and its lines.
fn drawing(picture: &Picture, frame: &Frame<'_>, more: &Markup, id: &str) -> Markup {
    let (width, height) = frame.size;
    let tags = drawing::tags(&picture.lines, frame);
    html! {
        div class="drawing" {
            svg viewBox=(format!("0 0 {width} {height}")) role="group" tabindex="0" aria-labelledby=(format!("{id}-t {id}-k")) {
                title id=(format!("{id}-t")) { (picture.title) }
                (frame.axes())
                (more)
                @for (number, (line, tags)) in picture.lines.iter().zip(&tags).enumerate() { (drawn(line, number, tags, frame)) }
                circle class="ring here" r=(HALF * 2) cx="0" cy="0" {}
            }
            p class="tip" role="status" aria-live="polite" hidden {}
        }
        p class="keys faint" id=(format!("{id}-k")) { "Values: pointer, or arrow keys once the picture has the focus." }
    }
}

/// The legend: a check box per line, with a sample of its stroke and mark.
fn legend(picture: &Picture) -> Markup {
    html! {
        fieldset class="legend" {
            legend { "Shown" }
            button type="button" data-show="all" { "all" } " "
            button type="button" data-show="none" { "none" }
            @for (number, line) in picture.lines.iter().enumerate() {
                label class=(drawing::class(number)) {
                    input type="checkbox" data-line=(number) checked[line.shown];
                    svg class="sample" viewBox="0 0 144 48" aria-hidden="true" {
                        @if !matches!(line.form, Form::Dots | Form::Cells | Form::Bars) { path class="stroke" d="M4 24H140" {} }
                        @if line.form == Form::Bars { rect class="bar" x="4" y="4" width="136" height="40" {} }
                        @else { path class="marks" d=(drawing::mark(number, (72, 24), HALF)) {} }
                    }
                    span { (line.label) }
                }
            }
        }
    }
}

/// The line as a group, which holds its values for the script. It has one point a line, place and words between tabs.
fn drawn(line: &Line, number: usize, tags: &[Option<Tag>], frame: &Frame<'_>) -> Markup {
    let places: Vec<(i32, i32)> = line.points.iter().map(|point| frame.place(point.x, point.y)).collect();
    let value = |(point, (x, y)): (&Point, &(i32, i32))| format!("{x}\t{y}\t{}", point.says);
    let values: Vec<String> = line.points.iter().zip(&places).map(value).collect();
    let class = format!("line {}{}", drawing::class(number), if line.shown { "" } else { " off" });
    html! {
        g class=(class) data-line=(number) data-label=(line.label) data-values=(values.join("\n")) {
            @match line.form {
                Form::Curve => { path class="stroke" d=(joined(&places)) {} }
                Form::Steps => { path class="stroke" d=(stepped(&places)) {} }
                Form::Dots => { path class="stroke thin" d=(whiskers(line, &places, frame)) {} }
                Form::Cells => { (cells(line, frame)) }
                Form::Spans => {
                    path class="stroke" d=(across(line, frame, |point| point.span)) {}
                    path class="interval" d=(across(line, frame, |point| point.interval)) {}
                }
                Form::Bars => { (bars(line, frame)) }
            }
            @let shapes = |(point, at): (&Point, &(i32, i32))| if frame.holds(point) { drawing::mark(number, *at, HALF) } else { drawing::cross(*at, HALF) };
            @let marks: String = line.points.iter().zip(&places).filter(|(point, _)| point.mark).map(shapes).collect();
            @if !marks.is_empty() { path class="marks" d=(marks) {} }
            @for (i, (point, at)) in line.points.iter().zip(&places).enumerate() {
                @if point.ring { circle class="ring" cx=(at.0) cy=(at.1) r=(HALF * 2) {} }
                @if let Some(text) = point.tag.as_ref().filter(|_| line.form != Form::Bars) {
                    @if line.form == Form::Cells { @if frame.fits() { (centred(text, point, *at)) } }
                    @else if let Some(Some(tag)) = tags.get(i) { (tagged(text, *tag)) }
                }
            }
        }
    }
}

fn centred(text: &str, point: &Point, (x, y): (i32, i32)) -> Markup {
    // Above this the shade is nearer to the ink than to the paper.
    let class = if point.shade > 0.55 { "tag on-dark" } else { "tag" };
    html! { text class=(class) x=(x) y=(y) dy=(4 * FINE) text-anchor="middle" { (text) } }
}

fn tagged(text: &str, tag: Tag) -> Markup {
    let anchor = if tag.ends { "end" } else { "start" };
    html! { text class="tag" x=(tag.x) y=(tag.y) text-anchor=(anchor) { (text) } }
}

fn joined(places: &[(i32, i32)]) -> String {
    let step = |(i, (x, y)): (usize, &(i32, i32))| format!("{}{x} {y}", if i == 0 { 'M' } else { 'L' });
    places.iter().enumerate().map(step).collect()
}

fn stepped(places: &[(i32, i32)]) -> String {
    let step = |(i, (x, y)): (usize, &(i32, i32))| if i == 0 { format!("M{x} {y}") } else { format!("H{x}V{y}") };
    places.iter().enumerate().map(step).collect()
}

fn whiskers(line: &Line, places: &[(i32, i32)], frame: &Frame<'_>) -> String {
    let whisker = |(point, (x, y)): (&Point, &(i32, i32))| {
        point.up_to.map(|to| format!("M{x} {y}V{}", frame.place(point.x, to).1))
    };
    line.points.iter().zip(places).filter_map(whisker).collect()
}

/// A stroke for each point that has both ends.
fn across(line: &Line, frame: &Frame<'_>, both_ends: fn(&Point) -> Option<(f64, f64)>) -> String {
    let stroke = |point: &Point| {
        let (from, to) = both_ends(point)?;
        let ((from, y), (to, _)) = (frame.place(from, point.y), frame.place(to, point.y));
        Some(format!("M{from} {y}H{to}"))
    };
    line.points.iter().filter_map(stroke).collect()
}

/// Bars, the tag inside those that are long enough.
fn bars(line: &Line, frame: &Frame<'_>) -> Markup {
    /// Half the height of a bar, as a share of its row, and about the width of a letter.
    const HIGH: f64 = 0.4;
    const LETTER: i32 = 7 * FINE;
    html! {
        @for (point, (from, to)) in line.points.iter().filter_map(|point| Some((point, point.span?))) {
            @let ((left, top), (right, bottom)) = (frame.place(from, point.y + HIGH), frame.place(to, point.y - HIGH));
            @let width = (right - left).max(FINE);
            rect class="bar" x=(left) y=(top) width=(width) height=(bottom - top) {}
            @if let Some(text) = point.tag.as_ref().filter(|text| (text.chars().count() as i32 + 1) * LETTER < width) {
                text class="tag on-bar" x=(left + width / 2) y=((top + bottom) / 2) dy=(4 * FINE) text-anchor="middle" { (text) }
            }
        }
    }
}

/// Squares of one unit around each point.
fn cells(line: &Line, frame: &Frame<'_>) -> Markup {
    html! {
        @for point in &line.points {
            @let (left, top) = frame.place(point.x - 0.5, point.y + 0.5);
            @let (right, bottom) = frame.place(point.x + 0.5, point.y - 0.5);
            rect class="cell" x=(left) y=(top) width=((right - left).max(1)) height=((bottom - top).max(1))
                fill-opacity=(format!("{:.2}", 0.06 + 0.94 * point.shade)) {}
        }
    }
}

/// A table that can be scrolled where it is wide. A narrow screen leaves out columns before the last that always stay, and
/// says so. Those are then in sight.
pub(super) fn table(table: &Table) -> Markup {
    let spare = spare(&table.columns);
    let class = |i: usize| {
        let align = match table.columns.get(i)?.align {
            Align::Left => "",
            Align::Right => "figure",
            Align::Drawn => "drawn",
        };
        let class = if spare.contains(&i) { format!("{align} spare") } else { align.to_owned() };
        Some(class.trim_start().to_owned()).filter(|class| !class.is_empty())
    };
    let rest = table.rest().map(Row::Label);
    let names: Vec<&str> = spare.iter().map(|i| table.columns[*i].heading.as_ref()).collect();
    html! {
        div class="wide" tabindex="0" role="group" aria-label="Table" {
            table {
                thead {
                    @if table.columns.iter().any(|column| !column.over.is_empty()) {
                        tr { @for group in table.columns.chunk_by(|a, b| a.over == b.over) { th scope="colgroup" colspan=(group.len()) { (group[0].over) } } }
                    }
                    tr { @for (i, column) in table.columns.iter().enumerate() { th scope="col" class=[class(i)] { (column.heading) } } }
                }
                tbody { @for content in table.rows.iter().chain(&rest) { (row(content, table.columns.len(), &class)) } }
            }
        }
        @if !names.is_empty() { p class="faint narrow" { "Not on a narrow screen: " (names.join(", ")) "." } }
    }
}

fn row(row: &Row, columns: usize, class: &dyn Fn(usize) -> Option<String>) -> Markup {
    match row {
        Row::Label(label) => html! { tr { th colspan=(columns) class="label" scope="rowgroup" { (label) } } },
        Row::Cells(cells, paint) => html! {
            tr class=[(*paint == Paint::Faint).then_some("faint")] {
                @for (i, cell) in cells.iter().enumerate() {
                    @if i == 0 { th scope="row" { (cell) } } @else { td class=[class(i)] { (cell) } }
                }
            }
        },
    }
}

/// The places of columns that a terminal may drop, before the last one that it may not. Headings over several columns keep all.
fn spare(columns: &[Column]) -> Vec<usize> {
    let stays = |column: &Column| column.keep == Column::ALWAYS && !column.joined;
    if columns.iter().any(|column| !column.over.is_empty()) {
        return Vec::new();
    }
    let last = columns.iter().rposition(stays).unwrap_or(0);
    (1..last).filter(|i| !stays(&columns[*i])).collect()
}
