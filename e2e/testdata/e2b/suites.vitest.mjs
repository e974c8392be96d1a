// How E2B's own test suites run here: their settings, without those of browsers, and a second try.
const project = (name, include, exclude, testTimeout, setupFiles) => ({
  test: { name, include, exclude, testTimeout, setupFiles, retry: 1, isolate: true, environment: 'node', deps: { interopDefault: true } },
})
const fallback = ['tests/globalFetchFallback.setup.ts']
const suites = {
  E2B: [
    project('unit', ['tests/**/*.test.ts'], ['tests/runtimes/**', 'tests/template/**', 'tests/connectionConfig.test.ts'], 30_000, fallback),
    project('template', ['tests/template/**/*.test.ts'], [], 180_000, fallback),
    project('connectionConfig', ['tests/connectionConfig.test.ts'], [], 10_000),
  ],
  'code-interpreter': [project('code-interpreter', ['tests/**/*.test.ts'], ['tests/runtimes/**'], 30_000)],
}
export default { test: { projects: suites[process.env.CROFT_SUITE], maxWorkers: 2 } }
