package envd

import (
	"context"
	_ "embed" // charts.py
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httplog"
	"github.com/croft-run/croft/workspace/driver"
)

// languages are the languages of the code interpreter by their names in requests, with the
// language of the Jupyter kernel.
var languages = map[string]string{
	"": "python", "python": "python", "bash": "bash", "r": "r", "java": "java",
	"javascript": "javascript", "js": "javascript", "typescript": "typescript", "ts": "typescript",
}

// kernelPackages say what to install for a language.
var kernelPackages = map[string]string{
	"python":     "Debian's python3-ipykernel, or pip install ipykernel",
	"r":          "Debian's r-cran-irkernel, or R's package IRkernel",
	"java":       "the kernel IJava or rapaio-jupyter-kernel",
	"javascript": "Deno, then deno jupyter --install; or npm install -g ijavascript",
	"typescript": "Deno, then deno jupyter --install; or npm install -g tslab",
}

// maxExecution bounds the run time of code. Clients give up earlier, by closing the
// connection, which interrupts the code.
const maxExecution = 24 * time.Hour

// A codeContext is a context on the wire.
type codeContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Dir      string `json:"cwd"`
}

func (c *sandboxCall) contextOf(ctx driver.CodeContext) codeContext {
	dir := c.home()
	if l, err := c.locate(ctx.Dir); err == nil && ctx.Dir != "" {
		dir = l.abs
	}
	return codeContext{ID: ctx.ID, Language: ctx.Language, Dir: dir}
}

// language returns the kernel's language for that of a request.
func language(name string) (string, error) {
	kernel, ok := languages[strings.ToLower(name)]
	if !ok {
		return "", fmt.Errorf("language %.100q: %w: it is one of python, javascript, typescript, bash, r and java", name, fault.InvalidArgument)
	}
	return kernel, nil
}

// defaultLabel is the label of the session of a default context, with its language.
const defaultLabel = "e2b.default"

// create creates a context.
func (c *sandboxCall) create(ctx context.Context, name, dir string, def bool) (driver.CodeContext, error) {
	kernel, err := language(name)
	if err != nil {
		return driver.CodeContext{}, err
	}
	l, err := c.locate(dir)
	if err == nil && l.outside {
		err = fmt.Errorf("cwd %q: %w: code runs in directories below %s", l.abs, fault.InvalidArgument, c.home())
	}
	if err != nil {
		return driver.CodeContext{}, err
	}
	if kernel == bashLanguage {
		return c.createBash(ctx, l.name, def)
	}
	labels := map[string]string{}
	if def {
		labels[defaultLabel] = kernel
	}
	// Two names are usual for the kernels of JavaScript and TypeScript.
	names := []string{kernel}
	if kernel == "javascript" {
		names = append(names, "typescript")
	}
	var made driver.CodeContext
	for _, name := range names {
		if made, err = c.Workspace.CreateContext(ctx, name, &driver.ContextOptions{Dir: l.name, Env: c.Env, Labels: labels}); fault.Of(err) != fault.Unsupported {
			break
		}
	}
	if fault.Of(err) == fault.Unsupported {
		err = fmt.Errorf("%w: %s has no kernel in this sandbox; install where its commands run: %s (%w)", fault.Unsupported, kernel, kernelPackages[kernel], err)
	}
	if err == nil {
		err = c.prepare(ctx, made)
	}
	return made, err
}

// charts is the code that prepares a kernel of Python.
//
//go:embed charts.py
var charts string

// prepare makes a new kernel of Python report the data of charts.
func (c *sandboxCall) prepare(ctx context.Context, k driver.CodeContext) error {
	c.box.mu.Lock()
	delete(c.box.counts, k.ID)
	c.box.mu.Unlock()
	if k.Language != "python" {
		return nil
	}
	_, err := c.Workspace.RunCode(ctx, driver.Code{Context: k.ID, Source: charts})
	return err
}

