package isolate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/tetratelabs/wazero/sys"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// An argument of a call of the script: a text, or bytes.
type argument struct {
	text  string
	data  []byte
	bytes bool
}

// maxArgs bounds the arguments of one call of the prelude.
const maxArgs = 8

// hostCall handles a call of the prelude and returns a handle. Its arguments are
// untrusted: a script can call it without the prelude.
func (iso *isolate) hostCall(ctx context.Context, argc, argv uint32) uint32 {
	args, err := iso.readArguments(ctx, argc, argv)
	if err != nil {
		panic(err) // ends the isolate, as an error of the run
	}
	var v uint64
	switch answer := iso.dispatchCall(ctx, args).(type) {
	case string:
		v, err = iso.newText(ctx, answer)
	case []byte:
		v, err = iso.newBuffer(ctx, answer)
	default:
		v, err = iso.call(ctx, "qjs_get_undefined")
	}
	if err != nil {
		panic(err)
	}
	return uint32(v)
}

func (iso *isolate) readArguments(ctx context.Context, argc, argv uint32) ([]argument, error) {
	var args []argument
	for i := range min(argc, maxArgs) {
		p, ok := iso.memory().ReadUint32Le(argv + 4*i)
		if !ok {
			return nil, errMemory
		}
		is, err := iso.call(ctx, "qjs_is_string", uint64(p))
		if err != nil {
			return nil, err
		}
		var a argument
		if a.bytes = is == 0; a.bytes {
			a.data, err = iso.bytesOut(ctx, "qjs_get_array_buffer", uint64(p), MaxMemory)
		} else {
			a.text, err = iso.stringOf(ctx, uint64(p))
		}
		if err != nil {
			return nil, err
		}
		args = append(args, a)
	}
	for len(args) < maxArgs {
		args = append(args, argument{})
	}
	return args, nil
}

// dispatchCall dispatches a call of the prelude.
func (iso *isolate) dispatchCall(ctx context.Context, args []argument) any {
	r := iso.run
	if r == nil { // while the image is created there is no run
		return nil
	}
	switch op, a := args[0].text, args[1:]; op {
	case "out":
		kind := driver.OutputStdout
		if a[0].text == "stderr" {
			kind = driver.OutputStderr
		}
		r.touched = true
		r.out.Text(kind, a[1].text)
	case "result":
		r.settled = true
		if a[0].text != "" {
			data := map[string][]byte{"text/plain": []byte(a[0].text)}
			if a[1].text != "" {
				data["application/json"] = []byte(a[1].text)
			}
			r.out.Data(driver.OutputResult, data)
		}
	case "error":
		if r.fault == nil {
			r.fault = r.out.Error(a[0].text, a[1].text, stackLines(a[2].text))
		}
	case "exit":
		code, _ := strconv.Atoi(a[0].text)
		_ = iso.mod.CloseWithExitCode(ctx, uint32(code)&0xff)
		panic(sys.NewExitError(uint32(code) & 0xff))
	case "facts":
		env := r.code.Env
		if env == nil {
			env = map[string]string{}
		}
		text, _ := json.Marshal(map[string]any{"env": env, "dir": path.Join("/", r.opts.Root, r.dir)}) // strings only
		return string(text)
	case "seed":
		seed := make([]byte, 16)
		rand.Read(seed) // never fails
		return seed
	case "encode":
		return []byte(a[0].text)
	case "decode":
		return strings.ToValidUTF8(string(a[0].data), "\uFFFD")
	case "fs":
		return r.fileCall(ctx, a[0].text, a[1].text, a[2])
	}
	return nil
}

