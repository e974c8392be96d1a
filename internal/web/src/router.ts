import { useEffect, useState } from "preact/hooks";

/** Where the page is: the parts of the path after #, and its query. */
export interface Route {
  parts: string[];
  query: URLSearchParams;
}

function parse(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean);
  return {
    parts: parts.map((p) => {
      try {
        return decodeURIComponent(p);
      } catch {
        return p;
      }
    }),
    query: new URLSearchParams(query),
  };
}

export function useRoute(): Route {
  const [route, set] = useState(parse);
  useEffect(() => {
    const f = () => set(parse());
    addEventListener("hashchange", f);
    return () => removeEventListener("hashchange", f);
  }, []);
  return route;
}

export function href(...parts: string[]): string {
  return "#/" + parts.map(encodeURIComponent).join("/");
}

export function withQuery(base: string, query: Record<string, string | undefined>): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query)) if (v) q.set(k, v);
  const text = q.toString();
  return text ? `${base}?${text}` : base;
}

export function go(to: string): void {
  location.hash = to.replace(/^#/, "");
}

/** Changes the address without a step in the history. */
export function replace(to: string): void {
  history.replaceState(null, "", to);
  dispatchEvent(new HashChangeEvent("hashchange"));
}
