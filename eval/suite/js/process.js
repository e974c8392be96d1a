// process, as far as a suite may know of it.
"use strict";
const { lacking } = require("lacking");
const stream = (level) => ({
  isTTY: false,
  write(text) {
    host.log(level, String(text).replace(/\n$/, ""));
    return true;
  },
});

// What is assigned to a variable becomes text, as in Node.
const env = new Proxy(host.environ, {
  set(target, name, value) {
    target[name] = String(value);
    return true;
  },
});

module.exports = {
  env,
  argv: Array.from(host.argv),
  execArgv: [],
  platform: host.platform,
  arch: host.arch,
  pid: host.pid,
  ppid: host.ppid,
  title: "croft",
  release: { name: "node" },
  getuid: () => host.uid,
  getgid: () => host.gid,
  umask: () => 0o022,
  memoryUsage: lacking("process.memoryUsage"),
  version: "v22.18.0",
  versions: { node: "22.18.0" },
  exitCode: undefined,
  stdout: stream("log"),
  stderr: stream("error"),
  cwd: () => host.cwd,
  uptime: () => host.uptime(),
  hrtime: Object.assign(
    () => {
      const t = host.uptime();
      return [Math.floor(t), Math.floor((t % 1) * 1e9)];
    },
    { bigint: () => BigInt(Math.floor(host.uptime() * 1e9)) },
  ),
  nextTick: (fn, ...args) => void Promise.resolve().then(() => fn(...args)),
  // The process is not the suite's to end: the execution fails instead.
  exit: (code = 0) => host.exit(Number(code) || 0),
  on() {
    return module.exports;
  },
  once() {
    return module.exports;
  },
  off() {
    return module.exports;
  },
  emitWarning: (text) => host.log("warn", String(text?.message ?? text)),
};
