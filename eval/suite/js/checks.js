// Assertions that are written as data, in YAML.
"use strict";
const { assert } = require("skillgym");

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

// matcher makes an expression of {regex, flags}, at any depth of what is given.
function matcher(value) {
  if (Array.isArray(value)) return value.map(matcher);
  if (!isObject(value)) return value;
  if (typeof value.regex === "string") return new RegExp(value.regex, value.flags ?? "");
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, matcher(field)]));
}

// covers holds where value has at least what is wanted of it.
function covers(value, wanted) {
  if (isObject(wanted)) {
    if (typeof wanted.regex === "string") return typeof value === "string" && new RegExp(wanted.regex, wanted.flags ?? "").test(value);
    return isObject(value) && Object.keys(wanted).every((key) => covers(value[key], wanted[key]));
  }
  if (Array.isArray(wanted)) return Array.isArray(value) && wanted.length === value.length && wanted.every((item, i) => covers(value[i], item));
  return value === wanted;
}

function toolCall(given) {
  if (Array.isArray(given)) return given.map(toolCall);
  if (!isObject(given)) return given;
  const made = {};
  if (given.tool !== undefined) made.tool = matcher(given.tool);
  if (given.args !== undefined) made.where = (args) => covers(args, given.args);
  return made;
}

// check runs one assertion.
function check(entry, report) {
  const run = () => call(entry, report, entry.soft ? assert.soft : assert);
  return entry.class === undefined ? run() : assert.classify(entry.class, run);
}

function call({ name, args, options }, report, from) {
  const [group, member] = name.split(".");
  switch (group) {
    case "workspace": {
      const { command, ...more } = args[0];
      return from.workspace.run(report, command, { ...matcher(more), ...options });
    }
    case "budget":
      return from.budget(report, args[0], options);
    case "judge": {
      const { minScore, ...question } = args[0];
      return from.judge(report, question, { minScore, ...options });
    }
    case "toolCalls":
      return from.toolCalls[member](report, ...args.map(toolCall), options);
    default:
      return from[group][member](report, ...args.map(matcher), options);
  }
}

// ready makes the expressions of an assertion once, so that one that is wrong is found
// before anything runs.
function ready(entry) {
  matcher(entry.args);
  return entry;
}

module.exports = { check, ready };
