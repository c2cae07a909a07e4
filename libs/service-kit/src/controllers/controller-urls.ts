/** The addresses of the controllers of one database, as people write them: `https://a,https://b`. */

/** More would only be more to pass over. */
const CONTROLLER_URLS_MAX = 16;

/** The addresses of a list, in its order, without slashes at their ends. */
export function controllerUrlsOf(given: string | readonly string[]): string[] {
  const entries = typeof given === 'string' ? given.split(',') : given;
  return entries.map((entry) => entry.trim().replace(/\/+$/u, ''));
}

/**
 * What is wrong with a list of addresses, and undefined when nothing is. Entries are named by their
 * place in the list and not repeated: an address may hold a password.
 */
export function controllerUrlsProblem(given: string | readonly string[]): string | undefined {
  const urls = controllerUrlsOf(given);
  if (urls.length === 0 || urls.length > CONTROLLER_URLS_MAX) {
    return `must be 1 to ${String(CONTROLLER_URLS_MAX)} addresses of controllers`;
  }
  const wrong = urls.findIndex((url) => !isControllerUrl(url));
  if (wrong >= 0) {
    const what = urls.length === 1 ? 'must be' : `entry ${String(wrong + 1)} of the list must be`;
    return `${what} an http:// or https:// URL, without a query; several are separated by commas`;
  }
  const again = urls.findIndex((url, index) => urls.indexOf(url) < index);
  if (again >= 0) return `entry ${String(again + 1)} of the list is a duplicate`;
  return undefined;
}

function isControllerUrl(text: string): boolean {
  // A host name may contain a comma, so two addresses in one entry of an array would pass as one.
  if (text.includes(',') || !URL.canParse(text)) return false;
  const { protocol, search, hash } = new URL(text);
  return ['http:', 'https:'].includes(protocol) && search === '' && hash === '';
}
