//! The grid as a picture: each rank at the cell of its number on the left, the mapping on the right. Cells
//! have a colour for their node and a shade for their package; edges between nodes are thick lines, those
//! between packages thin ones.
//!
//! A grid of two axes is one panel. Of more axes the last two make a panel, and there is one for each place
//! on the others.
//!
//! ```text
//!   before                after
//!   +-----------+         +-----------+
//!   | panel 0   |         | panel 0   |      one below the other, several side by side
//!   +-----------+         +-----------+
//! ```

use std::fmt::Write as _;

use topology::{Grid, Level, MachineLevel, Mapping, Placement, Sizes};

/// Draws both; `None` where there are too many cells.
pub fn draw(grid: &Grid, placement: &Placement, mapping: &Mapping) -> Option<String> {
    if CELLS_MAX < grid.cells() {
        return None;
    }
    let layout = Layout::of(grid);
    let parts = PictureParts::of(placement);
    let before: Vec<u32> = (0..grid.cells()).map(|cell| placement.place(cell)).collect();
    let after: Vec<u32> = (0..grid.cells()).map(|cell| mapping.place(cell)).collect();
    let (width, height) = (2 * layout.width() + 3 * MARGIN, layout.height() + 2 * MARGIN + HEAD);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    let sides = [
        ("each rank at the cell of its number", &before, mapping.before()),
        (mapping.algorithm().name(), &after, mapping.after()),
    ];
    for (index, (name, places, score)) in sides.into_iter().enumerate() {
        let left = MARGIN + index as u32 * (layout.width() + MARGIN);
        let _ = writeln!(out, "<g transform=\"translate({left} {MARGIN})\">");
        let _ = writeln!(out, "<text y=\"4\" font-weight=\"bold\">{name}</text>");
        let _ = writeln!(
            out,
            "<text y=\"20\">{} edges between nodes, {} at most from one</text>",
            score.j_sum, score.j_max
        );
        let _ = writeln!(out, "<g transform=\"translate(0 {HEAD})\">");
        side(&mut out, grid, &layout, &parts, places);
        out.push_str("</g>\n</g>\n");
    }
    out.push_str("</svg>\n");
    Some(out)
}

/// Where cells are drawn.
struct Layout {
    rows: u32,
    columns: u32,
    panels: u32,
    /// Panels side by side.
    across: u32,
    /// The side of a cell.
    side: u32,
}

impl Layout {
    fn of(grid: &Grid) -> Layout {
        let dims = grid.dims();
        let columns = dims.last().copied().unwrap_or(1);
        let rows = dims.len().checked_sub(2).map_or(1, |axis| dims[axis]);
        let panels = grid.cells() / (rows * columns);
        let across = (1..=panels).find(|across| across * across * columns >= panels * rows).unwrap_or(1);
        let side = (SIDE_WIDTH / (across * (columns + 1))).clamp(CELL_MIN, CELL_MAX);
        Layout { rows, columns, panels, across, side }
    }

    fn width(&self) -> u32 {
        (self.across * (self.columns + 1) * self.side).max(TITLE_WIDTH)
    }

    fn height(&self) -> u32 {
        self.panels.div_ceil(self.across) * (self.rows + 1) * self.side
    }

    /// The upper left corner of a panel.
    fn corner(&self, panel: u32) -> (u32, u32) {
        let (down, across) = (panel / self.across, panel % self.across);
        (across * (self.columns + 1) * self.side, down * (self.rows + 1) * self.side)
    }
}

/// Node and package of each place.
struct PictureParts {
    nodes: Vec<u32>,
    packages: Vec<u32>,
}

impl PictureParts {
    fn of(placement: &Placement) -> PictureParts {
        let listed = |sizes: &Sizes| {
            (0..)
                .zip(sizes.iter())
                .flat_map(|(part, size)| std::iter::repeat_n(part, size as usize))
                .collect()
        };
        let nodes: Vec<u32> = listed(placement.nodes());
        let inner = [Level::Package, Level::NumaNode, Level::L3Cache].map(MachineLevel::Part);
        let packages = placement.levels().iter().find(|(level, _)| inner.contains(level));
        let packages = packages.map_or_else(|| nodes.clone(), |(_, sizes)| listed(sizes));
        PictureParts { nodes, packages }
    }

