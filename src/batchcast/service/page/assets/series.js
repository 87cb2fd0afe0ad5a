// The cluster's series by uPlot: read off values, zoom by dragging. Without it the drawing of the server stays.
addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("series");
  if (!place || !window.uPlot) return;
  const numbers = name => place.dataset[name].split(",").map(Number);
  const percent = name => numbers(name).map(x => 100 * x);
  const ink = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const still = place.querySelector("svg");
  const data = [numbers("at"), percent("used"), percent("queued")];
  let plot;
  const day = t => new Date(1000 * t).toLocaleDateString(document.documentElement.lang, { day: "numeric", month: "short" });
  const draw = () => {
    if (plot) plot.destroy();
    const grid = { stroke: ink("--line"), width: 1 };
    const axis = { stroke: ink("--soft"), grid, ticks: grid };
    const value = (_, v) => v == null ? "–" : Math.round(v) + " %";
    plot = new uPlot({
      width: place.clientWidth, height: 260, scales: { y: { range: (_, low, high) => [0, Math.max(100, high)] } },
      axes: [{ ...axis, values: (_, ticks) => ticks.map(day).map((d, k, all) => d === all[k - 1] ? "" : d) }, { ...axis, values: (_, ticks) => ticks.map(t => t + " %"), size: 72 }],
      series: [{ label: place.dataset.atName, value: (_, t) => t == null ? "–" : new Date(1000 * t).toLocaleString(document.documentElement.lang) }, { label: place.dataset.usedName, stroke: ink("--near"), fill: ink("--far") + "66", width: 1.5, value },
               { label: place.dataset.queuedName, stroke: ink("--end-near"), width: 2, dash: [6, 4], value }],
    }, data, place);
    plot.root.querySelector("canvas").setAttribute("aria-hidden", "true");
  };
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", still.getAttribute("aria-label"));
  still.remove();
  draw();
  let width = place.clientWidth;
  addEventListener("resize", () => { if (place.clientWidth !== width) { width = place.clientWidth; draw(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
});
