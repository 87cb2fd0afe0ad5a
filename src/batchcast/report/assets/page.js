(() => {
  "use strict";
  const THEMES = {
    light: { ink: "#1b2430", soft: "#566273", grid: "#e6eaee", line: "#b9c3cd", card: "#ffffff",
      colours: ["#5b6470", "#0072b2", "#d55e00", "#009e73", "#b5508a", "#a87900", "#2b9bd6", "#7a5195"] },
    dark: { ink: "#e4e9ef", soft: "#a3afbd", grid: "#27313b", line: "#4a5866", card: "#1f2731",
      colours: ["#aab4c0", "#5ab0e8", "#ff8b3d", "#35c79b", "#e59bc4", "#e6b73a", "#9ad4f5", "#b89ad6"] },
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
    for (const name of ["xaxis", "yaxis"]) layout[name] = axis(figure.layout[name] || {}, theme, narrow);
    return { data, layout };
  }

  function draw() {
    const theme = dark.matches ? THEMES.dark : THEMES.light;
    figures.forEach((figure, k) => {
      const place = document.getElementById("figure-" + k);
      const narrow = place.clientWidth < 560;
      const { data, layout } = themed(figure, theme, narrow);
      Plotly.react(place, data, layout, { responsive: true, displaylogo: false, displayModeBar: narrow ? false : "hover",
        modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] });
    });
  }

  draw();
  dark.addEventListener("change", draw);
})();
