package profile

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// tree makes a file system from "name", "content" pairs.
func tree(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return m
}

func detect(t *testing.T, fsys fs.FS) Profile {
	t.Helper()
	p, err := Detect(fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// facts writes a project as short lines, "key: argv <- proof", those asked for.
func facts(p Project, keys map[string]string) map[string]string {
	command := func(c Command) string {
		if c.IsZero() {
			return "none"
		}
		return strings.Join(c.Argv, " ") + " <- " + c.Proof
	}
	all := map[string]string{
		"eco": string(p.Ecosystem), "lang": p.Language, "pm": p.PackageManager + " <- " + p.PackageManagerProof, "deps": p.DepsDir, "name": p.Name,
		"install": command(p.Install), "build": command(p.Build), "format": command(p.Format), "lint": command(p.Lint),
		"types": command(p.Typecheck), "test": command(p.Test), "scoped": command(p.ScopedTest), "warn": "",
	}
	for _, w := range p.Warnings {
		all["warn"] += w.File + ";"
	}
	got := map[string]string{}
	for k := range keys {
		got[k] = all[k]
	}
	return got
}

type row struct {
	name  string
	files []string
	want  map[string]string
}

func runRows(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p, ok := detect(t, tree(r.files...)).Primary()
			if !ok {
				t.Fatal("no project")
			}
			if _, asked := r.want["warn"]; !asked {
				r.want["warn"] = ""
			}
			if d := cmp.Diff(r.want, facts(p, r.want)); d != "" {
				t.Errorf("project (-want +got):\n%s", d)
			}
		})
	}
}

type w = map[string]string

func TestGo(t *testing.T) {
	runRows(t, []row{
		{"module", []string{"go.mod", "module example.com/m\n"}, w{
			"eco": "go", "lang": "go", "name": "example.com/m", "deps": "", "pm": "go <- go.mod",
			"install": "go mod download <- go.mod", "build": "go build ./... <- go.mod", "format": "gofmt -w $FILES <- go.mod",
			"lint": "go vet $PACKAGES <- go.mod", "types": "go vet $PACKAGES <- go.mod", "test": "go test ./... <- go.mod", "scoped": "go test $PACKAGES <- go.mod",
		}},
		{"golangci yml", []string{"go.mod", "module m\n", ".golangci.yml", ""}, w{"lint": "golangci-lint run $PACKAGES <- .golangci.yml"}},
		{"golangci yaml", []string{"go.mod", "module m\n", ".golangci.yaml", ""}, w{"lint": "golangci-lint run $PACKAGES <- .golangci.yaml"}},
		{"golangci toml", []string{"go.mod", "module m\n", ".golangci.toml", ""}, w{"lint": "golangci-lint run $PACKAGES <- .golangci.toml"}},
		{"golangci json", []string{"go.mod", "module m\n", ".golangci.json", ""}, w{"lint": "golangci-lint run $PACKAGES <- .golangci.json"}},
		{"go.work without a module in the root", []string{"go.work", "go 1.26\nuse (\n\t./a // the first\n\t\"./b\"\n)\n", "a/go.mod", "module a\n", "b/go.mod", "module b\n"},
			w{"test": "go test ./a/... ./b/... <- go.work", "scoped": "go test $PACKAGES <- go.work"}},
		{"go.work with a module in the root", []string{"go.mod", "module m\n", "go.work", "use .\nuse ./a\n", "a/go.mod", "module a\n"},
			w{"test": "go test ./... ./a/... <- go.mod"}},
		{"go.work that uses nothing", []string{"go.work", "go 1.26\n"}, w{"test": "none", "warn": "go.work;"}},
		{"go.mod without a module", []string{"go.mod", "go 1.26\n"}, w{"name": "", "warn": "go.mod;"}},
	})
}

const pkg = `{"name":"web","scripts":{"test":"vitest"},"devDependencies":{"vitest":"^3","typescript":"^5"}}`

