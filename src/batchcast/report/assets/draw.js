// Draws one figure. uPlot handles frame, scales, ticks, zoom and pointer. We draw the marks on its canvas, because uPlot has
// no separate x for each curve, no horizontal bars and no intervals. blocks.py describes the data of a figure.

const FONT = "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, sans-serif";

/* Return the values of all shown traces on one axis, including the ends of bars and intervals. */
function valuesOf(traces, bars, scale, side) {
  return traces.flatMap((trace) => {
    if (trace.type === "bar" && side === "x") return bars.get(trace).flatMap(([from, to]) => [from, to]);
    if (trace.type === "bar" && trace.width) return bars.get(trace).flatMap(([, , low, high]) => [low, high]);
    const error = (trace[`error_${side}`] || {}).array || [];
    return trace[side].flatMap((given, k) => {
      if (given === null) return [];
      const value = scale.read(given);
      return error[k] ? [value - error[k], value + error[k]] : [value];
    });
  });
}

function uAxis(chart, side, size) {
  const { theme, narrow, layout } = chart, axis = layout[`${side}axis`], scale = chart.scales[side];
  const widthOf = (text) => { chart.pen.font = `${chart.text}px ${FONT}`; return chart.pen.measureText(text).width; };
  const made = {
    scale: side, side: side === "x" ? 2 : 3, stroke: theme.ink, font: `${chart.text}px ${FONT}`, gap: 4,
    grid: { stroke: theme.grid, width: 1, show: scale.kind !== "category" }, ticks: { stroke: theme.line, width: 1, size: 4 },
    border: { show: true, stroke: theme.line, width: 1 }, space: side === "x" ? (narrow ? 64 : 80) : 34, size,
    values: (plot, ticks, _, __, step) => {
      if (scale.kind === "category") return ticks.map(() => "");
      const words = tickWords(axis, scale, ticks, step);
      if (side === "y") return words;
      const length = chart.width - chart.left - chart.right, { min, max } = plot.scales.x;  // uPlot calls this before it lays out the chart
      const far = scale.kind === "log" ? Math.log : Number;
      const at = ticks.map((tick) => (tick === null ? 0 : ((far(tick) - far(min)) / (far(max) - far(min))) * length));
      return apart(words, at, widthOf, -chart.left, length + chart.right);
    },
  };
  if (axis.dtick) made.incrs = [1, 2, 5, 10, 20, 50, 100, 1000].map((k) => k * axis.dtick);
  if (axis.tickvals) {
    made.splits = (plot, _, low, high) => {
      const inside = axis.tickvals.filter((tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9));
      return inside.length > 1 || axis.tickvals.length < 2 ? inside : closeTicks(low, high);
    };
    made.filter = (_, ticks) => ticks;
  }
  const powers = (low, high) => [...Array(24).keys()].map((k) => 10 ** (k - 8)).filter((tick) => tick >= low && tick <= high);
  if (scale.kind === "log" && !axis.tickvals && powers(...chart.ends[side]).length > 1) {
    made.splits = (plot, _, low, high) => powers(low, high);
    made.filter = (_, ticks) => ticks;
  }
  if (scale.kind === "category") made.splits = () => scale.names.map((_, k) => k);
  return made;
}

/* Return the width of the labels left of the plot, and the category labels wrapped into lines. */
function leftOf(chart) {
  const { pen, scales, layout, narrow, ends } = chart;
  pen.font = `${chart.text}px ${FONT}`;
  const widest = (words) => Math.max(...words.map((text) => pen.measureText(text).width), 0);
  if (scales.y.kind === "category") {
    const rows = Math.max(1, Math.floor((chart.height - 40) / scales.y.names.length / (chart.text * 1.15)));
    chart.names = scales.y.names.map((name) => folded(name, narrow ? 15 : 30))
      .map((lines) => (lines.length > rows ? [...lines.slice(0, rows - 1), `${lines[rows - 1]}…`] : lines));
    return widest(chart.names.flat()) + 14;
  }
  const axis = layout.yaxis, [low, high] = ends.y;
  if (axis.tickvals) return widest(axis.ticktext.filter((_, k) => axis.tickvals[k] <= high)) + 16;
  const shares = axis.tickformat === ".0%" ? ["100 %"] : [];
  return widest(shares.length ? shares : [low, high, (high - low) / 5].map((v) => said(v, 2))) + 20;
}

