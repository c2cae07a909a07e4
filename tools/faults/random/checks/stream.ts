import { LOCAL, type History, type StreamRead, type Violation } from '../history.ts';

/** I12: each reader gets every event, once, in order, over all its connections. */
export function checkStreams({ events, streams, endedAtMs }: History): Violation[] {
  const known = new Map(
    events.filter(({ datacenter }) => datacenter === LOCAL).map(({ id, kind }) => [id, kind]),
  );
  return streams.flatMap((stream) =>
    problemsOf(stream, known).map((text) => ({
      invariant: 'I12' as const,
      atMs: endedAtMs,
      text: `${stream.reader}: ${text}`,
    })),
  );
}

function problemsOf(stream: StreamRead, known: ReadonlyMap<number, string>): string[] {
  const { ids, fromId, throughId } = stream;
  const got = new Set(ids);
  const wanted = [...known.keys()].filter((id) => id >= fromId && id <= throughId);
  const missing = wanted.filter((id) => !got.has(id));
  const unknown = ids.filter((id) => !known.has(id));
  const backIndex = ids.findIndex((id, index) => id <= (ids[index - 1] ?? -Infinity));
  const problems: string[] = [];
  if (missing.length > 0) problems.push(`misses ${listOf(missing)}: ${kindsOf(missing, known)}`);
  if (unknown.length > 0) problems.push(`has ${listOf(unknown)}, which nobody committed`);
  if (backIndex !== -1) {
    problems.push(`has ${String(ids[backIndex])} after ${String(ids[backIndex - 1])}`);
  }
  return problems;
}

function kindsOf(ids: readonly number[], known: ReadonlyMap<number, string>): string {
  return [...new Set(ids.map((id) => known.get(id) ?? ''))].join(', ');
}

const SHOWN_MAX = 5;

function listOf(ids: readonly number[]): string {
  const shown = ids.slice(0, SHOWN_MAX).join(', ');
  return ids.length > SHOWN_MAX ? `${shown} and ${String(ids.length - SHOWN_MAX)} more` : shown;
}
