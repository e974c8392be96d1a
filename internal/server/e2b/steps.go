package e2b

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/shellword"
	"github.com/croft-run/croft/internal/sleep"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// buildTimeout bounds a build.
const buildTimeout = time.Hour

// Names of the steps before the first and after the last one.
const (
	baseStep     = "base"
	finalizeStep = "finalize"
)

// A builder runs the steps of one build in a workspace.
type builder struct {
	server *Server
	ws     *workspace.Workspace
	log    *buildLog
	result result
}

// runBuild runs a build and stores its outcome.
func (s *Server) runBuild(ctx context.Context, one *storedTemplate, b *build, in buildSpec) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	log, err := openLog(s.logFile(b.ID))
	var out result
	step := baseStep
	if err == nil {
		out, step, err = s.build(ctx, one, b, in, log)
	}
	if err != nil {
		log.write("error", step, fault.Public(err))
		if fault.IsPrivate(err) {
			s.log.Warn("e2b: build failed", "build", b.ID, "error", err)
		}
	} else {
		log.write("info", finalizeStep, "Build finished")
	}
	log.close()
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	b.Updated, b.Workspace = time.Now().UTC(), ""
	if err != nil {
		b.fail(step, fault.Public(err))
		ctx, cancel := cleanup(ctx)
		defer cancel()
		s.dropImage(ctx, b)
	} else {
		b.Status, b.result, b.Finished = ready, out, b.Updated
		one.setTags(b.ID, b.Tags)
	}
	s.deleteUploads(one)
	if err := s.templates.save(one); err != nil {
		s.log.Error("e2b: store a build", "template", one.ID, "error", err)
	}
}

// build runs the steps in a workspace of its own, and returns the step that failed.
func (s *Server) build(ctx context.Context, one *storedTemplate, b *build, in buildSpec, log *buildLog) (_ result, step string, err error) {
	from, err := s.buildSource(ctx, in, b.ID, log)
	if err != nil {
		return result{}, baseStep, err
	}
	id := driver.NewID()
	if err := s.recordBuild(one, b, id, from.Rootfs); err != nil {
		return result{}, baseStep, err
	}
	config, err := from.config(nil)
	if err != nil {
		return result{}, baseStep, err
	}
	spec := driver.Spec{
		ID: id, From: from.Source, Config: config,
		Policy: driver.Policy{Limits: b.limits(), Persist: true},
	}
	asked := b.limits()
	if err := s.cfg.Admit(ctx, &spec); err != nil {
		return result{}, baseStep, err
	}
	for _, r := range driver.Resources {
		if got := spec.Policy.Limits[r.Name]; got.Max < asked[r.Name].Max {
			log.write("warn", baseStep, fmt.Sprintf("%s: %s is asked for, and the server gives at most %s", r.Name, r.Unit.Text(asked[r.Name].Max), r.Unit.Text(got.Max)))
		}
	}
	rec, err := s.cfg.Registry.CreateWith(ctx, spec, registry.Attributes{EndAt: time.Now().Add(buildTimeout)})
	if err != nil {
		return result{}, baseStep, err
	}
	defer func() {
		ctx, cancel := cleanup(ctx)
		defer cancel()
		err = errors.Join(err, s.cfg.Registry.Destroy(ctx, rec.ID))
	}()
	ws, err := s.cfg.Registry.Acquire(ctx, rec.ID)
	if err != nil {
		return result{}, baseStep, err
	}
	run := &builder{server: s, ws: ws, log: log, result: from.result}
	run.result.Env = maps.Clone(from.Env)
	if run.result.Env == nil {
		run.result.Env = map[string]string{}
	}
	for i, st := range in.Steps {
		name := strconv.Itoa(i + 1)
		log.write("info", name, fmt.Sprintf("[%d/%d] %s %s", i+1, len(in.Steps), st.Type, strings.Join(st.Args, " ")))
		if err := run.step(ctx, one.ID, name, st); err != nil {
			return result{}, name, err
		}
	}
	if size := run.result.size(); size+len(in.StartCmd)+len(in.ReadyCmd) > maxResult {
		return result{}, finalizeStep, fmt.Errorf("template: %w: its environment variables, user, directory and commands have more than %d bytes", fault.InvalidArgument, maxResult)
	}
	if err := run.finish(ctx, in, b.ID); err != nil {
		return result{}, finalizeStep, err
	}
	return run.result, "", nil
}

// recordBuild stores what a build is about to use, so that it is removed if the build fails, or
// when the server starts after a crash.
func (s *Server) recordBuild(one *storedTemplate, b *build, workspace, image string) error {
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	b.Workspace, b.Rootfs = workspace, image
	return s.templates.save(one)
}

