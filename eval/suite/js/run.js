// The functions by which engine.js runs a case and reads its outcome.
"use strict";
const { AssertionError } = require("node:assert/strict");
const { inspect } = require("node:util");

const questionsKey = Symbol.for("skillgym.explainQuestions");
const classKey = Symbol.for("skillgym.failureClass");

// context is the second argument of an assertion.
const context = (report) => ({
  getCommands: () => (report.events ?? []).filter((event) => event.type === "command").map((event) => event.command),
  getToolCalls: (tool) => (report.events ?? []).filter((event) => event.type === "toolCall" && (tool === undefined || event.tool === tool)),
  getFileReads: () => report.files?.observedReads ?? [],
  detectedSkills: () => report.detectedSkills ?? [],
  finalOutput: () => report.finalOutput ?? "",
});

// headline is the first line of an error's stack.
function headline(error) {
  const name = error.name === "AssertionError" && error.code === "ERR_ASSERTION" ? "AssertionError [ERR_ASSERTION]" : String(error.name ?? "Error");
  const message = String(error.message ?? "");
  return message === "" ? name : `${name}: ${message}`;
}

const stackOf = (error) => host.stack(headline(error), String(error.stack ?? ""));

// describe makes data of what was thrown.
function describe(error) {
  if (!(error instanceof Error)) {
    return { name: "Error", message: typeof error === "string" ? error : inspect(error) };
  }
  const at = host.frame(String(error.stack ?? ""));
  return {
    name: String(error.name),
    message: String(error.message),
    stack: error[written] ?? stackOf(error),
    frame: at && { file: at.file, line: at.line, column: at.column },
  };
}

// written is the stack of an error that sums others up.
const written = Symbol("stack");

// textOf is the line of a failure in a sum: the message of an assertion, and what else was
// thrown with its name.
function textOf(error) {
  if (error instanceof AssertionError) return error.message;
  return error instanceof Error ? headline(error) : describe(error).message;
}

function sumUp(failures) {
  const count = failures.length;
  const message = [
    `${count} assertion failure${count === 1 ? "" : "s"} collected during case execution:`,
    ...failures.map((error, i) => `${i + 1}. ${textOf(error)}`),
  ].join("\n");
  const sum = new AssertionError({ message, actual: count, expected: 0, operator: "softAssertions" });
  sum.stack = failures[0].stack; // its place is that of the first
  sum[written] = [`AssertionError: ${message}`, ...failures.map((error, i) => `Assertion ${i + 1}\n${error instanceof Error ? stackOf(error) : textOf(error)}`)].join("\n\n");
  sum[questionsKey] = failures.flatMap((error) => error?.[questionsKey] ?? []);
  const tagged = failures.find((error) => error?.[classKey] !== undefined);
  if (tagged) sum[classKey] = tagged[classKey];
  return sum;
}

module.exports = {
  // run calls the assertion of a case. What it throws is the promise's.
  run: async (case_, report) => void (await case_.assert(report, context(report))),

  // verdict is how a case ended: with what was thrown, if anything was, and with what
  // was collected softly.
  verdict(threw, error, state) {
    const soft = state?.soft ?? [];
    if (soft.length > 0) error = sumUp(threw ? [...soft, error] : soft);
    else if (!threw) return { passed: true };
    return {
      passed: false,
      error: describe(error),
      origin: error instanceof AssertionError ? "assertion" : "assert-hook",
      class: error?.[classKey],
      soft: soft.map(describe),
      questions: error?.[questionsKey] ?? [],
    };
  },

  classify: async (case_, result) => {
    const given = await case_.classifyFailure?.(result);
    if (given === undefined || given === null || given === "") return undefined;
    if (typeof given === "string") return { id: given };
    if (typeof given.id !== "string" || given.id === "") throw new TypeError("classifyFailure must return a string, an object with an id, or undefined");
    return given.label === undefined ? { id: given.id } : { id: given.id, label: String(given.label) };
  },

  describe,
};
