// Converts the compact columns of a page into the columns that are drawn: dates for seconds, shared rows, one trace per series.

/* Expand a figure's columns, once: x from x0 and dx, and milliseconds if the axis counts seconds from an origin. */
function unpack(figure) {
  const origin = (figure.layout.xaxis || {}).origin, later = (value) => origin + 1000 * value;
  if (figure.rows && figure.rows.submit) figure.rows.submit = figure.rows.submit.map(later);
  for (const trace of figure.data) {
    trace.shared = figure.rows;
    if (trace.dx) trace.x = trace.y.map((_, k) => trace.x0 + k * trace.dx);
    if (origin === undefined) continue;
    if (trace.base) trace.base = trace.base.map(later);
    trace.x = trace.x.map(trace.type === "bar" ? (value) => 1000 * value : later);
  }
  (figure.below || []).forEach(unpack);
}

/* Return one value of a trace's column; if the trace lacks the column, the value of the figure's shared row. */
const valueAt = (trace, name, at) => (trace[name] ? trace[name][at] : trace.shared[name][trace.row[at]]);

/* Split a trace into one trace per colour series; an empty series keeps its place in the legend. */
function coloured(trace, { column, series }) {
  const members = series.map(() => []);
  trace.x.forEach((_, at) => members[valueAt(trace, column, at)].push(at));
  return series.map(({ name, slot, pattern, opacity }, place) => {
    const marker = { ...trace.marker, pattern: { shape: pattern }, opacity };
    const cut = { ...trace, name, meta: { ...trace.meta, slot }, marker };
    for (const [key, values] of Object.entries(trace)) if (Array.isArray(values)) cut[key] = members[place].map((at) => values[at]);
    return cut;
  });
}
