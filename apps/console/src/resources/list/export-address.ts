/** The address of a list as a file, with the filters that are in force. Pure. */
export type ExportedList = 'keys' | 'leases' | 'environments' | 'reservations' | 'events' | 'audit';

/** The input for one page of a list, which is not a filter. */
const NO_FILTERS = ['cursor', 'limit'];

/** `/export/keys?format=csv&prefix=room-`. `input` is the input of the list's procedure. */
export function exportAddress(
  list: ExportedList,
  format: 'csv' | 'json',
  input: Readonly<Record<string, unknown>>,
): string {
  const params = new URLSearchParams({ format });
  for (const [field, value] of Object.entries(input)) {
    if (value === undefined || value === null || NO_FILTERS.includes(field)) continue;
    params.set(field, textOf(value));
  }
  return `/export/${list}?${params.toString()}`;
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.join(',');
  return typeof value === 'string' ? value : JSON.stringify(value);
}
