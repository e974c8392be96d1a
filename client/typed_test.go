package client_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/croft-run/croft/client"
)

// untyped says which results and fields have no type of their own, and why.
var untyped = map[string]string{
	"Client.Profile":       "the types of a profile are those of package profile, which imports parsers",
	"EvalExecution.Report": "the report of package session, of which each agent fills its own part",
	"Event.Fields":         "each kind of event has its own",
	"Spec.Config":          "each provider has its own options",
	"Ref.Payload":          "each provider has its own, which no other reads",
	"Workspace.Extra":      "an extra capability has a type of its own",
}

// TestResultsAreTyped: a method takes and returns nothing that the caller has to decode.
func TestResultsAreTyped(t *testing.T) {
	raw, used, seen := reflect.TypeFor[json.RawMessage](), map[string]bool{}, map[reflect.Type]bool{}
	var check func(at string, typ reflect.Type)
	check = func(at string, typ reflect.Type) {
		if typ == raw || typ.Kind() == reflect.Interface && typ.NumMethod() == 0 {
			if used[at] = true; untyped[at] == "" {
				t.Errorf("%s is %s, which the caller has to decode: give it a type", at, typ)
			}
			return
		}
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
			check(at, typ.Elem())
		case reflect.Map:
			check(at, typ.Key())
			check(at, typ.Elem())
		case reflect.Func:
			for i := range typ.NumIn() {
				check(at, typ.In(i))
			}
			for i := range typ.NumOut() {
				check(at, typ.Out(i))
			}
		case reflect.Struct:
			if seen[typ] {
				return
			}
			seen[typ] = true
			for i := range typ.NumField() {
				if f := typ.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
					check(typ.Name()+"."+f.Name, f.Type)
				}
			}
		}
	}
	c := reflect.TypeFor[*client.Client]()
	for i := range c.NumMethod() {
		check("Client."+c.Method(i).Name, c.Method(i).Type)
	}
	for at := range untyped {
		if !used[at] {
			t.Errorf("%s has a type now: remove it from untyped", at)
		}
	}
}
