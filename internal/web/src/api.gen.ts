// Written by internal/web/build from docs/openapi.json. Do not edit.

export interface Applied {
  "applied": Array<string> | null;
  "conflicts"?: Array<Conflict> | null;
  "done": boolean;
  "git"?: Array<GitChange> | null;
  "leftOut"?: Array<LeftOut> | null;
  "same"?: Array<string> | null;
  "undo"?: string;
}

export interface Apply {
  /** autorun files, too: editor tasks, hooks and the like, which tools run without being asked */
  "allowAutorun"?: boolean;
  /** say what would be done */
  "dryRun"?: boolean;
  /** id or name of a snapshot of it, since which changes count; empty is what it started from */
  "from"?: string;
  /** for paths of files, the hunks that are taken, counted from 1 */
  "hunks"?: Record<string, Array<number> | null>;
  /** what .gitignore excludes and caches, too */
  "ignored"?: boolean;
  /** write conflicts of lines into the files, marked as git does it */
  "markers"?: boolean;
  /** only these, with all below them */
  "paths"?: Array<string> | null;
  /** id or name of the workspace whose changes are merged */
  "source": string;
}

export interface Artifact {
  "created_at": string;
  "mime_type": string;
  "name": string;
  "size_bytes": number;
  "version": number;
}

export interface Artifacts {
  "artifacts": Array<Artifact> | null;
}

export interface Change {
  /** replaces all labels */
  "labels"?: Record<string, string>;
  /** replaces the policy; the revision grows */
  "policy"?: Policy;
}

export interface Code {
  /** id of a context; default a temporary one */
  "context"?: string;
  /** working directory, without a context */
  "dir"?: string;
  /** further variables, without a context */
  "env"?: Record<string, string>;
  /** default that of the context, or the first language of the workspace */
  "language"?: string;
  "source": string;
  /** after which it is interrupted; such as "1m30s", or nanoseconds */
  "timeout"?: string | number;
}

export interface CodeContext {
  "created": string;
  "dir"?: string;
  "id": string;
  "language": string;
}

export interface CodeError {
  "name": string;
  "traceback"?: Array<string> | null;
  "value": string;
}

export interface CodeEvent {
  /** of error: why there is no result */
  "error"?: Wire;
  "event": "output" | "end" | "error";
  "output"?: Output;
  /** of end; without the outputs, which came before */
  "result"?: CodeResult;
}

export interface CodeResult {
  "callbackErrors"?: Array<string> | null;
  "cause"?: string;
  "dropped"?: number;
  "duration": number;
  "error"?: CodeError;
  "executionCount"?: number;
  "exitCode": number;
  "outputs": Array<Output> | null;
}

export interface Command {
  "argv": Array<string> | null;
  "dir": string;
  "except"?: Array<string> | null;
  "join"?: string;
  "match"?: Array<string> | null;
  "packages"?: Array<Package> | null;
  "proof": string;
  "under"?: string;
  "whole"?: Array<string> | null;
}

export interface Comparison {
  "changes": Array<FileChange> | null;
  "git"?: Array<GitChange> | null;
  "leftOut"?: Array<LeftOut> | null;
  "stats": Stats;
}

export interface Conflict {
  "kind": string;
  "marked"?: boolean;
  "path": string;
  "reason": string;
  "text"?: Array<TextConflict> | null;
}

export interface Contexts {
  "contexts": Array<CodeContext> | null;
}

export interface Description {
  /** failed tries to open it */
  "attempts"?: number;
  /** modules that it has, once it was opened */
  "capabilities"?: Record<string, boolean>;
  "createdAt": string;
  /** directory of the server's host that is used in place */
  "dir"?: string;
  /** when it ends, used or not; absent is never */
  "endAt"?: string;
  /** why it is in the state failed */
  "error"?: Wire;
  /** optional operations that it has; in answers to open and acquire */
  "functions"?: Array<string> | null;
  /** processes with a lease on it */
  "holders"?: Array<Holder> | null;
  "id": string;
  "kind": string;
  "labels"?: Record<string, string>;
  /** of code, the default first; a last * says that there may be more; in answers to open and acquire */
  "languages"?: Array<string> | null;
  "lastUsed"?: string;
  /** the server has a handle on it */
  "live": boolean;
  /** what it uses now; in a list with metrics=true */
  "metrics"?: Metrics;
  /** states that may come next */
  "moves": Array<string> | null;
  "name"?: string;
  /** replica that owns it, in a cluster */
  "node"?: string;
  /** pause if it is paused then; absent is destroyed */
  "onEnd"?: string;
  "owner"?: string;
  /** a policy that is not yet known to be in force */
  "pending"?: Policy;
  "policy": Policy;
  /** grows with every change of policy */
  "revision"?: number;
  /** created through E2B's API, so that E2B's SDKs can connect to it */
  "sandbox"?: boolean;
  /** of scripts, likewise */
  "scriptLanguages"?: Array<string> | null;
  /** id of the snapshot that it started from */
  "snapshot"?: string;
  "state": string;
  /** name of the template that it started from */
  "template"?: string;
  /** absent is the server's own */
  "tenant"?: string;
  /** what is enforced, and by what; in answers to open and acquire */
  "traits"?: Traits;
  "updatedAt": string;
}

