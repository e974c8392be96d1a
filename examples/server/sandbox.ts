// Runs a program in a sandbox of croft up with the stock E2B SDK.
//
//   npm install e2b
//   export E2B_API_KEY=KEY E2B_API_URL=http://127.0.0.1:7070 E2B_SANDBOX_URL=http://127.0.0.1:7070
//   node sandbox.ts     # Node 22.18 or later; earlier ones: npx tsx sandbox.ts
import { CommandExitError, Sandbox } from 'e2b'

const sandbox = await Sandbox.create({ timeoutMs: 60_000, metadata: { example: 'typescript' } })
try {
  await sandbox.files.write('greet.py', 'import sys\nprint("hello", sys.argv[1])\n')
  const result = await sandbox.commands.run('python3 greet.py world', {
    onStderr: (text: string) => console.error(text),
  })
  console.log(result.stdout.trim())

  try {
    await sandbox.commands.run('exit 3')
  } catch (error) {
    if (!(error instanceof CommandExitError)) throw error
    console.log('exit status', error.exitCode)
  }

  const files = await sandbox.files.list('.')
  console.log('files:', files.map((file) => file.name).join(' '))
} finally {
  await sandbox.kill()
}
