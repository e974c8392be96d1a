package e2b

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/server/e2b/envd"
	"github.com/croft-run/croft/snapshot/template"
	"github.com/croft-run/croft/workspace/driver"
)

// Templates that exist without being built: a sandbox with the programs of the host and an
// empty home.
const (
	baseTemplate = "base"
	codeTemplate = "code-interpreter-v1"
)

var builtin = []string{baseTemplate, codeTemplate}

// A storedTemplate is a template of E2B's API, or a snapshot of a sandbox, which E2B treats as
// one. It is a JSON file in the directory of the server.
type storedTemplate struct {
	ID      string               `json:"id"`
	Tenant  string               `json:"tenant,omitempty"`
	Name    string               `json:"name,omitempty"`
	Sandbox string               `json:"sandbox,omitempty"` // of a snapshot: the sandbox that it was taken of
	Tags    map[string]storedTag `json:"tags,omitempty"`    // by name
	Builds  []*build             `json:"builds"`            // oldest first
	Created time.Time            `json:"created"`
	Updated time.Time            `json:"updated"`
	Spawned time.Time            `json:"spawned,omitzero"`
	Spawns  int                  `json:"spawns,omitempty"`
}

type storedTag struct {
	Build   string    `json:"build"`
	Created time.Time `json:"created"`
}

// A build is one state of a template.
type build struct {
	ID       string        `json:"id"`
	Status   string        `json:"status"`
	Tags     []string      `json:"tags,omitempty"` // to set when it is ready
	CPU      int64         `json:"cpu,omitempty"`
	MemoryMB int64         `json:"memoryMB,omitempty"`
	Created  time.Time     `json:"created"`
	Updated  time.Time     `json:"updated"`
	Finished time.Time     `json:"finished,omitzero"`
	Reason   *statusReason `json:"reason,omitempty"`

	Workspace string `json:"workspace,omitempty"` // in which it runs; "" before and after

	result
}

// A result is what a build leaves: what a sandbox starts from.
type result struct {
	Snapshot string            `json:"snapshot,omitempty"` // "" is an empty home
	Rootfs   string            `json:"rootfs,omitempty"`   // snapshot with the files of an image; "" is the programs of the host
	Env      map[string]string `json:"env,omitempty"`
	Workdir  string            `json:"workdir,omitempty"`
	User     string            `json:"user,omitempty"`
	StartCmd string            `json:"startCmd,omitempty"`
	ReadyCmd string            `json:"readyCmd,omitempty"`
}

// Statuses of a build.
const (
	waiting  = "waiting"
	building = "building"
	ready    = "ready"
	failed   = "error"
)

// defaultTag is the tag of a template that is named without one.
const defaultTag = "default"

// templateStore has the templates of all tenants.
type templateStore struct {
	dir string // files by id

	mu   sync.Mutex
	byID map[string]*storedTemplate // guarded by mu
}

// openTemplates reads the templates. A build that a crash interrupted has failed.
func openTemplates(dir string) (*templateStore, error) {
	t := &templateStore{dir: filepath.Join(dir, "templates"), byID: map[string]*storedTemplate{}}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, fmt.Errorf("e2b: create the directory of templates: %w: %w", fault.Of(err), err)
	}
	// No build continues, so no upload is needed.
	if err := os.RemoveAll(filepath.Join(dir, "uploads")); err != nil {
		return nil, fmt.Errorf("e2b: delete uploads: %w: %w", fault.Of(err), err)
	}
	paths, err := filepath.Glob(filepath.Join(t.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("e2b: list templates: %w: %w", fault.Of(err), err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("e2b: read a template: %w: %w", fault.Of(err), err)
		}
		one := new(storedTemplate)
		if err := json.Unmarshal(data, one); err != nil || !driver.ValidID(one.ID) || len(one.Builds) == 0 {
			return nil, fmt.Errorf("e2b: read template %s: %w: it is not a template: %w", path, fault.Failed, err)
		}
		for _, b := range one.Builds {
			if !buildID.MatchString(b.ID) { // it is the name of a file
				return nil, fmt.Errorf("e2b: read template %s: %w: %.60q is not the id of a build", path, fault.Failed, b.ID)
			}
			if b.Status == building || b.Status == waiting {
				b.fail("", "the server was restarted; build again")
			}
		}
		t.byID[one.ID] = one
	}
	return t, nil
}

