/**
 * A URL as it may be printed: without its password. A parameter or a fragment may hold one too, so these are left
 * out. A text that is no URL is not repeated.
 */
export function shownUrl(text: string): string {
  if (!URL.canParse(text)) return '(not a URL)';
  const url = new URL(text);
  if (url.password !== '') url.password = '***';
  if (url.search !== '') url.search = '?…';
  url.hash = '';
  const shown = url.href.replace('?%E2%80%A6', '?…');
  return text.endsWith('/') ? shown : shown.replace(/\/$/u, '');
}
