package stage

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/gcerrors"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/answer"
	"github.com/croft-run/croft/internal/blobs"
	"github.com/croft-run/croft/internal/flockfile"
)

// Artifacts stores named, versioned content in a bucket. A saved version never
// changes, and its number is never reused. The first version is 0.
//
// Each version is an object beside a claim: an empty object that is created only if
// it does not exist. The writer that creates the claim owns the number, so concurrent
// writers in any number of processes do not collide. A claim without content is a
// save that failed. This relies on the bucket's create-if-absent. S3, Google and
// Azure have it; directories do not, so these use a flock: see OpenArtifacts.
type Artifacts struct {
	bucket     *blob.Bucket
	prefix     string
	lockClaims func(ctx context.Context) (done func(), err error) // lock for claims; nil without a directory
}

// NewArtifacts returns the artifacts below a prefix of a bucket, such as those of a
// session. The caller closes the bucket.
func NewArtifacts(bucket *blob.Bucket, prefix string) *Artifacts {
	var mu sync.Mutex
	return &Artifacts{bucket, withSlash(prefix), func(context.Context) (func(), error) {
		mu.Lock()
		return mu.Unlock, nil
	}}
}

// OpenArtifacts returns the artifacts in a directory of the host, which is created if
// it is missing. Any number of processes may use the directory. The caller closes the
// bucket.
func OpenArtifacts(dir, prefix string) (*Artifacts, *blob.Bucket, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("stage: create the artifact directory: %w: %w", fault.Of(err), err)
	}
	// Temporary files are in the same directory as their target, so the rename stays
	// on one file system.
	bucket, err := fileblob.OpenBucket(dir, &fileblob.Options{NoTempDir: true})
	if err != nil {
		return nil, nil, blobError("open", dir, err)
	}
	turn := func(ctx context.Context) (func(), error) {
		l, err := flockfile.Lock(ctx, filepath.Join(dir, ".lock"))
		if err != nil {
			return nil, fmt.Errorf("stage: lock the artifact directory: %w: %w", fault.Of(err), err)
		}
		return func() { _ = l.Close() }, nil // closing the file releases the lock in any case
	}
	return &Artifacts{bucket, withSlash(prefix), turn}, bucket, nil
}

// In returns the artifacts below another prefix of the same bucket.
func (a *Artifacts) In(prefix string) *Artifacts {
	return &Artifacts{a.bucket, withSlash(prefix), a.lockClaims}
}

// tenantsPrefix begins the prefixes of the artifacts of tenants. It has not the form of a
// workspace's id.
const tenantsPrefix = "tenants/"

// WorkspacePrefix returns the prefix of the artifacts of a workspace of a tenant, "" for none.
func WorkspacePrefix(tenant, workspace string) string {
	if tenant == "" {
		return workspace
	}
	return tenantsPrefix + tenant + "/" + workspace
}

// ParseWorkspacePrefix splits the name of an artifact, as the artifacts without a prefix list it,
// into the tenant, the workspace and the name in that workspace.
func ParseWorkspacePrefix(full string) (tenant, workspace, name string) {
	if rest, ok := strings.CutPrefix(full, tenantsPrefix); ok {
		tenant, full, _ = strings.Cut(rest, "/")
	}
	workspace, name, _ = strings.Cut(full, "/")
	return tenant, workspace, name
}

func withSlash(prefix string) string {
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return prefix
}

// An Artifact describes a version.
type Artifact = answer.Artifact

// Latest as a version is the highest existing version.
const Latest = -1

