// Drives CLIENTS clients of the stock SDK, each with BOXES live sandboxes, until standard
// input says "drain". Each client works in a loop, one operation at a time: it creates, runs,
// writes, reads, watches, lists and kills. It keeps a journal of the writes that the server
// acknowledged, and compares the sandboxes with the journal.
//
// Standard output has lines of JSON: "full" when all sandboxes are there, "verified" after
// the command "verify", each "error" and each loss as it is found, and the "report" last.
import readline from 'node:readline'
import { Sandbox, SandboxNotFoundError, CommandExitError } from 'e2b'

const { RUN, NAME, CLIENTS, BOXES, PAUSE } = process.env
const operations = {} // by kind: milliseconds of those that succeeded
let draining = false
let verifyRound = 0
let unanswered = 0 // sandboxes whose create was never answered

const say = (type, fields = {}) => process.stdout.write(JSON.stringify({ type, ...fields }) + '\n')
const pause = (ms) => new Promise((r) => setTimeout(r, ms))
const pick = (list) => list[Math.floor(Math.random() * list.length)]

// Lost is what a client must never see: other data than was acknowledged, or none.
class Lost extends Error {}
const must = (ok, what) => { if (!ok) throw new Lost(what) }

// describe returns the messages of an error and of its causes.
const describe = (e) => e ? [e.code, e.message, describe(e.cause)].filter(Boolean).join(': ') : ''

// perform runs one operation. It returns undefined after an error, which is reported.
async function perform(kind, f) {
  const start = Date.now()
  try {
    const result = await f()
    ;(operations[kind] ??= []).push(Date.now() - start)
    return result ?? true
  } catch (e) {
    say('error', { kind, start, end: Date.now(), lost: e instanceof Lost, class: e?.constructor?.name ?? '', message: describe(e).slice(0, 400) })
    await pause(100)
  }
}

const retry = async (f) => {
  for (;;) {
    const result = await f()
    if (result !== undefined) return result
  }
}

// A Box is a live sandbox with the journal of its files: for each path the acknowledged
// content, and the contents of later writes without an answer, which it may have instead.
class Box {
  files = new Map()
  n = 0

  constructor(sandbox, pid) {
    this.sandbox = sandbox
    this.pid = pid
  }

  content(path) {
    return `${this.sandbox.sandboxId} ${path} ${++this.n}\n`.repeat(1 + this.n * 37 % 120)
  }

  // journal calls f, which writes a content to a path.
  async journal(path, content, f) {
    const known = this.files.get(path) ?? { acknowledged: null, unanswered: [] }
    this.files.set(path, known)
    known.unanswered.push(content)
    await f()
    this.files.set(path, { acknowledged: content, unanswered: [] })
  }

  // compare checks what a path has, null if there is no such file.
  compare(path, got, by) {
    const { acknowledged, unanswered } = this.files.get(path)
    must(got === acknowledged || unanswered.includes(got),
      `${by} ${this.sandbox.sandboxId} ${path}: got ${got?.length ?? 'no'} bytes ${JSON.stringify(got?.slice(0, 60))}, want ${acknowledged?.length ?? 'no'} bytes ${JSON.stringify(acknowledged?.slice(0, 60))}`)
  }

  async read(path) {
    return this.sandbox.files.read(path).catch((e) => {
      if (e?.constructor?.name === 'FileNotFoundError') return null
      throw e
    })
  }

  async write() {
    const path = `file-${Math.floor(Math.random() * 20)}`
    const content = this.content(path)
    await this.journal(path, content, () => this.sandbox.files.write(path, content))
  }

  async readOne() {
    const path = pick([...this.files.keys()])
    if (path) this.compare(path, await this.read(path), 'read')
  }

  async run() {
    const path = pick([...this.files.keys()])
    switch (Math.floor(Math.random() * 3)) {
      case 0: { // a command that writes, always to a new path: it may outlive its request
        const [path, content] = [`command-${this.n}`, this.content('command')]
        await this.journal(path, content, async () => {
          const { stdout } = await this.sandbox.commands.run(`printf %s "$CONTENT" > ${path}; echo written`, { envs: { CONTENT: content } })
          must(stdout === 'written\n', `run: the output is ${JSON.stringify(stdout)}`)
        })
        break
      }
      case 1: // a command that reads
        if (path) {
          const { stdout } = await this.sandbox.commands.run(`if [ -e ${path} ]; then cat ${path}; else echo; fi`)
          this.compare(path, stdout === '\n' ? null : stdout, 'run')
        }
        break
      default: { // a command that fails
        const result = await this.sandbox.commands.run('echo out; echo err >&2; exit 3').catch((e) => {
          if (e instanceof CommandExitError) return e
          throw e
        })
        must(result.exitCode === 3 && result.stdout === 'out\n' && result.stderr === 'err\n', `run: ${JSON.stringify(result)}`)
      }
    }
  }

