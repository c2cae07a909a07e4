/** Blocking and allowing renewal: an act and its reverse. */

/** One of the two, on any face. */
export type RenewalAct = 'blockRenewal' | 'allowRenewal';

/** The result, for people. */
export function renewalText(act: RenewalAct, name: string, changed: boolean): string {
  if (!changed) {
    const state = act === 'blockRenewal' ? 'blocked' : 'allowed';
    return `Nothing changed: renewal of ${name} was ${state} already, or nobody holds it.`;
  }
  return act === 'blockRenewal'
    ? `${name} is not renewed any more, and will expire.`
    : `${name} may be renewed again.`;
}