// ParseRef splits "name@version". Without a version it is Latest.
func ParseRef(ref string) (name string, version int, err error) {
	name, version = ref, Latest
	if at := strings.LastIndexByte(ref, '@'); at >= 0 && isDigits(ref[at+1:]) {
		name = ref[:at]
		version, err = strconv.Atoi(ref[at+1:])
		if err != nil || version > maxVersion {
			return "", 0, fmt.Errorf("stage: artifact %q: %w: a version is at most %d", ref, fault.InvalidArgument, maxVersion)
		}
	}
	if err := CheckName(name); err != nil {
		return "", 0, err
	}
	return name, version, nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

const (
	maxVersion      = 999_999_999
	versionDigits   = 9
	maxArtifactName = 512
)

// CheckName refuses invalid artifact names. A valid name is a slash path of printable
// UTF-8 without empty, "." or ".." elements that does not end like a version.
func CheckName(name string) error {
	bad := func(why string) error {
		return fmt.Errorf("stage: artifact name %.80q: %w: %s", name, fault.InvalidArgument, why)
	}
	switch {
	case strings.TrimSpace(name) == "":
		return bad("it is empty")
	case len(name) > maxArtifactName:
		return bad(fmt.Sprintf("it has %d bytes; at most %d are allowed", len(name), maxArtifactName))
	case !utf8.ValidString(name):
		return bad("it is not UTF-8")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
		return bad("it has a control character or a backslash")
	}
	if at := strings.LastIndexByte(name, '@'); at >= 0 && isDigits(name[at+1:]) {
		return bad("it ends like a version")
	}
	for elem := range strings.SplitSeq(name, "/") {
		if elem == "" || elem == "." || elem == ".." {
			return bad("an element is empty, \".\" or \"..\"")
		}
	}
	return nil
}

// SafeName converts text such as a file path to a valid name: characters that
// CheckName refuses become "_".
func SafeName(name string) string {
	var elems []string
	for elem := range strings.SplitSeq(strings.ToValidUTF8(name, "_"), "/") {
		elem = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f || r == '\\' {
				return '_'
			}
			return r
		}, elem)
		if elem == "." || elem == ".." {
			elem = strings.ReplaceAll(elem, ".", "_")
		}
		if elem != "" {
			elems = append(elems, elem)
		}
	}
	safe := strings.Join(elems, "/")
	if at := strings.LastIndexByte(safe, '@'); at >= 0 && isDigits(safe[at+1:]) {
		safe = safe[:at] + "_" + safe[at+1:]
	}
	return safe
}

// objectPrefix is the prefix of the objects of a name. "@" does not occur in an encoded name.
func (a *Artifacts) objectPrefix(name string) string { return a.prefix + encodeName(name) + "/@" }

func (a *Artifacts) versionKey(name string, version int) string {
	return fmt.Sprintf("%s%0*d", a.objectPrefix(name), versionDigits, version)
}

const claimSuffix = ".claim"

