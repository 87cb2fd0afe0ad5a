// The legend: one button per series, pressed if the series is shown, with a sample of its mark.

function swatch(trace, theme) {
  const piece = document.createElement("canvas"), unit = window.devicePixelRatio || 1;
  const colour = theme.colours[trace.meta.slot % theme.colours.length], middle = [15 * unit, 7 * unit];
  Object.assign(piece, { width: 30 * unit, height: 14 * unit });
  piece.setAttribute("aria-hidden", "true");
  const pen = piece.getContext("2d"), mode = trace.mode || "lines";
  if (trace.type === "bar") boxes(pen, [[8 * unit, unit, 14 * unit, 12 * unit]], trace.marker || {}, colour, theme, unit);
  else {
    if (mode.includes("lines")) curve(pen, [[0, middle[1]], [30 * unit, middle[1]]], { ...trace.line, shape: "" }, colour, unit);
    if (mode.includes("markers")) markers(pen, [middle], trace.marker || {}, colour, unit);
  }
  return piece;
}

function legend(box, traces, hidden, theme, redraw) {
  box.hidden = traces.length < 2;
  const focused = [...box.children].indexOf(document.activeElement);
  box.replaceChildren(...(box.hidden ? [] : traces.map((trace) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", String(!hidden.has(trace.name)));
    button.append(swatch(trace, theme), trace.name);
    button.addEventListener("click", () => {
      if (!hidden.delete(trace.name)) hidden.add(trace.name);
      redraw();
    });
    return button;
  })));
  if (focused >= 0 && box.children[focused]) box.children[focused].focus();
}
