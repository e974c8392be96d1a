// Calls every method that the stock packages e2b and @e2b/code-interpreter export, against
// the server of the environment's variables. It prints a line of JSON for each method: what
// came of it, and a note about how it differs. A method without a check is an error.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import http from 'node:http'
import * as e2b from 'e2b'
import * as interpreter from '@e2b/code-interpreter'

const { Sandbox, Template, Volume, Secret } = e2b
const Code = interpreter.Sandbox
const api = new URL(process.env.E2B_API_URL)
const results = new Map()

// check runs f for some methods. options.differs says how they differ from E2B;
// options.refused is what the error of a method that is left out says.
async function check(methods, options, f) {
  if (typeof options === 'function') [options, f] = [{}, options]
  const result = { result: options.refused ? '501' : options.differs ? 'differs' : 'works', note: options.differs ?? options.note ?? '' }
  try {
    if (options.refused) {
      await assert.rejects(f, (e) => /501/.test(e.message) && options.refused.test(e.message) || assert.fail(`${e.constructor.name}: ${e.message}`))
    } else {
      await f()
    }
  } catch (e) {
    result.error = String(e?.stack ?? e)
  }
  for (const method of [methods].flat()) {
    assert.ok(!results.has(method), `two checks of ${method}`)
    results.set(method, result)
  }
}
const pause = (ms) => new Promise((r) => setTimeout(r, ms))
const until = async (f) => {
  for (let i = 0; i < 400; i++) {
    const v = await f()
    if (v) return v
    await pause(50)
  }
  throw new Error('gave up waiting for ' + f)
}
const all = async (paginator) => {
  const list = []
  while (paginator.hasNext) list.push(...await paginator.nextItems())
  return list
}
// get requests a path of a port by the host name of getHost, which needs no DNS here.
const get = (host, path, headers = {}) => new Promise((resolve, reject) => {
  http.get({ host: api.hostname, port: api.port, path, headers: { host, ...headers } }, (res) => {
    let body = ''
    res.on('data', (d) => { body += d }).on('end', () => resolve({ status: res.statusCode, body }))
  }).on('error', reject)
})
const bytes = (text) => new TextEncoder().encode(text)

