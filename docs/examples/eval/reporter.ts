import type { BenchmarkReporter } from "skillgym";

const reporter: BenchmarkReporter = {
  onCaseFinish(event) {
    console.log(`${event.case.id}: ${event.result.passed ? "passed" : "failed"}`);
  },
};

export default reporter;
