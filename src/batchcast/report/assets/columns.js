// Columns as a page is sent them, short, and as they are drawn: instants for seconds, shared rows, marks by their series.

/* Make a figure's columns whole, once: x from x0 and dx, and milliseconds where the axis counts seconds from an origin. */
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

/* One value of a trace's column, its own or one of the figure's rows. */
const valueAt = (trace, name, at) => (trace[name] ? trace[name][at] : trace.shared[name][trace.row[at]]);

/* A trace as one per series of a colouring; a series keeps its place in the legend where nothing of it is drawn. */
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
