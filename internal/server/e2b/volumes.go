package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/server/httplog"
	provider "github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace/driver"
)

// volumeMount is a volume in a sandbox.
type volumeMount struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// A volume is a named directory that several sandboxes of a tenant mount.
type volume struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Tenant string `json:"tenant,omitempty"`
}

// volumeStore has the volumes of all tenants.
type volumeStore struct {
	file string // JSON list of volumes
	dir  string // directories of volumes by id

	mu   sync.Mutex
	byID map[string]volume // guarded by mu
}

func openVolumes(dir, volumes string) (*volumeStore, error) {
	v := &volumeStore{file: filepath.Join(dir, "volumes.json"), dir: volumes, byID: map[string]volume{}}
	data, err := os.ReadFile(v.file)
	if errors.Is(err, os.ErrNotExist) {
		return v, nil
	}
	var list []volume
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("e2b: read the volumes: %w: %w", fault.Failed, err)
	}
	for _, one := range list {
		if !driver.ValidID(one.ID) { // it is the name of a directory
			return nil, fmt.Errorf("e2b: read the volumes: %w: %.60q is not the id of a volume", fault.Failed, one.ID)
		}
		v.byID[one.ID] = one
	}
	return v, nil
}

// save stores the list of volumes. The caller holds v.mu.
func (v *volumeStore) save() error {
	data, err := json.Marshal(slices.SortedFunc(maps.Values(v.byID), func(a, b volume) int { return strings.Compare(a.ID, b.ID) }))
	if err == nil {
		err = atomicfile.Write(v.file, data, atomicfile.Options{Durable: true})
	}
	if err != nil {
		return fmt.Errorf("e2b: store the volumes: %w: %w", fault.Of(err), err)
	}
	return nil
}

// find returns a volume that the principal sees, by its id or name.
func (v *volumeStore) find(ctx context.Context, ref string) (volume, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one, ok := v.byID[ref]; ok && auth.Sees(ctx, one.Tenant) {
		return one, nil
	}
	for _, one := range v.byID {
		if one.Name == ref && one.Tenant == auth.Tenant(ctx) {
			return one, nil
		}
	}
	return volume{}, fmt.Errorf("volume %.80q: %w: Volume.list lists the volumes", ref, fault.NotFound)
}

// resolve returns the options of the provider for mounts.
func (v *volumeStore) resolve(ctx context.Context, mounts []volumeMount) ([]provider.Volume, error) {
	var out []provider.Volume
	for _, m := range mounts {
		one, err := v.find(ctx, m.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, provider.Volume{Name: one.ID, At: m.Path})
	}
	return out, nil
}

// volumeAnswer is a volume, with the token of its content.
type volumeAnswer struct {
	VolumeID string `json:"volumeID"`
	Name     string `json:"name"`
	Token    string `json:"token,omitempty"`
}

func (s *Server) describeVolume(v volume) volumeAnswer {
	return volumeAnswer{v.ID, v.Name, s.token(volumePurpose, v.ID)}
}

// maxVolumes bounds the volumes of a tenant.
const maxVolumes = 1000

