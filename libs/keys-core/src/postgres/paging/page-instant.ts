/**
 * Whether a text is an instant as our pages write it in their cursors, and so one that PostgreSQL
 * reads; `Date.parse` alone takes much that it does not.
 */
export function isPageInstant(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u.test(text)) return false;
  const ms = Date.parse(text);
  // Year 0 is one that PostgreSQL has not; a day such as February 30 reads as another.
  return !Number.isNaN(ms) && !text.startsWith('0000') && new Date(ms).toISOString() === text;
}
