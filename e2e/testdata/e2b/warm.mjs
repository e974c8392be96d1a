// Creates a sandbox, and prints its id and the milliseconds to the first output of a command.
import { Sandbox } from 'e2b'

const begun = performance.now()
const box = await Sandbox.create()
const { stdout } = await box.commands.run('echo hello')
console.log(JSON.stringify({ id: box.sandboxId, stdout, ms: Math.round(performance.now() - begun) }))
process.exit(0)
