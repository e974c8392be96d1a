// node:assert/strict. Messages are Node's.
"use strict";
const { inspect, same } = require("util");

const shown = (value) => inspect(value, { compact: false, depth: 1000, sorted: true });

class AssertionError extends Error {
  constructor(options) {
    if (typeof options !== "object" || options === null) {
      throw Object.assign(new TypeError('The "options" argument must be of type object.'), { code: "ERR_INVALID_ARG_TYPE" });
    }
    const { message, actual, expected, operator } = options;
    super(message === undefined ? generated(actual, expected, operator) : withMessage(actual, expected, operator, String(message)));
    hide(this, "name", "AssertionError");
    this.generatedMessage = message === undefined;
    this.code = "ERR_ASSERTION";
    this.actual = actual;
    this.expected = expected;
    this.operator = operator;
  }
  toString() {
    return `${this.name} [${this.code}]: ${this.message}`;
  }
}
const hide = (target, key, value) => Object.defineProperty(target, key, { value, enumerable: false, writable: true, configurable: true });

const headings = {
  deepStrictEqual: "Expected values to be strictly deep-equal:",
  strictEqual: "Expected values to be strictly equal:",
  strictEqualObject: 'Expected "actual" to be reference-equal to "expected":',
  deepEqual: "Expected values to be loosely deep-equal:",
  notDeepStrictEqual: 'Expected "actual" not to be strictly deep-equal to:',
  notStrictEqual: 'Expected "actual" to be strictly unequal to:',
  notStrictEqualObject: 'Expected "actual" not to be reference-equal to "expected":',
  notDeepEqual: 'Expected "actual" not to be loosely deep-equal to:',
  notIdentical: "Values have same structure but are not reference-equal:",
};

// generated is the message of a failure that brings none of its own.
function generated(actual, expected, operator) {
  if (operator === "deepStrictEqual" || operator === "strictEqual") return difference(actual, expected, operator);
  if (operator === "notDeepStrictEqual" || operator === "notStrictEqual") {
    let heading = headings[operator];
    if (operator === "notStrictEqual" && ((typeof actual === "object" && actual !== null) || typeof actual === "function")) {
      heading = headings.notStrictEqualObject;
    }
    const lines = shown(actual).split("\n");
    if (lines.length > 50) lines.splice(46, lines.length, "...");
    return lines.length === 1 ? `${heading}${lines[0].length > 5 ? "\n\n" : " "}${lines[0]}` : `${heading}\n\n${lines.join("\n")}\n`;
  }
  return `${shown(actual)} ${operator ?? "undefined"} ${shown(expected)}`;
}

// withMessage puts the caller's words where the heading would be. Newer Nodes show the
// difference all the same.
const withMessage = (actual, expected, operator, message) =>
  operator === "deepStrictEqual" || operator === "strictEqual" ? difference(actual, expected, operator, message) : message;

const isObject = (value) => typeof value === "object" && value !== null;

function difference(actual, expected, operator, message) {
  const a = shown(actual).split("\n");
  const b = shown(expected).split("\n");
  if (operator === "strictEqual" && ((isObject(actual) && isObject(expected)) || (typeof actual === "function" && typeof expected === "function"))) {
    operator = "strictEqualObject";
  }
  const heading = message ?? headings[operator];
  let indicator = "";
  if (a.length === 1 && b.length === 1 && a[0] !== b[0]) {
    const length = a[0].length + b[0].length;
    if (length <= 12) {
      if (!isObject(actual) && !isObject(expected) && (actual !== 0 || expected !== 0)) return `${heading}\n\n${a[0]} !== ${b[0]}\n`;
    } else if (operator !== "strictEqualObject" && length < 80) {
      let i = 0;
      while (a[0][i] === b[0][i]) i++;
      if (i > 2) indicator = `\n  ${" ".repeat(i)}^`;
    }
  }
  if (a.join("\n") === b.join("\n")) {
    const lines = a.length > 50 ? [...a.slice(0, 46), "..."] : a;
    return `${message ?? headings.notIdentical}\n\n${lines.join("\n")}\n`;
  }
  const { text, skipped } = lineDifference(a, b);
  return `${heading}\n+ actual - expected${skipped ? " ... Lines skipped" : ""}\n\n${text}${indicator}`;
}

