// Uses the SDK wrongly, and prints each exception as a line of JSON.
import { randomBytes } from 'node:crypto'
import { Sandbox, Template, Volume } from 'e2b'

const cases = {}
const each = (name, f) => { cases[name] = f }
const chunk = randomBytes(1 << 20) // zeros would take no space
// stream returns a stream of that many MiB, and counts what was taken of it.
const stream = (mib, taken = { mib: 0 }) => new ReadableStream({
  pull(controller) {
    if (taken.mib++ === mib) controller.close()
    else controller.enqueue(chunk)
  },
})

const box = await Sandbox.create()
await box.files.write('kept', 'content')

each('key form', () => Sandbox.create({ apiKey: 'sk-0123456789' }))
each('key unknown', () => Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }))
each('key empty', () => Sandbox.create({ apiKey: ' ' }))
each('template', () => Sandbox.create('no-such-template'))
each('template name', () => Sandbox.create('../base'))
each('timeout negative', () => Sandbox.create({ timeoutMs: -1000 }))
each('timeout long', () => Sandbox.create({ timeoutMs: 100 * 24 * 3600 * 1000 }))
each('setTimeout long', () => box.setTimeout(100 * 24 * 3600 * 1000))
each('too many', async () => {
  const others = []
  try {
    for (;;) others.push(await Sandbox.create())
  } finally {
    for (const other of others) await other.kill()
  }
})
each('gone', () => Sandbox.connect('i0123456789abcdefghi'))
each('path outside', () => box.files.write('/etc/croft-test', 'x'))
each('path of a tree', () => box.files.read('../../../../../../nope'))
each('path with NUL', () => box.files.read('a\0b'))
each('path is a directory', () => box.files.read('.'))
each('cwd', () => box.commands.run('true', { cwd: '/no/such/dir' }))
each('user', () => box.commands.run('true', { user: 'mallory' }))
each('upload over quota', async () => {
  const taken = { mib: 0 }
  try {
    await box.files.write('big', stream(10 << 10, taken))
  } catch (error) {
    if (taken.mib > 2048) throw new Error(`${taken.mib} MiB were sent before the refusal`)
    throw error
  }
})
each('command over quota', () => box.commands.run('head -c 100000000 /dev/urandom > big').finally(() => box.files.remove('big')))
each('volume', () => Sandbox.create({ volumeMounts: { '/mnt/x': 'no-such-volume' } }))
each('volume name', () => Volume.create('../x'))
each('build', () => Template.build(Template().fromTemplate('base').runCmd('echo broken >&2; exit 7'), 'broken'))
each('build of packages', () => Template.build(Template().fromTemplate('base').aptInstall('cowsay'), 'broken'))
each('build in silence', () => Template.build(Template().fromTemplate('base').runCmd('exit 8'), 'broken').catch((e) => {
  if (!e.message.endsWith('status 8')) throw new Error('another end: ' + e.message)
  throw e
}))
each('file of another user', () => box.files.read('/proc/1/environ'))
each('mcp', () => Sandbox.create({ mcp: { browserbase: {} } }))

for (const name of Object.keys(cases)) {
  let line = { case: name }
  try {
    await cases[name]()
  } catch (error) {
    line = { case: name, error: error.name, message: error.message }
  }
  console.log(JSON.stringify(line))
}
// Nothing of it changed the sandbox.
const files = (await box.files.list('.')).map((file) => file.name).sort().join(' ')
console.log(JSON.stringify({ case: 'kept', message: `${await box.files.read('kept')} in: ${files}` }))
process.exit(0)
