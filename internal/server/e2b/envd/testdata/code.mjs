// Drives the stock code interpreter of E2B; see sdk.mjs.
import assert from 'node:assert/strict'
import { Sandbox } from '@e2b/code-interpreter'

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
const sbx = await Sandbox.create({ requestTimeoutMs: 170_000 })
const wait = { requestTimeoutMs: 170_000, timeoutMs: 170_000 }

await check('the contexts of a new sandbox', async () => {
  const [first] = await sbx.listCodeContexts({ requestTimeoutMs: 170_000 })
  assert.equal(first.language, 'python')
})
await check('runCode keeps state', async () => {
  await sbx.runCode('x = 20', wait)
  const r = await sbx.runCode('x + 1', wait)
  assert.equal(r.text, '21')
  assert.equal(r.results[0].isMainResult, true)
  assert.equal(r.executionCount, 2)
})
await check('streams', async () => {
  const seen = []
  const r = await sbx.runCode('import sys, time\nprint("one", flush=True)\ntime.sleep(1)\nprint("two", file=sys.stderr)', {
    ...wait, onStdout: (m) => seen.push([m.line, Date.now()]), onStderr: (m) => seen.push([m.line, Date.now()]),
  })
  assert.deepEqual(r.logs.stdout, ['one\n'])
  assert.deepEqual(r.logs.stderr, ['two\n'])
  assert.ok(seen[1][1] - seen[0][1] > 500, 'output arrives while the code runs')
})
await check('errors', async () => {
  let called
  const r = await sbx.runCode('print("before")\n1/0', { ...wait, onError: (e) => { called = e } })
  assert.equal(r.error.name, 'ZeroDivisionError')
  assert.ok(r.error.traceback.includes('1/0'))
  assert.equal(called.value, 'division by zero')
})
await check('rich results', async () => {
  const r = await sbx.runCode(`from IPython.display import display, HTML, Markdown, Latex, JSON, SVG, Javascript
display(HTML("<b>x</b>")); display(Markdown("# x")); display(Latex("$x$")); display(JSON({"a": 1})); display(SVG("<svg xmlns='http://www.w3.org/2000/svg'/>")); display(Javascript("1 + 1"))
display({"image/png": b"\\x89PNG", "text/plain": "pic", "application/x-own": "own"}, raw=True)
display({"e2b/chart": {"type": "bar", "title": "t"}, "text/plain": "fig"}, raw=True)
'a string'`, wait)
  const [html, md, latex, json, svg, js, png, chart, main] = r.results
  assert.equal(html.html, '<b>x</b>')
  assert.equal(md.markdown, '# x')
  assert.equal(latex.latex, '$x$')
  assert.deepEqual(json.json, { a: 1 })
  assert.ok(svg.svg.startsWith('<svg'))
  assert.ok(js.javascript.includes('1 + 1'))
  assert.equal(png.png, Buffer.from('\x89PNG', 'latin1').toString('base64'))
  assert.equal(png.text, 'pic')
  assert.equal(chart.chart.type, 'bar')
  assert.equal(main.text, 'a string')
  assert.equal(main.isMainResult, true)
})
await check('charts', async () => {
  const has = await sbx.runCode('import importlib.util; importlib.util.find_spec("matplotlib") is not None', wait)
  if (has.text !== 'True') return console.log('skipped charts: python3-matplotlib is not installed')
  const r = await sbx.runCode(`import matplotlib.pyplot as plt
plt.plot(["a", "b"], [1, 2], label="one"); plt.title("lines"); plt.xlabel("time (s)"); plt.show()
plt.bar(["x", "y"], [3, 4]); plt.show()
plt.barh(["x", "y"], [3, 4]); plt.show()
plt.scatter([1, 2], [3, 4]); plt.show()
plt.pie([1, 3], labels=["p", "q"]); plt.show()
plt.boxplot([[1, 2, 3, 4, 100]]); plt.show()
plt.boxplot([[1, 2, 3, 4, 100], [5, 6, 7]], patch_artist=True); plt.show()
plt.boxplot([[1, 2, 3, 4, 100]], vert=False); plt.xlabel("v"); plt.show()
fig, ax = plt.subplots(1, 2); ax[0].plot([1]); ax[1].bar([1], [2]); fig.suptitle("both"); plt.show()`, wait)
  assert.equal(r.error, undefined)
  const [line, bar, barh, scatter, pie, box, filled, across, both] = r.results.map((x) => x.chart)
  assert.ok(r.results[0].png.length > 1000)
  assert.equal(line.type, 'line')
  assert.equal(line.title, 'lines')
  assert.equal(line.x_unit, 's')
  assert.equal(line.x_scale, 'categorical')
  assert.deepEqual(line.elements, [{ label: 'one', points: [['a', 1], ['b', 2]] }])
  assert.deepEqual(bar.elements.map((e) => [e.label, e.value]), [['x', 3], ['y', 4]])
  assert.deepEqual(barh.elements.map((e) => [e.label, e.value]), [['x', 3], ['y', 4]])
  assert.deepEqual(scatter.elements[0].points, [[1, 3], [2, 4]])
  assert.deepEqual(pie.elements.map((e) => [e.label, e.angle]), [['p', 90], ['q', 270]])
  assert.deepEqual([bar.title, bar.x_label, both.elements[0].elements[0].label], [null, null, 'Line 0'])
  assert.equal(box.type, 'box_and_whisker')
  assert.deepEqual(box.elements.map((e) => [e.min, e.first_quartile, e.median, e.third_quartile, e.max, e.outliers]), [[1, 2, 3, 4, 4, [100]]])
  assert.equal(filled.type, 'box_and_whisker')
  assert.deepEqual(filled.elements.map((e) => [e.min, e.first_quartile, e.median, e.third_quartile, e.max, e.outliers]), [[1, 2, 3, 4, 4, [100]], [5, 5.5, 6, 6.5, 7, []]])
  assert.deepEqual(across.elements, box.elements)
  assert.equal(across.y_label, 'v')
  assert.equal(both.type, 'superchart')
  assert.equal(both.title, 'both')
  assert.deepEqual(both.elements.map((e) => e.type), ['line', 'bar'])
})
await check('images', async () => {
  const has = await sbx.runCode('import importlib.util; importlib.util.find_spec("PIL") is not None', wait)
  if (has.text !== 'True') return console.log('skipped images: python3-pil is not installed')
  const r = await sbx.runCode(`from PIL import Image
i = Image.new("RGB", (4, 4)); i.show(); i.save("saved.png"); i.save(__import__("io").BytesIO(), "png"); print("done")`, wait)
  assert.equal(r.error, undefined)
  assert.deepEqual(r.results.map((x) => x.png?.slice(0, 8)), ['iVBORw0K', 'iVBORw0K'])
  assert.deepEqual(r.logs.stdout, ['done\n'])
})
await check('javascript as a result', async () => {
  const r = await sbx.runCode('from IPython.display import Javascript; Javascript("abcd")', wait)
  assert.equal(r.results[0].javascript, 'abcd')
})
await check('environment', async () => {
  assert.equal((await sbx.runCode('import os; os.environ["MINE"]', { ...wait, envs: { MINE: "it's" } })).text, '"it\'s"')
  assert.equal((await sbx.runCode('os.environ.get("MINE", "gone"), os.environ["GIVEN"]', wait)).text, "('gone', 'yes')")
})
await check('contexts', async () => {
  await sbx.files.makeDir('/home/user/work')
  const c = await sbx.createCodeContext({ cwd: '/home/user/work', requestTimeoutMs: 170_000 })
  assert.equal(c.language, 'python')
  assert.equal(c.cwd, '/home/user/work')
  assert.equal((await sbx.runCode('import os; os.getcwd()', { ...wait, context: c })).text, '/home/user/work')
  assert.equal((await sbx.runCode('"x" in dir()', { ...wait, context: c })).text, 'False')
  await sbx.runCode('y = 1', { ...wait, context: c })
  await sbx.restartCodeContext(c)
  assert.equal((await sbx.runCode('"y" in dir()', { ...wait, context: c })).text, 'False')
  assert.equal((await sbx.listCodeContexts()).length, 2)
  await sbx.removeCodeContext(c)
  assert.equal((await sbx.listCodeContexts()).length, 1)
  await assert.rejects(sbx.runCode('1', { ...wait, context: c }), /not found/)
})
process.exit(failed ? 1 : 0)