export interface Diagnosis {
  "levels": Array<Level> | null;
  "providers": Array<Provider> | null;
  "version": string;
}

export interface Digest {
  "digest": string;
}

export interface Edit {
  "all"?: boolean;
  "new": string;
  /** the bytes, if they are not UTF-8 */
  "newB64"?: string;
  "old": string;
  /** the bytes, if they are not UTF-8 */
  "oldB64"?: string;
}

export interface EditResult {
  "replaced": Array<number> | null;
  "write": WriteResult;
}

export interface Edits {
  "edits": Array<Edit> | null;
  /** digest that the content must have before */
  "ifMatch"?: string;
  /** on stable storage before the answer */
  "sync"?: boolean;
}

export interface Enforcement {
  "by"?: string;
  "reason"?: string;
}

export interface Entries {
  "entries": Array<Info> | null;
}

export interface ErrorDetail {
  /** Where the error occurred, e.g. 'body.items[3].tags' or 'path.thing-id' */
  "location"?: string;
  /** Error message text */
  "message"?: string;
  /** The value at the given location */
  "value"?: unknown;
}

export interface EvalCase {
  /** those that have ended */
  "executions": Array<EvalCell> | null;
  "id": string;
  "tags"?: Array<string> | null;
}

export interface EvalCaseChange {
  "a": string;
  "b": string;
  "case": string;
  "change": string;
  "runner": string;
}

export interface EvalCell {
  "costUsd"?: number;
  "durationMs": number;
  "error"?: string;
  "passed": boolean;
  "passedRepetitions": number;
  "repetitions": number;
  "runner": string;
  "status": string;
  "tokens"?: number;
}

export interface EvalComparison {
  "a": string;
  "b": string;
  "changed": Array<EvalCaseChange> | null;
  "common": number;
  "onlyA": number;
  "onlyB": number;
  "runners": Array<EvalRunnerComparison> | null;
}

export interface EvalDetails {
  "cases": number;
  /** of the sessions with a known cost */
  "costUsd"?: number;
  /** executions that have ended */
  "done": number;
  "endedAt"?: string;
  /** why it could not be run */
  "error"?: string;
  /** cases x runners */
  "executions": number;
  "id": string;
  /** end of the output of a run that a server started */
  "log"?: string;
  "matrix": EvalMatrix;
  /** executions that have passed */
  "passed": number;
  /** ids */
  "runners": Array<string> | null;
  "startedAt"?: string;
  "state": "running" | "ended" | "stopped" | "failed";
  /** path of the suite */
  "suite": string;
  /** of the sessions with a known number */
  "tokens"?: number;
}

export interface EvalError {
  "message": string;
  "name": string;
  "stack"?: string;
}

export interface EvalExecution {
  "case": string;
  /** what it changed in its workspace, as a patch */
  "diff"?: string;
  "durationMs": number;
  "error"?: EvalError;
  "failureClass"?: string;
  "failureOrigin"?: string;
  "passed": boolean;
  "repetition": number;
  /** what the agent did, as report.json has it: prompt, events, commands, files, network, usage, cost, finalOutput */
  "report"?: unknown;
  "runner": string;
  "session": number;
  /** all of the execution: repetitions and retries */
  "sessions": Array<EvalSession> | null;
  "status": string;
}

export interface EvalInterval {
  "high": number;
  "low": number;
  "n": number;
  "value": number;
}

export interface EvalMatrix {
  "cases": Array<EvalCase> | null;
  "runners": Array<EvalRunner> | null;
}

export interface EvalMeasure {
  "a": EvalInterval;
  "b": EvalInterval;
  "better": boolean;
  "diff": EvalInterval;
  "name": string;
  "significant": boolean;
}

