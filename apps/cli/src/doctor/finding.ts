/** What the doctor says about one thing. `unsure` is worth reading, but needs no correction. */
export interface Finding {
  readonly subject: string;
  readonly state: 'well' | 'unsure' | 'wrong' | 'skipped';
  readonly text: string;
  /** What to do; always present when something is wrong. */
  readonly advice?: string | undefined;
  /** Of a controller: none answers there. */
  readonly isUnreachable?: true;
}

export function well(subject: string, text: string): Finding {
  return { subject, state: 'well', text };
}

export function unsure(subject: string, text: string, advice: string): Finding {
  return { subject, state: 'unsure', text, advice };
}

export function wrong(subject: string, text: string, advice: string): Finding {
  return { subject, state: 'wrong', text, advice };
}

/** Wrong, because no controller answers. */
export function unreached(subject: string, text: string, advice: string): Finding {
  return { ...wrong(subject, text, advice), isUnreachable: true };
}

export function skipped(subject: string, text: string): Finding {
  return { subject, state: 'skipped', text };
}
