// Package page serves the page of croft up: its assets at /, and sign-in with a key, which makes
// a cookie. /page/host tells a browser on the server's host the data directory, for the commands that
// the page shows.
//
// # The cookie
//
// POST /page/session with a key (the server's token, an API key, or the key of a share link)
// answers with a cookie that has the key, encrypted and authenticated with a key of this server
// (AES-256-GCM). A request to /v1, /events or /templates without a key of its own is given the one in the
// cookie, before package rest sees it. So the cookie is worth what the key is worth, at any time:
// a revoked or expired key ends it, streams included, and so do quotas and scopes apply. A
// restarted server accepts the cookies that it made. Signing out records the end of the session in
// the store of keys, until the cookie expires: a copy of it is refused by every replica.
//
// The cookie is __Host-croft: HttpOnly, SameSite=Strict, Secure, without a domain. Browsers
// accept it over TLS and, Chromium and Firefox, on http://localhost and loopback addresses. On a
// server that is reached by plain HTTP under another name (--insecure-http) it would be lost;
// there it is croft-insecure, without Secure.
//
// # Requests of other pages
//
// A request that relies on the cookie must come from the page. Sec-Fetch-Site, where the browser
// sends it, must be same-origin (or none, of a read: the user typed the address). A request that
// may change something needs the header Croft-Page, which no form and no other origin can send,
// and Origin or Sec-Fetch-Site of this origin. A WebSocket needs this Origin. SameSite alone is not
// enough: ports of sandboxes are served on names below the server's, which are the same site.
//
// # Content of sandboxes
//
// Everything else that this origin serves has a Content-Security-Policy that lets nothing run
// (sandbox, default-src 'none') and X-Content-Type-Options: nosniff, so that a file of a workspace
// which is opened as a page of this origin is text or a download. Ports of sandboxes have names of
// their own, see package e2b.
package page
