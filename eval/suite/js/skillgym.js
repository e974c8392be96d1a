// The module "skillgym": assert with its groups, and commandMatcher. Messages and
// questions are skillgym's, word for word.
"use strict";
const node = require("node:assert/strict");
const m = require("matchers");
const { AssertionError } = node;

const questionsKey = Symbol.for("skillgym.explainQuestions");
const classKey = Symbol.for("skillgym.failureClass");

// explained runs an assertion. Where it fails, it leaves the question that the agent
// may be asked about it: the caller's own, or the one that fits.
function explained(check, { report, options, expected, actual, observed, question }) {
  try {
    check();
  } catch (error) {
    if (error instanceof AssertionError) {
      const source = host.frame(error.stack);
      if (source !== undefined) {
        const own = options?.explain?.question;
        const text = (typeof own === "function" ? own({ report, expected, actual, observed }) : own) ?? question?.();
        if (text !== undefined && text.trim() !== "") {
          error[questionsKey] = [{ question: text, source: { filePath: source.url, line: String(source.line), column: String(source.column) } }];
        }
      }
    }
    throw error;
  }
}

const compose = (detail, observed, options) => `${options?.message === undefined ? "" : `${options.message}. `}${detail} ${observed}`;

// A report may be partial: suites make their own to try an assertion out.
const events = (report, type) => (report.events ?? []).filter((event) => event.type === type);
const commandsOf = (report) => events(report, "command").map((event) => event.command);
const readsOf = (report) => {
  const reads = events(report, "fileRead").map((event) => event.path);
  return reads.length > 0 ? reads : (report.files?.observedReads ?? []);
};

const times = (values, matches, matcher) => values.filter((value) => matches(value, matcher)).length;

// sequence makes the group for a list of values: commands or file reads. asks are its
// questions.
function sequence(label, valuesOf, matches, describe, show, asks) {
  const observed = (values) => `Observed ${label}: ${values.length === 0 ? "(none)" : values.map(show).join(" | ")}`;
  const names = (matchers) => matchers.map(describe).join(", ") || "(none)";

  // group adds a member: prepare says, for values and arguments, what is checked and
  // what was expected.
  const member = (count, prepare, plain) => (report, ...args) => {
    const options = args[count];
    const values = valuesOf(report);
    const { check, ...about } = prepare(values, ...args);
    const say = (detail) => compose(detail, plain ? `Observed ${label}: ${values.length === 0 ? "(none)" : values.join(" | ")}` : observed(values), options);
    explained(() => check(say), { report, options, observed: values, ...about });
  };
  const counted = (holds, detail, question) => (values, matcher, n) => {
    const actual = times(values, matches, matcher);
    return {
      expected: n,
      actual,
      question: () => question(describe(matcher), n),
      check: (say) => holds(actual, n, say(`Expected ${label} to have ${detail(n)} matching ${describe(matcher)}, but found ${actual}.`)),
    };
  };
  const exactly = counted(node.equal, (n) => `${n} value(s)`, asks.count);

  return {
    includes: member(1, (values, matcher) => ({
      expected: matcher,
      question: () => asks.includes(describe(matcher)),
      check: (say) => node.ok(values.some((value) => matches(value, matcher)), say(`Expected ${label} to include a value matching ${describe(matcher)}.`)),
    })),
    notIncludes: member(1, (values, matcher) => ({
      expected: matcher,
      question: () => asks.notIncludes(describe(matcher)),
      check: (say) => node.ok(!values.some((value) => matches(value, matcher)), say(`Expected ${label} not to include a value matching ${describe(matcher)}.`)),
    })),
    count: member(2, exactly),
    atLeast: member(2, counted((actual, n, text) => node.ok(actual >= n, text), (n) => `at least ${n} value(s)`, asks.atLeast)),
    atMost: member(2, counted((actual, n, text) => node.ok(actual <= n, text), (n) => `at most ${n} value(s)`, asks.atMost)),
    before: member(2, (values, first, second) => ({
      expected: [first, second],
      question: () => asks.before(describe(first), describe(second)),
      check: (say) =>
        inOrder(
          values.findIndex((value) => matches(value, first)),
          values.findIndex((value) => matches(value, second)),
          (detail) => say(`Expected ${label} to contain a value matching ${describe(first)} before ${describe(second)}. ${detail}`),
        ),
    })),
    only: member(1, (values, matchers) => ({
      expected: matchers,
      question: () => asks.only(names(matchers)),
      check: (say) => {
        const others = values.filter((value) => !matchers.some((matcher) => matches(value, matcher)));
        node.equal(
          others.length,
          0,
          say(`Expected ${label} to contain only values matching one of: ${names(matchers)}. Unexpected: ${others.join(" | ") || "(none)"}.`),
        );
      },
    })),
    size: member(
      1,
      (values, n) => ({
        expected: n,
        actual: values.length,
        question: () => asks.size(n, values.length),
        check: (say) => node.equal(values.length, n, say(`Expected ${label} to contain exactly ${n} value(s), but found ${values.length}.`)),
      }),
      true, // of a list as a whole the lines are shown as they are
    ),
    exactlyOne: member(1, (values, matcher) => ({ ...exactly(values, matcher, 1), question: () => asks.exactlyOne(describe(matcher)) })),
    first: member(1, (values, matcher) => ({
      expected: matcher,
      question: () => asks.first(describe(matcher)),
      check: (say) =>
        node.ok(values.length > 0 && matches(values[0], matcher), say(`Expected the first ${label} value to match ${describe(matcher)}.`)),
    })),
    last: member(1, (values, matcher) => ({
      expected: matcher,
      question: () => asks.last(describe(matcher)),
      check: (say) =>
        node.ok(values.length > 0 && matches(values.at(-1), matcher), say(`Expected the last ${label} value to match ${describe(matcher)}.`)),
    })),
  };
}