export interface EvalRequest {
  /** ids; absent is all */
  "cases"?: Array<string> | null;
  /** executions at the same time; absent is what the suite says */
  "maxParallel"?: number;
  /** how often each execution must pass; absent is what the suite says */
  "repeat"?: number;
  /** ids; absent is all */
  "runners"?: Array<string> | null;
  /** path of one of the suites that GET /v1/evals lists */
  "suite": string;
  /** cases with one of them */
  "tags"?: Array<string> | null;
}

export interface EvalRun {
  "cases": number;
  /** of the sessions with a known cost */
  "costUsd"?: number;
  /** executions that have ended */
  "done": number;
  "endedAt"?: string;
  /** why it could not be run */
  "error"?: string;
  /** cases x runners */
  "executions": number;
  "id": string;
  /** executions that have passed */
  "passed": number;
  /** ids */
  "runners": Array<string> | null;
  "startedAt"?: string;
  "state": "running" | "ended" | "stopped" | "failed";
  /** path of the suite */
  "suite": string;
  /** of the sessions with a known number */
  "tokens"?: number;
}

export interface EvalRunner {
  "agent"?: string;
  /** in all */
  "costUsd"?: number;
  "done": number;
  /** mean */
  "durationMs": number;
  "id": string;
  "model"?: string;
  /** of the executions that have ended */
  "passRate": number;
  "passed": number;
  /** mean of an execution */
  "tokens"?: number;
}

export interface EvalRunnerComparison {
  "measures": Array<EvalMeasure> | null;
  "runner": string;
}

export interface EvalRuns {
  /** directory of the server's host with the runs: evals.dir in croft.yaml */
  "dir"?: string;
  /** newest first */
  "runs": Array<EvalRun> | null;
  /** those of evals.suites in croft.yaml */
  "suites": Array<EvalSuite> | null;
}

export interface EvalSession {
  "passed": boolean;
  "repetition": number;
  "session": number;
  "status": string;
}

export interface EvalSuite {
  "path": string;
}

export interface Event {
  "event": string;
  "fields"?: Record<string, unknown>;
  "sequence": number;
  "session"?: string;
  "tenant"?: string;
  "ts": string;
  "workspace"?: string;
}

export interface Exec {
  /** a program and its arguments, never through a shell */
  "argv"?: Array<string> | null;
  "argvB64"?: Array<string> | null;
  /** env alone, nothing of the workspace's */
  "clean"?: boolean;
  /** the session outlives the connection and the server */
  "detached"?: boolean;
  /** where it runs; the workspace where absent */
  "dir"?: string;
  "dirB64"?: string;
  /** over the environment of the workspace */
  "env"?: Record<string, string>;
  /** more of it, each NAME=value */
  "envB64"?: Array<string> | null;
  /** between SIGTERM and SIGKILL at the time-out; such as "5s", or nanoseconds */
  "grace"?: string | number;
  /** standard input stays open for writing; sessions alone */
  "interactive"?: boolean;
  "labels"?: Record<string, string>;
  /** below the workspace's */
  "limits"?: { "cpu"?: Limit; "disk"?: Limit; "memory"?: Limit; "openFiles"?: Limit; "pids"?: Limit; "wall"?: Limit };
  /** what the result holds of each stream; 0 is 1 MiB */
  "maxOutput"?: number;
  /** run by bash -c; instead of argv */
  "script"?: string;
  "scriptB64"?: string;
  /** standard input; empty where absent */
  "stdin"?: string;
  "stdinB64"?: string;
  /** such as "1m30s", or nanoseconds; ends the whole tree */
  "timeout"?: string | number;
  /** run on a terminal of this size */
  "tty"?: Size;
}

export interface ExecEvent {
  /** of error: why there is no result */
  "error"?: Wire;
  "event": "stdout" | "stderr" | "exit" | "error";
  /** of exit; without the output, which came before */
  "result"?: Result;
  /** of stdout and stderr */
  "text"?: string;
  /** the bytes, where they are not UTF-8 */
  "textB64"?: string;
}

export interface Export {
  /** take files along that are known to hold credentials */
  "credentials"?: boolean;
  /** URL of the bucket: file:///path, s3://bucket?region=... or mem:// */
  "to": string;
}

export interface Exported {
  /** files that are known to hold credentials, and were left out; the first thousand */
  "leftOut": Array<string> | null;
  /** as it is in the bucket */
  "snapshot": SnapshotInfo;
}

export interface FileChange {
  "binary"?: boolean;
  "from"?: string;
  "hunks"?: Array<Hunk> | null;
  "kind": string;
  "linesAdded"?: number;
  "linesRemoved"?: number;
  "new"?: Side;
  "old"?: Side;
  "patch"?: string;
  "path": string;
  "tooBig"?: boolean;
}