    fn colour(&self, place: u32) -> String {
        let (node, package) = (self.nodes[place as usize], self.packages[place as usize]);
        let first = self.nodes.partition_point(|&other| other < node);
        let within = package - self.packages[first];
        // Steps of the golden angle: neighbours in number are far apart in colour.
        let hue = node * 137 % 360;
        let (fullness, light) = (45 + node % 3 * 15, 80 - within % 4 * 12);
        format!("hsl({hue},{fullness}%,{light}%)")
    }
}

/// One of the two pictures, by the place of each cell.
fn side(out: &mut String, grid: &Grid, layout: &Layout, parts: &PictureParts, places: &[u32]) {
    for panel in 0..layout.panels {
        let (x, y) = layout.corner(panel);
        let _ = writeln!(out, "<g transform=\"translate({x} {y})\">");
        let own = &places[(panel * layout.rows * layout.columns) as usize..];
        cells(out, layout, parts, own);
        borders(out, grid, layout, parts, own);
        out.push_str("</g>\n");
    }
}

/// Cells as rectangles, neighbours in a row of one colour as one.
fn cells(out: &mut String, layout: &Layout, parts: &PictureParts, places: &[u32]) {
    let package =
        |row: u32, column: u32| parts.packages[places[(row * layout.columns + column) as usize] as usize];
    for row in 0..layout.rows {
        let mut from = 0;
        while from < layout.columns {
            let own = package(row, from);
            let alike =
                (from..layout.columns).take_while(|&column| package(row, column) == own).count() as u32;
            let colour = parts.colour(places[(row * layout.columns + from) as usize]);
            let (x, y) = (from * layout.side, row * layout.side);
            let (width, height) = (alike * layout.side, layout.side);
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"/>"
            );
            from += alike;
        }
    }
}

/// Lines between cells of different nodes and packages; at the rim also those round a ring.
fn borders(out: &mut String, grid: &Grid, layout: &Layout, parts: &PictureParts, places: &[u32]) {
    let (rows, columns, side) = (layout.rows, layout.columns, layout.side);
    let at = |row: u32, column: u32| places[(row * columns + column) as usize] as usize;
    let axes = grid.axes();
    let is_ring = |back: usize| axes.checked_sub(back).is_some_and(|axis| grid.periods()[axis]);
    let (mut thick, mut thin) = (String::new(), String::new());
    let mut line = |one: usize, other: usize, path: String| {
        if parts.nodes[one] != parts.nodes[other] {
            thick.push_str(&path);
        } else if parts.packages[one] != parts.packages[other] {
            thin.push_str(&path);
        }
    };
    for row in 0..rows {
        for column in 0..=columns {
            if (0 < column && column < columns) || is_ring(1) {
                let (one, other) = (at(row, (column + columns - 1) % columns), at(row, column % columns));
                line(one, other, format!("M{} {}v{side}", column * side, row * side));
            }
        }
    }
    for column in 0..columns {
        for row in 0..=rows {
            if (0 < row && row < rows) || (is_ring(2) && rows > 1) {
                let (one, other) = (at((row + rows - 1) % rows, column), at(row % rows, column));
                line(one, other, format!("M{} {}h{side}", column * side, row * side));
            }
        }
    }
    let frame = "fill=\"none\" stroke=\"#999999\" stroke-width=\"0.5\"";
    let _ = writeln!(out, "<rect width=\"{}\" height=\"{}\" {frame}/>", columns * side, rows * side);
    for (path, width) in [(thin, "0.7"), (thick, "2")] {
        if !path.is_empty() {
            let _ = writeln!(
                out,
                "<path d=\"{path}\" fill=\"none\" stroke=\"#222222\" stroke-width=\"{width}\" stroke-linecap=\"square\"/>"
            );
        }
    }
}

const CELLS_MAX: u32 = 1 << 16;
const MARGIN: u32 = 16;
const HEAD: u32 = 32;
const SIDE_WIDTH: u32 = 560;
const TITLE_WIDTH: u32 = 280;
const CELL_MIN: u32 = 3;
const CELL_MAX: u32 = 24;
