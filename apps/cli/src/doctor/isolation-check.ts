import { isFullyIsolated } from '@leasehold/keys-core';
import { printable } from '../output/printable.ts';
import type { DroneView } from '../views.ts';
import { unsure, wrong, type Finding } from './finding.ts';

/** What a machine does not provide to keep programs from the drone. Lost and stopped drones are left out. */
export function isolationFindings({
  droneId,
  status,
  isolation,
}: Pick<DroneView, 'droneId' | 'status' | 'isolation'>): Finding[] {
  const subject = `isolation of ${printable(droneId)}`;
  if (status === 'lost' || status === 'stopped') return [];
  if (isolation === null) {
    return [unsure(subject, 'the drone does not report it', 'Upgrade the drone.')];
  }
  if (isFullyIsolated(isolation)) return [];
  const { user, privateProc, hiddenHome, detail } = isolation;
  if (user === 'shared' && !(privateProc && hiddenHome)) {
    return [
      wrong(
        subject,
        `its programs can read its token; ${printable(detail)}`,
        'Run it as root, or where user namespaces are allowed. See docs/operate/isolation.md.',
      ),
    ];
  }
  return [unsure(subject, printable(detail), 'See docs/operate/isolation.md.')];
}