// inOrder holds where both places exist, and the first is before the second.
function inOrder(first, second, say) {
  node.notEqual(first, -1, say("First match was not found."));
  node.notEqual(second, -1, say("Second match was not found."));
  node.ok(first < second, say(`Found first match at index ${first} and second match at index ${second}.`));
}

const commands = sequence("commands", commandsOf, m.matchesCommand, m.describeCommand, m.showCommand, {
  includes: (what) => `You were expected to run a command matching ${what}. Why did you not do that?`,
  notIncludes: (what) => `You were expected not to run a command matching ${what}. Why did you run it anyway?`,
  count: (what, n) => `You were expected to run ${n} command(s) matching ${what}. Why did your command choices differ?`,
  atLeast: (what, n) => `You were expected to run at least ${n} command(s) matching ${what}. Why did you run fewer?`,
  atMost: (what, n) => `You were expected to run at most ${n} command(s) matching ${what}. Why did you run more?`,
  before: (a, b) => `You were expected to run a command matching ${a} before ${b}. Why did you choose a different order?`,
  only: (list) => `You were expected to run only commands matching one of: ${list}. Why did you choose a different command set?`,
  size: (n, got) => `You were expected to run exactly ${n} command(s), but ran ${got}. Why?`,
  exactlyOne: (what) => `You were expected to run exactly one command matching ${what}. Why did you not do that?`,
  first: (what) => `You were expected to make your first command match ${what}. Why did you choose a different first step?`,
  last: (what) => `You were expected to make your last command match ${what}. Why did you choose a different final command?`,
});