function categoryNames(chart, plot, unit) {
  const pen = plot.ctx, { names, sign } = chart.scales.y, high = chart.text * 1.15 * unit;
  Object.assign(pen, { fillStyle: chart.theme.ink, font: `${chart.text * unit}px ${FONT}`, textAlign: "right", textBaseline: "middle" });
  chart.names.forEach((lines, k) => {
    const y = plot.valToPos(sign < 0 ? names.length - 1 - k : k, "y", true);
    lines.forEach((line, j) => pen.fillText(line, plot.bbox.left - 8 * unit, y + (j - (lines.length - 1) / 2) * high));
  });
}

function marksOf(chart, plot) {
  const pen = plot.ctx, unit = uPlot.pxRatio, { theme, scales } = chart, { left, top, width, height } = plot.bbox;
  const X = (value) => plot.valToPos(value, "x", true), Y = (value) => plot.valToPos(value, "y", true);
  const css = ([x, y]) => [(x - left) / unit, (y - top) / unit];
  chart.hits = [];
  pen.save();
  if (chart.names) categoryNames(chart, plot, unit);
  const edge = chart.bars.size || chart.figure.group ? 0 : 6 * unit;  // do not clip a marker on the frame
  pen.beginPath();
  pen.rect(left - edge, top - edge, width + 2 * edge, height + 2 * edge);
  pen.clip();
  for (const shape of chart.layout.shapes || []) curve(pen, [[left, Y(shape.y0)], [left + width, Y(shape.y0)]], { dash: "dot", width: 1 }, theme.soft, unit);
  if (chart.layout.xaxis.zeroline) curve(pen, [[X(0), top], [X(0), top + height]], { width: 2 }, theme.line, unit);
  for (const trace of chart.shown) {
    const colour = theme.colours[trace.meta.slot % theme.colours.length], marker = trace.marker || {};
    if (trace.type === "bar") {
      const drawn = chart.bars.get(trace).map(([from, to, low, high]) => [X(from), Y(high), X(to) - X(from), Y(low) - Y(high)]);
      boxes(pen, drawn, marker, colour, theme, unit);
      Object.assign(pen, { fillStyle: theme.ink, font: `${(chart.text - 1) * unit}px ${FONT}`, textAlign: "left", textBaseline: "middle" });
      if (trace.text) drawn.forEach(([x, y, wide, high], k) => pen.fillText(trace.text[k], x + wide + 5 * unit, y + high / 2));
      chart.hits.push({ trace, kind: "boxes", places: drawn.map(([x, y, wide, high]) => [...css([x, y]), wide / unit, high / unit]) });
      continue;
    }
    const points = trace.x.map((x, k) => (x === null || trace.y[k] === null ? null : [X(scales.x.read(x)), Y(scales.y.read(trace.y[k]))]));
    const mode = trace.mode || "lines";
    for (const side of ["x", "y"]) {
      const error = (trace[`error_${side}`] || {}).array;
      if (error) intervals(pen, points.flatMap((point, k) => {
        if (!point || !error[k]) return [];
        const value = scales[side].read(trace[side][k]), low = value - error[k], high = value + error[k];
        return [side === "x" ? [X(low), point[1], X(high), point[1]] : [point[0], Y(low), point[0], Y(high)]];
      }), colour, unit);
    }
    if (trace.fill) area(pen, points, Y(0), colour);
    if (mode.includes("lines")) curve(pen, points, trace.line || {}, colour, unit);
    if (mode.includes("markers")) markers(pen, points, marker, colour, unit);
    chart.hits.push({ trace, kind: mode.includes("lines") ? "curve" : "points", places: points.map((point) => point && css(point)) });
  }
  pen.restore();
}

