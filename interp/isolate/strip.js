// Drops the types of TypeScript, by Sucrase. build.sh makes one file of this and of
// what it imports; that runs in an isolate, whose time and memory are bounded, and in
// the node of a workspace.
import { transform } from "sucrase";

// strip returns "+" and the program without its types, in which every line is where
// it was; or "-" and, as JSON, what is wrong with it.
export function strip(source, name) {
  const transforms = name.endsWith("x") ? ["typescript", "jsx"] : ["typescript"];
  try {
    return "+" + transform(source, { transforms, disableESTransforms: true, production: true }).code;
  } catch (e) {
    const at = e.loc || {};
    const deep = e instanceof RangeError;
    return "-" + JSON.stringify({
      name: e.name,
      message: deep ? "it is nested too deeply" : e.message.replace(/ \(\d+:\d+\)$/, ""),
      line: at.line || 0,
      column: at.column || 0,
      text: at.line ? source.split("\n")[at.line - 1].slice(0, 200) : "",
    });
  }
}
