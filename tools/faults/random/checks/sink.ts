import type { History, Violation } from '../history.ts';

/** I3: a fenced sink accepts no smaller token, and nothing that was acknowledged is lost. */
export function checkSink({ sink, writes, endedAtMs }: History): Violation[] {
  const violation = (text: string): Violation => ({ invariant: 'I3', atMs: endedAtMs, text });
  const tokens = sink.map((entry) => BigInt(entry.split(':')[0] ?? ''));
  const smaller = tokens.flatMap((token, index) => {
    const former = tokens[index - 1] ?? 0n;
    if (token >= former) return [];
    return [violation(`the sink accepted ${String(token)} after ${String(former)}`)];
  });
  const kept = new Set(sink);
  const lost = writes.filter(({ outcome, entry }) => outcome === 'accepted' && !kept.has(entry));
  const revived = writes.filter(({ outcome, entry }) => outcome === 'refused' && kept.has(entry));
  return [
    ...smaller,
    ...lost.map(({ entry }) => violation(`${entry} was acknowledged and is gone`)),
    ...revived.map(({ entry }) => violation(`${entry} was refused and is there`)),
  ];
}
