//! The machine tree as nested boxes.
//!
//! Sizes go up the tree and places go down: a box is as large as what it holds, whose columns are chosen so
//! that it comes out about as wide as a page.

use std::collections::HashMap;
use std::fmt::Write as _;

use topology::{Kind, Level, Machine};

/// A part, laid out.
struct PicturePlan {
    place: usize,
    label: String,
    width: f64,
    height: f64,
    columns: usize,
    within: Vec<PicturePlan>,
}

/// The picture as SVG, with a line of text below it.
pub fn draw(tree: &Machine, caption: &str) -> String {
    let mut whole = plan(tree, 0);
    let mut widths = HashMap::new();
    note_widths(tree, &whole, &mut widths);
    lay_out(tree, &mut whole, &widths);
    let width = (whole.width + 2.0 * GAP).max(caption.chars().count() as f64 * LETTER + 2.0 * GAP);
    let height = whole.height + 2.0 * GAP + LINE;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"{FONT}\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        escaped(caption)
    );
    draw_plan(&mut text, tree, &whole, GAP, GAP);
    let _ = writeln!(
        text,
        "<text x=\"{GAP}\" y=\"{:.0}\" fill=\"#555555\">{}</text>\n</svg>",
        whole.height + GAP + LINE,
        escaped(caption)
    );
    text
}

/// What is shown of a part, without sizes.
fn plan(tree: &Machine, place: usize) -> PicturePlan {
    let within: Vec<usize> = tree.within(place).collect();
    let is_cpu = |&part: &usize| tree.parts()[part].object.kind == Kind::Part(Level::Cpu);
    let mut label = super::label(tree, place);
    // The cpus of a core are words in its box.
    let are_cpus = !within.is_empty() && within.iter().all(is_cpu);
    let is_core = tree.parts()[place].object.kind == Kind::Part(Level::Core);
    let within: Vec<PicturePlan> = if are_cpus && is_core {
        let _ = write!(label, ": cpu {}", tree.parts()[place].object.cpus);
        Vec::new()
    } else {
        within.into_iter().map(|part| plan(tree, part)).collect()
    };
    PicturePlan { place, label, width: 0.0, height: 0.0, columns: 1, within }
}

/// The widest label of each kind: equal parts shall have equal boxes.
fn note_widths(tree: &Machine, plan: &PicturePlan, widths: &mut HashMap<Kind, f64>) {
    let width = plan.label.chars().count() as f64 * LETTER + 2.0 * GAP;
    let widest = widths.entry(tree.parts()[plan.place].object.kind).or_default();
    *widest = widest.max(width);
    plan.within.iter().for_each(|part| note_widths(tree, part, widths));
}

/// Finds the size of a box and of all within it, and the columns.
fn lay_out(tree: &Machine, plan: &mut PicturePlan, widths: &HashMap<Kind, f64>) {
    plan.within.iter_mut().for_each(|part| lay_out(tree, part, widths));
    let least = widths.get(&tree.parts()[plan.place].object.kind).copied().unwrap_or(0.0);
    let of_columns = |columns| {
        let (width, height) = extent(&plan.within, columns);
        (columns, width.max(least), height)
    };
    let best = (1..=plan.within.len().max(1)).map(of_columns);
    let best = best.min_by(|one, other| off(one.1, one.2).total_cmp(&off(other.1, other.2)));
    (plan.columns, plan.width, plan.height) = best.unwrap_or((1, least, LINE + GAP));
}

/// How far a box is from the form of a page.
fn off(width: f64, height: f64) -> f64 {
    (width / height / PAGE).ln().abs()
}

/// The size of a box that holds these in so many columns.
fn extent(within: &[PicturePlan], columns: usize) -> (f64, f64) {
    let widths = column_widths(within, columns);
    let height: f64 = within.chunks(columns).map(|row| row_height(row) + GAP).sum();
    (widths.iter().map(|width| width + GAP).sum::<f64>() + GAP, height + LINE + GAP)
}

fn column_widths(within: &[PicturePlan], columns: usize) -> Vec<f64> {
    let widest =
        |column| within.iter().skip(column).step_by(columns).map(|plan| plan.width).fold(0.0, f64::max);
    (0..columns).map(widest).collect()
}

fn row_height(row: &[PicturePlan]) -> f64 {
    row.iter().map(|plan| plan.height).fold(0.0, f64::max)
}

