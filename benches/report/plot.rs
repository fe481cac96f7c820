//! Line charts as SVG, side by side, with logarithmic axes.

use std::fmt::Write;

/// One line of a chart.
pub struct Series {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}

/// One chart.
pub struct Chart {
    pub title: String,
    pub series: Vec<Series>,
}

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 360.0;
/// Where the lines are drawn within a chart.
const AREA: (Span, Span) = (
    Span {
        from: 70.0,
        to: WIDTH - 20.0,
    },
    Span {
        from: HEIGHT - 50.0,
        to: 40.0,
    },
);
/// Below the charts, for the names of the lines.
const LEGEND: f64 = 60.0;
/// Told apart without seeing colours well (Okabe and Ito).
const COLOURS: [&str; 7] = [
    "#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#cc79a7", "#009e73", "#000000",
];

/// The SVG file with these charts. Values that are not above zero are left out.
pub fn draw(charts: &[Chart], x_title: &str, y_title: &str) -> String {
    let all = || charts.iter().flat_map(|c| &c.series).flat_map(|s| &s.points);
    let axes = (
        Axis::over(all().map(|p| p.0), AREA.0),
        Axis::over(all().map(|p| p.1), AREA.1),
    );
    let width = charts.iter().fold(0.0, |sum, _| sum + WIDTH);
    let mut inside = String::new();
    let mut left = 0.0;
    for chart in charts {
        let drawn = frame(&axes, x_title, y_title) + &lines(chart, &axes);
        inside += &format!("<g transform=\"translate({left} 0)\">\n{drawn}</g>\n");
        left += WIDTH;
    }
    inside += &charts.first().map(legend).unwrap_or_default();
    let height = HEIGHT + LEGEND;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{inside}</svg>\n"
    )
}

#[derive(Clone, Copy)]
struct Span {
    from: f64,
    to: f64,
}

/// Whole powers of ten around the values, spread over a span of the picture.
struct Axis {
    low: i32,
    high: i32,
    span: Span,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, span: Span) -> Self {
        let logs: Vec<f64> = values.filter(|v| *v > 0.0).map(f64::log10).collect();
        let powers = -9..=12;
        let low = powers
            .clone()
            .rev()
            .find(|p| logs.iter().all(|log| *log >= f64::from(*p)));
        let high = powers.clone().find(|p| logs.iter().all(|log| *log <= f64::from(*p)));
        let low = low.unwrap_or(*powers.start());
        let high = high.unwrap_or(*powers.end()).max(low + 1);
        Self { low, high, span }
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.span.from + share * (self.span.to - self.span.from)
    }

    /// Powers of ten, and what lies between them.
    fn ticks(&self) -> impl Iterator<Item = (f64, bool)> {
        let top = 10_f64.powi(self.high);
        let steps = |power: i32| (1..10).map(move |step| (f64::from(step) * 10_f64.powi(power), step == 1));
        (self.low..self.high).flat_map(steps).chain([(top, true)])
    }
}

fn frame(axes: &(Axis, Axis), x_title: &str, y_title: &str) -> String {
    let (left, right) = (AREA.0.from, AREA.0.to);
    let (bottom, top) = (AREA.1.from, AREA.1.to);
    let mut out = String::new();
    for (value, power) in axes.0.ticks() {
        let x = axes.0.place(value);
        out += &rule((x, bottom), (x, top), power);
        if power {
            out += &text((x, bottom + 16.0), "middle", &short(value));
        }
    }
    for (value, power) in axes.1.ticks() {
        let y = axes.1.place(value);
        out += &rule((left, y), (right, y), power);
        if power {
            out += &text((left - 6.0, y + 4.0), "end", &short(value));
        }
    }
    out += &text(((left + right) / 2.0, bottom + 36.0), "middle", x_title);
    out + &text((left - 40.0, top - 14.0), "start", y_title)
}

fn lines(chart: &Chart, axes: &(Axis, Axis)) -> String {
    let middle = (AREA.0.from + AREA.0.to) / 2.0;
    let mut out = text((middle, AREA.1.to - 14.0), "middle", &chart.title);
    for (series, colour) in chart.series.iter().zip(COLOURS.iter().cycle()) {
        let mut points = String::new();
        let drawable = series.points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0);
        for (x, y) in drawable.map(|(x, y)| (axes.0.place(*x), axes.1.place(*y))) {
            points += &format!("{x:.1},{y:.1} ");
            out += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n");
        }
        let points = points.trim_end();
        out += &format!("<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n");
    }
    out
}

fn legend(chart: &Chart) -> String {
    let (left, step) = (AREA.0.from, 130.0);
    let (mut x, mut y) = (left, HEIGHT + 4.0);
    let mut out = String::new();
    for (series, colour) in chart.series.iter().zip(COLOURS.iter().cycle()) {
        if x + step > WIDTH {
            (x, y) = (left, y + 18.0);
        }
        out += &format!("<rect x=\"{x}\" y=\"{y}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>\n");
        out += &text((x + 18.0, y + 7.0), "start", series.name);
        x += step;
    }
    out
}

fn rule(from: (f64, f64), to: (f64, f64), strong: bool) -> String {
    let colour = if strong { "#bbbbbb" } else { "#eeeeee" };
    let ((x1, y1), (x2, y2)) = (from, to);
    format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>\n")
}

fn text(at: (f64, f64), anchor: &str, words: &str) -> String {
    let mut escaped = String::new();
    for c in words.chars() {
        let _ = match c {
            '<' => escaped.write_str("&lt;"),
            '&' => escaped.write_str("&amp;"),
            other => escaped.write_char(other),
        };
    }
    format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{escaped}</text>\n",
        at.0, at.1
    )
}

/// `10M` for 10,000,000.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", v / 1e6),
        v if v >= 1e3 => format!("{}k", v / 1e3),
        v => format!("{v}"),
    }
}
