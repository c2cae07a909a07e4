import type { Connect, History, Violation } from '../history.ts';
import { groupedBy } from './grants.ts';

/** I14: a key that did not move has one home, and all callers were led to it. */
export function checkHomes({ homes, operations, endedAtMs }: History): Violation[] {
  const violations: Violation[] = [];
  for (const [key, places] of groupedBy(homes, (home) => home.key)) {
    const names = new Set(places.map(({ datacenter }) => datacenter));
    if (names.size <= 1) continue;
    const text = `${key} lives in ${[...names].join(' and ')}`;
    violations.push({ invariant: 'I14', atMs: endedAtMs, text });
  }
  const home = new Map(homes.map(({ key, datacenter }) => [key, datacenter]));
  const connects = operations.filter((one): one is Connect => one.kind === 'connect');
  for (const { resource, answer, repliedAtMs } of connects) {
    const wanted = home.get(resource);
    if (answer.outcome !== 'connected' || wanted === undefined) continue;
    if (answer.datacenter === wanted) continue;
    const text = `${resource} lives in ${wanted}, and was connected in ${answer.datacenter}`;
    violations.push({ invariant: 'I14', atMs: repliedAtMs, text });
  }
  return violations;
}
