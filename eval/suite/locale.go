package suite

import (
	"math"
	"time"

	"github.com/dop251/goja"
)

// localTime returns the calendar fields of a time in a time zone, "" for the local one,
// and undefined if the zone is not known.
func (v *vm) localTime(ms float64, zone string) goja.Value {
	loc := time.Local
	if zone != "" {
		var err error
		if loc, err = time.LoadLocation(zone); err != nil {
			return goja.Undefined()
		}
	}
	t := time.UnixMilli(int64(math.Floor(ms))).In(loc)
	abbreviation, offset := t.Zone()
	return v.rt.ToValue(map[string]any{
		"year": t.Year(), "month": int(t.Month()), "day": t.Day(), "weekday": int(t.Weekday()),
		"hour": t.Hour(), "minute": t.Minute(), "second": t.Second(), "zone": loc.String(), "abbreviation": abbreviation, "offset": offset,
	})
}
