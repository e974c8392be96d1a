package e2b

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/workspace/driver"
)

// requestBuild makes a template, or a further build of one with the same name.
func (s *Server) requestBuild(r *http.Request) (answer, error) {
	var in struct {
		Name        string   `json:"name"`
		Alias       string   `json:"alias"` // of older SDKs
		Tags        []string `json:"tags"`
		CPUCount    int64    `json:"cpuCount"`
		MemoryMB    int64    `json:"memoryMB"`
		MinFreeDisk int64    `json:"minFreeDiskMb"` // sandboxes share the disk of the server
		TeamID      string   `json:"teamID"`        // the tenant is that of the API key
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	name, tag := splitTag(cmp.Or(in.Name, in.Alias))
	if err := checkName("template", name); err != nil {
		return answer{}, err
	}
	tags := in.Tags
	if len(tags) > maxBuildTags {
		return answer{}, fmt.Errorf("tags: %w: a build has at most %d", fault.InvalidArgument, maxBuildTags)
	}
	if len(tags) == 0 || tag != defaultTag {
		tags = append([]string{tag}, tags...)
	}
	for _, tag := range tags {
		if err := checkName("tag", tag); err != nil {
			return answer{}, err
		}
	}
	if in.CPUCount < 0 || in.CPUCount > 1024 || in.MemoryMB < 0 || in.MemoryMB > 1<<24 || in.MemoryMB > 0 && in.MemoryMB < 128 {
		return answer{}, fmt.Errorf("cpuCount %d, memoryMB %d: %w: cpuCount is 1 to 1024, and memoryMB at least 128", in.CPUCount, in.MemoryMB, fault.InvalidArgument)
	}
	now := time.Now().UTC()
	b := &build{ID: newBuildID(), Status: waiting, Tags: tags, CPU: in.CPUCount, MemoryMB: in.MemoryMB, Created: now, Updated: now}
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	one := s.templates.locate(r.Context(), name)
	if one != nil && one.Sandbox != "" {
		return answer{}, fmt.Errorf("template %s: %w: a snapshot has this name", name, fault.AlreadyExists)
	}
	if one == nil || one.Tenant != auth.Tenant(r.Context()) {
		one = &storedTemplate{ID: driver.NewID(), Tenant: auth.Tenant(r.Context()), Name: name, Created: now}
	}
	if err := s.makeRoom(r.Context(), one); err != nil {
		return answer{}, err
	}
	one.Builds = append(one.Builds, b)
	if err := s.templates.save(one); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusAccepted, target: one.ID, body: map[string]any{
		"templateID": one.ID, "buildID": b.ID, "aliases": one.names(), "names": one.names(), "tags": tags, "public": false,
	}}, nil
}

// Bounds of what a tenant stores without a quota of its own.
const (
	maxTemplates = 1000 // templates and snapshots of a tenant
	maxBuilds    = 100  // builds of a template; older ones without a tag are deleted
	maxBuildTags = 20
	maxRunning   = 20 // builds of a tenant that run at once
)

// makeRoom makes room for a further build of a template, which may be new. The caller holds
// s.templates.mu.
func (s *Server) makeRoom(ctx context.Context, one *storedTemplate) error {
	if s.templates.byID[one.ID] == nil {
		count := 0
		for _, other := range s.templates.byID {
			if other.Tenant == one.Tenant {
				count++
			}
		}
		if count >= maxTemplates {
			return fmt.Errorf("template: %w: there are %d templates and snapshots; delete some", fault.ResourceExhausted, count)
		}
	}
	for len(one.Builds) >= maxBuilds {
		at := slices.IndexFunc(one.Builds, func(b *build) bool { return b.Status != building && !one.hasTag(b.ID) })
		if at < 0 {
			return fmt.Errorf("template %s: %w: it has %d builds with tags; remove a tag", one.Name, fault.ResourceExhausted, maxBuilds)
		}
		old := one.Builds[at]
		one.Builds = slices.Delete(one.Builds, at, at+1)
		s.deleteBuild(ctx, one.ID, old)
	}
	return nil
}

