package changes

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Hunks are chosen hunks of files by path, counted from 1 in a Comparison with the default
// context.
type Hunks map[string][]int

// ParseHunks reads hunks in the form PATH:N.
func ParseHunks(list []string) (Hunks, error) {
	h := Hunks{}
	for _, text := range list {
		at := strings.LastIndexByte(text, ':')
		n, err := strconv.Atoi(text[at+1:])
		if at < 1 || err != nil || n < 1 {
			return nil, fmt.Errorf("%.80q is not PATH:N", text)
		}
		if path := text[:at]; !slices.Contains(h[path], n) {
			h[path] = append(h[path], n)
		}
	}
	return h, nil
}

// Strings returns the hunks in the form that ParseHunks reads.
func (h Hunks) Strings() []string {
	var list []string
	for _, path := range h.Paths() {
		for _, n := range h[path] {
			list = append(list, path+":"+strconv.Itoa(n))
		}
	}
	return list
}

// Paths returns the paths of the files, sorted.
func (h Hunks) Paths() []string { return slices.Sorted(maps.Keys(h)) }
