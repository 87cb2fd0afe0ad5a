// Touch and pen input on a plot: a tap shows values, a horizontal drag zooms, a double tap shows all, a vertical drag scrolls.

const TWICE = 350, STILL = 8;  // milliseconds between two taps; CSS pixels that a tap may move

/* Return a function that recognizes the second tap of a double tap on an element; a drag is no tap. */
function twice() {
  let last = -Infinity;
  return (event) => {
    const second = event.timeStamp - last < TWICE;
    last = second ? -Infinity : event.timeStamp;
    return second;
  };
}

function touched(chart, show, hide) {
  const over = chart.plot.over, again = twice(), zooms = Boolean(chart.plot.setScale);  // heat maps do not zoom
  let from = null, moved = false;
  const at = (event) => {
    const edge = over.getBoundingClientRect();
    return Math.max(0, Math.min(event.clientX - edge.left, edge.width));
  };
  const select = (left, width) => chart.plot.setSelect({ left, width, top: 0, height: width && over.clientHeight }, false);
  const zoom = (min, max) => chart.plot.setScale("x", { min, max });
  const listen = (kind, then) => over.addEventListener(kind, (event) => { if (event.pointerType !== "mouse") then(event); });
  listen("pointerdown", (event) => { [from, moved] = [event.isPrimary ? at(event) : null, false]; });
  listen("pointermove", (event) => {
    if (from === null || !event.isPrimary || !zooms) return;
    const to = at(event);
    moved ||= Math.abs(to - from) > STILL;
    if (!moved) return;
    hide();
    select(Math.min(from, to), Math.abs(to - from));
  });
  listen("pointerup", (event) => {
    if (from === null || !event.isPrimary) return;
    const ends = [from, at(event)].sort((a, b) => a - b);
    from = null;
    if (!moved) {
      if (again(event) && zooms) zoom(...chart.ends.x);
      else show(event);
      return;
    }
    const [min, max] = ends.map((place) => chart.plot.posToVal(place, "x"));
    select(0, 0);
    if (max > min) zoom(min, max);
  });
  listen("pointercancel", () => {
    from = null;
    if (zooms) select(0, 0);
  });
}

/* Hide a read-out at the next tap elsewhere. */
document.addEventListener("pointerdown", (event) => {
  if (event.pointerType === "mouse") return;
  for (const one of document.querySelectorAll(".tip, .dot")) if (!one.parentElement.contains(event.target)) one.hidden = true;
});