func (b *build) fail(step, message string) {
	const most = 4096
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "")
	}
	b.Status, b.Reason, b.Finished = failed, &statusReason{Message: message, Step: step}, time.Now().UTC()
}

// save stores a template. The caller holds t.mu.
func (t *templateStore) save(one *storedTemplate) error {
	one.Updated = time.Now().UTC()
	data, err := json.Marshal(one)
	if err == nil {
		err = atomicfile.Write(filepath.Join(t.dir, one.ID+".json"), data, atomicfile.Options{Durable: true})
	}
	if err != nil {
		return fmt.Errorf("e2b: store template %s: %w: %w", one.ID, fault.Of(err), err)
	}
	t.byID[one.ID] = one
	return nil
}

// locate returns a template that the principal sees, by its id or name. Of two names, that
// of its own tenant comes first. The caller holds t.mu.
func (t *templateStore) locate(ctx context.Context, ref string) *storedTemplate {
	if one := t.byID[ref]; one != nil && auth.Sees(ctx, one.Tenant) {
		return one
	}
	var found *storedTemplate
	for _, one := range t.byID {
		if one.Name == ref && auth.Sees(ctx, one.Tenant) && (found == nil || one.Tenant == auth.Tenant(ctx)) {
			found = one
		}
	}
	return found
}

// ids returns the templates of the principal, sorted by their ids. The caller holds t.mu.
func (t *templateStore) visible(ctx context.Context, snapshots bool) []*storedTemplate {
	var list []*storedTemplate
	for _, id := range slices.Sorted(maps.Keys(t.byID)) {
		if one := t.byID[id]; auth.Sees(ctx, one.Tenant) && (one.Sandbox != "") == snapshots {
			list = append(list, one)
		}
	}
	return list
}

// A startingPoint is what a sandbox starts from.
type startingPoint struct {
	result
	ID, Alias, Build string
	Source           driver.Source
	Limits           driver.Limits
}

// resolve returns what a template stands for: one that is built in, one that was built or
// taken by E2B's API, or one of the catalog, by its name.
func (t *templateStore) resolve(ctx context.Context, ref string, catalog *template.Catalog) (startingPoint, error) {
	if slices.Contains(builtin, ref) {
		return startingPoint{ID: ref, Alias: ref}, nil
	}
	name, tag := splitTag(ref)
	t.mu.Lock()
	one := t.locate(ctx, name)
	if one != nil {
		defer t.mu.Unlock()
		b, err := one.tagged(tag)
		if err != nil {
			return startingPoint{}, err
		}
		one.Spawned, one.Spawns = time.Now().UTC(), one.Spawns+1
		p := startingPoint{result: b.result, ID: one.ID, Alias: one.Name, Build: b.ID, Limits: b.limits()}
		if b.Snapshot != "" {
			p.Source = driver.Source{Snapshot: b.Snapshot, CrossSession: true}
		}
		return p, nil
	}
	t.mu.Unlock()
	if catalog != nil && driver.ValidWorkspaceName(ref) {
		if found, err := catalog.Get(ctx, ref); err == nil {
			return startingPoint{ID: found.Name, Alias: found.Name, Source: driver.Source{Snapshot: found.Snapshot, CrossSession: true}}, nil
		}
	}
	return startingPoint{}, fmt.Errorf("template %.80q: %w: there is no such template; %q and %q exist, and Template.build makes others",
		ref, fault.NotFound, baseTemplate, codeTemplate)
}

func (b *build) limits() driver.Limits {
	l := driver.Limits{}
	if b.CPU > 0 {
		l[driver.ResourceCPU] = driver.Limit{Max: b.CPU * 1000, BestEffort: true}
	}
	if b.MemoryMB > 0 {
		l[driver.ResourceMemory] = driver.Limit{Max: b.MemoryMB << 20, BestEffort: true}
	}
	if len(l) == 0 {
		return nil
	}
	return l
}