// prepareAgain prepares the kernel of a context that was restarted.
func (c *sandboxCall) prepareAgain(ctx context.Context, id string) error {
	k, err := c.context(ctx, id)
	if err == nil {
		err = c.prepare(ctx, k)
	}
	return err
}

// context describes a context. An unknown one is NotFound.
func (c *sandboxCall) context(ctx context.Context, id string) (driver.CodeContext, error) {
	if b := c.bash(id); b != nil {
		return b.CodeContext, nil
	}
	list, err := c.Workspace.Contexts(ctx)
	if err != nil && fault.Of(err) != fault.Unsupported {
		return driver.CodeContext{}, err
	}
	if at := slices.IndexFunc(list, func(k driver.CodeContext) bool { return k.ID == id }); at >= 0 {
		return list[at], nil
	}
	if err := c.findBash(ctx); err != nil {
		return driver.CodeContext{}, err
	}
	if b := c.bash(id); b != nil {
		return b.CodeContext, nil
	}
	return driver.CodeContext{}, fmt.Errorf("context %.100q: %w", id, fault.NotFound)
}

// defaultContext returns the id of the context that code of a language without a context
// runs in. It is created on demand. lost reports whether an earlier one has ended, with its state.
func (c *sandboxCall) defaultContext(ctx context.Context, name string) (id string, lost bool, err error) {
	kernel, err := language(name)
	if err != nil {
		return "", false, err
	}
	c.box.contextsMu.Lock()
	defer c.box.contextsMu.Unlock()
	if id := c.box.contexts[kernel]; id != "" {
		_, err := c.context(ctx, id)
		if fault.Of(err) != fault.NotFound {
			return id, false, err
		}
		lost = true
	} else if id, lost, err = c.findDefault(ctx, kernel); err != nil || id != "" {
		c.box.contexts[kernel] = id
		return id, false, err
	}
	made, err := c.create(ctx, kernel, "", true)
	if err != nil {
		return "", false, err
	}
	c.box.contexts[kernel] = made.ID
	return made.ID, lost, nil
}

// findDefault finds the default context of a language that an earlier server has created.
func (c *sandboxCall) findDefault(ctx context.Context, kernel string) (id string, lost bool, err error) {
	if kernel == bashLanguage {
		if err := c.findBash(ctx); err != nil {
			return "", false, err
		}
		c.box.mu.Lock()
		defer c.box.mu.Unlock()
		for _, b := range c.box.shells {
			if b.def {
				return b.ID, false, nil
			}
		}
		return "", false, nil
	}
	list, err := c.Workspace.Contexts(ctx)
	if err != nil {
		return "", false, err
	}
	sessions, err := c.Workspace.Sessions(ctx)
	if err != nil && fault.Of(err) != fault.Unsupported {
		return "", false, err
	}
	for _, info := range sessions {
		if info.Labels[defaultLabel] != kernel {
			continue
		}
		id := info.Labels[driver.ContextLabel]
		if slices.ContainsFunc(list, func(k driver.CodeContext) bool { return k.ID == id }) {
			return id, false, nil
		}
		lost = true
	}
	return "", lost, nil
}

// lostNote is in the answer of the first run after a default context was lost.
const lostNote = "The kernel of this sandbox has ended, because it was killed, ran out of memory or was idle for too long. " +
	"Its variables are lost; this code runs in a new kernel.\n"

// createContext serves POST /contexts.
func (s *Server) createContext(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	var req struct {
		Language string `json:"language"`
		Dir      string `json:"cwd"`
	}
	err := readJSON(r, &req)
	var made driver.CodeContext
	if err == nil {
		made, err = c.create(r.Context(), req.Language, req.Dir, false)
	}
	if err != nil {
		status := httpStatus(err)
		if status == http.StatusNotImplemented || status == http.StatusBadRequest {
			status = http.StatusNotFound // the SDK shows the text of no other status
		}
		writeStatus(w, status, err)
		return
	}
	httplog.WriteJSON(w, http.StatusOK, c.contextOf(made))
}

