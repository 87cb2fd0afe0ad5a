// Marks: curves, markers, bars and intervals on a canvas. Series differ by dash, shape and hatching as well as by colour.

const DASHES = { solid: [], dot: [2, 4], dash: [8, 5], dashdot: [8, 4, 2, 4], longdash: [14, 6], longdashdot: [14, 5, 2, 5] };
const corners = (...points) => (path, x, y, r) => {
  points.forEach(([a, b], k) => path[k ? "lineTo" : "moveTo"](x + a * r, y + b * r));
  path.closePath();
};
const rays = (...ends) => (path, x, y, r) => ends.forEach(([a, b]) => {
  path.moveTo(x - a * r, y - b * r);
  path.lineTo(x + a * r, y + b * r);
});
const round = (path, x, y, r) => { path.moveTo(x + r, y); path.arc(x, y, r, 0, 2 * Math.PI); };
const SHAPES = {
  circle: round, "circle-open": round, square: corners([-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]),
  diamond: corners([0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]), "triangle-up": corners([0, -1.2], [1.1, 0.9], [-1.1, 0.9]),
  x: rays([0.9, 0.9], [0.9, -0.9]), cross: rays([1.1, 0], [0, 1.1]), star: rays([1.1, 0], [0.6, 1], [0.6, -1]),
};
const STROKED = new Set(["circle-open", "x", "cross", "star"]);
const HATCHES = { "/": [[0, 8, 8, 0]], "\\": [[0, 0, 8, 8]], x: [[0, 8, 8, 0], [0, 0, 8, 8]], "-": [[0, 4, 8, 4]],
  "+": [[0, 4, 8, 4], [4, 0, 4, 8]], "|": [[4, 0, 4, 8]], ".": [[3, 4, 5, 4]] };

/* Draw a curve through points (null: a gap); with steps, each value extends to the next point. */
function curve(pen, points, line, colour, unit) {
  pen.beginPath();
  let before = null;
  for (const point of points) {
    if (point && before) {
      if (line.shape === "hv") pen.lineTo(point[0], before[1]);
      pen.lineTo(...point);
    } else if (point) pen.moveTo(...point);
    before = point;
  }
  Object.assign(pen, { strokeStyle: colour, lineWidth: (line.width || 2.2) * unit, lineJoin: "round" });
  pen.setLineDash((DASHES[line.dash] || []).map((length) => length * unit));
  pen.stroke();
  pen.setLineDash([]);
}

/* Fill the area between a step curve and a baseline. */
function area(pen, points, floor, colour) {
  pen.beginPath();
  points.forEach(([x, y], k) => {
    if (k) pen.lineTo(x, points[k - 1][1]);
    else pen.moveTo(x, floor);
    pen.lineTo(x, y);
  });
  if (points.length) pen.lineTo(points.at(-1)[0], floor);
  Object.assign(pen, { fillStyle: colour, globalAlpha: 0.3 });
  pen.fill();
  pen.globalAlpha = 1;
}

function markers(pen, points, marker, colour, unit) {
  const path = new Path2D();
  for (const point of points) if (point) SHAPES[marker.symbol || "circle"](path, ...point, ((marker.size || 7) / 2) * unit);
  Object.assign(pen, { strokeStyle: colour, fillStyle: colour, lineWidth: 1.8 * unit, globalAlpha: marker.opacity || 1 });
  pen[STROKED.has(marker.symbol) ? "stroke" : "fill"](path);
  pen.globalAlpha = 1;
}

/* Draw error bars: a line with a short stroke across each end. */
function intervals(pen, ends, colour, unit) {
  pen.beginPath();
  for (const [x0, y0, x1, y1] of ends) {
    const [across, down] = x0 === x1 ? [4 * unit, 0] : [0, 4 * unit];
    for (const [a, b, c, d] of [[x0, y0, x1, y1], [x0 - across, y0 - down, x0 + across, y0 + down], [x1 - across, y1 - down, x1 + across, y1 + down]]) {
      pen.moveTo(a, b);
      pen.lineTo(c, d);
    }
  }
  Object.assign(pen, { strokeStyle: colour, lineWidth: 1.6 * unit });
  pen.stroke();
}

function hatched(pen, shape, colour, over, unit) {
  if (!HATCHES[shape]) return colour;
  const tile = document.createElement("canvas"), size = Math.round(8 * unit);
  tile.width = tile.height = size;
  const ink = tile.getContext("2d");
  ink.fillStyle = colour;
  ink.fillRect(0, 0, size, size);
  Object.assign(ink, { strokeStyle: over, lineWidth: 1.2 * unit, lineCap: "square" });
  for (const [a, b, c, d] of HATCHES[shape]) {
    ink.beginPath();
    ink.moveTo((a * size) / 8, (b * size) / 8);
    ink.lineTo((c * size) / 8, (d * size) / 8);
    ink.stroke();
  }
  return pen.createPattern(tile, "repeat");
}

/* Draw hatched boxes [x, y, width, height], separated by thin lines in the background colour. */
function boxes(pen, them, marker, colour, theme, unit) {
  pen.fillStyle = hatched(pen, (marker.pattern || {}).shape, colour, theme.card, unit);
  Object.assign(pen, { strokeStyle: theme.card, lineWidth: ((marker.line || {}).width || 0) * unit });
  for (const box of them) {
    pen.globalAlpha = marker.opacity || 1;
    pen.fillRect(...box);
    pen.globalAlpha = 1;
    if (marker.line && box[2] > 2 * unit && box[3] > 2 * unit) pen.strokeRect(...box);
  }
}

/* Return a figure's bars by trace, in units of its scales: [from, to, low, high]; grouped, stacked or overlaid. */
function barsOf(traces, layout, scales) {
  const full = 1 - (layout.bargap === undefined ? 0.2 : layout.bargap), heaped = new Map();
  const abreast = layout.barmode === "group" ? traces.length : 1;
  return traces.map((trace, j) => trace.x.map((length, k) => {
    const stacked = layout.barmode === "stack" ? heaped.get(trace.y[k]) || 0 : 0;
    heaped.set(trace.y[k], stacked + (length || 0));
    const from = trace.base ? trace.base[k] : stacked, size = trace.width ? trace.width[k] : full / abreast;
    const aside = abreast > 1 ? (scales.y.sign || 1) * ((j + 0.5) * size - full / 2) : 0;
    const middle = scales.y.read(trace.y[k]) + aside;
    return [from, from + (length || 0), middle - size / 2, middle + size / 2];
  }));
}
