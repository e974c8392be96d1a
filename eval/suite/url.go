package suite

import (
	"github.com/dop251/goja"
	whatwg "github.com/nlnwa/whatwg-url/url"
)

// urlParser encodes "^" in paths, as the standard does since 2024.
var urlParser = whatwg.NewParser(whatwg.WithPathPercentEncodeSet(whatwg.PathPercentEncodeSet.Set('^')))

// parseURL returns the parts of a URL, undefined if it is invalid. base may be undefined.
func (v *vm) parseURL(input string, base goja.Value) goja.Value {
	var (
		u   *whatwg.Url
		err error
	)
	if goja.IsUndefined(base) {
		u, err = urlParser.Parse(input)
	} else {
		u, err = urlParser.ParseRef(base.String(), input)
	}
	if err != nil {
		return goja.Undefined()
	}
	return v.rt.ToValue(urlParts(u))
}

// setURLPart returns the parts of the URL href after one of them was set, undefined if
// href is invalid.
func (v *vm) setURLPart(href, part, value string) goja.Value {
	u, err := urlParser.Parse(href)
	if err != nil {
		return goja.Undefined()
	}
	set := map[string]func(string){
		"protocol": u.SetProtocol, "username": u.SetUsername, "password": u.SetPassword, "host": u.SetHost,
		"hostname": u.SetHostname, "port": u.SetPort, "pathname": u.SetPathname, "search": u.SetSearch, "hash": u.SetHash,
	}
	set[part](value)
	return v.rt.ToValue(urlParts(u))
}

func urlParts(u *whatwg.Url) map[string]any {
	return map[string]any{
		"href": u.Href(false), "protocol": u.Protocol(), "username": u.Username(), "password": u.Password(), "host": u.Host(),
		"hostname": u.Hostname(), "port": u.Port(), "pathname": u.Pathname(), "search": u.Search(), "hash": u.Hash(),
	}
}
