// The read-out: a text at the pointer with the values of the nearest point.

/* Format a value for a template: a share, a difference of shares, or a time span from seconds, milliseconds or an instant. */
const WAYS = {
  ".0%": (value) => `${(100 * value).toFixed(0)} %`,
  ".1%": (value) => `${(100 * value).toFixed(1)} %`,
  "+.1%": (value) => `${value < 0 ? "-" : "+"}${(100 * Math.abs(value)).toFixed(1)} points`,
  "+": (value) => `${value < 0 ? "-" : "+"}${said(Math.abs(value), 3)}`,
  span: (value) => spanWords(value),
  ms: (value) => (value < 1000 ? "0 s" : spanWords(value / 1000)),
  since: (value, trace, at) => WAYS.ms(trace.base[at] - value),
};

/* Fill a trace's template for one point: %{x}, %{x:span}, %{y:.1%}, %{customdata}. */
function told(trace, at) {
  return trace.hovertemplate.replace(/%\{(\w+)(?::([^}]+))?\}/g, (_, name, way) => {
    const value = valueAt(trace, name, at);
    return way ? WAYS[way](value, trace, at) : typeof value === "number" ? said(value) : value;
  });
}

/* Return the point nearest in x, or for step curves the last point at or before x. */
const nearest = (places, x) => places.reduce((best, place, k) =>
  place && (best < 0 || Math.abs(place[0] - x) < Math.abs(places[best][0] - x)) ? k : best, -1);
const holding = (places, x) => places.reduce((best, place, k) => (place && place[0] <= x ? k : best), -1);

/* Return the lines of the read-out at a pointer, [[name, words], ...], and their point; empty if no point is near. */
function readAt(chart, left, top) {
  for (const { trace, places, kind } of [...chart.hits].reverse()) {
    if (kind !== "boxes") continue;
    const at = places.findIndex(([x, y, wide, high]) => left >= x - 1 && left <= x + wide + 1 && top >= y && top <= y + high);
    if (at >= 0) return { rows: [[trace.name, told(trace, at)]] };
  }
  const lines = chart.hits.filter((hit) => hit.kind !== "boxes");
  if (chart.layout.hovermode === "x unified") {
    const at = lines.map((hit) => nearest(hit.places, left));
    const near = Math.min(...lines.map((hit, k) => (at[k] < 0 ? Infinity : Math.abs(hit.places[at[k]][0] - left))));
    const rows = lines.flatMap(({ trace, places }, k) =>
      at[k] >= 0 && Math.abs(places[at[k]][0] - left) <= near + 6 ? [[trace.name, told(trace, at[k]), trace.x[at[k]]]] : []);
    return { rows, head: rows.length ? (typeof rows[0][2] === "number" ? said(rows[0][2]) : rows[0][2]) : "" };
  }
  let best = { far: 30, rows: [] };
  for (const { trace, places, kind } of lines) {
    const stepped = kind === "curve" && (trace.line || {}).shape === "hv";
    const candidates = stepped ? [holding(places, left)] : places.map((_, k) => k);
    for (const at of candidates) {
      if (at < 0 || !places[at]) continue;
      const far = trace.fill ? 0 : Math.hypot(stepped ? 0 : places[at][0] - left, places[at][1] - top);
      if (far < best.far) best = { far, rows: [[trace.name, told(trace, at)]], dot: stepped ? [left, places[at][1]] : places[at] };
    }
  }
  return best;
}

function readout(chart) {
  const over = chart.plot.over, tip = document.createElement("div"), dot = document.createElement("i");
  Object.assign(tip, { className: "tip", hidden: true });
  Object.assign(dot, { className: "dot", hidden: true });
  over.append(dot, tip);
  const show = (event) => {
    const edge = over.getBoundingClientRect(), left = event.clientX - edge.left, top = event.clientY - edge.top;
    const { rows, head, dot: at } = readAt(chart, left, top);
    tip.hidden = !rows.length;
    dot.hidden = !at || !rows.length;
    if (at) Object.assign(dot.style, { left: `${at[0]}px`, top: `${at[1]}px` });
    if (tip.hidden) return;
    const lines = rows.map(([name, words]) => {
      const line = document.createElement("div"), strong = document.createElement("strong");
      strong.textContent = name;
      line.append(strong, ` ${words}`);
      return line;
    });
    tip.replaceChildren(...(head ? [head] : []), ...lines);
    const wide = tip.offsetWidth, high = tip.offsetHeight, room = over.clientWidth;
    tip.style.left = `${Math.max(Math.min(left + 14 + wide > room ? left - 14 - wide : left + 14, room - wide), Math.min(0, room - wide))}px`;
    tip.style.top = `${Math.max(0, Math.min(top - high / 2, over.clientHeight - high))}px`;
  };
  const hide = () => { tip.hidden = dot.hidden = true; };
  over.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") show(event); });
  over.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
  touched(chart, show, hide);
}
