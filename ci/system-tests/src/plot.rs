//! Line charts as SVG: sizes along, times or rates up, both logarithmic, one line per series.
//!
//! A pure function from numbers to text. The picture carries two sets of colours and follows the
//! reader's light or dark surroundings; it needs no font, script or other file.
//!
//! ```text
//!   title
//!   unit
//!   100 |                          o
//!    10 |            o      o
//!     1 |__o____o_______________________
//!         1    32    1K    32K    1M   bytes
//!   --o-- series a  --o-- series b            (legend)
//! ```

use std::fmt::Write as _;

/// One line of a chart.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name of the series in the legend.
    pub name: String,
    /// Size in bytes, and value in the unit of the chart. Points that are not above zero have no
    /// place on a logarithmic axis and are left out.
    pub points: Vec<(f64, f64)>,
}

/// A chart of several series.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title of the chart.
    pub title: String,
    /// Unit of the values, as "microseconds".
    pub unit: String,
    /// The lines; the first eight have colours of their own.
    pub series: Vec<Series>,
}

/// Draws the charts side by side into one SVG picture.
pub fn svg(charts: &[Chart]) -> String {
    let (width, height) = (PANEL_WIDTH * charts.len().max(1) as f64, PANEL_HEIGHT);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n{STYLE}\
         <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n"
    );
    for (index, chart) in charts.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate({} 0)\">", PANEL_WIDTH * index as f64);
        panel(&mut out, chart);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn panel(out: &mut String, chart: &Chart) {
    let drawn = drawable(&chart.series);
    text(out, "title", LEFT, 26.0, "start", &chart.title);
    text(out, "label", LEFT, 46.0, "start", &chart.unit);
    legend(out, &chart.series);
    let Some(frame) = Frame::around(&drawn) else {
        text(out, "label", LEFT + 20.0, PANEL_HEIGHT / 2.0, "start", "nothing was measured");
        return;
    };
    grid(out, &frame);
    for (index, points) in drawn.iter().enumerate() {
        line(out, &frame, &chart.series[index].name, index, points);
    }
}

/// The points of each series that a logarithmic chart can show.
fn drawable(series: &[Series]) -> Vec<Vec<(f64, f64)>> {
    let fits = |&(x, y): &(f64, f64)| 0.0 < x && 0.0 < y && x.is_finite() && y.is_finite();
    series.iter().map(|series| series.points.iter().copied().filter(fits).collect()).collect()
}

/// Where numbers lie on the panel: whole powers of two along, whole powers of ten up.
struct Frame {
    x_min_log2: f64,
    x_max_log2: f64,
    y_min_log10: f64,
    y_max_log10: f64,
}

impl Frame {
    /// The smallest frame with all points in it; none when there is no point.
    fn around(lines: &[Vec<(f64, f64)>]) -> Option<Frame> {
        let points = || lines.iter().flatten();
        points().next()?;
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min).floor();
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max).ceil();
        let x_min_log2 = least(&mut points().map(|point| point.0.log2()));
        let y_min_log10 = least(&mut points().map(|point| point.1.log10()));
        Some(Frame {
            x_min_log2,
            x_max_log2: most(&mut points().map(|point| point.0.log2())).max(x_min_log2 + 1.0),
            y_min_log10,
            y_max_log10: most(&mut points().map(|point| point.1.log10())).max(y_min_log10 + 1.0),
        })
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value.log2() - self.x_min_log2) / (self.x_max_log2 - self.x_min_log2);
        LEFT + share * (RIGHT - LEFT)
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value.log10() - self.y_min_log10) / (self.y_max_log10 - self.y_min_log10);
        BOTTOM - share * (BOTTOM - TOP)
    }
}