export interface Flaw {
  "error": string;
  "snapshot"?: string;
  "what": string;
}

export interface Forgotten {
  /** how many workspaces were on its host, and are lost */
  "workspaces": number;
}

export interface Fork {
  /** how many; 0 is one */
  "count"?: number;
  /** a snapshot of another session, too */
  "crossSession"?: boolean;
  /** of the new ones */
  "labels"?: Record<string, string>;
  /** of the new one; with a count, NAME-1 and so on */
  "name"?: string;
  /** id or name of a snapshot; empty takes one now */
  "snapshot"?: string;
}

export interface Forked {
  "snapshot": SnapshotInfo;
  "workspaces": Array<Workspace> | null;
}

export interface GCResult {
  "condemned": number;
  "freed": number;
  "objects": number;
  "packs": number;
  "removed": number;
  "rewritten": number;
  "snapshots": number;
}

export interface GitChange {
  "commits": number;
  "path": string;
  "refs": number;
}

export interface GlobResult {
  "entries": Array<Info> | null;
  "truncated"?: boolean;
}

export interface GrepResult {
  "matches": Array<Match> | null;
  "searched": number;
  "skipped"?: Array<Skip> | null;
  "skippedTotal"?: number;
  "truncated"?: string;
}

export interface Health {
  "ok": boolean;
}

export interface Hint {
  "args"?: Array<string> | null;
  "kind"?: string;
  "text"?: string;
}

export interface Holder {
  /** the process has ended; its lease is free when it expires */
  "died"?: boolean;
  "expires": string;
  "host": string;
  "pid": number;
}

export interface HostApplyOptions {
  /** autorun files, too: editor tasks, hooks and the like, which tools run without being asked */
  "allowAutorun"?: boolean;
  /** absolute directory of the server's host, in one of hostRoots of croft.yaml */
  "dir": string;
  /** say what would be done */
  "dryRun"?: boolean;
  /** id or name of a snapshot, since which changes count; empty is what the workspace started from */
  "from"?: string;
  /** for paths of files, the hunks that are taken, counted from 1 in /diff with the default context */
  "hunks"?: Record<string, Array<number> | null>;
  /** what .gitignore excludes and caches, too */
  "ignored"?: boolean;
  /** write conflicts of lines into the files, marked as git does it */
  "markers"?: boolean;
  /** only these, with all below them */
  "paths"?: Array<string> | null;
  /** the changes that were shown, so that nothing else is applied: by path, new.digest or new.target of /diff, empty for what was removed; if they differ now, the answer is 412 */
  "shown"?: Record<string, string>;
}

export interface HostRoots {
  "roots": Array<string> | null;
}

export interface Hunk {
  "lines": Array<string> | null;
  "newLines": number;
  "newStart": number;
  "oldLines": number;
  "oldStart": number;
}

export interface Import {
  /** URL of the bucket: file:///path, s3://bucket?region=... or mem:// */
  "from": string;
  /** id that it has there; without one nothing is brought, and the answer lists what is there */
  "snapshot"?: string;
}

export interface ImportResult {
  "bytes": number;
  "dirs": number;
  "files": number;
  "method": string;
  "skipped"?: Array<ImportSkip> | null;
  "skips"?: number;
  "symlinks": number;
}

export interface ImportSkip {
  "path": string;
  "reason": string;
}

export interface Info {
  "changeToken"?: string;
  "digest"?: string;
  "mode"?: number;
  "mtime"?: string;
  "path": string;
  /** the bytes, if they are not UTF-8 */
  "pathB64"?: string;
  "size"?: number;
  "target"?: string;
  /** the bytes, if they are not UTF-8 */
  "targetB64"?: string;
  "type": string;
}

export interface InputRecord {
  "from": string;
  "mode"?: string;
  "resolved"?: string;
  "to": string;
  "ts": string;
  "version"?: number;
}

export interface Key {
  "createdAt": string;
  /** absent is never */
  "expiresAt"?: string;
  "id": string;
  /** to within a minute */
  "lastUsed"?: string;
  "name"?: string;
  /** until when the text before the last rotation is accepted */
  "previousUntil"?: string;
  "revokedAt"?: string;
  "scope": "read" | "run" | "admin";
  /** absent is the server's own */
  "tenant"?: string;
  /** id of the only workspace that it shows, of a share link */
  "workspace"?: string;
}

