"""Uploads a directory to a workspace of croft up, runs a command there, shows its output while it
comes, and downloads a result. Python's standard library is enough.

    export CROFT_SERVER=http://127.0.0.1:7070 CROFT_TOKEN=KEY
    python3 run_tests.py DIRECTORY COMMAND [RESULT-FILE]
"""
import base64
import json
import os
import pathlib
import sys
import urllib.error
import urllib.parse
import urllib.request


class Workspace:
    """A workspace on a server. With "with" it is removed at the end."""

    def __init__(self, **spec):
        self.url = os.environ["CROFT_SERVER"] + "/v1/workspaces"
        self.id = json.load(self.call("POST", "", spec))["id"]
        self.url += "/" + self.id

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call("DELETE", "")

    def call(self, method, route, body=None, **query):
        url = self.url + route + ("?" + urllib.parse.urlencode(query) if query else "")
        headers = {"Authorization": "Bearer " + os.environ["CROFT_TOKEN"]}
        if isinstance(body, dict):
            headers["Content-Type"] = "application/json"
            body = json.dumps(body).encode()
        try:
            return urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method))
        except urllib.error.HTTPError as e:  # {"error": {"code", "kind", "message"}}
            sys.exit("error: " + json.load(e)["error"]["message"])

    def write(self, path, data):
        self.call("PUT", "/files", data, path=path, parents="true")

    def read(self, path):
        return self.call("GET", "/files", path=path).read()

    def run(self, *argv, timeout="1m"):
        """Runs a command, passes its output on, and returns its result."""
        for line in self.call("POST", "/exec", {"argv": argv, "timeout": timeout}):
            event = json.loads(line)  # stdout, stderr, or exit
            if event["event"] == "exit":
                return event["result"]
            data = base64.b64decode(event["textB64"]) if "textB64" in event else event["text"].encode()
            stream = sys.stdout if event["event"] == "stdout" else sys.stderr
            stream.buffer.write(data)
            stream.flush()


def main(directory, command, result_file=None):
    limits = {"memory": {"max": 256 << 20}, "pids": {"max": 100}}
    with Workspace(policy={"limits": limits}) as ws:
        root = pathlib.Path(directory)
        for file in root.rglob("*"):
            if file.is_file():
                ws.write(file.relative_to(root).as_posix(), file.read_bytes())
        result = ws.run("sh", "-c", command)
        print("exit status", result["exitCode"], result.get("cause", ""))
        if result_file:
            print(ws.read(result_file).decode(), end="")
        return result["exitCode"]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
