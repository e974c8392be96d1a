// node:assert without /strict: four of its comparisons are loose.
"use strict";
const strict = require("assert");
const { same } = require("util");

function assert(...args) {
  strict(...args);
}
const compare = (operator, wanted, holds) => (actual, expected, message) => {
  if (holds(actual, expected) === wanted) return;
  if (message instanceof Error) throw message;
  throw new strict.AssertionError({ actual, expected, message, operator });
};
const equal = (a, b) => a == b || (a !== a && b !== b); // eslint-disable-line eqeqeq
const deep = (a, b) => same(a, b, false);
Object.assign(assert, strict, {
  equal: compare("==", true, equal),
  notEqual: compare("!=", false, equal),
  deepEqual: compare("deepEqual", true, deep),
  notDeepEqual: compare("notDeepEqual", false, deep),
  strict,
});
module.exports = assert;