// dropImage deletes the image of a build that has failed, unless another one uses it. The caller
// holds s.templates.mu.
func (s *Server) dropImage(ctx context.Context, b *build) {
	image := b.Rootfs
	b.Rootfs = ""
	s.deleteImage(ctx, image)
}

// removeInterrupted removes the workspaces and images of builds that a crash interrupted.
func (s *Server) removeInterrupted() {
	s.templates.mu.Lock()
	found := map[*build]*storedTemplate{}
	for _, one := range s.templates.byID {
		for _, b := range one.Builds {
			if b.Status == failed && b.Workspace != "" {
				found[b] = one
			}
		}
	}
	s.templates.mu.Unlock()
	for b, one := range found { // nothing else changes the workspace of a build that has ended
		if err := s.cfg.Registry.Destroy(s.background, b.Workspace); err != nil && fault.Of(err) != fault.NotFound {
			s.log.Warn("e2b: remove the workspace of a build; it ends by itself", "workspace", b.Workspace, "error", err)
		}
		s.templates.mu.Lock()
		if s.templates.byID[one.ID] == one { // else it was deleted, with its builds
			s.dropImage(s.background, b)
			b.Workspace = ""
			if err := s.templates.save(one); err != nil {
				s.log.Error("e2b: store a build", "template", one.ID, "error", err)
			}
		}
		s.templates.mu.Unlock()
	}
}

// maxResult bounds what a template has besides its files. Templates are kept in memory.
const maxResult = 64 << 10

func (r result) size() int {
	size := len(r.Workdir) + len(r.User)
	for key, value := range r.Env {
		size += len(key) + len(value)
	}
	return size
}

// step runs one step.
func (b *builder) step(ctx context.Context, template, name string, st buildStep) error {
	switch st.Type {
	case "RUN":
		if len(st.Args) < 1 || st.Args[0] == "" {
			return fmt.Errorf("RUN: %w: there is no command", fault.InvalidArgument)
		}
		return b.run(ctx, name, st.Args[0])
	case "ENV":
		if len(st.Args)%2 != 0 {
			return fmt.Errorf("ENV: %w: the arguments are pairs of names and values", fault.InvalidArgument)
		}
		for i := 0; i < len(st.Args); i += 2 {
			b.result.Env[st.Args[i]] = st.Args[i+1]
		}
		return nil
	case "WORKDIR":
		if len(st.Args) != 1 {
			return fmt.Errorf("WORKDIR: %w: it has one argument, a directory", fault.InvalidArgument)
		}
		dir := path.Join(b.workdir(), st.Args[0])
		if path.IsAbs(st.Args[0]) {
			dir = path.Clean(st.Args[0])
		}
		if err := b.run(ctx, name, "mkdir -p -- "+shellword.Quote(dir)); err != nil {
			return err
		}
		b.result.Workdir = dir
		return nil
	case "USER":
		if len(st.Args) != 1 {
			return fmt.Errorf("USER: %w: it has one argument, a name", fault.InvalidArgument)
		}
		b.result.User = st.Args[0]
		if st.Args[0] != "user" {
			b.log.write("warn", name, fmt.Sprintf("commands run as the sandbox's own user, not as %s", st.Args[0]))
		}
		return nil
	case "COPY":
		return b.copy(ctx, template, name, st)
	}
	return unsupported(fmt.Sprintf("step %.40q", st.Type), "the steps are RUN, COPY, ENV, WORKDIR and USER")
}

func (b *builder) workdir() string {
	if b.result.Workdir != "" {
		return b.result.Workdir
	}
	return b.ws.Traits().Root
}

// run runs a command of a step. Its output goes to the log.
func (b *builder) run(ctx context.Context, step, command string) error {
	stdout, stderr := b.log.lines("info", step), b.log.lines("warn", step)
	res, err := b.ws.Run(ctx, driver.Command{
		Argv: []string{"/bin/bash", "-l", "-c", inDir(b.result.Workdir, command)}, Env: b.result.Env, OnStdout: stdout.add, OnStderr: stderr.add,
	})
	stdout.flush()
	stderr.flush()
	if err != nil {
		return err
	}
	if res.ExitCode != 0 {
		return fmt.Errorf("command %.200q: %w: it exited with status %d%s", command, fault.Failed, res.ExitCode, stepAdvice(command, res.Stderr))
	}
	return nil
}