// splitTag splits NAME:TAG.
func splitTag(ref string) (name, tag string) {
	name, tag, _ = strings.Cut(ref, ":")
	return name, cmp.Or(tag, defaultTag)
}

// tagged returns the build of a tag.
func (one *storedTemplate) tagged(tag string) (*build, error) {
	at, ok := one.Tags[tag]
	if !ok && tag == "latest" { // as Docker names the tag that counts without one
		at, ok = one.Tags[defaultTag]
	}
	if ok {
		if b := one.build(at.Build); b != nil && b.Status == ready {
			return b, nil
		}
	}
	var known []string
	for name := range one.Tags {
		known = append(known, name)
	}
	slices.Sort(known)
	if len(known) == 0 {
		return nil, fmt.Errorf("template %s: %w: it has no build that is ready; Template.getBuildStatus says why", cmp.Or(one.Name, one.ID), fault.NotFound)
	}
	return nil, fmt.Errorf("tag %.60q of template %s: %w: its tags are %s", tag, cmp.Or(one.Name, one.ID), fault.NotFound, strings.Join(known, ", "))
}

// hasTag reports whether a tag names a build.
func (one *storedTemplate) hasTag(id string) bool {
	for _, tag := range one.Tags {
		if tag.Build == id {
			return true
		}
	}
	return false
}

// hasOpenBuild reports whether a build was requested that has not ended.
func (one *storedTemplate) hasOpenBuild() bool {
	return slices.ContainsFunc(one.Builds, func(b *build) bool { return b.Status == waiting || b.Status == building })
}

// running counts the builds of a tenant that run. The caller holds t.mu.
func (t *templateStore) running(tenant string) int {
	n := 0
	for _, one := range t.byID {
		for _, b := range one.Builds {
			if one.Tenant == tenant && b.Status == building {
				n++
			}
		}
	}
	return n
}

func (one *storedTemplate) build(id string) *build {
	for _, b := range one.Builds {
		if b.ID == id {
			return b
		}
	}
	return nil
}

// names lists the names of a template with their tags.
func (one *storedTemplate) names() []string {
	out := []string{}
	if one.Name != "" {
		out = append(out, one.Name)
	}
	return out
}