// startDefaults starts the contexts that a new sandbox has: those of Python and JavaScript, where
// their kernels are installed.
func (c *sandboxCall) startDefaults(ctx context.Context) error {
	for _, name := range []string{"python", "javascript"} {
		if _, _, err := c.defaultContext(ctx, name); err != nil && fault.Of(err) != fault.Unsupported {
			return err
		}
	}
	return nil
}

// listContexts serves GET /contexts.
func (s *Server) listContexts(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	err := c.startDefaults(r.Context())
	var list []driver.CodeContext
	if err == nil {
		list, err = c.allContexts(r.Context())
	}
	if err != nil {
		writeError(w, err)
		return
	}
	c.box.contextsMu.Lock()
	defaults := slices.Collect(maps.Values(c.box.contexts))
	c.box.contextsMu.Unlock()
	// The defaults come first: a new sandbox of E2B has them already.
	isDefault := func(k driver.CodeContext) bool { return slices.Contains(defaults, k.ID) }
	list = slices.Concat(slices.DeleteFunc(slices.Clone(list), func(k driver.CodeContext) bool { return !isDefault(k) }), slices.DeleteFunc(list, isDefault))
	res := []codeContext{}
	for _, k := range list {
		res = append(res, c.contextOf(k))
	}
	httplog.WriteJSON(w, http.StatusOK, res)
}

// restartContext serves POST /contexts/{id}/restart.
func (s *Server) restartContext(w http.ResponseWriter, r *http.Request) {
	c, id := callOf(r.Context()), r.PathValue("id")
	_, err := c.context(r.Context(), id)
	if err != nil {
		answerEmpty(w, err)
		return
	}
	if b := c.bash(id); b != nil {
		answerEmpty(w, c.restartBash(r.Context(), b))
		return
	}
	err = c.Workspace.RestartContext(r.Context(), id)
	if err == nil {
		err = c.prepareAgain(r.Context(), id)
	}
	answerEmpty(w, err)
}

// deleteContext serves DELETE /contexts/{id}.
func (s *Server) deleteContext(w http.ResponseWriter, r *http.Request) {
	c, id := callOf(r.Context()), r.PathValue("id")
	_, err := c.context(r.Context(), id)
	if b := c.bash(id); err == nil && b != nil {
		err = c.deleteBash(r.Context(), b)
	} else if err == nil {
		err = c.Workspace.DeleteContext(r.Context(), id)
	}
	if err == nil {
		c.forgetContext(id)
	}
	answerEmpty(w, err)
}

// forgetContext forgets a context that the client has deleted.
func (c *sandboxCall) forgetContext(id string) {
	c.box.mu.Lock()
	delete(c.box.counts, id)
	c.box.mu.Unlock()
	c.box.contextsMu.Lock()
	defer c.box.contextsMu.Unlock()
	maps.DeleteFunc(c.box.contexts, func(_, one string) bool { return one == id })
}