export interface KeyRequest {
  /** a duration such as 90d or 12h; absent is never */
  "expires"?: string;
  /** free text */
  "name"?: string;
  /** read, run or admin; each includes the ones before it */
  "scope": string;
  /** [a-z0-9][a-z0-9-]{0,62}; absent is the caller's own */
  "tenant"?: string;
}

export interface Keys {
  "keys": Array<Key> | null;
}

export interface Layer {
  "bytes": number;
  "digest": string;
}

export interface LeftOut {
  "paths": Array<string> | null;
  "reason": string;
  "total": number;
}

export interface Level {
  /** limitations: what it does not prevent, and what does not work with it */
  "lacks"?: Array<string> | null;
  "level": string;
  /** what was tried, where it works */
  "proof"?: string;
  "provider": string;
  /** why it does not work, where it does not */
  "reason"?: string;
  "works": boolean;
}

export interface Limit {
  "bestEffort"?: boolean;
  "max": number;
}

export interface Listing {
  "entries": Array<Info> | null;
  "next"?: string;
  /** the bytes, if they are not UTF-8 */
  "nextB64"?: string;
}

export interface LogChunk {
  "data": string;
  "next": number;
  "offset": number;
  "size": number;
}

export interface LogLine {
  "text": string;
  "time": string;
}

export interface Match {
  "after"?: Array<string> | null;
  "afterB64"?: Array<string>;
  "before"?: Array<string> | null;
  "beforeB64"?: Array<string>;
  "column": number;
  "cut"?: boolean;
  "line": number;
  "path": string;
  /** the bytes, if they are not UTF-8 */
  "pathB64"?: string;
  "text": string;
  /** the bytes, if they are not UTF-8 */
  "textB64"?: string;
}

export interface Me {
  /** id of the API key; token is the server's token */
  "key": string;
  /** it administers the server and all tenants */
  "operator": boolean;
  "scope": "read" | "run" | "admin";
  /** absent is the server's own */
  "tenant"?: string;
  /** id of the only workspace that it sees, of a share link */
  "workspace"?: string;
}

export interface Metadata {
  "copied"?: boolean;
  "created_at": string;
  "inputs"?: Array<InputRecord> | null;
  "last_access": string;
  "outputs"?: Array<OutputRecord> | null;
  "pending"?: Array<TempPath> | null;
  "prepared"?: Record<string, PreparedRecord>;
  "skills": Record<string, SkillMeta>;
  "updated_at": string;
  "version": number;
}

export interface Metrics {
  /** cores in use since the measurement before */
  "cpu"?: number;
  "cpuTime"?: number;
  "disk"?: number;
  /** of its policy; absent is no limit */
  "limits": MetricsLimits;
  "memory"?: number;
  "pids"?: number;
  "time": string;
}

export interface MetricsLimits {
  /** cores */
  "cpu"?: number;
  /** bytes */
  "disk"?: number;
  /** bytes */
  "memory"?: number;
  "pids"?: number;
}

export interface NetRule {
  "credential"?: string;
  "host": string;
  "methods"?: Array<string> | null;
  "ports"?: Array<number> | null;
  "private"?: boolean;
}

export interface Network {
  "allow"?: Array<NetRule> | null;
  "deny"?: Array<NetRule> | null;
  "open"?: boolean;
}

export interface NetworkChange {
  /** rules that are added; one with the host of an existing rule replaces it */
  "allow"?: Array<NetRule> | null;
  /** hosts whose allow rules are removed */
  "remove"?: Array<string> | null;
}

export interface NewContext {
  "dir"?: string;
  "env"?: Record<string, string>;
  /** default the first language of the workspace */
  "language"?: string;
}

export interface NewKey {
  "createdAt": string;
  /** absent is never */
  "expiresAt"?: string;
  "id": string;
  /** the API key itself, shown once */
  "key": string;
  /** to within a minute */
  "lastUsed"?: string;
  "name"?: string;
  /** until when the text before the last rotation is accepted */
  "previousUntil"?: string;
  "revokedAt"?: string;
  "scope": "read" | "run" | "admin";
  /** absent is the server's own */
  "tenant"?: string;
  /** id of the only workspace that it shows, of a share link */
  "workspace"?: string;
}

export interface NewShare {
  "createdAt": string;
  "expiresAt": string;
  /** of its key */
  "id": string;
  /** to within a minute */
  "lastUsed"?: string;
  /** of the link, below the address of the server */
  "path": string;
  "revokedAt"?: string;
  /** the key, shown once */
  "text": string;
  "workspace": string;
}

