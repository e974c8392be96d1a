// Package advice says the hints of errors to the users of the APIs, in their words: parameters of requests, and what the operator
// of the server can do.
package advice

import (
	"strings"

	"github.com/croft-run/croft/fault"
)

// words are what a hint says, by its kind and first argument; "*" is any other argument, and stands for it.
// A kind without an entry says nothing that a client of an API could do.
var words = map[fault.HintKind]map[string]string{
	fault.HintBestEffort: {"": "to go on without this limit, set its bestEffort"},
	fault.HintImage:      {"": "import the image into the engine, or name one that it has in the option image"},
	fault.HintKey:        {"": "ask the operator of this server for a key, which croft key create makes", "*": "use a key with the scope *"},
	fault.HintReset:      {"": "put it back, and reset the workspace"},
	fault.HintSetting: {
		"default limits":  "policies.default.limits in croft.yaml has them",
		"host roots":      "hostRoots in croft.yaml lists them",
		"hosts":           "the operator adds a name with server.hosts in croft.yaml",
		"install command": "project.commands.install in croft.yaml sets it",
		"proxy":           "network.proxy in croft.yaml sets it",
		"quota":           "tenants in croft.yaml has the quotas",
		"requests":        "requestsPerSecond in croft.yaml sets the rate",
		"secrets":         "secrets and tenants.NAME.secrets of croft.yaml say where they are",
		"skills":          "skills in croft.yaml names directories with skills",
		"ssh host":        "set it, such as in croft.yaml: providers: {NAME: {kind: ssh, options: {host: HOST}}}",
	},
}

// Words says a hint, "" for one that does not concern clients of an API.
func Words(h fault.Hint) string { return Lookup(words, h) }

// Lookup finds the words of a hint in a table by kinds and first arguments.
func Lookup(table map[fault.HintKind]map[string]string, h fault.Hint) string {
	arg := h.Arg(0)
	if text, ok := table[h.Kind][arg]; ok {
		return text
	}
	if text, ok := table[h.Kind]["*"]; ok {
		return strings.ReplaceAll(text, "*", arg)
	}
	return table[h.Kind][""]
}

// Encode returns the wire form of err, whose message says the hints, too.
func Encode(err error) fault.Wire {
	w := fault.Encode(err)
	Append(&w)
	return w
}

// Append adds the words of the hints to a message that has none of them yet.
func Append(w *fault.Wire) {
	for i, h := range w.Hints {
		if text := Words(h); h.Text == "" && text != "" {
			w.Message += "; " + text
			w.Hints[i].Text = text
		}
	}
}
