// Fingers and pens on a plot: a tap reads values, a drag across zooms, two taps show all; up and down scrolls the page.

const TWICE = 350, STILL = 8;  // milliseconds between two taps, CSS pixels that a tap may stray

/* Which of an element's taps is the second of two; a drag is none. */
function twice() {
  let last = -Infinity;
  return (event) => {
    const second = event.timeStamp - last < TWICE;
    last = second ? -Infinity : event.timeStamp;
    return second;
  };
}

function touched(chart, show, hide) {
  const over = chart.plot.over, again = twice(), zooms = Boolean(chart.plot.setScale);  // cells are read only
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

/* What a tap has read goes with the next tap elsewhere. */
document.addEventListener("pointerdown", (event) => {
  if (event.pointerType === "mouse") return;
  for (const one of document.querySelectorAll(".tip, .dot")) if (!one.parentElement.contains(event.target)) one.hidden = true;
});
