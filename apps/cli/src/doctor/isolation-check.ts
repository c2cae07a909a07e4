import { printable } from '../output/printable.ts';
import type { DroneView } from '../views.ts';
import { unsure, wrong, type Finding } from './finding.ts';

/** What a machine does not provide to keep programs from the drone. Lost drones are left out. */
export function isolationFindings({
  droneId,
  status,
  isolation,
}: Pick<DroneView, 'droneId' | 'status' | 'isolation'>): Finding[] {
  const subject = `isolation of ${printable(droneId)}`;
  if (status === 'lost') return [];
  if (isolation === null) {
    return [unsure(subject, 'the drone does not report it', 'Upgrade the drone.')];
  }
  const { user, privateProc, pidNamespace, hiddenHome, noNewPrivs, detail } = isolation;
  const isComplete = user === 'own' && pidNamespace && privateProc && hiddenHome && noNewPrivs;
  // Limits of what backends use are no part of the isolation, and are missing in words only.
  if (isComplete && !detail.startsWith('missing')) return [];
  if (user === 'shared' && !(privateProc && hiddenHome)) {
    return [
      wrong(
        subject,
        `its programs can read its token; ${printable(detail)}`,
        'Run it as root, or where user namespaces are allowed. See "Isolation" in docs/deployment.md.',
      ),
    ];
  }
  return [unsure(subject, printable(detail), 'See "Isolation" in docs/deployment.md.')];
}