  async watch() {
    let seen
    const event = new Promise((resolve, reject) => { seen = { resolve, reject } })
    event.catch(() => {}) // also where nothing waits for it any more
    const [path, content] = [`watched-${this.n}`, this.content('watched')]
    const handle = await this.sandbox.files.watchDir('.', (e) => { if (e.name === path) seen.resolve() }, {
      onExit: (e) => seen.reject(e ?? new Error('the watch ended')),
    })
    try {
      await this.journal(path, content, () => this.sandbox.files.write(path, content))
      await Promise.race([event, pause(30_000).then(() => { throw new Error('watch: no event within 30 s') })])
    } finally {
      await handle.stop().catch(() => {})
    }
  }

  // verify compares all files with the journal, and looks for the background command.
  async verify() {
    for (const path of this.files.keys()) {
      const got = await retry(() => perform('read', async () => ({ got: await this.read(path) })))
      try {
        this.compare(path, got.got, 'verify')
      } catch (e) {
        say('error', { kind: 'verify', start: Date.now(), end: Date.now(), lost: true, class: 'Lost', message: e.message })
      }
    }
    await retry(() => perform('list processes', async () => {
      const found = await this.sandbox.commands.list()
      if (!found.some((p) => p.pid === this.pid)) {
        say('error', { kind: 'verify', start: Date.now(), end: Date.now(), lost: true, class: 'Lost', message: `verify ${this.sandbox.sandboxId}: the background command ${this.pid} is gone` })
      }
    }))
  }
}

class Client {
  boxes = []
  killed = new Set()

  constructor(name) {
    this.name = name
  }

  async create() {
    return retry(async () => {
      const sandbox = await perform('create', () => Sandbox.create({ timeoutMs: 7200_000, metadata: { run: RUN, client: this.name } }))
      if (!sandbox) return undefined
      const handle = await retry(() => perform('run', () => sandbox.commands.run('sleep 86400', { background: true, timeoutMs: 0 })))
      const box = new Box(sandbox, handle.pid)
      await handle.disconnect()
      this.boxes.push(box)
      return box
    })
  }

  // kill verifies a sandbox and kills it. The answer of a kill may be lost, so that a second
  // one finds nothing.
  async kill(box) {
    await box.verify()
    this.boxes.splice(this.boxes.indexOf(box), 1)
    let tries = 0
    await retry(() => perform('kill', async () => {
      tries++
      must(await box.sandbox.kill() || tries > 1, `kill ${box.sandbox.sandboxId}: it is not there`)
    }))
    this.killed.add(box.sandbox.sandboxId)
    await retry(() => perform('info', async () => {
      const info = await Sandbox.getInfo(box.sandbox.sandboxId).catch((e) => {
        if (e instanceof SandboxNotFoundError) return null
        throw e
      })
      must(info === null, `info ${box.sandbox.sandboxId}: it is there after it was killed`)
      return true
    }))
  }

  async all(query) {
    const list = []
    for (const pages = Sandbox.list({ query }); pages.hasNext;) list.push(...await pages.nextItems())
    return list.map((b) => b.sandboxId)
  }

  async list() {
    const ids = new Set(await this.all({ metadata: { run: RUN, client: this.name } }))
    for (const box of this.boxes) must(ids.has(box.sandbox.sandboxId), `list: ${box.sandbox.sandboxId} is missing`)
    for (const id of this.killed) must(!ids.has(id), `list: ${id} is there after it was killed`)
  }

  async work() {
    for (let round = 0; !draining;) {
      if (round !== verifyRound) {
        round = verifyRound
        for (const box of this.boxes) await box.verify()
        verified()
      }
      const box = pick(this.boxes)
      const dice = Math.random()
      if (dice < 0.30) await perform('write', () => box.write())
      else if (dice < 0.60) await perform('read', () => box.readOne())
      else if (dice < 0.83) await perform('run', () => box.run())
      else if (dice < 0.91) await perform('watch', () => box.watch())
      else if (dice < 0.94) await perform('list', () => this.list())
      else if (dice < 0.97) await perform('connect', () => Sandbox.connect(box.sandbox.sandboxId))
      else {
        await this.create() // first, so that BOXES are live at any time
        await this.kill(box)
      }
      await pause(Math.random() * PAUSE)
    }
  }

  // drain kills all sandboxes, also those whose create was not answered.
  async drain() {
    for (const box of [...this.boxes]) await this.kill(box)
    for (;;) {
      const ids = await retry(() => perform('list', () => this.all({ metadata: { run: RUN, client: this.name } })))
      if (ids.length === 0) return
      unanswered += ids.length
      for (const id of ids) await retry(() => perform('kill', () => Sandbox.kill(id)))
    }
  }
}

let unverified = 0
function verified() {
  if (--unverified === 0) say('verified')
}
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  if (line === 'drain') draining = true
  if (line === 'verify') [unverified, verifyRound] = [clients.length, verifyRound + 1]
})

const clients = Array.from({ length: Number(CLIENTS) }, (_, i) => new Client(`${NAME}-${i}`))
await Promise.all(clients.map(async (client) => {
  while (client.boxes.length < Number(BOXES)) await client.create()
}))
say('full')
await Promise.all(clients.map((client) => client.work()))
await Promise.all(clients.map((client) => client.drain()))
say('report', { operations, unanswered })
process.stdout.write('', () => process.exit(0)) // when the pipe has taken all of it
