// What is compared with what: texts, command lines, tool calls and skills. The words
// that describe a matcher are skillgym's.
"use strict";

const isText = (matcher) => typeof matcher === "string" || matcher instanceof RegExp;
const describeText = (matcher) => (typeof matcher === "string" ? JSON.stringify(matcher) : String(matcher));

// test resets a sticky or global expression first: a matcher has no memory.
function test(regexp, value) {
  regexp.lastIndex = 0;
  return regexp.test(value);
}
const matchesText = (value, matcher) => (typeof matcher === "string" ? value.includes(matcher) : test(matcher, value));
const matchesToken = (value, matcher) => value !== undefined && (typeof matcher === "string" ? value === matcher : test(matcher, value));

// A CommandMatcherBuilder collects what a command line must have.
class CommandMatcherBuilder {
  #executable;
  #positionals = [];
  #options = new Map();
  #endOfOptions;
  #strict = false;
  constructor(executable) {
    this.#executable = executable;
  }
  executable(matcher) {
    this.#executable = matcher;
    return this;
  }
  arg(matcher) {
    this.#positionals.push(matcher);
    return this;
  }
  args(...matchers) {
    this.#positionals.push(...matchers);
    return this;
  }
  option(name, value = true) {
    this.#options.set(name, [...(this.#options.get(name) ?? []), value]);
    return this;
  }
  flag(name) {
    return this.option(name, true);
  }
  endOfOptions() {
    this.#endOfOptions = true;
    return this;
  }
  exact() {
    this.#strict = true;
    return this;
  }
  strict() {
    return this.exact();
  }
  build() {
    const options = [...this.#options].map(([name, values]) => [name, values.length === 1 ? values[0] : values]);
    return {
      executable: this.#executable,
      positionals: [...this.#positionals],
      options: options.length === 0 ? undefined : Object.fromEntries(options),
      endOfOptions: this.#endOfOptions,
      strict: this.#strict,
    };
  }
}

// structured brings a builder and a literal to one form.
function structured(matcher) {
  const from = "build" in matcher ? matcher.build() : matcher;
  return {
    executable: from.executable,
    positionals: from.positionals ?? [],
    options: Object.entries(from.options ?? {}).map(([name, value]) => [name, Array.isArray(value) ? value : [value]]),
    endOfOptions: from.endOfOptions,
    strict: from.strict === true || from.exact === true,
  };
}

function describeCommand(matcher) {
  if (isText(matcher)) return describeText(matcher);
  const m = structured(matcher);
  const parts = [];
  if (m.executable !== undefined) parts.push(`executable=${describeText(m.executable)}`);
  if (m.positionals.length > 0) parts.push(`positionals=[${m.positionals.map(describeText).join(", ")}]`);
  if (m.options.length > 0) {
    const value = (v) => (v === true ? "<flag>" : describeText(v));
    parts.push(`options={${m.options.map(([name, values]) => `${name}: [${values.map(value).join(", ")}]`).join(", ")}}`);
  }
  if (m.endOfOptions !== undefined) parts.push(`endOfOptions=${m.endOfOptions}`);
  if (m.strict) parts.push("strict=true");
  return `command matcher (${parts.join(", ") || "<any>"})`;
}

function matchesCommand(line, matcher) {
  if (isText(matcher)) return matchesText(line, matcher);
  const m = structured(matcher);
  const command = host.parseCommand(line);
  if (m.executable !== undefined && !matchesToken(command.executable, m.executable)) return false;
  if (m.endOfOptions !== undefined && command.endOfOptions !== m.endOfOptions) return false;
  return matchesWords(command.positionals, m.positionals, m.strict) && matchesOptions(new Map(command.options), m.options, m.strict);
}

// matchesWords looks for the expected words in order, with others between them unless
// strict.
function matchesWords(words, expected, strict) {
  if (strict) return words.length === expected.length && expected.every((matcher, i) => matchesToken(words[i], matcher));
  let at = 0;
  return expected.every((matcher) => {
    while (at < words.length && !matchesToken(words[at], matcher)) at++;
    return at++ < words.length;
  });
}

function matchesOptions(observed, expected, strict) {
  if (strict && observed.size !== expected.length) return false;
  return expected.every(([name, values]) => {
    const left = observed.get(name)?.slice();
    if (left === undefined || (strict && left.length !== values.length)) return false;
    return values.every((value) => {
      const i = left.findIndex((seen) => (value === true || seen === true ? value === seen : matchesToken(seen, value)));
      if (i >= 0) left.splice(i, 1);
      return i >= 0;
    });
  });
}

// showCommand is a command line as messages show it: with what was made of it.
function showCommand(line) {
  const command = host.parseCommand(line);
  const parts = [];
  if (command.executable !== undefined) parts.push(`executable=${JSON.stringify(command.executable)}`);
  if (command.positionals.length > 0) parts.push(`positionals=${JSON.stringify(command.positionals)}`);
  if (command.options.length > 0) parts.push(`options=${JSON.stringify(Object.fromEntries(command.options))}`);
  if (command.endOfOptions) parts.push("endOfOptions=true");
  if (parts.length === 0 && !command.fromShell) return line;
  return `${line} ${command.fromShell ? "normalized from shell wrapper" : "parsed"} (${parts.join(", ") || "empty"})`;
}

function describeToolCall(matcher) {
  const parts = [];
  if (matcher.tool !== undefined) parts.push(`tool matching ${describeText(matcher.tool)}`);
  if (matcher.where !== undefined) parts.push("custom args predicate");
  return parts.join(" and ") || "<any tool call>";
}

const matchesToolCall = (event, matcher) =>
  (matcher.tool === undefined || matchesText(event.tool, matcher.tool)) && (matcher.where === undefined || Boolean(matcher.where(event.args, event)));

function showToolCall(event) {
  if (event.args === undefined) return event.tool;
  try {
    return `${event.tool} ${JSON.stringify(event.args)}`;
  } catch {
    return `${event.tool} ${String(event.args)}`;
  }
}

module.exports = {
  CommandMatcherBuilder,
  commandMatcher: (executable) => new CommandMatcherBuilder(executable),
  describeText,
  matchesText,
  describeCommand,
  matchesCommand,
  showCommand,
  describeToolCall,
  matchesToolCall,
  showToolCall,
};