func TestNodePackageManagers(t *testing.T) {
	runRows(t, []row{
		{"npm by default", []string{"package.json", pkg}, w{"eco": "node", "name": "web", "lang": "typescript", "pm": "npm <- package.json", "deps": "node_modules",
			"install": "npm install <- package.json", "test": "npx --no-install vitest run <- package.json", "scoped": "npx --no-install vitest run $FILES <- package.json"}},
		{"npm lock", []string{"package.json", pkg, "package-lock.json", "{}"}, w{"pm": "npm <- package-lock.json"}},
		{"pnpm lock", []string{"package.json", pkg, "pnpm-lock.yaml", ""}, w{"pm": "pnpm <- pnpm-lock.yaml", "install": "pnpm install <- pnpm-lock.yaml", "scoped": "pnpm exec vitest run $FILES <- package.json"}},
		{"bun.lock", []string{"package.json", pkg, "bun.lock", ""}, w{"pm": "bun <- bun.lock", "scoped": "bunx --no-install vitest run $FILES <- package.json"}},
		{"bun.lockb", []string{"package.json", pkg, "bun.lockb", ""}, w{"pm": "bun <- bun.lockb"}},
		{"yarn 1 by lock", []string{"package.json", pkg, "yarn.lock", "# yarn lockfile v1\n"}, w{"pm": "yarn <- yarn.lock", "deps": "node_modules", "scoped": "yarn run vitest run $FILES <- package.json"}},
		{"yarn 1 by field", []string{"package.json", `{"packageManager":"yarn@1.22.22","scripts":{"test":"jest"}}`}, w{"pm": "yarn <- package.json", "test": "yarn run jest <- package.json"}},
		{"yarn 1 with a script called like the tool", []string{"package.json", `{"packageManager":"yarn@1.22.22","scripts":{"test":"jest","jest":"jest --ci"}}`}, w{"test": "npx --no-install jest <- package.json"}},
		{"yarn berry by lock", []string{"package.json", pkg, "yarn.lock", "__metadata:\n  version: 8\n"}, w{"deps": ".pnp.cjs", "scoped": "yarn exec vitest run $FILES <- package.json"}},
		{"yarn berry by field", []string{"package.json", `{"packageManager":"yarn@4.5.0","scripts":{"test":"jest"}}`}, w{"test": "yarn exec jest <- package.json"}},
		{"yarn berry with node_modules", []string{"package.json", pkg, "yarn.lock", "", ".yarnrc.yml", "nodeLinker: node-modules\n"}, w{"deps": "node_modules", "test": "yarn exec vitest run <- package.json"}},
		{"field wins over lock", []string{"package.json", `{"packageManager":"pnpm@9.1.0"}`, "yarn.lock", ""}, w{"pm": "pnpm <- package.json"}},
		{"devEngines", []string{"package.json", `{"devEngines":{"packageManager":{"name":"bun"}}}`}, w{"pm": "bun <- package.json"}},
		{"unknown manager", []string{"package.json", `{"packageManager":"cnpm@9"}`, "pnpm-lock.yaml", ""}, w{"pm": "pnpm <- pnpm-lock.yaml", "warn": "package.json;"}},
	})
}

