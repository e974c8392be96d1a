// Each view of the page in Chromium, against a real server with real sandboxes.

import { readFileSync } from "node:fs";
import { api, ask, axeSource, check, clean, end, equal, must, origin, run, runAll, signedIn, token, until, watch, write, browser } from "./lib.mjs";

const rows = (page) => page.locator("table tbody tr:not(.spacer)");
const open = (page, ws, tab = "files") => page.goto(`${origin}/#/w/${ws}/${tab}`);
const toastOf = (page, text) => page.locator(".toast", { hasText: text });

async function fresh(name, spec = {}) {
  await api("DELETE", `/v1/workspaces/${name}`).catch(() => {});
  return api("POST", "/v1/workspaces", { name, ...spec });
}

check("sign-in", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  watch(page);
  await page.goto(origin + "/");
  // The command that the view shows makes a key of this server.
  const command = (await page.locator(".snippet pre").innerText()).trim();
  const made = JSON.parse(await ask(`sh ${command}`));
  const key = /e2b_\w+/.exec(made)?.[0];
  must(key, `${command}: ${made}`);
  equal((await api("GET", "/v1/me", undefined, key)).operator, true, "the key of the command is the operator's");
  await page.getByLabel("API key or server token").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("This key is not known here").waitFor();
  await page.getByLabel("API key or server token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Workspaces", exact: true }).waitFor();
  const cookie = (await context.cookies()).find((c) => c.name === "__Host-croft");
  must(cookie?.httpOnly && cookie.secure && cookie.sameSite === "Strict", `cookie ${JSON.stringify(cookie)}`);
  must(!(await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]))).includes(token), "the key is readable in the page");
  await page.reload();
  await page.getByRole("heading", { name: "Workspaces", exact: true }).waitFor();
  await page.getByRole("button", { name: /^Sign out/ }).click();
  await page.getByRole("heading", { name: "Sign in to Croft" }).waitFor();
  clean(page);
});

check("workspaces", async () => {
  const a = await signedIn();
  const b = await signedIn();
  await a.getByRole("button", { name: "Open workspace" }).click();
  await a.getByLabel("Name", { exact: false }).first().fill("from-page");
  await a.getByRole("button", { name: "Open", exact: true }).click();
  await a.getByRole("heading", { name: "from-page" }).waitFor();
  // The other browser sees it in two seconds, without a reload.
  await b.getByRole("link", { name: "from-page" }).waitFor({ timeout: 2000 });
  await a.goto(origin + "/#/workspaces");
  const row = (p, name) => rows(p).filter({ has: p.getByRole("link", { name, exact: true }) });
  await row(a, "from-page").getByRole("button", { name: "Pause from-page" }).click();
  await row(b, "from-page").getByText("paused").waitFor({ timeout: 2000 });
  await row(b, "from-page").getByRole("button", { name: "Resume from-page" }).click();
  await row(a, "from-page").getByText("ready").waitFor({ timeout: 2000 });
  const before = (await api("GET", "/v1/workspaces")).workspaces.length;
  await row(a, "from-page").getByRole("button", { name: "Fork from-page" }).click();
  equal(await a.getByRole("dialog").getByLabel("Name of the fork").inputValue(), "from-page-fork", "the name that is proposed");
  // A name that is taken is refused in the dialog, where it can be changed.
  await a.getByRole("dialog").getByLabel("Name of the fork").fill("from-page");
  await a.getByRole("dialog").getByRole("button", { name: "Fork" }).click();
  await a.getByRole("dialog").getByRole("alert").getByText("The workspace was not forked").waitFor();
  await a.getByRole("dialog").getByLabel("Name of the fork").fill("second");
  await a.getByRole("dialog").getByRole("button", { name: "Fork" }).click();
  await a.getByRole("heading", { name: "second" }).waitFor();
  equal((await api("GET", "/v1/workspaces")).workspaces.length, before + 1, "workspaces after a fork");
  await a.goto(origin + "/#/workspaces");
  await row(a, "second").waitFor();
  const heads = (await a.locator("thead th").allInnerTexts()).map((t) => t.replace(/[↑↓]/g, "").trim());
  for (const head of ["State", "Provider", "Started from", "Owner", "CPU", "Memory", "Disk", "Age"]) must(heads.includes(head), `the list has no column ${head}: ${heads}`);
  // Filter, and pause, resume, fork and destroy several at once.
  await fresh("batch-1", { session: { user: "ada" } });
  await fresh("batch-2", { session: { user: "grace" } });
  await a.getByLabel(/Filter by name/).fill("grace");
  await until("one row of the owner", async () => (await rows(a).count()) === 1);
  await a.getByLabel(/Filter by name/).fill("batch-");
  await until("two rows", async () => (await rows(a).count()) === 2);
  const several = (verb) => a.getByRole("status").getByRole("button", { name: verb }).click();
  const states = async () => (await api("GET", "/v1/workspaces")).workspaces.filter((w) => w.name?.startsWith("batch-")).map((w) => w.state);
  await a.getByLabel("Select all").check();
  await several("Pause");
  await until("both are paused", async () => (await states()).every((x) => x === "paused"));
  await a.getByLabel("State", { exact: true }).selectOption("paused");
  await until("two rows are paused", async () => (await rows(a).count()) === 2);
  await a.getByLabel("State", { exact: true }).selectOption("");
  await a.getByLabel("Select all").check();
  await several("Resume");
  await until("both are ready", async () => (await states()).every((x) => x === "ready"));
  const count = (await api("GET", "/v1/workspaces")).workspaces.length;
  await a.getByLabel("Select all").check();
  await several("Fork");
  await until("both are forked", async () => (await api("GET", "/v1/workspaces")).workspaces.length === count + 2);
  await a.getByLabel("Select all").check();
  await several("Destroy");
  await a.getByRole("dialog").getByRole("button", { name: "Destroy" }).click();
  await a.getByText("Nothing matches the filter").waitFor();
  await b.getByRole("link", { name: "batch-1" }).waitFor({ state: "detached", timeout: 2000 });
  for (const w of (await api("GET", "/v1/workspaces")).workspaces) await api("DELETE", `/v1/workspaces/${w.id}`);
  await a.getByLabel(/Filter by name/).fill("");
  await a.getByText("No workspaces yet").waitFor();
  clean(a);
  clean(b);
});

check("errors in dialogs", async () => {
  const page = await signedIn();
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Open workspace" }).click();
  await dialog.getByLabel("Allowed hosts").fill("https://pypi.org/simple");
  await dialog.getByRole("button", { name: "Open", exact: true }).click();
  await dialog.getByRole("alert").getByText("a host is a name such as pypi.org").waitFor();
  const visible = await dialog.getByRole("alert").evaluate((el) => {
    const r = el.getBoundingClientRect();
    return el.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2));
  });
  must(visible, "the error lies below something else");
  equal((await page.locator(".toast").count()), 0, "toasts beside the error of the dialog");
  equal((await api("GET", "/v1/workspaces")).workspaces.filter((w) => JSON.stringify(w.policy).includes("simple")), [], "workspaces with a host that is none");
  const bad = await api("POST", "/v1/workspaces", { policy: { network: { allow: [{ host: "a b" }] } } }).catch((e) => e.status);
  equal(bad, 400, "status of a host that is none");
  // A name that is too long is refused with the rule, and is kept.
  await dialog.getByLabel("Allowed hosts").fill("");
  await dialog.getByRole("textbox", { name: /^Name/ }).fill("a".repeat(300));
  await dialog.getByRole("button", { name: "Open", exact: true }).click();
  const rule = await dialog.getByRole("textbox", { name: /^Name/ }).evaluate((el) => [el.validity.valid, el.title, el.value.length]);
  must(!rule[0] && rule[1].includes("63") && rule[2] === 300, `a name of 300 letters: ${JSON.stringify(rule)}`);
  clean(page);
});

check("paused, destroyed, server away", async () => {
  const w = await fresh("halted");
  await write("halted", "here.txt", "x");
  const page = await signedIn();
  await open(page, w.id);
  await page.getByRole("treeitem", { name: /here\.txt/ }).waitFor();
  const other = await page.context().newPage();
  watch(other);
  await open(other, w.id);
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  for (const p of [page, other]) await p.getByText("This workspace is paused").waitFor();
  must((await other.getByText("E_WRONG_STATE").count()) === 0, "a paused workspace shows an error");
  await other.getByRole("region", { name: "Files" }).getByRole("button", { name: "Resume" }).click();
  await other.getByRole("treeitem", { name: /here\.txt/ }).waitFor();
  // What the server does not answer is said once.
  await ask("stop");
  await page.getByRole("alert").getByText("The server does not answer").waitFor();
  await page.waitForTimeout(3000);
  const said = await page.evaluate(() => document.body.innerText.split("The server does not answer").length - 1);
  await ask("start");
  equal(said, 1, "how often the page says that the server does not answer");
  await page.getByRole("alert").waitFor({ state: "detached" });
  // Destroyed in one tab, the other says so.
  await other.getByRole("button", { name: "Destroy", exact: true }).click();
  await other.getByRole("dialog").getByRole("button", { name: "Destroy" }).click();
  await page.getByText("halted was destroyed").waitFor();
  must((await page.getByText("No files yet").count()) === 0, "a workspace that was destroyed shows its files");
  await page.getByRole("link", { name: "To the workspaces" }).click();
  await page.getByRole("heading", { name: "Workspaces", exact: true }).waitFor();
  clean(page);
  clean(other);
});