export interface Output {
  "data"?: Record<string, string>;
  "kind": string;
  "text"?: string;
}

export interface OutputRecord {
  "globs": Array<string> | null;
  "limits_hit": boolean;
  "saved_as"?: Array<string> | null;
  "ts": string;
  "versions"?: Array<number> | null;
}

export interface Package {
  "dir": string;
  "name": string;
}

export interface PinnedState {
  /** takes the place of a snapshot's id in reading routes, until it is not used for 10 minutes */
  "id": string;
}

export interface Policy {
  "durable"?: boolean;
  "env"?: Record<string, string>;
  "idle"?: number;
  "isolation"?: string;
  "limits"?: { "cpu"?: Limit; "disk"?: Limit; "memory"?: Limit; "openFiles"?: Limit; "pids"?: Limit; "wall"?: Limit };
  "network"?: Network;
  "persist"?: boolean;
  "readOnly"?: boolean;
  "shareDisk"?: boolean;
}

export interface Poll {
  "dropped"?: number;
  "running": boolean;
  "stderr"?: string;
  "stdout"?: string;
}

export interface PreparedRecord {
  "digest"?: string;
  "fingerprint": string;
  "key": string;
  "kind": string;
  "made"?: string;
  "prepared_at": string;
  "seen"?: string;
  "source"?: string;
  "target"?: string;
  "warning"?: string;
}

export interface Problem {
  "error": Wire;
}

export interface Profile {
  "projects": Array<Project> | null;
  "truncated"?: boolean;
  "warnings"?: Array<Warning> | null;
}

export interface Project {
  "build"?: Command;
  "depsDir"?: string;
  "dir": string;
  "ecosystem": string;
  "format"?: Command;
  "install"?: Command;
  "language"?: string;
  "lint"?: Command;
  "members"?: Array<string> | null;
  "name"?: string;
  "packageManager"?: string;
  "packageManagerProof"?: string;
  "proof": string;
  "scopedTest"?: Command;
  "test"?: Command;
  "typecheck"?: Command;
  "warnings"?: Array<Warning> | null;
}

export interface Provider {
  /** why it is unusable here */
  "error"?: Wire;
  "kind": string;
  /** what this host supports */
  "traits"?: Traits;
}

export interface Providers {
  "providers": Array<Provider> | null;
}

export interface Prune {
  /** keep the newest so many of each workspace; 0 is no such rule */
  "keep"?: number;
  /** keep those that are younger, as 72h; empty is no such rule */
  "maxAge"?: string;
  /** only snapshots of this workspace, by id */
  "workspace"?: string;
}

export interface Quota {
  /** absent is no quota */
  "max"?: number;
  /** absent is not counted */
  "used"?: number;
}

export interface Ready {
  "checks": Array<ReadyCheck> | null;
  "ready": boolean;
}

export interface ReadyCheck {
  /** the server is ready without it */
  "advisory"?: boolean;
  /** database, provider, disk, replica, background, stuck-workspaces, or draining */
  "name": string;
  "ok": boolean;
}

export interface RecordInputBody {
  "output": OutputRecord;
}

export interface Refusal {
  "host": string;
  "reason": string;
}

export interface Replica {
  /** URL at which other replicas reach it */
  "address": string;
  /** end of its lease; in the past, since when it is lost */
  "expires": string;
  /** when it was started */
  "joined": string;
  /** whether its lease has not run out */
  "live": boolean;
  "node": string;
}

export interface Replicas {
  "replicas": Array<Replica> | null;
}

export interface Report {
  "objects": number;
  "packs": number;
  "problems": Array<Flaw> | null;
  "snapshots": number;
  "unneeded": number;
}

export interface Result {
  "autorunChanges"?: Array<string> | null;
  "autorunWarnings"?: Array<string> | null;
  "callbackErrors"?: Array<string> | null;
  "cause"?: string;
  "duration": number;
  "exitCode": number;
  "privateCommits"?: Array<string> | null;
  "refused"?: Array<Refusal> | null;
  "session"?: string;
  "signal"?: string;
  "stderr"?: string;
  "stderrDropped"?: number;
  "stdout"?: string;
  "stdoutDropped"?: number;
  "usage"?: Usage;
}

export interface RevertOptions {
  /** id or name of a snapshot, since which changes count; empty is what the workspace started from */
  "from"?: string;
  /** for paths of files, the hunks that are reverted, counted from 1 in /diff with the default context */
  "hunks"?: Record<string, Array<number> | null>;
  /** changed paths that are reverted whole */
  "paths"?: Array<string> | null;
  /** the changes that were shown, so that nothing else is reverted: by path, new.digest or new.target of /diff, empty for what was removed; if they differ now, the answer is 412 */
  "shown"?: Record<string, string>;
}

