// node:assert/strict. Messages are Node's.
"use strict";
const { covers, inspect, received, same } = require("util");

const shown = (value) =>
  inspect(value, { compact: false, customInspect: false, depth: 1000, maxArrayLength: Infinity, maxStringLength: Infinity, sorted: true, getters: true, breakLength: Infinity });

class AssertionError extends Error {
  constructor(options) {
    if (typeof options !== "object" || options === null) {
      const text = `The "options" argument must be of type object. Received ${received(options)}`;
      throw Object.assign(new TypeError(text), { code: "ERR_INVALID_ARG_TYPE" });
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
  partialDeepStrictEqual: "Expected values to be partially and strictly deep-equal:",
  strictEqual: "Expected values to be strictly equal:",
  strictEqualObject: 'Expected "actual" to be reference-equal to "expected":',
  deepEqual: "Expected values to be loosely deep-equal:",
  notDeepStrictEqual: 'Expected "actual" not to be strictly deep-equal to:',
  notStrictEqual: 'Expected "actual" to be strictly unequal to:',
  notStrictEqualObject: 'Expected "actual" not to be reference-equal to "expected":',
  notDeepEqual: "Expected values not to be loosely deep-equal:",
  notIdentical: "Values have same structure but are not reference-equal:",
};

const hasDifference = (operator) => operator === "deepStrictEqual" || operator === "strictEqual" || operator === "partialDeepStrictEqual";

// generated is the message of a failure that brings none of its own.
function generated(actual, expected, operator) {
  if (hasDifference(operator)) return difference(actual, expected, operator);
  if (operator === "notDeepStrictEqual" || operator === "notStrictEqual") {
    let heading = headings[operator];
    if (operator === "notStrictEqual" && ((typeof actual === "object" && actual !== null) || typeof actual === "function")) {
      heading = headings.notStrictEqualObject;
    }
    const lines = shown(actual).split("\n");
    if (lines.length > 50) lines.splice(46, lines.length, "...");
    return lines.length === 1 ? `${heading}${lines[0].length > 5 ? "\n\n" : " "}${lines[0]}` : `${heading}\n\n${lines.join("\n")}\n`;
  }
  if (operator === "deepEqual" || operator === "notDeepEqual") {
    const not = operator === "notDeepEqual" ? "not " : "";
    return `${headings[operator]}\n\n${shown(actual)}\n\nshould ${not}loosely deep-equal\n\n${shown(expected)}`;
  }
  return `${shown(actual)} ${operator ?? "undefined"} ${shown(expected)}`;
}

// withMessage puts the caller's words where the heading would be. Newer Nodes show the
// difference all the same.
const withMessage = (actual, expected, operator, message) =>
  hasDifference(operator) ? difference(actual, expected, operator, message) : message;

const isObject = (value) => typeof value === "object" && value !== null;

function difference(actual, expected, operator, message) {
  const a = shown(actual).split("\n");
  const b = shown(expected).split("\n");
  if (operator === "strictEqual" && ((isObject(actual) && isObject(expected)) || (typeof actual === "function" && typeof expected === "function"))) {
    operator = "strictEqualObject";
  }
  let header = "+ actual - expected";
  let text;
  let skipped = false;
  if (a.length === 1 && b.length === 1 && a[0] !== b[0] && !(isObject(actual) && isObject(expected))) {
    const quotes = (typeof actual === "string" ? 2 : 0) + (typeof expected === "string" ? 2 : 0);
    if (a[0].length + b[0].length - quotes <= 12 && (actual !== 0 || expected !== 0)) {
      header = "";
      text = `${a[0]} !== ${b[0]}`;
    } else text = stacked(a[0], b[0], typeof actual === "string" && typeof expected === "string");
  } else if (a.join("\n") === b.join("\n")) {
    operator = "notIdentical";
    header = "";
    skipped = a.length > 50;
    text = skipped ? `${a.slice(0, 50).join("\n")}\n...}` : a.join("\n");
  } else ({ text, skipped } = lineDifference(a, b, isObject(actual)));
  return `${message ?? headings[operator]}\n${header}${skipped ? "\n... Skipped lines" : ""}\n${text}\n`;
}

// stacked shows two short texts with a mark where they part.
function stacked(a, b, marked) {
  const text = `\n+ ${a}\n- ${b}`;
  if (!marked || a.length + b.length > 80) return text;
  let i = 0;
  while (i < a.length && a[i] === b[i]) i++;
  return i >= 3 && i < a.length ? `${text}\n${" ".repeat(i + 2)}^` : text;
}

// lineDifference marks the lines of two texts, by the algorithm of Myers. Long runs of
// equal lines are left out. With commas, a line equals one that has a comma more.
function lineDifference(a, b, commas) {
  const marked = marks(a, b, commas);
  const out = [];
  let skipped = false;
  let equal = 0;
  marked.forEach(([mark, line], i) => {
    if (mark !== " " && equal > 0) {
      if (equal === 6) out.push(`  ${marked[i - 1][1]}`);
      else if (equal === 7) out.push(`  ${marked[i - 2][1]}`, `  ${marked[i - 1][1]}`);
      else if (equal > 7) {
        out.push("...", `  ${marked[i - 1][1]}`);
        skipped = true;
      }
      equal = 0;
    }
    if (mark !== " ") out.push(`${mark} ${line}`);
    else if (equal++ < 5) out.push(`  ${line}`);
  });
  return { text: `\n${out.join("\n").trimEnd()}`, skipped };
}

function marks(a, b, commas) {
  if (a.length * b.length > 4e6) return [...a.map((line) => ["+", line]), ...b.map((line) => ["-", line])];
  const alike = (x, y) => x === y || (commas && (`${x},` === y || x === `${y},`));
  const max = a.length + b.length;
  const reach = new Int32Array(2 * max + 1);
  const trace = [];
  for (let level = 0; ; level++) {
    trace.push(reach.slice(max - level - 1 < 0 ? 0 : max - level - 1, max + level + 2));
    for (let diagonal = -level; diagonal <= level; diagonal += 2) {
      const [before, after] = [reach[diagonal + max - 1] ?? 0, reach[diagonal + max + 1] ?? 0];
      let x = diagonal === -level || (diagonal !== level && before < after) ? after : before + 1;
      let y = x - diagonal;
      while (x < a.length && y < b.length && alike(a[x], b[y])) {
        x++;
        y++;
      }
      reach[diagonal + max] = x;
      if (x >= a.length && y >= b.length) return backtrack(trace, a, b, commas, max);
    }
  }
}

function backtrack(trace, a, b, commas, max) {
  const out = [];
  let x = a.length;
  let y = b.length;
  for (let level = trace.length - 1; level >= 0; level--) {
    const base = Math.max(0, max - level - 1);
    const at = (diagonal) => trace[level][diagonal + max - base] ?? 0;
    const diagonal = x - y;
    const previous = diagonal === -level || (diagonal !== level && at(diagonal - 1) < at(diagonal + 1)) ? diagonal + 1 : diagonal - 1;
    const [px, py] = [at(previous), at(previous) - previous];
    while (x > px && y > py) {
      out.push([" ", commas && !a[x - 1].endsWith(",") ? b[y - 1] : a[x - 1]]);
      x--;
      y--;
    }
    if (level > 0) out.push(x > px ? ["+", a[--x]] : ["-", b[--y]]);
  }
  return out.reverse();
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


// A Comparison is what is compared of an error.
class Comparison {
  constructor(from, keys) {
    for (const key of keys) if (key in Object(from)) this[key] = from[key];
  }
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
        bad(difference(new Comparison(actual, keys), new Comparison(expected, keys), "deepStrictEqual"));
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
    const text = `The "promiseFn" argument must be of type function or an instance of Promise. Received ${received(fn)}`;
    throw Object.assign(new TypeError(text), { code: "ERR_INVALID_ARG_TYPE" });
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

const partialDeepStrictEqual = (...args) => {
  needTwo(args.length);
  if (!covers(args[0], args[1])) fail({ actual: args[0], expected: args[1], message: args[2], operator: "partialDeepStrictEqual" });
};

Object.assign(assert, {
  partialDeepStrictEqual,
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