const inEditor = (page) => page.locator(".editor .cm-content");

/** Types at the end of the file that is open, saves it, and compares what is stored. */
async function saves(page, name, text, want) {
  await inEditor(page).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type(text);
  await page.keyboard.press("Control+s");
  await until(`${name} is saved`, async () => (await api("GET", `/v1/workspaces/files/files?path=${name}`)).endsWith(text));
  equal(await api("GET", `/v1/workspaces/files/files?path=${name}`), want, `${name} as it is stored`);
}

check("files", async () => {
  const w = await fresh("files");
  await write("files", "src/main.go", "package main\n\nfunc main() {}\n");
  await write("files", "notes.txt", "one\n");
  const page = await signedIn();
  await open(page, w.id);
  await page.getByRole("treeitem", { name: "src" }).click();
  await page.getByRole("treeitem", { name: /main\.go/ }).click();
  await inEditor(page).getByText("package", { exact: false }).first().waitFor();
  must((await page.locator(".editor .cm-line span").count()) > 1, "no syntax colours");
  // Edit and save.
  await page.getByRole("treeitem", { name: /notes\.txt/ }).click();
  await until("the file is open", async () => (await inEditor(page).innerText()).includes("one"));
  await inEditor(page).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("two");
  await page.keyboard.press("Control+s");
  await toastOf(page, "Saved notes.txt").waitFor();
  equal(await api("GET", "/v1/workspaces/files/files?path=notes.txt"), "one\ntwo", "the saved file");
  // A change from elsewhere appears by itself.
  await write("files", "notes.txt", "one\ntwo\nthree\n");
  await until("the change appears", async () => (await inEditor(page).innerText()).includes("three"));
  // A conflict loses nothing.
  await inEditor(page).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("mine");
  await write("files", "notes.txt", "theirs\n");
  await page.keyboard.press("Control+s");
  await page.getByText("This file changed in the workspace while you edited it").waitFor();
  equal(await api("GET", "/v1/workspaces/files/files?path=notes.txt"), "theirs\n", "the file after a conflict");
  must((await inEditor(page).innerText()).includes("mine"), "the text of the editor is lost");
  await page.getByRole("button", { name: "Overwrite with mine" }).click();
  await until("it is overwritten", async () => (await api("GET", "/v1/workspaces/files/files?path=notes.txt")).includes("mine"));
  // Text that was not saved outlives the view.
  await inEditor(page).click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("draft");
  await page.getByRole("treeitem", { name: /main\.go/ }).click();
  await until("another file is open", async () => (await inEditor(page).innerText()).includes("package"));
  await page.getByRole("treeitem", { name: /notes\.txt/ }).click();
  await until("the draft is there", async () => (await inEditor(page).innerText()).includes("draft"));
  await inEditor(page).click();
  await page.keyboard.press("Control+s");
  await until("the draft is saved", async () => (await api("GET", "/v1/workspaces/files/files?path=notes.txt")).includes("draft"));
  // What ends lines is kept: also CR alone, and what another program changed meanwhile.
  await write("files", "ends.txt", "a\rb\nc");
  await page.getByRole("treeitem", { name: /ends\.txt/ }).click();
  await until("the file with CR is open", async () => (await inEditor(page).innerText()).includes("c"));
  await saves(page, "ends.txt", "d", "a\rb\ncd");
  await write("files", "ends.txt", "new\r\nends");
  await until("the new ends are shown", async () => (await inEditor(page).innerText()).includes("ends"));
  await saves(page, "ends.txt", "!", "new\r\nends!");
  // A file that is shown in part is not saved, and keeps its content.
  const line = "a line of a big file\n";
  const big = line.repeat(Math.ceil((3 << 20) / line.length));
  await write("files", "big.log", big);
  await page.getByRole("treeitem", { name: /big\.log/ }).click();
  await page.getByText("Its first 256 kB are shown").waitFor();
  await until("the beginning is shown", async () => (await inEditor(page).innerText()).includes("a line of a big file"));
  equal(await page.getByRole("button", { name: "Save", exact: true }).count(), 0, "buttons that save a part");
  const saved = [];
  page.on("request", (r) => r.method() === "PUT" && saved.push(r.url()));
  await inEditor(page).click();
  await page.keyboard.press("Control+s");
  await page.keyboard.type("x");
  await page.keyboard.press("Control+s");
  await page.getByRole("treeitem", { name: /notes\.txt/ }).click();
  await until("another file is open", async () => (await inEditor(page).innerText()).includes("draft"));
  equal(saved, [], "requests that write a file that is shown in part");
  equal((await api("GET", "/v1/workspaces/files/stat?path=big.log")).size, big.length, "size of the big file");
  // A file that is small when it is opened, and big when it is saved.
  await page.getByRole("treeitem", { name: /ends\.txt/ }).click();
  await until("the small file is open", async () => (await inEditor(page).innerText()).includes("ends"));
  await write("files", "ends.txt", big);
  await page.getByText("Its first 256 kB are shown").waitFor();
  await inEditor(page).click();
  await page.keyboard.press("Control+s");
  equal((await api("GET", "/v1/workspaces/files/stat?path=ends.txt")).size, big.length, "size of the file that grew");
  equal(saved, [], "requests that write a file that grew");
  // A file made by a process appears in the tree.
  await run("files", "mkdir -p made && touch made/by-process.txt");
  await page.getByRole("treeitem", { name: "made" }).waitFor();
  // Search in names and contents.
  await page.getByLabel("Search names and contents").fill("func main");
  await page.getByRole("button", { name: /src\/main\.go:3/ }).click();
  await until("the match is open", async () => (await inEditor(page).innerText()).includes("func main"));
  await page.getByLabel("Search names and contents").fill("");
  // New file, by keyboard in the tree.
  await page.getByRole("button", { name: "New file" }).click();
  await page.getByRole("dialog").getByLabel("Path in the workspace").fill("new/deep.txt");
  await page.keyboard.press("Enter");
  await until("the file is made", async () => (await api("GET", "/v1/workspaces/files/stat?path=new/deep.txt")).type === "file");
  clean(page);
});

check("two browsers in a workspace", async () => {
  const w = await fresh("both", { policy: { network: { allow: [{ host: "first.test" }] } } });
  await write("both", "a.txt", "one\n");
  const [a, b] = [await signedIn(), await signedIn()];
  const soon = { timeout: 2000 };
  for (const p of [a, b]) {
    await p.goto(`${origin}/#/w/${w.id}/files?path=a.txt`);
    await until("the file is open", async () => (await inEditor(p).innerText()).includes("one"));
  }
  await inEditor(a).click();
  await a.keyboard.press("Control+End");
  await a.keyboard.type("typed in the first");
  await a.keyboard.press("Control+s");
  await toastOf(a, "Saved a.txt").waitFor();
  await until("the other editor has it", async () => (await inEditor(b).innerText()).includes("typed in the first"), 2000);
  await api("POST", "/v1/workspaces/both/mkdir?path=made");
  for (const p of [a, b]) await p.getByRole("treeitem", { name: "made" }).waitFor(soon);
  for (const p of [a, b]) await open(p, w.id, "snapshots");
  await b.getByText("No snapshots yet").waitFor();
  await a.getByRole("button", { name: "Take snapshot" }).click();
  await a.getByRole("dialog").getByLabel("Name").fill("shared");
  await a.getByRole("button", { name: "Take", exact: true }).click();
  await toastOf(a, "Snapshot taken").waitFor();
  await b.getByRole("button", { name: "shared", exact: true }).waitFor(soon);
  for (const p of [a, b]) await open(p, w.id, "network");
  await b.getByRole("button", { name: "Remove first.test" }).waitFor();
  await a.getByLabel("Host to allow").fill("second.test");
  await a.getByRole("button", { name: "Allow host" }).click();
  await toastOf(a, "second.test is allowed").waitFor();
  await b.getByRole("button", { name: "Remove second.test" }).waitFor(soon);
  for (const p of [a, b]) await open(p, w.id, "processes");
  await b.getByText("No processes").waitFor();
  await a.getByRole("button", { name: "Start command" }).click();
  await a.getByLabel("Script").fill("echo from the first; sleep 600");
  await a.getByRole("button", { name: "Start", exact: true }).click();
  await a.locator(".log-line", { hasText: "from the first" }).waitFor();
  await b.getByRole("button", { name: /echo from the first/ }).waitFor(soon);
  clean(a);
  clean(b);
});