func script(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`)
	return `{"scripts":{"test":"` + s + `"}}`
}

func TestNodeTests(t *testing.T) {
	runRows(t, []row{
		{"vitest never watches", []string{"package.json", script("vitest --watch --coverage")}, w{"test": "npx --no-install vitest run --coverage <- package.json"}},
		{"vitest with its configuration", []string{"package.json", script("vitest run --config v.ts src")}, w{
			"test": "npx --no-install vitest run --config v.ts src <- package.json", "scoped": "npx --no-install vitest run --config v.ts $FILES <- package.json"}},
		{"vitest config", []string{"package.json", "{}", "vitest.config.mts", ""}, w{"test": "npx --no-install vitest run <- vitest.config.mts"}},
		{"jest", []string{"package.json", script("jest")}, w{"test": "npx --no-install jest <- package.json", "scoped": "npx --no-install jest --runTestsByPath $FILES <- package.json"}},
		{"jest config", []string{"package.json", "{}", "jest.config.cjs", ""}, w{"test": "npx --no-install jest <- jest.config.cjs"}},
		{"jest key", []string{"package.json", `{"jest":{}}`}, w{"test": "npx --no-install jest <- package.json"}},
		{"jest behind a variable", []string{"package.json", script("NODE_OPTIONS=--experimental-vm-modules jest")}, w{
			"test": "npm run test <- package.json", "scoped": "npx --no-install jest --runTestsByPath $FILES <- package.json"}},
		{"jest after a build", []string{"package.json", script("node build.js && npx jest")}, w{
			"test": "npm run test <- package.json", "scoped": "npx --no-install jest --runTestsByPath $FILES <- package.json"}},
		{"not jest", []string{"package.json", script("echo no jestures")}, w{"test": "npm run test <- package.json", "scoped": "none"}},
		{"not jest either", []string{"package.json", script("echo jest")}, w{"test": "npm run test <- package.json", "scoped": "none"}},
		{"mocha", []string{"package.json", script("mocha --timeout 5000")}, w{"test": "npx --no-install mocha --timeout 5000 <- package.json", "scoped": "npx --no-install mocha --timeout 5000 $FILES <- package.json"}},
		{"mocharc", []string{"package.json", "{}", ".mocharc.yml", ""}, w{"test": "npx --no-install mocha <- .mocharc.yml"}},
		{"ava", []string{"package.json", script("ava")}, w{"test": "npx --no-install ava <- package.json"}},
		{"node --test", []string{"package.json", script("node --import tsx --test")}, w{"test": "node --import tsx --test <- package.json", "scoped": "node --import tsx --test $FILES <- package.json"}},
		{"node --test with a pattern", []string{"package.json", script(`node --test "test/*.js"`)}, w{"test": "npm run test <- package.json", "scoped": "node --test $FILES <- package.json"}},
		{"bun test", []string{"package.json", script("bun test"), "bun.lock", ""}, w{"test": "bun test <- package.json", "scoped": "bun test $FILES <- package.json"}},
		{"bun without a script", []string{"package.json", "{}", "bun.lock", ""}, w{"test": "bun test <- bun.lock", "scoped": "bun test $FILES <- bun.lock"}},
		{"any other script", []string{"package.json", script("tap test/*.js")}, w{"test": "npm run test <- package.json", "scoped": "none"}},
		{"any other script beside a runner's configuration", []string{"package.json", script("turbo run test"), "vitest.config.ts", ""}, w{
			"test": "npm run test <- package.json", "scoped": "npx --no-install vitest run $FILES <- vitest.config.ts"}},
		{"react-scripts does not watch", []string{"package.json", script("react-scripts test")}, w{"test": "npm run test -- --watchAll=false <- package.json"}},
		{"what npm init writes", []string{"package.json", script(`echo "Error: no test specified" && exit 1`)}, w{"test": "none", "scoped": "none"}},
		{"dependency alone", []string{"package.json", `{"devDependencies":{"vitest":"3"}}`}, w{"test": "npx --no-install vitest run <- package.json"}},
		{"nothing", []string{"package.json", "{}"}, w{"test": "none", "lint": "none", "format": "none", "lang": "javascript"}},
	})
}

func TestNodeLintAndFormat(t *testing.T) {
	const biome = "npx --no-install biome check --no-errors-on-unmatched $FILES <- "
	const biomeWrite = "npx --no-install biome check --write --no-errors-on-unmatched $FILES <- "
	rows := []row{
		{"biome.json", []string{"package.json", "{}", "biome.json", "{}"}, w{"lint": biome + "biome.json", "format": biomeWrite + "biome.json"}},
		{"biome.jsonc with a URL", []string{"package.json", "{}", "biome.jsonc", "{\n// c\n\"$schema\": \"https://biomejs.dev/schema.json\", /* d */ }"},
			w{"lint": biome + "biome.jsonc", "format": biomeWrite + "biome.jsonc"}},
		{"biome for linting only", []string{"package.json", "{}", "biome.json", `{"formatter":{"enabled":false}}`, ".prettierrc", "{}"},
			w{"lint": biome + "biome.json", "format": "npx --no-install prettier --write --ignore-unknown $FILES <- .prettierrc"}},
		{"biome broken", []string{"package.json", "{}", "biome.json", `{`}, w{"lint": biome + "biome.json", "warn": "biome.json;"}},
		{"oxlint", []string{"package.json", "{}", ".oxlintrc.json", "{}", "eslint.config.js", ""}, w{"lint": "npx --no-install oxlint $FILES <- .oxlintrc.json"}},
		{"oxlint under its other name", []string{"package.json", "{}", "oxlintrc.json", "{}"}, w{"lint": "npx --no-install oxlint -c oxlintrc.json $FILES <- oxlintrc.json"}},
		{"eslintConfig key", []string{"package.json", `{"eslintConfig":{}}`}, w{"lint": "npx --no-install eslint $FILES <- package.json"}},
		{"prettier key", []string{"package.json", `{"prettier":{}}`}, w{"format": "npx --no-install prettier --write --ignore-unknown $FILES <- package.json"}},
		{"prettier without a configuration", []string{"package.json", `{"scripts":{"format":"prettier --write ."},"devDependencies":{"prettier":"3"}}`}, w{"format": "npx --no-install prettier --write --ignore-unknown $FILES <- package.json"}},
		{"prettier that nothing runs", []string{"package.json", `{"devDependencies":{"prettier":"3"}}`}, w{"format": "none"}},
		{"YAML in .prettierrc", []string{"package.json", "{}", ".prettierrc", "semi: false\n"}, w{"format": "npx --no-install prettier --write --ignore-unknown $FILES <- .prettierrc"}},
		{"scripts", []string{"package.json", `{"scripts":{"lint":"xo","format":"dprint fmt","build":"vite build"}}`}, w{
			"lint": "npm run lint <- package.json", "format": "npm run format <- package.json", "build": "npm run build <- package.json"}},
		{"tsc", []string{"package.json", "{}", "tsconfig.json", "{ // c\n \"include\": [\"src/**/*\"], }"}, w{"types": "npx --no-install tsc --noEmit <- tsconfig.json", "lang": "typescript"}},
		{"tsc with references only", []string{"package.json", "{}", "tsconfig.json", `{"files":[],"references":[{"path":"./a"}]}`}, w{"types": "npx --no-install tsc --build <- tsconfig.json"}},
		{"vue-tsc", []string{"package.json", `{"devDependencies":{"vue-tsc":"2"}}`, "tsconfig.json", "{}"}, w{"types": "npx --no-install vue-tsc --noEmit <- tsconfig.json"}},
		{"typecheck script", []string{"package.json", `{"scripts":{"typecheck":"tsc -p ."}}`, "tsconfig.json", "{}"}, w{"types": "npm run typecheck <- package.json"}},
	}
	for _, n := range eslintNames {
		rows = append(rows, row{n, []string{"package.json", "{}", n, "{}"}, w{"lint": "npx --no-install eslint $FILES <- " + n}})
	}
	for _, n := range prettierNames {
		rows = append(rows, row{n, []string{"package.json", "{}", n, ""}, w{"format": "npx --no-install prettier --write --ignore-unknown $FILES <- " + n}})
	}
	runRows(t, rows)
}

func TestDeno(t *testing.T) {
	for _, n := range []string{"deno.json", "deno.jsonc"} {
		runRows(t, []row{{n, []string{n, "{ // c\n \"name\": \"@a/b\", }"}, w{
			"eco": "deno", "pm": "deno <- " + n, "name": "@a/b", "install": "deno install <- " + n, "format": "deno fmt $FILES <- " + n,
			"lint": "deno lint $FILES <- " + n, "types": "deno check $FILES <- " + n, "test": "deno test <- " + n, "scoped": "deno test $FILES <- " + n,
		}}})
	}
	runRows(t, []row{{"task", []string{"deno.json", `{"tasks":{"test":"deno test -A","build":"x"}}`}, w{"test": "deno task test <- deno.json", "build": "deno task build <- deno.json"}}})
}

func TestPython(t *testing.T) {
	const project = "[project]\nname = \"a\"\n"
	runRows(t, []row{
		{"uv", []string{"pyproject.toml", project + "[tool.ruff]\n", "uv.lock", ""}, w{"eco": "python", "name": "a", "pm": "uv <- uv.lock", "deps": ".venv", "install": "uv sync <- uv.lock",
			"lint": "uv run --no-sync ruff check $FILES <- pyproject.toml", "format": "uv run --no-sync ruff format $FILES <- pyproject.toml",
			"test": "uv run --no-sync pytest <- pyproject.toml", "scoped": "uv run --no-sync pytest $FILES <- pyproject.toml"}},
		{"uv by table", []string{"pyproject.toml", project + "[tool.uv]\ndev-dependencies = []\n"}, w{"pm": "uv <- pyproject.toml"}},
		{"poetry", []string{"pyproject.toml", "[tool.poetry]\nname = \"p\"\n", "poetry.lock", ""}, w{"name": "p", "pm": "poetry <- poetry.lock", "install": "poetry install <- poetry.lock", "test": "poetry run pytest <- pyproject.toml"}},
		{"poetry by table", []string{"pyproject.toml", "[tool.poetry]\n"}, w{"pm": "poetry <- pyproject.toml"}},
		{"pipenv", []string{"Pipfile", "[dev-packages]\npytest = \"*\"\n"}, w{"pm": "pipenv <- Pipfile", "install": "pipenv install --dev <- Pipfile", "test": "pipenv run pytest <- Pipfile"}},
		{"pipenv by lock", []string{"setup.py", "", "Pipfile.lock", "{}"}, w{"pm": "pipenv <- Pipfile.lock"}},
		{"pdm", []string{"pyproject.toml", project, "pdm.lock", ""}, w{"pm": "pdm <- pdm.lock", "install": "pdm install <- pdm.lock"}},
		{"pip", []string{"pyproject.toml", project}, w{"pm": "pip <- pyproject.toml", "install": "pip install -e . <- pyproject.toml", "test": "pytest <- pyproject.toml"}},
		{"setup.py", []string{"setup.py", ""}, w{"pm": "pip <- setup.py", "install": "pip install -e . <- setup.py", "test": "pytest <- setup.py"}},
		{"requirements only", []string{"requirements.txt", "flask\npytest==8\n"}, w{"pm": "pip <- requirements.txt", "install": "pip install -r requirements.txt <- requirements.txt", "test": "pytest <- requirements.txt"}},
		{"requirements without tests", []string{"requirements.txt", "flask\n# pytest\npytest-cov\n"}, w{"test": "none"}},
		{"setup.cfg only", []string{"setup.cfg", "[metadata]\nname = a\n[flake8]\n[mypy]\n[tool:pytest]\n"}, w{"pm": "pip <- setup.cfg", "install": "none",
			"lint": "flake8 $FILES <- setup.cfg", "types": "mypy $FILES <- setup.cfg", "test": "pytest <- setup.cfg"}},
		{"tools only is not installable", []string{"pyproject.toml", "[tool.black]\n"}, w{"install": "none", "format": "black $FILES <- pyproject.toml"}},
		{"virtual environment", []string{"setup.py", "", "ruff.toml", "", ".venv/bin/ruff", "", ".venv/bin/pytest", ""}, w{"lint": ".venv/bin/ruff check $FILES <- ruff.toml", "test": ".venv/bin/pytest <- setup.py"}},

		{"ruff.toml", []string{"ruff.toml", ""}, w{"lint": "ruff check $FILES <- ruff.toml", "format": "ruff format $FILES <- ruff.toml", "test": "none"}},
		{".ruff.toml", []string{".ruff.toml", ""}, w{"lint": "ruff check $FILES <- .ruff.toml"}},
		{"[tool.ruff.lint] alone", []string{"pyproject.toml", "[tool.ruff.lint]\nselect = [\"E\"]\n"}, w{"lint": "ruff check $FILES <- pyproject.toml"}},
		{"black beside ruff", []string{"pyproject.toml", "[tool.ruff]\n[tool.black]\n"}, w{"format": "ruff format $FILES <- pyproject.toml"}},
		{"black installed beside ruff", []string{"pyproject.toml", "[tool.ruff]\n[tool.black]\n[dependency-groups]\ndev = [\"black\"]\n"}, w{"lint": "ruff check $FILES <- pyproject.toml", "format": "black $FILES <- pyproject.toml"}},
		{"black as a hook", []string{"pyproject.toml", "[tool.ruff]\n[tool.black]\n", ".pre-commit-config.yaml", "- id: black\n"}, w{"format": "black $FILES <- pyproject.toml"}},
		{"ruff format as a hook", []string{"pyproject.toml", "[tool.ruff]\n[tool.black]\n", "requirements.txt", "black\n", ".pre-commit-config.yaml", "- id: ruff-format\n"}, w{"format": "ruff format $FILES <- pyproject.toml"}},
		{"ruff format beside black", []string{"pyproject.toml", "[tool.ruff.format]\n[tool.black]\n"}, w{"format": "ruff format $FILES <- pyproject.toml"}},
		{"flake8", []string{"setup.py", "", ".flake8", ""}, w{"lint": "flake8 $FILES <- .flake8"}},
		{"flake8 in tox.ini", []string{"setup.py", "", "tox.ini", "[flake8]\n"}, w{"lint": "flake8 $FILES <- tox.ini"}},
		{"pylint", []string{"setup.py", "", ".pylintrc", ""}, w{"lint": "pylint $FILES <- .pylintrc"}},
		{"[tool.pylint.main] alone", []string{"pyproject.toml", "[tool.pylint.main]\njobs = 1\n"}, w{"lint": "pylint $FILES <- pyproject.toml"}},
		{"pylint in setup.cfg", []string{"setup.cfg", "[pylint.main]\n"}, w{"lint": "pylint $FILES <- setup.cfg"}},
		{"mypy is a type checker", []string{"pyproject.toml", "[tool.mypy]\n"}, w{"lint": "none", "types": "mypy $FILES <- pyproject.toml"}},
		{"mypy.ini", []string{"setup.py", "", "mypy.ini", ""}, w{"types": "mypy $FILES <- mypy.ini"}},
		{"pyright", []string{"setup.py", "", "pyrightconfig.json", "{ // c\n}"}, w{"types": "pyright $FILES <- pyrightconfig.json"}},
		{"[tool.pyright]", []string{"pyproject.toml", "[tool.pyright]\n"}, w{"types": "pyright $FILES <- pyproject.toml"}},
		{"[tool.pytest.ini_options] alone", []string{"requirements.txt", "", "pyproject.toml", "[tool.pytest.ini_options]\n"}, w{"test": "pytest <- pyproject.toml"}},
		{"pytest.ini", []string{"requirements.txt", "", "pytest.ini", ""}, w{"test": "pytest <- pytest.ini"}},
		{"conftest", []string{"requirements.txt", "", "tests/conftest.py", ""}, w{"test": "pytest <- tests/conftest.py"}},
		{"pytest in a dependency group", []string{"pyproject.toml", "[dependency-groups]\ndev = [\"pytest>=8\"]\n", "tests/test_a.py", "import unittest"}, w{"test": "pytest <- pyproject.toml"}},
		{"unittest", []string{"pyproject.toml", project, "tests/test_a.py", "import unittest\n"}, w{
			"test": "python3 -m unittest discover -s tests -t . <- tests/test_a.py", "scoped": "python3 -m unittest $FILES <- tests/test_a.py"}},
		{"pytest by use", []string{"requirements.txt", "", "test_a.py", "import pytest\n"}, w{"test": "pytest <- test_a.py"}},
		{"django", []string{"requirements.txt", "django\n", "manage.py", ""}, w{"test": "python3 manage.py test <- manage.py", "scoped": "none"}},
		{"tests alone", []string{"calc.py", "", "test_calc.py", "def test_a(): pass\n"}, w{"eco": "python", "test": "pytest <- test_calc.py"}},
		{"tests of unittest alone", []string{"tests/test_calc.py", "import unittest\n"}, w{"test": "python3 -m unittest discover -s tests -t . <- tests/test_calc.py"}},
		{"tests in Python beside another project", []string{"go.mod", "module a\n", "test_calc.py", "import pytest\n"}, w{"eco": "go"}},
		{"nose2", []string{"pyproject.toml", "[tool.nose2]\n"}, w{"test": "nose2 <- pyproject.toml"}},
	})
}

func TestRust(t *testing.T) {
	runRows(t, []row{
		{"crate", []string{"Cargo.toml", "[package]\nname = \"c\"\nedition = \"2021\"\n"}, w{"eco": "rust", "name": "c", "deps": "", "install": "cargo fetch <- Cargo.toml",
			"format": "rustfmt --edition 2021 $FILES <- Cargo.toml", "lint": "cargo clippy --package=$PACKAGES --all-targets -- -D warnings <- Cargo.toml",
			"types": "cargo check --package=$PACKAGES --all-targets <- Cargo.toml", "test": "cargo test <- Cargo.toml", "scoped": "cargo test --package=$PACKAGES <- Cargo.toml"}},
		{"workspace", []string{"Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\nexclude = [\"crates/x\"]\n[workspace.package]\nedition = \"2024\"\n",
			"crates/a/Cargo.toml", "[package]\nname = \"aa\"\n", "crates/x/Cargo.toml", "[package]\nname = \"x\"\n"},
			w{"test": "cargo test --workspace <- Cargo.toml", "build": "cargo build --workspace <- Cargo.toml", "format": "rustfmt --edition 2024 $FILES <- Cargo.toml"}},
	})
}

func TestJVM(t *testing.T) {
	const plugin = "<project><artifactId>a</artifactId><build><plugins><plugin><artifactId>spotless-maven-plugin</artifactId></plugin></plugins></build></project>"
	runRows(t, []row{
		{"maven", []string{"pom.xml", "<project><artifactId>a</artifactId></project>"}, w{"eco": "java", "lang": "java", "name": "a", "pm": "maven <- pom.xml", "install": "mvn -B dependency:resolve <- pom.xml",
			"types": "mvn -B test-compile <- pom.xml", "test": "mvn -B test <- pom.xml", "scoped": "mvn -B test -Dtest=$TESTS -Dsurefire.failIfNoSpecifiedTests=false <- pom.xml", "format": "none"}},
		{"maven wrapper and plugin", []string{"pom.xml", plugin, "mvnw", ""}, w{"test": "./mvnw -B test <- pom.xml", "format": "./mvnw -B spotless:apply <- pom.xml", "lint": "./mvnw -B spotless:check <- pom.xml"}},
		{"gradle", []string{"build.gradle", "plugins { id 'java' }"}, w{"pm": "gradle <- build.gradle", "lang": "java", "test": "gradle test <- build.gradle", "scoped": "gradle test --tests=$TESTS <- build.gradle"}},
		{"gradle wrapper, kotlin", []string{"build.gradle.kts", "plugins { kotlin(\"jvm\")\n id(\"org.jlleitschuh.gradle.ktlint\") }", "settings.gradle.kts", "rootProject.name = \"k\"\n", "gradlew", ""},
			w{"name": "k", "lang": "kotlin", "test": "./gradlew test <- build.gradle.kts", "format": "./gradlew ktlintFormat <- build.gradle.kts", "lint": "./gradlew ktlintCheck <- build.gradle.kts"}},
		{"kotlin by sources", []string{"pom.xml", "<project/>", "src/main/kotlin/A.kt", ""}, w{"lang": "kotlin"}},
	})
}

func TestRuby(t *testing.T) {
	runRows(t, []row{
		{"rspec and rubocop", []string{"Gemfile", "gem 'rspec'\ngem \"rubocop\"\n", ".rspec", "", ".rubocop.yml", ""}, w{"eco": "ruby", "pm": "bundler <- Gemfile", "install": "bundle install <- Gemfile",
			"lint": "bundle exec rubocop --force-exclusion $FILES <- .rubocop.yml", "format": "bundle exec rubocop --autocorrect --force-exclusion $FILES <- .rubocop.yml",
			"test": "bundle exec rspec <- .rspec", "scoped": "bundle exec rspec $FILES <- .rspec"}},
		{"rubocop outside of the bundle", []string{"Gemfile", "# gem 'rubocop'\n", ".rubocop.yml", ""}, w{"lint": "rubocop --force-exclusion $FILES <- .rubocop.yml"}},
		{"minitest", []string{"Gemfile", "gem 'minitest'\ngem 'rake'\n", "Rakefile", "", "test/a_test.rb", ""}, w{"test": "bundle exec rake test <- Rakefile",
			"scoped": "bundle exec ruby -Ilib -Itest -e " + loadEach + " $FILES <- test"}},
		{"rails", []string{"Gemfile", "gem 'rails'\n", "bin/rails", "", "test/a_test.rb", ""}, w{"test": "bin/rails test <- bin/rails", "scoped": "bin/rails test $FILES <- bin/rails"}},
		{"gemspec", []string{"foo.gemspec", "s.add_development_dependency 'rspec'\n"}, w{"name": "foo", "test": "rspec <- foo.gemspec", "install": "none"}},
		{"locked gem", []string{"Gemfile", "gemspec\n", "Gemfile.lock", "GEM\n  specs:\n    rubocop (1.0)\n"}, w{"lint": "bundle exec rubocop --force-exclusion $FILES <- Gemfile"}},
	})
}

func TestPHP(t *testing.T) {
	runRows(t, []row{
		{"phpunit, pint, phpstan", []string{"composer.json", `{"name":"a/b","require-dev":{"laravel/pint":"1","phpunit/phpunit":"11"}}`, "phpunit.xml", "", "phpstan.neon", ""}, w{
			"eco": "php", "pm": "composer <- composer.json", "deps": "vendor", "install": "composer install <- composer.json", "format": "vendor/bin/pint $FILES <- composer.json",
			"lint": "vendor/bin/pint --test $FILES <- composer.json", "types": "vendor/bin/phpstan analyse --no-progress $FILES <- phpstan.neon",
			"test": "vendor/bin/phpunit <- phpunit.xml", "scoped": "vendor/bin/phpunit --filter=$TESTS <- phpunit.xml"}},
		{"php-cs-fixer", []string{"composer.json", `{"config":{"bin-dir":"bin"}}`, ".php-cs-fixer.dist.php", ""}, w{
			"format": "bin/php-cs-fixer fix --config=.php-cs-fixer.dist.php --path-mode=intersection $FILES <- .php-cs-fixer.dist.php"}},
		{"pest", []string{"composer.json", `{"require-dev":{"pestphp/pest":"3"}}`}, w{"test": "vendor/bin/pest <- composer.json"}},
		{"phpstan alone lints", []string{"composer.json", `{"require-dev":{"phpstan/phpstan":"2"}}`}, w{"lint": "vendor/bin/phpstan analyse --no-progress $FILES <- composer.json"}},
		{"phpcs", []string{"composer.json", `{}`, "phpcs.xml.dist", ""}, w{"lint": "vendor/bin/phpcs $FILES <- phpcs.xml.dist", "format": "vendor/bin/phpcbf $FILES <- phpcs.xml.dist"}},
		{"script", []string{"composer.json", `{"scripts":{"test":"x"}}`}, w{"test": "composer run-script test <- composer.json"}},
	})
}

func TestDotnet(t *testing.T) {
	runRows(t, []row{
		{"solution", []string{"App.sln", ""}, w{"eco": "dotnet", "lang": "csharp", "install": "dotnet restore App.sln <- App.sln", "test": "dotnet test App.sln <- App.sln",
			"format": "dotnet format App.sln --include $FILES <- App.sln", "lint": "dotnet format App.sln --verify-no-changes --include $FILES <- App.sln"}},
		{"slnx", []string{"App.slnx", "<Solution/>"}, w{"build": "dotnet build App.slnx <- App.slnx"}},
		{"library", []string{"Lib.fsproj", "<Project/>"}, w{"lang": "fsharp", "build": "dotnet build Lib.fsproj <- Lib.fsproj", "test": "none"}},
		{"test project", []string{"T.csproj", `<Project><ItemGroup><PackageReference Include="Microsoft.NET.Test.Sdk"/></ItemGroup></Project>`}, w{"test": "dotnet test T.csproj <- T.csproj"}},
		{"two solutions", []string{"A.sln", "", "B.sln", ""}, w{"test": "none", "install": "none", "warn": "A.sln;"}},
	})
}

func TestElixir(t *testing.T) {
	runRows(t, []row{
		{"mix", []string{"mix.exs", "app: :shop, deps: [{:credo, \"~> 1.7\"}]"}, w{"eco": "elixir", "name": "shop", "deps": "deps", "install": "mix deps.get <- mix.exs", "format": "mix format $FILES <- mix.exs",
			"lint": "mix credo $FILES <- mix.exs", "test": "mix test <- mix.exs", "scoped": "mix test $FILES <- mix.exs"}},
		{"without credo", []string{"mix.exs", "# :credo\n"}, w{"lint": "none"}},
		{"dialyzer", []string{"mix.exs", "{:dialyxir, \"1\"}", ".credo.exs", ""}, w{"types": "mix dialyzer <- mix.exs", "lint": "mix credo $FILES <- .credo.exs"}},
	})
}

func TestNative(t *testing.T) {
	const presets = `{"version":6,"configurePresets":[{"name":"base","hidden":true},{"name":"dev","binaryDir":"${sourceDir}/out/${presetName}"}],"buildPresets":[{"name":"bd"}],"testPresets":[{"name":"td"}]}`
	runRows(t, []row{
		{"cmake", []string{"CMakeLists.txt", "project(p C)\nenable_testing()\n", ".clang-format", "", ".clang-tidy", ""}, w{"eco": "cpp", "lang": "c", "name": "p", "deps": "build",
			"install": "cmake -S . -B build <- CMakeLists.txt", "build": "cmake --build build <- CMakeLists.txt", "test": "ctest --test-dir build --output-on-failure <- CMakeLists.txt",
			"format": "clang-format -i $FILES <- .clang-format", "lint": "clang-tidy -p build $FILES <- .clang-tidy"}},
		{"cmake without tests", []string{"CMakeLists.txt", "project(p)\n# enable_testing()\n"}, w{"lang": "cpp", "test": "none"}},
		{"presets", []string{"CMakeLists.txt", "project(p)", "CMakePresets.json", presets}, w{"deps": "out/dev", "install": "cmake --preset dev <- CMakePresets.json",
			"build": "cmake --build --preset bd <- CMakePresets.json", "test": "ctest --preset td --output-on-failure <- CMakePresets.json"}},
		{"make with C", []string{"Makefile", "CC := cc\nall: a.o\n\ncheck test: all\n\t./t\n", "a.c", ""}, w{"eco": "cpp", "lang": "c", "build": "make all <- Makefile", "test": "make test <- Makefile"}},
		{"make without C", []string{"Makefile", ".PHONY: lint\nlint:\n\tx\nfmt: ; y\n"}, w{"eco": "make", "lang": "", "lint": "make lint <- Makefile", "format": "make fmt <- Makefile", "test": "none"}},
		{"just", []string{"justfile", "v := 'a'\ntest name='x': build\n  x\n@lint:\n  y\n"}, w{"eco": "make", "test": "just test <- justfile", "lint": "just lint <- justfile"}},
	})
}

func TestABrokenManifestIsAWarningAndNotAGuess(t *testing.T) {
	rows := []row{
		{"package.json", []string{"package.json", `{"scripts":{"test":"vitest"},}`, "tsconfig.json", "{}"}, w{
			"eco": "node", "pm": " <- ", "install": "none", "test": "none", "types": "none", "lint": "none", "warn": "package.json;"}},
		{"package.json with a lock", []string{"package.json", `[`, "pnpm-lock.yaml", "", "biome.json", "{}"}, w{
			"pm": "pnpm <- pnpm-lock.yaml", "install": "none", "lint": "pnpm exec biome check --no-errors-on-unmatched $FILES <- biome.json", "warn": "package.json;"}},
		{"package.json null", []string{"package.json", `null`}, w{"install": "none", "warn": "package.json;"}},
		{"scripts of the wrong type", []string{"package.json", `{"scripts":["vitest"]}`}, w{"install": "npm install <- package.json", "test": "none", "warn": "package.json;"}},
		{"pyproject", []string{"pyproject.toml", "[tool.ruff\n"}, w{"eco": "python", "pm": " <- ", "install": "none", "test": "none", "lint": "none", "warn": "pyproject.toml;"}},
		{"pyproject with a lock", []string{"pyproject.toml", "[tool.ruff\n", "uv.lock", ""}, w{"pm": "uv <- uv.lock", "install": "none", "warn": "pyproject.toml;"}},
		{"Cargo", []string{"Cargo.toml", "[package\n"}, w{"eco": "rust", "install": "none", "test": "none", "lint": "none", "warn": "Cargo.toml;"}},
		{"deno", []string{"deno.json", "{"}, w{"eco": "deno", "test": "none", "warn": "deno.json;"}},
		{"composer", []string{"composer.json", "{"}, w{"eco": "php", "install": "none", "warn": "composer.json;"}},
		{"pom", []string{"pom.xml", "<project>"}, w{"eco": "java", "test": "none", "warn": "pom.xml;"}},
		{"csproj", []string{"a.csproj", "<Project"}, w{"eco": "dotnet", "build": "none", "warn": "a.csproj;"}},
		{"presets", []string{"CMakeLists.txt", "project(p)", "CMakePresets.json", "{"}, w{"install": "cmake -S . -B build <- CMakeLists.txt", "warn": "CMakePresets.json;"}},
		{"pnpm-workspace", []string{"package.json", "{}", "pnpm-workspace.yaml", "packages: [\n"}, w{"pm": "pnpm <- pnpm-workspace.yaml", "warn": "pnpm-workspace.yaml;"}},
		{"too large", []string{"package.json", strings.Repeat(" ", maxManifest) + "{}"}, w{"install": "none", "warn": "package.json;"}},
	}
	runRows(t, rows)
}

func TestNothing(t *testing.T) {
	p := detect(t, tree("README.md", "# hello"))
	if _, ok := p.Primary(); ok || len(p.Projects) != 0 {
		t.Errorf("projects = %v, want none", p.Projects)
	}
	if got := p.PromptLines(); got != nil {
		t.Errorf("PromptLines = %q, want none", got)
	}
}

type unreadable struct{ fs.FS }

func (unreadable) Open(string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: ".", Err: fs.ErrPermission}
}

func TestAnUnreadableRootIsAnError(t *testing.T) {
	_, err := Detect(unreadable{}, nil)
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("err = %v, want %v", err, fs.ErrPermission)
	}
}
