import type { AuthOutcome, AuthRefusal } from './auth.ts';

/** What a person is told about a sign-in that failed. */
export interface SignInProblem {
  readonly text: string;
  /** What an operator looks for in the controller's log. */
  readonly incidentId?: string;
  /** When the problem ends by itself, and how long that takes, counted from the answer. */
  readonly until?: { readonly at: string; readonly inMs: number | null };
}

const REFUSALS: Readonly<Record<string, string>> = {
  INVALID_EMAIL_OR_PASSWORD: 'The e-mail address or the password is wrong.',
  INVALID_PASSWORD: 'The current password is wrong.',
  INVALID_INVITATION:
    'This link has been used, was replaced by a newer one, or has expired. Ask an administrator for a new one.',
  INVALID_ORIGIN:
    'The controller does not know the address at which this console was opened. Open it at the configured one (LEASEHOLD_CONSOLE_ORIGIN).',
  OIDC_UNREACHABLE: 'The identity provider cannot be reached. Try again, or use a password.',
  'request.rate_limited': 'Too many tries from this address. Wait a minute, then try again.',
  'request.deadline': 'The identity provider did not answer in time. Try again, or use a password.',
  'request.unreachable': 'No controller answers, so nobody can sign in. Nothing was sent.',
  'request.outcome_unknown':
    'The connection to the controller was lost before it answered. Try again.',
  network: 'The console cannot be reached. Check the connection, then try again.',
};

/** A refused sign-in in words, which are the same whether or not the person exists. */
export function problemOf(refusal: AuthRefusal): SignInProblem {
  const { code, message, details } = refusal;
  if (code === 'ACCOUNT_LOCKED') return lockedProblem(refusal);
  const { incidentId } = details;
  return {
    text: REFUSALS[code] ?? message,
    ...(typeof incidentId === 'string' ? { incidentId } : {}),
  };
}

function lockedProblem({ details, answeredAtMs }: AuthRefusal): SignInProblem {
  const { lockedUntil } = details;
  const text = 'Too many failed sign-ins. Sign-in with this address is locked.';
  if (typeof lockedUntil !== 'string') return { text };
  const inMs = answeredAtMs === null ? null : Math.max(0, Date.parse(lockedUntil) - answeredAtMs);
  return { text, until: { at: lockedUntil, inMs } };
}

/** Codes of an act that may have been done although no answer said so. */
const UNKNOWN: readonly string[] = ['network', 'request.outcome_unknown'];

/** Why somebody who wanted to sign out still has a session; undefined once it has ended. */
export function stillSignedInText(answer: AuthOutcome): string | undefined {
  // A session that has already ended is the wanted result.
  if (answer.outcome === 'done' || answer.code === 'auth.required') return undefined;
  const are = UNKNOWN.includes(answer.code) ? 'may still be' : 'are still';
  return `You ${are} signed in: ${problemOf(answer).text}`;
}
