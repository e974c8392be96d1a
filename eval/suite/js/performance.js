// performance: the clock, marks and measures.
"use strict";
const timeOrigin = Date.now() - host.uptime() * 1000;
const now = () => host.uptime() * 1000;
const entries = [];

const add = (name, entryType, startTime, duration, detail = null) => {
  const entry = { name: String(name), entryType, startTime, duration, detail };
  entries.push(entry);
  return entry;
};

function timeOf(mark, otherwise) {
  if (mark === undefined) return otherwise;
  if (typeof mark === "number") return mark;
  const found = entries.findLast((entry) => entry.entryType === "mark" && entry.name === mark);
  if (!found) throw Object.assign(new SyntaxError(`The "${mark}" performance mark has not been set`), { code: "ERR_INVALID_PERFORMANCE_MARK" });
  return found.startTime;
}

const clear = (type) => (name) => {
  for (let i = entries.length - 1; i >= 0; i--) {
    if (entries[i].entryType === type && (name === undefined || entries[i].name === name)) entries.splice(i, 1);
  }
};

module.exports = {
  timeOrigin,
  now,
  mark: (name, options) => add(name, "mark", options?.startTime ?? now(), 0, options?.detail),
  measure(name, from, to) {
    const options = typeof from === "object" && from !== null ? from : { start: from, end: to };
    const start = timeOf(options.start, 0);
    return add(name, "measure", start, timeOf(options.end, now()) - start, options.detail);
  },
  getEntries: () => [...entries],
  getEntriesByName: (name, type) => entries.filter((entry) => entry.name === name && (type === undefined || entry.entryType === type)),
  getEntriesByType: (type) => entries.filter((entry) => entry.entryType === type),
  clearMarks: clear("mark"),
  clearMeasures: clear("measure"),
  toJSON: () => ({ timeOrigin }),
};
