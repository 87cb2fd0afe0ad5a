(() => {
  "use strict";
  const THEMES = {
    light: { ink: "#1b2430", soft: "#566273", grid: "#e6eaee", line: "#b9c3cd", card: "#ffffff",
      colours: ["#5b6470", "#0072b2", "#d55e00", "#009e73", "#b5508a", "#a87900", "#2b9bd6", "#7a5195", "#1b2430"] },
    dark: { ink: "#e4e9ef", soft: "#a3afbd", grid: "#27313b", line: "#4a5866", card: "#1f2731",
      colours: ["#aab4c0", "#5ab0e8", "#ff8b3d", "#35c79b", "#e59bc4", "#e6b73a", "#9ad4f5", "#b89ad6", "#e4e9ef"] },
  };
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function axis(given, theme, narrow) {
    const made = Object.assign({ automargin: true, gridcolor: theme.grid, linecolor: theme.line, zerolinecolor: theme.line,
      ticks: "outside", tickcolor: theme.line, ticklen: 4, fixedrange: narrow }, given);
    made.title = Object.assign({ standoff: 10 }, given.title);
    if (narrow && made.ticktext && made.ticktext.length > 6) {
      made.tickvals = made.tickvals.filter((_, k) => k % 2 === 0);
      made.ticktext = made.ticktext.filter((_, k) => k % 2 === 0);
    }
    return made;
  }

  function themed(figure, theme, narrow) {
    const data = figure.data.map((trace) => {
      const colour = theme.colours[trace.meta.slot % theme.colours.length];
      const made = Object.assign({}, trace);
      made.marker = Object.assign({ color: colour }, trace.marker);
      if (trace.type === "bar") {
        made.marker.pattern = Object.assign({ fgcolor: theme.card, bgcolor: colour }, trace.marker.pattern);
        made.textfont = { color: theme.ink };
        if (made.marker.line) made.marker.line = Object.assign({ color: theme.card }, made.marker.line);
      } else {
        made.line = Object.assign({ color: colour, width: 2.2 }, trace.line);
      }
      return made;
    });
    const layout = Object.assign({}, figure.layout, {
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, sans-serif", size: narrow ? 12 : 13, color: theme.ink },
      margin: { l: narrow ? 48 : 64, r: narrow ? 12 : 24, t: 34, b: 52 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: theme.ink } },
      showlegend: figure.data.length > 1,
      hoverlabel: { bgcolor: theme.card, bordercolor: theme.line, font: { color: theme.ink }, namelength: -1 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: theme.soft, activecolor: theme.ink },
    });
    const wide = figure.layout.xaxis || {};
    if (narrow && data.some((trace) => trace.text)) figure.layout.xaxis = Object.assign({}, wide, { range: [0, 1.3 * wide.range[1]] });
    for (const name of ["xaxis", "yaxis"]) layout[name] = axis(figure.layout[name] || {}, theme, narrow);
    if (narrow && !layout.xaxis.tickvals) Object.assign(layout.xaxis, { nticks: 4, tickangle: 0 });
    return { data, layout };
  }

  /* What is unticked, by kind; a trace, a row or a figure that names it is not shown. */
  const off = { policy: new Set(), predictor: new Set() };
  const picked = (k) => (document.querySelector(`select[data-figure="${k}"]`) || {}).value;

  function wanted(figure, k) {
    const variant = picked(k);
    if (figure.policy && off.policy.has(figure.policy)) return [];
    const data = [];
    for (const trace of figure.data) {
      const meta = trace.meta;
      if (off.predictor.has(meta.predictor) || (variant && meta.variant !== variant)) continue;
      if (!meta.points) { data.push(trace); continue; }
      const kept = meta.points.map((name, at) => at).filter((at) => !off.policy.has(meta.points[at]));
      const cut = Object.assign({}, trace);
      for (const name of ["x", "y", "text", "customdata"]) cut[name] = kept.map((at) => trace[name][at]);
      if (kept.length) data.push(cut);
    }
    return data;
  }

  function drawOne(figure, k) {
    const place = document.getElementById("figure-" + k);
    const data = wanted(figure, k);
    place.closest("figure").hidden = !data.length;
    if (!data.length) return undefined;
    const narrow = place.clientWidth < 560;
    if (data[0].meta.points) place.style.height = 130 + 26 * data.length * Math.max(...data.map((t) => t.y.length)) + "px";
    const theme = dark.matches ? THEMES.dark : THEMES.light;
    const made = themed({ data, layout: figure.layout }, theme, narrow);
    return Plotly.react(place, made.data, made.layout, { responsive: true, displaylogo: false,
      displayModeBar: narrow ? false : "hover", modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] });
  }

  /* One figure per task: the page can be read and scrolled from the first one on. */
  let latest = 0;
  async function draw() {
    const mine = ++latest;
    for (let k = 0; k < figures.length && mine === latest; k++) {
      await drawOne(figures[k], k);
      await new Promise((next) => setTimeout(next));
    }
  }

  function choose() {
    for (const kind of ["policy", "predictor"]) {
      const boxes = [...document.querySelectorAll(`.choices input[data-${kind}]`)];
      off[kind] = new Set(boxes.filter((box) => !box.checked).map((box) => box.dataset[kind]));
    }
    for (const row of document.querySelectorAll("tr[data-policy], tr[data-predictor]"))
      row.hidden = off.policy.has(row.dataset.policy) || off.predictor.has(row.dataset.predictor);
    for (const box of document.querySelectorAll(".choices")) {
      const all = [...box.querySelectorAll("input")];
      const left = all.filter((one) => !one.checked).length;
      box.hidden = all.length < 2;
      box.querySelector("output").textContent = left ? `(${left} of ${all.length} hidden)` : "";
    }
  }

  /* A table is sorted by the column whose head is pressed, the greatest first, then the other way; what has no value is last. */
  function sorted(head) {
    const up = head.getAttribute("aria-sort") === "descending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = head.closest("table").tBodies[0], at = head.cellIndex, sign = up ? 1 : -1;
    const words = new Intl.Collator(undefined, { numeric: true });
    const key = (row) => parseFloat(row.cells[at].dataset.value);
    const order = (a, b) => Number.isNaN(key(a)) || Number.isNaN(key(b))
      ? Number.isNaN(key(a)) - Number.isNaN(key(b)) || -sign * words.compare(a.cells[at].textContent, b.cells[at].textContent)
      : sign * (key(a) - key(b));
    body.append(...[...body.rows].sort(order));
  }

  for (const head of document.querySelectorAll("thead th")) {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    button.addEventListener("click", () => sorted(head));
    if (head.closest("table").tBodies[0].rows.length > 1) head.append(button); else head.append(...button.childNodes);
  }

  choose();
  window.drawn = draw();
  dark.addEventListener("change", () => { window.drawn = draw(); });
  document.addEventListener("change", (event) => {
    const from = event.target;
    if (from.matches(".choices input")) { choose(); window.drawn = draw(); }
    if (from.matches("select[data-figure]")) window.drawn = drawOne(figures[+from.dataset.figure], +from.dataset.figure);
  });
})();