// lineDifference marks the lines of two texts: the longest common subsequence stays.
// Long runs of equal lines are left out.
function lineDifference(a, b) {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const marked = [
    ...a.slice(0, head).map((line) => "  " + line),
    ...between(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map((line) => "  " + line),
  ];
  // The first lines stay, those near a change, and the last few.
  const near = (i) => marked.slice(Math.max(0, i - 2), i + 3).some((line) => line[0] !== " ");
  const last = marked.findLastIndex((line) => line[0] !== " ");
  const keep = marked.map((_, i) => i < 2 || near(i) || (i > last && marked.length - 1 - last <= 5));
  const out = [];
  let skipped = false;
  for (let i = 0; i < marked.length; i++) {
    if (keep[i] || (keep[i - 1] && keep[i + 1])) out.push(marked[i]);
    else if (out[out.length - 1] !== "...") {
      out.push("...");
      skipped = true;
    }
  }
  return { text: out.join("\n"), skipped };
}

function between(a, b) {
  if (a.length * b.length > 250000) return [...a.map((line) => "+ " + line), ...b.map((line) => "- " + line)];
  const best = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) best[i][j] = a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  }
  const out = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) out.push("  " + a[(j++, i++)]);
    else if (j >= b.length || (i < a.length && best[i + 1][j] >= best[i][j + 1])) out.push("+ " + a[i++]);
    else out.push("- " + b[j++]);
  }
  return out;
}

// fail throws: the message where it is an error itself, else an AssertionError.
function fail(options) {
  if (options.message instanceof Error) throw options.message;
  throw new AssertionError(options);
}

function okay(value, message, count, name) {
  if (value) return;
  if (count === 0) message = "No value argument passed to `assert.ok()`";
  else if (message === undefined) {
    const call = host.callText(new Error().stack);
    message = call === "" ? "The expression evaluated to a falsy value" : `The expression evaluated to a falsy value:\n\n  ${call}\n`;
    const error = new AssertionError({ message, actual: value, expected: true, operator: "==" });
    error.generatedMessage = true;
    throw error;
  }
  fail({ message, actual: value, expected: true, operator: "==" });
}

function assert(...args) {
  okay(args[0], args[1], args.length, "assert");
}

const needTwo = (args) => {
  if (args < 2) throw Object.assign(new TypeError('The "actual" and "expected" arguments must be specified'), { code: "ERR_MISSING_ARGS" });
};

function matches(wanted) {
  return (string, regexp, message) => {
    if (!(regexp instanceof RegExp)) {
      throw Object.assign(new TypeError(`The "regexp" argument must be an instance of RegExp. Received ${received(regexp)}`), { code: "ERR_INVALID_ARG_TYPE" });
    }
    if (typeof string === "string" && (regexp.exec(string) !== null) === wanted) return;
    if (message instanceof Error) throw message;
    const own = message === undefined;
    if (own) {
      message =
        typeof string !== "string"
          ? `The "string" argument must be of type string. Received type ${typeof string} (${inspect(string)})`
          : `${wanted ? "The input did not match the regular expression" : "The input was expected to not match the regular expression"} ${inspect(regexp)}. Input:\n\n${inspect(string)}\n`;
    }
    const error = new AssertionError({ message, actual: string, expected: regexp, operator: wanted ? "match" : "doesNotMatch" });
    error.generatedMessage = own;
    throw error;
  };
}

function received(value) {
  if (value === undefined || value === null) return String(value);
  if (typeof value === "function") return `function ${value.name}`;
  if (typeof value === "object") return `an instance of ${value.constructor?.name ?? "Object"}`;
  return `type ${typeof value} (${inspect(value)})`;
}

// checkError compares what was thrown with what was expected to be.
function checkError(actual, expected, message, operator) {
  if (expected === undefined) return;
  const bad = (text, more = {}) => {
    if (message instanceof Error) throw message;
    throw Object.assign(new AssertionError({ message: message ?? text, actual, expected, operator, ...more }), { generatedMessage: message === undefined });
  };
  if (typeof expected === "object" && expected !== null && !(expected instanceof RegExp)) {
    const keys = Object.keys(expected);
    if (expected instanceof Error) keys.push("name", "message");
    for (const key of keys) {
      const fits = typeof actual?.[key] === "string" && expected[key] instanceof RegExp ? expected[key].test(actual[key]) : same(actual?.[key], expected[key], true);
      if (!(key in Object(actual)) || !fits) {
        const pick = (from) => Object.fromEntries(keys.filter((k) => k in Object(from)).map((k) => [k, from[k]]));
        bad(difference(pick(actual), pick(expected), "deepStrictEqual"));
      }
    }
    return;
  }
  if (expected instanceof RegExp) {
    if (expected.test(String(actual))) return;
    bad(`The input did not match the regular expression ${inspect(expected)}. Input:\n\n${inspect(String(actual))}\n`);
  }
  if (expected.prototype !== undefined && actual instanceof expected) return;
  if (Error.isPrototypeOf(expected) || expected === Error) {
    let text = `The error is expected to be an instance of "${expected.name}". Received `;
    text += actual instanceof Error ? `"${actual.name}"` : `"${inspect(actual, { depth: -1 })}"`;
    if (actual?.message) text += `\n\nError message:\n\n${actual.message}`;
    bad(text);
  }
  const result = Reflect.apply(expected, {}, [actual]);
  if (result !== true) {
    const name = expected.name ? `"${expected.name}" ` : "";
    bad(`The ${name}validation function is expected to return "true". Received ${inspect(result)}${actual instanceof Error ? `\n\nCaught error:\n\n${actual}` : ""}`);
  }
}

