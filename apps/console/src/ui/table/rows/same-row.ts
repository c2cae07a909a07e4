/** When a row was read. It changes with every read, and is shown only until the database's time is known. */
const READ_AT = 'asOf';

/** Whether two readings of a row show the same. What did not change between reads keeps its identity. Pure. */
export function isSameRow(before: unknown, after: unknown): boolean {
  if (Object.is(before, after)) return true;
  if (!isRecord(before) || !isRecord(after)) return false;
  const names = Object.keys(after);
  return (
    names.length === Object.keys(before).length &&
    names.every((name) => name === READ_AT || Object.is(before[name], after[name]))
  );
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
