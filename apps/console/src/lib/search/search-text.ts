/** Changes of a search's text, for menus that stand beside its box. Pure. */

/** `holder:"two words"`: one field as the search language writes it. */
export function fieldText(field: string, value: string): string {
  return /[\s"]/u.test(value) ? `${field}:"${value.replaceAll('"', '')}"` : `${field}:${value}`;
}

/** The search with this field set to a value, or without it; everything else stays. */
export function withField(text: string, field: string, value: string | null): string {
  const without = text
    .replaceAll(new RegExp(`(^|\\s)${field}:(?:"[^"]*"|\\S+)`, 'giu'), '$1')
    .replaceAll(/\s+/gu, ' ')
    .trim();
  if (value === null || value === '') return without;
  return without === '' ? fieldText(field, value) : `${without} ${fieldText(field, value)}`;
}