fn grid(out: &mut String, frame: &Frame) {
    for power in frame.y_min_log10 as i32..=frame.y_max_log10 as i32 {
        let value = 10f64.powi(power);
        let y = frame.y(value);
        let _ = writeln!(out, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        text(out, "label", LEFT - 8.0, y + 4.0, "end", &plain(value));
    }
    let span = (frame.x_max_log2 - frame.x_min_log2) as i32;
    let stride = (span / 6).max(1);
    for power in (frame.x_min_log2 as i32..=frame.x_max_log2 as i32).step_by(stride as usize) {
        let value = 2f64.powi(power);
        let x = frame.x(value);
        let _ = writeln!(out, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/>");
        text(out, "label", x, BOTTOM + 18.0, "middle", &size(value));
    }
    text(out, "label", (LEFT + RIGHT) / 2.0, BOTTOM + 38.0, "middle", "message size in bytes");
}

fn line(out: &mut String, frame: &Frame, name: &str, index: usize, points: &[(f64, f64)]) {
    let colour = index % COLOURS;
    let mut path = String::new();
    for (step, &(x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{:.1} {:.1}", if step == 0 { 'M' } else { 'L' }, frame.x(x), frame.y(y));
    }
    let _ = writeln!(out, "<path class=\"line s{colour}\" d=\"{path}\"/>");
    for &(x, y) in points {
        let _ = writeln!(
            out,
            "<circle class=\"dot s{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.6\"><title>{}, {} B: {}</title></circle>",
            frame.x(x),
            frame.y(y),
            escaped(name),
            size(x),
            plain(y)
        );
    }
}

/// From left to right below the chart, in as many lines as it takes.
fn legend(out: &mut String, series: &[Series]) {
    let (mut x, mut y) = (LEFT, LEGEND);
    for (index, series) in series.iter().enumerate() {
        let colour = index % COLOURS;
        let width = 28.0 + 7.0 * series.name.chars().count() as f64;
        if RIGHT < x + width && LEFT < x {
            (x, y) = (LEFT, y + 18.0);
        }
        let _ = writeln!(out, "<path class=\"line s{colour}\" d=\"M{x:.1} {:.1}h22\"/>", y - 4.0);
        text(out, "label", x + 28.0, y, "start", &series.name);
        x += width + 14.0;
    }
}

fn text(out: &mut String, class: &str, x: f64, y: f64, anchor: &str, words: &str) {
    let words = escaped(words);
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

fn escaped(words: &str) -> String {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    // Control characters have no place in XML, escaped or not.
    words.chars().filter(|letter| !letter.is_control()).collect()
}

/// 1, 512, 4K, 1M, 2G.
pub fn size(bytes: f64) -> String {
    let units = [(1u64 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    for (unit, letter) in units {
        if unit as f64 <= bytes {
            return format!("{}{letter}", plain(bytes / unit as f64));
        }
    }
    plain(bytes)
}

/// Three digits that count, and no zeros behind them.
fn plain(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

const PANEL_WIDTH: f64 = 560.0;
const PANEL_HEIGHT: f64 = 416.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 530.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 320.0;
const LEGEND: f64 = 384.0;
const COLOURS: usize = 8;
const STYLE: &str = "<style>
.ground{fill:#ffffff}.title{fill:#1a1d21;font-size:15px;font-weight:600}.label{fill:#5b6470}
.grid{stroke:#e3e7ec;fill:none}.line{fill:none;stroke-width:2;stroke-linejoin:round}.dot{stroke:none}
.line.s0{stroke:#2563eb}.dot.s0{fill:#2563eb}.line.s1{stroke:#d9730d}.dot.s1{fill:#d9730d}
.line.s2{stroke:#0f9d76}.dot.s2{fill:#0f9d76}.line.s3{stroke:#a63fb5}.dot.s3{fill:#a63fb5}
.line.s4{stroke:#8a6d1a}.dot.s4{fill:#8a6d1a}.line.s5{stroke:#c8324b}.dot.s5{fill:#c8324b}
.line.s6{stroke:#5b6470}.dot.s6{fill:#5b6470}.line.s7{stroke:#1592ad}.dot.s7{fill:#1592ad}
@media (prefers-color-scheme:dark){
.ground{fill:#14171b}.title{fill:#eceff3}.label{fill:#9aa4b1}.grid{stroke:#2b3138}
.line.s0{stroke:#74a5ff}.dot.s0{fill:#74a5ff}.line.s1{stroke:#ffab5e}.dot.s1{fill:#ffab5e}
.line.s2{stroke:#4fd6ab}.dot.s2{fill:#4fd6ab}.line.s3{stroke:#dd8ae8}.dot.s3{fill:#dd8ae8}
.line.s4{stroke:#dcbc5c}.dot.s4{fill:#dcbc5c}.line.s5{stroke:#ff8095}.dot.s5{fill:#ff8095}
.line.s6{stroke:#9aa4b1}.dot.s6{fill:#9aa4b1}.line.s7{stroke:#5fd0e8}.dot.s7{fill:#5fd0e8}}
</style>
";

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: Vec<Series>) -> Chart {
        Chart { title: "Latency".into(), unit: "microseconds".into(), series }
    }

    fn series(name: &str, points: &[(f64, f64)]) -> Series {
        Series { name: name.into(), points: points.to_vec() }
    }

    /// Every tag is closed in order: what a parser of XML would complain about first.
    fn well_formed(svg: &str) {
        let mut open = Vec::new();
        for piece in svg.split('<').skip(1) {
            let (tag, _) = piece.split_once('>').expect("a tag ends");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name), "in {svg}");
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap().to_owned());
            }
        }
        assert!(open.is_empty(), "left open: {open:?}");
        assert_eq!(svg.matches('"').count() % 2, 0);
    }

    #[test]
    fn every_point_above_zero_is_a_dot() {
        let shm = series("shm", &[(0.0, 0.2), (1.0, 0.2), (1024.0, 0.6), (4096.0, f64::NAN), (1e6, 50.0)]);
        let tcp = series("tcp", &[(1.0, 4.0), (1024.0, 5.0)]);
        let svg = svg(&[chart(vec![shm, tcp])]);
        well_formed(&svg);
        assert_eq!(svg.matches("<circle").count(), 5);
        assert_eq!(svg.matches("class=\"dot s1\"").count(), 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn all_dots_lie_inside_the_frame() {
        let points: Vec<(f64, f64)> =
            (0..30).map(|power| (2f64.powi(power), 0.013 * 3f64.powi(power))).collect();
        let frame = Frame::around(std::slice::from_ref(&points)).unwrap();
        for &(x, y) in &points {
            assert!((LEFT..=RIGHT).contains(&frame.x(x)), "{x}");
            assert!((TOP..=BOTTOM).contains(&frame.y(y)), "{y}");
        }
        assert!(frame.x(points[0].0) < frame.x(points[1].0));
        assert!(frame.y(points[1].1) < frame.y(points[0].1), "larger values lie higher");
    }

    #[test]
    fn one_point_and_no_point_are_charts_too() {
        well_formed(&svg(&[chart(vec![series("one", &[(8.0, 1.0)])])]));
        let empty = svg(&[chart(vec![series("none", &[])])]);
        well_formed(&empty);
        assert!(empty.contains("nothing was measured"));
        well_formed(&svg(&[]));
    }

    #[test]
    fn names_cannot_break_the_picture() {
        let svg = svg(&[chart(vec![series("a<b>&\"c\"\u{7}", &[(1.0, 1.0)])])]);
        well_formed(&svg);
        assert!(svg.contains("a&lt;b&gt;&amp;&quot;c&quot;</text>"));
    }

    #[test]
    fn more_series_than_colours_begin_again() {
        let many =
            (0..11).map(|number| series(&format!("s{number}"), &[(1.0, 1.0 + f64::from(number))])).collect();
        let svg = svg(&[chart(many)]);
        assert_eq!(svg.matches("class=\"dot s2\"").count(), 2);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(size(0.0), "0");
        let sizes: Vec<String> = [1.0, 512.0, 1024.0, 65536.0, 3145728.0, 1e9].map(size).into();
        assert_eq!(sizes, ["1", "512", "1K", "64K", "3M", "954M"]);
        let values: Vec<String> = [0.001, 0.125, 1.0, 2.5, 10.0, 1234.5].map(plain).into();
        assert_eq!(values, ["0.001", "0.125", "1", "2.5", "10", "1234"]);
    }
}
