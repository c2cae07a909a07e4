/** What apps and other slices may use. */
export { hashPassword, newPassword, PASSWORD_LENGTH, verifyPassword } from './password.ts';
export {
  createSessionAuthority,
  PEOPLE_TOPIC,
  type SessionAuthority,
} from './session-authority.ts';
export { isAdminSignIn } from './sql/sign-in/admin-sign-in.ts';
export {
  insertToken,
  type NewToken,
  readTokensOf,
  type TokenBindings,
  tokensInForce,
  type TokenView,
} from './sql/api-tokens.ts';
export {
  type AuditEntry,
  type AuditFilter,
  type AuditListInput,
  type AuditView,
  countAudit,
  listAudit,
  writeAudit,
} from './sql/audit.ts';
export {
  nextAudit,
  openWebhook,
  readWebhook,
  recordWebhookStep,
  type WebhookState,
} from './sql/webhook.ts';
export {
  bootstrapCredentials,
  type Credentials,
  type DroneBindings,
  makeFirstToken,
  writeFirstCredentials,
} from './sql/sign-in/bootstrap-credentials.ts';
export {
  type AdminSignIn,
  ensureFirstAdmin,
  FIRST_ADMIN_EMAIL,
  makeAdmin,
} from './sql/sign-in/first-admin.ts';
export { type Accepted, acceptInvitation, isInvitationOpen } from './sql/people/invitations.ts';
export {
  bindUnboundAccount,
  hasOidcAccount,
  oidcAccountId,
  oidcPersonId,
  oidcSubjectOf,
  removeAccountOfOtherIssuer,
} from './sql/sign-in/oidc-accounts.ts';
export {
  addPerson,
  changeRole,
  readForRefusal,
  recordSignIn,
} from './sql/people/people-changes.ts';
export { removeOldPeopleRows } from './sql/people/people-retention.ts';
export { findPersonId } from './sql/people/people.ts';
export { readPasswordHash, replacePassword, setPassword } from './sql/people/person-passwords.ts';
export {
  endOtherSessions,
  endSession,
  endSessionsOf,
  personSessionsInForce,
  readSessionEpoch,
  type SessionAccess,
  type Standing,
  SESSION_DAYS_MAX,
} from './sql/people/person-sessions.ts';
export {
  countSignInTry,
  forgetSignInFailures,
  sourceOfTries,
  takeBackSignInTry,
  type TriedAt,
} from './sql/sign-in/sign-in-failures.ts';
export { createTokenAuthority, type TokenAuthority, TOKENS_TOPIC } from './token-authority.ts';
export { newTokenSecret } from './token-secret.ts';
export { createHoldOffService, viewOf } from './hold-off-service.ts';
export { createPeopleService } from './people-service.ts';
export type { Invitation, PeopleService, PersonView } from './people-types.ts';
export { createTokenService } from './token-service.ts';
export type { LimitUse, TokenRequest, TokenService } from './token-types.ts';