check("upload", async () => {
  const w = await fresh("uploads");
  await write("uploads", "dir/kept.txt", "kept\n");
  const page = await signedIn();
  await open(page, w.id);
  await page.getByRole("treeitem", { name: "dir" }).click();
  const content = (path) => api("GET", `/v1/workspaces/uploads/files?path=${encodeURIComponent(path)}`);
  const file = (name, text) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
  const picker = page.getByLabel("Files to upload", { exact: true });
  // Into the directory that is chosen in the tree.
  await picker.setInputFiles([file("one.txt", "one\n"), file("two.bin", "x".repeat(3 << 20))]);
  await toastOf(page, "Uploaded 2 files").waitFor();
  equal([await content("dir/one.txt"), (await content("dir/two.bin")).length], ["one\n", 3 << 20], "the uploaded files");
  await page.getByRole("treeitem", { name: /one\.txt/ }).waitFor();
  // A file that exists is replaced only after a question.
  await picker.setInputFiles([file("kept.txt", "other\n"), file("one.txt", "other\n")]);
  const dialog = page.getByRole("dialog");
  await dialog.getByText("kept.txt exists already").waitFor();
  equal(await content("dir/kept.txt"), "kept\n", "the file before the answer");
  await dialog.getByRole("button", { name: "Skip" }).click();
  await dialog.getByText("one.txt exists already").waitFor();
  await dialog.getByRole("button", { name: "Replace" }).click();
  await toastOf(page, "Uploaded 1 file, left out 1").waitFor();
  equal([await content("dir/kept.txt"), await content("dir/one.txt")], ["kept\n", "other\n"], "the files after the answers");
  // Dropped on the tree: on a directory into it, elsewhere to the top.
  const data = await page.evaluateHandle(() => {
    const d = new DataTransfer();
    d.items.add(new File(["dropped\n"], "dropped.txt"));
    return d;
  });
  await page.dispatchEvent(".explorer .tree", "drop", { dataTransfer: data });
  await until("the dropped file is there", async () => (await content("dropped.txt")) === "dropped\n");
  await page.getByRole("treeitem", { name: "dir" }).dispatchEvent("drop", { dataTransfer: data });
  await until("the dropped file is in the directory", async () => (await content("dir/dropped.txt")) === "dropped\n");
  clean(page);
});

const screenText = (page) => page.evaluate(() => [...document.querySelectorAll(".xterm-rows > div")].map((d) => d.textContent).join("\n"));

