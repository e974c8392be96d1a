// Package testmodel is an HTTP server that plays an agent's model from a script, so that
// agents can be tested without network, key or chance. It speaks Anthropic's messages,
// OpenAI's responses and chat completions, and Gemini's generateContent.
//
// A Model keeps no position in its script: the number of tool results in a request is the
// position. A repeated request gets the same answer.
package testmodel

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// A Step is one call of a tool.
type Step struct {
	Tool string // as the tool's server names it
	Args map[string]any
}

// An Offer is a tool as an agent offers it to a model.
type Offer struct {
	Name      string
	Namespace string // beside the name, in OpenAI's responses
}

// A Model calls the tools of one server, or the agent's own, step by step, and
// then says Last.
type Model struct {
	Server string // the name that the agent's configuration gives the tools' server; "" is the agent itself
	Steps  []Step
	Last   string // said when all steps are done

	mu       sync.Mutex
	tools    []Offer  // guarded by mu; of the last request that had tools of Server
	results  []string // guarded by mu; of the steps, as far as they are known
	requests []string // guarded by mu; what was asked, for a test that fails
}

// Offers returns the tools of the server that the agent offered last, by the
// names that the server gives them, sorted.
func (m *Model) Offers() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, o := range m.tools {
		if name, ok := o.nameAt(m.Server); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Others returns the agent's tools that are not of the server.
func (m *Model) Others() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, o := range m.tools {
		if _, ok := o.nameAt(m.Server); !ok {
			names = append(names, o.Name)
		}
	}
	return names
}

// Results returns what the agent reported of each step.
func (m *Model) Results() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.results)
}

// Requests returns a line for each request that came in, and its body.
func (m *Model) Requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// nameAt returns the name of a tool at its server, if it belongs to the server. Agents
// prefix it with the server's name, each in its own way.
func (o Offer) nameAt(server string) (string, bool) {
	if server == "" {
		return o.Name, o.Namespace == ""
	}
	if o.Namespace != "" {
		return o.Name, o.Namespace == "mcp__"+server
	}
	for _, prefix := range []string{"mcp__" + server + "__", "mcp_" + server + "_", server + "__", server + "_", server + "-"} {
		if name, ok := strings.CutPrefix(o.Name, prefix); ok {
			return name, true
		}
	}
	return "", false
}

// modelRequest is a request of any protocol.
type modelRequest struct {
	tools   []Offer
	results []string
	stream  bool
}

// modelAnswer is the next answer of the model: a tool call or a text.
type modelAnswer struct {
	round int    // counts from 1; 0 is not part of the script
	id    string // of the call
	call  Offer  // none if its name is empty
	args  map[string]any
	text  string
}

// nextAnswer returns the next answer. Agents also send requests that are not part of the
// task, such as for a title; these offer no tools of the server.
func (m *Model) nextAnswer(a modelRequest) modelAnswer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.ContainsFunc(a.tools, func(o Offer) bool { _, ok := o.nameAt(m.Server); return ok }) {
		return modelAnswer{text: "ok"}
	}
	m.tools = a.tools
	if len(a.results) > len(m.results) {
		m.results = a.results
	}
	n := len(a.results)
	if n >= len(m.Steps) {
		return modelAnswer{round: n + 1, text: m.Last}
	}
	for _, o := range a.tools {
		if name, ok := o.nameAt(m.Server); ok && name == m.Steps[n].Tool {
			return modelAnswer{round: n + 1, id: fmt.Sprintf("call_%d", n+1), call: o, args: m.Steps[n].Args}
		}
	}
	return modelAnswer{text: "no tool " + m.Steps[n].Tool + " is offered"}
}

// ServeHTTP answers in the protocol that the path belongs to.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.requests = append(m.requests, fmt.Sprintf("%s %s %s", r.Method, r.URL, body))
	m.mu.Unlock()
	path := r.URL.Path
	switch {
	case r.Method != http.MethodPost:
		http.Error(w, `{"error":{"message":"not here"}}`, http.StatusNotFound)
	case strings.HasSuffix(path, "/messages"):
		serveAnswer(w, body, m.nextAnswer, readMessages, writeMessages)
	case strings.HasSuffix(path, "/responses"):
		serveAnswer(w, body, m.nextAnswer, readResponses, writeResponses)
	case strings.HasSuffix(path, "/chat/completions"):
		serveAnswer(w, body, m.nextAnswer, readChat, writeChat)
	case strings.HasSuffix(path, ":generateContent"), strings.HasSuffix(path, ":streamGenerateContent"):
		read := func(body []byte) (modelRequest, error) {
			a, err := readGemini(body)
			a.stream = strings.HasSuffix(path, ":streamGenerateContent")
			return a, err
		}
		serveAnswer(w, body, m.nextAnswer, read, writeGemini)
	case strings.HasSuffix(path, "/count_tokens"):
		writeJSON(w, map[string]any{"input_tokens": 10})
	case strings.HasSuffix(path, ":countTokens"):
		writeJSON(w, map[string]any{"totalTokens": 10})
	default:
		http.Error(w, `{"error":{"message":"not here"}}`, http.StatusNotFound)
	}
}

// A reply is what goes back: one document, or events.
type reply struct {
	whole  any
	events []frame
	end    string // data of a last event that is not JSON
}

type frame struct {
	event string // "" has none
	data  any
}

func serveAnswer(w http.ResponseWriter, body []byte, next func(modelRequest) modelAnswer, read func([]byte) (modelRequest, error), form func(modelAnswer) reply) {
	a, err := read(body)
	if err != nil {
		http.Error(w, fmt.Sprintf(`{"error":{"message":%q}}`, err), http.StatusBadRequest)
		return
	}
	r := form(next(a))
	if !a.stream {
		writeJSON(w, r.whole)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, f := range r.events {
		data, err := json.Marshal(f.data)
		if err != nil {
			panic(err) // an argument of the script is not JSON
		}
		if f.event != "" {
			fmt.Fprintf(w, "event: %s\n", f.event)
		}
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
	if r.end != "" {
		fmt.Fprintf(w, "data: %s\n\n", r.end)
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the agent has gone
}

// contentText joins a content, which is a string or a list of parts.
func contentText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}
