// The groups that Croft adds: what the agent left in its workspace, what it cost, and
// what a judge makes of it. They take the report first, as all groups do.
"use strict";
const node = require("node:assert/strict");
const m = require("matchers");

// cut shortens what a message shows.
const cut = (text, most = 400) => (text.length <= most ? text : `${text.slice(0, most)}... (${text.length - most} more characters)`);

// glob makes an expression of a pattern: * and ? within a name, ** across them.
function glob(pattern) {
  let out = "";
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    if (pattern.startsWith("**/", i)) {
      out += "(?:.*/)?";
      i += 2;
    } else if (pattern.startsWith("**", i)) {
      out += ".*";
      i++;
    } else if (c === "*") out += "[^/]*";
    else if (c === "?") out += "[^/]";
    else out += c.replace(/[\\^$.+()[\]{}|]/, "\\$&");
  }
  return new RegExp(`^${out}$`);
}

// A path is named exactly, by a glob, or by an expression. A directory, with a slash at
// its end, is all that is in it.
function isPath(path, matcher) {
  if (matcher instanceof RegExp) return m.matchesText(path, matcher);
  const name = matcher.replace(/^(\.\/)+/, "").replace(/\/$/, "/**");
  return path === name || glob(name).test(path);
}

// aPath and somePaths refuse what names no path.
const whatNames = "a path, a glob or a regular expression";
const got = (value) => (value === null ? "null" : Array.isArray(value) ? "an array" : typeof value === "object" ? "an object" : typeof value);
const names = (matcher) => (typeof matcher === "string" && matcher !== "") || matcher instanceof RegExp;
function aPath(name, matcher) {
  if (!names(matcher)) throw new TypeError(`assert.files.${name}: expected ${whatNames}, got ${matcher === "" ? "an empty string" : got(matcher)}`);
  return matcher;
}
function somePaths(name, matchers) {
  const list = Array.isArray(matchers) ? matchers : [matchers];
  for (const matcher of list) {
    if (!names(matcher)) throw new TypeError(`assert.files.${name}: expected ${whatNames}, or an array of them, got ${matcher === "" ? "an empty string" : got(matcher)}`);
  }
  return list;
}
const showChange = (change) => `${change.path} (${change.kind})`;