func answerEmpty(w http.ResponseWriter, err error) {
	if err != nil {
		writeError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// execute serves POST /execute: it runs code and streams its outputs as lines of JSON.
func (s *Server) execute(w http.ResponseWriter, r *http.Request) {
	c, ctx := callOf(r.Context()), r.Context()
	var req struct {
		Code     string            `json:"code"`
		Context  string            `json:"context_id"`
		Language string            `json:"language"`
		Env      map[string]string `json:"env_vars"`
	}
	err := readJSON(r, &req)
	if err == nil && req.Context != "" && req.Language != "" {
		err = fmt.Errorf("%w: only one of context_id and language can be given", fault.InvalidArgument)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	lost := false
	if req.Context == "" {
		req.Context, lost, err = c.defaultContext(ctx, req.Language)
	}
	var kernel driver.CodeContext
	if err == nil {
		kernel, err = c.context(ctx, req.Context) // before the answer has begun
	}
	if fault.CauseOf(err) == fault.CauseDestroyed {
		panic(http.ErrAbortHandler) // the SDK then finds that the sandbox is gone, and says so
	}
	if err != nil && !inStream(err) {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := &ndjsonWriter{w: w, flush: http.NewResponseController(w).Flush}
	lines.err = lines.flush() // the SDK's time for the answer to begin is shorter than that of code
	if lost {
		lines.write(map[string]any{"type": "stderr", "text": lostNote, "timestamp": timestamp()})
	}
	var res driver.CodeResult
	if err == nil {
		res, err = c.runWithEnv(ctx, kernel, driver.Code{Context: kernel.ID, Source: req.Code, Timeout: maxExecution, OnOutput: lines.output}, req.Env)
	}
	if err != nil {
		name, why := "ExecutionError", fault.Public(err)
		text, _ := cutOff(err)
		switch fault.CauseOf(err) {
		case fault.CauseDestroyed:
			panic(http.ErrAbortHandler) // as above
		case fault.CausePaused:
			name, why = "SandboxPausedError", text
		case fault.CauseClosed:
			name, why = "ConnectionError", text
		}
		lines.write(map[string]any{"type": "error", "name": name, "value": why, "traceback": name + ": " + why})
		lines.write(map[string]any{"type": "unexpected_end_of_execution"})
		return
	}
	if res.Dropped > 0 {
		lines.write(map[string]any{"type": "stderr", "text": fmt.Sprintf("(%d bytes of output were left out)\n", res.Dropped), "timestamp": timestamp()})
	}
	if e := res.Error; e != nil {
		lines.write(map[string]any{"type": "error", "name": e.Name, "value": e.Value, "traceback": strings.Join(e.Traceback, "\n")})
	}
	lines.write(map[string]any{"type": "number_of_executions", "execution_count": c.countRun(kernel.ID)})
	if res.Cause == driver.CauseLost {
		if err := c.prepareAgain(ctx, kernel.ID); err != nil {
			s.log.InfoContext(ctx, "a kernel that was started again reports no data of charts", "err", err)
		}
		lines.write(map[string]any{"type": "unexpected_end_of_execution"})
		return
	}
	lines.write(map[string]any{"type": "end_of_execution"})
}

// inStream reports whether /execute answers an error as one of the code: the SDK shows no more of an
// answer than its status. The other errors have a status that clients act on.
func inStream(err error) bool {
	switch fault.Of(err) {
	case fault.Unsupported, fault.InvalidArgument, fault.PermissionDenied, fault.ResourceExhausted:
		return true
	}
	return false
}

// countRun returns the number of a run in its context. The kernel's own number also counts
// the runs of prepare and runWithEnv.
func (c *sandboxCall) countRun(id string) int {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	c.box.counts[id]++
	return c.box.counts[id]
}

// runWithEnv runs code with variables of the environment that are set before and restored
// after it, by runs of their own.
func (c *sandboxCall) runWithEnv(ctx context.Context, kernel driver.CodeContext, code driver.Code, env map[string]string) (driver.CodeResult, error) {
	if len(env) == 0 {
		return c.runCode(ctx, code)
	}
	var set, restore strings.Builder
	for _, key := range slices.Sorted(maps.Keys(env)) {
		value := env[key]
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.IndexByte(value, 0) >= 0 {
			return driver.CodeResult{}, fmt.Errorf("environment variable %.100q: %w: a name is not empty and has no = or NUL", key, fault.InvalidArgument)
		}
		line, err := envCode(kernel.Language, key, &value)
		if err != nil {
			return driver.CodeResult{}, err
		}
		set.WriteString(line)
		var was *string
		if old, ok := c.Env[key]; ok {
			was = &old
		}
		line, err = envCode(kernel.Language, key, was)
		if err != nil {
			return driver.CodeResult{}, err
		}
		restore.WriteString(line)
	}
	if _, err := c.runCode(ctx, driver.Code{Context: code.Context, Source: set.String()}); err != nil {
		return driver.CodeResult{}, err
	}
	res, err := c.runCode(ctx, code)
	if err == nil {
		_, err = c.runCode(context.WithoutCancel(ctx), driver.Code{Context: code.Context, Source: restore.String()})
	}
	return res, err
}

// envCode returns a line that sets a variable of the environment, or removes it if value is
// nil.
func envCode(language, key string, value *string) (string, error) {
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	k, v := encode(key), ""
	if value != nil {
		v = encode(*value)
	}
	switch language = strings.ToLower(language); {
	case language == "python" && value != nil:
		return fmt.Sprintf("__import__('os').environb[__import__('base64').b64decode('%s')] = __import__('base64').b64decode('%s')\n", k, v), nil
	case language == "python":
		return fmt.Sprintf("_ = __import__('os').environb.pop(__import__('base64').b64decode('%s'), None)\n", k), nil
	case (language == "javascript" || language == "typescript") && value != nil:
		return fmt.Sprintf("process.env[atob('%s')] = decodeURIComponent(escape(atob('%s')));\n", k, v), nil
	case language == "javascript" || language == "typescript":
		return fmt.Sprintf("delete process.env[atob('%s')];\n", k), nil
	case language == "bash" && value != nil:
		return fmt.Sprintf("export \"$(printf %%s '%s' | base64 -d)=$(printf %%s '%s' | base64 -d)\"\n", k, v), nil
	case language == "bash":
		return fmt.Sprintf("unset -v \"$(printf %%s '%s' | base64 -d)\"\n", k), nil
	}
	return "", fmt.Errorf("env_vars: %w for code in %s; set them when the sandbox is created", fault.Unsupported, language)
}

// A ndjsonWriter writes lines of JSON, each at once.
type ndjsonWriter struct {
	w     http.ResponseWriter
	flush func() error
	err   error
}

func (l *ndjsonWriter) write(v any) {
	if l.err != nil {
		return
	}
	data, err := json.Marshal(v)
	if err == nil {
		_, err = l.w.Write(append(data, '\n'))
	}
	if err == nil {
		err = l.flush()
	}
	l.err = err
}

func timestamp() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// output writes one output of code.
func (l *ndjsonWriter) output(o driver.Output) error {
	switch o.Kind {
	case driver.OutputStdout, driver.OutputStderr:
		l.write(map[string]any{"type": string(o.Kind), "text": o.Text, "timestamp": timestamp()})
	case driver.OutputDisplay, driver.OutputResult:
		l.write(resultLine(o.Data, o.Kind == driver.OutputResult))
	}
	return l.err
}

// resultTypes are the fields of a result by MIME type.
var resultTypes = map[string]string{
	"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png",
	"image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex", "application/json": "json",
	"application/javascript": "javascript", chartType: "chart", dataType: "data",
}

// MIME types of E2B for what a chart or a table shows.
const (
	chartType = "e2b/chart"
	dataType  = "e2b/data"
)

// resultLine returns a result on the wire.
func resultLine(data map[string][]byte, main bool) map[string]any {
	line := map[string]any{"type": "result", "is_main_result": main}
	extra := map[string]any{}
	for kind, content := range data {
		value := resultValue(kind, content)
		if field := resultTypes[kind]; field != "" {
			line[field] = value
			continue
		}
		extra[kind] = value
	}
	if len(extra) > 0 {
		line["extra"] = extra
	}
	// A string is shown without quotes, as E2B does.
	if text, ok := line["text"].(string); ok && len(text) > 1 && strings.HasPrefix(text, "'") && strings.HasSuffix(text, "'") {
		line["text"] = text[1 : len(text)-1]
	}
	return line
}

// resultValue returns text as it is, JSON as a value, and other content in base64.
func resultValue(kind string, content []byte) any {
	switch {
	case strings.HasSuffix(kind, "json"), kind == chartType, kind == dataType:
		var v any
		if json.Unmarshal(content, &v) == nil {
			return v
		}
		return string(content)
	case strings.HasPrefix(kind, "text/"), strings.HasSuffix(kind, "xml"), kind == "application/javascript":
		return string(content)
	}
	return base64.StdEncoding.EncodeToString(content)
}
