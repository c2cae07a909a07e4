const BASE = 'http://console.invalid';

/** The path, if it is an address of this console; `/` if it could lead elsewhere. */
export function safePath(next: string | null | undefined): string {
  if (!next?.startsWith('/') || !URL.canParse(next, BASE)) return '/';
  const url = new URL(next, BASE);
  // A browser takes `//host` and `/\host` for another site; so does this parser.
  if (url.origin !== BASE || url.pathname.startsWith('//')) return '/';
  if (url.pathname === '/sign-in') return '/';
  return `${url.pathname}${url.search}${url.hash}`;
}
