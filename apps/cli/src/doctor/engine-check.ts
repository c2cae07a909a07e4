import { printable } from '../output/printable.ts';
import type { DroneView } from '../views.ts';
import { unsure, well, wrong, type Finding } from './finding.ts';

/** Whether a drone with programs that are containers reaches its engine. Lost and stopped drones are left out. */
export function engineFindings({
  droneId,
  status,
  programs,
  engine,
}: Pick<DroneView, 'droneId' | 'status' | 'programs' | 'engine'>): Finding[] {
  const images = programs.flatMap(({ image }) => (image === undefined ? [] : [image]));
  if (status === 'lost' || status === 'stopped' || images.length === 0) return [];
  const subject = `container engine of ${printable(droneId)}`;
  if (engine === null) {
    return [unsure(subject, 'the drone has not asked it yet', 'Ask again in a few seconds.')];
  }
  return engine.problem === null
    ? [well(subject, `answers; needed for ${String(images.length)} programs`)]
    : [
        wrong(
          subject,
          printable(engine.problem),
          'Start Docker or Podman there, or correct `engine.socket` in the configuration of the drone. Its containers that run are not affected.',
        ),
      ];
}