fn draw_plan(text: &mut String, tree: &Machine, plan: &PicturePlan, x: f64, y: f64) {
    let kind = tree.parts()[plan.place].object.kind;
    let (width, height) = (plan.width, plan.height);
    let _ = writeln!(
        text,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\" fill=\"{}\" stroke=\"#444444\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        colour(kind),
        x + GAP,
        y + FONT + 4.0,
        escaped(&plan.label)
    );
    let widths = column_widths(&plan.within, plan.columns);
    let mut top = y + LINE + GAP / 2.0;
    for row in plan.within.chunks(plan.columns) {
        let mut left = x + GAP;
        for (part, width) in row.iter().zip(&widths) {
            draw_plan(text, tree, part, left, top);
            left += width + GAP;
        }
        top += row_height(row) + GAP;
    }
}

fn colour(kind: Kind) -> &'static str {
    match kind {
        Kind::Machine => "#f7f7f7",
        Kind::Group => "#eeeeee",
        Kind::Part(Level::Package) => "#dbe9f6",
        Kind::Part(Level::NumaNode) => "#e5f3df",
        Kind::Part(Level::L3Cache) => "#fdebd0",
        Kind::Part(Level::L2Cache) => "#fbe0d8",
        Kind::Part(Level::Core) => "#ffffff",
        Kind::Part(Level::Cpu) => "#f5f0fa",
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// All in pixels.
const GAP: f64 = 8.0;
const FONT: f64 = 12.0;
/// The height of a line with a label.
const LINE: f64 = 22.0;
/// The usual width of a letter, and a little more.
const LETTER: f64 = 6.8;
/// Width by height.
const PAGE: f64 = 1.6;

#[cfg(test)]
mod tests {
    use super::*;

    /// The boxes of a picture: left, top, right, bottom.
    fn boxes(text: &str) -> Vec<[f64; 4]> {
        let picture = roxmltree::Document::parse(text).expect("XML");
        let rects = picture.descendants().filter(|node| node.has_tag_name("rect") && node.has_attribute("x"));
        let of = |node: roxmltree::Node<'_, '_>| {
            let number = |name| node.attribute(name).expect(name).parse::<f64>().expect("a number");
            let (x, y) = (number("x"), number("y"));
            [x, y, x + number("width"), y + number("height")]
        };
        rects.map(of).collect()
    }

    #[test]
    fn boxes_lie_within_each_other_or_apart() {
        for text in
            ["pack:2 numa:2 l3:3 l2:2 core:2 pu:2", "pu:7", "core:3 pu:1", "group:2 l3:1 core:64 pu:4"]
        {
            let tree = Machine::from_synthetic(text).unwrap();
            let picture = draw(&tree, "a <caption> & \"more\"");
            let boxes = boxes(&picture);
            let cpus_in_cores = if tree.count(Level::Core) > 0 { tree.count(Level::Cpu) } else { 0 };
            assert_eq!(boxes.len(), tree.parts().len() - cpus_in_cores, "{text}");
            for (place, one) in boxes.iter().enumerate() {
                for other in &boxes[place + 1..] {
                    let holds =
                        one[0] < other[0] && one[1] < other[1] && other[2] < one[2] && other[3] < one[3];
                    let apart =
                        other[0] >= one[2] || other[1] >= one[3] || other[2] <= one[0] || other[3] <= one[1];
                    assert!(holds || apart, "{text}: {one:?} and {other:?}");
                }
            }
        }
    }

    #[test]
    fn every_label_fits_its_box() {
        let tree =
            Machine::from_synthetic("pack:2 [numa(memory=64GiB)] l3:2(size=32MiB) core:4 pu:2").unwrap();
        let text = draw(&tree, "x");
        let picture = roxmltree::Document::parse(&text).unwrap();
        let labels: Vec<&str> =
            picture.descendants().filter(|it| it.has_tag_name("text")).filter_map(|it| it.text()).collect();
        assert!(
            labels.contains(&"core 15: cpu 30-31") && labels.contains(&"NUMA node 1 64 GiB"),
            "{labels:?}"
        );
        for (label, it) in labels.iter().zip(boxes(&text)) {
            assert!(label.len() as f64 * 6.0 < it[2] - it[0], "{label} in {it:?}");
        }
    }
}
