// The page: selection of figures, policies and predictors, sorted tables, light and dark theme, resizing, printing.

const THEMES = {
  light: { kind: "light", ink: "#1b2430", soft: "#566273", grid: "#e6eaee", line: "#b9c3cd", card: "#ffffff",
    colours: ["#5b6470", "#0072b2", "#d55e00", "#009e73", "#b5508a", "#a87900", "#2b9bd6", "#7a5195", "#1b2430"] },
  dark: { kind: "dark", ink: "#e4e9ef", soft: "#a3afbd", grid: "#27313b", line: "#4a5866", card: "#1f2731",
    colours: ["#aab4c0", "#5ab0e8", "#ff8b3d", "#35c79b", "#e59bc4", "#e6b73a", "#9ad4f5", "#b89ad6", "#e4e9ef"] },
};
const figures = JSON.parse(document.getElementById("figures").textContent);
figures.forEach(unpack);
const dark = window.matchMedia("(prefers-color-scheme: dark)");

/* Unticked choices by kind; a trace, row or figure with an unticked choice is hidden. */
const off = { policy: new Set(), predictor: new Set() };
const picked = (k) => (document.querySelector(`select[data-figure="${k}"]:not([data-colours])`) || {}).value;
function colouring(figure, k) {
  const list = document.querySelector(`select[data-figure="${k}"][data-colours]`);
  return (figure.colourings || [])[list ? list.selectedIndex : 0];
}

function wanted(figure, k) {
  const variant = picked(k);
  if (figure.policy && off.policy.has(figure.policy)) return [];
  const data = [];
  for (const trace of figure.data) {
    const meta = trace.meta;
    if (off.predictor.has(meta.predictor) || (variant && meta.variant !== variant)) continue;
    data.push(trace);
  }
  const by = colouring(figure, k);
  return by ? data.flatMap((trace) => coloured(trace, by)) : data;
}

const PAPER = 700;  // CSS pixels; two figures side by side when printed, see page.css
let printing = false;

function drawOne(figure, k) {
  const place = document.getElementById("figure-" + k);
  if (place.closest("details:not([open])")) return;  // a closed section has no width yet
  const data = wanted(figure, k);
  place.closest("figure").hidden = !data.length;
  if (!data.length) return;
  const width = printing ? PAPER : place.clientWidth;
  drawTogether(place, figure, data, picked(k), dark.matches && !printing ? THEMES.dark : THEMES.light, width);
}

/* Draw one figure per task, so that the page can be scrolled after the first figure. */
let latest = 0;
async function draw() {
  const mine = ++latest;
  for (let k = 0; k < figures.length && mine === latest; k++) {
    drawOne(figures[k], k);
    await new Promise((next) => setTimeout(next));
  }
  performance.mark("drawn");
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

/* Sort a table by the column whose header is pressed: largest first, then reversed; rows without a value last. */
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
  if (head.closest("table").tBodies[0].rows.length > 1 && !head.closest("figure")) head.append(button); else head.append(...button.childNodes);
}

choose();
window.drawn = draw();
dark.addEventListener("change", () => { window.drawn = draw(); });
document.addEventListener("change", (event) => {
  const from = event.target;
  if (from.matches(".choices input")) { choose(); window.drawn = draw(); }
  if (from.matches("select[data-figure]")) window.drawn = drawOne(figures[+from.dataset.figure], +from.dataset.figure);
});

/* Draw the figures of a section when it is opened. */
document.addEventListener("toggle", (event) => {
  for (const place of event.target.open ? event.target.querySelectorAll("figure > .plot") : []) {
    const k = +place.id.slice("figure-".length);
    drawOne(figures[k], k);
  }
}, true);

let across = innerWidth;
addEventListener("resize", () => requestAnimationFrame(() => {
  if (innerWidth === across) return;
  across = innerWidth;
  window.drawn = draw();
}));
const paper = (on) => () => {
  printing = on;
  for (const [k, figure] of figures.entries()) drawOne(figure, k);
};
addEventListener("beforeprint", paper(true));
addEventListener("afterprint", paper(false));
