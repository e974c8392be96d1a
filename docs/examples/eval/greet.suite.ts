import { assert, type Case, type SuiteWorkspaceConfig } from "skillgym";

export const workspace: SuiteWorkspaceConfig = { mode: "isolated", templateDir: "./app" };

const suite: Case[] = [
  {
    id: "greets",
    prompt: "Write a greeting to greeting.txt.",
    tags: ["files"],
    assert(report) {
      assert.commands.includes(report, "greeting.txt");
      assert.output.notEmpty(report);
    },
  },
  {
    id: "reads-the-notes",
    prompt: "What do the notes say?",
    assert(report) {
      assert.match(report.finalOutput, /croft is a small/);
    },
  },
];

export default suite;
