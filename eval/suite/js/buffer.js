// node:buffer
"use strict";
module.exports = require("bounds")(host.lazyNode("buffer"));
