// A heat map: cells in a few shades on a separate canvas. One hue from light to dark, or blue over grey to orange (also
// for colour-blind readers). The legend has the numbers; a table behind the figure has every value.

const SHADES = {
  sequential: {
    light: ["#e7f0fa", "#c3dbf3", "#92bee9", "#1f6fb8", "#0b4a8f"], dark: ["#1e3347", "#204a75", "#2c69ab", "#7fb6ee", "#cfe5fb"],
  },
  diverging: {
    light: ["#0b4a8f", "#3f86cc", "#b5d3f0", "#efefec", "#f6cfa8", "#dd7d22", "#8f3f00"],
    dark: ["#a9d5ff", "#4a90d9", "#1f4468", "#323b45", "#5e3d1d", "#d07a2a", "#ffc48a"],
  },
};

/* Return black or white, whichever is more readable on a colour. */
function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((k) => (parseInt(colour.slice(k, k + 2), 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#0b1219" : "#ffffff";
}

function heatLegend(box, words, shades, unit, theme) {
  box.hidden = false;
  box.replaceChildren(...words.map((text, k) => {
    const one = document.createElement("span"), piece = document.createElement("canvas");
    Object.assign(piece, { width: 30 * unit, height: 14 * unit });
    piece.setAttribute("aria-hidden", "true");
    const pen = piece.getContext("2d");
    Object.assign(pen, { fillStyle: shades[k], strokeStyle: theme.line, lineWidth: unit });
    pen.fillRect(0, 0, piece.width, piece.height);
    pen.strokeRect(unit / 2, unit / 2, piece.width - unit, piece.height - unit);
    one.append(piece, text);
    return one;
  }));
}

/* Build the same elements as uPlot: a canvas, and a layer over the cells that receives pointer events. */
function heatFrame(place, layout, unit, width) {
  const [above, frame, below, wrap, canvas, over] = ["div", "div", "div", "div", "canvas", "div"].map((name) => document.createElement(name));
  [above.textContent, below.textContent] = [layout.yaxis.title.text, layout.xaxis.title.text];
  [above.className, below.className, frame.className, wrap.className, over.className] = ["title y", "title x", "uplot", "u-wrap", "u-over"];
  wrap.append(canvas, over);
  frame.append(wrap);
  place.replaceChildren(above, frame, below);
  const height = Math.max(place.clientHeight - above.offsetHeight - below.offsetHeight, 120);
  Object.assign(canvas, { width: width * unit, height: height * unit });
  Object.assign(wrap.style, { width: `${width}px`, height: `${height}px` });
  return { canvas, over, height };
}

function drawHeat(place, figure, trace, theme, width) {
  const { layout } = figure, unit = uPlot.pxRatio, narrow = width < 560, text = narrow ? 11 : 13;
  const columns = layout.xaxis.categoryarray, rows = layout.yaxis.categoryarray, shades = SHADES[layout.scale][theme.kind];
  const { canvas, over, height } = heatFrame(place, layout, unit, width), pen = canvas.getContext("2d");
  pen.scale(unit, unit);
  pen.font = `${text}px ${FONT}`;
  const widthOf = (words) => pen.measureText(words).width;
  const left = Math.ceil(Math.max(...rows.map(widthOf))) + 10, top = 4, right = 1, bottom = text + 9;
  const wide = (width - left - right) / columns.length, high = (height - top - bottom) / rows.length;
  const cell = (name, row) => [left + columns.indexOf(name) * wide, top + rows.indexOf(row) * high, wide, high];
  Object.assign(over.style, { left: 0, top: 0, width: `${width}px`, height: `${height}px` });
  Object.assign(pen, { textBaseline: "middle", textAlign: "right", fillStyle: theme.ink });
  rows.forEach((name, k) => pen.fillText(name, left - 8, top + (k + 0.5) * high));
  pen.textAlign = "center";
  const middles = columns.map((_, k) => left + (k + 0.5) * wide);
  apart(columns, middles, widthOf, left - 8, width + 4).forEach((name, k) => pen.fillText(name, middles[k], height - bottom / 2 + 2));
  Object.assign(pen, { strokeStyle: theme.grid, lineWidth: 1 });
  for (const row of rows) for (const name of columns) { const [x, y] = cell(name, row); pen.strokeRect(x + 1, y + 1, wide - 2, high - 2); }
  const places = trace.x.map((name, k) => cell(name, trace.y[k]));
  pen.font = `${text - 1}px ${FONT}`;
  const room = high > text && Math.max(...trace.text.map(widthOf)) < wide - 4;  // text in all cells or in none
  places.forEach(([x, y], k) => {
    const colour = shades[trace.shade[k]];
    pen.fillStyle = colour;
    pen.fillRect(x + 0.5, y + 0.5, wide - 1, high - 1);
    pen.fillStyle = inkOn(colour);
    if (room) pen.fillText(trace.text[k], x + wide / 2, y + high / 2 + 1);
  });
  Object.assign(pen, { strokeStyle: theme.ink, lineWidth: 1.2 });
  if (layout.diagonal) for (const name of rows) if (columns.includes(name)) { const [x, y] = cell(name, name); pen.strokeRect(x + 1, y + 1, wide - 2, high - 2); }
  const bbox = { left: left * unit, top: top * unit, width: wide * columns.length * unit, height: high * rows.length * unit };
  const shown = [{ ...trace, meta: { ...trace.meta, slot: trace.shade[0] } }];
  place.chart = { place, figure, layout, shown, theme: { ...theme, colours: shades }, hits: [{ trace, kind: "boxes", places }],
    plot: { ctx: pen, bbox, over, destroy() {} } };
  readout(place.chart);
  heatLegend(place.previousElementSibling, layout.legend, shades, unit, theme);
}
