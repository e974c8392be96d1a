// Package lsp queries language servers about code: definitions, references, hover text,
// symbols, diagnostics and renames.
//
// # Servers
//
// A [Set] has the servers of one workspace, one for each language that was used: gopls,
// pyright or pylsp, typescript-language-server, rust-analyzer and clangd, chosen by the
// file extension. They run inside the workspace with its isolation, like any other command,
// so they must be visible there: in the sandbox that means below /usr or /opt on the host.
// A server is started by the first request and stopped when it is idle.
//
// A server that dies is restarted by the next request, which is then sent once more; after
// repeated deaths the restart is delayed by a backoff.
//
// # In step
//
// A server must see the present files. Before each request every file that is open in the
// server is compared with the workspace and, if it changed, sent again. Other changes are
// reported by a file watch, and by [Set.NotifyChanged] for the edits of tools, which can't
// wait for the watch. So positions never refer to an old text.
//
// # Positions
//
// The protocol counts columns in UTF-16 code units. Columns in this package are characters,
// counted from 1; they are converted with the text of the line.
//
// # Complete answers
//
// Some servers answer from the files that they have loaded. Before [Set.References] and
// [Set.Rename] the name is searched as a whole word, and the files that have it are opened in
// such a server. [Mentions] are the places that remain.
//
// # Renames
//
// [Set.Rename] returns the edits of a rename. [Set.Apply] writes them, all or none: a file
// is written only if it is unchanged since the server read it, and after a failure the
// files already written are restored.
package lsp
