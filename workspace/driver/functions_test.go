package driver

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestFunctionsNamesEveryField fails when FS gains a function that Functions
// does not know.
func TestFunctionsNamesEveryField(t *testing.T) {
	var fs FS
	var want []string
	v := reflect.ValueOf(&fs).Elem()
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Type.Kind() == reflect.Func {
			v.Field(i).Set(reflect.MakeFunc(f.Type, func([]reflect.Value) []reflect.Value { return nil }))
			want = append(want, strings.ToLower(f.Name[:1])+f.Name[1:])
		}
	}
	if got := fs.Functions(); !slices.Equal(got, want) {
		t.Errorf("Functions() = %v, want %v", got, want)
	}
	if got := (*FS)(nil).Functions(); got != nil {
		t.Errorf("Functions() of no module = %v", got)
	}
}
