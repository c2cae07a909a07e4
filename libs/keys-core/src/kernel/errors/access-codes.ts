import type { CodeDraft } from './code-entry.ts';

/** Who may do what. */
export const ACCESS_CODES = {
  'auth.required': {
    http: 401,
    text: 'A valid token is required.',
    doc: 'The token is missing, malformed, unknown, expired or revoked.',
  },
  'auth.forbidden': {
    http: 403,
    text: 'The role of this token does not allow this.',
    doc: 'The message names the role that is needed.',
  },
  'auth.csrf': {
    http: 403,
    text: 'The request does not carry the token of its session.',
    doc: 'A change with the cookie of the console needs the header `x-leasehold-csrf`, with the value from `session.get`. Load the page again.',
  },
  'token.not_found': {
    http: 404,
    text: 'There is no such token.',
    doc: 'See `leasehold tokens ls`.',
  },
  'person.not_found': {
    http: 404,
    text: 'There is no such person.',
    doc: 'See the Access page of the console.',
  },
  'person.exists': {
    http: 409,
    text: 'Somebody with this e-mail address has signed in already.',
    doc: 'Change their role instead of inviting them, or reset their password.',
  },
  'person.not_joined': {
    http: 409,
    text: 'This person has not accepted their invitation yet.',
    doc: 'There is no password to reset. Invite them again, which makes a new link.',
  },
  'person.disabled': {
    http: 409,
    text: 'This person is disabled.',
    doc: 'Enable them first, on the Access page of the console.',
  },
  'person.last_admin': {
    http: 409,
    text: 'This is the last administrator who can sign in.',
    doc: 'Make somebody else an administrator first.',
  },
} as const satisfies Record<`${'auth' | 'token' | 'person'}.${string}`, CodeDraft>;