// encodeName keeps characters that every bucket accepts and encodes the rest.
func encodeName(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("._-/", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Save saves body as a new version. If body or the bucket fails, the version does not
// exist.
func (a *Artifacts) Save(ctx context.Context, name string, body io.Reader, mime string) (Artifact, error) {
	if err := CheckName(name); err != nil {
		return Artifact{}, err
	}
	version, err := a.claimVersion(ctx, name)
	if err != nil {
		return Artifact{}, err
	}
	if mime == "" {
		mime = "application/octet-stream"
	}
	ctx, cancel := context.WithCancel(ctx) // canceling makes the writer discard the object
	defer cancel()
	// Without IfNotExist: the claim is enough, and the bucket's client repeats a write whose answer was lost.
	w, err := a.bucket.NewWriter(ctx, a.versionKey(name, version), &blob.WriterOptions{ContentType: mime})
	if err != nil {
		return Artifact{}, blobError("save", name, err)
	}
	size, err := io.Copy(w, body)
	if err != nil {
		cancel()
		_ = w.Close() // fails, because of cancel
		return Artifact{}, blobError("save", name, err)
	}
	if err := w.Close(); err != nil {
		return Artifact{}, blobError("save", name, err)
	}
	return Artifact{Name: name, Version: version, MIME: mime, Size: size, Created: time.Now().UTC()}, nil
}

// claimVersion reserves the next version number.
func (a *Artifacts) claimVersion(ctx context.Context, name string) (int, error) {
	done, err := a.lockClaims(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	next := 0
	err = a.eachObject(ctx, a.objectPrefix(name), func(key string, _ *blob.ListObject) {
		if v, ok := parseVersion(strings.TrimSuffix(key, claimSuffix)); ok {
			next = max(next, v+1)
		}
	})
	if err != nil {
		return 0, err
	}
	const tries = 1000
	for range tries {
		if next > maxVersion {
			return 0, fmt.Errorf("stage: save artifact %q: %w: the artifact has too many versions", name, fault.ResourceExhausted)
		}
		err := a.bucket.WriteAll(ctx, a.versionKey(name, next)+claimSuffix, nil, &blob.WriterOptions{IfNotExist: true})
		if err == nil {
			return next, nil
		}
		if gcerrors.Code(err) != gcerrors.FailedPrecondition && gcerrors.Code(err) != gcerrors.AlreadyExists {
			return 0, blobError("save", name, err)
		}
		next++
	}
	return 0, fmt.Errorf("stage: save artifact %q: %w: other writers took every version that was tried; try again", name, fault.Unavailable)
}

func parseVersion(key string) (int, bool) {
	at := strings.LastIndexByte(key, '@')
	if at < 0 || !isDigits(key[at+1:]) {
		return 0, false
	}
	v, err := strconv.Atoi(key[at+1:])
	return v, err == nil
}

// eachObject visits the objects below a prefix. A bucket of files returns NotFound if
// another process removes a temporary file during the listing; then each lists again.
func (a *Artifacts) eachObject(ctx context.Context, prefix string, f func(key string, obj *blob.ListObject)) error {
	const tries = 20
	for try := 1; ; try++ {
		list, err := a.listObjects(ctx, prefix)
		if err != nil && (gcerrors.Code(err) != gcerrors.NotFound || try == tries) {
			return blobError("list", prefix, err)
		}
		if err == nil {
			for _, obj := range list {
				f(obj.Key, obj)
			}
			return nil
		}
	}
}

func (a *Artifacts) listObjects(ctx context.Context, prefix string) ([]*blob.ListObject, error) {
	var list []*blob.ListObject
	it := a.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		obj, err := it.Next(ctx)
		if err == io.EOF { //nolint:errorlint // the iterator returns it unwrapped
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, obj)
	}
}

// Open opens a version, or the latest. The Artifact says which version it is.
func (a *Artifacts) Open(ctx context.Context, name string, version int) (io.ReadCloser, Artifact, error) {
	if err := CheckName(name); err != nil {
		return nil, Artifact{}, err
	}
	if version == Latest {
		list, err := a.Versions(ctx, name)
		if err != nil {
			return nil, Artifact{}, err
		}
		if len(list) == 0 {
			return nil, Artifact{}, fault.WithHint(fmt.Errorf("stage: artifact %q: %w", name, fault.NotFound), fault.HintList, "artifacts")
		}
		version = list[len(list)-1]
	}
	r, err := a.bucket.NewReader(ctx, a.versionKey(name, version), nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, Artifact{}, fault.WithHint(fmt.Errorf("stage: artifact %q: %w: version %d does not exist", name, fault.NotFound, version), fault.HintList, "artifacts")
	}
	if err != nil {
		return nil, Artifact{}, blobError("open", fmt.Sprintf("%s@%d", name, version), err)
	}
	return r, Artifact{Name: name, Version: version, MIME: r.ContentType(), Size: r.Size(), Created: r.ModTime().UTC()}, nil
}

// Versions lists the versions of a name, lowest first. An unknown name has none.
func (a *Artifacts) Versions(ctx context.Context, name string) ([]int, error) {
	all, err := a.History(ctx, name)
	var list []int
	for _, art := range all {
		list = append(list, art.Version)
	}
	return list, err
}

// History describes the versions of a name, lowest first. An unknown name has none.
// The MIME type is not set.
func (a *Artifacts) History(ctx context.Context, name string) ([]Artifact, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	list := []Artifact{}
	err := a.eachObject(ctx, a.objectPrefix(name), func(key string, obj *blob.ListObject) {
		if v, ok := parseVersion(key); ok {
			list = append(list, Artifact{Name: name, Version: v, Size: obj.Size, Created: obj.ModTime.UTC()})
		}
	})
	slices.SortFunc(list, func(a, b Artifact) int { return a.Version - b.Version })
	return list, err
}

// List lists the latest version of every artifact, sorted by name. The MIME type is
// not set.
func (a *Artifacts) List(ctx context.Context) ([]Artifact, error) {
	latest := map[string]Artifact{}
	err := a.eachObject(ctx, a.prefix, func(key string, obj *blob.ListObject) {
		at := strings.LastIndex(key, "/@")
		v, ok := parseVersion(key)
		if at < len(a.prefix) || !ok {
			return
		}
		name, err := url.PathUnescape(key[len(a.prefix):at])
		if was, known := latest[name]; err == nil && (!known || was.Version < v) {
			latest[name] = Artifact{Name: name, Version: v, Size: obj.Size, Created: obj.ModTime.UTC()}
		}
	})
	list := make([]Artifact, 0, len(latest))
	for _, art := range latest {
		list = append(list, art)
	}
	slices.SortFunc(list, func(a, b Artifact) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// Delete deletes a version, or all versions with Latest. Their numbers are not
// reused. Delete is idempotent.
func (a *Artifacts) Delete(ctx context.Context, name string, version int) error {
	list := []int{version}
	if version == Latest {
		var err error
		if list, err = a.Versions(ctx, name); err != nil {
			return err
		}
	} else if err := CheckName(name); err != nil {
		return err
	}
	for _, v := range list {
		if err := a.bucket.Delete(ctx, a.versionKey(name, v)); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return blobError("delete", name, err)
		}
	}
	return nil
}

// blobError adds the fault code to an error of a bucket.
func blobError(verb, name string, err error) error {
	return fmt.Errorf("stage: %s artifact %q: %w: %w", verb, name, blobs.Code(err), err)
}
