// Charts with a common time axis: a figure and the strips below it start at the same pixel and show the same range.

/* Show a range in all charts; `group` has the whole range, the shown range, the charts by place, and the brush. */
function seeTogether(group, from, to) {
  group.seen = [from, to];
  for (const chart of group.charts.values()) if (!chart.figure.overview) chart.plot.setScale("x", { min: from, max: to });
  if (group.brush) group.brush();
}

/* Called when a chart was zoomed by pointer or finger. */
function zoomed(chart, { min, max }) {
  const group = chart.figure.group;
  if (!group || chart.figure.overview || (Math.abs(min - group.seen[0]) < 1 && Math.abs(max - group.seen[1]) < 1)) return;
  seeTogether(group, ...held(group.whole, min, max));
}

/* Called when a chart was drawn: set it to the range of the other charts. */
function joined(chart) {
  const { figure, place, plot } = chart, { group } = figure;
  if (!group) return;
  group.charts.set(place.id, chart);
  if (figure.overview) brush(chart, group);
  else plot.setScale("x", { min: group.seen[0], max: group.seen[1] });
}

function drawTogether(place, figure, data, variant, theme, width) {
  const of = (strip) => strip.data.filter((trace) => !variant || trace.meta.variant === variant);
  const parts = [[place, figure, data],
    ...(figure.below || []).map((strip, k) => [document.getElementById(`${place.id}-${k}`), strip, of(strip)])];
  if (figure.below) figure.group ||= { whole: figure.layout.xaxis.range, seen: figure.layout.xaxis.range, charts: new Map() };
  for (const [at, one, traces] of parts) {
    Object.assign(one, { group: figure.group, left: 0 });
    drawFigure(at, one, traces, theme, width);
  }
  const left = Math.max(...parts.map(([at]) => at.chart.left));
  for (const [at, one, traces] of parts) {
    one.left = left;
    if (at.chart.left < left) drawFigure(at, one, traces, theme, width);
  }
}
