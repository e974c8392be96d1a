// Runs bash by the stock code interpreter of E2B, without a Jupyter kernel; see sdk.mjs.
import assert from 'node:assert/strict'
import { Sandbox } from '@e2b/code-interpreter'

const sbx = await Sandbox.create()
const bash = (code, opts = {}) => sbx.runCode(code, { language: 'bash', ...opts })
const out = (r) => r.logs.stdout.join('')

let r = await bash('x=20; y=(a "b c"); f() { echo "f $1"; }; export E=1; cd /tmp; echo one; echo two >&2')
assert.deepEqual([out(r), r.logs.stderr.join(''), r.error], ['one\n', 'two\n', undefined])
r = await bash('echo $((x + 22)) "${y[1]}" $PWD; f here; printenv E; read -r line; echo "read: $line"')
assert.equal(out(r), '42 b c /tmp\nf here\n1\nread: \n')
assert.equal(r.executionCount, 2)

r = await bash('z=kept\nexit 3')
assert.deepEqual([r.error.name, r.error.value], ['ExitError', '3'])
r = await bash('echo $z; nosuchcommand')
assert.equal(out(r), 'kept\n')
assert.match(r.logs.stderr.join(''), /^bash: line 1: nosuchcommand: command not found/)
assert.equal(r.error.value, '127')

r = await bash('echo $ONCE', { envs: { ONCE: "a 'b'" } })
assert.equal(out(r), "a 'b'\n")
assert.equal(out(await bash('echo "<$ONCE>"')), '<>\n')

assert.equal(out(await bash('for i in $(seq 300); do echo out; echo err >&2; done')).length, 1200)

const large = 'x'.repeat(1 << 20)
assert.equal(out(await bash(`v=${large}; echo \${#v}`)), `${large.length}\n`)
const seen = []
await bash('echo one; sleep 1; echo two', { onStdout: (m) => seen.push(Date.now()) })
assert.ok(seen[1] - seen[0] > 500, 'output arrives while the code runs')
assert.equal(out(await bash('printf "\\xe2\\x82"; sleep 0.3; printf "\\xac\\n"')), '€\n')

const c = await sbx.createCodeContext({ language: 'bash', cwd: '/home/user' })
assert.equal(out(await sbx.runCode('echo "<$x>"; pwd; x=own', { context: c })), '<>\n/home/user\n')
assert.ok((await sbx.listCodeContexts()).some((k) => k.id === c.id && k.language === 'bash'))
assert.equal(out(await sbx.runCode('echo "$x"', { context: c })), 'own\n')
await sbx.restartCodeContext(c)
assert.equal(out(await sbx.runCode('echo "<$x>"', { context: c })), '<>\n')
await sbx.removeCodeContext(c)
assert.ok(!(await sbx.listCodeContexts()).some((k) => k.id === c.id))

// The SDK shows the text of an error of the code, and of a 404.
let shown
r = await sbx.runCode('1', { language: 'java', onError: (e) => { shown = e } })
assert.match(r.error.value, /java has no kernel in this sandbox; install/)
assert.match(r.error.traceback, /java has no kernel in this sandbox; install/)
assert.equal(shown.name, 'ExecutionError')
assert.match((await sbx.runCode('1', { language: 'cobol' })).error.value, /language "cobol": invalid argument: it is one of python,/)
await assert.rejects(sbx.createCodeContext({ language: 'java' }), /java has no kernel in this sandbox; install/)
await assert.rejects(sbx.createCodeContext({ language: 'cobol' }), /it is one of python/)
await assert.rejects(sbx.createCodeContext({ language: 'bash', cwd: '/etc' }), /code runs in directories below/)
console.log('ok bash')
process.exit(0)
