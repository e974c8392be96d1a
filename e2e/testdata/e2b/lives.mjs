// What lives in a sandbox, code contexts and processes, outlives pauses and, with STATE, a restart of
// the server.
import assert from 'node:assert/strict'
import { Sandbox } from '@e2b/code-interpreter'
import { TimeoutError, Volume, VolumeError } from 'e2b'

const until = async (what, f) => {
  for (let i = 0; !(await f()); i++) {
    assert.ok(i < 300, what)
    await new Promise((r) => setTimeout(r, 100))
  }
}
const text = async (box, code, opts) => {
  const run = await box.runCode(code, opts)
  assert.equal(run.error, undefined, JSON.stringify(run.error))
  return run.text ?? run.logs.stdout.join('')
}

if (!process.env.STATE) {
  const box = await Sandbox.create({ timeoutMs: 600_000, lifecycle: { onTimeout: 'pause' } })
  await box.runCode('x = 41')
  await box.runCode('Y=7', { language: 'bash' })
  const context = await box.createCodeContext({ cwd: '/home/user' })
  const shell = await box.createCodeContext({ language: 'bash' })
  await box.runCode('y = 1', { context })
  await box.runCode('Z=8', { context: shell })
  const check = async (box) => {
    assert.equal(await text(box, 'x + 1'), '42')
    assert.equal(await text(box, 'y + 1', { context }), '2')
    assert.equal(await text(box, 'echo $Y', { language: 'bash' }), '7\n')
    assert.equal(await text(box, 'echo $Z', { context: shell }), '8\n')
    const ids = (await box.listCodeContexts()).map((c) => c.id)
    assert.ok(ids.includes(context.id) && ids.includes(shell.id) && ids.length === 4, `contexts ${ids}`)
  }

  // An explicit pause, with code and a command that run.
  const running = box.runCode('import time\nfor n in range(15): time.sleep(0.2)\nlate = n').then((r) => r, (e) => e)
  const command = await box.commands.run('while read line; do echo "got $line"; done', { background: true, stdin: true })
  const stream = command.wait().then((r) => r, (e) => e)
  await new Promise((r) => setTimeout(r, 500))
  const begun = Date.now()
  assert.equal(await box.pause(), true)
  assert.ok(Date.now() - begun < 20_000, `the pause took ${Date.now() - begun} ms`)
  const cut = await running
  assert.match(JSON.stringify(cut.error ?? cut.message), /paused/)
  const ended = await stream
  assert.ok(ended instanceof TimeoutError, `${ended}`)
  assert.match(ended.message, /the sandbox was paused/)
  let again = await Sandbox.connect(box.sandboxId)
  await check(again)
  assert.equal(await text(again, 'late'), '14')

  // A pause at the time-out.
  await again.setTimeout(1000)
  await until('the sandbox is paused at its time-out', async () => (await again.getInfo()).state === 'paused')
  again = await Sandbox.connect(box.sandboxId, { timeoutMs: 600_000 })
  await check(again)
  const pid = command.pid
  const lines = []
  const handle = await again.commands.connect(pid, { onStdout: (s) => lines.push(s) })
  await again.commands.sendStdin(pid, 'one\n')
  await until('the process answers', () => lines.join('').includes('got one'))
  assert.equal(await again.commands.kill(pid), true)
  await handle.wait().catch(() => {})

  // A kernel that died says so.
  const dead = await Sandbox.create({ timeoutMs: 600_000 })
  await dead.runCode('x = 1')
  await dead.commands.run('pkill -9 -f krn- ; true').catch(() => {})
  const after = await dead.runCode('print("x" in dir())')
  assert.match(after.error?.value ?? after.logs.stderr.join(''), /died|has ended/)

  // The word for a sandbox that dies.
  const wait = dead.commands.run('sleep 100').then((r) => r, (e) => e)
  const code = dead.runCode('import time; time.sleep(100)').then((r) => r, (e) => e)
  await new Promise((r) => setTimeout(r, 1000))
  await dead.kill()
  assert.ok((await wait) instanceof TimeoutError, `${await wait}`)
  assert.ok((await code) instanceof TimeoutError, `${await code}`)

  // A volume's file is not overwritten.
  const volume = await Volume.create('kept')
  await volume.writeFile('/f', 'old')
  await assert.rejects(volume.writeFile('/f', 'new', { force: false }), VolumeError)
  assert.equal(await volume.readFile('/f'), 'old')
  await volume.writeFile('/g', 'new', { force: false })
  await volume.writeFile('/f', 'new', { force: true })
  assert.equal(await volume.readFile('/f'), 'new')
  await Volume.destroy(volume.volumeId)

  const tty = await again.pty.create({ cols: 80, rows: 24, onData: () => {}, timeoutMs: 0 })
  console.log(JSON.stringify({ box: box.sandboxId, context: context.id, shell: shell.id, pty: tty.pid }))
} else {
  const state = JSON.parse(process.env.STATE)
  const box = await Sandbox.connect(state.box)
  assert.equal(await text(box, 'x + 1'), '42')
  assert.equal(await text(box, 'y + 1', { context: { id: state.context } }), '2')
  assert.equal(await text(box, 'echo $Y', { language: 'bash' }), '7\n')
  assert.equal(await text(box, 'echo $Z', { context: { id: state.shell } }), '8\n')
  assert.equal((await box.listCodeContexts()).length, 4)
  let shown = ''
  const tty = await box.pty.connect(state.pty, { onData: (d) => { shown += Buffer.from(d).toString() } })
  await box.pty.sendInput(state.pty, Buffer.from('echo $((6 * 7))\n'))
  await until('the terminal answers', () => shown.includes('42'))
  await tty.disconnect()
}
process.exit(0)