const none = Symbol("nothing was thrown");

function caught(fn) {
  if (typeof fn !== "function") {
    throw Object.assign(new TypeError(`The "fn" argument must be of type function. Received ${received(fn)}`), { code: "ERR_INVALID_ARG_TYPE" });
  }
  try {
    fn();
  } catch (error) {
    return error;
  }
  return none;
}

async function caughtAsync(fn) {
  const promise = typeof fn === "function" ? fn() : fn;
  if (typeof promise?.then !== "function") {
    throw Object.assign(new TypeError('The "promiseFn" argument must be of type function or an instance of Promise.'), { code: "ERR_INVALID_ARG_TYPE" });
  }
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return none;
}

function expectError(operator, actual, expected, message) {
  if (typeof expected === "string") {
    message = expected;
    expected = undefined;
  }
  if (actual === none) {
    let text = expected?.name ? ` (${expected.name})` : "";
    text += message ? `: ${message}` : ".";
    fail({ message: `Missing expected ${operator === "rejects" ? "rejection" : "exception"}${text}`, actual: undefined, expected, operator });
  }
  checkError(actual, expected, message, operator);
}

function expectNoError(operator, actual, expected, message) {
  if (actual === none) return;
  if (typeof expected === "string") {
    message = expected;
    expected = undefined;
  }
  if (expected === undefined || (expected instanceof RegExp ? expected.test(String(actual)) : actual instanceof expected)) {
    const text = message ? `: ${message}` : ".";
    fail({
      message: `Got unwanted ${operator === "doesNotReject" ? "rejection" : "exception"}${text}\nActual message: "${actual?.message}"`,
      actual,
      expected,
      operator,
    });
  }
  throw actual;
}

const strictEqual = (...args) => {
  needTwo(args.length);
  if (!Object.is(args[0], args[1])) fail({ actual: args[0], expected: args[1], message: args[2], operator: "strictEqual" });
};
const notStrictEqual = (...args) => {
  needTwo(args.length);
  if (Object.is(args[0], args[1])) fail({ actual: args[0], expected: args[1], message: args[2], operator: "notStrictEqual" });
};
const deepStrictEqual = (...args) => {
  needTwo(args.length);
  if (!same(args[0], args[1], true)) fail({ actual: args[0], expected: args[1], message: args[2], operator: "deepStrictEqual" });
};
const notDeepStrictEqual = (...args) => {
  needTwo(args.length);
  if (same(args[0], args[1], true)) fail({ actual: args[0], expected: args[1], message: args[2], operator: "notDeepStrictEqual" });
};

Object.assign(assert, {
  ok: function ok(...args) {
    okay(args[0], args[1], args.length, "assert.ok");
  },
  equal: strictEqual,
  notEqual: notStrictEqual,
  strictEqual,
  notStrictEqual,
  deepEqual: deepStrictEqual,
  notDeepEqual: notDeepStrictEqual,
  deepStrictEqual,
  notDeepStrictEqual,
  match: matches(true),
  doesNotMatch: matches(false),
  throws: (fn, ...args) => expectError("throws", caught(fn), ...args),
  doesNotThrow: (fn, ...args) => expectNoError("doesNotThrow", caught(fn), ...args),
  rejects: async (fn, ...args) => expectError("rejects", await caughtAsync(fn), ...args),
  doesNotReject: async (fn, ...args) => expectNoError("doesNotReject", await caughtAsync(fn), ...args),
  fail(message = "Failed") {
    if (message instanceof Error) throw message;
    const error = new AssertionError({ message, operator: "fail" });
    error.generatedMessage = arguments.length === 0;
    throw error;
  },
  ifError(value) {
    if (value === null || value === undefined) return;
    const text = value instanceof Error ? value.message || value.name : inspect(value);
    throw new AssertionError({ message: `ifError got unwanted exception: ${text}`, actual: value, expected: null, operator: "ifError" });
  },
  AssertionError,
});
assert.strict = assert;
module.exports = assert;