const fileReads = sequence("file reads", readsOf, m.matchesText, m.describeText, (path) => path, {
  includes: (what) => `You were expected to read a file matching ${what}. Why did you not read it?`,
  notIncludes: (what) => `You were expected not to read a file matching ${what}. Why did you read it anyway?`,
  count: (what, n) => `You were expected to read ${n} file(s) matching ${what}. Why did your reads differ?`,
  atLeast: (what, n) => `You were expected to read at least ${n} file(s) matching ${what}. Why did you read fewer?`,
  atMost: (what, n) => `You were expected to read at most ${n} file(s) matching ${what}. Why did you read more?`,
  before: (a, b) => `You were expected to read a file matching ${a} before ${b}. Why did you choose a different order?`,
  only: (list) => `You were expected to read only files matching one of: ${list}. Why did you read different files?`,
  size: (n, got) => `You were expected to read exactly ${n} file(s), but read ${got}. Why?`,
  exactlyOne: (what) => `You were expected to read exactly one file matching ${what}. Why did you not do that?`,
  first: (what) => `You were expected to make your first file read match ${what}. Why did you choose a different first read?`,
  last: (what) => `You were expected to make your last file read match ${what}. Why did you choose a different final read?`,
});

// toolCall is one assertion on tool calls: prepare is given the calls and a function
// that completes a message.
function toolCall(count, prepare) {
  return (report, ...args) => {
    const options = args[count];
    const calls = events(report, "toolCall");
    const observed = `Observed tool calls: ${calls.length === 0 ? "(none)" : calls.map(m.showToolCall).join(" | ")}`;
    const { check, ...about } = prepare(calls, (detail) => compose(detail, observed, options), ...args);
    explained(check, { report, options, observed: calls, ...about });
  };
}

function countedCalls(holds, amount, why) {
  return toolCall(2, (calls, say, matcher, n) => {
    const actual = times(calls, m.matchesToolCall, matcher);
    const what = m.describeToolCall(matcher);
    return {
      expected: n,
      actual,
      question: () => `You were expected to make ${amount(n)} tool call(s) matching ${what}. ${why}`,
      check: () => holds(actual, n, say(`Expected tool calls to have ${amount(n)} match(es) for ${what}, but found ${actual}.`)),
    };
  });
}

const toolCalls = {
  has: toolCall(1, (calls, say, matcher) => ({
    expected: matcher,
    question: () => `You were expected to make a tool call matching ${m.describeToolCall(matcher)}. Why did you not do that?`,
    check: () => node.ok(calls.some((call) => m.matchesToolCall(call, matcher)), say(`Expected tool calls to include ${m.describeToolCall(matcher)}.`)),
  })),
  count: countedCalls(node.equal, (n) => `${n}`, "Why did your tool choices differ?"),
  atLeast: countedCalls((actual, n, text) => node.ok(actual >= n, text), (n) => `at least ${n}`, "Why did you make fewer?"),
  atMost: countedCalls((actual, n, text) => node.ok(actual <= n, text), (n) => `at most ${n}`, "Why did you make more?"),
  before: toolCall(2, (calls, say, first, second) => {
    const both = `${m.describeToolCall(first)} before ${m.describeToolCall(second)}`;
    return {
      expected: [first, second],
      question: () => `You were expected to make a tool call matching ${both}. Why did you choose a different order?`,
      check: () =>
        inOrder(
          calls.findIndex((call) => m.matchesToolCall(call, first)),
          calls.findIndex((call) => m.matchesToolCall(call, second)),
          (detail) => say(`Expected tool calls to contain ${both}. ${detail}`),
        ),
    };
  }),
  sequence: toolCall(1, (calls, say, matchers) => {
    const whole = matchers.map(m.describeToolCall).join(" -> ");
    return {
      expected: matchers,
      question: () => `You were expected to follow this tool call sequence: ${whole}. Why did you choose a different sequence?`,
      check() {
        let at = -1;
        for (const matcher of matchers) {
          const next = calls.findIndex((call, i) => i > at && m.matchesToolCall(call, matcher));
          node.notEqual(
            next,
            -1,
            say(`Expected tool calls to contain the sequence ${whole}, but ${m.describeToolCall(matcher)} was not found after index ${at}.`),
          );
          at = next;
        }
      },
    };
  }),
  only: toolCall(1, (calls, say, matchers) => {
    const names = matchers.map(m.describeToolCall).join(", ") || "(none)";
    const others = calls.filter((call) => !matchers.some((matcher) => m.matchesToolCall(call, matcher)));
    return {
      expected: matchers,
      question: () => `You were expected to make only tool calls matching one of: ${names}. Why did you choose different tools?`,
      check: () =>
        node.equal(
          others.length,
          0,
          say(`Expected tool calls to contain only matches from: ${names}. Unexpected: ${others.map(m.showToolCall).join(" | ") || "(none)"}.`),
        ),
    };
  }),
};

