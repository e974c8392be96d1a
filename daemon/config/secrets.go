package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/croft-run/croft/secret"
)

// placeholder is what stands for a secret in a variable of a workspace; the
// proxy replaces it in requests.
const placeholder = "croft-secret:"

// checkTexts refuses secrets. Its messages never repeat what they refuse.
func (c *Config) checkTexts() error {
	if err := c.walkTexts(reflect.ValueOf(c).Elem(), "", ""); err != nil {
		return err
	}
	return nil
}

// walkTexts judges every text below v. key is the free name that v stands under,
// in env or in options, "" where names are ours.
func (c *Config) walkTexts(v reflect.Value, at, key string) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return c.walkTexts(v.Elem(), at, key)
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			if err := c.walkTexts(v.FieldByIndex(f.index), strings.TrimPrefix(at+"."+f.key, "."), ""); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := c.walkTexts(v.Index(i), itemPath(at, i), key); err != nil {
				return err
			}
		}
	case reflect.Map:
		free := v.Type().Elem().Kind() != reflect.Struct
		for _, k := range sortedKeys(v) {
			name := ""
			if free {
				name = k.String()
			}
			if err := c.walkTexts(v.MapIndex(k), at+"."+k.String(), name); err != nil {
				return err
			}
		}
	case reflect.String:
		return c.checkSecretText(v.String(), at, key)
	}
	return nil
}

func sortedKeys(v reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
}

func (c *Config) checkSecretText(text, at, key string) error {
	const advice = "secrets are never in this file; put it where the section secrets says, and write its name here"
	switch {
	case c.origin[at] != "": // a variable or a flag may hold one
		return nil
	case at == "store.url", strings.HasPrefix(at, "secrets.hosts."): // judged on their own
		return nil
	case len(secret.Known().Find([]byte(text))) > 0:
		return c.keyError(at, "this looks like the text of a secret; %s", advice)
	case key == "" || !secret.IsSecretName(key) || text == "":
		return nil
	case strings.HasPrefix(text, placeholder) && validSecret.MatchString(text[len(placeholder):]):
		return nil
	case strings.HasSuffix(strings.ToLower(key), "secret") && validSecret.MatchString(text) && len(text) <= 32:
		return nil // the name of one
	}
	return c.keyError(at, "a key of this name would hold a secret; %s, as %s", advice, fmt.Sprintf("%sNAME", placeholder))
}