check("terminal", async () => {
  const w = await fresh("term");
  const page = await signedIn();
  await open(page, w.id, "terminal");
  await page.locator(".xterm-rows").waitFor();
  await until("a prompt", async () => /[$#]/.test(await screenText(page)), 20000);
  await page.keyboard.type("echo sum=$((6*7)); printf '\\033[38;2;255;0;0mred\\033[0m\\n'\n");
  await until("the sum", async () => (await screenText(page)).includes("sum=42"));
  // It survives a reload.
  await page.reload();
  await until("the screen after a reload", async () => (await screenText(page)).includes("sum=42"), 20000);
  await page.keyboard.type("echo again=$((6*8))\n");
  await until("the same shell works", async () => (await screenText(page)).includes("again=48"));
  equal((await api("GET", "/v1/workspaces/term/sessions")).sessions.length, 1, "sessions");
  // The server is killed and restarted while the terminal is open.
  await ask("restart");
  await until("the shell works after a restart", async () => {
    await page.keyboard.type("echo back=$((6*9))\n");
    await new Promise((r) => setTimeout(r, 500));
    return (await screenText(page)).includes("back=54");
  }, 30000);
  clean(page);
});

check("processes", async () => {
  const w = await fresh("procs");
  const page = await signedIn();
  await open(page, w.id, "processes");
  await page.getByText("No processes").waitFor();
  await page.getByRole("button", { name: "Start command" }).click();
  await page.getByLabel("Script").fill("trap 'echo got usr1' USR1; for i in 1 2 3; do echo line $i; done; while :; do sleep 0.2; done");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator(".log-line", { hasText: "line 3" }).waitFor();
  await page.getByLabel("Signal").selectOption("SIGUSR1");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator(".log-line", { hasText: "got usr1" }).waitFor();
  await page.getByRole("button", { name: "Kill" }).click();
  await page.locator("td", { hasText: /signal SIG/ }).waitFor();
  await api("POST", `/v1/workspaces/${w.id}/sessions`, { script: "exit 7", detached: true });
  await page.locator("td", { hasText: "exit status 7" }).waitFor();
  await api("POST", `/v1/workspaces/${w.id}/sessions`, { script: "sleep 600", detached: true, limits: { wall: { max: 1e9 } } });
  await page.locator("td", { hasText: "killed: the time-out passed" }).waitFor();
  clean(page);
});

check("snapshots", async () => {
  const w = await fresh("snaps");
  await write("snaps", "a.txt", "one\n");
  const page = await signedIn();
  await open(page, w.id, "snapshots");
  await page.getByRole("button", { name: "Take snapshot" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("first");
  await page.getByRole("button", { name: "Take", exact: true }).click();
  const item = page.getByRole("listitem").filter({ has: page.getByRole("button", { name: "first", exact: true }) });
  await item.waitFor();
  await write("snaps", "a.txt", "two\n");
  await item.getByRole("button", { name: "Diff" }).click();
  await page.locator(".diff-line.add", { hasText: "two" }).waitFor();
  await item.getByRole("button", { name: "Restore" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Restore" }).click();
  await until("the file is restored", async () => (await api("GET", "/v1/workspaces/snaps/files?path=a.txt")) === "one\n");
  await page.getByRole("listitem").filter({ hasText: "before a restore" }).waitFor();
  await item.getByRole("button", { name: "Fork" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Fork" }).click();
  await page.getByRole("heading", { name: "snaps-fork" }).waitFor();
  await until("the fork is open", () => page.evaluate((id) => location.hash.startsWith("#/w/") && !location.hash.includes(id), w.id));
  clean(page);
});

check("review", async () => {
  const text = Array.from({ length: 40 }, (_, i) => `line ${i + 1}`).join("\n") + "\n";
  const w = await fresh("review");
  await write("review", "a.txt", text);
  await write("review", "gone.txt", "bye\n");
  await write("review", ".gitignore", "kept/\n");
  await api("POST", "/v1/workspaces/review/snapshots", { name: "base" });
  await write("review", "a.txt", text.replace("line 2\n", "line two\n").replace("line 38\n", "line thirty-eight\n"));
  await write("review", "made/b.txt", "new\n");
  await api("DELETE", "/v1/workspaces/review/files?path=gone.txt");
  const page = await signedIn();
  await open(page, w.id, "review");
  await page.getByLabel("Changes since").selectOption({ label: await page.locator("option", { hasText: "snapshot base" }).first().innerText() });
  await page.locator(".diff-line.add", { hasText: "line two" }).waitFor();
  await page.getByRole("checkbox", { name: "accept hunk 2 of a.txt" }).uncheck();
  await page.getByRole("checkbox", { name: "Accept made/b.txt", exact: true }).uncheck();
  await page.getByText("2 of 3 accepted, 1 in part").waitFor();
  equal(await page.getByRole("checkbox", { name: "Accept a.txt", exact: true }).evaluate((el) => [el.checked, el.indeterminate]), [true, true], "the box of a file with a rejected hunk");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Patch" }).click()]);
  const patch = readFileSync(await download.path(), "utf8");
  must(patch.includes("+line two") && !patch.includes("thirty-eight") && !patch.includes("made") && patch.includes("gone.txt"), patch);
  // Apply what is chosen to a directory of the host.
  if (process.env.CROFT_HOST_ROOT) {
    await page.getByRole("button", { name: /Apply to host/ }).click();
    await page.getByRole("dialog").getByLabel("Directory").fill(process.env.CROFT_HOST_ROOT + "/project");
    await page.getByRole("button", { name: "Apply", exact: true }).click();
    await page.getByText("Changed 2 files.").waitFor();
    equal(await ask("read project/a.txt"), JSON.stringify(text.replace("line 2\n", "line two\n")), "the file of the host");
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
  }
  // Revert what is rejected: the hunk and the new file, with its directory.
  await page.getByRole("button", { name: "Revert rejected" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revert" }).click();
  await toastOf(page, "Reverted 2 files").waitFor();
  equal(await api("GET", "/v1/workspaces/review/files?path=a.txt"), text.replace("line 2\n", "line two\n"), "the file with an accepted hunk");
  equal(await api("GET", "/v1/workspaces/review/stat?path=made").catch((e) => e.status), 404, "the directory of the rejected file");
  await page.getByRole("checkbox", { name: "Accept gone.txt", exact: true }).uncheck();
  await page.getByRole("button", { name: "Revert rejected" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revert" }).click();
  await toastOf(page, "Reverted gone.txt").waitFor();
  equal(await api("GET", "/v1/workspaces/review/files?path=gone.txt"), "bye\n", "the deleted file");
  // A directory with files that the review does not show stays.
  await write("review", "more/c.txt", "new\n");
  await write("review", "more/kept/ignored.txt", "not shown\n");
  await page.getByRole("button", { name: "Compare again" }).click();
  await page.getByRole("checkbox", { name: "Accept more/c.txt", exact: true }).uncheck();
  await page.getByRole("button", { name: "Revert rejected" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revert" }).click();
  await toastOf(page, "Reverted more/c.txt").waitFor();
  equal(await api("GET", "/v1/workspaces/review/stat?path=more/c.txt").catch((e) => e.status), 404, "the rejected file");
  equal(await api("GET", "/v1/workspaces/review/files?path=more/kept/ignored.txt"), "not shown\n", "a file that the review does not show");
  clean(page);
});

check("review since the template", async () => {
  const seed = await fresh("review-seed");
  await write("review-seed", "src/a.txt", "one\ntwo\nthree\n");
  const snap = await api("POST", "/v1/workspaces/review-seed/snapshots", {});
  await api("DELETE", "/v1/templates/review-app").catch(() => {});
  await api("POST", "/v1/templates", { name: "review-app", snapshot: snap.id });
  await api("DELETE", `/v1/workspaces/${seed.id}`);
  const w = await fresh("review-of-template", { from: { template: "review-app" } });
  const page = await signedIn();
  await open(page, w.id, "review");
  await page.getByText("Nothing has changed").waitFor();
  equal(await page.getByLabel("Changes since").locator("option:checked").innerText(), "the template review-app", "what the review begins with");
  await write("review-of-template", "src/a.txt", "one\ntwo and a half\nthree\n");
  await run("review-of-template", "printf 'x\\n' > b.sh && chmod 755 b.sh && mv src moved && mkdir -p src && mv moved/a.txt src/a.txt && rmdir moved");
  await page.getByRole("button", { name: "Compare again" }).click();
  // What changed within a line is marked.
  equal(await page.locator(".diff-line.add b").first().innerText(), " and a half", "the marked part of the line");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Patch" }).click()]);
  const patch = await download.path();
  // git takes the patch, and makes the same files of it.
  const dir = `${process.env.CROFT_HOST_ROOT}/applied`;
  const out = JSON.parse(await ask(`sh mkdir -p ${dir}/src && cd ${dir} && git init -q . && printf 'one\ntwo\nthree\n' > src/a.txt && git apply ${patch} && cat src/a.txt b.sh && stat -c %a b.sh`));
  equal(out, "one\ntwo and a half\nthree\nx\n755\n", "the files that git makes of the patch");
  clean(page);
});

check("network", async () => {
  const w = await fresh("net", { policy: { network: { allow: [{ host: "allowed.test" }] } } });
  await run("net", "curl -s -m 5 http://refused.test/ >/dev/null; true");
  const page = await signedIn();
  await open(page, w.id, "network");
  const row = rows(page).filter({ hasText: "refused.test" }).first();
  await row.getByText("refused", { exact: true }).waitFor();
  await row.getByRole("button", { name: "Allow refused.test" }).click();
  await toastOf(page, "refused.test is allowed").waitFor();
  equal((await api("GET", "/v1/workspaces/net")).policy.network.allow.map((r) => r.host), ["allowed.test", "refused.test"], "allowed hosts");
  await row.getByText("allowed now").waitFor();
  await page.getByRole("button", { name: "Remove refused.test" }).click();
  await until("it is removed", async () => (await api("GET", "/v1/workspaces/net")).policy.network.allow.length === 1);
  // A host can be allowed before anything asked for it.
  await page.getByLabel("Host to allow").fill("https://added.test");
  await page.getByRole("button", { name: "Allow host" }).click();
  await toastOf(page, "a host is a name").waitFor();
  await page.getByLabel("Host to allow").fill("added.test:8443");
  await page.getByRole("button", { name: "Allow host" }).click();
  await toastOf(page, "added.test is allowed").waitFor();
  equal((await api("GET", "/v1/workspaces/net")).policy.network.allow, [{ host: "allowed.test" }, { host: "added.test", ports: [8443] }], "allowed hosts");
  clean(page);
});

check("events, usage, connect", async () => {
  const w = await fresh("watched");
  await run("watched", "head -c 3000000 /dev/zero > big; (while :; do :; done) & sleep 3; kill $!");
  const page = await signedIn();
  await open(page, w.id, "events");
  await page.locator(".event", { hasText: "lifecycle.workspace.state" }).first().waitFor();
  await write("watched", "seen.txt", "x");
  const row = page.locator(".event", { hasText: "seen.txt" }).first();
  await row.waitFor();
  await row.click();
  await page.getByRole("region", { name: "Event", exact: true }).getByText("seen.txt").waitFor();
  for (let i = 0; i < 5; i++) await write("watched", "again.txt", "x");
  await page.locator(".event", { hasText: "again.txt" }).filter({ hasText: /\d times/ }).first().waitFor();
  await open(page, w.id, "usage");
  await page.getByRole("img", { name: /^Memory: \d/ }).waitFor();
  await page.getByRole("img", { name: /^Disk: [1-9]/ }).waitFor();
  await page.getByRole("row", { name: /Isolation/ }).waitFor();
  for (const kind of ["local", "memory"]) {
    const o = await fresh(`watched-${kind}`, { kind });
    await write(o.id, "big", "x".repeat(3 << 20));
    await open(page, o.id, "usage");
    await page.getByRole("img", { name: /^Disk: [1-9]/ }).waitFor();
  }
  await page.goto(origin + "/#/workspaces");
  await rows(page).filter({ hasText: "watched-memory" }).getByTitle("The provider memory does not measure memory use").waitFor();
  await open(page, w.id, "connect");
  for (const text of ["This workspace was created in another way", `${origin}/mcp?workspace=watched`, "croft ws shell watched"]) await page.getByText(text).first().waitFor();
  // The snippets work when they are pasted, with a key.
  const snippet = async (name) => (await page.getByLabel(name, { exact: true }).innerText()).replaceAll("YOUR_KEY", token);
  const cli = (await snippet("Command line")).replace(/^croft ws shell.*$/m, "").replace("ls -la", "echo from-$((40+2))");
  must(JSON.parse(await ask(`sh ${cli}`)).includes("from-"), "the command line of the page does not reach the workspace");
  const http = JSON.parse(await ask(`sh CROFT_TOKEN=${token}; ${(await snippet("HTTP")).split("\n")[0].replace("curl", "curl -sS")}`));
  equal(JSON.parse(http).id, w.id, "what curl gets");
  const { url: address, headers } = JSON.parse(await snippet("MCP, for agents")).mcpServers.croft;
  const mcp = await fetch(address, { method: "POST", headers: { ...headers, "Content-Type": "application/json", Accept: "application/json, text/event-stream" }, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } } }) });
  must(mcp.ok && (await mcp.text()).includes("serverInfo"), `MCP: ${mcp.status}`);
  const made = await fetch(`${origin}/sandboxes`, { method: "POST", headers: { "X-API-Key": token, "Content-Type": "application/json" }, body: JSON.stringify({ templateID: "base", timeout: 60 }) });
  must(made.status === 201, `create a sandbox: ${made.status} ${await made.clone().text()}`);
  const { sandboxID } = await made.json();
  await run(sandboxID, "touch seen-by-the-sdk");
  await open(page, sandboxID, "connect");
  const printed = JSON.parse(await ask(`e2b ${JSON.stringify(await snippet("E2B SDK, TypeScript"))}`));
  must(printed.includes("seen-by-the-sdk"), `the snippet for E2B's SDK prints ${printed}`);
  must((await snippet("E2B SDK, Python")).includes(`Sandbox.connect("${sandboxID}")`), "the snippet for Python");
  await api("DELETE", `/v1/workspaces/${sandboxID}`);
  clean(page);
});

check("templates and artifacts", async () => {
  const w = await fresh("maker");
  await write("maker", "app/index.js", "console.log(1)\n");
  const snap = await api("POST", "/v1/workspaces/maker/snapshots", { name: "for-template" });
  await api("DELETE", "/v1/templates/page-app").catch(() => {});
  await api("POST", "/v1/templates", { name: "page-app", snapshot: snap.id });
  const base = `/v1/workspaces/${w.id}/artifacts/content`;
  await api("PUT", `${base}?name=report.txt&mime=text/plain`, "the report\n");
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await api("PUT", `${base}?name=dot.png&mime=image/png`, new Uint8Array(png));
  await api("PUT", `${base}?name=evil.html&mime=text/html`, "<script>alert(1)</script><img src=x onerror=alert(2)>");
  const page = await signedIn();
  await page.goto(origin + "/#/templates");
  await page.getByRole("link", { name: "page-app" }).click();
  await page.getByRole("region", { name: "Template page-app" }).getByText(/in 1 file/).waitFor();
  await page.getByRole("heading", { name: "Layers" }).waitFor();
  await page.getByLabel("Build log").getByText(/stored 1 files? of 15 bytes/).waitFor();
  await page.getByRole("button", { name: "Open workspace" }).click();
  await page.getByRole("dialog").getByRole("textbox", { name: /^Name/ }).fill("from-template");
  await page.getByRole("button", { name: "Open", exact: true }).click();
  await page.getByRole("heading", { name: "from-template" }).waitFor();
  equal(await api("GET", "/v1/workspaces/from-template/files?path=app/index.js"), "console.log(1)\n", "a file of the template");
  await page.goto(origin + "/#/artifacts");
  await page.getByRole("button", { name: "report.txt" }).click();
  await page.getByLabel("Content", { exact: true }).getByText("the report").waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  equal(readFileSync(await download.path(), "utf8"), "the report\n", "the downloaded artifact");
  await page.getByRole("button", { name: "dot.png" }).click();
  await until("the picture is drawn", () => page.evaluate(() => document.querySelector(".picture img")?.naturalWidth === 1));
  await page.getByRole("button", { name: "evil.html" }).click();
  await page.getByLabel("Content", { exact: true }).getByText("<script>alert(1)</script>").waitFor();
  clean(page);
});

check("evaluations", async () => {
  const page = await signedIn();
  await page.goto(origin + "/#/evals");
  const runs = (await api("GET", "/v1/evals")).runs;
  must(runs.length >= 2, `the test has made ${runs.length} runs`);
  await rows(page).first().waitFor();
  const failed = runs.find((r) => r.passed > 0 && r.passed < r.done);
  await page.goto(`${origin}/#/evals/${failed.id}`);
  await page.getByLabel("Tag").selectOption("network");
  await until("one case has the tag", async () => (await page.locator(".matrix tbody tr").count()) === 1);
  // Each runner has its pass rate, cost, time and tokens, and so has each cell.
  const head = await page.locator(".matrix thead th", { hasText: "quick" }).innerText();
  for (const part of [/67 %/, /\$0\.012 in all/, /mean [\d.]+ m?s/, /2160 tokens/]) must(part.test(head), `the head of a runner lacks ${part}: ${head}`);
  const cell = await page.locator(".matrix .cell.fail a").first().innerText();
  for (const part of [/failed/, /[\d.]+ m?s/, /2160 tokens/, /\$0\.004/]) must(part.test(cell), `a cell lacks ${part}: ${cell}`);
  await page.locator(".matrix .cell.fail a").first().click();
  await page.getByText("Why it failed").waitFor();
  await page.locator(".why", { hasText: "status 200" }).waitFor();
  await page.getByText("Prompt", { exact: true }).waitFor();
  await page.locator(".turn.user", { hasText: "Fetch a page over the network" }).waitFor();
  await page.locator(".turn.tool", { hasText: "wc -l notes.txt" }).waitFor();
  await page.locator(".turn.final", { hasText: "Done:" }).waitFor();
  await page.getByRole("button", { name: /Commands/ }).click();
  await page.getByRole("row", { name: /curl https:\/\/example\.com/ }).getByText("6", { exact: true }).waitFor();
  await page.goto(`${origin}/#/evals/${failed.id}/execution?case=adds-heading&runner=quick`);
  await page.getByRole("button", { name: /Changes/ }).click();
  await page.locator(".diff-line.add", { hasText: "# Notes" }).waitFor();
  await page.goto(`${origin}/#/evals/compare?a=${runs[1].id}&b=${runs[0].id}`);
  await page.getByText("Executions that came out differently").waitFor();
  const rate = page.getByRole("region", { name: "Measures of quick" }).getByRole("row", { name: /pass rate/ });
  equal((await rate.getByRole("cell").allInnerTexts()).slice(0, 3), ["67 %", "67 %", "0 points"], "the pass rates of both runs");
  // Start and stop one.
  await page.goto(origin + "/#/evals");
  await page.getByRole("button", { name: "Start run" }).click();
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await until("the run is open", () => page.evaluate(() => /^#\/evals\/[^/]+$/.test(location.hash)));
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop" }).click();
  await page.locator(".head").getByText("stopped").waitFor();
  const suite = (await api("GET", "/v1/evals")).suites[0].path;
  const run = await api("POST", "/v1/evals", { suite, cases: ["adds-heading"], runners: ["quick"], repeat: 1, maxParallel: 1 });
  await page.goto(`${origin}/#/evals/${run.id}`);
  await page.locator(".matrix .cell.pass").waitFor();
  clean(page);
});

check("operate", async () => {
  const page = await signedIn();
  await page.goto(origin + "/#/operate/health");
  await page.getByText("The server does its work.").waitFor();
  // A diagnosis that is left early does not keep the next one from its end.
  for (let i = 0; i < 3; i++) {
    await page.goto(origin + "/#/operate/doctor");
    await page.waitForTimeout(300);
    await page.goto(origin + "/#/operate/health");
  }
  await page.goto(origin + "/#/operate/doctor");
  await page.locator(".level.works", { hasText: "Proof: " }).first().waitFor({ timeout: 60000 });
  await page.goto(origin + "/#/operate/keys");
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("dialog").getByRole("textbox", { name: /^Name/ }).fill("page key");
  await page.getByRole("dialog").getByRole("combobox", { name: /^Scope/ }).selectOption("read");
  await page.getByRole("dialog").getByRole("textbox", { name: /^Tenant/ }).fill("team-page");
  await page.getByRole("button", { name: "Make key" }).click();
  const key = (await page.getByRole("dialog").locator("pre").innerText()).trim();
  equal((await api("GET", "/v1/workspaces", undefined, key)).workspaces, [], "workspaces of a new tenant");
  await page.getByRole("button", { name: "Done" }).click();
  const row = rows(page).filter({ hasText: "page key" });
  await row.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await row.getByText("revoked").waitFor();
  const refused = await api("GET", "/v1/workspaces", undefined, key).catch((e) => e.status);
  equal(refused, 401, "status of a revoked key");
  // A share link is listed with its workspace, and can't be rotated.
  await fresh("linked");
  await api("POST", "/v1/workspaces/linked/shares", {});
  await page.reload();
  const link = rows(page).filter({ hasText: "share link of linked" });
  await link.getByRole("button", { name: "Revoke" }).waitFor();
  equal(await link.getByRole("button", { name: "Rotate" }).count(), 0, "buttons to rotate a share link");
  await page.goto(origin + "/#/operate/quotas");
  const quotas = page.getByRole("region", { name: "Quotas and use per tenant" });
  await quotas.getByRole("row", { name: /team-page/ }).waitFor();
  const used = (await api("GET", "/v1/tenants")).tenants.find((t) => !t.tenant).workspaces.used;
  equal(await quotas.getByRole("row", { name: /operator/ }).getByRole("cell").nth(1).innerText(), String(used), "workspaces of the operator");
  clean(page);
});

check("read-only key and tenants", async () => {
  const make = async (tenant, scope) => (await api("POST", "/v1/keys", { tenant, scope })).key;
  const red = await make("red", "run");
  const reader = await make("red", "read");
  const blue = await make("blue", "run");
  const w = await api("POST", "/v1/workspaces", { name: "red-ws" }, red);
  await api("PUT", `/v1/workspaces/${w.id}/files?path=secret.txt`, "red secret", red);
  const page = await signedIn({ key: reader });
  await page.getByRole("link", { name: "red-ws" }).click();
  await page.getByRole("treeitem", { name: /secret\.txt/ }).click();
  await until("the file is shown", async () => (await inEditor(page).innerText()).includes("red secret"));
  must((await page.getByRole("button", { name: /^(Save|Pause|Fork|Share|Destroy|New file)$/ }).count()) === 0, "a read-only key sees buttons that change something");
  const refused = await page.evaluate(async (id) => (await fetch(`/v1/workspaces/${id}`, { method: "DELETE", headers: { "Croft-Page": "1" } })).status, w.id);
  equal(refused, 403, "status of a change by a read-only key");
  const noHeader = await page.evaluate(async (id) => (await fetch(`/v1/workspaces/${id}/pause`, { method: "POST" })).status, w.id);
  equal(noHeader, 403, "status of a change without the header");
  const other = await signedIn({ key: blue });
  await other.getByText("No workspaces yet").waitFor();
  for (const route of ["", "/files?path=secret.txt", "/sessions", "/diff?text=true", "/metrics", "/shares"]) {
    const status = await other.evaluate(async (u) => (await fetch(u)).status, `/v1/workspaces/${w.id}${route}`);
    equal(status, 404, `status of ${route || "the workspace"} for another tenant`);
  }
  await other.goto(`${origin}/#/w/${w.id}/files`);
  await other.getByRole("alert").waitFor();
  must(!(await other.content()).includes("red secret"), "another tenant sees the file");
  clean(page);
  clean(other);
});

check("share link", async () => {
  const w = await fresh("shared");
  await fresh("not-shared");
  await write("shared", "readme.txt", "for all to see");
  const page = await signedIn();
  await open(page, w.id);
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByRole("button", { name: "Make link" }).click();
  const link = (await page.getByRole("dialog").locator("pre").innerText()).trim();
  const guest = await (await browser.newContext()).newPage();
  watch(guest);
  await guest.goto(link);
  await guest.getByRole("heading", { name: "shared", exact: true }).waitFor();
  must(!guest.url().includes("share/"), "the text of the link stays in the address");
  await guest.getByRole("treeitem", { name: /readme\.txt/ }).click();
  await until("the file is shown", async () => (await inEditor(guest).innerText()).includes("for all to see"));
  must((await guest.getByRole("button", { name: /^(Save|Move|Pause|Fork|Share|Destroy|New file)$/ }).count()) === 0, "a share link shows buttons that change something");
  equal(await guest.evaluate(async (id) => (await fetch(`/v1/workspaces/${id}/files?path=a`, { method: "PUT", body: "x", headers: { "Croft-Page": "1" } })).status, w.id), 403, "status of a change by a share link");
  await guest.goto(origin + "/#/workspaces");
  await guest.getByRole("link", { name: "shared", exact: true }).waitFor();
  must((await guest.getByRole("link", { name: "not-shared" }).count()) === 0, "a share link shows another workspace");
  // Who sees the workspace anyway stays signed in.
  const stays = await signedIn();
  await stays.goto(link);
  await stays.getByRole("heading", { name: "shared", exact: true }).waitFor();
  await stays.getByRole("button", { name: "Pause", exact: true }).waitFor();
  // Who is signed in and does not see it is asked before the link replaces the sign-in.
  const other = await signedIn({ key: (await api("POST", "/v1/keys", { tenant: "green", scope: "run" })).key });
  await other.goto(link);
  await other.getByRole("button", { name: "Stay signed in" }).click();
  await other.getByRole("button", { name: /^Sign out green/ }).waitFor();
  await other.goto(link);
  await other.getByRole("button", { name: "Sign out and open the link" }).click();
  await other.getByRole("heading", { name: "shared", exact: true }).waitFor();
  // A link that expires, or is revoked, ends what is open with it.
  const short = await api("POST", `/v1/workspaces/${w.id}/shares`, { expires: "4s" });
  const late = await (await browser.newContext()).newPage();
  watch(late);
  await late.goto(origin + short.path);
  await late.getByRole("heading", { name: "shared", exact: true }).waitFor();
  await late.getByRole("heading", { name: "Sign in to Croft" }).waitFor({ timeout: 20000 });
  await late.goto("about:blank");
  await late.goto(origin + short.path);
  await late.getByRole("alert").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).first().click();
  await guest.goto(`${origin}/#/w/${w.id}/files`);
  await guest.getByRole("heading", { name: "Sign in to Croft" }).waitFor({ timeout: 20000 });
  for (const p of [page, guest, stays, other, late]) clean(p);
});

check("keyboard and phone", async () => {
  const w = await fresh("keys-ws");
  await write("keys-ws", "a.txt", "x\n");
  const page = await signedIn();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search and commands" }).fill("keys-ws");
  await page.getByRole("option", { name: /keys-ws/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "keys-ws" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search and commands" }).fill("open workspace");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Open workspace" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("tree").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await until("the file is open", async () => (await inEditor(page).innerText()).includes("x"));
  await page.getByRole("tree").focus();
  await page.keyboard.press("4");
  await page.getByLabel("Changes since").waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await page.getByRole("heading", { name: "Templates", exact: true }).waitFor();
  await page.keyboard.press("/");
  must(await page.evaluate(() => document.activeElement?.id === "filter"), "/ does not go to the filter");
  clean(page);
  await page.setViewportSize({ width: 390, height: 800 });
  for (const view of ["workspaces", `w/${w.id}/files`, `w/${w.id}/terminal`, `w/${w.id}/review`, `w/${w.id}/usage`, "templates", "operate/doctor"]) {
    await page.goto(`${origin}/#/${view}`);
    await page.waitForTimeout(400);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    must(over <= 0, `${view} is ${over} px wider than a phone`);
    const hidden = await page.evaluate(() => {
      const tab = document.querySelector(".tabs [aria-current]")?.getBoundingClientRect();
      return tab && (tab.left < 0 || tab.right > innerWidth);
    });
    must(!hidden, `${view}: the tab is out of sight`);
  }
  await open(page, w.id, "connect");
  await until("the last tab is in sight", () => page.evaluate(() => document.querySelector(".tabs [aria-current]").getBoundingClientRect().right <= innerWidth));
  for (const name of ["Pause", "Fork", "Share"]) must(await page.getByRole("button", { name, exact: true }).getByText(name).isVisible(), `${name} has no label`);
  clean(page);
});

check("hostile workspace", async () => {
  const w = await fresh("hostile");
  await api("POST", "/v1/workspaces/hostile/snapshots", { name: "empty" });
  const nasty = ["<img src=x onerror=alert(1)>.txt", "a\u001b]0;owned\u0007b.txt", "\u202egnp.exe", "'\";alert(1)//.js", "&lt;b&gt;.md", "new\nline.txt"];
  for (const name of nasty) await write("hostile", name, "<script>alert('content')</script>\n\u001b[2J\u001b]8;;javascript:alert(1)\u0007click\u001b]8;;\u0007\n");
  await run("hostile", `mkdir many && cd many && seq -f 'file-%05g.txt' 1 20000 | xargs touch; printf 'x' > "$(printf 'bad\\377name')"`);
  await write("hostile", "page.html", "<script>alert(document.domain)</script>");
  await write("hostile", "picture.svg", '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(3)"><script>alert(4)</script></svg>');
  // A log of 50 MB, and a process that prints without end.
  await api("POST", `/v1/workspaces/${w.id}/sessions`, { script: "head -c 50000000 /dev/urandom | base64 -w 100; printf '<img src=x onerror=alert(5)>\\033[31mred\\n'", detached: true, labels: { "<b>label</b>": "x" } });
  await api("POST", `/v1/workspaces/${w.id}/sessions`, { argv: ["sh", "-c", "yes '<script>alert(6)</script>' | head -c 2000000000"], detached: true, limits: { wall: { max: 60e9 } } });
  const page = await signedIn();
  await open(page, w.id);
  await page.getByRole("treeitem", { name: /img src=x onerror/ }).click();
  await until("the content is text", async () => (await inEditor(page).innerText()).includes("<script>alert('content')</script>"));
  const tree = await page.locator(".tree").innerText();
  for (const text of ["\\x1b]0;owned\\x07", "\\u202egnp.exe", "new\\nline.txt"]) must(tree.includes(text), `${text} is not in the tree:\n${tree}`);
  await page.getByRole("treeitem", { name: "many" }).click();
  await until("20,000 files are in the tree", () => page.evaluate(() => (document.querySelector(".tree .rows-all")?.clientHeight ?? 0) > 20000 * 24));
  must((await page.locator(".tree-row").count()) < 200, "all rows are drawn");
  await page.locator(".tree").evaluate((el) => (el.scrollTop = 0));
  await page.getByRole("treeitem", { name: /bad/ }).click();
  await until("a name that is not UTF-8 opens", async () => (await inEditor(page).innerText()).trim() === "x");
  for (const file of ["page.html", "picture.svg"]) {
    await page.locator(".tree").evaluate((el) => (el.scrollTop = el.scrollHeight));
    await page.getByRole("treeitem", { name: new RegExp(file) }).click();
    await until(`${file} is shown as text`, async () => (await inEditor(page).innerText()).includes("alert("));
  }
  await open(page, w.id, "processes");
  await page.getByRole("button", { name: /base64/ }).click();
  await page.locator(".log-line", { hasText: "<img src=x onerror=alert(5)>red" }).waitFor({ timeout: 60000 });
  await page.getByRole("button", { name: /yes/ }).click();
  await page.locator(".log-line", { hasText: "<script>alert(6)</script>" }).first().waitFor();
  await page.waitForTimeout(3000);
  must((await page.locator(".log-line").count()) < 200, "all lines of a log are drawn");
  // A terminal that is flooded can still be stopped.
  await open(page, w.id, "terminal");
  await until("a prompt", async () => /[$#]/.test(await screenText(page)), 20000);
  await page.keyboard.type("yes '<b>flood</b>'\n");
  await page.waitForTimeout(3000);
  await page.keyboard.press("Control+c");
  await until("the flood ends, and the shell answers", async () => {
    await page.keyboard.type("echo alive=$((5*5))\n");
    await page.waitForTimeout(1000);
    return (await screenText(page)).includes("alive=25");
  }, 40000);
  await open(page, w.id, "events");
  await page.locator(".event").first().waitFor();
  await open(page, w.id, "review");
  await page.locator(".diff-file").first().waitFor({ timeout: 30000 });
  equal(await page.evaluate(() => document.querySelectorAll("main img, main script, main iframe, main b.flood").length), 0, "elements made of a sandbox's content");
  clean(page);
  await api("DELETE", `/v1/workspaces/${w.id}`);
});

// Longest task on the main thread of the page while f runs, in milliseconds, from a trace of Chromium.
async function longestTask(page, f) {
  await browser.startTracing(page, { categories: ["toplevel", "disabled-by-default-devtools.timeline", "__metadata"] });
  await f();
  // The last task is in the trace once it has ended.
  await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const main = new Set(traceEvents.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map((e) => `${e.pid} ${e.tid}`));
  const tasks = traceEvents.filter((e) => /RunTask$/.test(e.name) && e.ph === "X" && main.has(`${e.pid} ${e.tid}`));
  must(tasks.length > 50, `the trace has ${tasks.length} tasks of ${main.size} threads`);
  return Math.max(...tasks.map((e) => e.dur / 1000));
}

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

check("scrolling", async () => {
  const w = await fresh("big");
  await run("big", "mkdir many && cd many && seq -f 'file-%05g.txt' 1 10000 | xargs touch");
  await write("big", "long.txt", Array.from({ length: 2500 }, (_, i) => `before ${i}`).join("\n") + "\n");
  await api("POST", "/v1/workspaces/big/snapshots", { name: "base" });
  await write("big", "long.txt", Array.from({ length: 2500 }, (_, i) => `after ${i}`).join("\n") + "\n");
  const page = await signedIn();
  const scroll = (selector) => () =>
    page.evaluate(async (s) => {
      const box = document.querySelector(s);
      for (let i = 0; i <= 60; i++) {
        box.scrollTop = ((box.scrollHeight - box.clientHeight) * i) / 60;
        await new Promise((r) => requestAnimationFrame(r));
      }
    }, selector);
  await open(page, w.id);
  await page.getByRole("treeitem", { name: "many" }).click();
  await until("the tree is there", () => page.evaluate(() => (document.querySelector(".tree .rows-all")?.clientHeight ?? 0) > 10000 * 24));
  // The trace sees a task that is too long.
  const busy = await longestTask(page, async () => {
    await scroll(".tree")();
    await page.evaluate(() => {
      for (const end = performance.now() + 600; performance.now() < end; );
    });
  });
  must(busy >= 600, `the trace has no task of 600 ms, but of ${busy} ms`);
  const five = async (selector) => {
    const longest = [];
    for (let i = 0; i < 5; i++) longest.push(await longestTask(page, scroll(selector)));
    return longest;
  };
  const tree = await five(".tree");
  await page.goto(`${origin}/#/w/${w.id}/review?from=base`);
  await until("the diff is there", () => page.evaluate(() => (document.querySelector(".diff .rows-all")?.clientHeight ?? 0) > 5000 * 22), 30000);
  const diff = await five(".diff");
  console.error(`longest tasks in ms: tree ${tree.map(Math.round)}, diff ${diff.map(Math.round)}`);
  must(median(tree) <= 500 && median(diff) <= 500, `longest tasks in ms: tree ${tree}, diff ${diff}; at most 500 in the median`);
  clean(page);
});

const views = (w, evals) => [
  ["workspaces", "#/workspaces"],
  ["files", `#/w/${w.id}/files?path=src/server.ts`],
  ["terminal", `#/w/${w.id}/terminal`],
  ["processes", `#/w/${w.id}/processes`],
  ["review", `#/w/${w.id}/review?from=base`],
  ["snapshots", `#/w/${w.id}/snapshots`],
  ["network", `#/w/${w.id}/network`],
  ["events", `#/w/${w.id}/events`],
  ["usage", `#/w/${w.id}/usage`],
  ["connect", `#/w/${w.id}/connect`],
  ["templates", "#/templates"],
  ["template", "#/templates/node-app"],
  ["artifacts", "#/artifacts"],
  ["evals", "#/evals"],
  ...(evals ? [["matrix", `#/evals/${evals}`], ["compare", `#/evals/compare?a=${evals}&b=${evals}`]] : []),
  ["health", "#/operate/health"],
  ["doctor", "#/operate/doctor"],
  ["keys", "#/operate/keys"],
  ["quotas", "#/operate/quotas"],
];

let scene;

/** A server as people have it: some workspaces, with work under way. */
async function setScene() {
  if (scene) return scene;
  for (const w of (await api("GET", "/v1/workspaces")).workspaces) await api("DELETE", `/v1/workspaces/${w.id}`).catch(() => {});
  for (const t of (await api("GET", "/v1/templates")).templates) if (t.name !== "base") await api("DELETE", `/v1/templates/${t.name}`).catch(() => {});
  const seed = await fresh("seed");
  const server = `import { createServer } from "node:http";\n\n// Answers with the time, for health checks.\nconst port = Number(process.env.PORT ?? 8080);\n\ncreateServer((req, res) => {\n  if (req.url === "/healthz") {\n    res.end("ok\\n");\n    return;\n  }\n  res.statusCode = 404;\n  res.end("not found\\n");\n}).listen(port);\n`;
  await write("seed", "src/server.ts", server);
  await write("seed", "src/util.ts", "export const now = () => Date.now();\n");
  await write("seed", "package.json", '{\n  "name": "shop",\n  "type": "module",\n  "scripts": { "test": "node --test" }\n}\n');
  await write("seed", "README.md", "# Shop\n\nA small server.\n");
  await write("seed", "test/server.test.ts", 'import test from "node:test";\n\ntest("health", () => {});\n');
  await write("seed", ".gitignore", "node_modules/\n");
  const snap = await api("POST", "/v1/workspaces/seed/snapshots", { name: "seed" });
  await api("POST", "/v1/templates", { name: "node-app", snapshot: snap.id });
  await api("DELETE", `/v1/workspaces/${seed.id}`);
  const limits = { cpu: { max: 2000 }, memory: { max: 512 << 20 }, pids: { max: 256 } };
  const allow = [{ host: "registry.npmjs.org" }, { host: "github.com" }];
  const of = async (name, user, extra = {}) => fresh(name, { session: { user }, from: { template: "node-app" }, policy: { limits, network: { allow } }, ...extra });
  const list = [];
  for (const [name, user] of [["fix-health-check", "ada"], ["upgrade-node", "ada"], ["review-pr-118", "linus"], ["flaky-tests", "grace"], ["docs-site", "grace"]]) list.push(await of(name, user).catch(async () => of(name, user, { policy: { network: { allow } } })));
  const w = list[0];
  const at = w.id;
  await api("POST", `/v1/workspaces/${at}/snapshots`, { name: "base" });
  await write(at, "src/server.ts", server.replace("// Answers with the time, for health checks.", "// Answers health checks; everything else is not found.").replace('res.end("ok\\n");', 'res.setHeader("Content-Type", "text/plain");\n    res.end(`ok ${process.uptime().toFixed(0)}\\n`);'));
  await write(at, "src/metrics.ts", "let requests = 0;\n\nexport function count(): void {\n  requests++;\n}\n\nexport const text = () => `requests_total ${requests}\\n`;\n");
  await api("DELETE", `/v1/workspaces/${at}/files?path=src/util.ts`);
  await api("POST", `/v1/workspaces/${at}/snapshots`, { name: "tests-pass" });
  await run(at, "for h in registry.npmjs.org pypi.org telemetry.example.com; do curl -s -m 3 http://$h/ >/dev/null; done; true");
  await api("POST", `/v1/workspaces/${at}/sessions`, { script: "for i in $(seq 1 40); do echo \"[$i] GET /healthz 200\"; sleep 0.02; done; while :; do sleep 1; done", detached: true, labels: { name: "server" } });
  await api("POST", `/v1/workspaces/${at}/sessions`, { script: "echo 1..2; echo ok 1 - health; echo not ok 2 - metrics; exit 1", detached: true });
  await api("POST", `/v1/workspaces/${list[3].id}/pause`).catch(() => {});
  await api("PUT", `/v1/workspaces/${at}/artifacts/content?name=report.md&mime=text/markdown`, "# Report\n\nThe health check answers in 2 ms.\n");
  await api("PUT", `/v1/workspaces/${at}/artifacts/content?name=coverage/summary.json&mime=application/json`, '{"lines": 0.91}\n');
  await api("POST", "/v1/keys", { name: "ci", tenant: "team-a", scope: "run" });
  await api("POST", "/v1/keys", { name: "dashboard", tenant: "team-a", scope: "read", expires: "720h" });
  const runs = (await api("GET", "/v1/evals").catch(() => ({ runs: [] }))).runs ?? [];
  scene = { w, evals: (runs.find((r) => r.passed > 0 && r.passed < r.done) ?? runs[0])?.id };
  return scene;
}

async function settle(page) {
  await page.waitForLoadState("networkidle").catch(() => {});
  await until("the view is there", async () => (await page.locator("main .loading").count()) === 0, 60000);
  await page.waitForTimeout(300);
}

/** The serious violations that axe-core reports. */
async function violations(page, name) {
  await page.evaluate(readFileSync(axeSource, "utf8"));
  const res = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return res.violations
    .filter((v) => ["serious", "critical"].includes(v.impact))
    .map((v) => `${name}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.target} ${n.any[0]?.message ?? ""}`).join(" | ")}`);
}

/** What opens in the views, each with how to open it. Escape closes it, or the next one goes to another view. */
const opened = (w, evals) => {
  const click = (page, name) => page.getByRole("button", { name, exact: true }).first().click();
  const at = (hash, f) => async (page) => {
    await page.goto(`${origin}/${hash}`);
    await settle(page);
    await f(page);
  };
  return [
    ["palette", at("#/workspaces", (page) => page.keyboard.press("Control+k"))],
    ["keys-of-page", at("#/workspaces", (page) => page.keyboard.press("?"))],
    ["selected", at("#/workspaces", (page) => page.getByLabel("Select all").check())],
    ["open-workspace", at("#/workspaces", (page) => click(page, "Open workspace"))],
    ["nothing-matches", at("#/workspaces", (page) => page.getByLabel(/Filter by name/).fill("no such workspace"))],
    ["destroy", at(`#/w/${w.id}/files`, (page) => click(page, "Destroy"))],
    ["share", at(`#/w/${w.id}/files`, (page) => click(page, "Share"))],
    ["search", at(`#/w/${w.id}/files`, (page) => page.getByLabel("Search names and contents").fill("server"))],
    ["new-file", at(`#/w/${w.id}/files`, (page) => click(page, "New file"))],
    ["start-command", at(`#/w/${w.id}/processes`, (page) => click(page, "Start command"))],
    ["process", at(`#/w/${w.id}/processes`, (page) => page.getByRole("button", { name: /healthz/ }).click())],
    ["apply", at(`#/w/${w.id}/review?from=base`, (page) => click(page, "Apply to host …"))],
    ["rejected", at(`#/w/${w.id}/review?from=base`, (page) => click(page, "Reject all"))],
    ["take-snapshot", at(`#/w/${w.id}/snapshots`, (page) => click(page, "Take snapshot"))],
    ["difference", at(`#/w/${w.id}/snapshots`, (page) => click(page, "base"))],
    ["event", at(`#/w/${w.id}/events`, (page) => page.locator(".event").last().click())],
    ["artifact", at("#/artifacts", (page) => click(page, "report.md"))],
    ["start-run", at("#/evals", (page) => click(page, "Start run"))],
    ["new-key", at("#/operate/keys", (page) => click(page, "New key"))],
    ["no-view", at("#/nowhere", () => {})],
    ["no-workspace", at("#/w/nowhere/files", (page) => page.getByRole("alert").waitFor())],
    ...(evals
      ? ["Transcript", "Commands", "Changes", "Network"].map((part) => [
          `execution-${part.toLowerCase()}`,
          at(`#/evals/${evals}/execution?case=fetches-page&runner=quick`, (page) => page.getByRole("group", { name: "Parts of the execution" }).getByRole("button", { name: new RegExp(part) }).click()),
        ])
      : []),
  ];
};

check("accessibility", async () => {
  const { w, evals } = await setScene();
  const bad = [];
  for (const scheme of ["light", "dark"]) {
    const out = await browser.newPage({ colorScheme: scheme });
    await out.goto(origin + "/");
    await out.getByRole("button", { name: "Sign in" }).waitFor();
    bad.push(...(await violations(out, `sign-in, ${scheme}`)));
    await out.close();
    const page = await signedIn({ colorScheme: scheme });
    for (const [name, hash] of views(w, evals)) {
      await page.goto(`${origin}/${hash}`);
      await settle(page);
      if (name === "terminal") await page.waitForTimeout(1500);
      bad.push(...(await violations(page, `${name}, ${scheme}`)));
    }
    clean(page);
    await end(page);
  }
  must(bad.length === 0, bad.join("\n"));
});

check("accessibility of what opens", async () => {
  const { w, evals } = await setScene();
  const bad = [];
  for (const scheme of ["light", "dark"]) {
    const page = await signedIn({ colorScheme: scheme });
    for (const [name, show] of opened(w, evals)) {
      await show(page);
      await page.waitForTimeout(300);
      bad.push(...(await violations(page, `${name}, ${scheme}`)));
      await page.keyboard.press("Escape");
    }
    clean(page);
    await end(page);
  }
  must(bad.length === 0, bad.join("\n"));
});

check("accessibility at the width of a phone", async () => {
  const { w, evals } = await setScene();
  const bad = [];
  const page = await signedIn({ viewport: { width: 390, height: 844 } });
  for (const [name, hash] of views(w, evals)) {
    await page.goto(`${origin}/${hash}`);
    await settle(page);
    bad.push(...(await violations(page, name)));
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) bad.push(`${name} is ${over} px wider than a phone`);
  }
  clean(page);
  must(bad.length === 0, bad.join("\n"));
});

// At most so many bytes over the network, and so many requests, until a view is there, in a browser
// without a cache.
const budget = { first: [200 << 10, 12], lazy: [450 << 10, 30] };

check("budget", async () => {
  const { w, evals } = await setScene();
  const over = [];
  const seen = [];
  const context = (await signedIn()).context();
  for (const [name, hash] of views(w, evals)) {
    const next = await context.newPage();
    const session = await context.newCDPSession(next);
    await session.send("Network.enable");
    await session.send("Network.setCacheDisabled", { cacheDisabled: true });
    let bytes = 0;
    let requests = 0;
    session.on("Network.loadingFinished", (e) => (bytes += e.encodedDataLength));
    session.on("Network.requestWillBeSent", () => requests++);
    await next.goto(`${origin}/${hash}`);
    await until("the view is there", async () => (await next.locator("main h1").count()) > 0 && (await next.locator("main .loading").count()) === 0, 60000);
    if (name === "files") await inEditor(next).waitFor();
    if (name === "terminal") await next.locator(".xterm-rows").waitFor();
    const [maxBytes, maxRequests] = name === "files" || name === "terminal" ? budget.lazy : budget.first;
    seen.push(`${name} ${Math.round(bytes / 1024)} kB in ${requests}`);
    if (bytes > maxBytes || requests > maxRequests) over.push(`${name}: ${bytes} bytes in ${requests} requests; at most ${maxBytes} in ${maxRequests}`);
    await next.close();
  }
  console.error(seen.join("; "));
  must(over.length === 0, over.join("\n"));
});

check("screenshots", async () => {
  const dir = process.env.CROFT_PICTURES;
  if (!dir) return;
  const { w, evals } = await setScene();
  const six = new Set(["workspaces", "files", "terminal", "review", evals ? "matrix" : "snapshots", "doctor"]);
  const all = process.env.CROFT_ALL_PICTURES;
  for (const scheme of ["light", "dark"]) {
    const page = await signedIn({ colorScheme: scheme, ...(all ? { viewport: { width: 1440, height: 900 } } : {}) });
    for (const [name, hash] of views(w, evals)) {
      if (!all && !six.has(name)) continue;
      await page.goto(`${origin}/${hash}`);
      await settle(page);
      if (name === "terminal") {
        await until("a prompt", async () => /[$#]/.test(await screenText(page)), 20000);
        await page.keyboard.type("clear; ls -la; cat src/metrics.ts\n");
        await page.waitForTimeout(1500);
      }
      if (name === "processes") await page.getByRole("button", { name: /healthz/ }).click();
      if (name === "snapshots") await page.getByRole("button", { name: "base", exact: true }).click();
      if (name === "artifacts") await page.getByRole("button", { name: "report.md" }).click();
      if (name === "usage" || name === "workspaces") await page.waitForTimeout(6000); // CPU is a rate over time
      await page.waitForTimeout(500);
      await page.screenshot({ path: `${dir}/${name}-${scheme}.png` });
    }
    if (all) {
      const shot = (name) => page.screenshot({ path: `${dir}/${name}-${scheme}.png` });
      await page.goto(origin + "/#/workspaces");
      await page.getByRole("button", { name: "Open workspace" }).click();
      await page.getByRole("dialog").getByLabel("Allowed hosts").fill("https://pypi.org");
      await page.getByRole("dialog").getByRole("button", { name: "Open", exact: true }).click();
      await page.getByRole("dialog").getByRole("alert").waitFor();
      await shot("dialog-error");
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Fork docs-site" }).click();
      await page.getByRole("dialog").waitFor();
      await shot("dialog-fork");
      await page.keyboard.press("Escape");
      await open(page, w.id);
      const readme = { name: "README.md", mimeType: "text/plain", buffer: Buffer.from("# Other\n") };
      await page.getByLabel("Files to upload", { exact: true }).setInputFiles([readme, { ...readme, name: "new.md" }]);
      await page.getByRole("dialog").getByText("exists already").waitFor();
      await shot("dialog-upload");
      await page.keyboard.press("Escape");
      await open(page, (await api("GET", "/v1/workspaces/flaky-tests?owner=grace")).id);
      await page.getByText("This workspace is paused").waitFor();
      await shot("paused");
      await page.goto(`${origin}/#/w/${w.id}/review?from=base`);
      await page.getByRole("checkbox", { name: "Accept src/util.ts", exact: true }).uncheck();
      await page.getByRole("button", { name: "Revert rejected" }).click();
      await page.getByRole("dialog").waitFor();
      await shot("dialog-revert");
      await page.keyboard.press("Escape");
      const out = await browser.newPage({ colorScheme: scheme });
      await out.goto(origin + "/");
      await out.locator(".snippet").waitFor();
      await out.screenshot({ path: `${dir}/sign-in-${scheme}.png` });
      await out.close();
      for (const prefix of ["", "phone-"]) {
        if (prefix) await page.setViewportSize({ width: 390, height: 844 });
        for (const [name, show] of opened(w, evals)) {
          await show(page).catch((e) => console.error(`${prefix}${name}: ${e.message}`));
          await page.waitForTimeout(400);
          await shot(`${prefix}open-${name}`);
          await page.keyboard.press("Escape");
        }
      }
      for (const [name, hash] of views(w, evals)) {
        await page.goto(`${origin}/${hash}`);
        await settle(page);
        await shot(`phone-${name}`);
      }
    }
    await end(page);
  }
});

await runAll();