func stackLines(stack string) []string {
	var out []string
	for l := range strings.SplitSeq(stack, "\n") {
		if l = strings.TrimRight(l, " "); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// builtins are the modules that a script may import by name, with their exports.
var builtins = map[string]string{
	"fs": "readFile writeFile appendFile readdir stat lstat exists access mkdir rm unlink rmdir rename copyFile glob list readText readJSON " +
		"readFileSync writeFileSync appendFileSync readdirSync statSync lstatSync existsSync accessSync mkdirSync rmSync unlinkSync rmdirSync renameSync copyFileSync globSync listSync readTextSync readJSONSync promises",
	"path":    "sep delimiter normalize join resolve isAbsolute basename dirname extname relative",
	"process": "env argv cwd exit platform",
}

const builtinScheme = "croft:"

// normalizeModule resolves the name of an imported module.
func (iso *isolate) normalizeModule(ctx context.Context, base, name uint32) uint32 {
	from, spec := iso.readCString(base), iso.readCString(name)
	plain := strings.TrimSuffix(strings.TrimPrefix(spec, "node:"), "/promises")
	full := ""
	switch {
	case builtins[plain] != "":
		full = builtinScheme + plain
	case strings.HasPrefix(spec, "./"), strings.HasPrefix(spec, "../"):
		full = path.Join(path.Dir(from), spec)
	case strings.HasPrefix(spec, "/"):
		full = spec
	default:
		return iso.throwError(ctx, fmt.Sprintf("module %q is not there: scripts may import fs, path, process, and files by a path that begins with ./ or ../", spec))
	}
	p, err := iso.copyIn(ctx, []byte(full))
	if err != nil {
		panic(err)
	}
	return uint32(p)
}

// loadModule returns the source of a module.
func (iso *isolate) loadModule(ctx context.Context, name, outLen uint32) uint32 {
	source, err := iso.run.moduleSource(ctx, iso.readCString(name))
	if err != nil {
		return iso.throwError(ctx, err.Error())
	}
	p, err := iso.copyIn(ctx, []byte(source))
	if err != nil || !iso.memory().WriteUint32Le(outLen, uint32(len(source))) {
		panic(errMemory)
	}
	return uint32(p)
}

// throwError throws an error in the script; its caller then returns 0.
func (iso *isolate) throwError(ctx context.Context, message string) uint32 {
	e, err := iso.call(ctx, "qjs_new_error")
	if err != nil {
		panic(err)
	}
	text, err := iso.newText(ctx, message)
	if err == nil {
		_, err = iso.withBytes(ctx, []byte("message"), func(p uint64) (uint64, error) {
			return iso.call(ctx, "qjs_set_prop_string", e, p, text)
		})
	}
	if err == nil {
		_, err = iso.call(ctx, "qjs_throw", e)
	}
	if err != nil {
		panic(err)
	}
	return 0
}

// moduleSource returns the source of a module.
func (r *scriptRun) moduleSource(ctx context.Context, name string) (string, error) {
	if plain, ok := strings.CutPrefix(name, builtinScheme); ok {
		b := fmt.Sprintf("const m = globalThis.require(%q); export default m;\n", plain)
		for export := range strings.FieldsSeq(builtins[plain]) {
			b += fmt.Sprintf("export const %s = m.%s;\n", export, export)
		}
		return b, nil
	}
	for _, candidate := range []string{name, name + ".js", name + ".ts", name + ".mjs", name + "/index.js", name + "/index.ts"} {
		clean, err := r.cleanName(candidate, ".")
		if err != nil {
			return "", err
		}
		data, err := r.readFile(ctx, clean)
		if c := fault.Of(err); c == fault.NotFound || c == fault.InvalidArgument || c == fault.WrongState {
			continue // a directory may have an index file
		}
		if err != nil {
			return "", err
		}
		return r.asModule(ctx, string(data), clean)
	}
	return "", fmt.Errorf("module %q: %w", name, fault.NotFound)
}

func (r *scriptRun) asModule(ctx context.Context, source, name string) (string, error) {
	switch path.Ext(name) {
	case ".json":
		return "export default " + source, nil
	case ".ts", ".mts", ".tsx":
		out, bad, err := r.stripTypes(ctx, source, name)
		if bad != nil {
			where := bad.Value
			if len(bad.Traceback) > 0 {
				where = bad.Traceback[0]
			}
			return "", fmt.Errorf("%s: %s: %s", name, bad.Name, where)
		}
		return out, err
	}
	return source, nil
}
