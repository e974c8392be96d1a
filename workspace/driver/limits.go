package driver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
)

// A Resource is what a limit bounds. Its value is the name of the limit in JSON, in
// croft.yaml and in messages.
type Resource string

// The resources. Table Resources describes them.
const (
	ResourceCPU       Resource = "cpu"
	ResourceMemory    Resource = "memory"
	ResourcePIDs      Resource = "pids"
	ResourceDisk      Resource = "disk"
	ResourceWall      Resource = "wall"
	ResourceOpenFiles Resource = "openFiles"
)

// A Unit is what the numbers of a limit count.
type Unit string

// Units.
const (
	UnitMillicores  Unit = "thousandths of a core"
	UnitBytes       Unit = "bytes"
	UnitNanoseconds Unit = "nanoseconds"
	UnitCount       Unit = "count"
)

// Text writes n for a reader: 512 MiB, 1.5 cores, 1m30s, 100. Bytes are in the largest unit
// that holds them in whole numbers.
func (u Unit) Text(n int64) string {
	switch u {
	case UnitBytes:
		name := "bytes"
		for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
			if n == 0 || n%1024 != 0 {
				break
			}
			n, name = n/1024, next
		}
		return fmt.Sprintf("%d %s", n, name)
	case UnitMillicores:
		return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) + " cores"
	case UnitNanoseconds:
		return time.Duration(n).String()
	}
	return strconv.FormatInt(n, 10)
}

// ResourceInfo describes a resource.
type ResourceInfo struct {
	Name       Resource
	Unit       Unit
	PerCommand bool   // bounds each command, or each process of a command; otherwise the whole workspace
	Doc        string // what is bounded, for "limit of ..."
	Beyond     string // what happens at the limit, for the documentation
}

// Resources lists every resource that can be limited. Configuration, flags, wire
// forms, documentation and the conformance suite are loops over this table. A new
// resource is one row here, and an entry in the traits of each provider that
// enforces it; all other providers refuse it.
var Resources = []ResourceInfo{
	{ResourceCPU, UnitMillicores, false, "processor time, in cores", "commands wait"},
	{ResourceMemory, UnitBytes, false, "memory", "the command is killed, cause `oom`"},
	{ResourcePIDs, UnitCount, false, "processes and threads", "no more are made, cause `pids` if the command fails for it"},
	{ResourceDisk, UnitBytes, false, "what the workspace holds", "writes fail, cause `disk` if the command fails for it"},
	{ResourceWall, UnitNanoseconds, true, "the time that one command takes", "the whole process tree is ended, cause `timeout`"},
	{ResourceOpenFiles, UnitCount, true, "open files, per process", "the process opens no more files"},
}

// Info returns the row of r in Resources, or false.
func (r Resource) Info() (ResourceInfo, bool) {
	i := slices.IndexFunc(Resources, func(info ResourceInfo) bool { return info.Name == r })
	if i < 0 {
		return ResourceInfo{}, false
	}
	return Resources[i], true
}

// ResourceNames lists the names in Resources, for messages.
func ResourceNames() string { return strings.Join(Resource("").JSONKeys(), ", ") }

// Limits bound what a workspace may use. A resource that is absent has no limit.
type Limits map[Resource]Limit

// A Limit is enforced, or Open refuses it. With BestEffort a provider that can't
// enforce the limit ignores it.
type Limit struct {
	Max        int64 `json:"max"` // in the unit of the resource; 0 is no limit
	BestEffort bool  `json:"bestEffort,omitempty"`
}

// Check refuses resources that are not in Resources, and negative limits. The
// error is InvalidArgument.
func (l Limits) Check() error {
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if _, known := name.Info(); !known {
			return fault.Advise(fmt.Errorf("limit %.80q: %w", name, fault.InvalidArgument), "allowed are %s", ResourceNames())
		}
		if l[name].Max < 0 {
			return fmt.Errorf("limit %s: %w: %d is negative", name, fault.InvalidArgument, l[name].Max)
		}
	}
	return nil
}

// WithoutBestEffort returns the limits with BestEffort unset.
func (l Limits) WithoutBestEffort() Limits {
	out := maps.Clone(l)
	for name, limit := range out {
		limit.BestEffort = false
		out[name] = limit
	}
	return out
}

// With returns a copy of l in which the limits that over sets replace those of l.
// It is nil where no limit is set.
func (l Limits) With(over Limits) Limits {
	var sum Limits
	for _, from := range []Limits{l, over} {
		for name, limit := range from {
			if limit.Max == 0 {
				continue
			}
			if sum == nil {
				sum = Limits{}
			}
			sum[name] = limit
		}
	}
	return sum
}

// LowerTo returns the limits of a command in a workspace with the limits most: those that
// apply per command are lowered to the workspace's, and a memory limit of the workspace that
// is best effort applies to each process of a command without one.
func (l Limits) LowerTo(most Limits) Limits {
	for _, r := range Resources {
		limit, bound := l[r.Name].Max, most[r.Name].Max
		if r.PerCommand && bound > 0 && (limit == 0 || limit > bound) {
			l = l.With(Limits{r.Name: {Max: bound}})
		}
	}
	if memory := most[ResourceMemory]; memory.BestEffort && l[ResourceMemory].Max == 0 {
		l = l.With(Limits{ResourceMemory: memory})
	}
	return l
}

// IsZero reports whether no limit is set.
func (l Limits) IsZero() bool { return l.With(nil) == nil }

// MarshalJSON leaves out limits of 0.
func (l Limits) MarshalJSON() ([]byte, error) {
	set := map[Resource]Limit(l.With(nil))
	if set == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(set)
}

// LimitTraits says what enforces each limit. A resource that is absent is not
// enforced.
type LimitTraits map[Resource]Enforcement

// NoLimits returns traits without any enforced limit, all with the same reason. A
// provider that enforces some limits overwrites their entries.
func NoLimits(reason string) LimitTraits {
	traits := LimitTraits{}
	for _, r := range Resources {
		traits[r.Name] = Enforcement{Reason: reason}
	}
	return traits
}

// MarshalJSON writes every resource, also those that are absent.
func (l LimitTraits) MarshalJSON() ([]byte, error) {
	all := map[Resource]Enforcement{}
	for _, r := range Resources {
		all[r.Name] = Enforcement{}
	}
	maps.Copy(all, l)
	return json.Marshal(all)
}