const output = {
  includes(report, matcher, options) {
    const text = report.finalOutput ?? "";
    explained(
      () =>
        node.ok(
          m.matchesText(text, matcher),
          compose(`Expected final output to include a value matching ${m.describeText(matcher)}.`, `Observed final output: ${text}`, options),
        ),
      { report, options, expected: matcher, observed: text },
    );
  },
  notEmpty(report, options) {
    const text = report.finalOutput ?? "";
    explained(() => node.ok(text.length > 0, compose("Expected final output not to be empty.", "Observed final output: (empty)", options)), {
      report,
      options,
      expected: "non-empty output",
      actual: text,
      observed: text,
    });
  },
};

const ranks = { weak: 0, medium: 1, strong: 2, explicit: 3 };
const sure = (item, options) => options?.minConfidence === undefined || ranks[item.confidence] >= ranks[options.minConfidence];
const minimum = (options) => (options?.minConfidence === undefined ? "" : ` with minimum confidence ${options.minConfidence}`);
const showSkill = (item) => `${item.skill} (${item.confidence})`;
const quoted = (names) => names.map((name) => JSON.stringify(name)).join(", ");

// skill is one assertion on the skills that were detected.
function skill(count, prepare) {
  return (report, ...args) => {
    const options = args[count];
    const all = report.detectedSkills ?? [];
    const found = (name) => all.filter((item) => item.skill === name && sure(item, options));
    const { detail, holds, ...about } = prepare({ all, found, least: minimum(options), options }, ...args);
    const observed = `Observed detectedSkills: ${all.length === 0 ? "(none)" : all.map(showSkill).join(" | ")}`;
    explained(() => holds(compose(detail, observed, options)), { report, options, observed: all, ...about });
  };
}

const skills = {
  has: skill(1, ({ found, least }, name) => ({
    expected: name,
    actual: found(name).length,
    holds: (text) => node.ok(found(name).length > 0, text),
    detail: `Expected detectedSkills to include ${JSON.stringify(name)}${least}.`,
    question: () => `You were expected to load the skill ${JSON.stringify(name)}${least}. Why did you not load it?`,
  })),
  notHas: skill(1, ({ found, least }, name) => ({
    expected: 0,
    actual: found(name).length,
    holds: (text) => node.equal(found(name).length, 0, text),
    detail: `Expected detectedSkills not to include ${JSON.stringify(name)}${least}.`,
    question: () => `You were expected not to load the skill ${JSON.stringify(name)}${least}. Why did you load it anyway?`,
  })),
  includes: skill(1, ({ found, least }, names) => {
    const missing = names.filter((name) => found(name).length === 0);
    return {
      expected: names,
      actual: missing,
      holds: (text) => node.equal(missing.length, 0, text),
      detail: `Expected detectedSkills to include all of: ${quoted(names)}${least}. Missing: ${quoted(missing) || "(none)"}.`,
      question: () => `You were expected to load all required skills${least}. Why were these skills missing: ${quoted(missing) || "(none)"}?`,
    };
  }),
  count: skill(2, ({ found, least }, name, n) => {
    const actual = found(name).length;
    return {
      expected: n,
      actual,
      holds: (text) => node.equal(actual, n, text),
      detail: `Expected detectedSkills to include ${JSON.stringify(name)} exactly ${n} time(s)${least}, but found ${actual}.`,
      question: () =>
        `You were expected to load the skill ${JSON.stringify(name)} exactly ${n} time(s)${least}, but loaded it ${actual} time(s). Why?`,
    };
  }),
  exactlyOne: skill(1, ({ found, least }, name) => {
    const actual = found(name).length;
    return {
      expected: 1,
      actual,
      holds: (text) => node.equal(actual, 1, text),
      detail: `Expected detectedSkills to include ${JSON.stringify(name)} exactly once${least}, but found ${actual}.`,
      question: () => `You were expected to load the skill ${JSON.stringify(name)} exactly once${least}, but loaded it ${actual} time(s). Why?`,
    };
  }),
  only: skill(1, ({ all, least, options }, names) => {
    const others = all.filter((item) => sure(item, options) && !names.includes(item.skill));
    const shown = others.map(showSkill).join(" | ") || "(none)";
    return {
      expected: names,
      actual: others.map((item) => item.skill),
      holds: (text) => node.equal(others.length, 0, text),
      detail: `Expected detectedSkills to contain only: ${quoted(names) || "(none)"}${least}. Unexpected: ${shown}.`,
      question: () => `You were expected to load only these skills${least}: ${quoted(names) || "(none)"}. Why did you also load: ${shown}?`,
    };
  }),
};

