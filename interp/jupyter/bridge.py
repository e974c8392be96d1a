# The bridge between Croft and one Jupyter kernel. It runs beside the kernel,
# inside the workspace's fence, and outlives the handles on the workspace: each
# connects to its Unix socket and speaks lines of JSON. On its standard output it
# says once how it is reached. The sockets are files that only those inside can reach.
import base64, json, os, queue, shutil, signal, socket, sys, tempfile, threading, time

proto = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
os.dup2(2, 1)  # what a kernel writes to its standard output is no answer of ours
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the scratch directory is removed


def say(t, **fields):
    proto.write(json.dumps({"t": t, **fields}) + "\n")
    proto.flush()


class Client:
    """One connection. What is for a client that is gone is dropped."""

    def __init__(self, sock):
        self.sock, self.lock, self.gone = sock, threading.Lock(), False

    def say(self, t, **fields):
        data = (json.dumps({"t": t, **fields}) + "\n").encode()
        with self.lock:
            if self.gone:
                return
            try:
                self.sock.sendall(data)
            except OSError:
                self.gone = True


def give_up(kind, message, **more):
    say("failed", kind=kind, message=message, **more)
    sys.exit(0)


want = json.loads(sys.argv[1])
try:
    from jupyter_client import KernelManager
    from jupyter_client.kernelspec import KernelSpecManager
except ImportError as e:
    give_up("jupyter", str(e))


def find(language):
    specs = KernelSpecManager().get_all_specs()
    langs = {n: str(s["spec"].get("language", "")).lower() for n, s in specs.items()}
    named = [n for n in sorted(specs) if n.lower() == language]
    by_language = [n for n in sorted(specs) if langs[n] == language]
    for name in named + by_language:
        return name, langs[name] or language
    installed = sorted({l or n for n, l in langs.items()})
    give_up("kernel", "no kernel for " + language, installed=installed)


scratch = tempfile.mkdtemp(prefix="krn-")
os.environ["JUPYTER_RUNTIME_DIR"] = scratch
os.environ.setdefault("IPYTHONDIR", os.path.join(scratch, "ipython"))
os.environ.setdefault("MPLCONFIGDIR", os.path.join(scratch, "mpl"))


# What programs that a cell starts write goes through a pipe. ipykernel's own reader
# of it dies of a character that is cut in two, and tells what it read whenever it
# gets to it, which may be in the next cell. This one, which is run inside a Python
# kernel, decodes with care, and a cell is over when its pipes are empty.
PUMP = """
import codecs, os, select, sys, threading
from IPython import get_ipython

def pump(stream, fd):
    r, w = os.pipe()
    os.set_blocking(r, False)
    os.dup2(w, fd)
    os.close(w)
    decoder, lock = codecs.getincrementaldecoder("utf-8")("replace"), threading.Lock()

    def drain():
        with lock:
            for _ in range(1024):  # somebody in the background may write for ever
                try:
                    data = os.read(r, 1 << 16)
                except BlockingIOError:
                    return
                stream.write(decoder.decode(data))

    def watch():
        while True:
            select.select([r], [], [])
            drain()

    threading.Thread(target=watch, daemon=True).start()
    get_ipython().events.register("post_execute", drain)

pump(sys.stdout, 1)
pump(sys.stderr, 2)
"""


class Kernel:
    def __init__(self, name, language):
        self.language = language
        self.km = KernelManager(kernel_name=name, transport="ipc", ip=os.path.join(scratch, "s"),
                                connection_file=os.path.join(scratch, "c.json"))
        self.kc = None
        self.km.start_kernel()
        self.connect()

    def connect(self):
        if self.kc is not None:
            self.kc.stop_channels()
        self.kc = self.km.client()
        self.kc.start_channels()
        self.kc.wait_for_ready(timeout=want["startSeconds"])
        if self.language == "python":
            code = "try: exec(%r, {})\nexcept Exception: pass" % PUMP
            self.kc.execute_interactive(code, silent=True, store_history=False, allow_stdin=False,
                                        output_hook=lambda m: None, timeout=want["startSeconds"])

    def restart(self):
        self.km.restart_kernel(now=True)
        self.connect()

    def close(self):
        self.kc and self.kc.stop_channels()
        self.km.shutdown_kernel(now=True)


