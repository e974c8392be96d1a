// Assertions that are written as data, in YAML: Croft makes them.
"use strict";
const { AssertionError } = require("node:assert/strict");
const { questionsKey, classKey } = require("skillgym");

async function check(number) {
  const failed = await host.check(number);
  if (failed === null) return;
  const { message, place } = failed;
  const error = failed.hook ? new Error(message) : new AssertionError({ message });
  error.stack = `${error.stack.split("\n    at ")[0]}\n    at ${place.filePath}:${place.line}:${place.column}`;
  if (failed.class) error[classKey] = failed.class;
  if (failed.question && !failed.hook) error[questionsKey] = [{ question: failed.question, source: place }];
  if (!failed.soft) throw error;
  host.state().soft.push(error);
}

module.exports = { check };
