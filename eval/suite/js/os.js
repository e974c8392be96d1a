// node:os. The temporary directory is the run's own.
"use strict";
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
  release: () => "",
  uptime: () => host.uptime(),
  userInfo: () => ({ username: host.environ.USER ?? "", homedir: host.homedir, uid: -1, gid: -1, shell: null }),
};