func (s *Server) createVolume(r *http.Request) (answer, error) {
	var in struct {
		Name string `json:"name"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	if err := checkName("volume", in.Name); err != nil {
		return answer{}, err
	}
	one := volume{ID: driver.NewID(), Name: in.Name, Tenant: auth.Tenant(r.Context())}
	s.volumes.mu.Lock()
	defer s.volumes.mu.Unlock()
	count := 0
	for _, other := range s.volumes.byID {
		if other.Tenant != one.Tenant {
			continue
		}
		if count++; other.Name == one.Name {
			return answer{}, fmt.Errorf("volume %s: %w", in.Name, fault.AlreadyExists)
		}
	}
	if count >= maxVolumes {
		return answer{}, fmt.Errorf("volume %s: %w: there are %d volumes; delete some", in.Name, fault.ResourceExhausted, count)
	}
	if err := os.MkdirAll(filepath.Join(s.volumes.dir, one.ID), 0o755); err != nil {
		return answer{}, fmt.Errorf("e2b: create volume %s: %w: %w", in.Name, fault.Of(err), err)
	}
	s.volumes.byID[one.ID] = one
	if err := s.volumes.save(); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, body: s.describeVolume(one), target: one.ID}, nil
}

func (s *Server) listVolumes(r *http.Request) (answer, error) {
	s.volumes.mu.Lock()
	defer s.volumes.mu.Unlock()
	out := []volumeAnswer{}
	for _, id := range slices.Sorted(maps.Keys(s.volumes.byID)) {
		if one := s.volumes.byID[id]; auth.Sees(r.Context(), one.Tenant) {
			out = append(out, volumeAnswer{VolumeID: one.ID, Name: one.Name})
		}
	}
	return answer{body: out}, nil
}

func (s *Server) getVolume(r *http.Request) (answer, error) {
	one, err := s.volumes.find(r.Context(), r.PathValue("volume"))
	return answer{body: s.describeVolume(one)}, err
}

// deleteVolume deletes a volume that no sandbox mounts.
func (s *Server) deleteVolume(r *http.Request) (answer, error) {
	one, err := s.volumes.find(r.Context(), r.PathValue("volume"))
	if err != nil {
		return answer{}, err
	}
	recs, err := s.cfg.Registry.List(auth.Without(r.Context()), registry.Filter{})
	if err != nil {
		return answer{}, err
	}
	for _, rec := range recs {
		box, ok := sandboxOf(rec)
		if ok && rec.Tenant == one.Tenant && slices.ContainsFunc(box.Mounts, func(m volumeMount) bool { return m.Name == one.Name || m.Name == one.ID }) {
			return answer{}, fmt.Errorf("volume %s: %w: sandbox %s mounts it; kill the sandbox first", one.Name, fault.WrongState, rec.ID)
		}
	}
	s.volumes.mu.Lock()
	defer s.volumes.mu.Unlock()
	delete(s.volumes.byID, one.ID)
	if err := s.volumes.save(); err != nil {
		return answer{}, err
	}
	if err := files.RemoveTree(filepath.Join(s.volumes.dir, one.ID)); err != nil {
		return answer{}, fmt.Errorf("e2b: delete volume %s: %w: %w", one.Name, fault.Of(err), err)
	}
	return answer{status: http.StatusNoContent}, nil
}

// serveWithToken answers requests that have a token of their own instead of an API key:
// uploads, and the content of volumes.
func (s *Server) serveWithToken(w http.ResponseWriter, r *http.Request) bool {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] != "volumecontent" {
		return s.serveUpload(w, r)
	}
	var one volume
	a, err := s.volumeContent(w, r, parts, &one)
	if one.ID != "" {
		s.auditToken(r, volumePurpose, one.Tenant, "/volumecontent/{volume}/{part}", one.ID, err)
	}
	switch {
	case err != nil:
		s.writeError(w, r, err)
	case a != nil:
		httplog.WriteJSON(w, max(a.status, http.StatusOK), a.body)
	}
	return true
}

// entryStat describes an entry of a volume.
type entryStat struct {
	Name   string    `json:"name"`
	Path   string    `json:"path"`
	Type   string    `json:"type"`
	Size   int64     `json:"size"`
	Mode   uint32    `json:"mode"`
	UID    int       `json:"uid"`
	GID    int       `json:"gid"`
	ATime  time.Time `json:"atime"`
	MTime  time.Time `json:"mtime"`
	CTime  time.Time `json:"ctime"`
	Target string    `json:"target,omitempty"`
}

// entryTypes are the types of entries as E2B names them.
var entryTypes = map[driver.FileType]string{driver.TypeFile: "file", driver.TypeDir: "directory", driver.TypeSymlink: "symlink", driver.TypeOther: "unknown"}

// describeEntry describes an entry as the user of sandboxes sees it.
func describeEntry(info driver.Info) entryStat {
	const uid = 1000
	return entryStat{
		Name: info.Name(), Path: "/" + strings.TrimPrefix(info.Path, "."), Type: entryTypes[info.Type], Size: info.Size, Mode: uint32(info.Mode),
		UID: uid, GID: uid, ATime: info.ModTime, MTime: info.ModTime, CTime: info.ModTime, Target: info.Target,
	}
}

// volumeContent serves /volumecontent/{volume}/{dir,file,path}. A nil answer was written
// already. It sets one to the volume that the request may use.
func (s *Server) volumeContent(w http.ResponseWriter, r *http.Request, parts []string, one *volume) (*answer, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if len(parts) != 3 || !strings.EqualFold(scheme, "Bearer") || !equal(token, s.token(volumePurpose, parts[1])) {
		return nil, fmt.Errorf("volume: %w: send the token of the volume as Authorization: Bearer TOKEN", fault.Unauthenticated)
	}
	ctx, query := r.Context(), r.URL.Query()
	found, err := s.volumes.find(auth.Without(ctx), parts[1])
	if err != nil {
		return nil, err
	}
	*one = found
	if err := s.cfg.Guard.Rates.Allow(one.Tenant); err != nil {
		return nil, err
	}
	end, err := s.cfg.Guard.Open.Begin(one.Tenant, false)
	if err != nil {
		return nil, err
	}
	defer end()
	root, err := files.Open(filepath.Join(s.volumes.dir, one.ID), nil)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // closing a directory can lose nothing
	fs := root.Module()
	name := strings.Trim(query.Get("path"), "/")
	if name == "" {
		name = "."
	}
	if !driver.ValidName(name) {
		return nil, fmt.Errorf("path %.200q: %w: it leads out of the volume", query.Get("path"), fault.InvalidArgument)
	}
	stat := func(status int) (*answer, error) {
		info, err := fs.Stat(ctx, name, &driver.StatOptions{NoFollow: true})
		return &answer{status: status, body: describeEntry(info)}, err
	}
	switch r.Method + " " + parts[2] {
	case "GET dir":
		return listVolume(ctx, fs, name, query.Get("depth"))
	case "POST dir":
		if err := fs.Mkdir(ctx, name, &driver.MkdirOptions{Parents: query.Get("force") == "true"}); err != nil {
			return nil, err
		}
		return stat(http.StatusCreated)
	case "GET path":
		return stat(http.StatusOK)
	case "PATCH path":
		var in struct {
			UID  *int    `json:"uid"`
			GID  *int    `json:"gid"`
			Mode *uint32 `json:"mode"`
		}
		if err := decode(r, &in); err != nil {
			return nil, err
		}
		if in.UID != nil || in.GID != nil {
			return nil, unsupported("uid and gid", "the files of a volume belong to the user of the sandboxes")
		}
		if in.Mode != nil {
			if err := fs.Chmod(ctx, name, os.FileMode(*in.Mode)); err != nil {
				return nil, err
			}
		}
		return stat(http.StatusOK)
	case "DELETE path":
		return &answer{status: http.StatusNoContent}, fs.Remove(ctx, name, &driver.RemoveOptions{Recursive: true})
	case "GET file":
		body, info, err := fs.Read(ctx, name, &driver.ReadOptions{})
		if err != nil {
			return nil, err
		}
		defer body.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(info.Size, 10))
		w.WriteHeader(http.StatusOK)
		io.Copy(w, body) //nolint:errcheck // the client is gone
		return nil, nil
	case "PUT file":
		opts := &driver.WriteOptions{Parents: true, CreateOnly: query.Get("force") == "false"}
		if text := query.Get("mode"); text != "" {
			mode, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				return nil, badQuery("mode", "%.20q: it is a number", text)
			}
			opts.Mode = os.FileMode(mode)
		}
		if _, err := fs.Write(ctx, name, r.Body, opts); err != nil {
			return nil, err
		}
		return stat(http.StatusCreated)
	}
	return nil, s.noRoute(r)
}

// maxEntries bounds a listing.
const maxEntries = 100_000

// listVolume lists a directory, to a depth.
func listVolume(ctx context.Context, fs *driver.FS, name, depth string) (*answer, error) {
	most := 1
	if depth != "" {
		n, err := strconv.Atoi(depth)
		if err != nil || n < 1 || n > 100 {
			return nil, badQuery("depth", "%.20q: it is 1 to 100", depth)
		}
		most = n
	}
	out := []entryStat{}
	for level := []string{name}; most > 0 && len(level) > 0; most-- {
		var next []string
		for _, dir := range level {
			entries, err := fs.ReadDir(ctx, dir)
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				if len(out) >= maxEntries {
					return nil, fmt.Errorf("path %.200q: %w: it has more than %d entries; list with a smaller depth", name, fault.ResourceExhausted, maxEntries)
				}
				out = append(out, describeEntry(e))
				if e.Type == driver.TypeDir {
					next = append(next, e.Path)
				}
			}
		}
		level = next
	}
	return &answer{body: out}, nil
}