// stepAdvice returns what a failed command said, and what to do about it.
func stepAdvice(command string, stderr []byte) string {
	var text string
	if strings.Contains(command, "apt-get ") {
		text = "; steps can't install packages of the system: use an image that has them, or install them on the server's host"
	}
	if said := bytes.TrimSpace(stderr); len(said) > 0 {
		text += fmt.Sprintf(": %.500s", said)
	}
	return text
}

// inDir returns a script that runs a command in a directory; "" is the home.
func inDir(dir, command string) string {
	if dir == "" {
		return command
	}
	return "cd -- " + shellword.Quote(dir) + " || exit 1\n" + command
}

// uploadName is the directory in the workspace that an archive is unpacked to.
const uploadName = ".croft-e2b-upload"

// copyScript copies what a pattern matches as Docker's COPY does: the content of a
// directory, or a file to the target, or into it if the target is a directory.
const copyScript = `set -e
shopt -s nullglob dotglob
src=$1 dest=$2 mode=$3
mapfile -t found < <(compgen -G "$src" || true)
[ -e "$src" ] && found=("$src")
[ ${#found[@]} -gt 0 ] || { echo "no file matches" >&2; exit 1; }
for f in "${found[@]}"; do
	[ -z "$mode" ] || chmod -R "$mode" "$f"
	if [ -d "$f" ]; then
		mkdir -p "$dest"
		cp -a "$f"/. "$dest"/
	elif [ "${dest%/}" != "$dest" ] || [ -d "$dest" ] || [ ${#found[@]} -gt 1 ]; then
		mkdir -p "$dest"
		cp -a "$f" "$dest"/
	else
		mkdir -p "$(dirname "$dest")"
		cp -a "$f" "$dest"
	fi
done`

// copy unpacks the files of a COPY step beside the target and copies them.
func (b *builder) copy(ctx context.Context, template, name string, st buildStep) (err error) {
	if len(st.Args) < 2 || !hashName.MatchString(st.FilesHash) {
		return fmt.Errorf("COPY: %w: it needs a source, a target and the hash of uploaded files", fault.InvalidArgument)
	}
	src := path.Clean(st.Args[0])
	if path.IsAbs(src) || src == ".." || strings.HasPrefix(src, "../") {
		return fmt.Errorf("COPY %.200q: %w: the source is relative to the directory of the files", st.Args[0], fault.InvalidArgument)
	}
	mode := ""
	if len(st.Args) > 3 {
		mode = st.Args[3]
	}
	archive, err := os.Open(filepath.Join(b.server.uploadDir(template), st.FilesHash))
	if err != nil {
		return fmt.Errorf("COPY %s: %w: its files were not uploaded", st.Args[0], fault.NotFound)
	}
	defer archive.Close()
	stream, err := unzip(archive)
	if err != nil {
		return err
	}
	if _, err := b.ws.ImportArchive(ctx, stream, uploadName, nil); err != nil {
		return fmt.Errorf("COPY %s: %w", st.Args[0], err)
	}
	defer func() {
		err = errors.Join(err, b.ws.Remove(ctx, uploadName, &workspace.RemoveOptions{Recursive: true}))
	}()
	dest := st.Args[1]
	if !path.IsAbs(dest) {
		dir := strings.HasSuffix(dest, "/") || dest == "."
		if dest = path.Join(b.workdir(), dest); dir {
			dest += "/"
		}
	}
	stderr := b.log.lines("warn", name)
	res, err := b.ws.Run(ctx, driver.Command{
		Argv:     []string{"/bin/bash", "-c", copyScript, "copy", path.Join(b.ws.Traits().Root, uploadName, src), dest, mode},
		OnStderr: stderr.add,
	})
	stderr.flush()
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("COPY %s %s: %w: %.500s", st.Args[0], st.Args[1], fault.Failed, bytes.TrimSpace(res.Stderr))
	}
	return err
}

// unzip returns the content of a file that may be compressed with gzip.
func unzip(f io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(f)
	if head, err := buffered.Peek(2); err != nil || head[0] != 0x1f || head[1] != 0x8b {
		return buffered, nil //nolint:nilerr // a short file is an empty archive
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, fmt.Errorf("uploaded files: %w: %w", fault.InvalidArgument, err)
	}
	return z, nil
}

// buildReadyTimeout bounds the wait for the ready command of a build.
const buildReadyTimeout = 5 * time.Minute

