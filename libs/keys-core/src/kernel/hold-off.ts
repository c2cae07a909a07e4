/** What showed that a database was restored, or failed over with loss, in words that follow "because". */
export const HOLD_OFF_CAUSES = {
  /** The system identifier: a dump was restored into another cluster. */
  system_identifier: 'it is another cluster',
  /** The timeline: a standby was promoted, or a backup was recovered to a moment. */
  timeline: 'its timeline has changed',
  /** A process that went on running, or was started again, had seen more in it. */
  controller: 'a controller had seen a later state',
  /** A drone or a client brought back what it had been told. */
  holder: 'a drone or a client had seen a later state',
  /** Another database is where the process had one. */
  replaced: 'another database has taken its place',
} as const;

export type HoldOffCause = keyof typeof HOLD_OFF_CAUSES;
