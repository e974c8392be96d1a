// Drives the stock SDK of E2B. Each check prints one line; the first word is ok or failed.
import assert from 'node:assert/strict'
import { Sandbox, CommandExitError, FileType, FilesystemEventType, NotFoundError, InvalidArgumentError, TimeoutError } from 'e2b'

let failed = 0
async function check(name, f) {
  try {
    await f()
    console.log('ok', name)
  } catch (e) {
    failed++
    console.log('failed', name, e?.stack ?? e)
  }
}
const until = async (f) => {
  for (let i = 0; i < 400; i++) {
    const v = await f()
    if (v) return v
    await new Promise((r) => setTimeout(r, 25))
  }
  throw new Error('gave up waiting')
}

const sbx = await Sandbox.create('base', { timeoutMs: 60_000 })

await check('commands.run', async () => {
  let streamed = ''
  const r = await sbx.commands.run('echo hello; echo oops >&2; whoami; pwd; echo $A', { envs: { A: 'b' }, onStdout: (d) => { streamed += d } })
  assert.equal(r.stdout, 'hello\nuser\n/home/user\nb\n')
  assert.equal(r.stderr, 'oops\n')
  assert.equal(r.exitCode, 0)
  assert.equal(streamed, r.stdout)
})
await check('commands.run unicode', async () => {
  const text = 'héllo wörld ☃ '.repeat(5000)
  const r = await sbx.commands.run(`cat <<'END'\n${text}\nEND`)
  assert.equal(r.stdout, text + '\n')
})
await check('commands.run exit code', async () => {
  await assert.rejects(sbx.commands.run('echo bad >&2; exit 3'), (e) => e instanceof CommandExitError && e.exitCode === 3 && e.stderr === 'bad\n')
})
await check('commands.run cwd and user', async () => {
  assert.equal((await sbx.commands.run('pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
  assert.equal((await sbx.commands.run('whoami', { user: 'root' })).stdout, 'user\n')
  await assert.rejects(sbx.commands.run('pwd', { cwd: '/none' }), InvalidArgumentError)
})
await check('commands.run timeout', async () => {
  await assert.rejects(sbx.commands.run('sleep 100', { timeoutMs: 700 }), TimeoutError)
  await until(async () => (await sbx.commands.list()).length === 0)
})
await check('commands background, list, kill', async () => {
  const cmd = await sbx.commands.run('echo started; sleep 1000', { background: true })
  const list = await sbx.commands.list()
  const p = list.find((x) => x.pid === cmd.pid)
  assert.equal(p.cmd, '/bin/bash')
  assert.deepEqual(p.args, ['-l', '-c', 'echo started; sleep 1000'])
  assert.equal(await cmd.kill(), true)
  await assert.rejects(cmd.wait(), CommandExitError)
  assert.equal(await sbx.commands.kill(cmd.pid), false)
  assert.equal(await sbx.commands.kill(999999), false)
})
await check('commands.connect after disconnect', async () => {
  const cmd = await sbx.commands.run('while ! [ -e go ]; do sleep 0.05; done; rm go; echo after; exit 0', { background: true })
  await cmd.disconnect()
  const again = await sbx.commands.connect(cmd.pid)
  await sbx.files.write('go', '')
  const r = await again.wait()
  assert.equal(r.stdout, 'after\n')
  await assert.rejects(sbx.commands.connect(999999), NotFoundError)
})
await check('commands.sendStdin and closeStdin', async () => {
  const cmd = await sbx.commands.run('cat', { background: true, stdin: true })
  await sbx.commands.sendStdin(cmd.pid, 'one\n')
  await cmd.sendStdin('two\n')
  await cmd.closeStdin()
  assert.equal((await cmd.wait()).stdout, 'one\ntwo\n')
})
await check('pty', async () => {
  let out = ''
  const dec = new TextDecoder()
  const t = await sbx.pty.create({ cols: 91, rows: 17, onData: (d) => { out += dec.decode(d, { stream: true }) }, envs: { A: 'b' } })
  await sbx.pty.sendInput(t.pid, new TextEncoder().encode('stty size; echo $A-$TERM\n'))
  await until(() => out.includes('17 91') && out.includes('b-xterm-256color'))
  await sbx.pty.resize(t.pid, { cols: 40, rows: 5 })
  await sbx.pty.sendInput(t.pid, new TextEncoder().encode('stty size\n'))
  await until(() => out.includes('5 40'))
  let out2 = ''
  const again = await sbx.pty.connect(t.pid, { onData: (d) => { out2 += new TextDecoder().decode(d) } })
  await sbx.pty.sendInput(t.pid, new TextEncoder().encode('echo ag""ain\n'))
  await until(() => out2.includes('again'))
  await again.disconnect()
  assert.equal(await sbx.pty.kill(t.pid), true)
  await until(async () => !(await sbx.pty.kill(t.pid))) // kill does not wait for its end
})
await check('files.write and read in all formats', async () => {
  const info = await sbx.files.write('dir/a.txt', 'text ☃')
  assert.equal(info.path, '/home/user/dir/a.txt')
  assert.equal(info.name, 'a.txt')
  assert.equal(await sbx.files.read('dir/a.txt'), 'text ☃')
  await sbx.files.write('bytes', new Uint8Array([0, 255, 1]).buffer)
  assert.deepEqual(await sbx.files.read('bytes', { format: 'bytes' }), new Uint8Array([0, 255, 1]))
  assert.equal((await sbx.files.read('bytes', { format: 'blob' })).size, 3)
  let n = 0
  for await (const chunk of await sbx.files.read('bytes', { format: 'stream' })) n += chunk.length
  assert.equal(n, 3)
  await sbx.files.write('blob', new Blob(['blob']))
  assert.equal(await sbx.files.read('blob'), 'blob')
  await sbx.files.write('stream', new ReadableStream({ start(c) { c.enqueue(new TextEncoder().encode('streamed')); c.close() } }))
  assert.equal(await sbx.files.read('stream'), 'streamed')
  await sbx.files.write('empty', '')
  assert.equal(await sbx.files.read('empty'), '')
  await assert.rejects(sbx.files.read('none'), NotFoundError)
  await assert.rejects(sbx.files.read('dir'), InvalidArgumentError)
})
await check('files gzip', async () => {
  await sbx.files.write('z', 'z'.repeat(100000), { gzip: true })
  assert.equal((await sbx.files.read('z', { gzip: true })).length, 100000)
  assert.equal((await sbx.files.getInfo('z')).size, 100000)
})
await check('files.write many, outside the home, with metadata', async () => {
  const list = await sbx.files.write([{ path: 'm/1', data: 'one' }, { path: '/tmp/m/2', data: 'two' }])
  assert.deepEqual(list.map((f) => f.path), ['/home/user/m/1', '/tmp/m/2'])
  assert.equal((await sbx.commands.run('cat m/1 /tmp/m/2')).stdout, 'onetwo')
  assert.equal(await sbx.files.read('/tmp/m/2'), 'two')
  const written = await sbx.files.write('meta', 'x', { metadata: { author: 'me', 'k-2': 'v 2' } })
  assert.deepEqual(written.metadata, { author: 'me', 'k-2': 'v 2' })
  assert.deepEqual((await sbx.files.getInfo('meta')).metadata, { author: 'me', 'k-2': 'v 2' })
})
await check('files.list, getInfo, exists, makeDir, rename, remove', async () => {
  assert.equal(await sbx.files.makeDir('tree/sub'), true)
  assert.equal(await sbx.files.makeDir('tree/sub'), false)
  await sbx.files.write('tree/sub/f', 'abc')
  await sbx.commands.run('ln -s sub/f tree/link')
  const list = await sbx.files.list('tree')
  assert.deepEqual(list.map((e) => [e.name, e.type]).sort(), [['link', FileType.FILE], ['sub', FileType.DIR]])
  assert.equal(list.find((e) => e.name === 'link').symlinkTarget, '/home/user/tree/sub/f')
  assert.equal((await sbx.files.list('tree', { depth: 2 })).length, 3)
  const info = await sbx.files.getInfo('tree/sub/f')
  assert.equal(info.size, 3)
  assert.equal(info.owner, 'user')
  assert.equal(info.mode, 0o644)
  assert.equal(info.permissions, '-rw-r--r--')
  assert.ok(Math.abs(info.modifiedTime - Date.now()) < 600_000)
  assert.equal(await sbx.files.exists('tree/sub/f'), true)
  const moved = await sbx.files.rename('tree/sub/f', 'other/g')
  assert.equal(moved.path, '/home/user/other/g')
  assert.equal(await sbx.files.exists('tree/sub/f'), false)
  await sbx.files.remove('tree')
  await assert.rejects(sbx.files.list('tree'), NotFoundError)
  await assert.rejects(sbx.files.rename('none', 'x'), NotFoundError)
  assert.ok((await sbx.files.list('/')).some((e) => e.name === 'usr'))
})
await check('files.watchDir', async () => {
  await sbx.files.makeDir('watched')
  const events = []
  let ended = false
  const w = await sbx.files.watchDir('watched', (e) => { events.push(e) }, { recursive: true, includeEntry: true, onExit: () => { ended = true } })
  await sbx.files.write('watched/new', 'x')
  await until(() => events.some((e) => e.name === 'new' && e.type === FilesystemEventType.CREATE && e.entry?.path === '/home/user/watched/new'))
  await until(() => events.some((e) => e.name === 'new' && e.type === FilesystemEventType.WRITE))
  events.length = 0
  await sbx.files.write('watched/new', 'y')
  await until(() => events.some((e) => e.name === 'new' && e.type === FilesystemEventType.WRITE))
  await sbx.files.rename('watched/new', 'watched/moved')
  await until(() => events.some((e) => e.name === 'new' && e.type === FilesystemEventType.RENAME))
  await until(() => events.some((e) => e.name === 'moved' && e.type === FilesystemEventType.CREATE))
  await sbx.files.rename('watched/moved', 'watched/new')
  await sbx.files.makeDir('watched/sub')
  await sbx.files.write('watched/sub/deep', 'x')
  await until(() => events.some((e) => e.name === 'sub/deep'))
  await sbx.files.remove('watched/new')
  await until(() => events.some((e) => e.name === 'new' && e.type === FilesystemEventType.REMOVE))
  await w.stop()
  await until(() => ended)
  await assert.rejects(sbx.files.watchDir('none', () => {}), NotFoundError)
})
await check('signed URLs', async () => {
  await sbx.files.write('signed', 'content')
  const down = await sbx.downloadUrl('signed', { useSignatureExpiration: 60 })
  assert.equal(await (await fetch(down)).text(), 'content')
  assert.equal(await (await fetch(await sbx.downloadUrl('signed'))).text(), 'content')
  assert.equal((await fetch(await sbx.downloadUrl('signed', { useSignatureExpiration: -60 }))).status, 401)
  const up = await sbx.uploadUrl('uploaded', { useSignatureExpiration: 60 })
  const form = new FormData()
  form.append('file', new Blob(['uploaded content']), 'ignored')
  assert.equal((await fetch(up, { method: 'POST', body: form })).status, 200)
  assert.equal(await sbx.files.read('uploaded'), 'uploaded content')
})
await check('git', async () => {
  await sbx.git.init('repo', { initialBranch: 'main' })
  await sbx.git.configureUser('Me', 'me@example.com')
  await sbx.files.write('repo/a', 'x')
  assert.equal((await sbx.git.status('repo')).fileStatus.length, 1)
  await sbx.git.add('repo')
  await sbx.git.commit('repo', 'first')
  assert.equal((await sbx.git.branches('repo')).currentBranch, 'main')
})
await check('isRunning', async () => assert.equal(await sbx.isRunning(), true))
await check('many commands at once', async () => {
  const all = await Promise.all(Array.from({ length: 50 }, (_, i) => sbx.commands.run(`echo ${i}`)))
  all.forEach((r, i) => assert.equal(r.stdout, `${i}\n`))
})
process.exit(failed ? 1 : 0)
