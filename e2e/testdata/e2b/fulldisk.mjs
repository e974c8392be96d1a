// Fills the disk of the server, and prints what the SDK says until there is space again.
import { randomBytes } from 'node:crypto'
import { Sandbox } from 'e2b'

const print = (name, error) => console.log(JSON.stringify({ case: name, error: error?.name, message: error?.message }))
const attempt = (name, f) => f().then(() => print(name), (error) => print(name, error))
const chunk = randomBytes(1 << 20)
const endless = () => new ReadableStream({ pull: (controller) => controller.enqueue(chunk) })

const kept = await Sandbox.create()
await kept.files.write('kept', 'content')
const big = await Sandbox.create()
// Parts, so that the disk stays full: an upload that fails leaves nothing.
const fill = async () => {
  for (let size = 16 << 20; size >= 1 << 12; size /= 2) {
    for (let i = 0; ; i++) {
      if (!await big.commands.run(`head -c ${size} /dev/urandom > part-${size}-${i}`).then(() => true, () => false)) break
    }
  }
}
await attempt('upload', () => big.files.write('big', endless()))
await fill()
await attempt('write', () => kept.files.write('kept', randomBytes(1 << 20).buffer))
// What is left of the disk may do for a record, or not.
await attempt('create', () => Sandbox.create().catch((e) => {
  if (!/^507: .*disk of the data directory is full/.test(e.message)) throw e
}))
await attempt('read', async () => {
  if (await kept.files.read('kept') !== 'content') throw new Error('the file has changed')
})
await attempt('list', () => Sandbox.list().nextItems())
await attempt('kill', () => big.kill())
await attempt('write again', () => kept.files.write('more', randomBytes(1 << 20).buffer))
await attempt('create again', () => Sandbox.create())
await attempt('read again', async () => {
  if (await kept.files.read('kept') !== 'content') throw new Error('the file has changed')
})
process.exit(0)