export interface Reverted {
  /** that were changed */
  "paths": Array<string> | null;
  /** id of the snapshot of the state before */
  "undo": string;
}

export interface RotateRequest {
  /** a duration such as 90d or 12h; absent keeps the expiry */
  "expires"?: string;
  /** how long the previous text is accepted, such as 1h or 7d; absent is not at all */
  "overlap"?: string;
}

export interface SessionInfo {
  "argv"?: Array<string> | null;
  "dir"?: string;
  "id": string;
  "labels"?: Record<string, string>;
  "logDropped"?: number;
  "pid"?: number;
  "result"?: Result;
  "running": boolean;
  "script"?: string;
  "started": string;
  "tty"?: boolean;
}

export interface SessionRef {
  "agent"?: string;
  "id"?: string;
  "user"?: string;
}

export interface Sessions {
  "sessions": Array<SessionInfo> | null;
}

export interface Share {
  "createdAt": string;
  "expiresAt": string;
  /** of its key */
  "id": string;
  /** to within a minute */
  "lastUsed"?: string;
  "revokedAt"?: string;
  "workspace": string;
}

export interface ShareRequest {
  /** a duration such as 12h or 7d, 30d at most; absent is 24h */
  "expires"?: string;
}

export interface Shares {
  "shares": Array<Share> | null;
}

export interface Side {
  "digest"?: string;
  "mode": number;
  "size": number;
  "target"?: string;
  "type": string;
}

export interface Signal {
  /** its name, such as SIGINT */
  "signal": string;
}

export interface Size {
  "cols": number;
  "rows": number;
}

export interface SkillMeta {
  "digest": string;
  "mounted": boolean;
  "name": string;
  "rel_path": string;
  "staged_at": string;
}

export interface Skip {
  "path": string;
  /** the bytes, if they are not UTF-8 */
  "pathB64"?: string;
  "reason": string;
}

export interface SnapshotInfo {
  "bytes": number;
  "created": string;
  "credentials"?: Array<string> | null;
  "digest": string;
  "files": number;
  "frozen": boolean;
  "id": string;
  "labels"?: Record<string, string>;
  "memory"?: boolean;
  "missing"?: Array<Skip> | null;
  "missingTotal"?: number;
  "name"?: string;
  "order"?: number;
  "providerId": string;
  "session"?: string;
  "skipped"?: number;
  "skippedPaths"?: Array<string> | null;
  "workspace": string;
}

export interface SnapshotRequest {
  /** fail if a file can't be read, instead of listing it under missing */
  "complete"?: boolean;
  /** patterns in the manner of .gitignore, to leave out */
  "ignore"?: Array<string> | null;
  "labels"?: Record<string, string>;
  "name"?: string;
}

export interface Snapshots {
  "snapshots": Array<SnapshotInfo> | null;
}

export interface Source {
  "credentials"?: boolean;
  "crossSession"?: boolean;
  "live"?: boolean;
  "snapshot"?: string;
  "template"?: string;
}

export interface Spec {
  "config"?: unknown;
  "dir"?: string;
  "from"?: Source;
  "id"?: string;
  "kind"?: string;
  "labels"?: Record<string, string>;
  "name"?: string;
  "policy"?: Policy;
  "session"?: SessionRef;
  "want"?: Record<string, boolean>;
}

export interface StagingMetadata {
  "metadata"?: Metadata;
}

export interface Stats {
  "added": number;
  "linesAdded": number;
  "linesRemoved": number;
  "mode": number;
  "modified": number;
  "removed": number;
  "renamed": number;
}

export interface TakeSnapshot {
  /** fail if a file can't be read, instead of listing it under missing */
  "complete"?: boolean;
  /** patterns in the manner of .gitignore, to leave out */
  "ignore"?: Array<string> | null;
  "labels"?: Record<string, string>;
  "name"?: string;
  /** processes and memory, too, where the provider can */
  "processes"?: boolean;
}

export interface TempPath {
  "done"?: boolean;
  "old"?: boolean;
  "path": string;
  "target": string;
}

export interface Template {
  "bytes": number;
  "created": string;
  "digest": string;
  "files": number;
  "layers"?: Array<Layer> | null;
  "leftOut"?: Array<string> | null;
  "log"?: Array<LogLine> | null;
  "name": string;
  "snapshot": string;
  "source": string;
  "tenant"?: string;
}