const groups = { skills, commands, fileReads, toolCalls, output, ...require("workspace")({ explained, compose }) };

// softly runs an assertion, and keeps its failure for the end of the case. Outside of
// one there is no end, so that it fails at once.
function softly(run) {
  const keep = (error) => {
    const state = host.state();
    if (!(error instanceof AssertionError) || state === undefined) throw error;
    state.soft.push(error);
    return undefined;
  };
  try {
    const value = run();
    return value instanceof Promise ? value.catch(keep) : value;
  } catch (error) {
    return keep(error);
  }
}

function softGroup(group) {
  if (typeof group === "function") return (...args) => softly(() => group(...args));
  const soft = {};
  for (const [name, member] of Object.entries(group)) soft[name] = (...args) => softly(() => member(...args));
  return soft;
}

function softNode() {
  const soft = (...args) => softly(() => node(...args));
  for (const key of Object.keys(node)) {
    const member = node[key];
    const hard = typeof member !== "function" || key === "rejects" || key === "doesNotReject" || key === "AssertionError";
    soft[key] = hard ? member : (...args) => softly(() => member(...args));
  }
  soft.strict = soft;
  return soft;
}

function classOf(given) {
  if (typeof given === "string") return { id: given };
  return given.label === undefined ? { id: given.id } : { id: given.id, label: given.label };
}

const assert = Object.assign(node.bind(undefined), node, groups, {
  soft: softNode(),
  // classify tags what fails within with a class.
  classify(given, run) {
    const tag = (error) => {
      if (error instanceof Error) error[classKey] = classOf(given);
      throw error;
    };
    const state = host.state();
    const before = state?.soft.length ?? 0;
    const tagSoft = () => {
      for (const error of state?.soft.slice(before) ?? []) error[classKey] ??= classOf(given);
    };
    try {
      const value = run();
      tagSoft();
      return value instanceof Promise ? value.catch(tag).finally(tagSoft) : value;
    } catch (error) {
      tagSoft();
      return tag(error);
    }
  },
});
assert.strict = assert;
for (const [name, group] of Object.entries(groups)) assert.soft[name] = softGroup(group);

module.exports = {
  assert,
  commandMatcher: m.commandMatcher,
  CommandMatcherBuilder: m.CommandMatcherBuilder,
  BUILT_IN_REPORTER_NAMES: ["standard", "json", "json-summary", "github-actions", "html", "junit", "markdown"],
  questionsKey,
  classKey,
};
Object.defineProperty(module.exports, "questionsKey", { enumerable: false });
Object.defineProperty(module.exports, "classKey", { enumerable: false });