// finish tries the start command, and stores the files.
func (b *builder) finish(ctx context.Context, in buildSpec, id string) error {
	if in.StartCmd != "" {
		b.result.StartCmd = in.StartCmd
	}
	if in.ReadyCmd != "" {
		b.result.ReadyCmd = in.ReadyCmd
	}
	if b.result.StartCmd != "" {
		b.log.write("info", finalizeStep, "Running start command: "+b.result.StartCmd)
		if _, err := b.ws.Start(ctx, startCommand(b.result, b.result.Env)); err != nil {
			return fmt.Errorf("start command: %w", err)
		}
	}
	if b.result.ReadyCmd != "" {
		b.log.write("info", finalizeStep, "Waiting for ready command: "+b.result.ReadyCmd)
		if err := waitReady(ctx, b.ws, b.result, b.result.Env, buildReadyTimeout); err != nil {
			return err
		}
	}
	if err := endProcesses(ctx, b.ws); err != nil {
		return err
	}
	info, err := b.ws.Snapshot(ctx, &driver.SnapshotOptions{
		Name: "e2b-" + id, Labels: map[string]string{snapshot.CauseLabel: "e2b"}, Complete: true,
	})
	if err != nil {
		return err
	}
	b.result.Snapshot = info.ID
	return nil
}

// startCommand is the start command of a template; env is added to that of the workspace.
func startCommand(r result, env map[string]string) driver.Command {
	return driver.Command{
		Argv: []string{"/bin/bash", "-l", "-c", inDir(r.Workdir, r.StartCmd)}, Env: env, Detached: true,
		Labels: map[string]string{startLabel: "true"},
	}
}

// startLabel marks the session of a start command.
const startLabel = "croft.e2b.start"

// readyPause is the pause between two runs of a ready command.
const readyPause = 100 * time.Millisecond

// waitReady runs a ready command until it succeeds.
func waitReady(ctx context.Context, ws *workspace.Workspace, r result, env map[string]string, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		res, err := ws.Run(ctx, driver.Command{Argv: []string{"/bin/bash", "-l", "-c", inDir(r.Workdir, r.ReadyCmd)}, Env: env})
		switch {
		case err == nil && res.ExitCode == 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("ready command %.200q: %w: it did not succeed within %v: %.300s", r.ReadyCmd, fault.DeadlineExceeded, most, bytes.TrimSpace(res.Stderr))
		case err != nil:
			return fmt.Errorf("ready command: %w", err)
		}
		if err := sleep.For(ctx, readyPause); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// A buildLog appends entries to the log of a build.
type buildLog struct {
	file *os.File // nil discards

	mu   sync.Mutex
	left int // guarded by mu; bytes of output that it still takes
}

// maxBuildOutput bounds the output of programs in the log of a build: it is on the server's
// own disk, and is read as a whole.
const maxBuildOutput = 4 << 20

func openLog(path string) (*buildLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("e2b: create the log of a build: %w: %w", fault.Of(err), err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("e2b: create the log of a build: %w: %w", fault.Of(err), err)
	}
	return &buildLog{file: f, left: maxBuildOutput}, nil
}

// write appends an entry. A log that can't be written does not fail the build.
func (l *buildLog) write(level, step, message string) {
	if l == nil {
		return
	}
	data, err := json.Marshal(logEntry{Timestamp: time.Now().UTC(), Level: level, Message: message, Step: step})
	if err == nil {
		l.file.Write(append(data, '\n')) //nolint:errcheck // see above
	}
}

// output appends a line of output, within maxBuildOutput.
func (l *buildLog) output(level, step string, line []byte) {
	const overhead = 100 // of an entry
	size := len(line) + overhead
	l.mu.Lock()
	before := l.left
	l.left = max(l.left-size, 0)
	l.mu.Unlock()
	switch {
	case before >= size:
		l.write(level, step, strings.ToValidUTF8(string(line), "?"))
	case before > 0:
		l.write("warn", step, "the log is full; further output is left out")
	}
}

func (l *buildLog) close() {
	if l != nil {
		l.file.Close()
	}
}

// lineLog writes output as entries, line by line.
type lineLog struct {
	log         *buildLog
	level, step string
	rest        []byte
}

func (l *buildLog) lines(level, step string) *lineLog {
	return &lineLog{log: l, level: level, step: step}
}

// maxLine bounds a line of a log.
const maxLine = 4096

func (l *lineLog) add(data []byte) error {
	l.rest = append(l.rest, data...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found && len(l.rest) < maxLine {
			return nil
		}
		l.log.output(l.level, l.step, line)
		l.rest = rest
	}
}

func (l *lineLog) flush() {
	if len(l.rest) > 0 {
		l.log.output(l.level, l.step, l.rest)
		l.rest = nil
	}
}
