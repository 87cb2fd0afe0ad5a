// The brush: an overview shows the whole time span; readers drag or press keys on it to choose what the other charts show.

const NARROWEST = 60000, WIDER = 1.5;  // shortest range in milliseconds; factor by which a key changes the length

/* Move a range into [low, high] and shorten it if it is longer. */
function held([low, high], from, to) {
  const long = Math.min(Math.max(to - from, NARROWEST), high - low), start = Math.min(Math.max(from, low), high - long);
  return [start, start + long];
}

/* Return the range after a key press; null if the key has no meaning here. */
function typed(event, [low, high], [from, to]) {
  if (event.ctrlKey || event.altKey || event.metaKey) return null;
  const long = to - from, moved = (by) => [from + by * long, to + by * long];
  const sized = (by) => [from + (long * (1 - by)) / 2, to - (long * (1 - by)) / 2];
  const keys = {
    "+": () => sized(WIDER), "=": () => sized(WIDER), "-": () => sized(1 / WIDER), Escape: () => [low, high],
    ArrowLeft: () => (event.shiftKey ? sized(1 / WIDER) : moved(-0.1)), ArrowRight: () => (event.shiftKey ? sized(WIDER) : moved(0.1)),
    PageUp: () => moved(-1), PageDown: () => moved(1), Home: () => [low, low + long], End: () => [high - long, high],
  };
  return keys[event.key] ? keys[event.key]() : null;
}

/* Return what a pointer drags: one end of the range (`from`, `to`), the range (`both`), or null: a new range begins. */
function taken(reach, event, whole, [from, to], at) {
  if (to - from >= whole[1] - whole[0] - 1) return null;
  const near = ((event.pointerType === "mouse" ? 8 : 18) * (whole[1] - whole[0])) / reach.clientWidth;
  const inside = at > from && at < to;
  if (inside && to - from < 3 * near) return "both";
  if (Math.abs(at - from) < near) return "from";
  if (Math.abs(at - to) < near) return "to";
  return inside ? "both" : null;
}

function dragged(kind, whole, [from, to], begun, at) {
  if (kind === "both") return held(whole, from + at - begun, to + at - begun);
  const ends = kind === "from" ? [at, to] : kind === "to" ? [from, at] : [begun, at];
  return held(whole, ...ends.sort((a, b) => a - b));
}

/* Add the listeners of an overview's strip, once; `group` is the state that its charts share (together.js). */
function listen(reach, slider, group) {
  const again = twice(), all = () => seeTogether(group, ...group.whole);
  const at = (event) => {
    const edge = reach.getBoundingClientRect(), share = Math.max(0, Math.min((event.clientX - edge.left) / edge.width, 1));
    return group.whole[0] + share * (group.whole[1] - group.whole[0]);
  };
  let drag = null;
  reach.addEventListener("mousedown", (event) => event.preventDefault());  // keep the focus on the brush
  reach.addEventListener("pointerdown", (event) => {
    if (event.button || !event.isPrimary) return;
    drag = { begun: at(event), x: event.clientX, seen: group.seen, kind: taken(reach, event, group.whole, group.seen, at(event)) };
    reach.setPointerCapture(event.pointerId);
    slider.focus({ preventScroll: true });
  });
  reach.addEventListener("pointermove", (event) => {
    if (!drag || !event.isPrimary) return;
    drag.moved ||= Math.abs(event.clientX - drag.x) > STILL / 2;
    if (drag.moved) seeTogether(group, ...dragged(drag.kind, group.whole, drag.seen, drag.begun, at(event)));
  });
  reach.addEventListener("pointerup", (event) => {
    if (!drag || !event.isPrimary) return;
    const { moved, kind, begun, seen: [from, to] } = drag;
    drag = null;
    if (moved) return;
    if (again(event)) all();
    else if (!kind) seeTogether(group, ...held(group.whole, begun - (to - from) / 2, begun + (to - from) / 2));
  });
  reach.addEventListener("pointercancel", () => {  // the browser scrolls the page instead: undo the drag
    if (drag) seeTogether(group, ...drag.seen);
    drag = null;
  });
  slider.addEventListener("keydown", (event) => {
    const range = typed(event, group.whole, group.seen);
    if (!range) return;
    event.preventDefault();
    seeTogether(group, ...held(group.whole, ...range));
  });
}

/* Place the brush over an overview that was just drawn, and show the selected part there. */
function brush(chart, group) {
  const strip = chart.place.parentElement, reach = strip.querySelector(".reach"), slider = strip.querySelector(".brush");
  if (!group.brush) listen(reach, slider, group);
  queueMicrotask(() => {  // wait until uPlot has laid out the chart
    const over = chart.plot.over.getBoundingClientRect(), edge = strip.getBoundingClientRect();
    const lengths = { left: over.left - edge.left, top: over.top - edge.top, width: over.width, height: over.height };
    for (const [name, value] of Object.entries(lengths)) reach.style[name] = `${value}px`;
  });
  group.brush = () => {
    const [low, high] = group.whole, [from, to] = group.seen, share = (value) => (100 * (value - low)) / (high - low);
    Object.assign(slider.style, { left: `${share(from)}%`, width: `${share(to) - share(from)}%` });
    const words = rangeWords(from, to), all = to - from >= high - low - 1;
    slider.setAttribute("aria-valuenow", String(Math.round(share(from))));
    slider.setAttribute("aria-valuetext", all ? `all: ${words}` : words);
    strip.querySelector(".seen").textContent = `Shown: ${all ? "all, " : ""}${words}.`;
  };
  group.brush();
}

/* Return a range of time as text. */
function rangeWords(from, to) {
  const [one, other] = [from, to].map((at) => new Date(at).toISOString().slice(0, 16).replace("T", " "));
  return `${one} to ${one.slice(0, 10) === other.slice(0, 10) ? other.slice(11) : other} (${spanWords((to - from) / 1000)})`;
}
