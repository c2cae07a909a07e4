/**
 * Whether a text is an instant as our pages write it in their cursors, and so one that PostgreSQL
 * can read; `Date.parse` alone accepts much that PostgreSQL does not.
 */
export function isPageInstant(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u.test(text)) return false;
  const ms = Date.parse(text);
  // PostgreSQL has no year 0; a day such as February 30 is parsed as another day.
  return !Number.isNaN(ms) && !text.startsWith('0000') && new Date(ms).toISOString() === text;
}
