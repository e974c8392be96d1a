// Makes sandboxes, or checks those of STATE after a restart of the server.
import assert from 'node:assert/strict'
import { Sandbox, Template, SandboxNotFoundError } from 'e2b'

if (!process.env.STATE) {
  const box = await Sandbox.create({ timeoutMs: 600_000, metadata: { a: 'b' }, envs: { GIVEN: 'yes' } })
  await box.files.write('kept', 'content')
  const command = await box.commands.run('while sleep 0.1; do date +%s%N > tick; done', { background: true })
  const short = await Sandbox.create({ timeoutMs: 2000 })
  const pausing = await Sandbox.create({ timeoutMs: 2000, lifecycle: { onTimeout: 'pause' } })
  const frozen = await Sandbox.create()
  await frozen.files.write('kept', 'frozen')
  await frozen.pause()
  await Template.build(Template().fromTemplate('base').runCmd('echo built > built'), 'kept-template')
  const info = await box.getInfo()
  console.log(JSON.stringify({ box: box.sandboxId, pid: command.pid, end: info.endAt, short: short.sandboxId, pausing: pausing.sandboxId, frozen: frozen.sandboxId }))
} else {
  const state = JSON.parse(process.env.STATE)
  const box = await Sandbox.connect(state.box, { timeoutMs: 1000 })
  assert.equal((await box.getInfo()).endAt.toISOString(), state.end)
  assert.deepEqual((await box.getInfo()).metadata, { a: 'b' })
  assert.equal(await box.files.read('kept'), 'content')
  assert.equal((await box.commands.run('echo $GIVEN')).stdout, 'yes\n')
  assert.ok((await box.commands.list()).some((p) => p.pid === state.pid), 'the background command is found again')
  const tick = await box.files.read('tick')
  for (let i = 0; await box.files.read('tick') === tick; i++) {
    assert.ok(i < 100, 'the background command continues')
    await new Promise((r) => setTimeout(r, 100))
  }
  let gone = false
  for (let i = 0; i < 100 && !gone; i++) {
    gone = await Sandbox.getInfo(state.short).then(() => false, (e) => e instanceof SandboxNotFoundError)
    await new Promise((r) => setTimeout(r, 100))
  }
  assert.ok(gone, 'the sandbox whose time-out passed is gone')
  for (let i = 0; (await Sandbox.getInfo(state.pausing)).state !== 'paused'; i++) {
    assert.ok(i < 200, 'the sandbox whose time-out passed is paused')
    await new Promise((r) => setTimeout(r, 100))
  }
  const frozen = await Sandbox.connect(state.frozen)
  assert.equal(await frozen.files.read('kept'), 'frozen')
  await frozen.pause()
  const from = await Sandbox.create('kept-template')
  assert.equal(await from.files.read('built'), 'built\n')
  await from.kill()
}
process.exit(0)