class Run:
    """One piece of code, and the bound of what it may put out."""

    def __init__(self, kernel, client, request):
        self.kernel, self.say, self.limit, self.dropped = kernel, client.say, request["limit"], 0
        self.id = request["id"]
        # Nothing waits behind it that an error should stop, and a kernel that stops
        # what waits also refuses what comes within a moment of the error.
        self.msg = kernel.kc.execute(request["code"], allow_stdin=False, store_history=True, stop_on_error=False)
        self.end = {"status": "died"}

    def text(self, kind, text):
        kept = text[: max(self.limit, 0)]
        self.limit -= len(kept.encode("utf-8", "replace"))
        self.dropped += len(text[len(kept):].encode("utf-8", "replace"))
        if kept:
            self.say("text", kind=kind, text=kept)

    def data(self, kind, bundle):
        out, size = {}, 0
        for mime, value in bundle.items():
            if isinstance(value, str):
                raw = value.encode("utf-8", "replace")
                if mime.startswith(("image/", "audio/", "video/", "application/pdf", "application/octet-stream")) and not mime.endswith("xml"):
                    try:
                        raw = base64.b64decode(value, validate=False)
                    except ValueError:
                        pass
            else:
                raw = json.dumps(value).encode()
            out[mime], size = base64.b64encode(raw).decode(), size + len(mime) + len(raw)
        if size > self.limit:
            self.dropped += size
            return
        self.limit -= size
        self.say("data", kind=kind, data=out)

    def take(self, m):
        kind, content = m["msg_type"], m["content"]
        ours = m["parent_header"].get("msg_id") == self.msg
        if kind == "stream":
            self.text("stderr" if content["name"] == "stderr" else "stdout", content["text"])
        elif not ours:
            return False
        elif kind in ("display_data", "update_display_data"):
            self.data("display", content["data"])
        elif kind == "execute_result":
            self.data("result", content["data"])
        elif kind == "status":
            return content["execution_state"] == "idle"
        return False

    def wait(self, orders):
        done = False
        while not done:
            if orders["restart"].is_set():
                self.end = {"status": "restarted"}
                return
            try:
                done = self.take(self.kernel.kc.get_iopub_msg(timeout=0.1))
            except queue.Empty:
                if not self.kernel.km.is_alive():
                    return
        # The reply was sent before what was just read. One that was interrupted at the
        # wrong moment has none, which is no reason to wait for ever.
        patience = time.monotonic() + 30
        while time.monotonic() < patience:
            if orders["restart"].is_set():
                self.end = {"status": "restarted"}
                return
            try:
                reply = self.kernel.kc.get_shell_msg(timeout=0.1)
            except queue.Empty:
                if not self.kernel.km.is_alive():
                    return
                continue
            if reply["parent_header"].get("msg_id") == self.msg:
                c = reply["content"]
                self.end = {"status": c["status"]}
                if "ename" in c:  # of a code's own words no more than is kept
                    self.end["ename"], self.end["evalue"] = str(c["ename"])[:1024], str(c.get("evalue", ""))[:65536]
                    self.end["traceback"] = [str(line)[-65536:] for line in c.get("traceback", [])[-100:]]
                self.end["count"] = c.get("execution_count") or 0
                return


class Server:
    """The requests of all clients, one run or restart at a time."""

    def __init__(self, kernel, listener):
        self.kernel, self.listener = kernel, listener
        self.todo, self.orders = queue.Queue(), {"restart": threading.Event()}
        self.lock, self.current, self.dropped = threading.Lock(), None, set()
        self.idle = -float(want["startSeconds"])  # the first client is on its way

    def accept(self):
        while True:
            sock, _ = self.listener.accept()
            threading.Thread(target=self.listen, args=(Client(sock),), daemon=True).start()

    def listen(self, client):
        client.say("connected")
        self.idle = 0.0
        try:
            for line in client.sock.makefile("r", encoding="utf-8", errors="replace"):
                self.take(client, json.loads(line))
        except (OSError, ValueError):
            pass
        client.gone = True

    def take(self, client, request):
        if request["op"] == "interrupt":
            with self.lock:
                # One for a run that waits must not reach the run of another client.
                if request.get("id") and self.current != (client, request["id"]):
                    self.dropped.add((client, request["id"]))
                    return
                self.kernel.km.interrupt_kernel()
            return
        if request["op"] == "restart":
            self.orders["restart"].set()
        self.todo.put((client, request))

    def serve(self):
        limit = want["idleSeconds"]
        step = min(1.0, limit / 4)
        while True:
            # While the workspace is paused, time passes that is no idleness.
            begun = time.monotonic()
            try:
                client, request = self.todo.get(timeout=step)
            except queue.Empty:
                self.idle += min(time.monotonic() - begun, 2 * step)
                if self.idle >= limit:
                    return
                continue
            if request["op"] == "quit":
                return
            if request["op"] == "restart":
                self.orders["restart"].clear()
                self.kernel.restart()
                client.say("restarted", id=request.get("id", 0))
            else:
                self.run(client, request)
            self.idle = 0.0

    def run(self, client, request):
        with self.lock:
            if client.gone:  # nobody knows whether it ran, so it does not
                return
            if (client, request["id"]) in self.dropped:
                self.dropped.discard((client, request["id"]))
                client.say("end", id=request["id"], dropped=0, status="dropped")
                return
            self.current = (client, request["id"])
        if not self.kernel.km.is_alive():
            self.kernel.restart()
            end, dropped = {"status": "lost"}, 0
        else:
            run = Run(self.kernel, client, request)
            run.wait(self.orders)
            end, dropped = run.end, run.dropped
            if end["status"] == "died":
                self.kernel.restart()
        with self.lock:
            self.current = None
            self.dropped.discard((client, request["id"]))
        client.say("end", id=request["id"], dropped=dropped, **end)


kernel = None
try:
    name, language = find(want["language"])
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.join(scratch, "b"))
    listener.listen(16)
    try:
        kernel = Kernel(name, language)
    except Exception as e:  # whatever it is, whoever asked should read it
        give_up("start", "%s: %s" % (type(e).__name__, e))
    server = Server(kernel, listener)
    threading.Thread(target=server.accept, daemon=True).start()
    say("ready", kernel=name, language=language, socket=os.path.join(scratch, "b"), python=sys.executable)
    server.serve()
finally:
    if kernel is not None:
        kernel.close()
    shutil.rmtree(scratch, ignore_errors=True)
