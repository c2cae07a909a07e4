/** How the programs of a drone are isolated from the drone itself, as far as its machine allows it. */
export interface DroneIsolation {
  /** `own`: each program runs as a user of its own. `shared`: as the drone's user. */
  readonly user: 'own' | 'shared';
  readonly pidNamespace: boolean;
  readonly privateProc: boolean;
  /** The drone's folders are hidden from programs. */
  readonly hiddenHome: boolean;
  readonly noNewPrivs: boolean;
  /** What is missing, limits of what programs use included, in words; or {@link NOTHING_MISSING}. */
  readonly detail: string;
}

/** The `detail` of a drone whose machine provides everything. Part of the HTTP API: it never changes. */
export const NOTHING_MISSING = 'nothing is missing';

/** Whether the machine provides everything that a drone can use. */
export function isFullyIsolated(isolation: DroneIsolation): boolean {
  const { user, pidNamespace, privateProc, hiddenHome, noNewPrivs, detail } = isolation;
  const isComplete = user === 'own' && pidNamespace && privateProc && hiddenHome && noNewPrivs;
  // Limits are no field: controllers of the version before would refuse one.
  return isComplete && detail === NOTHING_MISSING;
}