var buildID = lazyregexp.New(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// newBuildID returns a random UUID.
func newBuildID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// templateName matches the names of templates and tags.
var templateName = lazyregexp.New(`^[a-z0-9][a-z0-9_.-]{0,127}$`)

func checkName(what, name string) error {
	if !templateName.MatchString(name) || driver.ValidID(name) || slices.Contains(builtin, name) {
		return fmt.Errorf("%s %.80q: %w: a name has up to 128 lower-case letters, digits, - . and _, is not the form of an id, and is not that of a built-in template",
			what, name, fault.InvalidArgument)
	}
	return nil
}

// templateAnswer is a template in a list.
type templateAnswer struct {
	TemplateID    string     `json:"templateID"`
	BuildID       string     `json:"buildID"`
	BuildStatus   string     `json:"buildStatus"`
	CPUCount      int64      `json:"cpuCount"`
	MemoryMB      int64      `json:"memoryMB"`
	DiskSizeMB    int64      `json:"diskSizeMB"`
	Public        bool       `json:"public"`
	Aliases       []string   `json:"aliases"`
	Names         []string   `json:"names"`
	CreatedAt     time.Time  `json:"createdAt"`
	UpdatedAt     time.Time  `json:"updatedAt"`
	CreatedBy     *struct{}  `json:"createdBy"`
	LastSpawnedAt *time.Time `json:"lastSpawnedAt"`
	SpawnCount    int        `json:"spawnCount"`
	BuildCount    int        `json:"buildCount"`
	EnvdVersion   string     `json:"envdVersion"`
}

func (one *storedTemplate) answer() templateAnswer {
	last := one.Builds[len(one.Builds)-1]
	cpu, memory, _ := sizes(last.limits())
	out := templateAnswer{
		TemplateID: one.ID, BuildID: last.ID, BuildStatus: last.Status, CPUCount: cpu, MemoryMB: memory, Aliases: one.names(), Names: one.names(),
		CreatedAt: one.Created, UpdatedAt: one.Updated, SpawnCount: one.Spawns, BuildCount: len(one.Builds), EnvdVersion: envd.Version,
	}
	if !one.Spawned.IsZero() {
		out.LastSpawnedAt = &one.Spawned
	}
	return out
}

func builtinAnswer(name string) templateAnswer {
	cpu, memory, _ := sizes(nil)
	return templateAnswer{
		TemplateID: name, BuildStatus: ready, CPUCount: cpu, MemoryMB: memory, Public: true, Aliases: []string{name}, Names: []string{name},
		EnvdVersion: envd.Version,
	}
}

func (s *Server) listTemplates(r *http.Request) (answer, error) {
	out := []templateAnswer{}
	for _, name := range builtin {
		out = append(out, builtinAnswer(name))
	}
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	for _, one := range s.templates.visible(r.Context(), false) {
		out = append(out, one.answer())
	}
	return answer{body: out}, nil
}

// buildAnswer is a build of a template.
type buildAnswer struct {
	BuildID    string     `json:"buildID"`
	Status     string     `json:"status"`
	CPUCount   int64      `json:"cpuCount"`
	MemoryMB   int64      `json:"memoryMB"`
	CreatedAt  time.Time  `json:"createdAt"`
	UpdatedAt  time.Time  `json:"updatedAt"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
}

func (s *Server) getTemplate(r *http.Request) (answer, error) {
	ref := r.PathValue("template")
	type full struct {
		templateAnswer
		Builds []buildAnswer `json:"builds"`
	}
	if slices.Contains(builtin, ref) {
		return answer{body: full{builtinAnswer(ref), []buildAnswer{}}}, nil
	}
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	one := s.templates.locate(r.Context(), ref)
	if one == nil {
		return answer{}, missingTemplate(ref)
	}
	out := full{templateAnswer: one.answer(), Builds: []buildAnswer{}}
	for _, b := range slices.Backward(one.Builds) {
		cpu, memory, _ := sizes(b.limits())
		built := buildAnswer{BuildID: b.ID, Status: b.Status, CPUCount: cpu, MemoryMB: memory, CreatedAt: b.Created, UpdatedAt: b.Updated}
		if !b.Finished.IsZero() {
			built.FinishedAt = &b.Finished
		}
		out.Builds = append(out.Builds, built)
	}
	return answer{body: out}, nil
}

func missingTemplate(ref string) error {
	return fmt.Errorf("template %.80q: %w: GET /templates lists the templates", ref, fault.NotFound)
}

func (s *Server) getPart(r *http.Request) (answer, error) {
	switch template, part := r.PathValue("template"), r.PathValue("part"); {
	case template == "aliases":
		return s.getAlias(r.Context(), part)
	case part == "tags":
		return s.listTags(r.Context(), template)
	}
	return answer{}, s.noRoute(r)
}

func (s *Server) getAlias(ctx context.Context, ref string) (answer, error) {
	alias, _ := splitTag(ref)
	out := struct {
		TemplateID string `json:"templateID"`
		Public     bool   `json:"public"`
	}{TemplateID: alias, Public: true}
	if slices.Contains(builtin, alias) {
		return answer{body: out}, nil
	}
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	one := s.templates.locate(ctx, alias)
	if one == nil {
		return answer{}, missingTemplate(alias)
	}
	out.TemplateID, out.Public = one.ID, false
	return answer{body: out}, nil
}

// deleteTemplate deletes a template or a snapshot. Sandboxes that started from it stay.
func (s *Server) deleteTemplate(r *http.Request) (answer, error) {
	ref, _ := splitTag(r.PathValue("template"))
	if slices.Contains(builtin, ref) {
		return answer{}, fmt.Errorf("template %s: %w: it is built in", ref, fault.PermissionDenied)
	}
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	one := s.templates.locate(r.Context(), ref)
	if one == nil {
		return answer{}, missingTemplate(ref)
	}
	if slices.ContainsFunc(one.Builds, func(b *build) bool { return b.Status == building }) {
		return answer{}, fmt.Errorf("template %s: %w: a build of it is running; wait for its end", ref, fault.WrongState)
	}
	if err := os.Remove(filepath.Join(s.templates.dir, one.ID+".json")); err != nil {
		return answer{}, fmt.Errorf("e2b: delete template %s: %w: %w", one.ID, fault.Of(err), err)
	}
	delete(s.templates.byID, one.ID)
	ctx, cancel := cleanup(r.Context())
	defer cancel()
	s.deleteBuilds(ctx, one)
	return answer{status: http.StatusNoContent}, nil
}

// deleteBuilds deletes the files of a template, except snapshots that sandboxes need.
func (s *Server) deleteBuilds(ctx context.Context, one *storedTemplate) {
	for _, b := range one.Builds {
		s.deleteBuild(ctx, one.ID, b)
	}
	if err := os.RemoveAll(s.uploadDir(one.ID)); err != nil {
		s.log.Warn("e2b: delete the uploads of a template", "template", one.ID, "error", err)
	}
}

// deleteBuild deletes the files of a build that its template no longer has.
func (s *Server) deleteBuild(ctx context.Context, template string, b *build) {
	if b.Snapshot != "" && s.cfg.Snapshots != nil {
		// WrongState: a sandbox started from it, which compares its files with it.
		if err := s.cfg.Snapshots.Delete(ctx, b.Snapshot); err != nil && fault.Of(err) != fault.WrongState {
			s.log.Warn("e2b: delete the files of a template", "template", template, "error", err)
		}
	}
	_ = os.Remove(s.logFile(b.ID)) // it is small, and nothing refers to it
	s.deleteImage(ctx, b.Rootfs)
}

// tagBody is the body of POST and DELETE /templates/tags.
type tagBody struct {
	Target string   `json:"target"` // of POST: NAME or NAME:TAG
	Name   string   `json:"name"`   // of DELETE
	Tags   []string `json:"tags"`
}

func (s *Server) assignTags(r *http.Request) (answer, error) {
	var in tagBody
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	name, tag := splitTag(in.Target)
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	one := s.templates.locate(r.Context(), name)
	if one == nil {
		return answer{}, missingTemplate(name)
	}
	b, err := one.tagged(tag)
	if err != nil {
		return answer{}, err
	}
	for _, tag := range in.Tags {
		if err := checkName("tag", tag); err != nil {
			return answer{}, err
		}
	}
	if len(in.Tags) == 0 || len(in.Tags)+len(one.Tags) > maxTags {
		return answer{}, fmt.Errorf("tags: %w: give at least one; a template has at most %d", fault.InvalidArgument, maxTags)
	}
	one.setTags(b.ID, in.Tags)
	if err := s.templates.save(one); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, body: map[string]any{"buildID": b.ID, "tags": in.Tags}}, nil
}

// maxTags bounds the tags of a template.
const maxTags = 1000

func (one *storedTemplate) setTags(build string, tags []string) {
	if one.Tags == nil {
		one.Tags = map[string]storedTag{}
	}
	for _, tag := range tags {
		one.Tags[tag] = storedTag{Build: build, Created: time.Now().UTC()}
	}
}

func (s *Server) removeTags(r *http.Request) (answer, error) {
	var in tagBody
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	one := s.templates.locate(r.Context(), in.Name)
	if one == nil {
		return answer{}, missingTemplate(in.Name)
	}
	for _, tag := range in.Tags {
		if _, ok := one.Tags[tag]; !ok {
			return answer{}, fmt.Errorf("tag %.60q of template %s: %w", tag, in.Name, fault.NotFound)
		}
	}
	for _, tag := range in.Tags {
		delete(one.Tags, tag)
	}
	return answer{status: http.StatusNoContent}, s.templates.save(one)
}

func (s *Server) listTags(ctx context.Context, ref string) (answer, error) {
	type tagAnswer struct {
		Tag       string    `json:"tag"`
		BuildID   string    `json:"buildID"`
		CreatedAt time.Time `json:"createdAt"`
	}
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	one := s.templates.locate(ctx, ref)
	if one == nil {
		return answer{}, missingTemplate(ref)
	}
	out := []tagAnswer{}
	for _, name := range slices.Sorted(maps.Keys(one.Tags)) {
		out = append(out, tagAnswer{name, one.Tags[name].Build, one.Tags[name].Created})
	}
	return answer{body: out}, nil
}
