// Tests several candidate solutions, such as answers of a model, each in a sandbox of its own
// and all at the same time, and prints which ones pass.
//
//   npm install
//   export E2B_API_KEY=KEY E2B_API_URL=http://127.0.0.1:7070 E2B_SANDBOX_URL=http://127.0.0.1:7070
//   node candidates.ts     # Node 22.18 or later; earlier ones: npx tsx candidates.ts
import { CommandExitError, Sandbox } from 'e2b'

const test = `
from solution import add
assert add(2, 3) == 5, add(2, 3)
assert add(-1, 1) == 0, add(-1, 1)
`

const candidates: Record<string, string> = {
  plus: 'def add(a, b):\n    return a + b\n',
  minus: 'def add(a, b):\n    return a - b\n',
  endless: 'def add(a, b):\n    while True: pass\n',
}

// judge runs the test on one solution. Whatever the solution does, it does in its sandbox.
async function judge(solution: string): Promise<string> {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000, metadata: { example: 'candidates' } })
  try {
    await sandbox.files.write([
      { path: 'solution.py', data: solution },
      { path: 'test.py', data: test },
    ])
    await sandbox.commands.run('timeout 5 python3 test.py')
    return 'passes'
  } catch (error) {
    if (!(error instanceof CommandExitError)) throw error
    const reason = error.stderr.trim().split('\n').at(-1) || 'no output'
    return error.exitCode === 124 ? 'takes too long' : `fails: ${reason}`
  } finally {
    await sandbox.kill()
  }
}

const verdicts = await Promise.all(Object.values(candidates).map(judge))
Object.keys(candidates).forEach((name, i) => console.log(`${name}: ${verdicts[i]}`))
