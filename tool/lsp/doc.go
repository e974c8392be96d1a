// Package lsp asks language servers about code: where something is defined, who
// uses it, what it is, what is wrong with it, and how to rename it everywhere.
//
// # Servers
//
// A [Set] has the servers of one workspace, one for each language that was asked
// about: gopls, pyright or pylsp, typescript-language-server, rust-analyzer and
// clangd, chosen by the name of the file. They run inside the workspace, behind
// its fence, like any other command, so they must be visible there: in the
// sandbox that is what is below /usr and /opt on the host. Each is started at the
// first question and ends when nobody has asked for a while.
//
// A server that dies is started anew by the next question, which is then asked
// once more; one that dies again and again is left alone for a growing while.
//
// # In step
//
// A server must see the files as they are. Before each question every file that
// it has open is compared with the workspace and, where it changed, sent again;
// what changed elsewhere is told by a watch, and by [Set.Touch] for the edits of
// tools, which can't wait for one. So positions never refer to a text of
// yesterday.
//
// # Positions
//
// The protocol counts in UTF-16 code units, people in characters. Columns here
// are characters, counted from 1, and are converted with the text of the line.
//
// # Renames
//
// [Set.Rename] answers what would change; [Set.Apply] writes it, all or nothing:
// each file only if it still is what the server saw, and where one can't be
// written those before it are put back.
package lsp