export interface TemplateRequest {
  /** credential files of a directory, such as .env, too */
  "credentials"?: boolean;
  /** a directory of the server's host, as a path from its root */
  "dir"?: string;
  /** a git repository of the server's host */
  "git"?: string;
  /** patterns in the manner of .gitignore, to leave out */
  "ignore"?: Array<string> | null;
  /** an OCI layout or tarball of the server's host, or the name of an image in a registry */
  "image"?: string;
  "name": string;
  /** of the repository; empty is HEAD */
  "revision"?: string;
  /** id of a snapshot */
  "snapshot"?: string;
}

export interface Templates {
  "templates": Array<Template> | null;
}

export interface Tenant {
  /** requests and streams that this server has open */
  "connections": Quota;
  /** cores: the sum of the limits of its workspaces */
  "cpu": Quota;
  /** bytes, likewise */
  "disk": Quota;
  /** bytes, likewise */
  "memory": Quota;
  "requestsPerSecond": Quota;
  /** empty is the server's own, which has no quotas */
  "tenant": string;
  "workspaces": Quota;
}

export interface Tenants {
  "tenants": Array<Tenant> | null;
}

export interface TextConflict {
  "base": Array<string> | null;
  "line": number;
  "ours": Array<string> | null;
  "theirs": Array<string> | null;
}

export interface Traits {
  "copyOnWrite"?: string;
  "damaged"?: string;
  "durability": string;
  "inPlace": boolean;
  "isolatedBy": Enforcement;
  "isolation": string;
  "limits": { "cpu"?: Enforcement; "disk"?: Enforcement; "memory"?: Enforcement; "openFiles"?: Enforcement; "pids"?: Enforcement; "wall"?: Enforcement };
  "maxDisk"?: number;
  "network": string;
  "networkBy": Enforcement;
  "readOnly": Enforcement;
  "root"?: string;
  "sessionsEnd"?: boolean;
  "streaming": boolean;
}

export interface Usage {
  "maxRSS"?: number;
  "system"?: number;
  "user"?: number;
}

export interface Version {
  "api": string;
  "version": string;
}

export interface Warning {
  "file": string;
  "message": string;
}

export interface Wire {
  "cause"?: string;
  "code": string;
  "hints"?: Array<Hint> | null;
  "kind": string;
  "message": string;
  "transient"?: boolean;
}

export interface Workspace {
  /** failed tries to open it */
  "attempts"?: number;
  /** modules that it has, once it was opened */
  "capabilities"?: Record<string, boolean>;
  "createdAt": string;
  /** directory of the server's host that is used in place */
  "dir"?: string;
  /** when it ends, used or not; absent is never */
  "endAt"?: string;
  /** why it is in the state failed */
  "error"?: Wire;
  /** optional operations that it has; in answers to open and acquire */
  "functions"?: Array<string> | null;
  "id": string;
  "kind": string;
  "labels"?: Record<string, string>;
  /** of code, the default first; a last * says that there may be more; in answers to open and acquire */
  "languages"?: Array<string> | null;
  "lastUsed"?: string;
  /** what it uses now; in a list with metrics=true */
  "metrics"?: Metrics;
  "name"?: string;
  /** replica that owns it, in a cluster */
  "node"?: string;
  /** pause if it is paused then; absent is destroyed */
  "onEnd"?: string;
  "owner"?: string;
  "policy": Policy;
  /** grows with every change of policy */
  "revision"?: number;
  /** created through E2B's API, so that E2B's SDKs can connect to it */
  "sandbox"?: boolean;
  /** of scripts, likewise */
  "scriptLanguages"?: Array<string> | null;
  /** id of the snapshot that it started from */
  "snapshot"?: string;
  "state": string;
  /** name of the template that it started from */
  "template"?: string;
  /** absent is the server's own */
  "tenant"?: string;
  /** what is enforced, and by what; in answers to open and acquire */
  "traits"?: Traits;
  "updatedAt": string;
}

export interface WorkspaceArtifact {
  "created_at": string;
  "mime_type": string;
  "name": string;
  "size_bytes": number;
  "version": number;
  /** id of the workspace, which may be gone */
  "workspace": string;
}

export interface WorkspaceArtifacts {
  "artifacts": Array<WorkspaceArtifact> | null;
}

export interface Workspaces {
  "workspaces": Array<Workspace> | null;
}

export interface WriteResult {
  "brokeLinks"?: boolean;
  "created"?: boolean;
  "digest": string;
  "info": Info;
}
