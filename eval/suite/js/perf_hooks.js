// node:perf_hooks
"use strict";
module.exports = { performance: require("performance") };