/* Extend the axis of horizontal bars so that the text after the longest bar fits. */
function withWords(chart, ends, room) {
  const texts = chart.shown.flatMap((trace) => (trace.type === "bar" && trace.text) || []);
  if (!texts.length) return ends;
  chart.pen.font = `${chart.text}px ${FONT}`;
  const wide = Math.max(...texts.map((text) => chart.pen.measureText(text).width)) + 12;
  const longest = Math.max(...valuesOf(chart.shown, chart.bars, chart.scales.x, "x"), 0);
  return [ends[0], (longest || 1) / Math.max(1 - wide / room, 0.3)];
}

/* Draw a figure's traces into `place` and replace the old chart. The legend can hide each trace of `offered`. */
function drawFigure(place, figure, offered, theme, width) {
  if (place.chart) place.chart.plot.destroy();
  if (offered[0].type === "heat") return drawHeat(place, figure, offered[0], theme, width);
  const hidden = (figure.hidden ||= new Set());
  const narrow = width < 560, layout = { xaxis: {}, yaxis: {}, ...figure.layout, ...figure.layouts[offered[0].meta.variant] };
  const above = document.createElement("div"), below = document.createElement("div"), frame = document.createElement("div");
  const titles = [layout.yaxis, layout.xaxis].map((axis) => (axis.title || {}).text || "");
  [above.textContent, below.textContent] = titles;
  above.className = "title y";
  below.className = "title x";
  place.replaceChildren(above, frame, below);
  const height = Math.max(place.clientHeight - above.offsetHeight - below.offsetHeight, 120);
  const shown = offered.filter((trace) => !hidden.has(trace.name));
  const scales = { x: scaleOf(layout.xaxis, offered, "x"), y: scaleOf(layout.yaxis, offered, "y") };
  const lying = shown.filter((trace) => trace.type === "bar"), placed = barsOf(lying, layout, scales);
  const pen = document.createElement("canvas").getContext("2d");
  const chart = { place, figure, layout, theme, narrow, width, height, shown, scales, pen, text: narrow ? 12 : 13, hits: [],
    bars: new Map(lying.map((trace, k) => [trace, placed[k]])) };
  const marked = shown.some((trace) => (trace.mode || "").includes("markers")) ? 0.03 : 0;
  chart.ends = {};
  for (const side of ["y", "x"])
    chart.ends[side] = endsOf(layout[`${side}axis`], scales[side], valuesOf(shown, chart.bars, scales[side], side), side === "y" ? 0.06 : marked);
  chart.left = Math.max(leftOf(chart), figure.left || 0);
  chart.right = narrow ? 16 : 22;
  chart.ends.x = withWords(chart, chart.ends.x, width - chart.left - chart.right);
  const { x, y } = chart.ends, scale = (side) => ({ time: scales[side].kind === "date", distr: scales[side].kind === "log" ? 3 : 1 });
  chart.plot = new uPlot({
    width, height, ms: 1, tzDate: (at) => uPlot.tzDate(new Date(at), "Etc/UTC"), padding: [10, chart.right, 0, 0], legend: { show: false },
    scales: { x: { ...scale("x"), range: (_, low, high) => [low, high] }, y: { ...scale("y"), range: () => y } },
    axes: [uAxis(chart, "x", scales.x.kind === "date" ? 44 : 28), uAxis(chart, "y", chart.left)],
    series: [{}, { show: true, stroke: "transparent" }],
    cursor: { x: layout.hovermode === "x unified", y: false, points: { show: false }, drag: { x: true, y: false, setScale: true } },
    hooks: { draw: [(plot) => marksOf(chart, plot)], setScale: [(plot, side) => { if (side === "x") zoomed(chart, plot.scales.x); }] },
  }, [x, [null, null]], frame);
  place.chart = chart;
  readout(chart);
  joined(chart);
  legend(place.previousElementSibling, offered, hidden, theme, () => drawFigure(place, figure, offered, theme, width));
}