// Uploads are archives of the files of COPY steps, by the hash that the SDK makes of them.
// They are kept until the builds of the template have ended.

func (s *Server) uploadDir(id string) string {
	return filepath.Join(s.cfg.Dir, "uploads", id)
}

var hashName = lazyregexp.New(`^[0-9a-f]{16,128}$`)

// maxUpload bounds the archives of a tenant.
const maxUpload = 8 << 30

// uploadLink answers whether an archive is there, and the URL to send it to. The URL has a
// token of its own: the SDK sends no API key with it.
func (s *Server) uploadLink(r *http.Request) (answer, error) {
	ref, hash := r.PathValue("template"), r.PathValue("hash")
	s.templates.mu.Lock()
	one := s.templates.locate(r.Context(), ref)
	s.templates.mu.Unlock()
	if one == nil {
		return answer{}, missingTemplate(ref)
	}
	if !hashName.MatchString(hash) {
		return answer{}, fmt.Errorf("hash %.80q: %w: it is hexadecimal", hash, fault.InvalidArgument)
	}
	_, err := os.Stat(filepath.Join(s.uploadDir(one.ID), hash))
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	url := fmt.Sprintf("%s://%s/templates/%s/files/%s?token=%s", scheme, r.Host, one.ID, hash, s.token(uploadPurpose, one.ID+"/"+hash))
	return answer{status: http.StatusCreated, body: map[string]any{"present": err == nil, "url": url}}, nil
}

