// Runs behind the program of strip.js in node, which reads both from its standard
// input: drops the types of the file that is the first argument, writes the second,
// and runs that.
const fs = require("fs");
const path = require("path");
const [file, to] = process.argv.splice(2);
const answer = croft.strip(fs.readFileSync(file, "utf8"), file);
if (answer[0] === "-") {
  const e = JSON.parse(answer.slice(1));
  console.error(`${file}:${e.line}:${e.column}: ${e.name}: ${e.message}\n    ${e.text}`);
  process.exit(1);
}
fs.writeFileSync(to, answer.slice(1));
process.argv[1] = path.resolve(to);
import(require("url").pathToFileURL(process.argv[1]).href);
