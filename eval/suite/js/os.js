// node:os. The temporary directory is the run's own.
"use strict";
const { lacking } = require("lacking");
module.exports = {
  EOL: "\n",
  tmpdir: () => host.tmpdir,
  homedir: () => host.homedir,
  hostname: () => host.hostname,
  platform: () => host.platform,
  type: () => ({ linux: "Linux", darwin: "Darwin" })[host.platform] ?? host.platform,
  arch: () => host.arch,
  availableParallelism: () => host.cpus,
  cpus: () => Array.from({ length: host.cpus }, () => ({ model: "", speed: 0, times: {} })),
  uptime: () => host.uptime(),
  userInfo: () => ({ uid: host.uid, gid: host.gid, username: host.username, homedir: host.userHomedir, shell: host.environ.SHELL ?? null }),
  endianness: () => "LE",
  ...Object.fromEntries(["release", "totalmem", "freemem", "loadavg", "networkInterfaces", "version"].map((name) => [name, lacking(`os.${name}`)])),
  machine: () => ({ x64: "x86_64", arm64: host.platform === "linux" ? "aarch64" : "arm64" })[host.arch] ?? host.arch,
  devNull: "/dev/null",
  constants: {
    signals: { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGABRT: 6, SIGKILL: 9, SIGSEGV: 11, SIGPIPE: 13, SIGALRM: 14, SIGTERM: 15 },
    errno: { EPERM: 1, ENOENT: 2, EINTR: 4, EIO: 5, EBADF: 9, EACCES: 13, EEXIST: 17, ENOTDIR: 20, EISDIR: 21, EINVAL: 22, ENOSPC: 28, EPIPE: 32 },
  },
};