// storeUpload stores an archive for a build that was requested.
func (s *Server) storeUpload(r *http.Request, one *storedTemplate, hash string) error {
	// One archive of a tenant at a time: together they are within maxUpload.
	unlock, err := s.uploading.Lock(r.Context(), one.Tenant)
	if err != nil {
		return fmt.Errorf("e2b: wait for another upload: %w", err)
	}
	defer unlock()
	left, err := s.uploadsLeft(one)
	if err != nil {
		return err
	}
	dir := s.uploadDir(one.ID)
	err = os.MkdirAll(dir, 0o700)
	if err == nil {
		err = atomicfile.WriteTo(filepath.Join(dir, hash), atomicfile.Options{}, func(w io.Writer) error {
			n, err := io.Copy(w, io.LimitReader(r.Body, left+1))
			if err == nil && n > left {
				err = fmt.Errorf("%w: the files of builds that have not ended are more than %d bytes", fault.ResourceExhausted, int64(maxUpload))
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("e2b: store the files of template %s: %w", one.ID, fault.Default(err, fault.Unavailable))
	}
	return nil
}

// uploadsLeft returns the bytes that may be uploaded for a template, which has a build that
// has not ended.
func (s *Server) uploadsLeft(one *storedTemplate) (int64, error) {
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	if s.templates.byID[one.ID] == nil {
		return 0, missingTemplate(one.ID)
	}
	if !one.hasOpenBuild() {
		return 0, fmt.Errorf("template %s: %w: no build of it waits for files; request one first", one.ID, fault.WrongState)
	}
	left := int64(maxUpload)
	for id, other := range s.templates.byID {
		if other.Tenant != one.Tenant {
			continue
		}
		entries, err := os.ReadDir(s.uploadDir(id))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, fmt.Errorf("e2b: list uploads: %w: %w", fault.Of(err), err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil { // else it was deleted
				left -= info.Size()
			}
		}
	}
	return max(left, 0), nil
}

// deleteUploads deletes the archives of a template that no build needs any more. The caller
// holds s.templates.mu.
func (s *Server) deleteUploads(one *storedTemplate) {
	if one.hasOpenBuild() {
		return
	}
	if err := os.RemoveAll(s.uploadDir(one.ID)); err != nil {
		s.log.Warn("e2b: delete the uploads of a template", "template", one.ID, "error", err)
	}
}

// A buildSpec is the body of POST /v2/templates/{id}/builds/{build}.
type buildSpec struct {
	FromImage         string         `json:"fromImage"`
	FromImageRegistry *imageRegistry `json:"fromImageRegistry"`
	FromTemplate      string         `json:"fromTemplate"`
	StartCmd          string         `json:"startCmd"`
	ReadyCmd          string         `json:"readyCmd"`
	Steps             []buildStep    `json:"steps"`
	Force             bool           `json:"force"` // there is no cache
}

type imageRegistry struct {
	Type     string `json:"type"` // registry, aws or gcp
	Username string `json:"username"`
	Password string `json:"password"`

	AWSAccessKeyID     string `json:"awsAccessKeyId"`
	AWSSecretAccessKey string `json:"awsSecretAccessKey"`
	AWSRegion          string `json:"awsRegion"`
	ServiceAccountJSON string `json:"serviceAccountJson"`
}

type buildStep struct {
	Type      string   `json:"type"`
	Args      []string `json:"args"`
	FilesHash string   `json:"filesHash"`
	Force     bool     `json:"force"`

	// ForceUpload asked the SDK to upload the files although the server has them.
	ForceUpload bool `json:"forceUpload"`
}

// maxSteps bounds the steps of a build.
const maxSteps = 1000

// startBuild runs a build in the background.
func (s *Server) startBuild(r *http.Request) (answer, error) {
	var in buildSpec
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	switch {
	case in.FromImage != "" && in.FromTemplate != "":
		return answer{}, fmt.Errorf("build: %w: it starts from an image or from a template, not from both", fault.InvalidArgument)
	case in.FromImageRegistry != nil && in.FromImageRegistry.Type != "registry":
		return answer{}, unsupported(fmt.Sprintf("fromImageRegistry of type %.40q", in.FromImageRegistry.Type), "give the user name and password of the registry")
	case len(in.Steps) > maxSteps:
		return answer{}, fmt.Errorf("build: %w: %d steps; at most %d are possible", fault.InvalidArgument, len(in.Steps), maxSteps)
	}
	ref, id := r.PathValue("template"), r.PathValue("build")
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	one, b, err := s.locateBuild(r.Context(), ref, id)
	if err != nil {
		return answer{}, err
	}
	if b.Status != waiting {
		return answer{}, fmt.Errorf("build %s: %w: it was started already", id, fault.WrongState)
	}
	if n := s.templates.running(one.Tenant); n >= maxRunning {
		return answer{}, fmt.Errorf("build %s: %w: %d builds are running; wait for one to end", id, fault.ResourceExhausted, n)
	}
	b.Status, b.Updated = building, time.Now().UTC()
	if err := s.templates.save(one); err != nil {
		return answer{}, err
	}
	principal, hasPrincipal := auth.From(r.Context())
	ctx := s.background
	if hasPrincipal {
		ctx = auth.With(ctx, principal)
	}
	s.building.Go(func() { s.runBuild(ctx, one, b, in) })
	return answer{status: http.StatusAccepted}, nil
}

// locateBuild returns a build. The caller holds s.templates.mu.
func (s *Server) locateBuild(ctx context.Context, ref, id string) (*storedTemplate, *build, error) {
	one := s.templates.locate(ctx, ref)
	if one == nil {
		return nil, nil, missingTemplate(ref)
	}
	b := one.build(id)
	if b == nil {
		return nil, nil, fmt.Errorf("build %.60q of template %s: %w", id, ref, fault.NotFound)
	}
	return one, b, nil
}

// statusReason says why a build failed.
type statusReason struct {
	Message string `json:"message"`
	Step    string `json:"step,omitempty"` // base, finalize, or the number of a step from 1 on
}

// logEntry is a line of the log of a build.
type logEntry struct {
	Timestamp time.Time `json:"timestamp"`
	Level     string    `json:"level"`
	Message   string    `json:"message"`
	Step      string    `json:"step,omitempty"`
}

// maxLogEntries is the maximum of the entries of one answer.
const maxLogEntries = 100

func (s *Server) buildStatus(r *http.Request) (answer, error) {
	offset := 0
	query := r.URL.Query()
	if text := query.Get("logsOffset"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return answer{}, badQuery("logsOffset", "%.20q: it is a number of entries", text)
		}
		offset = n
	}
	ref, id := r.PathValue("template"), r.PathValue("build")
	s.templates.mu.Lock()
	one, b, err := s.locateBuild(r.Context(), ref, id)
	if err != nil {
		s.templates.mu.Unlock()
		return answer{}, err
	}
	out := struct {
		TemplateID string        `json:"templateID"`
		BuildID    string        `json:"buildID"`
		Status     string        `json:"status"`
		Logs       []string      `json:"logs"`
		LogEntries []logEntry    `json:"logEntries"`
		Reason     *statusReason `json:"reason,omitempty"`
	}{one.ID, b.ID, b.Status, []string{}, []logEntry{}, b.Reason}
	s.templates.mu.Unlock()
	entries, err := readLog(s.logFile(id))
	if err != nil {
		return answer{}, err
	}
	entries = filterLevel(entries, query.Get("level"))
	for _, e := range entries[min(offset, len(entries)):min(offset+maxLogEntries, len(entries))] {
		out.LogEntries = append(out.LogEntries, e)
		out.Logs = append(out.Logs, e.Message)
	}
	return answer{body: out}, nil
}

func (s *Server) buildLogs(r *http.Request) (answer, error) {
	query := r.URL.Query()
	ref, id := r.PathValue("template"), r.PathValue("build")
	s.templates.mu.Lock()
	_, _, err := s.locateBuild(r.Context(), ref, id)
	s.templates.mu.Unlock()
	if err != nil {
		return answer{}, err
	}
	entries, err := readLog(s.logFile(id))
	if err != nil {
		return answer{}, err
	}
	page, err := logPage(query, filterLevel(entries, query.Get("level")), func(e logEntry) time.Time { return e.Timestamp })
	if err != nil {
		return answer{}, err
	}
	return answer{body: map[string]any{"logs": page}}, nil
}

func (s *Server) logFile(build string) string {
	return filepath.Join(s.cfg.Dir, "builds", build+".jsonl")
}

// levels orders the levels of logs.
var levels = []string{"debug", "info", "warn", "error"}

func filterLevel(entries []logEntry, level string) []logEntry {
	least := slices.Index(levels, level)
	return slices.DeleteFunc(entries, func(e logEntry) bool { return slices.Index(levels, e.Level) < least })
}

// readLog reads the log of a build; one that has not begun is empty.
func readLog(path string) ([]logEntry, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("e2b: read the log of a build: %w: %w", fault.Of(err), err)
	}
	defer f.Close()
	var entries []logEntry
	for dec := json.NewDecoder(f); ; {
		var e logEntry
		if err := dec.Decode(&e); err != nil {
			return entries, nil // the end, or a line that is being written
		}
		entries = append(entries, e)
	}
}

// serveUpload stores an archive that is sent to the URL of uploadLink. It reports false for
// any other request.
func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request) bool {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if r.Method != http.MethodPut || len(parts) != 4 || parts[0] != "templates" || parts[2] != "files" {
		return false
	}
	id, hash := parts[1], parts[3]
	if !driver.ValidID(id) || !hashName.MatchString(hash) || !equal(r.URL.Query().Get("token"), s.token(uploadPurpose, id+"/"+hash)) {
		s.writeError(w, r, fmt.Errorf("upload: %w: the URL is not one that this server gave", fault.Unauthenticated))
		return true
	}
	s.templates.mu.Lock()
	one := s.templates.byID[id]
	s.templates.mu.Unlock()
	err := missingTemplate(id)
	if one != nil {
		err = s.storeUpload(r, one, hash)
		s.auditToken(r, uploadPurpose, one.Tenant, "/templates/{template}/files/{hash}", id, err)
	}
	if err != nil {
		s.writeError(w, r, err)
		return true
	}
	w.WriteHeader(http.StatusOK)
	return true
}

// equal compares tokens in constant time.
func equal(got, want string) bool { return subtle.ConstantTimeCompare([]byte(got), []byte(want)) == 1 }
