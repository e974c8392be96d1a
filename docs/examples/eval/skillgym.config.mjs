export default {
  runners: {
    shell: { agent: { type: "command", model: "none", command: "./agent.sh" } },
  },
};
