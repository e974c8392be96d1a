// Runs operations of the stock SDK of E2B for the family server: a JSON line in, a JSON line out with the times of the
// operations in nanoseconds.
import readline from 'node:readline'
import { Sandbox } from 'e2b'

const boxes = []
const buffer = new Uint8Array(+process.env.TRANSFER)

async function timed(f) {
  const start = process.hrtime.bigint()
  await f()
  return Number(process.hrtime.bigint() - start)
}

// create makes a sandbox and waits for the output of its first command.
async function create() {
  const box = await Sandbox.create({ timeoutMs: 3_600_000 })
  boxes.push(box)
  const { stdout } = await box.commands.run('echo first')
  if (stdout !== 'first\n') throw new Error(`echo gives ${stdout}`)
}

async function killAll() {
  await Promise.all(boxes.splice(0).map((box) => box.kill()))
}

let box
const url = (name) => `${process.env.PLAIN_URL}/${name}`

async function repeat(n, f) {
  const times = []
  for (let i = 0; i < n; i++) times.push(await timed(f))
  return times
}

function size(bytes) {
  if (bytes.byteLength !== buffer.byteLength) throw new Error(`got ${bytes.byteLength} bytes, want ${buffer.byteLength}`)
}

const operations = {
  async inRow(n) {
    const times = []
    for (let i = 0; i < n; i++) {
      times.push(await timed(create))
      await killAll()
    }
    return times
  },
  async atOnce(n) {
    const times = await Promise.all(Array.from({ length: n }, () => timed(create)))
    await killAll()
    return times
  },
  async open() {
    box = await Sandbox.create({ timeoutMs: 3_600_000 })
    await box.files.write('index.html', 'hello')
    return box.sandboxId
  },
  async listen(port) {
    await box.commands.run(`exec python3 -m http.server --bind 127.0.0.1 ${port} 2>/dev/null`, { background: true })
    await box.commands.run(`until (: </dev/tcp/127.0.0.1/${port}) 2>/dev/null; do sleep 0.1; done`)
  },
  run: (n) => repeat(n, () => box.commands.run('true')),
  upload: (n) => repeat(n, () => box.files.write('large', buffer.buffer)),
  download: (n) => repeat(n, async () => size(await box.files.read('large', { format: 'bytes' }))),
  plainUpload: (n) => repeat(n, async () => {
    const res = await fetch(url('plain'), { method: 'PUT', body: buffer })
    if (!res.ok) throw new Error(`PUT answers ${res.status}`)
  }),
  plainDownload: (n) => repeat(n, async () => size(await (await fetch(url('plain'))).arrayBuffer())),
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { op, n } = JSON.parse(line)
  const answer = await operations[op](n).then((value) => ({ value }), (e) => ({ error: String(e.stack ?? e) }))
  console.log(JSON.stringify(answer))
}
process.exit(0)
