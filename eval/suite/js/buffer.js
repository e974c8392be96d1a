// node:buffer
"use strict";
module.exports = host.lazyNode("buffer");
