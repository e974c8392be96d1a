package e2b

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
)

// maxPage is the maximum and the default of the sandboxes of one page.
const maxPage = 100

// listSandboxesV1 lists all running sandboxes.
func (s *Server) listSandboxesV1(r *http.Request) (answer, error) {
	boxes, err := s.matching(r, []string{running})
	if err != nil {
		return answer{}, err
	}
	out := []listedSandbox{}
	for _, box := range boxes {
		out = append(out, listed(box))
	}
	return answer{body: out}, nil
}

// listSandboxes lists a page of sandboxes, running and paused.
func (s *Server) listSandboxes(r *http.Request) (answer, error) {
	query := r.URL.Query()
	var states []string
	for _, value := range query["state"] {
		states = append(states, strings.Split(value, ",")...)
	}
	for _, state := range states {
		if state != running && state != paused {
			return answer{}, badQuery("state", "%.40q: it is %s or %s", state, running, paused)
		}
	}
	if len(states) == 0 {
		states = []string{running, paused}
	}
	boxes, err := s.matching(r, states)
	if err != nil {
		return answer{}, err
	}
	order := query.Get("order")
	if order != "" && order != "asc" && order != "desc" {
		return answer{}, badQuery("order", "%.40q: it is asc or desc", order)
	}
	if order != "asc" {
		slices.Reverse(boxes)
	}
	page, next, err := pageOf(query, boxes, order != "asc", sandbox.age)
	if err != nil {
		return answer{}, err
	}
	out := []listedSandbox{}
	for _, box := range page {
		out = append(out, listed(box))
	}
	return answer{body: out, next: next}, nil
}

// matching returns the sandboxes of the principal that match the query, oldest first.
func (s *Server) matching(r *http.Request, states []string) ([]sandbox, error) {
	query := r.URL.Query()
	metadata, err := parseMetadata(query.Get("metadata"))
	if err != nil {
		return nil, err
	}
	var after time.Time
	if text := query.Get("startedAfter"); text != "" {
		if after, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, badQuery("startedAfter", "%.40q: it is a time such as 2026-01-31T12:00:00Z", text)
		}
	}
	recs, err := s.cfg.Registry.List(r.Context(), registry.Filter{})
	if err != nil {
		return nil, err
	}
	template := query.Get("template")
	now := time.Now()
	var boxes []sandbox
	for _, rec := range recs {
		box, ok := sandboxOf(rec)
		switch {
		case !ok || !slices.Contains(states, box.state()),
			!rec.EndAt.IsZero() && rec.OnEnd == registry.DestroyOnEnd && !rec.EndAt.After(now),
			template != "" && template != box.Template && template != box.Alias,
			!after.IsZero() && !rec.CreatedAt.After(after),
			!hasMetadata(box.Metadata, metadata):
			continue
		}
		boxes = append(boxes, box)
	}
	slices.SortFunc(boxes, func(a, b sandbox) int { return strings.Compare(a.age(), b.age()) })
	return boxes, nil
}

// age orders sandboxes, the oldest first.
func (box sandbox) age() string { return fmt.Sprintf("%020d %s", box.CreatedAt.UnixNano(), box.ID) }

// parseMetadata parses a filter such as user=abc&app=prod. The SDK encodes keys and values
// twice.
func parseMetadata(text string) (map[string]string, error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, badQuery("metadata", "it is written key=value&key=value, URL-encoded: %v", err)
	}
	out := map[string]string{}
	for key, list := range values {
		k, kerr := url.QueryUnescape(key)
		v, verr := url.QueryUnescape(list[len(list)-1])
		if kerr != nil || verr != nil {
			return nil, badQuery("metadata", "%.80q is not URL-encoded", key)
		}
		out[k] = v
	}
	return out, nil
}

func hasMetadata(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// pageOf returns a page of a list that is sorted by its keys, and the token of the next
// page. The token is the key of the last element, which may be gone by then.
func pageOf[T any](query url.Values, list []T, descending bool, key func(T) string) ([]T, string, error) {
	limit := maxPage
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return nil, "", badQuery("limit", "%.20q: it is 1 to %d", text, maxPage)
		}
		limit = n
	}
	if token := query.Get("nextToken"); token != "" {
		last, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			return nil, "", badQuery("nextToken", "this server did not issue that token; list from the start again")
		}
		at := slices.IndexFunc(list, func(t T) bool {
			order := strings.Compare(key(t), string(last))
			return order > 0 && !descending || order < 0 && descending
		})
		if at < 0 {
			at = len(list)
		}
		list = list[at:]
	}
	if len(list) <= limit {
		return list, "", nil
	}
	list = list[:limit]
	return list, base64.RawURLEncoding.EncodeToString([]byte(key(list[limit-1]))), nil
}

func badQuery(name, format string, args ...any) error {
	return fmt.Errorf("query %s: %w: %s", name, fault.InvalidArgument, fmt.Sprintf(format, args...))
}
