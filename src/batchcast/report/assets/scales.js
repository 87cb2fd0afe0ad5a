// Scales: the kind of an axis, its range, and the labels of its ticks. Dates are UTC milliseconds.

const DAY = 86400000;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/* Return how an axis converts its values: { kind, names, sign, read }; sign is -1 if the first category is at the top. */
function scaleOf(axis, traces, side) {
  const first = traces.flatMap((trace) => trace[side].slice(0, 1))[0];
  if (axis.type === "category") {
    const seen = new Set(traces.flatMap((trace) => trace[side]));
    const named = (axis.categoryarray || []).filter((name) => seen.has(name));
    const names = [...new Set([...named, ...seen])];
    const sign = axis.autorange === "reversed" ? -1 : 1;
    const place = new Map(names.map((name, k) => [name, sign < 0 ? names.length - 1 - k : k]));
    return { kind: "category", names, sign, read: (name) => place.get(name) };
  }
  if (axis.type === "log") return { kind: "log", read: (value) => value };
  if (axis.type === "date" || typeof first === "string") {
    const instant = (text) => Date.parse(text.length > 10 ? text.replace(" ", "T").replace(/Z?$/, "Z") : text);
    return { kind: "date", read: (value) => (typeof value === "string" ? instant(value) : value) };
  }
  return { kind: "linear", read: (value) => value };
}

/* Return the range of an axis around its values; margins are the share `free` of its length, none at 0 if "tozero". */
function endsOf(axis, scale, values, free) {
  if (scale.kind === "category") return [-0.5, scale.names.length - 0.5];
  if (axis.range) return axis.range;
  const known = values.filter((value) => Number.isFinite(value) && (scale.kind !== "log" || value > 0));
  if (!known.length) return scale.kind === "log" ? [1, 10] : [0, 1];
  let low = known.reduce((a, b) => Math.min(a, b)), high = known.reduce((a, b) => Math.max(a, b));
  if (scale.kind === "log") {
    const room = Math.max(Math.log10(high / low) * free, low === high ? 0.3 : 0);
    return [low / 10 ** room, high * 10 ** room];
  }
  if (axis.rangemode === "tozero") [low, high] = [Math.min(low, 0), Math.max(high, 0)];
  if (low === high) [low, high] = low === 0 ? [0, 1] : [low - 0.5, high + 0.5];
  const room = (high - low) * free, held = axis.rangemode === "tozero";
  return [held && low === 0 ? 0 : low - room, held && high === 0 ? 0 : high + room];
}

/* Format a number for ticks and read-outs. */
const said = (value, digits = 6) => value.toLocaleString("en", { maximumSignificantDigits: digits });

function dateWords(ticks, step) {
  let before = "";
  return ticks.map((tick) => {
    const date = new Date(tick), day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`, year = date.getUTCFullYear();
    if (step >= 28 * DAY) return `${MONTHS[date.getUTCMonth()]} ${year}`;
    const [above, below] = step >= DAY ? [day, `${year}`] : [date.toISOString().slice(11, 16), day];
    const words = below === before ? above : `${above}\n${below}`;
    before = below;
    return words;
  });
}

const SECONDS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const STEPS = [1, 5, 15, 60, 300, 900, 3600, 10800, 43200, 86400, 604800, 2592000, 31536000];

/* Return round time spans between two values, for an axis of seconds whose ticks are too far apart after a zoom. */
function closeTicks(low, high) {
  const step = STEPS.find((one) => (high - low) / one <= 7) || (high - low) / 6, first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, k) => (first + k) * step);
}

/* Format seconds in their two largest units: 2 h 15 min. */
function spanWords(seconds) {
  const largest = SECONDS.findIndex(([, size]) => seconds >= size);
  if (largest < 0) return said(seconds, 2);
  let left = Math.round(seconds);
  return SECONDS.slice(largest, largest + 2).map(([name, size]) => {
    const amount = Math.floor(left / size);
    left -= amount * size;
    return amount ? `${amount} ${name}` : "";
  }).join(" ").trim();
}

/* Return the tick labels of an axis; `step` is the distance between two ticks. */
function tickWords(axis, scale, ticks, step) {
  if (axis.tickvals) return ticks.map((tick) => axis.ticktext[axis.tickvals.indexOf(tick)] || spanWords(tick));
  if (scale.kind === "date") return dateWords(ticks, step);
  if (axis.tickformat === ".0%") return ticks.map((tick) => `${(100 * tick).toFixed(step < 0.01 ? 1 : 0)}\u00a0%`);
  return ticks.map((tick) => (tick === null ? "" : said(tick)));
}

/* Drop labels along an axis that would touch the previous label or be cut off at the end. */
function apart(words, middles, widthOf, from, to) {
  let free = from;
  return words.map((text, k) => {
    const half = Math.max(...text.split("\n").map(widthOf)) / 2;
    if (!text || middles[k] - half < free || middles[k] + half > to) return "";
    free = middles[k] + half + 8;
    return text;
  });
}

/* Wrap a long name into lines of at most `most` characters, after spaces and punctuation. */
function folded(text, most) {
  const lines = [""];
  for (const word of text.split(/(?<=[ ,:+/=])/)) {
    const last = lines.length - 1;
    if (lines[last] && (lines[last] + word).trimEnd().length > most) lines.push(word);
    else lines[last] += word;
  }
  return lines.map((line) => line.trim()).map((line) => (line.length > most + 2 ? line.slice(0, most) + "…" : line));
}
