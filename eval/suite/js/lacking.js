// What the engine lacks: an error that names it, and what has it.
"use strict";
const lack = (what) =>
  Object.assign(new Error(`${what} is not in the built-in engine; run the suite with --engine node`), { code: "E_UNSUPPORTED" });

// lacking is a function, or a class, that is not there.
const known = new WeakSet();
const lacking = (what) => {
  const stub = function () {
    throw lack(what);
  };
  known.add(stub);
  return stub;
};
module.exports = { lack, lacking, isLacking: (value) => typeof value === "function" && known.has(value) };
