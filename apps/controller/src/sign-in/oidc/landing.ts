/**
 * The path and query of an address of the console, as a browser would go there; `/` if the browser
 * would leave it: a path that begins with two slashes names another host. `/.//host` begins so too,
 * once it is read as an address.
 */
export function landingOf({ pathname, search }: URL): string {
  return /^\/[/\\]|\/\.\/\//u.test(pathname) ? '/' : `${pathname}${search}`;
}

/** Whether a path, read as a browser reads it, stays what it is: one within the console. */
export function isOwnPath(path: string): boolean {
  const base = 'http://console.invalid';
  if (!path.startsWith('/') || !URL.canParse(path, base)) return false;
  const url = new URL(path, base);
  return url.origin === base && landingOf(url) === `${url.pathname}${url.search}`;
}