// Sandboxes.
const box = await Sandbox.create('base', { timeoutMs: 600_000, metadata: { test: 'methods', 'odd key': 'a&b=c' }, envs: { GIVEN: 'yes' } })
await check('Sandbox.create', {
  differs: 'no internet unless the policy of the server or `allowInternetAccess: true` allows it, and then through an HTTP proxy; every sandbox is secure; `mcp`, `iam` and `network.egressProxy` are 501',
}, async () => {
  assert.match(box.sandboxId, /^[a-z0-9]{20}$/)
  assert.equal((await box.commands.run('echo $GIVEN $HOME; whoami')).stdout, 'yes /home/user\nuser\n')
  await assert.rejects(Sandbox.create('no-such-template'), /404.*no-such-template.*base/s)
  await assert.rejects(Sandbox.create({ timeoutMs: 1e11 }), /400.*seconds/)
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_0000' }), (e) => e instanceof e2b.AuthenticationError)
  await assert.rejects(Sandbox.create({ apiKey: 'odd form' }), (e) => e instanceof e2b.AuthenticationError && /token/.test(e.message))
  await assert.rejects(Sandbox.create({ mcp: { x: {} } }), /501.*mcp/)
  await assert.rejects(Sandbox.create({ network: { denyOut: ['example.com'] } }), /400.*denyOut/)
})
await check('Sandbox.connect', async () => {
  const again = await Sandbox.connect(box.sandboxId)
  assert.equal((await again.commands.run('echo $GIVEN')).stdout, 'yes\n')
  await assert.rejects(Sandbox.connect('nosuchsandbox0000000'), (e) => e instanceof e2b.SandboxNotFoundError)
})
await check('Sandbox#connect', async () => {
  const before = (await box.getInfo()).endAt
  await box.connect({ timeoutMs: 1000 })
  assert.deepEqual((await box.getInfo()).endAt, before, 'the end is only moved to a later time')
  await box.connect({ timeoutMs: 900_000 })
  assert.ok((await box.getInfo()).endAt > before)
})
await check(['Sandbox.list'], async () => {
  const made = []
  for (let i = 0; i < 3; i++) made.push(await Sandbox.create({ metadata: { page: 'yes', n: String(i) } }))
  const ids = made.map((b) => b.sandboxId)
  const query = { metadata: { page: 'yes' } }
  const first = Sandbox.list({ query, limit: 2, order: 'asc' })
  const page = await first.nextItems()
  assert.deepEqual(page.map((b) => b.sandboxId), ids.slice(0, 2))
  assert.ok(first.hasNext && first.nextToken)
  await made[1].kill() // the last one of the page
  assert.deepEqual((await first.nextItems()).map((b) => b.sandboxId), ids.slice(2))
  assert.equal(first.hasNext, false)
  assert.deepEqual((await all(Sandbox.list({ query, limit: 1 }))).map((b) => b.sandboxId), [ids[2], ids[0]])
  await made[0].pause()
  assert.deepEqual((await all(Sandbox.list({ query: { ...query, state: ['paused'] } }))).map((b) => [b.sandboxId, b.state]), [[ids[0], 'paused']])
  assert.equal((await all(Sandbox.list({ query: { metadata: { 'odd key': 'a&b=c' } } }))).length, 1)
  assert.equal((await all(Sandbox.list({ query: { ...query, template: 'other' } }))).length, 0)
  assert.equal((await all(Sandbox.list({ query: { ...query, startedAfter: new Date() } }))).length, 0)
  await assert.rejects(Sandbox.list({ limit: 1000 }).nextItems(), /400.*limit/)
  for (const b of made) await b.kill()
})
await check(['Sandbox.getInfo', 'Sandbox#getInfo'], async () => {
  const info = await box.getInfo()
  assert.deepEqual(info.metadata, { test: 'methods', 'odd key': 'a&b=c' })
  assert.equal(info.templateId, 'base')
  assert.equal(info.state, 'running')
  assert.ok(info.endAt > info.startedAt && info.cpuCount > 0)
  assert.deepEqual(await Sandbox.getInfo(box.sandboxId), info)
  await assert.rejects(Sandbox.getInfo('none'), (e) => e instanceof e2b.SandboxNotFoundError)
})
await check('Sandbox.getFullInfo', async () => assert.equal((await Sandbox.getFullInfo(box.sandboxId)).sandboxId, box.sandboxId))
await check(['Sandbox.setTimeout', 'Sandbox#setTimeout'], { note: 'at most 30 days' }, async () => {
  const short = await Sandbox.create({ timeoutMs: 60_000 })
  await Sandbox.setTimeout(short.sandboxId, 120_000)
  assert.ok((await short.getInfo()).endAt - Date.now() > 60_000)
  await short.setTimeout(1000)
  await until(async () => !(await short.isRunning()))
  await assert.rejects(short.getInfo(), (e) => e instanceof e2b.SandboxNotFoundError)
  await assert.rejects(box.setTimeout(1e11), /400/)
})
await check(['Sandbox.pause', 'Sandbox#pause', 'Sandbox.betaPause', 'Sandbox#betaPause'], {
  differs: 'a paused sandbox keeps its memory on the server: it does not survive a reboot of the host; `keepMemory: false` ends its processes',
}, async () => {
  const b = await Sandbox.create({ lifecycle: { onTimeout: 'pause', autoResume: true } })
  const counter = await b.commands.run('i=0; while sleep 0.05; do i=$((i+1)); echo $i > count; done', { background: true })
  await until(async () => await b.files.exists('count'))
  assert.equal(await b.pause(), true)
  assert.equal(await b.betaPause(), false)
  assert.equal((await Sandbox.getInfo(b.sandboxId)).state, 'paused')
  const again = await Sandbox.connect(b.sandboxId, { timeoutMs: 60_000 })
  assert.ok((await again.commands.list()).some((p) => p.pid === counter.pid), 'processes continue')
  assert.equal(await Sandbox.betaPause(b.sandboxId), true)
  assert.equal(await again.isRunning(), true, 'traffic resumes it')
  assert.equal((await again.getInfo()).state, 'running')
  await again.setTimeout(1000)
  await until(async () => (await again.getInfo()).state === 'paused')
  assert.deepEqual((await again.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: true })
  await again.connect()
  assert.equal(await Sandbox.pause(b.sandboxId, { keepMemory: false }), true)
  assert.equal((await (await Sandbox.connect(b.sandboxId)).commands.list()).length, 0)
  await b.kill()
  await assert.rejects(Sandbox.pause(b.sandboxId), (e) => e instanceof e2b.SandboxNotFoundError)
})
await check(['Sandbox.fork', 'Sandbox#fork'], { differs: 'files are copied, processes are not; the start command of a template runs again' }, async () => {
  await box.files.write('forked', 'state')
  const forks = await box.fork({ count: 2, timeoutMs: 60_000 })
  assert.equal(forks.length, 2)
  for (const f of forks) {
    assert.ok(f instanceof Sandbox, String(f))
    assert.equal(await f.files.read('forked'), 'state')
    await f.files.write('forked', 'own')
  }
  assert.equal(await box.files.read('forked'), 'state')
  assert.equal((await forks[0].getInfo()).metadata.test, 'methods')
  for (const f of forks) await f.kill()
  await assert.rejects(Sandbox.fork(box.sandboxId, { count: 1000 }), /400.*count/)
  const [one] = await Sandbox.fork(box.sandboxId)
  await one.kill()
})
await check(['Sandbox.createSnapshot', 'Sandbox#createSnapshot', 'Sandbox.listSnapshots', 'Sandbox#listSnapshots', 'Sandbox.deleteSnapshot'], {
  differs: 'a snapshot has the files of the home, not processes',
}, async () => {
  await box.files.write('kept', 'in the snapshot')
  const named = await box.createSnapshot({ name: 'my-snapshot' })
  assert.deepEqual(named.names, ['my-snapshot'])
  const bare = await Sandbox.createSnapshot(box.sandboxId)
  assert.deepEqual(new Set((await all(box.listSnapshots({ limit: 1 }))).map((s) => s.snapshotId)), new Set([named.snapshotId, bare.snapshotId]))
  assert.deepEqual((await all(Sandbox.listSnapshots({ name: 'my-snapshot' }))).map((s) => s.snapshotId), [named.snapshotId])
  for (const ref of ['my-snapshot', bare.snapshotId]) {
    const b = await Sandbox.create(ref)
    assert.equal(await b.files.read('kept'), 'in the snapshot')
    await b.kill()
  }
  assert.equal(await Sandbox.deleteSnapshot(bare.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(bare.snapshotId), false)
  await assert.rejects(Sandbox.create(bare.snapshotId), /404/)
  assert.equal(await Sandbox.deleteSnapshot(named.snapshotId), true)
})
await check(['Sandbox.updateNetwork', 'Sandbox#updateNetwork'], {
  differs: 'outgoing traffic goes through an HTTP proxy, so `allowOut` opens ports 80 and 443; `rules` send secrets of the operator as bearer tokens, and other headers and `egressProxy` are 501; processes end when the sandbox gets a network, or loses it, not when the allowed hosts change',
}, async () => {
  const b = await Sandbox.create({ allowInternetAccess: false })
  assert.equal((await b.getInfo()).allowInternetAccess, false)
  await b.updateNetwork({ allowOut: ['example.com'], denyOut: ({ allTraffic }) => [allTraffic] })
  const info = await b.getInfo()
  assert.deepEqual([info.network.allowOut, info.network.denyOut], [['example.com'], ['0.0.0.0/0']])
  const status = async (host) => (await b.commands.run(`curl -s -o /dev/null -w '%{http_code}' http://${host}/ || true`)).stdout
  assert.equal(await status('other.example'), '403', 'the proxy refuses another host')
  const kept = await b.commands.run('sleep 1000', { background: true })
  await b.updateNetwork({ allowOut: ['other.example'], denyOut: ({ allTraffic }) => [allTraffic] })
  assert.ok((await b.commands.list()).some((p) => p.pid === kept.pid), 'other hosts end no process')
  assert.equal(await status('example.com'), '403')
  await assert.rejects(Sandbox.updateNetwork(b.sandboxId, { rules: { 'example.com': [{ transform: { headers: { A: 'b' } } }] } }), /501.*rules/)
  await Sandbox.updateNetwork(b.sandboxId, { allowInternetAccess: false })
  assert.ok(!(await b.commands.list()).some((p) => p.pid === kept.pid), 'no network ends processes')
  assert.notEqual(await status('example.com'), '200')
  await b.kill()
})
await check(['Sandbox.getMetrics', 'Sandbox#getMetrics'], { differs: 'one entry, of now: no history is kept' }, async () => {
  const [m] = await box.getMetrics()
  assert.ok(m.memUsed > 0 && m.memTotal > m.memUsed && m.cpuCount > 0 && m.diskTotal > 0)
  assert.equal((await Sandbox.getMetrics(box.sandboxId)).length, 1)
  await assert.rejects(Sandbox.getMetrics('none'), (e) => e instanceof e2b.SandboxNotFoundError)
})
await check('Sandbox#isRunning', async () => assert.equal(await box.isRunning(), true))
await check('Sandbox#getHost', { note: 'the domain is `server.domain` of croft.yaml; on loopback `localhost:PORT`' }, async () => {
  const server = `
const http = require('http'), crypto = require('crypto')
http.createServer((q, s) => s.end(q.method + ' ' + q.url + ' ' + (q.headers['e2b-traffic-access-token'] ?? 'no token')))
  .on('upgrade', (q, s) => {
    const accept = crypto.createHash('sha1').update(q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
    s.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ' + accept + '\\r\\n\\r\\n')
    s.on('data', (d) => { const n = d[1] & 127, k = d.subarray(2, 6), t = d.subarray(6, 6 + n).map((c, i) => c ^ k[i]); s.write(Buffer.concat([Buffer.from([0x81, n]), t])) })
  }).listen(3000, '127.0.0.1')`
  await box.files.write('server.js', server)
  const closed = await get(box.getHost(3000), '/')
  assert.equal(closed.status, 502)
  assert.deepEqual(JSON.parse(closed.body), { sandboxId: box.sandboxId, message: 'The sandbox is running but port is not open', port: 3000, code: 502 })
  await box.commands.run('node server.js', { background: true })
  await until(async () => (await get(box.getHost(3000), '/')).status === 200)
  assert.equal((await get(box.getHost(3000), '/path?q=1')).body, 'GET /path?q=1 no token')
  // A WebSocket: one masked text frame there, one back.
  const echoed = await new Promise((resolve, reject) => {
    const req = http.request({ host: api.hostname, port: api.port, path: '/ws', headers: {
      host: box.getHost(3000), connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
    } })
    req.on('upgrade', (_, socket) => {
      socket.on('data', (d) => { socket.destroy(); resolve(d.subarray(2).toString()) })
      socket.write(Buffer.from([0x81, 0x85, 0, 0, 0, 0, ...bytes('hello')]))
    }).on('response', (r) => reject(new Error('status ' + r.statusCode))).on('error', reject).end()
  })
  assert.equal(echoed, 'hello')
  const closedBox = await Sandbox.create({ network: { allowPublicTraffic: false } })
  assert.equal((await get(closedBox.getHost(3000), '/')).status, 403)
  assert.equal((await get(closedBox.getHost(3000), '/', { 'e2b-traffic-access-token': closedBox.trafficAccessToken })).status, 502)
  await closedBox.kill()
  const gone = await get(closedBox.getHost(3000), '/')
  assert.deepEqual([gone.status, JSON.parse(gone.body)], [502, { sandboxId: closedBox.sandboxId, message: 'The sandbox was not found', code: 502 }])
})
await check(['Sandbox#uploadUrl', 'Sandbox#downloadUrl', 'getSignature()'], async () => {
  await box.files.write('signed', 'content')
  assert.equal(await (await fetch(await box.downloadUrl('signed', { useSignatureExpiration: 60 }))).text(), 'content')
  const form = new FormData()
  form.append('file', new Blob(['uploaded']), 'x')
  assert.equal((await fetch(await box.uploadUrl('up', { useSignatureExpiration: 60 }), { method: 'POST', body: form })).status, 200)
  assert.equal(await box.files.read('up'), 'uploaded')
  const forged = new URL(await box.downloadUrl('signed'))
  forged.searchParams.set('path', 'up')
  assert.equal((await fetch(forged)).status, 401)
})
await check(['Sandbox#getMcpUrl'], { differs: 'there is no MCP gateway at that URL; the server has its own MCP tools at /mcp' }, async () => assert.match(box.getMcpUrl(), /50005-/))
await check(['Sandbox#getMcpToken'], { differs: 'there is no MCP gateway, so its file is not found' }, async () => assert.rejects(box.getMcpToken(), (e) => e instanceof e2b.NotFoundError))

// Commands and terminals.
await check(['Commands#run', 'CommandHandle#wait'], { differs: 'commands run as the sandbox\'s own user, also where `user` is root; `sudo` is refused' }, async () => {
  let streamed = ''
  const r = await box.commands.run('echo out; echo err >&2; pwd', { cwd: '/tmp', onStdout: (d) => { streamed += d } })
  assert.deepEqual([r.stdout, r.stderr, r.exitCode, streamed], ['out\n/tmp\n', 'err\n', 0, 'out\n/tmp\n'])
  await assert.rejects(box.commands.run('sudo true'), (e) => e instanceof e2b.InvalidArgumentError && /denylisted token "sudo"/.test(e.message))
  await assert.rejects(box.commands.run('exit 3'), (e) => e instanceof e2b.CommandExitError && e.exitCode === 3)
  await assert.rejects(box.commands.run('sleep 60', { timeoutMs: 500 }), (e) => e instanceof e2b.TimeoutError)
})
await check(['Commands#list', 'Commands#kill', 'CommandHandle#kill'], async () => {
  const a = await box.commands.run('sleep 1000', { background: true })
  const b = await box.commands.run('sleep 1000', { background: true })
  assert.equal((await box.commands.list()).filter((p) => [a.pid, b.pid].includes(p.pid)).length, 2)
  assert.equal(await box.commands.kill(a.pid), true)
  assert.equal(await b.kill(), true)
  await until(async () => !(await box.commands.kill(a.pid))) // kill does not wait for its end
})
await check(['Commands#connect', 'CommandHandle#disconnect'], async () => {
  const c = await box.commands.run('until [ -e go ]; do sleep 0.05; done; echo after', { background: true })
  await c.disconnect()
  const again = await box.commands.connect(c.pid)
  await box.files.write('go', '')
  assert.equal((await again.wait()).stdout, 'after\n')
})
await check(['Commands#sendStdin', 'Commands#closeStdin', 'CommandHandle#sendStdin', 'CommandHandle#closeStdin'], async () => {
  const c = await box.commands.run('cat', { background: true, stdin: true })
  await box.commands.sendStdin(c.pid, 'one\n')
  await c.sendStdin('two\n')
  await c.closeStdin()
  assert.equal((await c.wait()).stdout, 'one\ntwo\n')
  const d = await box.commands.run('cat', { background: true, stdin: true })
  await box.commands.closeStdin(d.pid)
  assert.equal((await d.wait()).exitCode, 0)
})
await check(['Pty#create', 'Pty#connect', 'Pty#sendInput', 'Pty#resize', 'Pty#kill'], async () => {
  let out = ''
  const onData = (d) => { out += new TextDecoder().decode(d) }
  const t = await box.pty.create({ cols: 91, rows: 17, onData })
  await box.pty.sendInput(t.pid, bytes('stty size\n'))
  await until(() => out.includes('17 91'))
  await box.pty.resize(t.pid, { cols: 40, rows: 5 })
  const again = await box.pty.connect(t.pid, { onData })
  await box.pty.sendInput(t.pid, bytes('stty size\n'))
  await until(() => out.includes('5 40'))
  await again.disconnect()
  assert.equal(await box.pty.kill(t.pid), true)
})

// Files.
await check(['Filesystem#write', 'Filesystem#writeFiles', 'Filesystem#read'], async () => {
  assert.equal((await box.files.write('d/a', 'text')).path, '/home/user/d/a')
  await box.files.writeFiles([{ path: 'd/b', data: 'b' }, { path: '/tmp/c', data: new Blob(['c']) }])
  assert.equal(await box.files.read('/tmp/c'), 'c')
  assert.deepEqual(await box.files.read('d/a', { format: 'bytes' }), bytes('text'))
  assert.equal((await box.files.read('d/a', { format: 'blob' })).size, 4)
  let n = 0
  for await (const chunk of await box.files.read('d/a', { format: 'stream' })) n += chunk.length
  assert.equal(n, 4)
  await assert.rejects(box.files.read('none'), (e) => e instanceof e2b.FileNotFoundError)
})
await check(['Filesystem#list', 'Filesystem#getInfo', 'Filesystem#exists'], async () => {
  assert.deepEqual((await box.files.list('d')).map((e) => e.name).sort(), ['a', 'b'])
  assert.equal((await box.files.getInfo('d/a')).size, 4)
  assert.deepEqual([await box.files.exists('d/a'), await box.files.exists('d/none')], [true, false])
})
await check(['Filesystem#makeDir', 'Filesystem#rename', 'Filesystem#remove'], async () => {
  assert.equal(await box.files.makeDir('m/n'), true)
  assert.equal(await box.files.makeDir('m/n'), false)
  assert.equal((await box.files.rename('m/n', 'm/o')).path, '/home/user/m/o')
  await box.files.remove('m')
  assert.equal(await box.files.exists('m'), false)
})
// The SDK has no method for logs; E2B's command line parses each line.
const { logs } = await (await fetch(new URL(`/sandboxes/${box.sandboxId}/logs`, api), { headers: { 'X-API-KEY': process.env.E2B_API_KEY } })).json()
assert.ok(logs.length > 0)
for (const { line } of logs) assert.deepEqual(Object.entries(JSON.parse(line)).filter(([k]) => k === 'logger'), [['logger', 'croft']], line)
await check(['Filesystem#watchDir', 'WatchHandle#stop'], { differs: 'only below the home; a new file gives CREATE and WRITE, without CHMOD' }, async () => {
  await box.files.makeDir('w')
  const seen = []
  const w = await box.files.watchDir('w', (e) => { seen.push(e) }, { recursive: true })
  await box.files.write('w/f', 'x')
  await until(() => seen.some((e) => e.name === 'f' && e.type === e2b.FilesystemEventType.CREATE))
  await until(() => seen.some((e) => e.name === 'f' && e.type === e2b.FilesystemEventType.WRITE))
  await w.stop()
})

// Git, in a repository beside a bare one.
const git = box.git
await check(['Git#init', 'Git#configureUser', 'Git#setConfig', 'Git#getConfig'], async () => {
  await git.init('origin.git', { bare: true, initialBranch: 'main' })
  await git.init('repo', { initialBranch: 'main' })
  await git.configureUser('Me', 'me@example.com')
  assert.equal(await git.getConfig('user.name', { scope: 'global' }), 'Me')
  await git.setConfig('croft.test', 'yes', { scope: 'local', path: 'repo' })
  assert.equal(await git.getConfig('croft.test', { scope: 'local', path: 'repo' }), 'yes')
})
await check(['Git#status', 'Git#add', 'Git#commit', 'Git#reset', 'Git#restore'], async () => {
  await box.files.write('repo/a', '1')
  await git.add('repo')
  assert.equal((await git.status('repo')).hasStaged, true)
  await git.commit('repo', 'first')
  assert.equal((await git.status('repo')).isClean, true)
  await box.files.write('repo/a', '2')
  await git.restore('repo', { paths: ['a'] })
  assert.equal(await box.files.read('repo/a'), '1')
  await box.files.write('repo/a', '3')
  await git.add('repo')
  await git.reset('repo', { mode: 'hard' })
  assert.equal(await box.files.read('repo/a'), '1')
})
await check(['Git#branches', 'Git#createBranch', 'Git#checkoutBranch', 'Git#deleteBranch'], async () => {
  await git.createBranch('repo', 'side')
  await git.checkoutBranch('repo', 'main')
  assert.deepEqual((await git.branches('repo')).branches.sort(), ['main', 'side'])
  await git.deleteBranch('repo', 'side')
  assert.equal((await git.branches('repo')).currentBranch, 'main')
})
await check(['Git#remoteAdd', 'Git#remoteGet', 'Git#push', 'Git#clone', 'Git#pull'], async () => {
  await git.remoteAdd('repo', 'origin', '/home/user/origin.git')
  assert.equal(await git.remoteGet('repo', 'origin'), '/home/user/origin.git')
  await git.push('repo', { remote: 'origin', branch: 'main', setUpstream: true })
  await git.clone('/home/user/origin.git', { path: 'copy' })
  assert.equal(await box.files.read('copy/a'), '1')
  await git.pull('copy')
})
await check('Git#dangerouslyAuthenticate', async () => {
  await git.dangerouslyAuthenticate({ username: 'me', password: 'secret' })
  assert.match((await box.commands.run('cat ~/.git-credentials')).stdout, /me:secret@/)
})

// Templates.
fs.mkdirSync('context/dir', { recursive: true })
fs.writeFileSync('context/file.txt', 'a file')
fs.writeFileSync('context/dir/inner.txt', 'an inner file')
fs.writeFileSync('context/Dockerfile', 'FROM e2bdev/base\nWORKDIR /home/user\nENV FROM_DOCKERFILE=yes\nRUN echo docker > from-dockerfile\n')
const context = { fileContextPath: 'context' }
let built
await check([
  'Template()', 'TemplateBase.build', 'TemplateBase#fromTemplate', 'TemplateBase#copy', 'TemplateBase#copyItems', 'TemplateBase#runCmd', 'TemplateBase#setEnvs',
  'TemplateBase#setWorkdir', 'TemplateBase#setUser', 'TemplateBase#setStartCmd', 'TemplateBase#makeDir', 'TemplateBase#makeSymlink', 'TemplateBase#rename', 'TemplateBase#remove',
  'TemplateBase#skipCache', 'defaultBuildLogger()', 'waitForFile()',
], {
  differs: 'a template is a home directory with variables: steps run as the sandbox\'s own user and can write below /home/user and /tmp alone; the start command runs when a sandbox is created; there is no cache',
}, async () => {
  const template = Template(context).fromTemplate('base').skipCache()
    .setEnvs({ IN_TEMPLATE: 'yes' }).setUser('user').makeDir('/home/user/app').setWorkdir('/home/user/app')
    .copy('file.txt', '.').copyItems([{ src: 'dir', dest: '/home/user/dir', mode: 0o755 }])
    .copy('dir/*', '../globbed/').copy('dir/inner.txt', '../nested.txt', { forceUpload: true })
    .runCmd('echo $IN_TEMPLATE > made; pwd >> made').makeSymlink('made', 'link').rename('file.txt', 'renamed.txt').runCmd('touch junk').remove('junk')
    .setStartCmd('echo $IN_TEMPLATE > /tmp/started; exec sleep 1000', e2b.waitForFile('/tmp/started'))
  const logs = []
  built = await Template.build(template, 'methods-template', { cpuCount: 1, memoryMB: 512, onBuildLogs: (l) => logs.push(l.message) })
  e2b.defaultBuildLogger()
  assert.ok(logs.some((l) => l.includes('RUN')))
  const b = await Sandbox.create('methods-template')
  assert.equal((await b.commands.run('pwd; cat link renamed.txt ../dir/inner.txt /tmp/started; ls; cmp ../globbed/inner.txt ../nested.txt')).stdout,
    '/home/user/app\nyes\n/home/user/app\na filean inner fileyes\nlink\nmade\nrenamed.txt\n')
  assert.deepEqual([(await b.getInfo()).name, (await b.getInfo()).cpuCount, (await b.getInfo()).memoryMB], ['methods-template', 1, 512])
  await b.kill()
  await assert.rejects(Template.build(Template().fromTemplate('base').runCmd('echo why >&2; exit 3'), 'methods-bad'), (e) => e instanceof e2b.BuildError && /why/.test(e.message))
  await assert.rejects(Sandbox.create('methods-bad'), /404.*ready/)
})
await check(['TemplateBase.buildInBackground', 'TemplateBase.getBuildStatus', 'TemplateBase#fromBaseImage', 'TemplateBase#setReadyCmd', 'waitForTimeout()'], async () => {
  const info = await Template.buildInBackground(Template().fromBaseImage().setReadyCmd(e2b.waitForTimeout(100)), 'methods-background')
  const status = await until(async () => {
    const s = await Template.getBuildStatus(info)
    return s.status !== 'building' && s.status !== 'waiting' && s
  })
  assert.equal(status.status, 'ready', JSON.stringify(status.reason))
})
await check(['TemplateBase.exists', 'TemplateBase.aliasExists'], async () => {
  assert.deepEqual([await Template.exists('methods-template'), await Template.aliasExists('base'), await Template.exists('no-such-template')], [true, true, false])
})
await check(['TemplateBase.assignTags', 'TemplateBase.removeTags', 'TemplateBase.getTags'], async () => {
  assert.equal((await Template.assignTags('methods-template', ['v1', 'stable'])).buildId, built.buildId)
  assert.deepEqual((await Template.getTags(built.templateId)).map((t) => t.tag), ['default', 'stable', 'v1'])
  await (await Sandbox.create('methods-template:v1')).kill()
  await Template.removeTags('methods-template', 'v1')
  await assert.rejects(Sandbox.create('methods-template:v1'), /404.*stable/)
})
await check('TemplateBase#fromDockerfile', { differs: 'FROM names e2bdev/base or an image of a registry' }, async () => {
  await Template.build(Template(context).fromDockerfile('context/Dockerfile'), 'methods-dockerfile')
  const b = await Sandbox.create('methods-dockerfile')
  assert.equal((await b.commands.run('echo $FROM_DOCKERFILE; cat ~/from-dockerfile')).stdout, 'yes\ndocker\n')
  await b.kill()
})
await check(['TemplateBase#gitClone', 'TemplateBase#npmInstall', 'TemplateBase#pipInstall', 'TemplateBase#bunInstall'], {
  differs: 'they run git, npm, pip or bun of the server\'s host, and need a policy that lets builds reach the network; `g: true` can\'t write outside the home',
}, async () => {
  const json = JSON.parse(await Template.toJSON(Template().fromTemplate('base').gitClone('https://x/y', 'y').npmInstall('a').pipInstall('b', { g: false }).bunInstall('c'), false))
  assert.deepEqual(json.steps.map((s) => s.args[0]), ["git clone 'https://x/y' 'y'", 'npm install a', 'pip install --user b', 'bun install c'].map((x, i) => i === 0 ? json.steps[0].args[0] : x))
  await Template.build(Template().fromTemplate('base').runCmd('git init --bare r.git').gitClone('/home/user/r.git', 'cloned'), 'methods-git')
})
await check('TemplateBase#aptInstall', { differs: 'the build fails: a sandbox has the programs of the server\'s host, read-only' }, async () => {
  await assert.rejects(Template.build(Template().fromTemplate('base').aptInstall('hello'), 'methods-apt'), (e) => e instanceof e2b.BuildError)
})
const image = process.env.TEST_IMAGE
await check(['TemplateBase#fromImage', 'TemplateBase#fromDebianImage', 'TemplateBase#fromUbuntuImage', 'TemplateBase#fromFedoraImage', 'TemplateBase#fromAlpineImage',
  'TemplateBase#fromArchImage', 'TemplateBase#fromPythonImage', 'TemplateBase#fromNodeImage', 'TemplateBase#fromBunImage'], {
  differs: 'the files of the image replace the programs of the host, read-only, except /home, /root and /tmp; it needs /bin/bash and isolation by namespaces',
}, async () => {
  await Template.build(Template().fromImage(image).runCmd('cat /opt/marker > marker'), 'methods-image')
  const b = await Sandbox.create('methods-image')
  assert.equal((await b.commands.run('cat marker /opt/marker')).stdout, 'of the image\nof the image\n')
  await b.kill()
})
await check(['TemplateBase#fromAWSRegistry', 'TemplateBase#fromGCPRegistry'], { refused: /fromImageRegistry/ }, async () => {
  await Template.build(Template().fromAWSRegistry('x/y', { accessKeyId: 'a', secretAccessKey: 'b', region: 'c' }), 'methods-aws')
})
await check(['TemplateBase#addMcpServer', 'TemplateBase#betaDevContainerPrebuild', 'TemplateBase#betaSetDevContainerStart'], { differs: 'the templates mcp-gateway and devcontainer do not exist here' }, async () => {
  await assert.rejects(Template.build(Template().fromTemplate('mcp-gateway').addMcpServer('exa'), 'methods-mcp'), /mcp-gateway.*not found/s)
  await assert.rejects(Template.build(Template().fromTemplate('devcontainer').betaDevContainerPrebuild('/x'), 'methods-dev'), /devcontainer.*not found/s)
})
await check(['TemplateBase.toJSON', 'TemplateBase.toDockerfile', 'ReadyCmd#getCmd', 'waitForPort()', 'waitForProcess()', 'waitForURL()', 'LogEntry#toString', 'LogEntryStart#toString', 'LogEntryEnd#toString'],
  { note: 'local to the SDK' }, async () => {
    assert.match(Template.toDockerfile(Template().fromImage('x').runCmd('y')), /FROM x\nRUN y/)
    for (const c of [e2b.waitForPort(1), e2b.waitForProcess('x'), e2b.waitForURL('http://x')]) assert.ok(c.getCmd())
    assert.match(new e2b.LogEntry(new Date(), 'info', 'text').toString(), /text/)
  })

// Volumes and secrets.
await check(['Volume.create', 'Volume.connect', 'Volume.getInfo', 'Volume.list', 'Volume.destroy'], {
  differs: 'a volume is mounted outside of the home, such as at /mnt/data; sandboxes from an image have none',
}, async () => {
  const v = await Volume.create('methods-volume')
  await assert.rejects(Volume.create('methods-volume'), /409/)
  assert.deepEqual(await Volume.getInfo(v.volumeId), { volumeId: v.volumeId, name: 'methods-volume', token: v.token, domain: undefined })
  assert.ok((await Volume.list()).some((x) => x.volumeId === v.volumeId))
  const one = await Sandbox.create({ volumeMounts: { '/mnt/data': v } })
  const two = await Sandbox.create({ volumeMounts: { '/mnt/other': 'methods-volume' } })
  await one.commands.run('mkdir -p /mnt/data/dir && echo shared > /mnt/data/dir/file')
  assert.equal((await two.commands.run('cat /mnt/other/dir/file; echo more >> /mnt/other/dir/file')).stdout, 'shared\n')
  assert.equal(await (await Volume.connect(v.volumeId)).readFile('/dir/file'), 'shared\nmore\n')
  assert.deepEqual((await one.getInfo()).volumeMounts, [{ name: 'methods-volume', path: '/mnt/data' }])
  await assert.rejects(Volume.destroy(v.volumeId), /409/)
  await assert.rejects(Sandbox.create({ volumeMounts: { '/etc': v } }), /400/)
  await assert.rejects(Sandbox.create({ volumeMounts: { '/mnt/x': 'no-such-volume' } }), /404/)
  await one.kill()
  await two.kill()
  assert.equal(await Volume.destroy(v.volumeId), true)
  assert.equal(await Volume.destroy(v.volumeId), false)
  await assert.rejects(Volume.getInfo(v.volumeId), (e) => e instanceof e2b.VolumeNotFoundError)
})
await check(['Volume#writeFile', 'Volume#readFile', 'Volume#list', 'Volume#getInfo', 'Volume#exists', 'Volume#makeDir', 'Volume#updateMetadata', 'Volume#remove'], {
  differs: 'files belong to the user of the sandboxes: `uid` and `gid` can\'t be set',
}, async () => {
  const v = await Volume.create('methods-content')
  assert.equal((await v.writeFile('/a/b', 'text')).path, '/a/b')
  assert.equal(await v.readFile('/a/b'), 'text')
  assert.deepEqual(await v.readFile('/a/b', { format: 'bytes' }), bytes('text'))
  assert.equal((await v.makeDir('/c')).type, 'directory')
  assert.deepEqual((await v.list('/', { depth: 2 })).map((x) => x.path).sort(), ['/a', '/a/b', '/c'])
  assert.equal((await v.updateMetadata('/a/b', { mode: 0o600 })).mode, 0o600)
  assert.equal((await v.getInfo('/a/b')).size, 4)
  await v.remove('/a')
  assert.deepEqual([await v.exists('/a/b'), await v.exists('/c')], [false, true])
  await assert.rejects(v.readFile('/../../etc/passwd'), /400/)
  await Volume.destroy(v.volumeId)
})
const noSecrets = { refused: /secrets/ }
const operators = { differs: 'the operator sets secrets, in croft.yaml: they are listed by name, without versions and times' }
await check('Secret.create', noSecrets, () => Secret.create('name', 'value'))
await check('Secret.update', noSecrets, () => Secret.update('name', 'value'))
await check('Secret.getInfo', operators, () => assert.rejects(Secret.getInfo('name'), /not found/))
await check(['Secret.list', 'SecretPaginator#nextItems'], operators, async () => assert.deepEqual(await Secret.list().nextItems(), []))
await check('Secret.exists', operators, async () => assert.equal(await Secret.exists('name'), false))
await check('Secret.destroy', noSecrets, () => Secret.destroy('name'))
await check(['Secret.fill', 'Secret.iamToken'], { differs: 'a placeholder has an effect in the header `Authorization: Bearer ...` of a network rule alone' }, async () => assert.equal(Secret.fill('NAME'), '${e2b.secrets.NAME}'))

// The code interpreter.
const wait = { requestTimeoutMs: 170_000, timeoutMs: 170_000 }
const code = await Code.create({ timeoutMs: 600_000 })
await check('ci.Sandbox#runCode', { differs: 'languages are bash, and those whose Jupyter kernels the server\'s host has; charts need matplotlib there; `execution.error` says which package another language needs' }, async () => {
  const lines = []
  const r = await code.runCode('import time\nprint("one", flush=True)\ntime.sleep(0.2)\nprint("two")\n20 + 22', { ...wait, onStdout: (m) => lines.push(m.line) })
  assert.deepEqual([r.text, lines.join(''), r.results[0].isMainResult], ['42', 'one\ntwo\n', true])
  assert.equal((await code.runCode('1/0', wait)).error.name, 'ZeroDivisionError')
})
await check(['ci.Sandbox#createCodeContext', 'ci.Sandbox#listCodeContexts', 'ci.Sandbox#restartCodeContext', 'ci.Sandbox#removeCodeContext'], async () => {
  const c = await code.createCodeContext({ requestTimeoutMs: 170_000 })
  await code.runCode('y = 1', { ...wait, context: c })
  await code.restartCodeContext(c)
  assert.equal((await code.runCode('"y" in dir()', { ...wait, context: c })).text, 'False')
  assert.equal((await code.listCodeContexts()).at(-1).id, c.id) // after the defaults, which a new sandbox has
  await code.removeCodeContext(c)
})
await code.kill()

await check(['Sandbox.kill', 'Sandbox#kill'], async () => {
  const b = await Sandbox.create()
  assert.equal(await b.kill(), true)
  assert.equal(await Sandbox.kill(b.sandboxId), false)
  assert.equal(await b.isRunning(), false)
  await assert.rejects(b.commands.run('true'), (e) => e instanceof e2b.TimeoutError || e instanceof e2b.SandboxError)
})
const local = { note: 'local to the SDK' }
await check(['ConnectionConfig.setIntegration', 'ConnectionConfig.mergeOpts', 'ConnectionConfig#getSignal', 'ConnectionConfig#getSandboxUrl', 'ConnectionConfig#getSandboxDirectUrl', 'ConnectionConfig#getHost'], local, async () => {
  const c = new e2b.ConnectionConfig()
  assert.equal(c.getSandboxUrl('x', { sandboxDomain: 'y', envdPort: 1 }), process.env.E2B_SANDBOX_URL)
})

// What the packages export. Names that TypeScript declares private are left out.
const internal = new Set(`ConnectionConfig.getRequestSource ConnectionConfig.buildUserAgent ConnectionConfig.applyUserAgent Git#runGit Git#runShell Git#getRemoteUrl
  Git#resolveRemoteName Git#withRemoteCredentials Git#hasUpstream Sandbox.createSandbox Sandbox.forkSandbox Sandbox.connectSandbox Sandbox#resolveApiOpts Sandbox#fileUrl
  SecretPaginator#updatePagination TemplateBase#collectStackTrace TemplateBase#toJSON TemplateBase#toDockerfile TemplateBase#build TemplateBase#instructionsWithHashes
  TemplateBase#serialize ci.Sandbox#getJupyterRequestUrl ci.Sandbox#handleRequestError Commands#start Commands#supportsStdinClose CommandHandle#handleEvents CommandHandle#iterateEvents CommandHandle#flushDecoders
  Filesystem#watchDirStream WatchHandle#handleEvents WatchHandle#iterateEvents`.split(/\s+/))
const exported = new Set()
const add = (name) => { if (!internal.has(name) && !name.endsWith('.resolveOpts') && !/[.#](#|_)/.test(name)) exported.add(name) }
const own = (o) => Object.getOwnPropertyNames(o).filter((m) => !['length', 'name', 'prototype', 'constructor'].includes(m) && typeof Object.getOwnPropertyDescriptor(o, m).value === 'function')
function walk(name, value, above) {
  if (typeof value !== 'function' || value.prototype instanceof Error || value === Error) return
  if (!/^class/.test(Function.prototype.toString.call(value))) return add(name + '()')
  for (let c = value; c && c !== Function.prototype && c !== above; c = Object.getPrototypeOf(c)) for (const m of own(c)) add(`${name}.${m}`)
  for (let p = value.prototype; p && p !== Object.prototype && p !== above?.prototype; p = Object.getPrototypeOf(p)) for (const m of own(p)) add(`${name}#${m}`)
}
for (const [name, value] of Object.entries(e2b)) if (name !== 'default') walk(name, value)
for (const [name, value] of Object.entries(interpreter)) if (name !== 'default' && e2b[name] !== value) walk('ci.' + name, value, e2b[name])
for (const [name, part] of Object.entries({ Commands: box.commands, Filesystem: box.files, Pty: box.pty })) for (const m of own(Object.getPrototypeOf(part))) add(`${name}#${m}`)
{
  const handle = await box.commands.run('sleep 1', { background: true })
  for (const m of own(Object.getPrototypeOf(handle))) add('CommandHandle#' + m)
  const watcher = await box.files.watchDir('/home/user', () => {})
  for (const m of own(Object.getPrototypeOf(watcher))) add('WatchHandle#' + m)
  await watcher.stop()
}
await box.kill()
for (const name of exported) if (!results.has(name)) results.set(name, { result: 'unknown', error: 'no check calls this method' })
for (const name of results.keys()) if (!exported.has(name)) results.set(name, { result: 'unknown', error: 'the packages do not export this method' })
for (const [method, r] of results) console.log(JSON.stringify({ method, ...r }))
process.exit(0)