module.exports = ({ explained, compose }) => {
  const changesNow = () => host.env("changes");
  const observedChanges = (all) => `Observed changes: ${all.length === 0 ? "(none)" : cut(all.map(showChange).join(" | "), 2000)}`;

  // look runs one assertion on the workspace.
  const look = (report, options, about, check) => explained(check, { report, options, ...about });

  // content returns the text of a file, and fails if the file does not exist.
  function content(path, options) {
    const text = host.env("read", path);
    if (text === null) node.fail(compose(`Expected file ${JSON.stringify(path)} to exist.`, "Observed file: (missing)", options));
    return text;
  }

  const files = {
    exists: (report, path, options) =>
      look(report, options, { expected: path, question: () => `You were expected to leave a file ${JSON.stringify(path)}. Why is it not there?` }, () =>
        node.ok(host.env("stat", path) !== null, compose(`Expected file ${JSON.stringify(path)} to exist.`, "Observed file: (missing)", options)),
      ),
    notExists: (report, path, options) =>
      look(report, options, { expected: path, question: () => `You were expected to leave no file ${JSON.stringify(path)}. Why is it there?` }, () =>
        node.ok(host.env("stat", path) === null, compose(`Expected file ${JSON.stringify(path)} not to exist.`, "Observed file: present", options)),
      ),
    contains: (report, path, matcher, options) =>
      look(
        report,
        options,
        { expected: matcher, question: () => `You were expected to leave text matching ${m.describeText(matcher)} in ${JSON.stringify(path)}. Why is it not there?` },
        () => {
          const text = content(path, options);
          node.ok(
            m.matchesText(text, matcher),
            compose(`Expected file ${JSON.stringify(path)} to contain text matching ${m.describeText(matcher)}.`, `Observed content: ${cut(text)}`, options),
          );
        },
      ),
    notContains: (report, path, matcher, options) =>
      look(
        report,
        options,
        { expected: matcher, question: () => `You were expected to leave no text matching ${m.describeText(matcher)} in ${JSON.stringify(path)}. Why is it there?` },
        () => {
          const text = content(path, options);
          node.ok(
            !m.matchesText(text, matcher),
            compose(`Expected file ${JSON.stringify(path)} not to contain text matching ${m.describeText(matcher)}.`, `Observed content: ${cut(text)}`, options),
          );
        },
      ),
    equals: (report, path, expected, options) =>
      look(report, options, { expected, question: () => `You were expected to leave other content in ${JSON.stringify(path)}. Why does it differ?` }, () => {
        const text = content(path, options);
        node.equal(
          text,
          expected,
          compose(`Expected file ${JSON.stringify(path)} to equal ${JSON.stringify(cut(expected))}.`, `Observed content: ${JSON.stringify(cut(text))}`, options),
        );
      }),
    changed: (report, matcher, options) =>
      look(report, options, { expected: matcher, question: () => `You were expected to change a file matching ${m.describeText(matcher)}. Why did you not do that?` }, () => {
        const all = changesNow();
        const kind = options?.kind;
        aPath("changed", matcher);
        node.ok(
          all.some((change) => isPath(change.path, matcher) && (kind === undefined || change.kind === kind)),
          compose(`Expected a file matching ${m.describeText(matcher)} to be ${kind ?? "changed"}.`, observedChanges(all), options),
        );
      }),
    unchanged: (report, matcher, options) =>
      look(report, options, { expected: matcher, question: () => `You were expected not to change a file matching ${m.describeText(matcher)}. Why did you change it?` }, () => {
        const all = changesNow();
        aPath("unchanged", matcher);
        node.ok(
          !all.some((change) => isPath(change.path, matcher)),
          compose(`Expected no file matching ${m.describeText(matcher)} to be changed.`, observedChanges(all), options),
        );
      }),
    onlyChanged: (report, allowed, options) => {
      const matchers = somePaths("onlyChanged", allowed);
      return look(
        report,
        options,
        { expected: allowed, question: () => `You were expected to change only files matching one of: ${matchers.map(m.describeText).join(", ") || "(none)"}. Why did you change others?` },
        () => {
          const all = changesNow();
          const others = all.filter((change) => !matchers.some((matcher) => isPath(change.path, matcher)));
          node.equal(
            others.length,
            0,
            compose(
              `Expected only files matching one of: ${matchers.map(m.describeText).join(", ") || "(none)"} to be changed. Unexpected: ${others.map(showChange).join(" | ") || "(none)"}.`,
              observedChanges(all),
              options,
            ),
          );
        },
      );
    },
  };

  const diffOf = (options) => host.env("diff", options?.paths ?? []);
  const diff = {
    includes: (report, matcher, options) =>
      look(report, options, { expected: matcher, question: () => `You were expected to make a change matching ${m.describeText(matcher)}. Why did you not do that?` }, () => {
        const text = diffOf(options);
        node.ok(
          m.matchesText(text, matcher),
          compose(`Expected the diff to contain text matching ${m.describeText(matcher)}.`, `Observed diff: ${text === "" ? "(empty)" : cut(text, 2000)}`, options),
        );
      }),
    notIncludes: (report, matcher, options) =>
      look(report, options, { expected: matcher, question: () => `You were expected not to make a change matching ${m.describeText(matcher)}. Why did you make it?` }, () => {
        const text = diffOf(options);
        node.ok(
          !m.matchesText(text, matcher),
          compose(`Expected the diff not to contain text matching ${m.describeText(matcher)}.`, `Observed diff: ${cut(text, 2000)}`, options),
        );
      }),
    empty: (report, options) =>
      look(report, options, { question: () => "You were expected to change nothing. Why did you change files?" }, () => {
        const text = diffOf(options);
        node.ok(text === "", compose("Expected the diff to be empty.", `Observed diff: ${cut(text, 2000)}`, options));
      }),
    notEmpty: (report, options) =>
      look(report, options, { question: () => "You were expected to change something. Why did you not do that?" }, () =>
        node.ok(diffOf(options) !== "", compose("Expected the diff not to be empty.", "Observed diff: (empty)", options)),
      ),
  };

  const workspace = {
    // run runs a command in the workspace: a list is a program with its arguments, a
    // text is for the shell. It must exit with 0, unless options say otherwise.
    async run(report, command, options = {}) {
      if (typeof command !== "string" && !(Array.isArray(command) && command.length > 0 && command.every((word) => typeof word === "string"))) {
        throw new TypeError("assert.workspace.run: the command must be a string for the shell, or an array of a program and its arguments");
      }
      const shown = typeof command === "string" ? command : command.join(" ");
      const at = new node.AssertionError({ message: "" }).stack; // of the caller: after await it is gone
      const result = await host.envAsync("run", {
        [typeof command === "string" ? "script" : "argv"]: command,
        dir: options.cwd ?? "",
        env: options.env ?? {},
        stdin: options.stdin ?? "",
        timeoutMs: options.timeoutMs ?? 0,
      });
      const seen = `Observed: ${result.timedOut ? "timed out" : `exit ${result.exitCode}`}, stdout ${JSON.stringify(cut(result.stdout, 1000))}, stderr ${JSON.stringify(cut(result.stderr, 1000))}`;
      const wanted = options.exitCode === undefined ? 0 : options.exitCode;
      const check = (ok, detail) => {
        if (ok) return;
        const error = new node.AssertionError({ message: compose(detail, seen, options), actual: result.exitCode, expected: wanted, operator: "workspace.run" });
        error.stack = at;
        throw error;
      };
      explained(
        () => {
          if (wanted !== null) check(!result.timedOut && result.exitCode === wanted, `Expected command ${JSON.stringify(shown)} to exit with ${wanted}.`);
          for (const stream of ["stdout", "stderr"]) {
            const matcher = options[stream];
            if (matcher !== undefined) check(m.matchesText(result[stream], matcher), `Expected ${stream} of command ${JSON.stringify(shown)} to match ${m.describeText(matcher)}.`);
          }
        },
        { report, options, expected: wanted, actual: result.exitCode, observed: result, question: () => `After your work the command ${JSON.stringify(shown)} was expected to succeed. Why does it not?` },
      );
      return result;
    },
  };

  const units = ["durationMs", "inputTokens", "outputTokens", "totalTokens", "costUsd", "steps", "toolCalls", "commands", "peakMemoryBytes", "requests"];

  // used is what is known of the cost: from the run, else from the report itself.
  function used(report) {
    let known = {};
    try {
      known = host.env("usage");
    } catch (error) {
      if (error.code !== "E_UNSUPPORTED") throw error;
    }
    const count = (type) => report.events?.filter((event) => event.type === type).length;
    return { ...report.usage, durationMs: report.durationMs, toolCalls: count("toolCall"), commands: count("command"), ...known };
  }

  // budget holds where nothing was used beyond its limit.
  function budget(report, limits, options) {
    for (const unit of Object.keys(limits)) {
      if (!units.includes(unit)) throw new TypeError(`assert.budget: unknown limit ${JSON.stringify(unit)}; allowed are ${units.join(", ")}`);
      if (typeof limits[unit] !== "number") throw new TypeError(`assert.budget: the limit ${unit} must be a number`);
    }
    const amounts = used(report);
    const over = Object.keys(limits).filter((unit) => !(amounts[unit] <= limits[unit]));
    const show = (unit) => `${unit} ${amounts[unit] ?? "(unknown)"}`;
    explained(
      () =>
        node.equal(
          over.length,
          0,
          compose(
            `Expected use within budget: ${Object.keys(limits).map((unit) => `${unit} <= ${limits[unit]}`).join(", ")}. Exceeded: ${over.join(", ")}.`,
            `Observed: ${Object.keys(limits).map(show).join(", ")}`,
            options,
          ),
        ),
      { report, options, expected: limits, actual: amounts, observed: amounts, question: () => `You were expected to stay within a budget, and exceeded ${over.join(", ")}. Why?` },
    );
  }

  // judge asks a model whether a rubric holds.
  async function judge(report, given, options = {}) {
    const q = typeof given === "string" ? { rubric: given } : given;
    if (typeof q?.rubric !== "string" || q.rubric.trim() === "") throw new TypeError("assert.judge: the rubric must be a non-empty string");
    const at = new node.AssertionError({ message: "" }).stack;
    const { minScore, message, explain, ...more } = options;
    const answer = await host.envAsync("judge", { rubric: q.rubric, subject: q.subject ?? report.finalOutput ?? "", files: q.files ?? [], diff: q.diff ?? false, model: q.model ?? more.model ?? "" });
    const ok = minScore === undefined ? answer.pass : answer.score >= minScore;
    explained(
      () => {
        if (ok) return;
        const error = new node.AssertionError({
          message: compose(`Expected the judge to accept: ${q.rubric}${minScore === undefined ? "" : ` (score >= ${minScore})`}.`, `Observed score ${answer.score}: ${answer.reason}`, options),
          actual: answer.score,
          expected: minScore ?? 1,
          operator: "judge",
        });
        error.stack = at;
        throw error;
      },
      { report, options, expected: minScore, actual: answer.score, observed: answer, question: () => `Your work was judged by this rubric: ${q.rubric}. It was not accepted: ${answer.reason}. Why?` },
    );
    return answer;
  }

  return { files, diff, workspace, budget, judge };
};
