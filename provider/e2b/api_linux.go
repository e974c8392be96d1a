package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guest/remote"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// A server is the control plane of E2B's API.
type server struct {
	base    string
	key     func(ctx context.Context) (string, error)
	client  *http.Client
	timeout time.Duration // of one request; 0 is no time-out
}

// newClient returns a client that follows no redirect: keys and tokens are for the host that the
// configuration names, and a program in a sandbox must not choose what this host connects to.
func newClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// A sandbox is what the server answers about one.
type sandbox struct {
	ID           string            `json:"sandboxID"`
	State        string            `json:"state"`
	Token        string            `json:"envdAccessToken"`
	TrafficToken string            `json:"trafficAccessToken"`
	Domain       string            `json:"domain"`
	StartedAt    string            `json:"startedAt"`
	Metadata     map[string]string `json:"metadata"`
}

// validID and validDomain match what may be in a host name: the server does not choose other
// hosts or paths by them.
var (
	validID     = lazyregexp.New(`^[A-Za-z0-9_-]{1,60}$`)
	validDomain = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,180}[A-Za-z0-9])?(:[0-9]{1,5})?$`)
)

func checkID(id string) error {
	if !validID.MatchString(id) {
		return fmt.Errorf("the id of a sandbox, %.80q: %w: the server's ids must have 1 to 60 letters, digits, _ and -", id, fault.Failed)
	}
	return nil
}

// newSandbox is the body of a request to create one.
type newSandbox struct {
	TemplateID string            `json:"templateID"`
	Timeout    int               `json:"timeout"`
	AutoPause  bool              `json:"autoPause"`
	Secure     bool              `json:"secure"`
	Internet   bool              `json:"allow_internet_access"`
	Metadata   map[string]string `json:"metadata"`
}

// Metadata of a sandbox: the id of the workspace, and the name of the data directory that it
// belongs to, see rootName.
const (
	workspaceKey = "croft-workspace"
	rootKey      = "croft-root"
)

// create creates a sandbox.
func (s *server) create(ctx context.Context, in newSandbox) (box sandbox, err error) {
	err = s.call(ctx, http.MethodPost, "/sandboxes", in, &box)
	return box, err
}

// find returns the sandboxes of a workspace of a data directory, the oldest first. Another
// installation with the same account may have a workspace with the same id, such as one that was
// restored from a backup. Root is "" for a workspace that an earlier version opened, which did not
// record it.
func (s *server) find(ctx context.Context, workspace, root string) (list []sandbox, err error) {
	// E2B's SDK encodes keys and values of the filter, and then the filter.
	query := url.Values{"metadata": {url.QueryEscape(workspaceKey) + "=" + url.QueryEscape(workspace)}, "order": {"asc"}}
	if err := s.call(ctx, http.MethodGet, "/v2/sandboxes?"+query.Encode(), nil, &list); err != nil {
		return nil, err
	}
	var own []sandbox
	for _, box := range list {
		if box.Metadata[workspaceKey] != workspace || root != "" && box.Metadata[rootKey] != root {
			continue // whatever a server makes of the filter
		}
		if err := checkID(box.ID); err != nil {
			return nil, fmt.Errorf("%s: %w", s.base, err)
		}
		own = append(own, box)
	}
	return own, nil
}

// connect resumes a sandbox if it is paused, and moves its end.
func (s *server) connect(ctx context.Context, id string, timeout int) (box sandbox, err error) {
	err = s.call(ctx, http.MethodPost, "/sandboxes/"+url.PathEscape(id)+"/connect", map[string]int{"timeout": timeout}, &box)
	box.ID = id // whatever the server answers
	return box, err
}

// extend moves the end of a sandbox.
func (s *server) extend(ctx context.Context, id string, timeout int) error {
	return s.call(ctx, http.MethodPost, "/sandboxes/"+url.PathEscape(id)+"/timeout", map[string]int{"timeout": timeout}, nil)
}

// remove destroys a sandbox; one that is gone is no error.
func (s *server) remove(ctx context.Context, id string) error {
	err := s.call(ctx, http.MethodDelete, "/sandboxes/"+url.PathEscape(id), nil, nil)
	if fault.Of(err) == fault.NotFound {
		return nil
	}
	return err
}

// maxAnswer is far more bytes than any answer has.
const maxAnswer = 8 << 20

// call makes one request. An error says what the server answered, and never the key.
func (s *server) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%w: %w", fault.Internal, err)
		}
		body = bytes.NewReader(data)
	}
	soon := ctx
	if s.timeout > 0 {
		var cancel context.CancelFunc
		soon, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	r, err := http.NewRequestWithContext(soon, method, strings.TrimSuffix(s.base, "/")+path, body)
	if err != nil {
		return fmt.Errorf("%w: %w", fault.InvalidArgument, err)
	}
	key, err := s.key(ctx)
	if err != nil {
		return err
	}
	r.Header.Set("X-API-Key", key)
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return requestError(ctx, s.base, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return requestError(ctx, s.base, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		if key != "" { // a server may repeat it
			data = bytes.ReplaceAll(data, []byte(key), []byte("[REDACTED]"))
		}
		return statusError(s.base, resp.StatusCode, data)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s: the answer is not valid: %w: %w", s.base, fault.Unavailable, err)
	}
	return nil
}

// requestError is the error of a request without an answer.
func requestError(ctx context.Context, base string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", base, ctx.Err())
	}
	var u *url.Error
	if errors.As(err, &u) { // without the URL
		err = u.Err
	}
	return &remote.UnreachableError{Err: fmt.Errorf("%s is not reachable: %w: %w", base, fault.Unavailable, err)}
}

// shorten returns the beginning of a message, on one line.
func shorten(text string) string {
	const most = 500
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return strings.Join(strings.Fields(text), " ")
}

// statusError is the error of an answer that is not a success.
func statusError(base string, status int, body []byte) error {
	var said struct{ Message string }
	if json.Unmarshal(body, &said) != nil || said.Message == "" {
		said.Message = http.StatusText(status)
	}
	said.Message = shorten(said.Message)
	code := fault.Failed
	switch {
	case status == http.StatusNotFound:
		code = fault.NotFound
	case status == http.StatusUnauthorized:
		code = fault.Unauthenticated
	case status == http.StatusForbidden:
		code = fault.PermissionDenied
	case status == http.StatusBadRequest:
		code = fault.InvalidArgument
	case status == http.StatusInsufficientStorage:
		code = fault.ResourceExhausted
	case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		return &remote.UnreachableError{Err: fmt.Errorf("%s: status %d: %w: %s", base, status, fault.Unavailable, said.Message)}
	}
	return fmt.Errorf("%s: status %d: %w: %s", base, status, code, said.Message)
}
